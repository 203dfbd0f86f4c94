"""A failure leaves a folder: report, plan, WGSL, tensors, a page of its own and a picture of it."""

import json
from pathlib import Path

import numpy as np

from kernel_lab import line, runs, session
from kernel_lab.browsing.lab import Lab
from kernel_lab.judging.journal import Journal
from kernel_lab.operators.operator import Operator
from kernel_lab.queries import parse

PNG = b"\x89PNG\r\n\x1a\n"


def perform(lab: Lab, operator: Operator, folder: Path, *queries: str) -> list[runs.Verdict]:
    log = Journal(folder, {"command": "run", **runs.describe(lab.info)})
    pairs = list(runs.pairs([operator], [parse(text) for text in queries], every_variant=False))
    verdicts = session.perform(pairs, lab, log)
    log.close()
    return verdicts


def test_a_failure_leaves_all_that_is_known_of_it(lab: Lab, copy_operator: Operator, tmp_path: Path) -> None:
    right, wrong = perform(lab, copy_operator, tmp_path, "Copy:seven:copy", "Copy:seven:off_by_one")
    assert "files" not in right.report
    (folder,) = (tmp_path / "failures").iterdir()
    assert wrong.report.splitlines()[-1] == f"  files     {folder}"
    assert wrong.record["report"] == wrong.report
    assert {path.name for path in folder.iterdir()} == {
        "report.txt", "plan.json", "1-copy.wgsl", "tensors.npz", "page.html", "page.png",
    }  # fmt: skip
    assert "y: 1 of 7 elements differ" in (folder / "report.txt").read_text()
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["label"] == "lab.test.Copy:off_by_one"
    assert "fn main(" in (folder / "1-copy.wgsl").read_text()
    with np.load(folder / "tensors.npz") as tensors:
        assert np.flatnonzero(tensors["actual.y"] != tensors["expected.y"]).tolist() == [5]
        assert tensors["input.x"].tolist() == tensors["expected.y"].tolist()
    assert (folder / "page.png").read_bytes().startswith(PNG)
    assert "lab.test.Copy:seven:off_by_one" in (folder / "page.html").read_text()


def test_a_kernel_that_never_ends_hangs_no_second_browser(lab: Lab, copy_operator: Operator, tmp_path: Path) -> None:
    """The page in its folder runs the kernel, so nobody opens it for a picture."""
    log = Journal(tmp_path, {"command": "run", **runs.describe(lab.info)})
    queries = [parse("Copy:seven:endless"), parse("Copy:large:copy")]
    pairs = list(runs.pairs([copy_operator], queries, every_variant=False))
    endless, after = session.perform(pairs, lab, log, line.Options(deadline_ms=3000))
    log.close()
    assert (endless.record["status"], after.outcome) == ("timeout", "passed"), after.report
    names = {path.name for path in (tmp_path / "failures").rglob("*")}
    assert "page.html" in names
    assert "page.png" not in names


def test_a_folder_that_cannot_be_written_costs_no_result(lab: Lab, copy_operator: Operator, tmp_path: Path) -> None:
    (tmp_path / "failures").write_text("in the way")
    (wrong,) = perform(lab, copy_operator, tmp_path, "Copy:seven:off_by_one")
    assert wrong.outcome == "failed"
    assert wrong.report.splitlines()[-1].startswith("  files     none (what the failure leaves cannot be written to ")
