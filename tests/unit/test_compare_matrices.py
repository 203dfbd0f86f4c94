"""`kernel-lab compare` between two matrices, with a first run, and with a run that was cut short."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kernel_lab import cli
from kernel_lab import matrix as matrices
from kernel_lab.cli import comparisons
from kernel_lab.judging import journal
from kernel_lab.judging.journal import FILE, Journal
from kernel_lab.reporting import writing
from kernel_lab.reporting.report import Part

Json = dict[str, Any]
ADAPTER: Json = {
    "description": "SwiftShader", "fallback": True, "spoofed_ids": False, "info": {}, "features": [],
    "language_features": [], "limits": {},
}  # fmt: skip


def record(case: str = "c", outcome: str = "passed", **more: Any) -> Json:
    names = {"operator": "lab.Op", "case": case, "variant": "plain"}
    return {
        "type": "result", "query": f"lab.Op:{case}:plain", **names, "outcome": outcome, "summary": f"it {outcome}",
        "selected": True, "messages": [], **more,
    }  # fmt: skip


def failing(case: str = "c") -> Json:
    return record(case, "failed")


def write(folder: Path, *records: Json, version: str = "156.0", **more: Any) -> Path:
    """One run's journal in a folder."""
    browser = {"profile": "p", "version": version, "executable": "/c", "flags": [], "environment": {}}
    log = Journal(folder, {"command": "run", "browser": browser, "adapter": ADAPTER, "machine": {}, **more})
    for one in records:
        log.append(one)
    log.close()
    return folder / FILE


Columns = dict[str, list[Json] | str | tuple[list[Json], str]]


@pytest.fixture
def matrix(tmp_path: Path) -> Callable[..., str]:
    """Writes a matrix as `kernel-lab matrix` does: browser: its results, why it has none, or both."""

    def make(name: str, browsers: Columns, version: str = "156.0") -> str:
        parts = []
        for seat in matrices.seats([*browsers], tmp_path / name):
            made = browsers[seat.name]
            results, reason = made if isinstance(made, tuple) else ([], made) if isinstance(made, str) else (made, "")
            kept = (journal.load(write(seat.folder, *results, version=version)),) if results else ()
            parts.append(Part(seat.name, kept, reason))
        writing.write(tmp_path / name, parts)
        return str(tmp_path / name)

    return make


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Said]:
    monkeypatch.setenv("KERNEL_LAB_CACHE", str(tmp_path))

    def run(*words: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["kernel-lab", "compare", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return Said(int(ended.value.code or 0), *capsys.readouterr())

    return run


Compare = Callable[..., Said]
Matrix = Callable[..., str]
STABLE, BETA, DEV = (f"chrome-for-testing-{channel}-swiftshader" for channel in ("stable", "beta", "dev"))


# Two matrices.


def test_each_browser_is_compared_with_itself_of_before(compare: Compare, matrix: Matrix) -> None:
    old = matrix("old", {STABLE: [record()], BETA: [record()]})
    said = compare(old, matrix("new", {STABLE: [record()], BETA: [failing()]}, version="157.0"))
    assert (said.code, said.err) == (1, "")
    rows = said.out.splitlines()
    assert f"{STABLE}  nothing changed in 1 result" in rows
    assert f"{BETA}  1 newly failing" in rows
    assert rows[-2:] == ["gate     failing, skipped, gone: 1 change", "1 newly failing in 1 of 2 browsers"]
    assert re.search(r"^  version +156\.0 → 157\.0$", said.out, re.M)
    assert "  lab.Op:c:plain  passed → failed: it failed" in rows
    assert compare(old, f"{old}/../new", "--gate", "none").code == 0


def test_nothing_changed_in_any(compare: Compare, matrix: Matrix) -> None:
    """What failed before, and fails, is no change."""
    browsers = {STABLE: [record(), failing("known")], BETA: [record()]}
    said = compare(matrix("old", browsers), matrix("new", browsers))
    assert (said.code, said.out.splitlines()[-1]) == (0, "Nothing changed in 2 browsers")


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("it did not start", "it did not start"),
        ([record("c", "skipped")], "nothing ran in it"),
        (([record()], "it was ended by signal 9 after 1 of 2 pairs"), "it was ended by signal 9 after 1 of 2 pairs"),
    ],
)
@pytest.mark.parametrize("before", [{STABLE: [record()], DEV: [record()]}, {STABLE: [record()]}, {}])
def test_a_browser_without_all_results_is_a_failure_whatever_is_gated(
    compare: Compare, matrix: Matrix, made: list[Json] | str, told: str, before: Columns
) -> None:
    """And keeps none of the others from being compared."""
    new = matrix("new", {STABLE: [record()], DEV: made})
    old = [matrix("old", before)] if before else ["nowhere", "--allow-no-old"]
    said = compare(old[0], new, *old[1:], "--gate", "none")
    assert said.code == 2
    assert re.search(rf"^{DEV}  {re.escape(told)}", said.out, re.M)
    assert re.search(rf"^{STABLE}  .*1 result$", said.out, re.M)
    assert "1 of 2 browsers without all results" in said.out.splitlines()[-1]


