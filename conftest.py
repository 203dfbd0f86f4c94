"""What tests of several folders share. kernel-lab's own options and fixtures come from its pytest plugin."""

import os
from collections.abc import Callable
from typing import NoReturn

import pytest

COMPLETE = "KERNEL_LAB_COMPLETE_TESTS"


@pytest.fixture(scope="session")
def lacking() -> Callable[[str], NoReturn]:
    """For a test that needs more than README asks of a machine (Python, a Chromium, the lock's packages): called with
    the sentence that says what to install. The test skips, visibly; where KERNEL_LAB_COMPLETE_TESTS is set, as in CI,
    it fails.
    """

    def end(sentence: str) -> NoReturn:
        if os.environ.get(COMPLETE):
            pytest.fail(sentence, pytrace=False)
        pytest.skip(f"{sentence} ({COMPLETE}=1 makes this a failure.)")

    return end
