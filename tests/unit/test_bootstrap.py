"""bootstrap.py and kernel_lab.browsing.finding: stamps, refusals, sentences, the search order. Installs nothing."""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kernel_lab.browsing import finding

CHECKOUT = Path(__file__).resolve().parents[2]
PLACE, OTHER_PLACE = "Python 3.11, /checkout, /venv\n", "Python 3.12, /checkout, /venv\n"


@pytest.fixture
def bootstrap() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", CHECKOUT / "bootstrap.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Path]:
    """A machine without a Chromium; calling it puts a program there: machine("bin/chromium")."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "playwright"))
    monkeypatch.delenv(finding.ENVIRONMENT_VARIABLE, raising=False)

    def add(path: str, text: str = "#!/bin/sh\n", complete: bool = True) -> Path:
        program = tmp_path / path
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
        if path.startswith("playwright/") and complete:
            (tmp_path / "playwright" / path.split("/")[1] / "INSTALLATION_COMPLETE").touch()
        return program

    return add


def silent(line: str) -> None:
    pass


def environment_with(bootstrap: ModuleType, folder: Path, stamp: str) -> Path:
    for name in ("python", "kernel-lab"):
        program = bootstrap.program(folder, name)
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch()
    (folder / bootstrap.STAMP).write_text(stamp)
    return folder


def fake_finding(failing: str = "") -> Any:
    """finding without effects: notes the commands that would run; those that contain `failing` fail."""
    commands: list[str] = []

    def run_reporting(name: str, command: list[str], report: object, **_: object) -> None:
        commands.append(" ".join(command))
        if failing and failing in commands[-1]:
            raise finding.StepFailed(f"{name} failed")

    return SimpleNamespace(
        run_reporting=run_reporting, commands=commands, StepFailed=finding.StepFailed, NoChromium=finding.NoChromium
    )


# --- finding a Chromium -----------------------------------------------------------------------------------------------


def test_nothing_found(machine: Callable[..., Path]) -> None:
    assert finding.find_chromium() is None
    for word in (finding.ENVIRONMENT_VARIABLE, *finding.PROGRAMS, "playwright", "apt-get install"):
        assert word in finding.missing()


def test_path_in_order(machine: Callable[..., Path]) -> None:
    shell = machine("playwright/chromium_headless_shell-1300/chrome-headless-shell-linux64/chrome-headless-shell")
    assert finding.find_chromium() == shell
    for name in reversed(finding.PROGRAMS):  # each is preferred to those added before
        assert finding.find_chromium() != (program := machine(f"bin/{name}"))
        assert finding.find_chromium() == program


def test_playwrights_newest_complete_shell(machine: Callable[..., Path]) -> None:
    full = machine("playwright/chromium-1999/chrome-linux64/chrome")
    assert finding.find_chromium() == full
    machine("playwright/chromium_headless_shell-999/chrome-linux/headless_shell")
    newest = machine("playwright/chromium_headless_shell-1200/chrome-headless-shell-linux64/chrome-headless-shell")
    machine(
        "playwright/chromium_headless_shell-1201/chrome-headless-shell-linux64/chrome-headless-shell", complete=False
    )
    assert finding.find_chromium() == newest


def test_environment_variable_wins(machine: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    machine("bin/chromium-headless-shell")
    wished = machine("elsewhere/my chromium")
    monkeypatch.setenv(finding.ENVIRONMENT_VARIABLE, str(wished))
    assert finding.find_chromium() == wished
    monkeypatch.setenv(finding.ENVIRONMENT_VARIABLE, "/nowhere/chromium")
    with pytest.raises(finding.NoChromium, match=r"KERNEL_LAB_CHROMIUM is '/nowhere/chromium'.*unset it\."):
        finding.find_chromium()


def test_installing_without_apt_uses_playwright(machine: Callable[..., Path], tmp_path: Path) -> None:
    shell = "playwright/chromium_headless_shell-1300/chrome-headless-shell-linux64/chrome-headless-shell"
    marker = tmp_path / "playwright/chromium_headless_shell-1300/INSTALLATION_COMPLETE"
    script = f"#!/bin/sh\n[ \"$*\" = '-m playwright install chromium-headless-shell' ] && : > '{marker}'\n"
    program = machine(shell, complete=False)
    assert finding.install_chromium(silent, str(machine("python", script))) == program


def test_installing_in_vain_says_all(machine: Callable[..., Path]) -> None:
    python = machine("python", "#!/bin/sh\necho 'Error: getaddrinfo ENOTFOUND cdn.example'; exit 1\n")
    with pytest.raises(finding.NoChromium) as caught:
        finding.install_chromium(silent, str(python))
    assert "No Chromium was found." in str(caught.value)
    assert "The network did not answer" in str(caught.value)


def test_installing_needs_rights(machine: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(finding.StepFailed, match="has no apt"):
        finding.apt_install(["some-package"], silent)
    machine("bin/apt-get")
    machine("bin/sudo", "#!/bin/sh\necho 'sudo: a password is required'; exit 1\n")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    with pytest.raises(finding.StepFailed, match=r"needs root.*run `apt-get install some-package next` as root"):
        finding.apt_install(["some-package"], silent, advised=["next"])


def test_apt_without_network(machine: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    machine("bin/apt-cache")
    machine(
        "bin/apt-get", "#!/bin/sh\necho 'E: Failed to fetch http://deb.example  Could not connect to it'; exit 100\n"
    )
    with pytest.raises(finding.StepFailed, match=r"The network did not answer.*apt-get update"):
        finding.apt_install(["some-package"], silent)


def test_old_package_lists_are_fetched_once_more(machine: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    machine("bin/apt-cache", "#!/bin/sh\necho '  Candidate: 1.0'\n")
    done = machine("bin/updated").with_name("now")
    machine("bin/apt-get", f"#!/bin/sh\n[ $1 = update ] && : > '{done}'\n[ -e '{done}' ]\n")
    lines: list[str] = []
    finding.apt_install(["some-package"], lines.append)
    assert lines == ["apt-get install some-package", "apt-get update", "apt-get install some-package"]


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ("OSError: [Errno 28] No space left on device", "The disk is full"),
        (
            "Failed to establish a new connection: [Errno -3] Temporary failure in name resolution",
            "The network did not",
        ),
        ("E: Could not get lock /var/lib/dpkg/lock-frontend", "Another program is using apt"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "not the one that requirements.lock names"),
        ("something new", "`pip install x` failed"),
    ],
)
def test_a_failed_program_becomes_a_sentence(output: str, sentence: str) -> None:
    text = finding.explain(["pip", "install", "x"], 1, ["first", output])
    assert text.startswith(sentence) or sentence in text.split("`")[0]
    assert output in text
    assert "(exit 1)" in text


def test_progress_while_a_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "HEARTBEAT_SECONDS", 0.3)
    lines: list[str] = []
    slow = "import time; print('step one', flush=True); print('WARNING: noise', flush=True); time.sleep(0.7)"
    finding.run_reporting("slow", [sys.executable, "-c", slow], lines.append)
    assert "  slow: step one" in lines
    with pytest.raises(finding.StepFailed, match="/nowhere/program could not be started"):
        finding.run_reporting("none", ["/nowhere/program"], silent)


# --- bootstrap.py -----------------------------------------------------------------------------------------------------


def test_standard_library_only() -> None:
    """Runs without site-packages, as on a machine where nothing is installed yet."""
    bare = [sys.executable, "-I", "-S"]
    usage = subprocess.run([*bare, CHECKOUT / "bootstrap.py"], capture_output=True, text=True, check=True)
    assert "bootstrap.py run" in usage.stdout
    subprocess.run([*bare, finding.__file__], check=True)


def test_a_complete_environment_costs_a_look(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KERNEL_LAB_VENV", str(tmp_path))
    environment_with(bootstrap, tmp_path, bootstrap.stamp_for(tmp_path))
    nothing_callable = SimpleNamespace()
    assert bootstrap.prepare(nothing_callable, wants_chromium=False) == tmp_path


def test_stamp_follows_lock_project_and_place(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    (tmp_path / "requirements.lock").write_text("a==1")
    (tmp_path / "pyproject.toml").write_text("[project]")
    first = bootstrap.stamp_for(tmp_path / ".venv")
    assert bootstrap.stamp_for(tmp_path / ".venv") == first
    assert bootstrap.stamp_for(tmp_path / "other").splitlines()[0] != first.splitlines()[0]
    for name in ("requirements.lock", "pyproject.toml"):
        before = bootstrap.stamp_for(tmp_path / ".venv")
        (tmp_path / name).write_text("changed")
        after = bootstrap.stamp_for(tmp_path / ".venv")
        assert after.splitlines()[0] == first.splitlines()[0]
        assert after != before


def test_incomplete_without_stamp_or_programs(bootstrap: ModuleType, tmp_path: Path) -> None:
    assert not bootstrap.is_complete(tmp_path, "x")
    environment_with(bootstrap, tmp_path, "x")
    assert bootstrap.is_complete(tmp_path, "x")
    assert not bootstrap.is_complete(tmp_path, "y")
    bootstrap.program(tmp_path, "python").unlink()
    assert not bootstrap.is_complete(tmp_path, "x")


@pytest.mark.parametrize(
    ("stamp", "kept"), [(PLACE + "older", True), (OTHER_PLACE + "older", False), ("unfinished\n", False)]
)
def test_what_an_environment_survives(bootstrap: ModuleType, tmp_path: Path, stamp: str, kept: bool) -> None:
    environment_with(bootstrap, tmp_path, stamp)
    fake = fake_finding()
    bootstrap.make_environment(fake, tmp_path, PLACE + "newer", (), silent)
    assert bootstrap.program(tmp_path, "kernel-lab").exists() == kept
    assert [command.split()[-2] for command in fake.commands] == ([] if kept else ["venv"])
    assert bootstrap.read_stamp(tmp_path) == bootstrap.UNFINISHED  # until all is installed


def test_the_stamp_is_written_last(bootstrap: ModuleType, tmp_path: Path) -> None:
    environment_with(bootstrap, tmp_path, bootstrap.UNFINISHED)
    with pytest.raises(finding.StepFailed):
        bootstrap.install_packages(fake_finding("--editable"), tmp_path, "complete", (), silent)
    assert bootstrap.read_stamp(tmp_path) == bootstrap.UNFINISHED
    fake = fake_finding()
    bootstrap.install_packages(fake, tmp_path, "complete", (), silent)
    assert bootstrap.read_stamp(tmp_path) == "complete"
    assert "--require-hashes" in fake.commands[0]
    bootstrap.install_packages(fake_finding("pip"), tmp_path, "complete", (), silent)  # complete: nothing runs


def test_a_foreign_folder_stays_untouched(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").touch()
    monkeypatch.setenv("KERNEL_LAB_VENV", str(tmp_path))
    assert bootstrap.main(["list"]) == 2
    assert "bootstrap.py did not make it" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_no_room(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bootstrap.shutil, "disk_usage", lambda path: SimpleNamespace(free=12_000_000))
    with pytest.raises(bootstrap.CannotStart, match="needs about 1000 MB and its disk has 12 MB left"):
        bootstrap.make_environment(fake_finding(), tmp_path, "x", (), silent)


def test_too_old_a_python(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bootstrap, "OLDEST_PYTHON", (99, 1))
    assert bootstrap.main(["run", "*:*"]) == 2
    assert re.search(
        r"Python 99\.1 or newer is needed; this is 3.*python99\.1 bootstrap\.py run", capsys.readouterr().err
    )


def test_errors_and_interruptions_end_in_sentences(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error, code, sentence in (
        (PermissionError(13, "Permission denied", "/venv"), 2, "kernel-lab: /venv: Permission denied.\n"),
        (KeyboardInterrupt(), 130, "kernel-lab: interrupted; the next start makes it good.\n"),
    ):

        def fail(*_: object, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr(bootstrap, "prepare", fail)
        assert bootstrap.main(["run"]) == code
        assert capsys.readouterr().err == sentence


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        ("run", True),
        ("run com.microsoft.QLinearConv:* --report here", True),
        ("test", True),
        ("onnx model.onnx", True),
        ("run --help", False),
        ("run --browser npm-153-swiftshader", False),
        ("run --browser=ws://host:1234", False),
        ("explain ai.onnx.ConvInteger:basic", False),
        ("--version", False),
    ],
)
def test_which_verbs_need_a_chromium(bootstrap: ModuleType, arguments: str, needed: bool) -> None:
    assert bootstrap.needs_chromium(arguments.split()) == needed


def test_handing_over(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda program, command: started.append(command))
    monkeypatch.setattr(os, "chdir", silent)
    monkeypatch.setattr(bootstrap.subprocess, "call", lambda command: 0)
    for arguments in (["run", "-x"], ["test"], ["test", "tests/unit"]):
        bootstrap.hand_over(tmp_path, arguments)
    python = str(bootstrap.program(tmp_path, "python"))
    assert started == [
        [str(bootstrap.program(tmp_path, "kernel-lab")), "run", "-x"],
        [python, "-m", "pytest", *bootstrap.TEST_OPTIONS],
        [python, "-m", "pytest", "tests/unit"],
    ]


def test_the_lock_holds_every_dependency_and_no_address() -> None:
    lock = (CHECKOUT / "requirements.lock").read_text()
    locked = {match[1]: match[0] for match in re.finditer(r"^([a-z0-9.-]+)==\S+ .*\\$", lock, re.M)}
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    groups = [*project["project"]["optional-dependencies"].values(), *project["dependency-groups"].values()]
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"], *chain(*groups)]
    names = {re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-") for requirement in wanted}  # type: ignore[index]
    assert names <= set(locked), f"run the command at the head of requirements.lock; it lacks {names - set(locked)}"
    assert not re.search(r"://|--index|--find-links|^-", lock, re.M)
