"""A browser that another process started, reached over CDP and through Playwright's own server, on loopback."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kernel_lab import line, runs
from kernel_lab.browsing.lab import Lab, NoAdapter
from kernel_lab.browsing.profiles import Profile, resolve
from kernel_lab.errors import LabError
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.serving.hub import Link
from tests.harness.conftest import PATIENCE_SECONDS

Remote = tuple[str, "subprocess.Popen[str]"]
Start = Callable[..., contextlib.AbstractContextManager[Remote]]


@contextlib.contextmanager
def _process(command: list[str], **options: Any) -> Iterator["subprocess.Popen[str]"]:
    """A program in a group of its own, which ends with it."""
    process = subprocess.Popen(command, text=True, start_new_session=True, **options)
    try:
        yield process
    finally:
        for ending in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, ending)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def over_cdp(lab_profile: Profile, tmp_path: Path) -> Start:
    """Starts the Chromium with the profile's flags and a debugging port; gives its address."""

    @contextlib.contextmanager
    def start(without: str = "") -> Iterator[Remote]:
        told = tmp_path / "profile" / "DevToolsActivePort"
        given = ["--headless", "--no-sandbox", "--remote-debugging-port=0", f"--user-data-dir={told.parent}"]
        flags = [flag for flag in lab_profile.arguments if flag != without]
        command = [str(lab_profile.executable), *given, *flags, "about:blank"]
        environment = {**os.environ, **lab_profile.environment}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with _process(command, env=environment, **quiet) as process:
            patience = time.monotonic() + PATIENCE_SECONDS
            while not (told.is_file() and told.read_text().count("\n")):
                assert process.poll() is None, f"Chromium ended (exit {process.returncode})"
                assert time.monotonic() < patience, "Chromium names no port"
                time.sleep(0.05)
            yield f"cdp+http://127.0.0.1:{told.read_text().splitlines()[0]}", process

    return start


