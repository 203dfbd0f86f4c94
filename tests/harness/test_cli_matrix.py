"""`kernel-lab matrix` with real browsers: each keeps its own row, and the report has them all."""

import os
import subprocess
import sys
from pathlib import Path

from kernel_lab.reporting.report import Report

OPERATORS = Path(__file__).parents[1] / "operators"
COPY = ("--package", str(OPERATORS), "--reference", str(OPERATORS / "lab.test.Copy" / "reference.py"))


def matrix(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "KERNEL_LAB_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "kernel_lab", "matrix", *words, *COPY, "--report", str(folder / "report")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def report(folder: Path) -> Report:
    return Report.model_validate_json((folder / "report" / "run.json").read_text())


def test_a_browser_that_does_not_start_is_its_own_row(tmp_path: Path) -> None:
    broken = tmp_path / "chrome"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    ended = matrix(
        tmp_path, "Copy:seven:copy", "Copy:seven:off_by_one",
        "--browser", "swiftshader", "--browser", str(broken), "--processes", "2",
    )  # fmt: skip
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr
    first, second = report(tmp_path).browsers
    assert (first.name, first.passed, first.failed, first.reason) == ("swiftshader", 1, 1, "")
    assert (second.name, second.passed, second.failed) == (str(broken), 0, 0)
    assert second.reason
    assert second.reason in ended.stdout
    assert (tmp_path / "report" / "report.html").is_file()


def test_a_matrix_in_which_all_is_well_ends_well(tmp_path: Path) -> None:
    ended = matrix(tmp_path, "Copy:seven:copy", "--browser", "swiftshader", "--browser", "default")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (result,) = report(tmp_path).results
    assert {name: cell.outcome for name, cell in result.cells.items()} == {"swiftshader": "passed", "default": "passed"}
    assert all(cell.outputs["y"] for cell in result.cells.values())
