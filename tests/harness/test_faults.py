"""Whatever breaks, and whenever: the case that met it fails or is tried again, no other is touched."""

import asyncio
import contextlib
import os
import queue
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page

from kernel_lab.browsing import browser
from kernel_lab.browsing.lab import Lab
from kernel_lab.browsing.profiles import Profile
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.runs import Pair
from kernel_lab.serving.hub import Disconnected, Link
from kernel_lab.session import Session
from tests.harness.conftest import PATIENCE_SECONDS

Follow = Callable[..., Verdict]
Act = Callable[[Page], Coroutine[Any, Any, Any]]

DESTROY_AFTER_SUBMIT = """(times) => {
  let device;
  const { createCommandEncoder } = GPUDevice.prototype;
  GPUDevice.prototype.createCommandEncoder = function (...given) {
    device = this;
    return createCommandEncoder.apply(this, given);
  };
  const { submit } = GPUQueue.prototype;
  GPUQueue.prototype.submit = function (...given) {
    submit.apply(this, given);
    if (times-- > 0) device.destroy();
  };
}"""

DESTROY_WITH_BYTES_AT_HAND = """() => {
  let device;
  const { createCommandEncoder } = GPUDevice.prototype;
  GPUDevice.prototype.createCommandEncoder = function (...given) {
    device = this;
    return createCommandEncoder.apply(this, given);
  };
  const { digest } = SubtleCrypto.prototype;
  SubtleCrypto.prototype.digest = async function (...given) {
    const result = await digest.apply(this, given);
    device.destroy();
    await device.lost;
    return result;
  };
}"""

TELL_OF_SUBMIT = """() => {
  const { submit, onSubmittedWorkDone } = GPUQueue.prototype;
  globalThis.submitted = new Promise((resolve) => {
    GPUQueue.prototype.submit = function (...given) {
      Object.assign(GPUQueue.prototype, { submit, onSubmittedWorkDone });
      submit.apply(this, given);
      // The run must not end before it is broken, however fast the adapter.
      this.onSubmittedWorkDone = () => new Promise(() => {});
      resolve();
    };
  });
}"""


@pytest.fixture(scope="module")
def lab(lab_profile: Profile) -> Iterator[Lab]:
    """A browser for this file alone: it is going to be broken again and again."""
    with Lab(lab_profile) as own:
        yield own


def patiently(function: Callable[[], Verdict]) -> Verdict:
    """What the function gives; a failure, instead of a test that hangs, if it gives nothing."""
    given: queue.Queue[Verdict] = queue.Queue()
    threading.Thread(target=lambda: given.put(function()), daemon=True).start()
    return given.get(timeout=PATIENCE_SECONDS)


@pytest.fixture
def broken(
    lab: Lab, follow: Follow, on_page: Callable[..., Any], in_page: Callable[..., Any]
) -> Callable[..., Verdict]:
    """The verdict of a run that is broken once the page has handed its work to the GPU."""

    def run(act: Act, variant: str) -> Verdict:
        in_page(TELL_OF_SUBMIT)
        with ThreadPoolExecutor(1) as thread:
            verdict = thread.submit(follow, variant, deadline_ms=100_000)
            in_page("() => submitted")
            on_page(act)
            return verdict.result()

    return run


async def close_page(page: Page) -> None:
    await page.close()


async def crash_renderer(page: Page) -> None:
    crashed = asyncio.get_running_loop().create_future()
    page.once("crash", lambda _: crashed.set_result(None))
    session = await page.context.new_cdp_session(page)
    dying = asyncio.ensure_future(session.send("Page.crash"))
    await crashed
    dying.cancel()


async def close_browser(page: Page) -> None:
    await page.context.browser.close()


async def kill_browser(page: Page) -> None:
    gone = asyncio.get_running_loop().create_future()
    page.context.browser.once("disconnected", lambda _: gone.set_result(None))
    session = await page.context.browser.new_browser_cdp_session()
    processes = (await session.send("SystemInfo.getProcessInfo"))["processInfo"]
    os.kill(next(process["id"] for process in processes if process["type"] == "browser"), signal.SIGKILL)
    await gone


async def kill_gpu_process(page: Page) -> None:
    session = await page.context.browser.new_browser_cdp_session()
    with contextlib.suppress(PlaywrightError):
        await session.send("Browser.crashGpuProcess")
    await session.detach()


async def hang_page(page: Page) -> None:
    await page.evaluate("() => { setTimeout(() => { for (;;); }, 0); }")


ENDS = [close_page, crash_renderer, close_browser, kill_browser]


def test_device_lost_once_is_tried_again_on_a_new_device(lab: Lab, follow: Follow, in_page: Callable[..., Any]) -> None:
    before = lab.restarts
    in_page(DESTROY_AFTER_SUBMIT, 1)
    verdict = follow("copy")
    assert verdict.passed, verdict.report
    assert verdict.record["attempts"] == 2
    after = follow("copy")
    assert after.passed
    assert after.record["attempts"] == 1
    assert lab.restarts == before


