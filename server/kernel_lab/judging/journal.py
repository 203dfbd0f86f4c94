"""The journal: each result is appended as it comes, so that a crash of anything loses nothing that was known.

In: records. Out: one JSON object a line; the first line describes the run. Side effects: this one file.
"""

import datetime
import json
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import platformdirs

from kernel_lab.errors import LabError

FILE = "journal.jsonl"
FORMAT = 1


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
    """An open journal. A record is on its way to the disk when `append` returns."""

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        self.folder = folder
        self.path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("w", encoding="utf-8")
        except OSError as error:
            raise LabError(
                f"the journal {self.path} cannot be written: {error.strerror}. Choose another folder with --report."
            ) from None
        self.append({"type": "run", "format": FORMAT, **header})

    def append(self, record: Mapping[str, Any]) -> None:
        try:
            self._file.write(json.dumps(record, separators=(",", ":"), default=str) + "\n")
            self._file.flush()
        except OSError as error:
            raise LabError(f"the journal {self.path} cannot be written any more: {error.strerror}.") from None

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a journal; a last line that was cut short is left out."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                return


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
