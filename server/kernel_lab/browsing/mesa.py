"""Mesa's lavapipe of a newer Debian, with the glibc it needs, in kernel-lab's cache folder.

In: the cache folder. Out: a `Mesa`: where its libraries lie. Nothing is installed system-wide.

Debian 12's own Mesa (22.3) gives no WebGPU adapter, its backports' (25.0) no subgroup matrices; 26 gives both, and
needs glibc 2.38. So Mesa comes with trixie's libraries, and only a browser that is started with them sees them.
"""

import json
import os
import platform
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_lab.browsing import archive
from kernel_lab.browsing.finding import Report
from kernel_lab.errors import LabError
from kernel_lab.judging.journal import cache_folder

PACKAGE = "mesa-vulkan-drivers"
SUITES = ("trixie", "trixie-backports")
OLDEST_MAJOR = 26
DRIVER = "libvulkan_lvp.so"
NEEDED_BYTES = 1_000_000_000
STAMP = "stamp.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Mesa:
    """An unpacked Mesa. `libraries`: the folder with lavapipe, LLVM and glibc; `driver_file`: for VK_DRIVER_FILES."""

    root: Path
    libraries: Path
    version: str

    @property
    def interpreter(self) -> Path:
        """The dynamic linker that belongs to these libraries."""
        return next(self.libraries.glob("ld-linux-*.so.*"))

    @property
    def driver_file(self) -> Path:
        return self.root / "usr/share/vulkan/icd.d/lvp_icd.json"


def folder() -> Path:
    """Where all that belongs to lavapipe lies."""
    return cache_folder() / "lavapipe"


def find() -> Mesa | None:
    """The Mesa that was unpacked earlier, if it is complete."""
    root = folder() / "mesa"
    stamp = read_stamp(root / STAMP)
    if stamp.get("format") != FORMAT:
        return None
    return Mesa(root, root / stamp["libraries"], stamp["packages"][PACKAGE])


def install(report: Report) -> Mesa:
    """Fetches and unpacks the newest Mesa, unless one is there. Interrupted, it starts anew. Raises LabError."""
    found = find()
    if found is not None:
        report(f"Mesa {found.version} is there already")
        return found
    if platform.system() != "Linux":
        raise LabError(f"lavapipe is a driver for Linux; this is {platform.system()}.")
    root, partial = folder() / "mesa", folder() / "mesa.partial"
    for left in (root, partial):
        shutil.rmtree(left, ignore_errors=True)
    make_folder(partial, NEEDED_BYTES)
    files = archive.fetch([PACKAGE], SUITES, partial / "apt", report)
    packages = archive.versions(files)
    _check(packages)
    archive.unpack(files, partial / "root", report)
    driver = next((partial / "root").glob(f"usr/lib/*/{DRIVER}"), None)
    if driver is None:
        raise LabError(f"{PACKAGE} {packages[PACKAGE]} holds no {DRIVER}: this architecture has no lavapipe.")
    _drop_other_drivers(driver.parent)
    libraries = driver.parent.relative_to(partial / "root")
    write_stamp(partial / "root" / STAMP, {"format": FORMAT, "libraries": str(libraries), "packages": packages})
    (partial / "root").rename(root)
    shutil.rmtree(partial, ignore_errors=True)
    return Mesa(root, root / libraries, packages[PACKAGE])


def read_stamp(path: Path) -> dict[str, Any]:
    """A stamp, or nothing where there is none that can be read."""
    try:
        stamp = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(path: Path, stamp: Mapping[str, Any]) -> None:
    """Writes a stamp whole or not at all: it says that all before it is complete."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(stamp, indent=2) + "\n")
    os.replace(partial, path)


def make_folder(path: Path, needed: int) -> None:
    """Makes a folder on a disk with that many free bytes. Raises LabError."""
    try:
        path.mkdir(parents=True)
    except OSError as error:
        raise LabError(f"{path} cannot be made: {error.strerror}. KERNEL_LAB_CACHE names another folder.") from None
    free = shutil.disk_usage(path).free
    if free < needed:
        raise LabError(f"{path}: {free / 1e9:.1f} GB are free, but {needed / 1e9:.1f} GB are needed.")


def _check(packages: Mapping[str, str]) -> None:
    version = packages[PACKAGE]
    if _numbers(version)[0] < OLDEST_MAJOR:
        raise LabError(
            f"{SUITES[-1]} offers {PACKAGE} {version}, but subgroup matrices need Mesa {OLDEST_MAJOR} or newer."
        )
    own, theirs = platform.libc_ver()[1], packages.get("libc6", "")
    if own and theirs and _numbers(own)[:2] > _numbers(theirs)[:2]:
        raise LabError(
            f"this system's glibc {own} is newer than that of {SUITES[0]} ({theirs}), with which the browser would be "
            "started: such systems are not supported yet."
        )


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version; an epoch before a colon does not count."""
    return tuple(int(part) for part in re.findall(r"\d+", version.rpartition(":")[2].partition("-")[0])) or (0,)


def _drop_other_drivers(libraries: Path) -> None:
    """Deletes the drivers of real GPUs and the layers, a third of all bytes: only lavapipe is wanted here."""
    for path in [*libraries.glob("libvulkan_*.so"), *libraries.glob("libVkLayer_*.so")]:
        if path.name != DRIVER:
            path.unlink()
