"""Without a usable browser or adapter nothing is green: a sentence says what is missing; an option allows skips."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page

from kernel_lab import cli
from kernel_lab.browsing.lab import Lab, NoAdapter
from kernel_lab.browsing.profiles import Profile
from kernel_lab.errors import LabError
from kernel_lab.operators import operator

RunPytest = Callable[..., "subprocess.CompletedProcess[str]"]
QUERY = operator.named("DequantizeLinear").cases[0].query
ONE_CASE = ("--lab-query", QUERY, "--lab-variants", "selected")
NEEDED = "--enable-unsafe-webgpu"
NO_GPU = "--disable-gpu"
"""So that a machine with a GPU of its own has no adapter either."""

EVERY_CASE = """
from kernel_lab.pytest_plugin import settle

def test_kernel(kernel_pair, lab_judge):
    settle(lab_judge(kernel_pair))
"""


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """A shell script in the place of a browser; its path."""

    def write(text: str) -> str:
        path = tmp_path / "chromium"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return write


@pytest.fixture
def without_adapter(program: Callable[[str], str], lab_profile: Profile) -> str:
    """The path of a browser that never gets the flag it needs for an adapter."""
    return program(
        f'for given; do shift; [ "$given" = {NEEDED} ] || set -- "$@" "$given"; done\n'
        f'exec {shlex.quote(str(lab_profile.executable))} {NO_GPU} "$@"'
    )


@pytest.fixture
def kernel_lab(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """The command line: exit code, stdout, stderr."""
    monkeypatch.setenv("KERNEL_LAB_CACHE", str(tmp_path / "cache"))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kernel-lab", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        code = ended.value.code
        return code if isinstance(code, int) else int(code is not None), said.out, said.err

    return run


def test_facts_raise_with_what_was_tried(lab_profile: Profile) -> None:
    fewer = tuple(flag for flag in lab_profile.flags if flag.text not in (NEEDED, NO_GPU))
    flags = (*fewer, replace(fewer[0], text=NO_GPU))
    with Lab(replace(lab_profile, flags=flags)) as lab:
        with pytest.raises(NoAdapter) as raised:
            _ = lab.facts
        sentence = str(raised.value)
        assert str(lab_profile.executable) in sentence
        assert lab.info.version in sentence
        assert "requestAdapter() gave null" in sentence
        assert f"Chromium was started without {NEEDED}" in sentence
        assert f"Flags were: {' '.join(flag.text for flag in flags)}." in sentence


def test_run_fails_and_says_so(kernel_lab: Callable[..., tuple[int, str, str]], without_adapter: str) -> None:
    code, out, err = kernel_lab("run", QUERY, "--browser", without_adapter)
    assert code == 2
    assert "offers no WebGPU adapter" in err
    assert "passed" not in out
    assert "Traceback" not in err


def test_run_skips_where_that_is_allowed(kernel_lab: Callable[..., tuple[int, str, str]], without_adapter: str) -> None:
    code, out, _ = kernel_lab("run", QUERY, "--browser", without_adapter, "--allow-no-adapter")
    assert code == 0
    assert "offers no WebGPU adapter" in out
    assert out.rstrip().splitlines()[-1] == "0 passed, 0 failed, 1 skipped"


def test_pytest_fails_and_says_so(run_pytest: RunPytest, without_adapter: str) -> None:
    ended = run_pytest(EVERY_CASE, *ONE_CASE, "--lab-browser", without_adapter)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED, ended.stdout
    assert "offers no WebGPU adapter" in ended.stdout
    assert "Traceback" not in ended.stdout
    assert re.search(r"=+ 1 error in ", ended.stdout)


def test_pytest_skips_where_that_is_allowed(run_pytest: RunPytest, without_adapter: str) -> None:
    ended = run_pytest(EVERY_CASE, *ONE_CASE, "--lab-browser", without_adapter, "--lab-allow-no-adapter")
    assert ended.returncode == 0, ended.stdout
    assert re.search(r"SKIPPED \[\d+\] .*no adapter: .*offers no WebGPU adapter", ended.stdout)
    assert re.search(r"=+ 1 skipped in ", ended.stdout)


def test_chromium_that_is_not_there(
    kernel_lab: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nowhere = str(tmp_path / "no-chromium-here")
    monkeypatch.setenv("KERNEL_LAB_CHROMIUM", nowhere)
    code, _, err = kernel_lab("run", QUERY)
    assert code == 2
    assert err.startswith(f"kernel-lab: KERNEL_LAB_CHROMIUM is {nowhere!r}, which is no program that can be run")
    assert "Traceback" not in err


def test_browser_that_exits_at_once(
    kernel_lab: Callable[..., tuple[int, str, str]], program: Callable[[str], str]
) -> None:
    path = program("echo 'cannot open libnothing.so' >&2; exit 127")
    code, _, err = kernel_lab("run", QUERY, "--browser", path)
    assert code == 2
    assert err.startswith(f"kernel-lab: {path} could not be started: ")
    assert "libnothing.so" in err
    assert "Traceback" not in err


def test_browser_that_does_not_open_the_page_is_closed_again(
    lab_profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt ends the browser that it has started: none is left behind."""
    started: list[Any] = []

    async def goto(page: Page, address: str) -> None:
        started.append(page.context.browser)
        raise PlaywrightError("net::ERR_FAILED")

    monkeypatch.setattr(Page, "goto", goto)
    with Lab(lab_profile) as lab:
        with pytest.raises(LabError, match="could not be started: net::ERR_FAILED"):
            _ = lab.info
        assert len(started) == 2
        assert not any(browser.is_connected() for browser in started)


@pytest.mark.parametrize(
    ("secure", "gpu", "reason"),
    [
        (False, "absent", "no secure context (use http://127.0.0.1 or https)"),
        (True, "absent", "this browser has no WebGPU, or it is switched off"),
        (True, "without adapter", "requestAdapter() gave null"),
        (True, "broken", "requestAdapter() failed: TypeError: broken"),
    ],
)
def test_reason_says_what_is_missing(
    lab: Lab, on_page: Callable[..., Any], secure: bool, gpu: str, reason: str
) -> None:
    """In a page of its own, whose globals are made to look like those of a browser that has less."""

    async def probe(page: Page) -> Any:
        poorer = await page.context.browser.new_page()
        try:
            await poorer.goto(lab.address)
            return await poorer.evaluate(
                """async ([secure, gpu]) => {
                  const { probe } = await import("/harness/facts.js");
                  Object.defineProperty(globalThis, "isSecureContext", { value: secure });
                  if (gpu === "absent") Object.defineProperty(navigator, "gpu", { value: undefined });
                  if (gpu === "without adapter") GPU.prototype.requestAdapter = async () => null;
                  if (gpu === "broken") {
                    GPU.prototype.requestAdapter = async () => { throw new TypeError("broken"); };
                  }
                  return await probe();
                }""",
                [secure, gpu],
            )
        finally:
            await poorer.close()

    facts = on_page(probe)
    assert facts["adapter"] is None
    assert reason in facts["reason"]
    assert facts["secureContext"] is secure
