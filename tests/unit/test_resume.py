"""`run --resume`: what has a result does not run again, each pair has one in the end, and no other browser goes on."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kernel_lab import cli, runs
from kernel_lab.browsing.browser import BrowserInfo
from kernel_lab.browsing.lab import Ran
from kernel_lab.browsing.profiles import Profile
from kernel_lab.cli import run as run_verb
from kernel_lab.judging import journal
from kernel_lab.judging.journal import FILE
from kernel_lab.planning.facts import PACKING_FEATURE, DeviceFacts
from kernel_lab.serving.frames import Job, RunResult

OPERATORS = Path(__file__).parents[1] / "operators"
COPY = ("--package", str(OPERATORS), "--reference", str(OPERATORS / "lab.test.Copy" / "reference.py"))
PAIRS = ("Copy:seven:copy", "Copy:seven:wants_f16", "Copy:seven:off_by_one", "Copy:nothing:copy")
FACTS = DeviceFacts(features=frozenset({PACKING_FEATURE}))


class Lab:
    """Answers each job: all are right but off_by_one. `ends_at`: the job (from 1) that is interrupted instead."""

    def __init__(self, ends_at: int = 0, interrupt: BaseException | None = None, version: str = "156") -> None:
        self.ends_at, self.interrupt = ends_at, interrupt or KeyboardInterrupt()
        self.jobs: list[str] = []
        self.facts, self.restarts, self.profile = FACTS, 0, Profile("p", Path("/chromium"))
        self.info = BrowserInfo(version, "/chromium", ("--a",), False, "agent", FACTS)

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def picture(self, page: Path, image: Path) -> None:
        assert page.is_file()

    def begin(self, job: Job) -> "Running":
        return Running(self, job)


class Running:
    """A job under way in that lab: it runs when somebody waits for it."""

    def __init__(self, lab: Lab, job: Job) -> None:
        self.lab, self.job, self.cancelled = lab, job, False

    def ran(self) -> Ran:
        label = self.job.plan.label
        if len(self.lab.jobs) + 1 == self.lab.ends_at:
            raise self.lab.interrupt
        self.lab.jobs.append(label)
        right = RunResult("ok", equal=frozenset({"y"}))
        return Ran(RunResult("crash") if "off_by_one" in label else right, self.lab.info, 1.0)

    def cancel(self) -> None:
        self.cancelled = True


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def lab_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Said]:
    """`kernel-lab run` on the pairs above, in that lab, with more words."""
    monkeypatch.setenv("KERNEL_LAB_CACHE", str(tmp_path / "cache"))

    def run(lab: Lab, *words: str) -> Said:
        monkeypatch.setattr(run_verb, "Lab", lambda _: lab)
        monkeypatch.setattr(sys, "argv", ["kernel-lab", "run", *COPY, *PAIRS, *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return Said(int(ended.value.code or 0), *capsys.readouterr())

    return run


LabRun = Callable[..., Said]
ALL = "2 passed, 1 failed, 1 skipped"


def _queries(folder: Path) -> list[str]:
    return [record["query"].removeprefix("lab.test.") for record in journal.load(folder / FILE).results]


@pytest.mark.parametrize("ends_at", [1, 2, 3])
def test_an_interrupted_run_goes_on_where_it_was(lab_run: LabRun, tmp_path: Path, ends_at: int) -> None:
    whole = Lab()
    assert lab_run(whole, "--report", str(tmp_path / "whole")).out.splitlines()[-1] == ALL
    first, second = Lab(ends_at), Lab()
    cut = lab_run(first, "--report", str(tmp_path / "run"))
    assert cut.code == 130
    assert f"--resume {tmp_path / 'run'}" in cut.err.replace("\n", "")
    before = (tmp_path / "run" / FILE).read_bytes()
    done = lab_run(second, "--resume", str(tmp_path / "run"))
    assert (done.code, done.out.splitlines()[-1]) == (1, ALL)
    assert first.jobs + second.jobs == whole.jobs
    assert (tmp_path / "run" / FILE).read_bytes().startswith(before)
    assert _queries(tmp_path / "run") == _queries(tmp_path / "whole")
    assert len(set(_queries(tmp_path / "run"))) == len(PAIRS)


def test_the_command_that_is_named_repeats_the_run_s_own_words(lab_run: LabRun, tmp_path: Path) -> None:
    said = lab_run(Lab(1), "--deadline", "3", "--variants", "all", "--report", str(tmp_path / "r"))
    named = said.err.replace("\n", "").partition("To go on with it: ")[2]
    words = " ".join([*COPY, "--deadline", "3", *PAIRS, "--variants", "all", "--resume", str(tmp_path / "r")])
    assert named.startswith(f"kernel-lab run {words}kernel-lab: interrupted")


def test_a_finished_run_runs_nothing_and_tells_its_failures(lab_run: LabRun, tmp_path: Path) -> None:
    lab_run(Lab(), "--report", str(tmp_path))
    again = Lab()
    said = lab_run(again, "--resume", str(tmp_path))
    assert (said.code, again.jobs, said.out.splitlines()[-1]) == (1, [], ALL)
    assert "4 results are in the journal, 0 pairs are left" in said.out
    assert "failed  lab.test.Copy:seven:off_by_one  crash" in said.out
    found = json.loads(lab_run(again, "--resume", str(tmp_path), "--json").out)
    assert len(found["results"]) == 4


def test_a_run_of_selected_variants_goes_on_too(lab_run: LabRun, tmp_path: Path) -> None:
    """Its pairs name no variant; its results do."""
    words = ("Copy:seven", "Copy:nothing", "Copy:wrong_dtype")
    lab_run(Lab(2), *words, "--report", str(tmp_path))
    assert _queries(tmp_path) == ["Copy:seven:copy"]
    second = Lab()
    lab_run(second, *words, "--resume", str(tmp_path))
    assert len(second.jobs) == 1
    assert _queries(tmp_path) == ["Copy:seven:copy", "Copy:nothing:copy", "Copy:wrong_dtype"]


def test_a_pair_that_selection_preferred_but_could_not_plan_is_finished() -> None:
    record = {"query": "o:c:v", "operator": "o", "case": "c", "selected": True}
    pairs: Any = [type("Pair", (), {"query": query}) for query in ("o:c", "o:c:v", "o:c:w", "o:d")]
    assert [pair.query for pair in runs.unfinished(pairs, [record])] == ["o:c:w", "o:d"]
    assert [pair.query for pair in runs.unfinished(pairs, [record | {"selected": False}])] == ["o:c", "o:c:w", "o:d"]


def test_a_disk_that_is_full_ends_the_run_with_a_sentence_and_it_goes_on_later(
    lab_run: LabRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = journal.Journal.append

    def full(self: journal.Journal, record: dict[str, Any]) -> None:
        if record["type"] == "result" and "off_by_one" in record["query"]:
            self._file.close()
            self._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115 - the journal closes it
        append(self, record)

    with monkeypatch.context() as patch:
        patch.setattr(journal.Journal, "append", full)
        said = lab_run(Lab(), "--report", str(tmp_path))
    assert said.code == 2
    assert "Traceback" not in said.err
    assert said.err.splitlines()[-1].startswith(
        f"kernel-lab: the journal {tmp_path / FILE} cannot be written any more:"
    )
    assert _queries(tmp_path) == ["Copy:seven:copy", "Copy:seven:wants_f16"]
    assert lab_run(Lab(), "--resume", str(tmp_path)).out.splitlines()[-1] == ALL
    assert len(_queries(tmp_path)) == len(PAIRS)


def test_edited_kernels_do_not_go_on(lab_run: LabRun, tmp_path: Path) -> None:
    lab_run(Lab(2), "--report", str(tmp_path))
    header, *results = (tmp_path / FILE).read_text().splitlines(keepends=True)
    packages = json.loads(header)["packages"]
    assert list(packages) == ["lab.test.Copy"]
    before = header.replace(packages["lab.test.Copy"], "another") + "".join(results)
    (tmp_path / FILE).write_text(before)
    said = lab_run(Lab(), "--resume", str(tmp_path))
    assert said.code == 2
    assert "the files of lab.test.Copy have changed since" in said.err
    assert (tmp_path / FILE).read_text() == before


def test_another_browser_does_not_go_on(lab_run: LabRun, tmp_path: Path) -> None:
    lab_run(Lab(2), "--report", str(tmp_path))
    before = (tmp_path / FILE).read_bytes()
    said = lab_run(Lab(version="157"), "--resume", str(tmp_path))
    assert (said.code, said.err) == (
        *(2, f"kernel-lab: --resume {tmp_path}: another browser or adapter made that journal: version (156 → 157).\n"),
    )
    assert (tmp_path / FILE).read_bytes() == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--resume nosuch", f"nosuch: there is no {FILE}; give a report folder"),
        ("--resume text", "text: is no journal"),
        (
            "--resume other",
            "--resume other: only a journal of `kernel-lab run` can be gone on with; this one is of onnx.",
        ),
        ("--resume other --report x", "--resume goes on in the folder of that run, so it takes neither --report nor"),
        (
            "--resume other --last-failed",
            "--resume goes on in the folder of that run, so it takes neither --report nor",
        ),
    ],
)
def test_what_cannot_go_on_is_a_sentence_before_a_browser_starts(
    lab_run: LabRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("text\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / FILE).write_text('{"type":"run","format":1,"command":"onnx"}\n')
    none: Any = None
    if "text" in words:
        sentence = "text:1: this line is no record."
    if "--last-failed" in words:
        lab_run(Lab(), "--report", str(tmp_path / "cache" / "runs" / "one"))
    said = lab_run(none, *words.split())
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"kernel-lab: {sentence}")
    assert said.err.count("\n") == 1
