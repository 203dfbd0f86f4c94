"""The one error that people are meant to read: a sentence that says what was given, what is allowed, and what to do
next.
"""


class LabError(Exception):
    """Something outside kernel-lab is not as it must be: a file, a browser, an argument. `str()` is the message."""
