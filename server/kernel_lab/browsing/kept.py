"""The browsers that kernel-lab has got, in its cache folder: which they are, and how one is added whole or not at all.

In: the cache folder. Out: `Kept`s. Starts nothing. A browser's folder has its name; its stamp is written last.
"""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_lab.browsing import mesa
from kernel_lab.browsing.mesa import STAMP
from kernel_lab.judging.journal import cache_folder

FORMAT = 1
NEEDED_BYTES = 700_000_000
LIBRARIES = "libraries"
"""Beside a program: those that came with it, for systems that lack them."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A browser that was got from `source`; `version`: what the program says; `channel`: of which it was the newest."""

    source: str
    program: Path
    version: str
    channel: str = ""

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])

    @property
    def name(self) -> str:
        """What it was asked for by."""
        return f"{self.source}-{self.channel or self.major}"


def folder() -> Path:
    return cache_folder() / "browsers"


def every() -> list[Kept]:
    """All that are complete: by source, the newest first."""
    read = [_read(stamp.parent) for stamp in folder().glob(f"*/{STAMP}")]
    return sorted(
        (kept for kept in read if kept is not None), key=lambda kept: (kept.source, -kept.major, kept.channel)
    )


def find(name: str) -> Kept | None:
    return next((kept for kept in every() if kept.name == name), None)


@contextlib.contextmanager
def making(name: str) -> Iterator[Path]:
    """An empty folder for a browser; whatever `keep` has not moved away is deleted at the end."""
    partial = folder() / f"{name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        mesa.make_folder(partial, NEEDED_BYTES)
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def keep(partial: Path, made: Kept) -> Kept:
    """Moves a finished browser to its place."""
    program = made.program.relative_to(partial)
    stamp = {"format": FORMAT, "source": made.source, "version": made.version, "program": str(program)}
    stamp |= {"channel": made.channel} if made.channel else {}
    mesa.write_stamp(partial / STAMP, stamp)
    place = partial.with_name(partial.name.removesuffix(".partial"))
    shutil.rmtree(place, ignore_errors=True)
    partial.rename(place)
    return replace(made, program=place / program)


def _read(place: Path) -> Kept | None:
    stamp = mesa.read_stamp(place / STAMP)
    if stamp.get("format") != FORMAT or place.suffix == ".partial":
        return None
    program = place / stamp["program"]
    return Kept(stamp["source"], program, stamp["version"], stamp.get("channel", "")) if program.is_file() else None
