"""`kernel-lab debug` as a person meets it: a window on a virtual display, DevTools beside the page. A debugging port is
the tests' eyes and hands there: Playwright takes DevTools' own page for a page like any other.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.harness.conftest import PATIENCE_SECONDS

OPERATORS = Path(__file__).parents[1] / "operators"
STORE = "y[index] = spoiled(index, x[index]);"
WRONG = "y[index] = spoiled(index, x[index]) + u32(index == 4u);"
UNDECLARED = "y[index] = nobody_declared_this;"
PATIENCE_MS = 1000 * PATIENCE_SECONDS


@dataclass(frozen=True)
class Window:
    """What a running `kernel-lab debug` shows. `started`: the processes that it had started by then."""

    command: "subprocess.Popen[str]"
    started: list[int]
    browser: Browser
    page: Page
    devtools: Page

    def ended(self) -> int:
        """The command's exit code, once nothing that it started runs any more."""
        code = self.command.wait(PATIENCE_SECONDS)
        until(lambda: not any(map(runs, self.started)), "the command is over, and what it started is not")
        return code


def until(look: Callable[[], Any], missing: str) -> Any:
    """What `look` gives, once that is something."""
    patience = time.monotonic() + PATIENCE_SECONDS
    while not (found := look()):
        assert time.monotonic() < patience, missing
        time.sleep(0.05)
    return found


def below(process: int) -> list[int]:
    """All that a process has started, by number."""
    found = []
    with contextlib.suppress(OSError):  # it may end meanwhile
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            for child in map(int, children.read_text().split()):
                found += [child, *below(child)]
    return found


def runs(process: int) -> bool:
    """Whether it has not ended; one that nobody waited for has."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """The copy operator's, in a folder of its own, to be edited."""
    return Path(shutil.copytree(OPERATORS, tmp_path / "operators")) / "lab.test.Copy" / "copy.wgsl.jinja"


@contextlib.contextmanager
def debugging(words: list[str], display: str, told: Path) -> Iterator["subprocess.Popen[str]"]:
    """`kernel-lab debug` with a debugging port, which Chromium names in `told`."""
    environment = {
        **os.environ,
        "DISPLAY": display,
        "KERNEL_LAB_CHROMIUM_FLAGS": "--remote-debugging-port=0",
        "DEBUG": "pw:browser",  # Playwright repeats what Chromium says
    }
    argv = [sys.executable, "-m", "kernel_lab", "debug", *words]
    with told.open("w") as stderr:
        command = subprocess.Popen(
            argv, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True
        )
    assert command.stdout is not None
    try:
        yield command
    finally:
        started = below(command.pid)
        if command.poll() is None:
            os.killpg(command.pid, signal.SIGTERM)
            command.wait(PATIENCE_SECONDS)
        command.stdout.close()
        for process in filter(runs, started):  # of a command that did not end what it had started
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def port_in(told: Path, command: "subprocess.Popen[str]") -> str:
    """Chromium's debugging port, once it has one."""

    def look() -> re.Match[str] | None:
        assert command.poll() is None, told.read_text()
        return re.search(r"DevTools listening on ws://127\.0\.0\.1:(\d+)/", told.read_text())

    found: str = until(look, "Chromium names no port")[1]
    return found


