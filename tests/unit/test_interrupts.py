"""Ctrl-C, wherever Python happens to be when it comes."""

import signal
import weakref

import pytest

from kernel_lab.cli.interrupts import heeded


class Thing:
    pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_python_forgets_is_raised_at_the_next_check() -> None:
    thing = Thing()
    with heeded() as check:
        check()
        _ = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
        del thing  # the interrupt is raised in the callback, and printed
        with pytest.raises(KeyboardInterrupt):
            check()


def test_an_interrupt_is_raised_at_once_and_the_handler_is_put_back() -> None:
    with heeded(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_another_handler_stays() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        with heeded() as check:
            signal.raise_signal(signal.SIGINT)
            check()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]
