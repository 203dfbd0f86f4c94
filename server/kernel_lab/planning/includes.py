"""Templates as text: `{% include "file" %}` expanded before rendering, with the origin of every line.

In: file names and the folders to look in. Out: `Source`: lines and where each comes from. Jinja's own include exports
no macros, so inclusion is textual; import, from and extends are refused. Probes are left out here, unless for a debug
run.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from kernel_lab.errors import LabError
from kernel_lab.planning import probes as probe_lines

_INCLUDE = re.compile(r"""^\s*\{%-?\s*include\s+(['"])(?P<name>[^'"]+)\1\s*-?%\}\s*$""")
_REFUSED = re.compile(r"\{%[-+]?\s*(import|from|extends|include)\b")
_DEPTH = 8
MAX_BYTES = 256 * 1024
"""Of one file; our longest has 11 KiB."""
MAX_LINES = 65_533
"""Of a template with its includes: as many as there are marks for lines."""
MAX_FILES = 256
"""In one template, each as often as it is included: eight, each with a hundred times the next one, would be 10^14."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A line of a template. `file`: the template's name as operators write it; `line`: from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A template's whole text and the origin of each of its lines. Read once, so it is its own key."""

    name: str
    text: str
    origins: tuple[Origin, ...]

    def origin(self, line: int) -> Origin:
        """Where line `line` (from 1) of the whole text comes from."""
        return self.origins[min(max(line, 1), len(self.origins)) - 1] if self.origins else Origin(self.name, 1)


def read(name: str, folders: tuple[Path, ...], *, probes: bool = False) -> Source:
    """The template of that name with its includes in place; LabError names file and line of whatever is wrong.
    `probes`: with a marker for each probe.

    Remembered until one of its files changes.
    """
    known = _read.get((name, folders, probes))
    if known is not None and all(_changed(path) == time for path, time in known[1]):
        return known[0]
    lines: list[str] = []
    origins: list[Origin] = []
    files: list[Path] = []
    _collect(name, folders, lines, origins, files, (), probes)
    source = Source(name, "\n".join(lines) + "\n", tuple(origins))
    _read[name, folders, probes] = source, tuple((path, _changed(path)) for path in files)
    return source


_read: dict[tuple[str, tuple[Path, ...], bool], tuple[Source, tuple[tuple[Path, int], ...]]] = {}


def _changed(path: Path) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def find(name: str, folders: tuple[Path, ...], asked_by: str = "") -> Path:
    """The file of that name in the first folder that has it. Only plain names: no path leaves the folders."""
    where = f"{asked_by}: " if asked_by else ""
    if Path(name).name != name:
        raise LabError(f"{where}template {name!r} must be a plain file name.")
    for folder in folders:
        if (folder / name).is_file():
            if not _stays(folder / name, folder):
                raise LabError(
                    f"{where}template {name!r} is a link that leads out of its package: copy the file there."
                )
            return folder / name
    raise LabError(f"{where}template {name!r} is in none of: {', '.join(folder.name for folder in folders)}.")


def _stays(path: Path, folder: Path) -> bool:
    """Whether the file itself lies with the operators of its package, or where Hugging Face's cache keeps its files."""
    home = folder.resolve().parent
    homes = [home, *(above.parent / "blobs" for above in (home, *home.parents) if above.name == "snapshots")]
    return any(path.resolve().is_relative_to(one) for one in homes)


def _collect(
    name: str,
    folders: tuple[Path, ...],
    lines: list[str],
    origins: list[Origin],
    files: list[Path],
    above: tuple[str, ...],
    probes: bool,
) -> None:
    if name in above or len(above) >= _DEPTH:
        raise LabError(f"{above[-1]}: including {name!r} goes round or deeper than {_DEPTH}: {' > '.join(above)}.")
    if len(files) >= MAX_FILES:
        raise LabError(f"{above[-1]}: including {name!r} is one file too many: a template may have {MAX_FILES}.")
    path = find(name, folders, above[-1] if above else "")
    files.append(path)
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise LabError(f"{name}: has {size:,} bytes; a template may have {MAX_BYTES:,}.")
    try:
        text = path.read_text("utf-8")  # every kind of line end becomes \n
    except ValueError as error:
        raise LabError(f"{name}: is not UTF-8: {error}.") from None
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        include = _INCLUDE.match(line)
        if include:
            _collect(include["name"], folders, lines, origins, files, (*above, name), probes)
            continue
        if probe_lines.is_probe(line, f"{name}:{number}"):
            if probes:
                lines.append(probe_lines.marked(line))
                origins.append(Origin(name, number))
            continue
        refused = _REFUSED.search(line)
        if refused:
            raise LabError(
                f'{name}:{number}: `{refused[1]}` is refused: files are included whole, by `{{% include "file" %}}` '
                "on a line of its own, which makes their macros visible."
            )
        if len(lines) >= MAX_LINES:
            raise LabError(f"{name}:{number}: with its includes a template may have {MAX_LINES:,} lines.")
        lines.append(line)
        origins.append(Origin(name, number))
