"""Jobs that are begun together have their turns one after the other, and each bears only what it met itself."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kernel_lab.browsing.lab import Lab
from kernel_lab.serving.frames import Job
from tests.harness.conftest import PATIENCE_SECONDS
from tests.harness.test_faults import TELL_OF_SUBMIT, close_page

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
        async with asyncio.timeout(PATIENCE_SECONDS), lab._turn:
            return True

    assert lab.host.call(nobody_waits())
