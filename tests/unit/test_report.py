"""run.json and the page: what several browsers' journals become."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kernel_lab.errors import LabError
from kernel_lab.judging.journal import Kept, Trace
from kernel_lab.reporting import report, writing
from kernel_lab.reporting.page import page
from kernel_lab.reporting.report import Part, Report, report_of

ADAPTER = {
    "description": "google: SwiftShader",
    "fallback": True,
    "spoofed_ids": False,
    "info": {"vendor": "google"},
    "features": ["subgroups"],
    "language_features": ["subgroup_id"],
    "limits": {"maxBufferSize": 4096},
    "more": "a later kernel-lab may say more",
}
HEADER = {
    "type": "run",
    "browser": {"profile": "p", "version": "156.0.1.2", "executable": "/c", "flags": ["--a"], "headed": False},
    "adapter": ADAPTER,
    "machine": {"system": "Linux"},
    "packages": {"lab.A": "00"},
    "started": "2026-11-30T00:00:00+00:00",
}


def result(case: str, outcome: str = "passed", **more: Any) -> dict[str, Any]:
    names = {"operator": "lab.A", "case": case, "variant": "v", "query": f"lab.A:{case}:v"}
    return {"type": "result", **names, "outcome": outcome, "summary": outcome, **more}


def part(name: str, *results: dict[str, Any], reason: str = "", header: dict[str, Any] | None = None) -> Part:
    return Part(name, (Kept(Path("journal.jsonl"), header or HEADER, results),), reason)


def test_each_browser_is_a_column_and_each_pair_a_result() -> None:
    made = report_of([part("a", result("one"), result("two", "failed")), part("b", result("one", "skipped"))], "now")
    assert [(one.name, one.passed, one.failed, one.skipped) for one in made.browsers] == [
        ("a", 1, 1, 0),
        ("b", 0, 0, 1),
    ]
    assert {one.query: {name: cell.outcome for name, cell in one.cells.items()} for one in made.results} == {
        "lab.A:one:v": {"a": "passed", "b": "skipped"},
        "lab.A:two:v": {"a": "failed"},
    }
    assert made.browsers[0].adapter is not None
    assert made.browsers[0].adapter.limits == {"maxBufferSize": 4096}
    assert made.browsers[0].packages == {"lab.A": "00"}


@pytest.mark.parametrize("order", [("passed", "failed"), ("failed", "passed")])
def test_of_two_results_of_a_pair_the_worse_counts_once(order: tuple[str, str]) -> None:
    made = report_of([part("a", *(result("one", outcome) for outcome in order))], "now")
    assert (made.browsers[0].passed, made.browsers[0].failed) == (0, 1)
    assert made.results[0].cells["a"].repeated == 2


def test_a_browser_that_gave_nothing_is_a_column_with_its_reason() -> None:
    no_adapter = {**HEADER, "adapter": None, "no_adapter": "requestAdapter gave null"}
    made = report_of([Part("gone", (), "it did not start"), part("poor", header=no_adapter)], "now")
    assert [(one.name, one.reason, one.adapter) for one in made.browsers] == [
        ("gone", "it did not start", None),
        ("poor", "requestAdapter gave null", None),
    ]


TRACE = (("fast", "requires", "needs the feature 'f'."), ("v", "accepted", ""))


def test_what_selection_said_is_kept_once_and_named_by_cells() -> None:
    def decided(name: str, trace: Trace) -> Part:
        kept = Kept(Path("journal.jsonl"), HEADER, (result("one"), result("two")), {"lab.A:one": trace})
        return Part(name, (kept,))

    made = report_of([decided("a", TRACE), decided("b", TRACE), decided("c", TRACE[1:])], "now")
    assert [[(one.variant, one.stage, one.reason) for one in trace] for trace in made.traces] == [
        list(TRACE),
        list(TRACE[1:]),
    ]
    one, two = made.results
    assert {name: cell.trace for name, cell in one.cells.items()} == {"a": 0, "b": 0, "c": 1}
    assert {cell.trace for cell in two.cells.values()} == {None}


def test_a_time_that_was_not_taken_is_left_out() -> None:
    made = report_of([part("a", result("one", timings={"gpu_ms": 1.5, "pass_ns": None}))], "now")
    assert made.results[0].cells["a"].timings == {"gpu_ms": 1.5}


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    more = {"wgsl": {"p": "ab"}, "outputs": {"y": "cd"}, "pictures": {"y": ["09"]}, "selected": True}
    made = writing.write(tmp_path / "new", [part("a", result("one", "failed", **more))])
    text = (tmp_path / "new" / "run.json").read_text()
    assert Report.model_validate_json(text) == made
    assert json.loads(text)["results"][0]["cells"]["a"]["pictures"] == {"y": ["09"]}


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match=r"cannot be written to .*: Not a directory\. Choose another"):
        writing.write(tmp_path / "file" / "below", [part("a", result("one"))])


def test_the_published_schema_is_that_of_the_code() -> None:
    """`kernel-lab report --schema > server/kernel_lab/reporting/run.schema.json` makes it anew."""
    published = Path(report.__file__).with_name("run.schema.json").read_text("utf-8")
    assert published == report.schema()


def test_the_page_asks_nobody_for_anything() -> None:
    text = page(report_of([part("a", result("one"))], "now"), "a title")
    assert not re.search(r"""(?:src|href)\s*=|@import|url\(|fetch\(|XMLHttpRequest|import\(""", text)
    assert "<title>kernel-lab: a title</title>" in text
    assert not re.search(r"\{\{\w+\}\}", text)


def test_nothing_that_a_kernel_says_ends_the_page() -> None:
    bad = "</script><script>alert(1)</script><!-- {{css}} \\"
    made = report_of([part("a", result("one", "failed", report=bad))], "now")
    text = page(made, "</title><script>alert(2)</script>")
    assert text.count("<script") == 2
    assert "<!--" not in text
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["results"][0]["cells"]["a"]["report"] == bad
