"""Where browsers can be got, and the names of what is got: SOURCE-MAJOR, like npm-153.

A new source is one class (see source.py) in a module of its own, and its entry in SOURCES. A new version is no line at
all: each source is asked what it offers.
"""

import re

from kernel_lab.browsing.getting.debian import Debian
from kernel_lab.browsing.getting.npm import Npm
from kernel_lab.browsing.getting.source import Source
from kernel_lab.browsing.getting.testing import ChromeForTesting
from kernel_lab.errors import LabError

SOURCES: tuple[Source, ...] = (Debian(), Npm(), ChromeForTesting())


def named(name: str) -> tuple[Source, int]:
    """The source and the major version of a name. LabError says which names there are."""
    parts = re.fullmatch(r"([a-z]+(?:-[a-z]+)*)-(\d{1,4})", name)
    for source in SOURCES:
        if parts is not None and source.name == parts[1]:
            return source, int(parts[2])
    known = ", ".join(f"{source.name}-MAJOR" for source in SOURCES)
    raise LabError(
        f"{name!r} cannot be installed; known: lavapipe, {known}. `kernel-lab browsers list --available` asks the "
        "sources which MAJOR versions they have."
    )
