"""Finds a Chromium on this machine, or gets one.

In: environment variables, PATH, Playwright's download folder; for getting one, apt or Playwright's own installer.
Out: the path of a Chromium program, or an error whose text is a sentence for people.
Never: starts a browser to work with, chooses flags, or touches a Chromium that is already there.

bootstrap.py loads this file by path with the system's Python, before anything is installed: standard library only.
"""

from __future__ import annotations

import collections
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

Report = Callable[[str], None]  # takes one short line of progress

ENVIRONMENT_VARIABLE = "KERNEL_LAB_CHROMIUM"
CHANNELS = {  # programs of Google's and Microsoft's packages, and what Playwright calls their channels
    "google-chrome": "chrome",
    "google-chrome-stable": "chrome",
    "google-chrome-beta": "chrome-beta",
    "google-chrome-unstable": "chrome-dev",
    "microsoft-edge": "msedge",
    "microsoft-edge-stable": "msedge",
    "microsoft-edge-beta": "msedge-beta",
    "microsoft-edge-dev": "msedge-dev",
}
PROGRAMS = tuple(
    dict.fromkeys(
        ("chromium-headless-shell", "chromium", "google-chrome", "google-chrome-stable", "chromium-browser", *CHANNELS)
    )
)
PACKAGE = "chromium-headless-shell"  # the same name in Debian's archive and in `playwright install`
HEARTBEAT_SECONDS = 5.0

# Playwright's folders, best first, and where the program lies in them (older and newer layouts, Linux, macOS, Windows).
_PLAYWRIGHT_LAYOUTS = (
    (
        "chromium_headless_shell-*",
        ("*/chrome-headless-shell", "*/headless_shell", "*/chrome-headless-shell.exe", "*/headless_shell.exe"),
    ),
    ("chromium-*", ("*/chrome", "*/*.app/Contents/MacOS/*Chrom*", "*/chrome.exe")),
)

# What a failed program's output says, and the same as a sentence.
_CAUSES = (
    (r"No space left on device|ENOSPC|enough free space", "The disk is full: free about 1.5 GB and start again."),
    (
        r"Temporary failure resolving|Could not resolve|name resolution|getaddrinfo|ENOTFOUND|EAI_AGAIN|Network is "
        r"unreachable|Failed to establish a new connection|Could not connect to|ECONNREFUSED|ETIMEDOUT|Read timed out|"
        r"Connection timed out|ConnectTimeout|Failed to fetch|Connection refused|Connection reset",
        "The network did not answer: check the connection (and proxy settings), then start again.",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|certificate verif|SELF_SIGNED_CERT|UNABLE_TO_GET_ISSUER_CERT",
        "A server's certificate was not accepted: set SSL_CERT_FILE, PIP_CERT and NODE_EXTRA_CA_CERTS to your CA file.",
    ),
    (
        r"DO NOT MATCH THE HASHES",
        "A downloaded package is not the one that requirements.lock names: none was kept.",
    ),
    (
        r"No matching distribution found|Could not find a version",
        "The package index offers no build of a pinned package for this Python and system.",
    ),
    (r"a password is required|not in the sudoers|not allowed to|a terminal is required", "sudo was refused."),
    (r"Could not get lock|Unable to acquire the dpkg", "Another program is using apt: wait for it, then start again."),
    (r"Unable to locate package|has no installation candidate", "apt's sources offer no such package."),
    (r"Permission denied|EACCES|are you root", "A file or folder may not be written by this user."),
)


class NoChromium(Exception):
    """There is no Chromium to run; the text says what was looked for and what to do."""


class StepFailed(Exception):
    """A program that was to install something failed; the text says which, why, and its last lines."""


def find_chromium() -> Path | None:
    """$KERNEL_LAB_CHROMIUM, else the first of PROGRAMS on PATH, else Playwright's newest, else None.

    Raises NoChromium when the environment variable names something that cannot be run: a wish is not silently ignored.
    """
    wished = os.environ.get(ENVIRONMENT_VARIABLE)
    if wished:
        found = shutil.which(os.path.expanduser(wished))
        if found is None:
            raise NoChromium(
                f"{ENVIRONMENT_VARIABLE} is {wished!r}, which is no program that can be run: "
                "set it to the full path of a Chromium, or unset it."
            )
        return Path(found).absolute()
    for name in PROGRAMS:
        found = shutil.which(name)
        if found is not None:
            return Path(found).absolute()
    return next(playwright_programs(), None)


