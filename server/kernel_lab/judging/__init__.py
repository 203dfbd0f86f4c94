"""Verdicts: actual against expected to the bit, the report a person reads, the journal that loses nothing."""
