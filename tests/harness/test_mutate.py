"""Mutants in a browser, of the copy operator: what a case can notice is caught, what none can notice survives."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kernel_lab.browsing.lab import Lab
from kernel_lab.cli import app
from kernel_lab.mutating import survey
from kernel_lab.mutating.engine import Court, Outcome
from kernel_lab.mutating.equivalents import FILE, Equivalents
from kernel_lab.mutating.survey import Survey
from kernel_lab.operators import operator
from tests.harness.conftest import OPERATORS

DEAD = """  let dead = index * 3u;
  var spins = 0u;
  loop {
    spins += 1u;
    if (spins > 4u) {
      break;
    }
  }
"""
"""Lines of copy.wgsl.jinja that compute nothing anybody reads: arithmetic, and a loop that must end."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy operator with two cases and a kernel that also does something useless."""
    folder = tmp_path_factory.mktemp("operators") / "lab.test.Copy"
    shutil.copytree(OPERATORS / "lab.test.Copy", folder)
    template = folder / "copy.wgsl.jinja"
    line = "  y[index] = spoiled(index, x[index]);\n"
    template.write_text(template.read_text().replace(line, f"{DEAD}{line}"))
    cases = json.loads((folder / "test.json").read_text())
    cases["cases"] = [case for case in cases["cases"] if case["name"] in ("seven", "nothing")]
    (folder / "test.json").write_text(json.dumps(cases))
    return folder.parent


@pytest.fixture(scope="module")
def found(lab: Lab, package: Path) -> Survey:
    return survey.survey(operator.load_all(package).values(), lab.facts, "copy")


@pytest.fixture
def judge(lab: Lab, found: Survey) -> Callable[..., Outcome]:
    """The outcome of the one mutant whose changed lines hold that text."""

    def judged(after: str, deadline_ms: int = 20_000) -> Outcome:
        [mutant] = [same[0] for fault, same in found.mutants.items() if after in fault.after]
        return Court(lab.run, deadline_ms, Equivalents({})).judge(mutant)

    return judged


def test_the_copy_operator_offers_mutants(found: Survey) -> None:
    assert {fault.template for fault in found.mutants} == {"copy.wgsl.jinja", "lab.test.Copy/manifest.json"}
    assert [host.query for host in found.hosts] == ["lab.test.Copy:*:copy"]
    assert [trial.case.name for trial in found.hosts[0].trials] == ["seven"]
    assert not found.complete


@pytest.mark.parametrize("after", ["y[index + 1]", "x[index + 1]", "if (true)", "index > params.count", "count - 1"])
def test_what_a_case_can_notice_is_caught(judge: Callable[..., Outcome], after: str) -> None:
    outcome = judge(after)
    assert (outcome.fate, outcome.by) == ("caught", "seven")


@pytest.mark.parametrize("after", ["index + 3u", "spins > 5u"])
def test_what_no_case_can_notice_survives(judge: Callable[..., Outcome], after: str) -> None:
    outcome = judge(after)
    assert (outcome.fate, outcome.runs) == ("survived", 1)


def test_what_does_not_compile_is_not_counted(judge: Callable[..., Outcome]) -> None:
    outcome = judge("let index = id.y") if False else judge("spoiled(x[index], index)")
    assert outcome.fate == "caught"


def test_a_loop_without_end_is_caught_and_cut_short(lab: Lab, judge: Callable[..., Outcome]) -> None:
    before = lab.restarts
    outcome = judge("spins -= 1u", deadline_ms=500)
    assert outcome.fate == "caught"
    assert outcome.how == "timeout"
    assert lab.restarts <= before + 1
    assert judge("y[index + 1]").fate == "caught"
