"""One browser process with one harness page: started, asked to run jobs, closed. Knows nothing of cases or verdicts.

In: a profile and a host. Out: facts and RunResults. Every wait has a deadline. Lives on the host's event loop.
"""

import asyncio
import contextlib
import itertools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Browser as PlaywrightBrowser
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page, Playwright

from kernel_lab.browsing.profiles import Profile
from kernel_lab.errors import LabError
from kernel_lab.planning import facts as device_facts
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.serving import frames, wire
from kernel_lab.serving.frames import Job, RunResult
from kernel_lab.serving.hub import Disconnected, Hub, Link
from kernel_lab.serving.hub import Message as PageMessage

START_SECONDS = 45.0
GRACE_SECONDS = 5.0
"""How much longer than the page Python waits: the page's own deadline should speak first."""
CLOSE_SECONDS = 5.0
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, eq=False)
class BrowserInfo:
    """Who ran it. `facts` None: the browser offers no adapter, and `no_adapter` says why."""

    version: str
    executable: str
    flags: tuple[str, ...]
    headed: bool
    user_agent: str
    facts: DeviceFacts | None
    no_adapter: str = ""
    profile: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """A job that a page has. `paths`: of the inputs that it fetches."""

    browser: "Browser"
    job: Job
    number: int
    paths: tuple[str, ...]
    answer: "asyncio.Future[PageMessage]"

    @property
    def lost(self) -> bool:
        """Whether the page went away before it answered."""
        return self.answer.done() and (self.answer.cancelled() or self.answer.exception() is not None)


