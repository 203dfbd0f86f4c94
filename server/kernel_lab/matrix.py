"""The same run in several browsers, each in a process of its own: whatever one of them does, the others go on.

In: names of browsers, the words of `kernel-lab run`; or the folder of an earlier matrix. Out: a `Part` of the report
for each browser, with why it is not whole.
"""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kernel_lab.errors import LabError
from kernel_lab.judging import journal
from kernel_lab.reporting.report import Browser, Part
from kernel_lab.reporting.writing import JSON_FILE

OUTPUT_FILE = "output.txt"
POLL_SECONDS = 0.2
_JUDGED = (0, 1)
"""The exit codes of a run that came to its end: nothing failed, or something did."""


@dataclass(frozen=True, slots=True)
class Seat:
    """One browser's place in the matrix: its name, and the folder of its journal and of what it printed."""

    name: str
    folder: Path


def seats(names: Sequence[str], folder: Path) -> list[Seat]:
    """A folder for each; LabError if a browser is named twice."""
    found: dict[str, Seat] = {}
    for name in names:
        if name in found:
            raise LabError(f"--browser {name} is given twice.")
        slug = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "browser"
        taken = {seat.folder.name for seat in found.values()}
        slug = next(text for text in (slug, *(f"{slug}-{number}" for number in range(2, 99))) if text not in taken)
        found[name] = Seat(name, folder / slug)
    return list(found.values())


def perform(
    places: Sequence[Seat],
    words: Sequence[str],
    pairs: int,
    processes: int,
    on_progress: Callable[[Mapping[str, int]], None] = lambda _: None,
) -> list[Part]:
    """Runs `words` in each browser, at most so many at a time. `pairs`: how many results each must have in the end.
    `on_progress` is told how many each has.
    """
    waiting, running, ended = list(places), dict[Seat, subprocess.Popen[bytes]](), dict[Seat, int]()
    with ExitStack() as stack:
        stack.callback(_end, running)
        while waiting or running:
            while waiting and len(running) < processes:
                seat = waiting.pop(0)
                running[seat] = _start(seat, words, stack)
            for seat, process in [*running.items()]:
                code = process.poll()
                if code is not None:
                    ended[seat] = code
                    del running[seat]
            on_progress({seat.name: _lines(seat) for seat in places})
            if running:
                time.sleep(POLL_SECONDS)
    return [_part(seat, ended[seat], pairs) for seat in places]


def kept(folder: Path) -> list[Part] | None:
    """What an earlier matrix left in its folder, in the order of its browsers; None if no matrix did. LabError if it is
    damaged.
    """
    path = folder / JSON_FILE
    if not path.is_file() or not journal.is_none(folder):
        return None
    try:
        rows = [Browser.model_validate(row) for row in json.loads(path.read_bytes())["browsers"]]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise LabError(f"{path} cannot be read, or is no {JSON_FILE} of kernel-lab: {error}") from None
    if not rows:
        raise LabError(f"{path} names no browser.")
    parts = []
    for row, seat in zip(rows, seats([row.name for row in rows], folder), strict=True):
        there = (seat.folder / journal.FILE).is_file()
        if not there and row.passed + row.known + row.failed + row.skipped:
            raise LabError(f"{path} tells of results of {row.name}, but {seat.folder} holds no {journal.FILE}.")
        parts.append(Part(row.name, (journal.load(seat.folder / journal.FILE),) if there else (), row.reason))
    return parts


def _start(seat: Seat, words: Sequence[str], stack: ExitStack) -> "subprocess.Popen[bytes]":
    try:
        seat.folder.mkdir(parents=True, exist_ok=True)
        (seat.folder / journal.FILE).unlink(missing_ok=True)
        output: IO[bytes] = stack.enter_context((seat.folder / OUTPUT_FILE).open("wb"))
    except OSError as error:
        raise LabError(f"{seat.folder} cannot be written: {error.strerror}. Choose another with --report.") from None
    command = [sys.executable, "-m", "kernel_lab", "run", *words, "--browser", seat.name, "--report", str(seat.folder)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)


def _end(running: Mapping[Seat, "subprocess.Popen[bytes]"]) -> None:
    """An interrupted matrix leaves no browser behind: a run that is interrupted ends its own."""
    for process in running.values():
        process.send_signal(signal.SIGINT)
    for process in running.values():
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def _lines(seat: Seat) -> int:
    """How many results its journal has."""
    try:
        return (seat.folder / journal.FILE).read_bytes().count(b'{"type":"result",')
    except OSError:
        return 0


def _part(seat: Seat, code: int, pairs: int) -> Part:
    path = seat.folder / journal.FILE
    if not path.is_file():
        return Part(seat.name, (), _last_words(seat) or f"it ended with exit code {code} and said nothing")
    try:
        kept = journal.load(path)
    except LabError as error:
        return Part(seat.name, (), str(error))
    if code not in _JUDGED or len(kept.results) < pairs:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        told = f"it {how} after {len(kept.results):,} of {pairs:,} pairs"
        return Part(seat.name, (kept,), ": ".join(text for text in (told, _last_words(seat)) if text))
    if code and all(record["outcome"] != "failed" for record in kept.results):
        return Part(seat.name, (kept,), f"no case failed, but it ended with exit code {code}: see {OUTPUT_FILE}")
    return Part(seat.name, (kept,))


def _last_words(seat: Seat) -> str:
    """The last sentence that the program itself said, if it said one."""
    printed = (seat.folder / OUTPUT_FILE).read_text("utf-8", "replace")
    return next(_sentences(printed), "")


def _sentences(printed: str) -> Iterator[str]:
    for line in reversed(printed.splitlines()):
        if line.startswith("kernel-lab: "):
            yield line.removeprefix("kernel-lab: ")
