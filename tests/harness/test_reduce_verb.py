"""`kernel-lab reduce` in a real browser: what is left fails in the same way, is written down, and runs again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kernel_lab import cli, line
from kernel_lab.browsing.lab import Lab
from kernel_lab.debugging import kinds, reducing
from kernel_lab.debugging.kinds import Kind
from kernel_lab.debugging.reducing import Budget, Reduction
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator

OPERATORS = Path(__file__).parent.parent / "operators"
COPY = ("--package", str(OPERATORS), "--reference", str(OPERATORS / "lab.test.Copy" / "reference.py"))
OPTIONS = line.Options(20_000)


@pytest.fixture
def reduced(lab: Lab, copy_operator: Operator, copy_case: Callable[[str], Case]) -> Callable[..., Reduction]:
    """What is left of a case of the copy operator, with the kind of failure that it keeps."""

    def run(variant: str, kind: Kind, case: str = "large", budget: Budget | None = None) -> Reduction:
        start = reducing.judged_by_reference(copy_case(case))
        verdict = line.follow(copy_operator, start, lab, variant, OPTIONS)
        assert kinds.kind_of(verdict) == kind
        fails = kinds.fails_like(kind, copy_operator, variant, lab, OPTIONS)
        valid = kinds.valid_there(copy_operator, variant, lab)
        found = reducing.reduce(start, fails, valid, budget or Budget())
        assert fails(found.case)
        return found

    return run


def test_the_element_that_is_wrong_stays(reduced: Callable[..., Reduction]) -> None:
    """Element 5 in flat order: 150,003 elements become the 6 that have one, whatever their shape."""
    found = reduced("off_by_one", Kind("failed", "ok", differs=True))
    assert found.complete
    assert found.case.inputs["x"].size == 6
    assert not found.case.inputs["x"].any()


def test_poison_that_stays_and_guards_that_do_not(reduced: Callable[..., Reduction]) -> None:
    left = reduced("unwritten", Kind("failed", "ok", differs=True))
    assert (left.case.inputs["x"].size, left.complete) == (3, True)
    past = reduced("past_the_end", Kind("failed", "ok", past_the_end=True))
    assert (past.case.inputs["x"].size, past.complete) == (1, True)


def test_a_compile_error_stays_one(reduced: Callable[..., Reduction]) -> None:
    found = reduced("type_error", Kind("failed", "compile_error"))
    assert found.case.inputs["x"].size == 1


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Said]:
    monkeypatch.setenv("KERNEL_LAB_CACHE", str(tmp_path / "cache"))

    def run(*words: str) -> Said:
        monkeypatch.setattr("sys.argv", ["kernel-lab", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return Said(int(ended.value.code or 0), *capsys.readouterr())

    return run


def test_the_verb_writes_a_case_that_run_repeats(tell: Callable[..., Said], tmp_path: Path) -> None:
    file, page = tmp_path / "reduced.json", tmp_path / "reduced.html"
    said = tell(
        "reduce", "Copy:seven:off_by_one", *COPY, "--case", str(file), "--out", str(page), "--json"
    )  # fmt: skip
    assert said.code == 0, said.err
    record: dict[str, Any] = json.loads(said.out)
    assert record["complete"]
    assert record["after"]["sizes"] == "x uint32[6]"
    assert record["kind"] == "elements differ"
    assert record["steps"][0]["text"] == "x [7] -> [6]"
    assert json.loads(file.read_text())["cases"] == [record["case"]]
    assert record["case"]["inputs"]["x"]["data"]["values"] == [0] * 6
    assert "seven_reduced:off_by_one" in page.read_text()

    again = tell("run", "Copy:seven_reduced:off_by_one", *COPY, "--cases", str(file))
    assert again.code == 1
    assert "1 of 6 elements differ; first at [5]" in again.out
    assert f"--cases {file}" in again.out
    once_more = tell("run", *COPY, "--cases", str(file), "--last-failed")
    assert "0 passed, 1 failed, 0 skipped" in once_more.out
    right = tell("run", "Copy:seven_reduced:copy", *COPY, "--cases", str(file))
    assert (right.code, "1 passed" in right.out) == (0, True)


def test_a_spent_budget_is_told_and_what_was_found_is_kept(tell: Callable[..., Said], tmp_path: Path) -> None:
    said = tell("reduce", "Copy:large:off_by_one", *COPY, "--case", str(tmp_path / "r.json"), "--most-runs", "3")
    assert said.code == 0, said.err
    assert "runs     3: the budget was spent" in said.out
    assert (tmp_path / "r.json").is_file()


def test_what_passes_is_not_reduced(tell: Callable[..., Said]) -> None:
    said = tell("reduce", "Copy:seven:copy", *COPY)
    assert said.code == 2
    assert "passes, so there is nothing to reduce" in said.err
    unplanned = tell("reduce", "Copy:seven:undeclared", *COPY)
    assert unplanned.code == 2
    assert "is not run" in unplanned.err


def test_cases_of_nobody(tell: Callable[..., Said], tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    for text, sentence in (
        ('{"op": "no.Such", "cases": []}', "no.Such is no operator here"),
        ('{"cases": []}', "op: is missing"),
        ("{", "not JSON"),
    ):
        file.write_text(text)
        said = tell("run", *COPY, "--cases", str(file))
        assert (said.code, sentence in said.err) == (2, True), said.err
