"""Bisection: the first of several browsers, in the order of their versions, in which something changed.

In: how many there are between a good and a bad one, and a test of each. Out: a `Found`. Pure but for the test.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Version:
    """A browser that can be had: its name without the adapter, its full version, whether it is here already."""

    name: str
    version: str
    here: bool

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])


@dataclass(frozen=True, slots=True)
class Found:
    """Two neighbours among all that could be tested, by index: -1 is the good end, the number of candidates the bad
    one. `untested`: those between the two, which could not be.
    """

    last_good: int
    first_bad: int
    untested: tuple[int, ...]


def search(count: int, changed: Callable[[int], bool | None]) -> Found:
    """Halves the candidates 0 to count - 1 until two neighbours are left. `changed`: None if one cannot be tested; then
    the nearest that can is taken.
    """
    good, bad = -1, count
    untested: set[int] = set()
    while left := [index for index in range(good + 1, bad) if index not in untested]:
        middle = (good + bad) / 2
        index = min(left, key=lambda index: abs(index - middle))
        answer = changed(index)
        if answer is None:
            untested.add(index)
        elif answer:
            bad = index
        else:
            good = index
    return Found(good, bad, tuple(sorted(index for index in untested if good < index < bad)))


def between(good: Version, bad: Version, every: Iterable[Version], preferred: Sequence[str]) -> list[Version]:
    """One of each major version between the two, in the order from good to bad (which may be the newer one): one that
    is here before others, then by where it comes from, in the order of `preferred`.
    """
    low, high = sorted((good.major, bad.major))
    chosen: dict[int, Version] = {}
    for version in sorted(every, key=lambda one: (not one.here, _rank(one.name, preferred))):
        if low < version.major < high:
            chosen.setdefault(version.major, version)
    ordered = sorted(chosen.values(), key=lambda one: one.major)
    return ordered if good.major <= bad.major else ordered[::-1]


def offered(offers: Mapping[str, Mapping[int, str]], here: Iterable[Version]) -> list[Version]:
    """All that can be had: those that are here, and what sources offer beside them, by the sources' names."""
    there = list(here)
    names = {version.name for version in there}
    every = (
        Version(f"{source}-{major}", version, here=False)
        for source, versions in offers.items()
        for major, version in versions.items()
    )
    return there + [version for version in every if version.name not in names]


def _rank(name: str, preferred: Sequence[str]) -> int:
    source = re.sub(r"-\d+$", "", name)
    return preferred.index(source) if source in preferred else len(preferred)