@pytest.mark.parametrize("script", [DESTROY_AFTER_SUBMIT, DESTROY_WITH_BYTES_AT_HAND], ids=["submit", "bytes_at_hand"])
def test_device_lost_every_time_never_passes(
    lab: Lab, follow: Follow, in_page: Callable[..., Any], script: str
) -> None:
    """Even where the right bytes have come back: a run whose device was lost proves nothing."""
    before = lab.restarts
    in_page(script, 1000)
    verdict = follow("copy")
    assert verdict.outcome == "failed"
    assert verdict.record["status"] == "device_lost"
    assert verdict.summary == "device lost"
    assert "tried 2 times, the last time on a new device" in verdict.report
    assert "reason: destroyed" in verdict.report
    _the_next_ones_pass(lab, follow, before + 1)


def test_device_lost_between_runs_costs_nothing(lab: Lab, follow: Follow, in_page: Callable[..., Any]) -> None:
    assert follow("copy").passed
    before = lab.restarts
    in_page("() => lab.devices.destroyAll()")
    verdict = follow("copy")
    assert verdict.passed, verdict.report
    assert verdict.record["attempts"] == 1
    assert lab.restarts == before


def test_gpu_process_killed_mid_run_costs_nothing(lab: Lab, follow: Follow, broken: Callable[..., Verdict]) -> None:
    before = lab.restarts
    verdict = broken(kill_gpu_process, "slow")
    assert verdict.passed, verdict.report
    assert verdict.record["attempts"] == 2
    _the_next_ones_pass(lab, follow, before)


@pytest.mark.parametrize("killed_after", [{1}, {1, 2, 3, 4}], ids=["first", "each"])
def test_gpu_process_killed_between_runs_costs_nothing(
    lab: Lab,
    copy_operator: Operator,
    copy_case: Callable[[str], Case],
    on_page: Callable[..., Any],
    killed_after: set[int],
) -> None:
    """Chromium takes WebGPU from a page after a second crash, unless the profile's flags forbid that."""
    before, one_by_one = lab.restarts, Session(lab, None)
    for number in range(1, 6):
        assert one_by_one.judge(Pair(copy_operator, copy_case("seven"), "copy")).summary == "equal"
        if number in killed_after:
            on_page(kill_gpu_process)
    assert lab.restarts == before


@pytest.mark.parametrize("act", ENDS)
def test_page_lost_mid_run_costs_that_case_only(
    lab: Lab, follow: Follow, broken: Callable[..., Verdict], act: Act
) -> None:
    before = lab.restarts
    verdict = broken(act, "endless")
    assert verdict.outcome == "failed"
    assert verdict.record["status"] == "crash"
    assert "went away during the run" in verdict.report
    _the_next_ones_pass(lab, follow, before + 1)


@pytest.mark.parametrize("act", ENDS)
def test_page_found_gone_costs_no_case(lab: Lab, follow: Follow, on_page: Callable[..., Any], act: Act) -> None:
    before = lab.restarts
    on_page(act)
    _the_next_ones_pass(lab, follow, before + 1)


def test_page_that_goes_while_a_case_is_sent_costs_no_case(
    lab: Lab, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection may break before anybody has noticed that the page is gone."""
    _ = lab.browser
    before = lab.restarts
    send, failures = Link.send, iter([True])

    async def break_once(link: Link, message: bytes) -> None:
        if next(failures, False):
            link.close()
            raise Disconnected
        await send(link, message)

    monkeypatch.setattr(Link, "send", break_once)
    _the_next_ones_pass(lab, follow, before + 1)


def test_shader_that_never_ends_is_a_timeout(lab: Lab, follow: Follow) -> None:
    before = lab.restarts
    verdict = patiently(lambda: follow("endless", deadline_ms=300))
    assert verdict.outcome == "failed"
    assert verdict.record["status"] == "timeout"
    assert "no answer within 300 ms while waiting for " in verdict.report
    _the_next_ones_pass(lab, follow, before + 1)


def test_page_that_falls_silent_is_a_timeout(
    lab: Lab, follow: Follow, on_page: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page cannot keep its own deadline when it hangs: Python's, a little later, ends the wait."""
    monkeypatch.setattr(browser, "GRACE_SECONDS", 0.2)
    before = lab.restarts
    on_page(hang_page)
    verdict = patiently(lambda: follow("copy", deadline_ms=300))
    assert verdict.outcome == "failed"
    assert verdict.record["status"] == "timeout"
    assert "no answer within 0.5 s" in verdict.report
    monkeypatch.undo()
    _the_next_ones_pass(lab, follow, before + 1)


def test_page_lost_while_pipelines_are_prepared_is_left_to_the_runs(
    lab: Lab, follow: Follow, planned: Callable[..., Any], on_page: Callable[..., Any], in_page: Callable[..., Any]
) -> None:
    before = lab.restarts
    in_page("""() => {
      globalThis.asked = new Promise((resolve) => {
        GPUDevice.prototype.createComputePipelineAsync = () => new Promise(() => resolve());
      });
    }""")
    with ThreadPoolExecutor(1) as thread:
        prepared = thread.submit(lab.prepare, [planned("off_by_one")])
        in_page("() => asked")
        on_page(close_page)
        assert prepared.result() is None
    _the_next_ones_pass(lab, follow, before + 1)


def _the_next_ones_pass(lab: Lab, follow: Follow, restarts: int) -> None:
    for variant in ("copy", "twin"):
        verdict = follow(variant)
        assert verdict.passed, verdict.report
        assert verdict.record["attempts"] == 1
    assert lab.restarts == restarts