class Browser:
    """A running browser. Made by `start`; after a crash or timeout it is closed and another is started."""

    def __init__(
        self, profile: Profile, hub: Hub, browser: PlaywrightBrowser, page: Page, link: Link, name: str
    ) -> None:
        self._profile, self._hub, self._browser, self._link, self._name = profile, hub, browser, link, name
        self._answers: dict[int, asyncio.Future[PageMessage]] = {}
        self._reading: asyncio.Task[None]
        self.page = page
        self.info: BrowserInfo

    @classmethod
    async def start(cls, profile: Profile, address: str, hub: Hub, playwright: Playwright) -> "Browser":
        """Launches the program, opens the harness page and hears its hello; LabError if that fails."""
        browser: PlaywrightBrowser | None = None
        try:
            async with asyncio.timeout(START_SECONDS):
                if profile.remote is not None:
                    browser = await profile.remote.connect(playwright)
                else:
                    browser = await _launch(profile, playwright)
                page = await browser.new_page()  # in a context of its own, which goes with it
                name = f"{next(_numbers)}"
                connected = hub.expect(name)
                await page.goto(f"{address}/?token={hub.token}&page={name}")
                link = await connected
                self = cls(profile, hub, browser, page, link, name)
                page.on("crash", lambda _: link.close())
                page.on("close", lambda _: link.close())
                browser.on("disconnected", lambda _: link.close())
                header, _ = await link.receive()
        except (TimeoutError, PlaywrightError, Disconnected) as error:
            await _close(browser)
            raise LabError(_why_not(profile, error)) from None
        try:
            self.info = self._info(header["facts"])
        except LabError:
            await _close(browser)
            raise
        self._reading = asyncio.create_task(self._read())
        return self

    @property
    def alive(self) -> bool:
        return not self._link.closed.is_set() and self._browser.is_connected()

    @property
    def at_work(self) -> int:
        """How many jobs the page has that it has not answered yet."""
        return len(self._answers)

    async def send(self, job: Job) -> "Sent":
        """Gives the page a job, which it begins once it has answered those before. Disconnected if it is gone,
        TimeoutError if it does not take it.
        """
        number = next(_numbers)
        frame, served = frames.run_frame(job, number, self._link.known_wgsl, f"/blobs/{self._name}")
        sent = Sent(self, job, number, tuple(served), self._awaited(number))
        self._hub.served.update(served)
        try:
            async with asyncio.timeout(_seconds(job.deadline_ms)):
                await self._link.send(frame)
        except (Disconnected, TimeoutError):
            self.forget(sent)
            raise
        return sent

    async def answered(self, sent: "Sent") -> RunResult:
        """What comes of a job that the page has; the time until then is counted from now. Crash and timeout are
        statuses.
        """
        try:
            async with asyncio.timeout(_seconds(sent.job.deadline_ms)):
                header, blobs = await sent.answer
            return frames.result_of(header, blobs, sent.job.plan)
        except Disconnected:
            return RunResult("crash", reason="the page or its browser went away during the run")
        except TimeoutError:
            return no_answer(sent.job)
        finally:
            self.forget(sent)

    def forget(self, sent: "Sent") -> None:
        """Nobody waits for that answer any more."""
        self._answers.pop(sent.number, None)
        if not sent.lost:  # asking marks its exception as seen
            sent.answer.cancel()
        for path in sent.paths:
            self._hub.served.pop(path, None)

    async def prepare(self, header: Mapping[str, Any], deadline_ms: int) -> Mapping[str, Any]:
        """Compiles pipelines in parallel; gives the page's answer, or nothing if the page is gone (runs will tell)."""
        number = next(_numbers)
        answer = self._awaited(number)
        try:
            async with asyncio.timeout(_seconds(deadline_ms)):
                await self._link.send(
                    wire.encode({**header, "type": "prepare", "id": number, "deadline_ms": deadline_ms})
                )
                return (await answer)[0]
        except (TimeoutError, Disconnected):
            return {}
        finally:
            self._answers.pop(number, None)
            answer.cancel()

    @property
    def known_wgsl(self) -> set[str]:
        return self._link.known_wgsl

    async def close(self) -> None:
        """Closes the browser; a hung one is left to Playwright, which kills it when it stops. Of a remote one only our
        page is closed, and the connection.
        """
        self._link.close()
        if self._profile.remote is not None and self._browser.is_connected():
            with contextlib.suppress(PlaywrightError, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.page.context.close()
        await _close(self._browser)

    def _awaited(self, number: int) -> "asyncio.Future[PageMessage]":
        answer: asyncio.Future[PageMessage] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        return answer

    async def _read(self) -> None:
        """Hands each message of the page to whoever awaits it, until the page is gone."""
        try:
            while True:
                header, blobs = await self._link.receive()
                answer = self._answers.get(header.get("id", 0))
                if answer is not None and not answer.done():
                    answer.set_result((header, blobs))
        except Disconnected:
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(Disconnected())

    def _info(self, report: Mapping[str, Any]) -> BrowserInfo:
        facts = device_facts.facts_of(report)
        if facts is not None:
            profile = self._profile
            facts = device_facts.masked(
                facts, profile.hidden, profile.limits, profile.subgroups, profile.emulate_matrices
            )
        agent = report.get("userAgent", "")
        return BrowserInfo(
            version=self._browser.version,
            executable=self._profile.program,
            flags=tuple(self._profile.arguments),
            headed=self._profile.headed if self._profile.remote is None else "Headless" not in agent,
            user_agent=agent,
            facts=facts,
            no_adapter="" if facts else report.get("reason") or "requestAdapter gave null",
            profile=self._profile.name,
            environment=self._profile.environment,
        )


def _seconds(deadline_ms: float) -> float:
    return deadline_ms / 1000 + GRACE_SECONDS


def no_answer(job: Job) -> RunResult:
    """The result of a job that nothing was heard of."""
    return RunResult("timeout", reason=f"no answer within {_seconds(job.deadline_ms):.1f} s")


def launch_options(profile: Profile) -> dict[str, Any]:
    """How Playwright is to start the profile's program."""
    return {
        "executable_path": profile.executable,
        "headless": not profile.headed,
        "args": [*profile.arguments, *(["--auto-open-devtools-for-tabs"] if profile.devtools else [])],
        "env": {**os.environ, **profile.environment},
    }


async def _launch(profile: Profile, playwright: Playwright) -> PlaywrightBrowser:
    signals: Any = {"handle_sigint": False, "handle_sigterm": False, "handle_sighup": False}
    return await playwright.chromium.launch(**launch_options(profile), **signals)


async def _close(browser: PlaywrightBrowser | None) -> None:
    if browser is None:
        return
    with contextlib.suppress(PlaywrightError, TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await browser.close()


def _why_not(profile: Profile, error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"{profile.program} did not open the harness page within {START_SECONDS:.0f} s."
    if not isinstance(error, PlaywrightError):
        return f"{profile.program} closed the harness page while starting."
    if profile.remote is not None:
        return profile.remote.why_not(short(error.message))
    return f"{profile.program} could not be started: {short(error.message)}"


def short(message: str) -> str:
    """Playwright's message without its command lines and frames, and what the program itself said last."""
    plain = re.sub(r"\x1b\[[0-9;]*m|[╔═╗║╚╝]", "", message)
    head, _, log = plain.partition("Call log:")
    lines = [line.strip() for line in head.splitlines()]
    told = [line for line in lines if line and not line.startswith(("<", "[pid=", "Browser logs:"))]
    said = re.findall(r"\[err\] (.*\S)", log or head)[-2:]
    return " ".join([*told[:3], *([f"It said: {' / '.join(said)}"] if said else [])])
