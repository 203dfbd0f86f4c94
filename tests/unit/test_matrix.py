"""The matrix: processes that end well, badly or not at all, each in its own seat."""

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from kernel_lab import matrix
from kernel_lab.errors import LabError
from kernel_lab.matrix import Seat

HEADER = {"type": "run", "format": 1, "command": "run", "browser": {"profile": "p"}, "adapter": None}
PROGRAM = """#!{python}
import json, os, signal, sys, time
name = sys.argv[sys.argv.index("--browser") + 1]
folder = sys.argv[sys.argv.index("--report") + 1]
results = {results}
with open(folder + "/../order", "a") as order:
    order.write(name + " begins\\n")
def keep(count):
    with open(folder + "/journal.jsonl", "w") as journal:
        for record in [{header!r}, *results[:count]]:
            journal.write(json.dumps(record, separators=(",", ":")) + "\\n")
print("argv", *sys.argv[1:])
code = 0
if name == "good":
    keep(2)
elif name == "mute":
    sys.exit(3)
elif name == "refused":
    print("something else")
    print("kernel-lab: there is no such browser.")
    sys.exit(2)
elif name == "killed":
    keep(1)
    os.kill(os.getpid(), signal.SIGKILL)
elif name == "short":
    keep(1)
elif name == "damaged":
    keep(2)
    with open(folder + "/journal.jsonl", "a") as journal:
        journal.write("no record\\n")
elif name == "failing":
    results[1]["outcome"] = "failed"
    keep(2)
    code = 1
elif name == "stale":
    keep(2)
    code = 1
elif name == "lasting":
    keep(2)
    time.sleep(60)
deadline = time.monotonic() + 30
while "together" in sys.argv and open(folder + "/../order").read().count("begins") < 2 and time.monotonic() < deadline:
    time.sleep(0.01)
time.sleep(0.1)
with open(folder + "/../order", "a") as order:
    order.write(name + " ends\\n")
sys.exit(code)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A matrix whose runs are a small program that does what the browser's name says."""
    results = [
        {"type": "result", "query": f"a:{case}:v", "operator": "a", "case": case, "variant": "v", "outcome": "passed",
         "summary": "equal"}
        for case in ("one", "two")
    ]  # fmt: skip
    program = tmp_path / "python"
    program.write_text(PROGRAM.format(python=sys.executable, results=results, header=HEADER))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(matrix.sys, "executable", str(program))

    def perform(*names: str, processes: int = 1, words: tuple[str, ...] = (), **more: Any) -> list[Any]:
        return matrix.perform(matrix.seats(names, tmp_path), words, 2, processes, **more)

    return perform


def test_whatever_one_browser_does_the_others_go_on(run: Any) -> None:
    parts = run("mute", "good", "refused", "killed", "short", "damaged", "failing", "stale")
    told = {part.name: (len(part.journals[0].results) if part.journals else None, part.reason) for part in parts}
    damaged = told.pop("damaged")
    assert damaged[0] is None
    assert "this line is no record" in damaged[1]
    assert told == {
        "mute": (None, "it ended with exit code 3 and said nothing"),
        "good": (2, ""),
        "refused": (None, "there is no such browser."),
        "killed": (1, "it was ended by signal 9 after 1 of 2 pairs"),
        "short": (1, "it ended with exit code 0 after 1 of 2 pairs"),
        "failing": (2, ""),
        "stale": (2, "no case failed, but it ended with exit code 1: see output.txt"),
    }


@pytest.mark.parametrize(("processes", "most"), [(1, 1), (2, 2)])
def test_so_many_run_at_a_time(run: Any, tmp_path: Path, processes: int, most: int) -> None:
    run("good", "failing", processes=processes, words=("together",) * (most == 2))
    now, seen = 0, []
    for line in (tmp_path / "order").read_text().splitlines():
        now += 1 if line.endswith("begins") else -1
        seen.append(now)
    assert max(seen) == most


def test_each_run_gets_the_words_and_its_own_folder(run: Any, tmp_path: Path) -> None:
    run("good", words=("Copy:*", "--variants", "all"))
    said = (tmp_path / "good" / "output.txt").read_text()
    assert said == f"argv -m kernel_lab run Copy:* --variants all --browser good --report {tmp_path / 'good'}\n"


def test_an_old_journal_is_no_result_of_this_run(run: Any, tmp_path: Path) -> None:
    (tmp_path / "mute").mkdir()
    (tmp_path / "mute" / "journal.jsonl").write_text(json.dumps(HEADER) + "\n")
    assert run("mute")[0].journals == ()


def test_progress_is_told_by_browser(run: Any) -> None:
    seen: list[dict[str, int]] = []
    run("good", "mute", on_progress=lambda counts: seen.append(dict(counts)))
    assert seen[-1] == {"good": 2, "mute": 0}


def test_an_interrupt_ends_what_runs(run: Any, tmp_path: Path) -> None:
    def interrupt(counts: dict[str, int]) -> None:
        if counts["lasting"]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("lasting", on_progress=interrupt)
    assert "lasting ends" not in (tmp_path / "order").read_text()


def test_names_become_folders_that_differ(tmp_path: Path) -> None:
    found = matrix.seats(["debian-156-lavapipe", "/opt/a b/chrome", "opt-a-b-chrome", "ws://host:1/x"], tmp_path)
    assert [seat.folder.name for seat in found] == [
        "debian-156-lavapipe",
        "opt-a-b-chrome",
        "opt-a-b-chrome-2",
        "ws-host-1-x",
    ]


def test_a_browser_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="--browser a is given twice"):
        matrix.seats(["a", "b", "a"], tmp_path)


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match=r"cannot be written: Not a directory\. Choose another with --report"):
        matrix.perform([Seat("good", tmp_path / "file" / "good")], (), 2, 1)
