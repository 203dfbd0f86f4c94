"""The Chromiums that are on this machine, and where each comes from.

In: PATH, $KERNEL_LAB_CHROMIUM, Debian's package database, Playwright's download folder. Out: `Chromium`s.
Each program is asked for its version once; nothing else is started.

Sources: `debian` (Debian's packages), `playwright` (its downloads), `system` (anything else on PATH, or named by
$KERNEL_LAB_CHROMIUM).
"""

import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kernel_lab.browsing import elf, finding
from kernel_lab.errors import LabError

VERSION_SECONDS = 30
_DEBIAN_FOLDER = Path("/usr/lib/chromium")
_DEBIAN_PACKAGES = Path("/var/lib/dpkg/info")


@dataclass(frozen=True, slots=True)
class Chromium:
    """An installed Chromium. `executable`: what is started; `program`: the ELF program behind it, in its own folder."""

    source: str
    executable: Path
    program: Path
    version: str

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])

    @property
    def can_show_windows(self) -> bool:
        return "headless" not in self.program.name

    @property
    def name(self) -> str:
        """Its profiles' names without the adapter: `debian-156`."""
        return f"{self.source}-{self.major}"

    def __str__(self) -> str:
        return f"{self.name} ({self.program.name} {self.version})"


def installed() -> list[Chromium]:
    """All that are found, in the order in which they are preferred; one that cannot say its version is left out."""
    found = (_chromium(path) for path in _executables())
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


def find(source: str, major: int, *, headed: bool = False) -> Chromium:
    """The preferred one of that source and version. LabError says which there are."""
    every = installed()
    fitting = [chromium for chromium in every if (chromium.source, chromium.major) == (source, major)]
    for chromium in fitting:
        if chromium.can_show_windows or not headed:
            return chromium
    if fitting:
        raise LabError(no_window(fitting[0].executable))
    there = ", ".join(map(str, every)) or "none"
    raise LabError(f"no Chromium {major} from source {source!r} is on this machine; there are: {there}.")


def windowed() -> Chromium | None:
    """The preferred one that can show windows."""
    return next((chromium for chromium in installed() if chromium.can_show_windows), None)


def no_window(executable: Path) -> str:
    """The sentence for a headless shell that is to show a window."""
    return (
        f"{executable} is a headless shell, which has no window: install a full Chromium "
        "(on Debian: apt-get install chromium)."
    )


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
    beside = [real.parent / name for name in ("chrome", "chromium")]
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
    return "system"


@lru_cache(maxsize=64)
def _version(program: Path) -> str | None:
    try:
        said = subprocess.run(
            [str(program), "--version"], capture_output=True, text=True, check=False, timeout=VERSION_SECONDS
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\d+(?:\.\d+){3}", said)
    return found[0] if found else None
