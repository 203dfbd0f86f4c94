"""Mutants in a browser, of the copy operator: what a case can notice is caught, what none can notice survives."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kernel_lab.browsing.lab import Lab
from kernel_lab.cli import app
from kernel_lab.judging import journal
from kernel_lab.mutating import survey
from kernel_lab.mutating.engine import Court, Outcome
from kernel_lab.mutating.equivalents import FILE, Equivalents
from kernel_lab.mutating.survey import Survey
from kernel_lab.operators import operator
from tests.harness.conftest import OPERATORS

DEAD = """  let dead = index * 3u;
  let mixed = ldexp(1.5, 2i);
  var spins = 0u;
  loop {
    spins += 1u;
    if (spins > 4u) {
      break;
    }
  }
"""
"""Lines put into copy.wgsl.jinja: arithmetic that nobody reads, and a loop that ends with 5."""

STORE = "  y[index] = spoiled(index, x[index]);\n"
STORE_AFTER_LOOP = "  y[index] = select(0u, spoiled(index, x[index]), spins == 5u);\n"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy operator with two cases and a kernel that also does something useless."""
    folder = tmp_path_factory.mktemp("operators") / "lab.test.Copy"
    shutil.copytree(OPERATORS / "lab.test.Copy", folder)
    template = folder / "copy.wgsl.jinja"
    template.write_text(template.read_text().replace(STORE, DEAD + STORE_AFTER_LOOP))
    cases = json.loads((folder / "test.json").read_text())
    cases["cases"] = [case for case in cases["cases"] if case["name"] in ("seven", "nothing")]
    (folder / "test.json").write_text(json.dumps(cases))
    return folder.parent


@pytest.fixture(scope="module")
def found(lab: Lab, package: Path) -> Survey:
    return survey.survey(operator.load_all(package).values(), lab.facts, "copy")


@pytest.fixture
def judge(lab: Lab, found: Survey) -> Callable[..., Outcome]:
    """The outcome of the one mutant of a kind whose lines held and hold those texts."""

    def judged(kind: str, before: str, after: str, deadline_ms: int = 20_000) -> Outcome:
        [mutant] = [
            same[0]
            for fault, same in found.mutants.items()
            if fault.kind == kind and before in fault.before and after in fault.after
        ]
        return Court(lab.run, lab.prepare, deadline_ms, Equivalents({})).judge(mutant)

    return judged


def test_the_copy_operator_offers_mutants(found: Survey) -> None:
    assert {fault.template for fault in found.mutants} == {"copy.wgsl.jinja", "lab.test.Copy/manifest.json"}
    assert [host.query for host in found.hosts] == ["lab.test.Copy:*:copy"]
    assert [trial.case.name for trial in found.hosts[0].trials] == ["seven"]
    assert not found.complete


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("index", "y[index]", "y[index + 1]"),
        ("guard", "index >= params.count", "if (true)"),
        ("guard", "index >= params.count", "if (false)"),
        ("comparison", "index >= params.count", "index > params.count"),
        ("arguments_swapped", "spoiled", "spoiled(x[index], index)"),
        ("plan_field", "count", "count - 1"),
        ("plan_dispatch", "workgroups.x", "workgroups.x - 1"),
    ],
)
def test_what_a_case_can_notice_is_caught(judge: Callable[..., Outcome], kind: str, before: str, after: str) -> None:
    outcome = judge(kind, before, after)
    assert (outcome.fate, outcome.by) == ("caught", "seven:copy")


def test_what_no_case_can_notice_survives(judge: Callable[..., Outcome]) -> None:
    outcome = judge("product", "index * 3u", "index + 3u")
    assert (outcome.fate, outcome.runs) == ("survived", 1)


def test_what_does_not_compile_is_not_counted(judge: Callable[..., Outcome]) -> None:
    outcome = judge("arguments_swapped", "ldexp", "ldexp(2i, 1.5)")
    assert (outcome.fate, outcome.compiled) == ("not compiled", False)
    assert "ldexp" in outcome.how


@pytest.fixture
def mutate(package: Path, tmp_path: Path) -> Callable[..., tuple[int, dict[str, Any], str]]:
    """`kernel-lab mutate` on that operator: exit code, report, what it printed."""

    def run(*options: str) -> tuple[int, dict[str, Any], str]:
        command = [
            "mutate", "Copy", "--package", str(package), "--reference", str(package / "lab.test.Copy" / "reference.py"),
            "--variants", "copy", "--per-template", "0", "--per-kind", "0", "--report", str(tmp_path), *options,
        ]  # fmt: skip
        done = CliRunner().invoke(app, command)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        records = list(journal.read(tmp_path / journal.FILE))
        mutants = [record for record in records if record["type"] == "mutant"]
        return done.exit_code, {**records[-1], "mutants": mutants}, done.output

    return run


def test_the_command_says_what_survived_and_where(
    mutate: Callable[..., tuple[int, dict[str, Any], str]], package: Path
) -> None:
    code, report, said = mutate("--count", "200")
    assert report["compiled"] == report["caught"] + report["survived"]
    assert report["not compiled"] >= 1
    assert report["survived"] >= 2
    assert (code == 0) == (report["score"] >= 95)
    line = 1 + (package / "lab.test.Copy" / "copy.wgsl.jinja").read_text().splitlines().index(DEAD.splitlines()[0])
    assert f"survived  copy.wgsl.jinja:{line}  product, in main" in said
    assert "-   let dead = index * 3u;" in said
    assert "+   let dead = index + 3u;" in said


def test_the_command_takes_arguments_for_survivors(
    package: Path, mutate: Callable[..., tuple[int, dict[str, Any], str]]
) -> None:
    _, report, _ = mutate("--count", "200")
    keys = ("template", "place", "kind", "before", "after")
    entries = [
        {**{key: one[key] for key in keys}, "argument": "Nobody reads what this line computes."}
        for one in report["mutants"]
        if one["fate"] == "survived"
    ]
    path = package / FILE
    try:
        path.write_text(json.dumps({"equivalents": entries}))
        code, report, said = mutate("--count", "200", "--seed", "2")
        assert (code, report["score"], report["equivalent"]) == (0, 100, len(entries)), said
        caught = next(one for one in report["mutants"] if one["fate"] == "caught")
        wrong = {**{key: caught[key] for key in keys}, "argument": "Nobody reads what this line computes."}
        path.write_text(json.dumps({"equivalents": [*entries, wrong]}))
        code, report, said = mutate("--count", "200")
        assert code == 1
        assert "no equivalent" in said
    finally:
        path.unlink()
