"""The journal: each result is appended as it comes, so that a crash of anything loses nothing that was known.

In: records. Out: one JSON object a line; the first line describes the run. Side effects: this one file. Reading never
passes over a line in silence: only a last one that was cut short, as a crash or a full disk leaves it, is left out.
"""

import contextlib
import datetime
import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from kernel_lab.errors import LabError

FILE = "journal.jsonl"
FORMAT = 1
NAMES = frozenset({"query", "operator", "case", "variant", "outcome", "summary"})
"""What every result says."""
Trace = tuple[tuple[str, str, str], ...]
"""What selection said of every variant, best first: its id, how far it came, and why not further."""


def cache_folder() -> Path:
    """Where kernel-lab keeps runs: KERNEL_LAB_CACHE, or the user's cache folder. Never inside a checkout."""
    stated = os.environ.get("KERNEL_LAB_CACHE")
    return Path(stated) if stated else Path(platformdirs.user_cache_dir("kernel-lab"))


def runs_folder() -> Path:
    return cache_folder() / "runs"


def new_run_folder() -> Path:
    """A new folder for a run, named by the time of its start."""
    now = datetime.datetime.now(datetime.UTC)
    return runs_folder() / f"{now:%Y%m%d-%H%M%S}-{os.getpid()}"


class Journal:
    """An open journal. A record is on its way to the disk when `append` returns, or no part of it is in the file."""

    def __init__(self, folder: Path, header: Mapping[str, Any] | None) -> None:
        """A new journal that begins with this header; None: the one that is there goes on."""
        self.folder = folder
        self.path = folder / FILE
        try:
            if header is None:
                self._file = self.path.open("r+b", buffering=0)
                self._end_whole()
            else:
                folder.mkdir(parents=True, exist_ok=True)
                self._file = self.path.open("wb", buffering=0)
        except OSError as error:
            instead = "Make it writable." if header is None else "Choose another folder with --report."
            raise LabError(f"the journal {self.path} cannot be written: {error.strerror}. {instead}") from None
        if header is not None:
            self.append({"type": "run", "format": FORMAT, **header})

    def append(self, record: Mapping[str, Any]) -> None:
        left = (json.dumps(record, separators=(",", ":"), default=str) + "\n").encode()
        end = self._file.tell()
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            with contextlib.suppress(OSError):  # half a record must not stand before a later whole one
                self._file.truncate(end)
                self._file.seek(end)
            raise LabError(
                f"the journal {self.path} cannot be written any more: {error.strerror}. It holds all that was judged "
                "before."
            ) from None

    def close(self) -> None:
        self._file.close()

    def _end_whole(self) -> None:
        """Makes the next record begin a line: a last one that was cut short goes."""
        whole, newline, last = self._file.read().rpartition(b"\n")
        if last and _record(last) is not None:
            self._file.write(b"\n")
        else:
            self._file.seek(self._file.truncate(len(whole + newline)))


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a journal, without a last line that was cut short. LabError with file and line if any other line
    is no record.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                record = _record(line)
                if record is not None:
                    yield record
                elif line.endswith(b"\n"):
                    raise LabError(f"{path}:{number}: this line is no record. Mend the line, or delete the journal.")
    except OSError as error:
        raise LabError(f"the journal {path} cannot be read: {error.strerror}.") from None


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line.decode())
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What a journal holds of a run: who ran it, its results in order, and what selection said, by case: each variant
    with how far it came and why not further, best first.
    """

    path: Path
    header: Mapping[str, Any]
    results: tuple[Mapping[str, Any], ...]
    decisions: Mapping[str, Trace] = field(default_factory=dict)


def load(path: Path) -> Kept:
    """A whole journal; LabError if it is none, or is damaged."""
    header: Mapping[str, Any] = {}
    results = []
    decisions: dict[str, Trace] = {}
    for number, record in enumerate(read(path), 1):
        kind = record.get("type")
        if number == 1:
            if kind != "run" or record.get("format") != FORMAT:
                raise LabError(f"{path}: is no journal of format {FORMAT}: its first line does not describe a run.")
            header = record
        elif kind == "result":
            if not record.keys() >= NAMES:
                raise LabError(f"{path}:{number}: this result lacks {', '.join(sorted(NAMES - record.keys()))}.")
            results.append(record)
        elif kind == "decisions":
            decisions[f"{record['operator']}:{record['case']}"] = tuple((v, s, r) for v, s, r in record["decisions"])
    if not header:
        raise LabError(f"{path}: is no journal: it has no whole line.")
    return Kept(path, header, tuple(results), decisions)


def locate(name: str) -> list[Path]:
    """The journals that a report folder, a file, or the name of a run in the cache stands for: several where workers of
    pytest kept one each. LabError if there is none.
    """
    for place in places(name):
        if place.is_file():
            return [place]
        found = [place / FILE] if (place / FILE).is_file() else sorted(place.glob(f"gw*/{FILE}"))
        if found:
            return found
    raise LabError(
        f"{name}: there is no {FILE}; give a report folder, a journal, or the name of a run in {runs_folder()}."
    )


def places(name: str) -> list[Path]:
    """Where a run of that name may be: a folder or file as given, or one in the cache."""
    return [Path(name), runs_folder() / name]


def is_none(folder: Path) -> bool:
    """Whether a folder has no journal of its own."""
    return not (folder / FILE).is_file() and not any(folder.glob(f"gw*/{FILE}"))


def last_run(commands: Collection[str] = ("run", "pytest")) -> Path | None:
    """The journal of the newest run in the cache that one of these commands wrote."""
    journals = sorted(runs_folder().glob(f"**/{FILE}"), key=lambda path: path.stat().st_mtime, reverse=True)
    return next((path for path in journals if next(read(path), {}).get("command") in commands), None)


def last_failed(path: Path | None = None) -> list[str]:
    """The queries that failed in that run (default: the newest); LabError if there is no run to look at."""
    journal = path or last_run()
    if journal is None:
        raise LabError(f"there is no earlier run in {runs_folder()}: run once without --last-failed.")
    return [
        record["query"] for record in read(journal) if record.get("type") == "result" and record["outcome"] == "failed"
    ]
