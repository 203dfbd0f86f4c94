"""Under fire: browsers, GPU processes, pages, connections and whole runs killed at random moments lose no result."""

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page

from kernel_lab import line, session
from kernel_lab.browsing.browser import Browser
from kernel_lab.browsing.lab import Lab
from kernel_lab.browsing.profiles import Profile
from kernel_lab.errors import LabError
from kernel_lab.judging import journal
from kernel_lab.judging.journal import Journal
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.runs import Pair
from tests.harness.test_faults import close_browser, close_page, crash_renderer, kill_browser, kill_gpu_process

CASES = 2000
KILLS = 50
SEED = 20261130
CASES_BETWEEN_KILLS = 25
OPERATORS = Path(__file__).parents[1] / "operators"


async def drop_connection(browser: Browser) -> None:
    browser._link.close()


def on_page(act: Callable[[Page], Any]) -> Callable[[Browser], Any]:
    return lambda browser: act(browser.page)


ACTS = {
    "connection dropped": drop_connection,
    "browser closed": on_page(close_browser),
    "browser killed": on_page(kill_browser),
    "GPU process killed": on_page(kill_gpu_process),
    "page closed": on_page(close_page),
    "renderer crashed": on_page(crash_renderer),
}


class Killer:
    """Breaks whatever browser runs: after a random number of cases, at a random moment of the next, in a random way."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab, self.random = lab, random.Random(seed)
        self.kills: Counter[str] = Counter()
        self._cases_left = 1
        self._due = threading.Semaphore(0)
        self._idle = threading.Event()
        self._idle.set()
        self._over = False
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> "Killer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._due.release()
        self._thread.join()

    def count(self, _: Verdict) -> None:
        """After each case. Waits for a kill that is still going on: their number must not depend on the machine."""
        self._cases_left -= 1
        if self._cases_left <= 0:
            self._cases_left = self.random.randint(1, 2 * CASES_BETWEEN_KILLS)
            self._idle.wait(30)
            self._idle.clear()
            self._due.release()

    def _work(self) -> None:
        while self._due.acquire() and not self._over:
            name = self.random.choice(sorted(ACTS))
            time.sleep(self.random.uniform(0, 0.008))
            running: Browser | None = self.lab._browser
            if running is not None and running.alive:
                with contextlib.suppress(PlaywrightError, TimeoutError, LabError):  # it broke before this came to it
                    self.lab.host.call(asyncio.wait_for(ACTS[name](running), 3))
                    self.kills[name] += 1
            self._idle.set()


@pytest.mark.parametrize("retry", [False, True], ids=["once", "retried"])
def test_no_result_is_lost_however_often_browsers_die(
    lab_profile: Profile, copy_operator: Operator, copy_case: Callable[[str], Case], tmp_path: Path, retry: bool
) -> None:
    """One record a case, in order: right, or with the fault that met it. A retried one says so."""
    count = CASES if retry else CASES // 4
    seven = copy_case("seven")
    pairs = [Pair(copy_operator, replace(seven, name=f"seven_{number}"), "copy") for number in range(count)]
    log = Journal(tmp_path, {"command": "run"})
    with Lab(replace(lab_profile, retry_lost=retry)) as lab:
        _ = lab.facts
        with Killer(lab, SEED) as killer:
            session.perform(pairs, lab, log, line.Options(deadline_ms=20_000), killer.count)
        restarts = lab.restarts
    log.close()
    results = journal.load(log.path).results
    assert [record["query"] for record in results] == [pair.query for pair in pairs]
    found = Counter((record["outcome"], record["status"]) for record in results)
    told = f"{killer.kills}, {restarts} restarts: {found}"
    assert set(found) <= {("passed", "ok"), ("failed", "crash"), ("failed", "device_lost")}, told
    assert killer.kills.total() >= (KILLS if retry else KILLS // 5), told
    assert set(killer.kills) == set(ACTS) or not retry, told
    again = [record for record in results if record["attempts"] > 1]
    assert again or not retry, told
    for record in results:
        if record["outcome"] == "failed":  # a retried case has met two killers
            assert record["attempts"] == (2 if retry or record["status"] == "device_lost" else 1), record
        elif record["attempts"] == 2 and record["messages"]:
            assert "in two browsers: the page or its browser went away during the run" in record["messages"][0]
    print(told)


def test_a_run_that_is_killed_goes_on_until_every_case_has_one_result(tmp_path: Path) -> None:
    """SIGKILL for the whole worker, at random moments; what is left over goes on with --resume."""
    folder = tmp_path / "run"
    words = ["DequantizeLinear", "--browser", "swiftshader"]
    chance = random.Random(SEED)
    kills = 0
    command = [sys.executable, "-m", "kernel_lab", "run", *words, "--report", str(folder)]
    environment = {**os.environ, "KERNEL_LAB_CACHE": str(tmp_path / "cache")}
    for _ in range(20):
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            if kills < 6 and _has_begun(process, folder):
                time.sleep(chance.uniform(0, 0.3))
                if process.poll() is None:
                    process.kill()
                    kills += 1
            said, _ = process.communicate(timeout=300)
        if process.returncode == 0:
            break
        command = [sys.executable, "-m", "kernel_lab", "run", *words, "--resume", str(folder)]
    assert process.returncode == 0, said
    assert kills >= 3
    queries = [record["query"] for record in journal.load(folder / journal.FILE).results]
    assert len(queries) == len(set(queries))
    assert f"{len(queries)} passed, 0 failed, 0 skipped" in said


def _results(folder: Path) -> int:
    path = folder / journal.FILE
    return path.read_bytes().count(b'"type":"result"') if path.exists() else 0


def _has_begun(process: "subprocess.Popen[str]", folder: Path) -> bool:
    """Waits until the process has judged a case, or is over."""
    before, end = _results(folder), time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        if _results(folder) > before:
            return True
        time.sleep(0.02)
    return False
