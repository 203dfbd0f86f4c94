#!/usr/bin/env python3
"""Runs kernel-lab from a fresh checkout: installs what is missing, then hands over.

    python3 bootstrap.py run [ARGUMENTS]      kernel-lab run; every other verb of kernel-lab passes through the same way
    python3 bootstrap.py test [ARGUMENTS]     the tests; arguments are pytest's and replace TEST_OPTIONS below

In: the system's Python 3.11 or newer, nothing else. Out: a virtual environment in .venv (or $KERNEL_LAB_VENV) with the
packages that requirements.lock pins by hash, a Chromium if none is found, and then the program itself in this one's
place. Progress goes to stderr. Where all is in place this costs a tenth of a second: it compares a stamp.
Never: touches an environment it did not make, installs an unpinned package, or ends with a traceback where a sentence
will do (exit code 2). An interrupted installation is made good by the next start; without .venv all is made anew.
Standard library only.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # an older Python must get as far as the sentence that it is too old
    from collections.abc import Callable, Iterator
    from types import ModuleType

    Report = Callable[[str], None]
    Lock = tuple[int, ...]  # file descriptors

ROOT = Path(__file__).resolve().parent
TEST_OPTIONS = ("-n", "2", "--dist", "loadgroup", "-q")
OLDEST_PYTHON = (3, 11)
NEEDED_BYTES = 1_000_000_000
STAMP = "kernel-lab-stamp"  # a file in the environment: says that it is ours, and what is completely installed in it
UNFINISHED = "unfinished\n"
BROWSERLESS = {"list", "explain", "render", "pack", "verify", "new", "compare", "cache", "doctor", "browsers"}
# Packages for checks and model readers: their bytecode can wait for their first import.
COMPILED_LATER = r"site-packages/(onnx|onnxruntime|mypy|hypothesis|pip|setuptools|hatchling|PIL|numpy/.*/tests)/"


class CannotStart(Exception):
    """Something this machine lacks; the text is a sentence for people."""


def main(arguments: list[str]) -> int:
    """Exit code 2 and a sentence where something is missing; otherwise the program's own, which replaces this one."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    if sys.version_info < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        return give_up(
            f"Python {wanted} or newer is needed; this is {sys.version.split()[0]} ({sys.executable}). "
            f"Install a newer one, then: python{wanted} bootstrap.py {' '.join(arguments)}"
        )
    finding = load_finding()
    try:
        return hand_over(prepare(finding, needs_chromium(arguments)), arguments)
    except (CannotStart, finding.NoChromium, finding.StepFailed) as error:
        return give_up(str(error))
    except OSError as error:
        return give_up(f"{error.filename or 'The system'}: {error.strerror or error}.")
    except KeyboardInterrupt:
        return give_up("interrupted; the next start makes it good.", code=130)


def give_up(sentence: str, code: int = 2) -> int:
    print(f"kernel-lab: {sentence}", file=sys.stderr)
    return code


def load_finding() -> ModuleType:
    """kernel_lab.browsing.finding, loaded by path: the package itself may not be installed yet."""
    path = ROOT / "server/kernel_lab/browsing/finding.py"
    spec = importlib.util.spec_from_file_location("kernel_lab_finding", path)
    assert spec is not None  # true of every .py file
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def needs_chromium(arguments: list[str]) -> bool:
    """Whether a Chromium must be on this machine first: not for help, verbs without a browser, or a browser named."""
    if arguments[0].startswith("-") or arguments[0] in BROWSERLESS:
        return False
    return not any(given in ("-h", "--help") or given.startswith("--browser") for given in arguments[1:])


def prepare(finding: ModuleType, wants_chromium: bool) -> Path:
    """The environment's folder, complete, and a Chromium on the machine if one is wanted."""
    environment = Path(os.environ.get("KERNEL_LAB_VENV") or ROOT / ".venv").expanduser().absolute()
    wanted = stamp_for(environment)
    lacks_chromium = wants_chromium and finding.find_chromium() is None
    if is_complete(environment, wanted) and not lacks_chromium:
        return environment

    from concurrent.futures import ThreadPoolExecutor

    report = reporter()
    report("First start here, or something changed: installing, a minute or two.")
    # Packages and a Chromium at the same time: the one computes while the other downloads.
    with exclusive(environment, report) as lock, ThreadPoolExecutor(1) as pool:
        if not is_complete(environment, wanted):
            install_system_packages(finding, lacks_chromium, report)
            make_environment(finding, environment, wanted, lock, report)
        packages = pool.submit(install_packages, finding, environment, wanted, lock, report)
        if lacks_chromium:
            finding.install_chromium(report, str(program(environment, "python")), packages.result)
        packages.result()
    report("Ready.")
    return environment


def stamp_for(environment: Path) -> str:
    """A complete environment's stamp. A change of its first line needs a new one, of its second newer packages."""
    contents = hashlib.sha256()
    for name in ("requirements.lock", "pyproject.toml"):
        contents.update((ROOT / name).read_bytes() + b"\0")
    return f"Python {sys.version_info[0]}.{sys.version_info[1]}, {ROOT}, {environment}\n{contents.hexdigest()}\n"


def read_stamp(environment: Path) -> str | None:
    try:
        return (environment / STAMP).read_text()
    except FileNotFoundError:
        return None


