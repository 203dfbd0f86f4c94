"""Debugging: from a case that fails to what shows a person why, where it runs."""