def test_a_browser_that_was_not_there_before_must_not_fail(compare: Compare, matrix: Matrix) -> None:
    """Nor one that did not start before."""
    for before in ({STABLE: [record()]}, {STABLE: [record()], BETA: "it did not start"}):
        old = matrix("old", before)
        assert compare(old, matrix("new", {STABLE: [record()], BETA: [record()]})).code == 0
        said = compare(old, matrix("new", {STABLE: [record()], BETA: [record(), failing("d")]}))
        assert said.code == 1
        remark = r"(not in the earlier run|nothing ran in it before \(it did not start\))"
        assert re.search(rf"^{BETA}  {remark}; 2 results, 1 newly failing$", said.out, re.M)
        assert said.out.splitlines()[-1].endswith("; 1 browser with no earlier results")


def test_a_browser_that_is_no_longer_asked_for_is_gone(compare: Compare, matrix: Matrix) -> None:
    old, new = matrix("old", {STABLE: [record()], BETA: [record()]}), matrix("new", {STABLE: [record()]})
    said = compare(old, new)
    assert (said.code, said.out.splitlines()[-1]) == (1, "1 browser no longer asked for")
    assert compare(old, new, "--gate", "failing").code == 0
    unstarted = matrix("unstarted", {STABLE: [record()], BETA: "it did not start"})
    assert compare(unstarted, new).code == 0  # nothing of it is missed


def test_markdown_has_one_row_a_browser(compare: Compare, matrix: Matrix) -> None:
    old = matrix("old", {STABLE: [record()], BETA: [record()]})
    said = compare(old, matrix("new", {STABLE: [failing()], BETA: "no | bar"}, version="157.0"), "--markdown")
    rows = said.out.splitlines()
    assert said.code == 2
    assert rows[0] == "### kernel-lab: 1 newly failing in 1 of 2 browsers; 1 of 2 browsers without all results"
    assert rows[2] == "Gate: failing, skipped, gone; 1 at the gate."
    assert f"| `{STABLE}` | 156.0 | 157.0 | 0 passed, 1 failed, 0 skipped | 1 newly failing |" in rows
    assert rf"| `{BETA}` |  |  |  | no \| bar |" in rows
    assert f"<details><summary>{STABLE}: 1 newly failing</summary>" in rows
    assert f"<details><summary>{STABLE}: 1 difference between the browsers</summary>" in rows


def test_markdown_is_no_longer_than_a_comment(compare: Compare, matrix: Matrix) -> None:
    """Whole tables, and how many there was no room for."""
    browsers = [f"npm-{number}-swiftshader" for number in range(130, 138)]
    cases = [f"{'long' * 30}{number}" for number in range(60)]
    old = matrix("old", {name: [record(case) for case in cases] for name in browsers})
    new = matrix("new", {name: [failing(case) for case in cases] for name in browsers})
    whole = compare(old, new, "--markdown").out
    assert 0.7 * comparisons.LONGEST_MARKDOWN < len(whole) < 65_536
    shown = whole.count("<details>")
    assert 5 < shown == whole.count("</details>") < 8
    assert whole.endswith(f"\n\n… and {8 - shown} more of these for which a comment has no room.\n")
    assert all(f"| `{name}` |" in whole for name in browsers)


