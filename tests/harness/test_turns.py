"""Jobs that are begun together have their turns one after the other, and each bears only what it met itself."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kernel_lab.browsing.browser import Browser, Sent
from kernel_lab.browsing.lab import Lab
from kernel_lab.serving.frames import Job
from tests.harness.conftest import PATIENCE_SECONDS
from tests.harness.test_faults import DESTROY_AFTER_SUBMIT, TELL_OF_SUBMIT, close_page

MakeJob = Callable[..., Job]


def test_results_are_those_of_the_jobs_in_order(lab: Lab, job: MakeJob) -> None:
    running = [lab.begin(job(variant)) for variant in ("copy", "off_by_one", "copy")]
    results = [one.ran().result for one in running]
    assert [set(result.equal) for result in results] == [{"y"}, set(), {"y"}]


def test_waiting_for_a_turn_is_no_part_of_a_deadline(lab: Lab, job: MakeJob) -> None:
    endless, short = lab.begin(job("endless", deadline_ms=4000)), lab.begin(job("copy", deadline_ms=3000))
    assert endless.ran().result.status == "timeout"
    ran = short.ran()
    assert ran.result.equal == {"y"}
    assert ran.result.attempts == 1


def test_a_page_that_goes_away_costs_the_job_it_was_running(
    lab: Lab, job: MakeJob, in_page: Callable[..., Any], on_page: Callable[..., Any]
) -> None:
    """Whoever asks for the device meanwhile, as planning does, gets the browser that is started for the next job."""
    before = lab.restarts
    in_page(TELL_OF_SUBMIT)
    lost, next_one = lab.begin(job("endless", deadline_ms=100_000)), lab.begin(job("copy"))
    in_page("() => submitted")
    with ThreadPoolExecutor(4) as asking:
        facts = [asking.submit(lambda: lab.facts) for _ in range(2)]
        on_page(close_page)
        facts += [asking.submit(lambda: lab.facts) for _ in range(4)]
        assert lost.ran().result.status == "crash"
        ran = next_one.ran()
        assert {one.result(PATIENCE_SECONDS).description for one in facts} == {lab.facts.description}
    assert (ran.result.equal, ran.result.attempts) == ({"y"}, 1)
    assert lab.restarts == before + 1


def test_a_job_that_is_cancelled_has_no_turn(lab: Lab, job: MakeJob) -> None:
    first, never, last = (lab.begin(job("copy")) for _ in range(3))
    never.cancel()
    assert first.ran().result.equal == last.ran().result.equal == {"y"}

    async def nobody_waits() -> bool:
        async with asyncio.timeout(PATIENCE_SECONDS), lab._turns.ask():
            return True

    assert lab.host.call(nobody_waits())


def test_a_page_has_the_next_jobs_before_they_have_their_turns(
    lab: Lab, job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the turns: a large one waits for its own, and so do those behind it."""
    sent: list[bool] = []
    send = Browser.send

    async def noting(self: Browser, asked: Job) -> Sent:
        sent.append(self.at_work > 0)
        return await send(self, asked)

    assert lab.facts
    monkeypatch.setattr(Browser, "send", noting)
    asked = [job("slow"), job("copy"), job("copy", "smallest_fetched"), job("copy"), job("copy")]
    assert [one.ran().result.equal for one in [lab.begin(one) for one in asked]] == [{"y"}] * 5
    assert sent[:3] == [False, True, False]


def test_jobs_at_hand_when_a_device_is_lost_run_in_another_browser(
    lab: Lab, job: MakeJob, in_page: Callable[..., Any]
) -> None:
    """The lost one is tried again at once, and does not stand behind them."""
    before = lab.restarts
    in_page(DESTROY_AFTER_SUBMIT, 1)
    running = [lab.begin(job("copy")) for _ in range(3)]
    ran = [one.ran().result for one in running]
    assert [result.equal for result in ran] == [{"y"}] * 3
    assert [result.attempts for result in ran] == [2, 1, 1]
    assert lab.restarts <= before + 1
