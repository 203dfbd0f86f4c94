"""Several pytest workers: a browser for each, and a browser that is lost costs its worker one result at most."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.conftest import OPERATORS

RunPytest = Callable[..., "subprocess.CompletedProcess[str]"]

FOUR_TESTS = f"""
import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernel_lab import line
from kernel_lab.operators import operator
from kernel_lab.pytest_plugin import settle

OPERATOR = operator.load_all(Path({str(OPERATORS)!r}))["lab.test.Copy"]
CASE = OPERATOR.cases[0]
TELL_OF_SUBMIT = '''() => {{
  const {{ submit }} = GPUQueue.prototype;
  globalThis.submitted = new Promise((resolve) => {{
    GPUQueue.prototype.submit = function (...given) {{ submit.apply(this, given); resolve(); }};
  }});
}}'''


def follow(lab, variant):
    return line.follow(OPERATOR, CASE, lab, variant, line.Options(deadline_ms=20_000))


@pytest.fixture(autouse=True)
def note(request, lab, worker_id):
    yield
    told = {{"test": request.node.name, "worker": worker_id, "address": lab.address, "restarts": lab.restarts}}
    Path("notes", request.node.name).write_text(json.dumps(told))


def test_1(lab):
    settle(follow(lab, "copy"))


def test_2(lab):
    page, call = lab.browser.page, lambda coroutine: lab.host.call(asyncio.wait_for(coroutine, 30))
    if os.environ["BREAK"] == "before":
        call(page.context.browser.close())
        settle(follow(lab, "copy"))
    elif os.environ["BREAK"] == "during":
        call(page.evaluate(TELL_OF_SUBMIT))
        with ThreadPoolExecutor(1) as thread:
            verdict = thread.submit(follow, lab, "endless")
            call(page.evaluate("() => submitted"))
            call(page.context.browser.close())
            settle(verdict.result())


def test_3(lab):
    settle(follow(lab, "copy"))


def test_4(lab):
    settle(follow(lab, "copy"))
"""


@pytest.mark.parametrize(
    ("when", "summary", "restarts"), [("before", "4 passed", 1), ("during", "1 failed, 3 passed", 1)]
)
def test_lost_browser_costs_one_result_at_most(
    run_pytest: RunPytest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, summary: str, restarts: int
) -> None:
    """Closed before test 2 has sent its case, it costs nothing; closed while that case runs, it costs that one result."""
    monkeypatch.setenv("BREAK", when)
    (tmp_path / "notes").mkdir()
    ended = run_pytest(FOUR_TESTS, "-n", "2")
    assert f"= {summary} in " in ended.stdout, ended.stdout + ended.stderr
    assert ("went away during the run" in ended.stdout) is (when == "during")

    notes: list[dict[str, Any]] = [json.loads(path.read_text()) for path in (tmp_path / "notes").iterdir()]
    assert len(notes) == 4
    pairs = {(note["worker"], note["address"]) for note in notes}
    assert len(pairs) == 2, "one browser for each worker, its own"
    assert len({worker for worker, _ in pairs}) == len({address for _, address in pairs}) == 2
    lost = {worker: max(note["restarts"] for note in notes if note["worker"] == worker) for worker, _ in pairs}
    assert sorted(lost.values()) == [0, restarts], "the other worker's browser is left alone"


def test_who_ran_it_is_said_once_for_all_workers(run_pytest: RunPytest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BREAK", "never")
    (tmp_path / "notes").mkdir()
    ended = run_pytest(FOUR_TESTS, "-n", "2")
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.count("browser  Chromium ") == 1
    assert ended.stdout.count("adapter  ") == 1
