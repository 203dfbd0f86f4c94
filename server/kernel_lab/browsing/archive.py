"""Fetches packages of another Debian release through apt, and unpacks them into a folder.

In: package names, suites. Out: files under one folder of ours. apt runs with lists, cache and state of its own there,
so it resolves dependencies as on an empty machine.
Never: installs anything, changes the system's apt lists, or needs root.

The mirror is the one that this machine's own apt uses for Debian; proxies and credentials are the machine's, too.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernel_lab.browsing.finding import Report, StepFailed, run_reporting
from kernel_lab.errors import LabError

PUBLIC_MIRROR = "http://deb.debian.org/debian/"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
OS_RELEASE = Path("/etc/os-release")
TOOLS = ("apt-get", "apt-config", "dpkg-deb")

# Of the machine's configuration all is kept but what would touch the system: its folders, and hooks that run as root.
_DROPPED = re.compile(r"^(Dir|DPkg|APT::Update|APT::Periodic|APT::Archives|Unattended-Upgrade)\b")


def fetch(packages: Sequence[str], suites: Sequence[str], folder: Path, report: Report) -> list[Path]:
    """Downloads the packages with all they depend on, and gives the files' paths.

    `suites`: the last one's version of a package is preferred. `folder`: for lists and downloads. Raises LabError.
    """
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        raise LabError(
            f"{', '.join(packages)} come from Debian's archive through {', '.join(TOOLS)}, but this system has no "
            f"{' and no '.join(absent)}: only Debian and its relatives can install this."
        )
    mirror = _mirror()
    environment = {"APT_CONFIG": str(_configure(folder, mirror, suites))}
    try:
        report(f"apt-get update: {', '.join(suites)} from {mirror}")
        run_reporting("apt-get", ["apt-get", "update"], report, environment)
        report(f"apt-get download: {', '.join(packages)} and what they need")
        download = ["apt-get", "install", "--yes", "--download-only", "--target-release", suites[-1]]
        run_reporting("apt-get", [*download, *packages], report, environment)
    except StepFailed as failure:
        raise LabError(_explained(str(failure), mirror, suites)) from None
    return sorted((folder / "archives").glob("*.deb"))


def unpack(files: Sequence[Path], root: Path, report: Report) -> None:
    """Unpacks packages into one folder, as if it were `/`; runs none of their scripts. Raises LabError."""
    root.mkdir(parents=True, exist_ok=True)
    report(f"unpacking {len(files)} packages into {root}")
    try:
        for file in files:
            run_reporting("dpkg-deb", ["dpkg-deb", "--extract", str(file), str(root)], report)
    except StepFailed as failure:
        raise LabError(str(failure)) from None


def versions(files: Sequence[Path]) -> dict[str, str]:
    """Package names and Debian versions, by the names of downloaded files: `NAME_VERSION_ARCHITECTURE.deb`."""
    parts = (file.stem.split("_") for file in files)
    return {name: version.replace("%3a", ":") for name, version, _ in parts}


def _mirror() -> str:
    """Where this machine's apt gets Debian from; the public mirror on another system."""
    release = _os_release()
    codename = release.get("VERSION_CODENAME", "")
    if release.get("ID") != "debian":
        return PUBLIC_MIRROR
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"],
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    for line in listed.splitlines():
        suite, component, address = line.split(" ", 2)
        if suite in (codename, "stable", "testing", "unstable", "sid") and component == "main":
            return address
    return PUBLIC_MIRROR


def _os_release() -> Mapping[str, str]:
    try:
        lines = OS_RELEASE.read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {name: value.strip("\"'") for name, _, value in pairs}


def _configure(folder: Path, mirror: str, suites: Sequence[str]) -> Path:
    """Writes sources, an empty package state and apt's configuration; the latter's path, for APT_CONFIG."""
    for name in ("lists/partial", "archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    key = f" [signed-by={KEYRING}]" if KEYRING.is_file() else ""
    sources = folder / "sources.list"
    sources.write_text("".join(f"deb{key} {mirror} {suite} main\n" for suite in suites))
    own = {
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::parts": "/dev/null",
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State": folder,
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder,
        "Acquire::Languages": "none",
        "APT::Install-Recommends": "false",
        "APT::Keep-Downloaded-Packages": "true",
        "APT::Sandbox::User": "",  # another user could not write here
        "APT::Update::Error-Mode": "any",  # a list that is not to be had is a failure, not a warning
    }
    dumped = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    kept = [line for line in dumped.splitlines() if not _DROPPED.match(line)]
    path = folder / "apt.conf"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:  # may hold a password
        file.write("\n".join([*kept, *(f'{name} "{value}";' for name, value in own.items())]) + "\n")
    return path


def _explained(failure: str, mirror: str, suites: Sequence[str]) -> str:
    lacking = re.search(r"The repository '\S+ (\S+) Release' (?:does not have|no longer has) a Release file", failure)
    if lacking:
        return (
            f"{mirror} offers no suite {lacking[1]}, which is needed ({', '.join(suites)}): "
            f"use a mirror that has all of Debian's suites. {failure}"
        )
    if "NO_PUBKEY" in failure or "is not signed" in failure:
        return f"apt cannot check {mirror}'s signature: install Debian's package debian-archive-keyring. {failure}"
    return failure