def install_chromium(
    report: Report, python: str = sys.executable, await_playwright: Callable[[], object] = lambda: None
) -> Path:
    """Gets a Chromium and returns its path: Debian's package where apt offers it, else Playwright's own.

    `python` is an interpreter that has Playwright once `await_playwright()` has returned. Raises NoChromium.
    """
    tried = []
    try:
        if shutil.which("apt-get") and apt_offers(PACKAGE, report):
            apt_install([PACKAGE], report)
    except StepFailed as failure:
        tried.append(str(failure))
    if find_chromium() is None:
        await_playwright()
        try:
            _playwright_install(report, python)
        except StepFailed as failure:
            tried.append(str(failure))
    found = find_chromium()
    if found is None:
        raise NoChromium("\nTried: ".join([missing(), *tried]))
    return found


def missing() -> str:
    """The sentence for a machine without Chromium: what was looked for, what to do."""
    return (
        f"No Chromium was found. Looked for: ${ENVIRONMENT_VARIABLE} (not set), {', '.join(PROGRAMS)} on PATH, and "
        f"Playwright's in {playwright_folder()}. On Debian: `apt-get install {PACKAGE}` as root. Elsewhere: "
        f"`playwright install --with-deps {PACKAGE}`. Or set {ENVIRONMENT_VARIABLE} to the full path of a Chromium."
    )


def apt_offers(package: str, report: Report) -> bool:
    """Whether apt knows a candidate for `package`; fetches the package lists first where they lack it and we may."""
    if not _apt_candidate(package) and _root_prefix() is not None:
        _apt_update(report)
    return _apt_candidate(package)


def apt_install(packages: Sequence[str], report: Report, advised: Sequence[str] = ()) -> None:
    """Installs Debian packages as root or through sudo. Raises StepFailed.

    Where only the user can do it, the advice names `advised` too: what will be needed next.
    """
    wanted = " ".join(packages)
    if shutil.which("apt-get") is None:
        raise StepFailed(f"This system has no apt: install what Debian calls {wanted} its own way, then start again.")
    prefix = _root_prefix()
    if prefix is None:
        raise StepFailed(
            f"Installing {wanted} with apt needs root, and sudo is not there or asks for a password: "
            f"run `apt-get install {' '.join([*packages, *advised])}` as root, then start again."
        )
    command = [*prefix, "apt-get", "install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=120"]
    # Missing package lists are fetched first; old ones, which name files replaced since, after a failure.
    for fetch_lists in (False, True) if all(map(_apt_candidate, packages)) else (True,):
        outdated = _apt_update(report) if fetch_lists else None
        report(f"apt-get install {wanted}")
        try:
            run_reporting("apt-get", [*command, *packages], report)
            return
        except StepFailed as failure:
            reason = outdated or failure
    raise reason


def run_reporting(
    name: str,
    command: Sequence[str],
    report: Report,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    folder: Path | None = None,
) -> None:
    """Runs a program to its end; every HEARTBEAT_SECONDS reports its latest line of output. Raises StepFailed.

    `name` stands before those lines; `environment` is added to this process's own; `pass_fds` stay open in it;
    `folder`: where it runs.
    """
    lines: collections.deque[str] = collections.deque(maxlen=60)
    quiet = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **(environment or {})}
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=quiet,
            pass_fds=pass_fds,
            cwd=folder,
        )
    except OSError as error:
        raise StepFailed(f"{command[0]} could not be started: {error.strerror}.") from error
    stream = process.stdout
    assert stream is not None  # asked for above
    reader = threading.Thread(target=lambda: lines.extend(filter(None, map(str.rstrip, stream))), daemon=True)
    reader.start()
    try:
        while True:
            try:
                code = process.wait(HEARTBEAT_SECONDS)
                break
            except subprocess.TimeoutExpired:
                latest = [line.strip() for line in list(lines) if not line.startswith("WARNING")]
                report(f"  {name}: {latest[-1][:100] if latest else '…'}")
    except BaseException:  # Ctrl-C: a program of ours must not outlive us
        process.terminate()
        process.wait()
        raise
    reader.join()
    if code != 0:
        raise StepFailed(explain(command, code, list(lines)))


