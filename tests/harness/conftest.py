"""The harness is tested with an operator of its own, lab.test.Copy, whose variants are wrong in one way each."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from playwright.async_api import Page

from kernel_lab import line
from kernel_lab.browsing import getting, installing, sources
from kernel_lab.browsing.getting.source import Source
from kernel_lab.browsing.lab import Lab
from kernel_lab.debugging.desk import Desk
from kernel_lab.errors import LabError
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators import operator
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import scopes, selection
from kernel_lab.planning.plans import Plan
from kernel_lab.serving import frames, planner
from kernel_lab.serving.frames import Job
from kernel_lab.serving.host import Host

OPERATORS = Path(__file__).parent.parent / "operators"
DONE = "/ms in all|^refused|^cannot run|see below/.test(document.getElementById('verdict').textContent)"
PATIENCE_SECONDS = 120.0
"""Ends a wait for something that never comes; nothing is measured by it."""
HEADED_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""A headless shell has no window to show."""


@pytest.fixture(scope="session")
def copy_operator() -> Operator:
    return operator.load_all(OPERATORS)["lab.test.Copy"]


@pytest.fixture(scope="session")
def copy_case(copy_operator: Operator) -> Callable[[str], Case]:
    """A case by its name."""
    return lambda name: next(case for case in copy_operator.cases if case.name == name)


@pytest.fixture
def follow(lab: Lab, copy_operator: Operator, copy_case: Callable[[str], Case]) -> Callable[..., Verdict]:
    """The whole line for one variant of the copy operator."""

    def run(variant: str | None, case: str = "seven", **options: Any) -> Verdict:
        return line.follow(copy_operator, copy_case(case), lab, variant, line.Options(**options))

    return run


@pytest.fixture
def planned(lab: Lab, copy_operator: Operator, copy_case: Callable[[str], Case]) -> Callable[..., Plan]:
    """The plan of one variant of the copy operator for the lab's adapter."""

    def make(variant: str = "copy", case: str = "seven") -> Plan:
        scope = scopes.scope_of(copy_operator, copy_case(case).request)
        assert isinstance(scope, scopes.Scope)
        return line.plan(scope, selection.forced(line.decide(scope, lab.facts), variant), lab.facts)

    return make


@pytest.fixture
def job(copy_operator: Operator, copy_case: Callable[[str], Case], planned: Callable[..., Plan]) -> Callable[..., Job]:
    """One run of the copy operator, as the browser gets it."""

    def make(variant: str = "copy", case: str = "seven", expected: bool = True, **options: Any) -> Job:
        chosen = copy_case(case)
        right = copy_operator.reference.compute(chosen.inputs, {}) if expected else None
        return frames.job_of(
            planned(variant, case), chosen.inputs, right, options.pop("deadline_ms", 20_000), **options
        )

    return make


@pytest.fixture
def on_page(lab: Lab) -> Callable[..., Any]:
    """Awaits what `action(page)` gives, on the lab's own loop; the browser is started if need be."""

    def act(action: Callable[[Page], Any]) -> Any:
        return lab.host.call(asyncio.wait_for(action(lab.browser.page), PATIENCE_SECONDS))

    return act


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The test operators' folder, to be edited."""
    return Path(shutil.copytree(OPERATORS, tmp_path / "operators"))


def looks_at(host: Host, on_page: Callable[..., Any]) -> Callable[..., Any]:
    """What `look(page)` gives of that host's debug page once a case has run there, in a window of its own."""

    def at(
        query: str, look: Callable[[Page], Awaitable[Any]], width: int = 1280, scheme: Any = "light", quiet: bool = True
    ) -> Any:
        async def act(page: Page) -> Any:
            browser = page.context.browser
            assert browser is not None
            own = await browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            errors: list[str] = []
            own.on("pageerror", lambda error: errors.append(str(error)))
            own.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
            try:
                await own.goto(f"{host.address}/debug?query={query}&token={host.hub.token}")
                await own.wait_for_function(DONE)
                found = await look(own)
                text = "" if own.is_closed() else await own.inner_text("body")
            finally:
                await own.close()
            assert errors == [] or not quiet
            assert not re.search(r"^\s*(null|undefined|\[object \w+\])\s*$", text, re.MULTILINE), "drawn: no value"
            return found

        return on_page(act)

    return at


