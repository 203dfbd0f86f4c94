"""The steps of chrome-matrix.yml, and README's section on CI, run as they are written, with a real browser.

Stand-ins: `gh`, which is GitHub's alone; `apt-get`, `bootstrap.py` and pip, as installing has tests of its own; `npx`,
whose Chrome for Testing is this machine's Chromium. `kernel-lab` is the real one; a matrix of it gets one case.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kernel_lab.browsing import finding
from kernel_lab.reporting.report import Report

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / ".github/workflows/chrome-matrix.yml").read_text("utf-8")
JOBS: dict[str, Any] = yaml.safe_load(TEXT)["jobs"]
README = (ROOT / "README.md").read_text("utf-8")
STABLE, DEV = "chrome-for-testing-stable-swiftshader", "chrome-for-testing-dev-swiftshader"
CASES = "ConvInteger:groups:accumulate_spatial"

# "$4" is chrome-headless-shell@CHANNEL, "$6" the folder. A channel called dev is not to be had.
NPX = """
case $4 in *@dev) echo getaddrinfo ENOTFOUND; exit 1 ;; esac
at="$6/chrome-headless-shell/linux-1/chrome-headless-shell-linux64"
mkdir -p "$at"
printf '#!/bin/sh\\nexec {chromium} "$@"\\n' > "$at/chrome-headless-shell"
chmod +x "$at/chrome-headless-shell"
"""
KERNEL_LAB = """
case $1 in matrix) set -- "$@" $CASES ;; esac
exec {python} -m kernel_lab "$@"
"""
# Two earlier runs: the newer one left no artifact. Comments: one of a person, and ours if $MINE is its number.
GH = """
echo "$*" >> "$CALLS"
case "$*" in
  "api "*/runs*) printf '%s\\n' "$RUNS" | jq -r "$4" ;;
  "run download 2 "*) echo "no valid artifacts found" >&2; exit 1 ;;
  "run download 1 "*) cp -r "$EARLIER" "$9" ;;
  "api --paginate "*) printf '%s\\n' "$COMMENTS" | jq -r "$5" ;;
  *comments*) ;;
  *) echo "unknown: $*" >&2; exit 9 ;;
