"""Step 8 as blocking code sees it: a Lab runs jobs in a browser and starts another browser when one is lost.

In: a profile. Out: RunResults. A crash or a timeout costs the job that met it, and no other: a page found gone before a
job was sent costs that job nothing.
"""

import asyncio
import contextlib
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Playwright, async_playwright

from kernel_lab.browsing.browser import Browser, BrowserInfo, Sent, no_answer
from kernel_lab.browsing.profiles import COMMON_FLAGS, Profile
from kernel_lab.browsing.turns import Turn, Turns
from kernel_lab.errors import LabError
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.plans import Plan
from kernel_lab.serving import frames, planner
from kernel_lab.serving.frames import Job, Message, RunResult
from kernel_lab.serving.host import Host
from kernel_lab.serving.hub import Disconnected

PREPARE_DEADLINE_MS = 120_000
START_ATTEMPTS = 2
PICTURE_MS = 500
MOST_AT_HAND = 3
"""Jobs that a page has at most: the one it runs, and the next ones, which cost a message's journey otherwise."""


@dataclass(frozen=True, slots=True, eq=False)
class Ran:
    """What came of a job, and who ran it. `round_trip_ms`: from when its turn came until its result was there."""

    result: RunResult
    info: BrowserInfo
    round_trip_ms: float


@dataclass(slots=True, eq=False)
class _Place:
    """A job's place in the line; `sent`: where it is in a page."""

    job: Job
    turn: Turn
    sent: Sent | None = None


class Running:
    """A job that was begun. Jobs have their turns one after the other, in the order in which they were begun."""

    def __init__(self, host: Host, future: Future[Ran]) -> None:
        self._host, self._future = host, future

    def ran(self) -> Ran:
        """Waits until it is done; LabError if no browser can be had."""
        return self._host.wait(self._future)

    def cancel(self) -> None:
        """Nobody waits for it any more; it may never have its turn."""
        self._future.cancel()


class NoAdapter(LabError):
    """The browser runs, but offers no WebGPU adapter: nothing can be checked on it."""