@pytest.fixture
def looking(lab: Lab, on_page: Callable[..., Any], files: Path) -> Iterator[Callable[..., Any]]:
    """Looks at the debug page of our own operators and of the copied test operators."""
    host = Host(planner.answer, desk=Desk({**operator.load_all(), **operator.load_all(files)}))
    yield looks_at(host, on_page)
    host.close()


@pytest.fixture
def in_page(on_page: Callable[..., Any]) -> Callable[..., Any]:
    """Calls a JavaScript function in the harness page, whose devices and prototypes are that page's alone."""
    return lambda script, argument=None: on_page(lambda page: page.evaluate(script, argument))


@pytest.fixture
def run_pytest(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs pytest on a file with that text in a process of its own, in an empty folder."""

    def run(text: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        (tmp_path / "test_sample.py").write_text(text)
        # hypothesis and anyio take longer to load, in each worker, than a sample takes to run
        without = [f"-pno:{plugin}" for plugin in ("cacheprovider", "hypothesispytest", "anyio")]
        command = [sys.executable, "-m", "pytest", *without, "-ra", *arguments]
        environment = {**os.environ, "KERNEL_LAB_CACHE": str(tmp_path / "cache")}
        # a worker of ours must not make pytest in there believe that it is one too
        environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    return run


@pytest.fixture(scope="session")
def display(lacking: Callable[[str], NoReturn]) -> Iterator[str]:
    """A virtual display, on a number that the server itself finds free."""
    program = shutil.which("Xvfb")
    if program is None:
        lacking("Xvfb is not installed: `apt-get install xvfb` as root gives this test its display.")
    reading, writing = os.pipe()
    # -displayfd: the number is written there once the display answers
    command = [program, "-displayfd", str(writing), "-screen", "0", "1280x800x24", "-nolisten", "tcp"]
    server = subprocess.Popen(command, pass_fds=[writing], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        os.close(writing)
        with os.fdopen(reading) as told:
            number = told.readline().strip()
        assert number, f"Xvfb ended before it had a display (exit {server.wait(10)})"
        yield f":{number}"
    finally:
        server.terminate()
        server.wait(10)


@pytest.fixture(scope="session")
def full_chromium(lacking: Callable[[str], NoReturn]) -> str:
    found = next(filter(None, map(shutil.which, HEADED_PROGRAMS)), None)
    if found is None:
        names = ", ".join(HEADED_PROGRAMS)
        lacking(f"none of {names} is on PATH: `apt-get install chromium` as root gives one.")
    return found


@pytest.fixture(scope="session")
def versions(lacking: Callable[[str], NoReturn]) -> list[str]:
    """Names like debian-156, oldest first: what is found, the oldest that apt offers, npm's oldest and newest.

    Tests of them are in the xdist group "versions": one worker gets the browsers.
    """
    wanted = []
    for source, choose in ((getting.SOURCES[0], (min,)), (getting.SOURCES[1], (min, max))):
        wanted += [f"{source.name}-{pick(_offered(source, lacking))}" for pick in choose]
    try:
        for name in wanted:
            installing.install_browser(name, print)
    except LabError as error:
        lacking(str(error))
    found = sources.installed()[0].name
    return sorted({found, *wanted}, key=lambda name: int(name.rpartition("-")[2]))


def _offered(source: Source, lacking: Callable[[str], NoReturn]) -> list[int]:
    try:
        found = list(source.offered())
    except LabError as error:
        lacking(str(error))
    if not found:
        lacking(f"{source.name} offers no browser.")
    return found