esac
"""
RUNS = (
    '{"workflow_runs": [{"id": 3, "event": "pull_request"}, {"id": 2, "event": "schedule"}, '
    '{"id": 1, "event": "workflow_dispatch"}]}'
)
GITHUB = {"GH_TOKEN": "", "BRANCH": "main", "WORKFLOW": "repos/owner/name/actions/workflows/chrome-matrix.yml"}


class Runner:
    """What GitHub's runner is to a job: a folder, an environment, a PATH, and the files that steps write to."""

    def __init__(self, place: Path) -> None:
        chromium = finding.find_chromium()
        assert chromium is not None
        self.place, self.bin, self.calls = place, place / "bin", place / "calls"
        self.summary, self.path = place / "summary", place / "path"
        self.bin.mkdir()
        self.tool("npx", NPX.format(chromium=chromium))
        self.tool("kernel-lab", KERNEL_LAB.format(python=sys.executable))
        self.tool("gh", GH)
        self.tool("apt-get", 'echo "apt-get $*" >> "$CALLS"')
        self.tool(
            "python3",
            'echo "python3 $*" >> "$CALLS"; [ "$2" != venv ] || { mkdir -p "$3/bin"; cp "$0-pip" "$3/bin/pip"; }',
        )
        self.tool("python3-pip", 'echo "pip $*" >> "$CALLS"')
        self.environment = {
            **os.environ,
            **{name: str(value) for name, value in yaml.safe_load(TEXT)["env"].items()},
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "server"),
            "KERNEL_LAB_CACHE": str(place / "cache"),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_PATH": str(self.path),
            "GITHUB_REPOSITORY": "owner/name",
            "CALLS": str(self.calls),
            "CASES": CASES,
        }

    def tool(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{script}")
        (self.bin / name).chmod(0o755)

    def bash(self, script: str, **environment: str) -> int:
        """A script's exit code, run as GitHub runs `shell: bash`."""
        script_file = self.place / "step.sh"
        script_file.write_text(script)
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script_file)]
        done = subprocess.run(
            command,
            cwd=self.place,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.out, self.said = done.stdout, done.stdout + done.stderr
        return done.returncode

    def step(self, job: str, name: str, **environment: str) -> int:
        """A step by its name, with its own environment where that is no expression of GitHub's."""
        (found,) = (step for step in JOBS[job]["steps"] if step.get("name") == name)
        own = {key: value for key, value in found.get("env", {}).items() if "${{" not in value}
        assert {*found.get("env", {})} <= {*own, *environment}, "an expression of GitHub's has no value here"
        return self.bash(found["run"], **own, **environment)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_the_steps_of_the_matrix(runner: Runner) -> None:
    """From the first to the last, with a browser that is not to be had: a row of its own, and a failure. First there is
    no earlier run, then one.
    """
    named = [step["name"] for step in JOBS["matrix"]["steps"] if "run" in step]
    assert named == ["System packages", "kernel-lab", "Browsers", "Matrix", "The last kept run", "Compare"]
    runner.environment |= {"INSTALLED": "chrome-for-testing-dev chrome-for-testing-stable"}

    assert runner.step("matrix", "System packages") == runner.step("matrix", "kernel-lab") == 0
    assert "apt-get install -y" in runner.calls.read_text()
    assert runner.calls.read_text().endswith("python3 bootstrap.py list\n")
    assert runner.path.read_text() == f"{runner.place}/.venv/bin\n"

    assert runner.step("matrix", "Browsers") == 2  # the job goes on: continue-on-error
    assert "not installed: chrome-for-testing-dev; why is said above. The others are there." in runner.said

    assert runner.step("matrix", "Matrix", BROWSERS=f"{STABLE} {DEV}") == 1, runner.said
    assert (runner.place / "matrix/report.html").is_file()
    report = Report.model_validate_json((runner.place / "matrix/run.json").read_text())
    assert [(one.name, one.passed, one.failed) for one in report.browsers] == [(STABLE, 1, 0), (DEV, 0, 0)]

    assert runner.step("matrix", "The last kept run", RUNS='{"workflow_runs": []}', **GITHUB) == 0, runner.said
    assert runner.step("matrix", "Compare") == 2, runner.said
    told = runner.summary.read_text()
    assert told == (runner.place / "matrix/comparison.md").read_text()
    first, *rows = told.splitlines()
    assert first.endswith(": 1 of 2 browsers without all results; 1 browser with no earlier results")
    assert any(row.startswith(f"| `{DEV}` | ") and "no Chromium dev from source" in row for row in rows)

    kept = runner.place / "kept"
    shutil.copytree(runner.place / "matrix", kept)
    assert runner.step("matrix", "The last kept run", RUNS=RUNS, EARLIER=str(kept), **GITHUB) == 0, runner.said
    assert re.findall(r"^run download (\d+)", runner.calls.read_text(), re.M) == ["2", "1"]  # no pull request's
    assert runner.step("matrix", "Compare") == 2
    first, *rows = (runner.place / "matrix/comparison.md").read_text().splitlines()
    assert first == "### kernel-lab: 1 of 2 browsers without all results"
    assert any(row.startswith(f"| `{STABLE}` | ") and row.endswith(" nothing changed in 1 result |") for row in rows)


def test_a_run_that_cannot_be_downloaded_is_no_first_run(runner: Runner) -> None:
    only = '{"workflow_runs": [{"id": 2, "event": "schedule"}]}'
    assert runner.step("matrix", "The last kept run", RUNS=only, **GITHUB) != 0
    assert "no valid artifacts found" in runner.said


@pytest.mark.parametrize("mine", [None, 7])
def test_one_comment_is_made_and_then_updated(runner: Runner, mine: int | None) -> None:
    (runner.place / "comparison.md").write_text("### kernel-lab: x\n")
    (name,) = (step["name"] for step in JOBS["comment"]["steps"] if "run" in step)
    said = {5: ("User", "### kernel-lab: I think"), 6: ("Bot", "Coverage")}
    said |= {mine: ("Bot", "### kernel-lab: 1 newly failing")} if mine else {}
    comments = [{"id": number, "user": {"type": kind}, "body": body} for number, (kind, body) in said.items()]
    words = {"GH_TOKEN": "", "ISSUES": "repos/owner/name/issues", "PR": "12", "COMMENTS": json.dumps(comments)}
    assert runner.step("comment", name, **words) == 0, runner.said
    last = runner.calls.read_text().splitlines()[-1]
    place = "--method PATCH repos/owner/name/issues/comments/7" if mine else "repos/owner/name/issues/12/comments"
    assert last == f"api --silent {place} --field body=@comparison.md"


# README's.


def test_the_steps_of_the_workflow_in_readme(runner: Runner) -> None:
    """A model of one node, in a project that is not this one."""
    (shown,) = re.findall(r"^```yaml\n(.*?)^```", README, re.M | re.S)
    (job,) = yaml.safe_load(shown)["jobs"].values()
    install, check, page = (step["run"] for step in job["steps"] if "run" in step)
    runner.environment |= job["env"]
    (runner.place / "models").mkdir()
    shutil.copy(ROOT / "tests/onnx_cases/ci12_1d/model.onnx", runner.place / "models/one.onnx")
    assert runner.bash(install) == 0, runner.said
    assert runner.calls.read_text().endswith(f"pip install --quiet {job['env']['KERNEL_LAB']}\n")
    assert runner.path.read_text() == f"{runner.place}/.venv/bin\n"
    assert runner.bash(check) == 0, runner.said
    assert runner.out.rstrip().endswith("1 passed, 0 failed, 0 skipped")
    assert runner.bash(page) == 0, runner.said
    upload = job["steps"][-1]["with"]["path"]
    assert (runner.place / upload / "report.html").is_file()


def test_the_commands_for_any_shell_in_readme(runner: Runner) -> None:
    """The first time there is nothing to compare with; then there is what the first time left."""
    (script,) = re.findall(r"^<!-- command:ci -->\n```sh\n(.*?)^```", README, re.M | re.S)
    assert runner.bash(script) == 0, runner.said
    assert runner.out.rstrip().endswith("2 browsers with no earlier results")
    assert {"report.html", "run.json"} < {path.name for path in (runner.place / "old").iterdir()}
    shutil.copytree(runner.place / "old", runner.place / "new")
    journal = runner.place / "new/chrome-for-testing-beta-swiftshader/journal.jsonl"
    journal.write_text(journal.read_text().replace('"outcome":"passed"', '"outcome":"failed"'))
    assert runner.bash(next(line for line in script.splitlines() if " compare " in line)) == 1
    assert runner.out.rstrip().endswith("1 newly failing in 1 of 2 browsers")
