"""What a source of browsers is, and what its classes share.

In: a major version, or a channel. Out: an unpacked browser in a folder of the caller's. Starts package managers, never
a browser.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from kernel_lab.browsing import finding
from kernel_lab.browsing.finding import Report, StepFailed
from kernel_lab.errors import LabError

ASK_SECONDS = 60

Version = int | str
"""A major version, or the name of a channel that its source has: what that is today is known when it has been got."""


class Source(Protocol):
    """Where browsers can be got. `name` begins their names; `what` describes it in a few words; `channels`: what else
    than a major version can be asked for, like "beta".
    """

    @property
    def name(self) -> str: ...

    @property
    def what(self) -> str: ...

    @property
    def channels(self) -> tuple[str, ...]: ...

    def offered(self) -> Mapping[int, str]:
        """The newest full version of each major that can be got now; empty where it has no list. Raises LabError."""
        ...

    def get(self, version: Version, folder: Path, report: Report) -> Path:
        """Unpacks the newest of that version into an empty folder; its program's path. Raises LabError."""
        ...


def chosen(source: Source, major: Version) -> str:
    """The full version that the source offers of a major one. LabError says which it has."""
    offered = source.offered()
    if not isinstance(major, int) or major not in offered:
        there = ", ".join(map(str, sorted(offered, reverse=True))) or "none"
        raise LabError(f"{source.name}-{major} is not offered by {source.what}; there are: {there}.")
    return offered[major]


def newest_of_each(versions: Sequence[str]) -> dict[int, str]:
    """Major version: its newest full one, newest major first. What is no released version does not count."""
    released = [version for version in versions if re.fullmatch(r"\d+(\.\d+)+(-\d+~?\w*)?", version)]
    ordered = sorted(released, key=_numbers)
    return dict(reversed({_numbers(version)[0]: version for version in ordered}.items()))


def asked(command: Sequence[str], need: str) -> str:
    """What a program prints. LabError if it is not there (`need`: how to get it) or fails."""
    if shutil.which(command[0]) is None:
        raise LabError(f"{command[0]} is not on PATH: {need}.")
    try:
        done = subprocess.run(
            list(command),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=ASK_SECONDS,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
    except OSError as error:
        raise LabError(f"{command[0]} could not be started: {error.strerror}.") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"`{' '.join(command)}` did not end within {ASK_SECONDS} s: is the network there?") from None
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise LabError(finding.explain(command, done.returncode, lines))
    return done.stdout


def told(command: Sequence[str], need: str, report: Report, folder: Path | None = None) -> None:
    """Runs a program to its end, in `folder`, and reports how it goes on. LabError as above."""
    if shutil.which(command[0]) is None:
        raise LabError(f"{command[0]} is not on PATH: {need}.")
    report(" ".join(command))
    try:
        finding.run_reporting(command[0], command, report, folder=folder)
    except StepFailed as failure:
        raise LabError(str(failure)) from None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))
