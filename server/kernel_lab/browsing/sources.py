"""The Chromiums that are on this machine, and where each comes from.

In: PATH, $KERNEL_LAB_CHROMIUM, Debian's package database, Playwright's download folder, kernel-lab's own. Out:
`Chromium`s. Each program is asked for its version once; nothing else is started.

Sources: `debian` (Debian's packages), `chrome`, `msedge` and their channels, `playwright` (its downloads), what
getting/ has got (`debian`, `npm`, `chrome-for-testing`), `system` (anything else on PATH, or named by
$KERNEL_LAB_CHROMIUM).
"""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from kernel_lab.browsing import elf, finding, getting, kept
from kernel_lab.errors import LabError

VERSION_SECONDS = 30
_VERSION = re.compile(r"\d+(?:\.\d+){3}")
_DEBIAN_FOLDER = Path("/usr/lib/chromium")
_DEBIAN_PACKAGES = Path("/var/lib/dpkg/info")


@dataclass(frozen=True, slots=True)
class Chromium:
    """An installed Chromium. `executable`: what is started; `program`: the ELF program behind it, in its own folder;
    `channel`: which one's newest version it was when it was got, if it was asked for so.
    """

    source: str
    executable: Path
    program: Path
    version: str
    channel: str = ""

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])

    @property
    def can_show_windows(self) -> bool:
        return "headless" not in self.program.name

    @property
    def name(self) -> str:
        """Its profiles' names without the adapter: `debian-156`, `chrome-for-testing-beta`."""
        return f"{self.source}-{self.channel or self.major}"

    @property
    def environment(self) -> dict[str, str]:
        """What its process gets: libraries that came with it, where it is one that was got."""
        own = self.program.parent / kept.LIBRARIES
        if not own.is_dir():
            return {}
        return {"LD_LIBRARY_PATH": ":".join(filter(None, [os.environ.get("LD_LIBRARY_PATH"), str(own)]))}

    def __str__(self) -> str:
        return f"{self.name} ({self.program.name} {self.version})"


def installed() -> list[Chromium]:
    """All that are found, in the order in which they are preferred; one that cannot say its version is left out."""
    found = [*map(_chromium, _executables()), *_kept()]
    distinct = {chromium.program: chromium for chromium in reversed([c for c in found if c is not None])}
    return list(reversed(distinct.values()))


def of(executable: Path) -> Chromium:
    """The Chromium that this program is. Raises LabError."""
    chromium = _chromium(executable)
    if chromium is None:
        raise LabError(
            f"{executable}: no Chromium program was found behind it, or it does not answer to --version: "
            "give the path of the program itself."
        )
    return chromium


def find(name: str, *, headed: bool = False) -> Chromium:
    """The preferred one of that name, as `debian-156`. LabError says which there are."""
    every = installed()
    fitting = [chromium for chromium in every if chromium.name == name]
    for chromium in fitting:
        if chromium.can_show_windows or not headed:
            return chromium
    if fitting:
        raise LabError(no_window(fitting[0].executable))
    there = ", ".join(map(str, every)) or "none"
    source, _, version = name.rpartition("-")
    known = source in [one.name for one in getting.SOURCES]
    get = f" To get it: `kernel-lab browsers install {name}`." if known else ""
    raise LabError(f"no Chromium {version} from source {source!r} is on this machine; there are: {there}.{get}")


def windowed() -> Chromium | None:
    """The preferred one that can show windows."""
    return next((chromium for chromium in installed() if chromium.can_show_windows), None)


def no_window(executable: Path) -> str:
    """The sentence for a headless shell that is to show a window."""
    return (
        f"{executable} is a headless shell, which has no window: install a full Chromium "
        "(on Debian: apt-get install chromium)."
    )


def trial(source: str, program: Path, channel: str = "") -> Chromium:
    """A Chromium that has just been unpacked. LabError if it cannot say its version."""
    chromium = Chromium(source, program, program, "0", channel)
    try:
        said = subprocess.run(
            [str(program), "--version"],
            capture_output=True, text=True, check=False, timeout=VERSION_SECONDS,
            env={**os.environ, **chromium.environment},
        )  # fmt: skip
    except OSError as error:
        raise LabError(f"{program} cannot be started: {error.strerror}.") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"{program} did not answer to --version within {VERSION_SECONDS} s.") from None
    found = _VERSION.search(said.stdout)
    if found is None:
        words = " / ".join(said.stderr.strip().splitlines()[-2:]) or f"exit {said.returncode}, no word"
        raise LabError(
            f"{program} does not answer to --version: {words}. "
            f"The libraries that a Chromium needs come with the system's: `apt-get install {finding.PACKAGE}`."
        )
    return replace(chromium, version=found[0])


def _kept() -> list[Chromium]:
    return [Chromium(one.source, one.program, one.program, one.version, one.channel) for one in kept.every()]


def _executables() -> Iterator[Path]:
    try:
        preferred = finding.find_chromium()
    except finding.NoChromium as error:
        raise LabError(str(error)) from None
    if preferred is not None:
        yield preferred
    for name in finding.PROGRAMS:
        found = shutil.which(name)
        if found is not None:
            yield Path(found).absolute()
    yield from finding.playwright_programs()


def _chromium(executable: Path) -> Chromium | None:
    for own in _kept():
        if own.program == executable:
            return own
    program = _program(executable)
    version = _version(program) if program else None
    if program is None or version is None:
        return None
    return Chromium(_source(executable, program), executable, program, version)


def _program(executable: Path) -> Path | None:
    """The ELF program that a script like Debian's or Google's starts, or the program itself."""
    real = executable.resolve()
    if platform.system() != "Linux":
        return real
    beside = [real.parent / name for name in ("chrome", "msedge", "chromium")]
    if real.parent == Path("/usr/bin"):
        beside = [_DEBIAN_FOLDER / real.name]
    for path in (real, *beside):
        if elf.is_program(path):
            return path
    return None


def _source(executable: Path, program: Path) -> str:
    if program.parent == _DEBIAN_FOLDER and (_DEBIAN_PACKAGES / f"{program.name}.list").is_file():
        return "debian"
    if executable.is_relative_to(finding.playwright_folder()):
        return "playwright"
    return finding.CHANNELS.get(executable.name, "system")


@lru_cache(maxsize=64)
def _version(program: Path) -> str | None:
    try:
        said = subprocess.run(
            [str(program), "--version"], capture_output=True, text=True, check=False, timeout=VERSION_SECONDS
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(said)
    return found[0] if found else None