class Lab:
    """A browser ready to run jobs. Use as a context manager, or call `close`. `restarts` counts the browsers that were
    lost.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.restarts = 0
        port = profile.remote.port if profile.remote else 0
        self._host = Host(planner.answer, port, answering=False)
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._used: Browser | None = None
        self._turns = Turns()
        self._latest: _Place | None = None
        self._starting = asyncio.Lock()

    def __enter__(self) -> "Lab":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def address(self) -> str:
        """The server's address with its token: a page opened there may use the harness."""
        return f"{self._host.address}/?token={self._host.hub.token}"

    @property
    def host(self) -> Host:
        return self._host

    @property
    def browser(self) -> Browser:
        """The running browser (for tests that break it); started if need be."""
        running = self._browser
        # Not by way of the host's loop: every case asks, and each change of thread costs.
        if running is not None and running.alive:
            return running
        return self._host.call(self._ready())

    @property
    def running_browser(self) -> Browser:
        """The browser that runs now; LabError if none does. For callers on the host's own loop."""
        if self._browser is None:
            raise LabError("no browser is running.")
        return self._browser

    @property
    def info(self) -> BrowserInfo:
        """Who runs the jobs; starts the browser if need be."""
        return self.browser.info

    @property
    def facts(self) -> DeviceFacts:
        """The adapter's facts; NoAdapter if there is none, LabError if a hardware profile got a software adapter."""
        info = self.info
        if info.facts is None:
            flags = f"Flags were: {' '.join(info.flags)}."
            if self.profile.remote is not None:
                wanted = " ".join(flag.text for flag in COMMON_FLAGS[:2])
                flags = f"Start it over there with {wanted}, and with what its GPU needs."
            raise NoAdapter(
                f"{info.executable} (version {info.version}) offers no WebGPU adapter: {info.no_adapter}. {flags} "
                "`kernel-lab doctor` says more."
            )
        if self.profile.hardware and info.facts.is_fallback:
            raise LabError(
                f"profile {self.profile.name} asks for a GPU, but Chromium gave {info.facts.description}. Check "
                "that the driver's Vulkan part is installed, or use --browser default to run on software."
            )
        return info.facts

    @property
    def info_of_last_run(self) -> BrowserInfo:
        """Who ran the last job, even if that browser is gone since."""
        return self._used.info if self._used is not None else self.info

    def run(self, job: Job) -> RunResult:
        """Runs one job. A device lost during it is tried once more on a new device; `attempts` says so."""
        return self.begin(job).ran().result

    def begin(self, job: Job) -> Running:
        """Has a job run as soon as those that were begun before it are done; the caller need not wait for it."""
        return Running(self._host, self._host.begin(self._run(job)))

    def prepare(self, plans: list[Plan]) -> None:
        """Compiles the plans' pipelines in parallel, ahead of their runs. Faults are left for the runs to report."""
        self._host.call(self._prepare(plans))

    def picture(self, page: Path, image: Path) -> None:
        """A picture of an HTML file, as this browser shows it a moment after it was opened. LabError if it cannot."""
        self._host.call(self._picture(page.absolute().as_uri(), image))

    async def _picture(self, page: str, image: Path) -> None:
        async with self._turns.ask():  # the page runs its kernel, too
            try:
                browser = (await self._ready()).page.context.browser
                assert browser is not None  # as for every context that Playwright's launch or connect gives
                own = await browser.new_page()
                try:
                    await own.goto(page)
                    await own.wait_for_timeout(PICTURE_MS)
                    await own.screenshot(path=image, full_page=True)
                finally:
                    await own.close()
            except PlaywrightError as error:
                raise LabError(f"no picture of {page}: {error.message.strip().splitlines()[0]}") from None

    def close(self) -> None:
        """Ends the browser and the server."""
        try:
            self._host.call(self._close())
        finally:
            self._host.close()

    async def _ready(self) -> Browser:
        async with self._starting:  # whoever plans the next job may ask while this one is starting a browser
            if self._browser is not None and self._browser.alive:
                return self._browser
            if self._playwright is None:
                self._playwright = await async_playwright().start()
                self._host.answer()
            if self._browser is not None:
                self.restarts += 1
                await self._browser.close()
                self._browser = None
            self._browser = await self._started(self._playwright)
            return self._browser

    async def _started(self, playwright: Playwright) -> Browser:
        attempts = 1 if self.profile.remote else START_ATTEMPTS  # what nobody answers, nobody answers at once again
        for _ in range(1, attempts):
            with contextlib.suppress(LabError):
                return await Browser.start(self.profile, self._host.address, self._host.hub, playwright)
        return await Browser.start(self.profile, self._host.address, self._host.hub, playwright)

    async def _run(self, job: Job) -> Ran:
        before, place = self._latest, _Place(job, self._turns.ask())
        self._latest = place
        try:
            place.sent = await self._ahead(job, before)
            async with place.turn:
                started = time.perf_counter()
                result = await self._result(place)
                used = self._used
                assert used is not None  # a result is some browser's
                if result.status in ("crash", "timeout", "device_lost"):
                    # a hung GPU process would hold up the next job too: a new browser costs half a second
                    await used.close()
                return Ran(result, used.info, 1e3 * (time.perf_counter() - started))
        finally:
            place.turn.leave()
            if place.sent is not None:
                place.sent.browser.forget(place.sent)
            if self._latest is place:
                self._latest = None  # whose inputs and outputs may be large

    async def _ahead(self, job: Job, before: "_Place | None") -> Sent | None:
        """Gives a page that is at work the next job: it begins as soon as it has answered, not a journey later. Only
        behind the job before: the page's order is that of the turns.
        """
        if before is None or before.sent is None or before.sent.lost:
            return None
        browser = before.sent.browser
        size = sum(map(len, job.inputs.values()))
        if not browser.alive or not 1 <= browser.at_work < MOST_AT_HAND or size > frames.INLINE_BYTES:
            return None
        try:
            return await browser.send(job)
        except (Disconnected, TimeoutError):
            return None

    async def _result(self, place: "_Place") -> RunResult:
        try:
            result = await self._tried(place)
        except Disconnected:  # gone before it had the job, which has cost the job nothing
            try:
                result = await self._tried(place)
            except Disconnected:
                result = RunResult("crash", reason="two browsers in a row went away before they had the job")
        if result.status == "device_lost" and self._used is not None:
            if self._used.at_work:  # the next jobs, which this one would have to wait for
                await self._used.close()
            place.sent = None
            try:
                result = replace(await self._tried(place), attempts=2)
            except Disconnected:
                result = RunResult("crash", reason="the page or its browser went away after a lost device", attempts=2)
        return await self._again(place, result) if result.status == "crash" and self.profile.retry_lost else result

    async def _again(self, place: "_Place", lost: RunResult) -> RunResult:
        """A second try in another browser, whose result says what became of the first."""
        try:
            result = await self._tried(place)
        except Disconnected:
            return replace(lost, attempts=2)
        note = Message("note", f"tried 2 times, in two browsers: {lost.reason}, the first time.")
        return replace(result, attempts=2, messages=(note, *result.messages))

    async def _tried(self, place: "_Place") -> RunResult:
        """What comes of the job in the page that has it, or else in the one that is there. Disconnected if that was
        gone before it had the job. A page that went away before the job's turn has cost it nothing.
        """
        sent, place.sent = place.sent, None
        try:
            if sent is None or sent.lost:
                self._used = await self._ready()
                sent = await self._used.send(place.job)
            place.sent, self._used = sent, sent.browser
            return await sent.browser.answered(sent)
        except TimeoutError:
            return no_answer(place.job)

    async def _prepare(self, plans: list[Plan]) -> None:
        browser = await self._ready()
        known = browser.known_wgsl
        passes, wgsl = [], {}
        for plan in plans:
            header = frames.plan_header(plan)
            wgsl.update(frames.wgsl_texts(plan, known))
            passes += [{**item, "device": header["device"]} for item in header["passes"]]
        distinct = {repr((item["wgsl"], item["bindings"], item["device"])): item for item in passes}
        if distinct:
            await browser.prepare({"passes": list(distinct.values()), "wgsl": wgsl}, PREPARE_DEADLINE_MS)

    async def _close(self) -> None:
        if self._browser is not None:
            await self._browser.close()
            self._browser = None
        if self._playwright is not None:
            await self._playwright.stop()
            self._playwright = None