def test_json_of_matrices(compare: Compare, matrix: Matrix) -> None:
    old = matrix("old", {STABLE: [record()], BETA: [record()]})
    said = compare(old, matrix("new", {STABLE: [failing()], BETA: "why"}), "--json")
    found = json.loads(said.out)
    assert said.code == 2
    assert (found["gate"], found["at_the_gate"]) == (["failing", "skipped", "gone"], 1)
    first, second = found["browsers"]
    assert (first["name"], first["at_the_gate"], first["found"]["counts"]["failing"]) == (STABLE, 1, 1)
    assert (second["name"], second["fault"], second["found"]) == (BETA, "why", None)


def test_a_matrix_is_named_by_its_name_in_the_cache_too(compare: Compare, matrix: Matrix) -> None:
    matrix("runs/20260101-000000-1", {STABLE: [record()]})
    assert compare("20260101-000000-1", "20260101-000000-1").code == 0


# A first run.


def test_without_an_old_run_what_fails_fails_newly(compare: Compare, tmp_path: Path, matrix: Matrix) -> None:
    good, bad = (
        str(write(tmp_path / "good", record()).parent),
        str(write(tmp_path / "bad", record(), failing("d")).parent),
    )
    for words in ((), ("--markdown",), ("--json",)):
        assert compare("nowhere", good, "--allow-no-old", *words).code == 0
        assert compare("nowhere", bad, "--allow-no-old", *words).code == 1
        assert compare("nowhere", good, *words).code == 2
    said = compare("nowhere", bad, "--allow-no-old", "--markdown")
    assert said.out.startswith("### kernel-lab: no earlier run to compare with; 2 results, 1 newly failing\n")
    assert "| results | 1 passed, 1 failed, 0 skipped |" in said.out
    assert "no earlier run to compare with" in compare("nowhere", good, "--allow-no-old").out.lower()
    of_matrix = compare("nowhere", matrix("new", {STABLE: [record()], BETA: [record()]}), "--allow-no-old")
    assert of_matrix.code == 0
    assert f"{STABLE}  no earlier run to compare with; 1 result" in of_matrix.out.splitlines()


def test_an_old_run_that_is_there_is_compared_with_and_a_damaged_one_is_refused(
    compare: Compare, matrix: Matrix
) -> None:
    old, new = matrix("old", {STABLE: [record()]}), matrix("new", {STABLE: [failing()]})
    assert "passed → failed" in compare(old, new, "--allow-no-old").out
    (Path(old) / "run.json").write_text('{"browsers": [{}]}')
    said = compare(old, new, "--allow-no-old")
    assert (said.code, said.out) == (2, "")
    assert "run.json cannot be read, or is no run.json of kernel-lab" in said.err


# What cannot be compared.


def test_a_run_and_a_matrix_are_not_compared(compare: Compare, tmp_path: Path, matrix: Matrix) -> None:
    many, one = matrix("many", {STABLE: [record()]}), str(write(tmp_path / "one", record()).parent)
    for words in ((many, one), (one, many)):
        said = compare(*words)
        assert said.code == 2
        assert "many is a matrix and " in said.err
    assert compare(f"{many}/{STABLE}", one).code == 0


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("{", "cannot be read, or is no run.json of kernel-lab"),
        ("[]", "cannot be read, or is no run.json of kernel-lab"),
        ('{"browsers": []}', "names no browser."),
        ('{"browsers": [{"name": "x", "passed": 1}]}', "tells of results of x, but "),
    ],
)
def test_a_matrix_that_cannot_be_read_is_a_sentence(
    compare: Compare, tmp_path: Path, matrix: Matrix, file: str, sentence: str
) -> None:
    good = matrix("good", {STABLE: [record()]})
    (tmp_path / "run.json").write_text(file)
    said = compare(good, str(tmp_path))
    assert (said.code, said.out) == (2, "")
    assert sentence in said.err
    assert "Traceback" not in said.err


# A run that was cut short.


def test_a_run_that_was_cut_short_says_so(compare: Compare, tmp_path: Path) -> None:
    old = write(tmp_path / "old", record(), record("d"), pairs=2)
    new = write(tmp_path / "new", record(), pairs=2)
    said = compare(str(old), str(new))
    assert said.code == 1
    assert "1 passed, 0 failed, 0 skipped, cut short: 1 of 2 pairs without a result" in said.out
    assert said.out.count("cut short") == 1