def explain(command: Sequence[str], code: int, lines: Sequence[str]) -> str:
    """A failed program as a sentence: the cause where its output names a known one, then its last lines."""
    output = "\n".join(lines)
    cause = next((sentence for pattern, sentence in _CAUSES if re.search(pattern, output)), "")
    called = " ".join(command) if len(command) < 8 else " ".join([*command[:7], "…"])
    tail = "".join(f"\n    {line.strip()[:200]}" for line in lines[-5:])
    return f"{cause} " * bool(cause) + f"`{called}` failed (exit {code}); its last lines:{tail or ' none.'}"


def _root_prefix() -> list[str] | None:
    """What to put before a command that needs root: nothing, sudo, or None where neither is possible."""
    through_sudo = ["env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"]  # sudo itself drops the environment
    if not hasattr(os, "geteuid"):
        return None
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        return None
    if subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0:
        return ["sudo", "-n", *through_sudo]
    return ["sudo", *through_sudo] if sys.stdin.isatty() else None  # at a terminal sudo can ask for the password itself


def _apt_candidate(package: str) -> bool:
    policy = subprocess.run(
        ["apt-cache", "policy", package],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    found = re.search(r"Candidate: (\S+)", policy.stdout)
    return found is not None and found[1] != "(none)"


def _apt_update(report: Report) -> StepFailed | None:
    """Fetches the package lists; a failure is returned, since one broken source need not matter."""
    report("apt-get update")
    command = [*(_root_prefix() or []), "apt-get", "update", "-o", "APT::Update::Error-Mode=any"]
    try:
        run_reporting("apt-get", command, report)
    except StepFailed as failure:
        return failure
    return None


def _playwright_install(report: Report, python: str) -> None:
    report(f"playwright install {PACKAGE}")
    # The system libraries a browser needs come through apt; Playwright knows their names on Debian and Ubuntu.
    libraries = ["--with-deps"] if shutil.which("apt-get") and _root_prefix() is not None else []
    environment = {"PLAYWRIGHT_BROWSERS_PATH": str(playwright_folder())}
    run_reporting("playwright", [python, "-m", "playwright", "install", *libraries, PACKAGE], report, environment)
    found = next(playwright_programs(), None)
    if found is None:
        raise StepFailed(f"`playwright install {PACKAGE}` ended well, but {playwright_folder()} holds no Chromium.")
    try:
        run_reporting("chromium", [str(found), "--version"], report)
    except StepFailed as failure:
        raise StepFailed(
            f"{found} was downloaded but does not start; `playwright install-deps {PACKAGE}` as root installs the "
            f"system libraries it needs. {failure}"
        ) from failure


def playwright_folder() -> Path:
    """Where Playwright keeps its browsers. Its value "0" (inside its own package) is taken as unset, here and above."""
    wished = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")
    if wished not in ("", "0"):
        return Path(wished)
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/ms-playwright"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "ms-playwright"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ms-playwright"


def playwright_programs() -> Iterator[Path]:
    """Playwright's completely downloaded Chromiums: headless shells first, the newest revision first."""
    for folders, programs in _PLAYWRIGHT_LAYOUTS:
        complete = (mark.parent for mark in playwright_folder().glob(f"{folders}/INSTALLATION_COMPLETE"))
        for folder in sorted(complete, key=_revision, reverse=True):
            for program in programs:
                yield from (path for path in sorted(folder.glob(program)) if os.access(path, os.X_OK))


def _revision(folder: Path) -> int:
    return int(re.sub(r"\D", "", folder.name.rsplit("-", 1)[-1]) or 0)
