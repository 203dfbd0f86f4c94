"""Several real versions of Chromium: one matrix of all, and a fault that one of them has is found and named."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from kernel_lab.browsing import installing
from kernel_lab.errors import LabError
from kernel_lab.judging.journal import cache_folder
from kernel_lab.reporting.report import Report

pytestmark = pytest.mark.xdist_group("versions")

OPERATORS = Path(__file__).parents[1] / "operators"
COPY = ("--package", str(OPERATORS), "--reference", str(OPERATORS / "lab.test.Copy" / "reference.py"))
TABLE = """
[profiles.drill]
browser = "{browser}-swiftshader"
templates = "drill"
"""

Lab = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def versions(versions: list[str], lacking: Callable[[str], NoReturn]) -> list[str]:
    """The same, with lavapipe."""
    try:
        installing.install_lavapipe(print)
    except LabError as error:
        lacking(str(error))
    return versions


@pytest.fixture
def kernel_lab(tmp_path: Path) -> Lab:
    """The program, in a project with a profile of its own, whose copy.wgsl.jinja adds 1 to one element."""
    template = (OPERATORS / "lab.test.Copy" / "copy.wgsl.jinja").read_text()
    right = "y[index] = spoiled(index, x[index]);"
    assert right in template
    (tmp_path / "drill").mkdir()
    wrong = template.replace(right, "y[index] = spoiled(index, x[index]) + u32(index == 5u);")
    (tmp_path / "drill" / "copy.wgsl.jinja").write_text(wrong)

    def run(*words: str, on: str) -> "subprocess.CompletedProcess[str]":
        (tmp_path / "kernel-lab.toml").write_text(TABLE.format(browser=on))
        command = [sys.executable, "-m", "kernel_lab", *words]
        environment = {**os.environ, "KERNEL_LAB_CACHE": str(cache_folder())}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False
        )

    return run


def test_one_matrix_of_every_version_and_both_adapters(kernel_lab: Lab, versions: list[str], tmp_path: Path) -> None:
    names = [f"{name}-swiftshader" for name in versions] + [f"{name}-lavapipe" for name in versions]
    browsers = [word for name in names for word in ("--browser", name)]
    ended = kernel_lab(
        "matrix",
        "ConvInteger:groups",
        "DequantizeLinear:onnx_*",
        *browsers,
        "--report",
        str(tmp_path),
        "--processes",
        "2",
        on=versions[-1],
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = Report.model_validate_json((tmp_path / "run.json").read_text())
    assert [one.name for one in report.browsers] == names
    assert len({one.version for one in report.browsers}) == len(versions) >= 3
    for one in report.browsers:
        assert (one.passed, one.failed, one.reason) == (one.passed, 0, ""), one.name
        assert one.passed >= 8
        assert one.adapter is not None
        assert ("llvmpipe" in one.adapter.description) == one.name.endswith("lavapipe")
    for result in report.results:
        seen = {cell.outputs["y"] for cell in result.cells.values() if cell.outcome == "passed"}
        assert len(seen) == 1, f"{result.query}: what passed has the same bytes everywhere"
        assert all(report.traces[cell.trace] for cell in result.cells.values() if cell.trace is not None)
        assert any(cell.trace is not None for cell in result.cells.values())


def test_a_fault_of_one_browser_is_found_by_compare(kernel_lab: Lab, versions: list[str], tmp_path: Path) -> None:
    last, before = versions[-1], f"{versions[-2]}-swiftshader"
    words = ("matrix", "Copy:seven:copy", "Copy:seven:twin", *COPY, "--report", str(tmp_path / "r"))
    ended = kernel_lab(*words, "--browser", before, "--browser", "drill", on=last)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    found = kernel_lab("compare", str(tmp_path / "r" / before), str(tmp_path / "r" / "drill"), on=last)
    assert found.returncode == 1
    assert "lab.test.Copy:seven:copy  passed → failed: y: 1 of 7 elements differ; first at [5]" in found.stdout
    assert "templates of its own gained copy.wgsl.jinja (" in " ".join(found.stdout.split())


def test_a_fault_of_one_browser_is_found_by_bisect(kernel_lab: Lab, versions: list[str], tmp_path: Path) -> None:
    good, last = f"{versions[0]}-swiftshader", versions[-1]
    words = ("bisect", "Copy:seven:copy", *COPY, "--here", "--good", good, "--bad", "drill")
    ended = kernel_lab(*words, "--report", str(tmp_path / "r"), on=last)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "looking for   newly failing: lab.test.Copy:seven:copy" in ended.stdout
    assert "copy.wgsl.jinja" in ended.stdout
    assert ended.stdout.splitlines()[-1].startswith("First changed in drill (")
    assert (tmp_path / "r" / "report.html").is_file()
    nothing = kernel_lab(
        "bisect", "Copy:seven:twin", *COPY, "--here", "--good", good, "--bad", f"{last}-swiftshader", on=last
    )
    assert nothing.returncode == 2
    assert f"nothing changes between {good} and {last}-swiftshader" in nothing.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--good", "default", "--bad", "drill"), "--good: 'default' names no version of a Chromium"),
        (("--good", "{first}-lavapipe", "--bad", "drill"), "--good is on lavapipe and --bad on swiftshader"),
        (
            ("--good", "{first}-swiftshader", "--bad", "drill", "--on", "slower"),
            "--on: got 'slower', allowed are failing",
        ),
    ],
)
def test_what_cannot_be_bisected_is_a_sentence(
    words: tuple[str, ...], sentence: str, kernel_lab: Lab, versions: list[str]
) -> None:
    named = [word.format(first=versions[0]) for word in words]
    ended = kernel_lab("bisect", "Copy:seven:copy", *COPY, *named, on=versions[-1])
    assert ended.returncode == 2
    assert sentence in ended.stderr
    assert "Traceback" not in ended.stderr