def pages_at(port: str) -> list[str]:
    """The addresses of all pages. DevTools' is none before it has loaded."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=PATIENCE_SECONDS) as answer:
        return [target["url"] for target in json.load(answer) if target["type"] == "page"]


@pytest.fixture
def window(display: str, full_chromium: str, template: Path, tmp_path: Path) -> Iterator[Callable[[], Window]]:
    """Runs the command on the template as it is then; gives what it shows once the case has run there."""
    words = ["Copy:seven:copy", "--browser", full_chromium, "--package", str(template.parents[1])]
    words += ["--reference", str(template.parent / "reference.py")]
    told = tmp_path / "stderr.txt"
    expect.set_options(timeout=PATIENCE_MS)
    with contextlib.ExitStack() as stack:

        def opened() -> Window:
            command = stack.enter_context(debugging(words, display, told))
            assert command.stdout is not None
            address = command.stdout.readline().removeprefix("open ").strip()
            port = port_in(told, command)
            until(lambda: any(url.startswith("devtools:") for url in pages_at(port)), "DevTools is not open")
            playwright = stack.enter_context(sync_playwright())
            browser = playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{port}")
            pages = browser.contexts[0].pages
            (devtools,) = (page for page in pages if page.url.startswith("devtools:"))
            (page,) = (page for page in pages if page.url.startswith(address.partition("?")[0]))
            for one in (page, devtools):
                one.set_default_timeout(PATIENCE_MS)
            page.wait_for_function("globalThis.lab?.runs > 0")
            return Window(command, below(command.pid), browser, page, devtools)

        yield opened


def test_it_shows_that_case_beside_devtools_and_ends_with_its_window(
    window: Callable[[], Window], template: Path
) -> None:
    right = template.read_text()
    assert right.count(STORE) == 1
    template.write_text(right.replace(STORE, WRONG))
    line = right[: right.index(STORE)].count("\n") + 1
    opened = window()
    page = opened.page
    expect(page).to_have_title("lab.test.Copy:seven:copy - kernel-lab debug")
    expect(page.locator("#verdict")).to_contain_text("✕ y: 1 of 7 elements differ (copy, as selected; ")
    expect(page.locator("#element h2")).to_have_text("y[4]")
    expect(page.locator("#writers")).to_contain_text(f"copy.wgsl.jinja:{line}")
    assert "Headless" not in page.evaluate("navigator.userAgent")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page is narrow beside DevTools"
    expect(opened.devtools.get_by_role("tab", name="Console").first).to_be_visible()
    page.close()
    assert opened.ended() == 0


def test_the_console_s_link_opens_the_template_at_its_line(window: Callable[[], Window], template: Path) -> None:
    """In DevTools' own page; and after the template was saved with the error further down, there."""
    wrong = template.read_text().replace(STORE, UNDECLARED)
    line = wrong[: wrong.index(UNDECLARED)].count("\n") + 1
    template.write_text(wrong)
    opened = window()
    assert opened_by_link(opened.devtools, line) == UNDECLARED
    template.write_text(f"// one\n// two\n{wrong}")
    assert opened_by_link(opened.devtools, line + 2) == UNDECLARED
    expect(opened.devtools.locator(".cm-line").first).to_have_text("// one")


def opened_by_link(devtools: Page, line: int) -> str:
    """Clicks the console's link to that line of the template; what stands in Sources where the cursor is."""
    devtools.get_by_role("tab", name="Console").first.click()
    message = devtools.locator(".console-error-level", has_text="unresolved value 'nobody_declared_this'")
    link = message.locator(".devtools-link", has_text=re.compile(rf"^copy\.wgsl\.jinja:{line}$")).first
    link.click()
    expect(devtools.get_by_role("tab", name="Sources", exact=True)).to_have_attribute("aria-selected", "true")
    expect(devtools.get_by_role("tab", name="copy.wgsl.jinja")).to_have_attribute("aria-selected", "true")
    expect(devtools.get_by_text(re.compile(f"^Line {line}, "))).to_be_visible()
    shown = devtools.locator(".cm-highlightedLine")
    expect(shown).to_be_in_viewport()
    return shown.inner_text().strip()


def test_a_page_that_crashed_can_be_loaded_again_and_ctrl_c_ends_all(window: Callable[[], Window]) -> None:
    opened = window()
    tab = opened.page.context.new_cdp_session(opened.page).send("Target.getTargetInfo")["targetInfo"]["targetId"]
    session = opened.browser.new_browser_cdp_session()
    answers: list[dict[str, Any]] = []
    session.on("Target.receivedMessageFromTarget", lambda told: answers.append(json.loads(told["message"])))

    def ask(method: str, **parameters: Any) -> None:
        """Tells the tab, past Playwright, which drives no page that has crashed."""
        attached = session.send("Target.attachToTarget", {"targetId": tab, "flatten": False})["sessionId"]
        message = json.dumps({"id": 1, "method": method, "params": parameters})
        session.send("Target.sendMessageToTarget", {"sessionId": attached, "message": message})

    def verdict() -> bool:
        ask("Runtime.evaluate", expression="document.getElementById('verdict')?.textContent")
        return any("equal to the bit" in str(answer) for answer in answers)

    with opened.page.expect_event("crash"):
        ask("Page.crash")
    ask("Page.reload")
    until(verdict, "the page does not come back")
    os.killpg(opened.command.pid, signal.SIGINT)
    assert opened.ended() == 0
    assert opened.command.stdout is not None
    assert opened.command.stdout.read().splitlines()[-1] == "ended"


def test_without_a_display_it_says_so(full_chromium: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    words = ["debug", "ConvInteger:groups", "--browser", full_chromium]
    ended = subprocess.run(
        [sys.executable, "-m", "kernel_lab", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 2
    assert f"{full_chromium} could not be shown: " in ended.stderr
    assert "Traceback" not in ended.stderr
