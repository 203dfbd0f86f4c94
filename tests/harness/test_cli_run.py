"""The command line with a browser behind it: exit codes, last line, journal, and the command that repeats a failure."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kernel_lab.judging import journal
from tests.harness.conftest import OPERATORS, PATIENCE_SECONDS

RESULT = b'{"type":"result",'

Command = Callable[..., subprocess.CompletedProcess[str]]
COPY = ("--package", str(OPERATORS), "--reference", str(OPERATORS / "lab.test.Copy" / "reference.py"))


@pytest.fixture
def lab_command(tmp_path: Path) -> Command:
    """Runs `kernel-lab …` as a program, with a cache of its own."""
    environment = {**os.environ, "KERNEL_LAB_CACHE": str(tmp_path / "cache"), "COLUMNS": "100"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kernel_lab", *arguments]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)

    return run


def test_right_case_passes(lab_command: Command, tmp_path: Path) -> None:
    done = lab_command("run", "ConvInteger:card_example", "--report", str(tmp_path / "report"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"
    kept = journal.load(tmp_path / "report" / journal.FILE)
    header, (record,) = kept.header, kept.results
    assert header["browser"]["version"]
    assert header["adapter"]["description"]
    assert isinstance(header["adapter"]["fallback"], bool)
    assert isinstance(header["adapter"]["spoofed_ids"], bool)
    assert record["outcome"] == "passed"
    assert record["query"].startswith("ai.onnx.ConvInteger:card_example:")


def test_wrong_case_fails_and_the_report_says_how_to_repeat_it(lab_command: Command) -> None:
    """The command in the report, run as it stands, gives the same failure."""
    done = lab_command("run", *COPY, "Copy:seven:off_by_one", "Copy:seven:copy")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"
    repeat = next(line for line in done.stdout.splitlines() if line.strip().startswith("repeat"))
    program, *arguments = shlex.split(repeat.removeprefix("  repeat    "))
    assert program == "kernel-lab"
    again = lab_command(*arguments)
    assert again.returncode == 1
    assert again.stdout.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"
    assert "y: 1 of 7 elements differ; first at [5]" in again.stdout


def test_last_failed_runs_only_what_failed(lab_command: Command) -> None:
    lab_command("run", *COPY, "Copy:seven:off_by_one", "Copy:seven:copy", "Copy:wrong_dtype")
    again = lab_command("run", *COPY, "--last-failed")
    assert again.stdout.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"
    assert again.returncode == 1


def test_last_failed_without_a_run_is_a_sentence(lab_command: Command) -> None:
    done = lab_command("run", *COPY, "--last-failed")
    assert done.returncode == 2
    assert "there is no earlier run" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_cut_short_goes_on(lab_command: Command, tmp_path: Path, how: signal.Signals) -> None:
    """Killed, or interrupted as by Ctrl-C (which a terminal sends to the browser, too), while the second case runs."""
    words = ("run", *COPY, "Copy:seven:copy", "Copy:seven:slow", "Copy:large:copy")
    log = tmp_path / "report" / "journal.jsonl"
    command = [sys.executable, "-m", "kernel_lab", *words, "--report", str(log.parent)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # where tests run in the background, Ctrl-C is ignored, and whatever they start would ignore it, too
    heeding = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen(command, **pipes, **heeding, start_new_session=True) as cut:
        until = time.monotonic() + PATIENCE_SECONDS
        while not (log.exists() and RESULT in log.read_bytes()) and time.monotonic() < until:
            time.sleep(0.01)
        os.killpg(cut.pid, how)
        said = cut.communicate(timeout=PATIENCE_SECONDS)[1].decode()
    before = log.read_bytes()
    assert before.count(RESULT) in (1, 2), said
    assert ("To go on with it: kernel-lab run" in said) == (how == signal.SIGINT)
    done = lab_command(*words, "--resume", str(log.parent))
    assert done.stdout.splitlines()[-1] == "3 passed, 0 failed, 0 skipped", done.stdout + done.stderr
    assert done.returncode == 0
    assert log.read_bytes().startswith(before)
    queries = [record["query"] for record in journal.load(log).results]
    assert queries == [f"lab.test.{word}" for word in ("Copy:seven:copy", "Copy:seven:slow", "Copy:large:copy")]


def test_crash_counts_as_failed_and_the_rest_goes_on(lab_command: Command) -> None:
    """A shader that outlasts its deadline costs its own case; the one after it runs in a new browser."""
    done = lab_command("run", *COPY, "Copy:seven:endless", "Copy:large:copy", "--deadline", "1", "-v")
    assert done.stdout.splitlines()[-1] == "1 passed, 1 failed, 0 skipped", done.stdout
    assert "timeout" in done.stdout


def test_foreign_reference_is_not_run_unless_named(lab_command: Command) -> None:
    done = lab_command("run", "--package", str(OPERATORS), "Copy:seven:copy")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"
    assert "--reference FILE" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_json_is_json(lab_command: Command) -> None:
    done = lab_command("run", "ConvInteger:card_example", "--json")
    report = json.loads(done.stdout)
    assert [result["outcome"] for result in report["results"]] == ["passed"]
    assert report["run"]["browser"]["version"]


def test_doctor_finds_this_machine_healthy(lab_command: Command) -> None:
    done = lab_command("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "healthy"
    assert "--enable-unsafe-webgpu" in done.stdout
    report = json.loads(lab_command("doctor", "--json").stdout)
    assert len(report["cases"]) == 3


def test_explain_shows_every_variant_with_its_reason(lab_command: Command) -> None:
    done = lab_command("explain", *COPY[:2], "Copy:seven", "--mask", "shader-f16")
    assert done.returncode == 0, done.stderr
    rows = {row.split()[0].removeprefix("→"): row for row in done.stdout.splitlines()[4:] if row.strip()}
    wants = next(row for row in done.stdout.splitlines() if "wants_f16" in row)
    assert "needs the feature 'shader-f16'" in wants
    assert any(row.startswith("→ copy ") and row.rstrip().endswith("Accepted.") for row in done.stdout.splitlines()), (
        rows
    )


def test_explain_follows_a_case_to_its_wgsl(lab_command: Command) -> None:
    done = lab_command("explain", *COPY[:2], "Copy:seven:copy")
    titles = ["request", "derived values", "decision: copy", "buffers", "passes", "WGSL of lab.test.Copy:copy:copy"]
    places = [done.stdout.index(f"\n{title}") for title in titles]
    assert places == sorted(places)
    assert "copy.wgsl.jinja:6" in done.stdout
