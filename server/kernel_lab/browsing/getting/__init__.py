"""Where browsers can be got, and the names of what is got: SOURCE-MAJOR, like npm-153, or SOURCE-CHANNEL.

A new source is one class (see source.py) in a module of its own, and its entry in SOURCES. A new version is no line at
all: each source is asked what it offers.
"""

import re

from kernel_lab.browsing.getting.debian import Debian
from kernel_lab.browsing.getting.npm import Npm
from kernel_lab.browsing.getting.source import Source, Version
from kernel_lab.browsing.getting.testing import ChromeForTesting
from kernel_lab.errors import LabError

SOURCES: tuple[Source, ...] = (Debian(), Npm(), ChromeForTesting())


def named(name: str) -> tuple[Source, Version]:
    """The source of a name, and the major version or the channel. LabError says which names there are."""
    front, _, version = name.rpartition("-")
    for source in SOURCES:
        if source.name == front and version in source.channels:
            return source, version
        if source.name == front and re.fullmatch(r"\d{1,4}", version):
            return source, int(version)
    names = ", ".join(["lavapipe", *known()])
    raise LabError(
        f"{name!r} cannot be installed; known: {names}. `kernel-lab browsers list --available` asks the "
        "sources which MAJOR versions they have."
    )


def known() -> dict[str, str]:
    """The names that can be asked for, and what each is, in words for people."""
    names = {}
    for source in SOURCES:
        names[f"{source.name}-MAJOR"] = source.what
        if source.channels:
            names[f"{source.name}-{'|'.join(source.channels)}"] = "the same, the newest of that channel"
    return names


def channels() -> list[str]:
    """The names that stay the same from one version to the next."""
    return [f"{source.name}-{channel}" for source in SOURCES for channel in source.channels]
