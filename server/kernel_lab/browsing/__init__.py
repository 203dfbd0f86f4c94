"""Browsers: which one, with which flags, how it is driven, and how a run survives its crashes."""