def is_complete(environment: Path, wanted: str) -> bool:
    return read_stamp(environment) == wanted and all(program(environment, p).exists() for p in ("python", "kernel-lab"))


def program(environment: Path, name: str) -> Path:
    return environment / "Scripts" / f"{name}.exe" if os.name == "nt" else environment / "bin" / name


@contextmanager
def exclusive(environment: Path, report: Report) -> Iterator[Lock]:
    """Holds the environment for one installation at a time; gives the lock's descriptor. Refuses a foreign folder."""
    if read_stamp(environment) is None:
        if environment.exists() and any(environment.iterdir()):
            raise CannotStart(
                f"{environment} is there already and bootstrap.py did not make it, so it stays untouched: use it "
                "yourself, remove it, or set KERNEL_LAB_VENV to a folder for another environment."
            )
        environment.mkdir(parents=True, exist_ok=True)
        (environment / STAMP).write_text(UNFINISHED)
    if os.name == "nt":  # no such lock there: two first starts at once are the user's own care
        yield ()
        return
    import fcntl

    with open(environment / STAMP) as stamp:
        try:
            fcntl.flock(stamp, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("Another start is installing here: waiting for it.")
            fcntl.flock(stamp, fcntl.LOCK_EX)
        yield (stamp.fileno(),)


def install_system_packages(finding: ModuleType, lacks_chromium: bool, report: Report) -> None:
    """What a small Debian lacks: Python's venv, and a library that Playwright's driver is linked to."""
    import ctypes

    lacking = {}
    if not all(importlib.util.find_spec(module) for module in ("venv", "ensurepip")):
        lacking[f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"] = "Python's venv"
    if sys.platform == "linux":
        try:
            ctypes.CDLL("libatomic.so.1")
        except OSError:
            lacking["libatomic1"] = "libatomic.so.1, which Playwright needs"
    try:
        if lacking:
            finding.apt_install(list(lacking), report, advised=[finding.PACKAGE] * lacks_chromium)
    except finding.StepFailed as failure:
        raise CannotStart(f"This machine lacks {' and '.join(lacking.values())}. {failure}") from failure


def make_environment(finding: ModuleType, environment: Path, wanted: str, lock: Lock, report: Report) -> None:
    """An environment with pip, marked unfinished. One that only lacks newer packages is kept, any other made anew."""
    stamp = read_stamp(environment) or ""
    (environment / STAMP).write_text(UNFINISHED)
    if stamp.splitlines()[:1] == wanted.splitlines()[:1] and program(environment, "python").exists():
        return
    free_bytes = shutil.disk_usage(environment).free
    if free_bytes < NEEDED_BYTES:
        raise CannotStart(
            f"{environment} needs about {NEEDED_BYTES // 10**6} MB and its disk has {free_bytes // 10**6} MB left: "
            "free some, or set KERNEL_LAB_VENV to a folder on another disk."
        )
    for entry in environment.iterdir():
        if entry.name != STAMP:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    python = getattr(sys, "_base_executable", sys.executable)  # not that of an environment that may go
    report(f"python -m venv {environment}")
    finding.run_reporting("venv", [python, "-I", "-m", "venv", str(environment)], report, pass_fds=lock)


def install_packages(finding: ModuleType, environment: Path, wanted: str, lock: Lock, report: Report) -> None:
    """requirements.lock and this project into the environment, unless they are there; the stamp last."""
    if is_complete(environment, wanted):
        return
    python = [str(program(environment, "python")), "-I", "-m"]
    pip = [*python, "pip", "--disable-pip-version-check", "--no-input", "install", "--no-user", "--no-deps"]
    held = {"pass_fds": lock}  # should this process be killed, the next start waits until its pip has ended

    report("pip install -r requirements.lock")
    exact = ["--require-hashes", "--only-binary=:all:", "--no-compile", "--progress-bar=off"]
    finding.run_reporting("pip", [*pip, *exact, "-r", str(ROOT / "requirements.lock")], report, **held)
    report("pip install --editable .")
    finding.run_reporting("pip", [*pip, "--no-build-isolation", "--editable", str(ROOT)], report, **held)
    report("compiling to bytecode")
    compileall = [*python, "compileall", "-q", "-j", "0", "-x", COMPILED_LATER, str(ROOT / "server")]
    try:
        finding.run_reporting("compileall", [*compileall, *map(str, environment.glob("[Ll]ib"))], report, **held)
    except finding.StepFailed:
        report("not everything could be compiled; the first import of the rest will do it")
    (environment / STAMP).write_text(wanted)


def reporter() -> Report:
    """Prints a line of progress to stderr, with the seconds since now."""
    start = time.monotonic()
    return lambda line: print(f"[{time.monotonic() - start:4.0f} s] {line}", file=sys.stderr, flush=True)


def hand_over(environment: Path, arguments: list[str]) -> int:
    """Replaces this process by kernel-lab, or by pytest in the checkout."""
    if arguments[0] == "test":
        os.chdir(ROOT)
        command = [str(program(environment, "python")), "-m", "pytest", *(arguments[1:] or TEST_OPTIONS)]
    else:
        command = [str(program(environment, "kernel-lab")), *arguments]
    if os.name != "nt":
        os.execv(command[0], command)
    return subprocess.call(command)  # Windows' execv returns to the shell at once


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