@pytest.fixture
def over_ws(lab_profile: Profile, tmp_path: Path) -> Start:
    """Starts Playwright's server on the same Chromium with the same flags; gives its address."""

    @contextlib.contextmanager
    def start() -> Iterator[Remote]:
        config = {"executablePath": str(lab_profile.executable), "args": lab_profile.arguments, "host": "127.0.0.1"}
        (tmp_path / "server.json").write_text(json.dumps(config))
        command = [sys.executable, "-m", "playwright", "launch-server", "--browser", "chromium"]
        environment = {**os.environ, **lab_profile.environment}
        words = ["--config", str(tmp_path / "server.json")]
        with _process([*command, *words], env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            with ThreadPoolExecutor(1) as pool:
                address = pool.submit(process.stdout.readline).result(PATIENCE_SECONDS).strip()
            assert address.startswith("ws://"), f"no address: {address!r}"
            yield address, process

    return start


@pytest.fixture(params=["cdp", "ws"])
def start(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"over_{request.param}")


def test_cases_run_there(start: Start, copy_operator: Operator, copy_case: Callable[[str], Case]) -> None:
    """Large inputs, too, which travel by GET; what is wrong is found wrong; what is recorded claims no more than is
    known; and a second connection finds the browser alive.
    """
    with start() as (address, process):
        for _ in range(2):
            with Lab(resolve(address)) as lab:
                wanted = (("copy", "seven"), ("copy", "large"), ("off_by_one", "seven"))
                found = [line.follow(copy_operator, copy_case(case), lab, variant) for variant, case in wanted]
                told = runs.describe(lab.info)["browser"]
            assert [(verdict.outcome, verdict.record["status"]) for verdict in found] == [
                *(("passed", "ok"), ("passed", "ok"), ("failed", "ok")),
            ], [verdict.report for verdict in found]
            assert re.fullmatch(r"\d+(\.\d+){3}", told["version"])
            assert (told["flags"], told["headed"], told["environment"]) == ([], False, {})
            shown = re.match(r"[a-z+]+://127\.0\.0\.1:\d+", address)
            assert shown is not None
            assert told["executable"] == f"{shown[0]} (remote: program and flags are not known here)"
            assert told["profile"] == shown[0]
        assert process.poll() is None


def test_over_cdp_only_our_page_is_closed(over_cdp: Start) -> None:
    with over_cdp() as (address, _):
        listing = f"{address.removeprefix('cdp+')}/json/list"

        def pages() -> list[str]:
            with urllib.request.urlopen(listing, timeout=PATIENCE_SECONDS) as answer:
                return [page["id"] for page in json.load(answer) if page["type"] == "page"]

        before = pages()
        with Lab(resolve(address)) as lab:
            assert lab.facts
            assert len(pages()) == len(before) + 1
        assert pages() == before != []


def test_a_remote_without_an_adapter_is_a_sentence_that_says_what_to_change_there(over_cdp: Start) -> None:
    with over_cdp(without="--enable-unsafe-webgpu") as (address, _), Lab(resolve(address)) as lab:
        if lab.info.facts is not None:
            pytest.skip("this Chromium offers its adapter without --enable-unsafe-webgpu")
        with pytest.raises(NoAdapter, match=r"Start it over there with --enable-unsafe-webgpu --enable-webgpu-dev"):
            _ = lab.facts


def test_our_server_has_the_port_that_a_tunnel_leads_to() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        free = other.getsockname()[1]
        with pytest.raises(LabError, match=f"port {free} of 127.0.0.1 cannot be used"):
            Lab(resolve(f"cdp+http://127.0.0.1:9222?port={free}"))
    with Lab(resolve(f"cdp+http://127.0.0.1:9222?port={free}")) as lab:
        assert lab.host.address == f"http://127.0.0.1:{free}"


def test_a_remote_that_is_killed_is_a_crash_and_then_a_sentence(
    start: Start, copy_operator: Operator, copy_case: Callable[[str], Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = threading.Event()
    send = Link.send

    async def telling(self: Link, message: bytes) -> None:
        await send(self, message)
        sent.set()

    with start() as (address, process), Lab(resolve(address)) as lab, ThreadPoolExecutor(1) as pool:
        assert lab.facts
        monkeypatch.setattr(Link, "send", telling)
        running = pool.submit(line.follow, copy_operator, copy_case("seven"), lab, "endless")
        assert sent.wait(PATIENCE_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
        verdict = running.result(PATIENCE_SECONDS)
        assert (verdict.outcome, verdict.summary) == ("failed", "crash")
        ended = "(nobody listens there|whoever listened there hung up)"  # its port may take a moment longer to go
        with pytest.raises(LabError, match=rf"^no browser was reached at \S+: {ended}\. Check the address"):
            line.follow(copy_operator, copy_case("seven"), lab, "copy")


@pytest.mark.parametrize("scheme", ["ws", "cdp+http"])
def test_what_speaks_another_protocol_is_a_sentence(scheme: str, lab: Lab) -> None:
    """kernel-lab's own server is no browser."""
    address = f"{scheme}://{lab.host.address.removeprefix('http://')}"
    with Lab(resolve(address)) as other, pytest.raises(LabError) as error:
        _ = other.info
    assert str(error.value).startswith(f"no browser was reached at {address}: ")
    assert "allowed are ws://HOST:PORT/PATH" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (
            "BrowserType.connect: connect ECONNREFUSED 127.0.0.1:9",
            "no browser was reached at ws://lab:1: nobody listens",
        ),
        (
            "BrowserType.connect: read ECONNRESET",
            "no browser was reached at ws://lab:1: whoever listened there hung up",
        ),
        ("getaddrinfo ENOTFOUND lab", "no browser was reached at ws://lab:1: no machine of that name is known."),
        ("Timeout 15000ms exceeded.", "no browser was reached at ws://lab:1: no answer within 15 s"),
        (
            "BrowserType.connect: error: ws://lab:1/secret 200",
            "no browser was reached at ws://lab:1: error: ws://lab:1 200.",
        ),
        ("Page.goto: net::ERR_CONNECTION_REFUSED at http://127.0.0.1:5/", "the browser at ws://lab:1 does not reach"),
    ],
)
def test_what_playwright_says_becomes_a_sentence_without_secrets(told: str, sentence: str) -> None:
    remote = resolve("ws://lab:1/secret").remote
    assert remote is not None
    assert remote.why_not(told).startswith(sentence)
    assert "secret" not in remote.why_not(told)
