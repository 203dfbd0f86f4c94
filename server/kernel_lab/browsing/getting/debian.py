"""Debian's packages of any version that this machine's apt offers, unpacked beside the system's own.

The libraries that they need come from the system: where Debian's Chromium is installed, they are there.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

from kernel_lab.browsing import archive, finding
from kernel_lab.browsing.finding import Report
from kernel_lab.browsing.getting.source import Version, asked, chosen, newest_of_each, told
from kernel_lab.errors import LabError

SHELL, COMMON = "chromium-headless-shell", "chromium-common"
_NEED = "this source is for Debian and its relatives"


class Debian:
    """`apt-cache madison` says what there is; the newest security update and older point releases, as a rule."""

    name = "debian"
    what = f"Debian's {SHELL}, through apt"
    channels = ()

    def offered(self) -> Mapping[int, str]:
        lines = asked(["apt-cache", "madison", SHELL], _NEED).splitlines()
        versions = [parts[1].strip() for line in lines if len(parts := line.split("|")) > 2]
        if not versions:
            raise LabError(f"apt's lists name no {SHELL}: run `apt-get update` as root, then start again.")
        return newest_of_each(versions)

    def get(self, version: Version, folder: Path, report: Report) -> Path:
        report(f"{self.name}: asking apt")
        if shutil.which("apt-cache"):
            finding.apt_offers(SHELL, report)  # fetches lists where there are none and we may
        full = chosen(self, version)
        downloads = folder / "downloads"
        downloads.mkdir()
        # As root apt would download as another user, who cannot write here.
        command = ["apt-get", "download", "-o", "APT::Sandbox::User=", f"{SHELL}={full}", f"{COMMON}={full}"]
        told(command, _NEED, report, downloads)
        archive.unpack(sorted(downloads.glob("*.deb")), folder, report)
        for file in downloads.iterdir():
            file.unlink()
        downloads.rmdir()
        program = folder / "usr/lib/chromium" / SHELL
        if not program.is_file():
            raise LabError(f"Debian's {SHELL} {full} holds no {program.relative_to(folder)}.")
        return program
