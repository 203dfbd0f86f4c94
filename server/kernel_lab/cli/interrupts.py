"""Ctrl-C that is not lost: Python forgets a KeyboardInterrupt that it raises inside a weak reference's callback."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def heeded() -> Iterator[Callable[[], None]]:
    """While it lasts, calling what it gives raises the KeyboardInterrupt that was asked for earlier and is still due.
    Where Ctrl-C means something else than that, it goes on to mean it.
    """
    asked = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.default_int_handler(number, frame)

    def check() -> None:
        if asked:
            raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield check
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
