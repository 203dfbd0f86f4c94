"""Several pytest workers: a browser for each, and a browser that is lost costs its worker one result at most."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernel_lab.judging import journal
from kernel_lab.operators.operator import Operator
from kernel_lab.reporting.report import Report

RunPytest = Callable[..., "subprocess.CompletedProcess[str]"]

FOUR_TESTS = """
import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernel_lab import line
from kernel_lab.operators import operator
from kernel_lab.pytest_plugin import settle

OPERATOR = operator.load_all(Path(OPERATORS))["lab.test.Copy"]
CASE = OPERATOR.cases[0]
TELL_OF_SUBMIT = '''() => {
  const { submit } = GPUQueue.prototype;
  globalThis.submitted = new Promise((resolve) => {
    GPUQueue.prototype.submit = function (...given) { submit.apply(this, given); resolve(); };
  });
}'''


def follow(lab, variant):
    return line.follow(OPERATOR, CASE, lab, variant, line.Options(deadline_ms=20_000))


@pytest.fixture(autouse=True)
def note(request, lab, worker_id):
    yield
    _ = lab.browser  # runs, or is started anew
    told = {"test": request.node.name, "worker": worker_id, "address": lab.address, "restarts": lab.restarts}
    Path("notes", request.node.name).write_text(json.dumps(told))


@pytest.mark.xdist_group("a")
def test_1(lab):
    settle(follow(lab, "copy"))


@pytest.mark.xdist_group("b")
def test_2(lab):
    page, call = lab.browser.page, lambda coroutine: lab.host.call(asyncio.wait_for(coroutine, 30))
    if os.environ["BREAK"] == "before":
        call(page.context.browser.close())
        settle(follow(lab, "copy"))
    else:
        call(page.evaluate(TELL_OF_SUBMIT))
        with ThreadPoolExecutor(1) as thread:
            verdict = thread.submit(follow, lab, "endless")
            call(page.evaluate("() => submitted"))
            call(page.context.browser.close())
            settle(verdict.result())


@pytest.mark.xdist_group("b")
def test_3(lab):
    settle(follow(lab, "copy"))


@pytest.mark.xdist_group("a")
def test_4(lab):
    settle(follow(lab, "copy"))
"""


@pytest.mark.parametrize(("when", "summary"), [("before", "4 passed"), ("during", "1 failed, 3 passed")])
def test_lost_browser_costs_one_result_at_most(
    copy_operator: Operator,
    run_pytest: RunPytest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
    summary: str,
) -> None:
    """Closed before test 2 sends its case, it costs nothing; closed while that case runs, it costs that one result."""
    monkeypatch.setenv("BREAK", when)
    (tmp_path / "notes").mkdir()
    text = FOUR_TESTS.replace("OPERATORS", repr(str(copy_operator.folder.parent)))
    ended = run_pytest(text, "-n", "2", "--dist", "loadgroup")
    assert f"= {summary} in " in ended.stdout, ended.stdout + ended.stderr
    assert ("went away during the run" in ended.stdout) is (when == "during")

    assert ended.stdout.count("browser  Chromium ") == 1, "who ran it is said once for all workers"

    notes: list[dict[str, Any]] = [json.loads(path.read_text()) for path in (tmp_path / "notes").iterdir()]
    assert len(notes) == 4
    workers = {note["test"]: note["worker"] for note in notes}
    assert workers["test_2"] == workers["test_3"], "so that one test comes after the loss"
    pairs = {(note["worker"], note["address"]) for note in notes}
    assert len(pairs) == 2, "one browser for each worker, its own"
    assert len({worker for worker, _ in pairs}) == len({address for _, address in pairs}) == 2
    lost = {worker: max(note["restarts"] for note in notes if note["worker"] == worker) for worker, _ in pairs}
    assert sorted(lost.values()) == [0, 1], "the other worker's browser is left alone"


GROUPED_TESTS = """
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "group", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in ("a", "a", "b", "b", "a", "b")]
)
def test_grouped(group, worker_id):
    with Path(f"group_{group}").open("a") as file:
        file.write(f"{worker_id}\\n")
"""


def test_tests_of_one_group_run_on_one_worker(run_pytest: RunPytest, tmp_path: Path) -> None:
    """Kernel tests are grouped by variant, so that a pipeline is compiled by one worker only."""
    ended = run_pytest(GROUPED_TESTS, "-n", "2", "--dist", "loadgroup")
    assert "= 6 passed in " in ended.stdout, ended.stdout + ended.stderr
    workers = [(tmp_path / f"group_{name}").read_text().split() for name in "ab"]
    assert [len(set(names)) for names in workers] == [1, 1]
    assert workers[0][0] != workers[1][0]


KERNELS = """
from kernel_lab.pytest_plugin import settle


def test_kernel(kernel_pair, lab_judge):
    settle(lab_judge(kernel_pair))
"""


def test_what_the_workers_found_becomes_one_report(run_pytest: RunPytest, tmp_path: Path) -> None:
    queries = [
        word for name in ("groups", "card_example", "wrong_rank*") for word in ("--lab-query", f"ConvInteger:{name}")
    ]
    done = run_pytest(KERNELS, "-n", "2", "--dist", "load", *queries, "--lab-variants", "all", "--lab-report", "r")
    assert done.returncode == 0, done.stdout
    workers = sorted(path.parent.name for path in (tmp_path / "r").glob("*/journal.jsonl"))
    assert workers == ["gw0", "gw1"]
    command = [sys.executable, "-m", "kernel_lab", "report", "r", "--out", "out"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    report = Report.model_validate_json((tmp_path / "out" / "run.json").read_text())
    (browser,) = report.browsers
    kept = [journal.load(tmp_path / "r" / worker / journal.FILE).results for worker in workers]
    assert all(kept), "both workers judged some"
    assert len(report.results) == sum(map(len, kept)) > 4
    assert browser.passed + browser.skipped == len(report.results)
    assert list(browser.packages) == sorted(browser.packages)
    assert "ai.onnx.ConvInteger" in browser.packages
