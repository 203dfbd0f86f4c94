"""Bisection: whatever changed once is found, whatever cannot be tested; which versions stand between two others."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab import bisecting
from kernel_lab.bisecting import Found, Version


def found(answers: Sequence[bool | None]) -> tuple[Found, list[int]]:
    asked: list[int] = []

    def changed(index: int) -> bool | None:
        asked.append(index)
        return answers[index]

    return bisecting.search(len(answers), changed), asked


@given(st.integers(0, 40), st.integers(0, 40), st.sets(st.integers(0, 39)))
def test_the_first_change_is_found_around_what_cannot_be_tested(count: int, first: int, untested: set[int]) -> None:
    first = min(first, count)
    answers = [None if index in untested else index >= first for index in range(count)]
    result, asked = found(answers)
    tested = [index for index in range(count) if answers[index] is not None]
    assert result.last_good == max((index for index in tested if index < first), default=-1)
    assert result.first_bad == min((index for index in tested if index >= first), default=count)
    between = range(result.last_good + 1, result.first_bad)
    assert result.untested == tuple(between), "all that is left between them could not be tested"
    assert len(asked) == len(set(asked)), "none is asked twice"
    if not untested:
        assert len(asked) <= count.bit_length(), "each answer halves what is left"


def version(name: str, here: bool = False) -> Version:
    return Version(name, f"{name.rpartition('-')[2]}.0.1.2", here)


EVERY = [version("npm-141"), version("debian-150", here=True), version("npm-150", here=True), version("npm-153")]
EVERY += [version("debian-153"), version("npm-131", here=True), version("debian-156", here=True), version("cft-145")]


@pytest.mark.parametrize(
    ("good", "bad", "names"),
    [
        ("npm-131", "debian-156", ["npm-141", "cft-145", "debian-150", "debian-153"]),
        ("debian-156", "npm-141", ["debian-153", "debian-150", "cft-145"]),  # whatever was mended in between
        ("npm-153", "debian-156", []),
        ("npm-153", "debian-153", []),
    ],
)
def test_one_of_each_version_stands_between_two(good: str, bad: str, names: list[str]) -> None:
    """Here before elsewhere, then Debian's before npm's."""
    between = bisecting.between(version(good, here=True), version(bad, here=True), EVERY, ["debian", "npm"])
    assert [one.name for one in between] == names


def test_what_is_here_is_not_offered_once_more() -> None:
    every = bisecting.offered({"npm": {141: "141.0.0", 131: "131.0.1"}, "debian": {}}, [version("npm-131", here=True)])
    assert [(one.name, one.here) for one in every] == [("npm-131", True), ("npm-141", False)]
