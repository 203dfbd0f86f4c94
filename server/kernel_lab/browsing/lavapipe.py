"""Copies of installed Chromiums that can use Mesa's lavapipe as their WebGPU adapter.

In: a Chromium and an unpacked Mesa. Out: a `Copy` in the cache folder, of two browsers: one as it is, for an attempt
without tricks, and one with the stand-in of standin/ in SwiftShader's place. Starts no browser; the installed one is
not touched.

Mesa 26 needs a newer glibc than Debian 12's, so the copied program names another dynamic linker (elf.py) and is
started with LD_LIBRARY_PATH. Of a browser's folder only programs are copied; all else is a link to the original. A copy
fits one version of the browser, of Mesa and of the stand-in: after an upgrade `find` says that it must be made anew.

Seen with Chromium 156, Mesa 25.0.7 and 26.1.6, no GPU and no /dev/udmabuf: with VK_DRIVER_FILES alone Chromium lists
lavapipe and refuses it, headless (shell and full browser) and headed under Xvfb. With the stand-in all three take it.
"""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_lab.browsing import elf, mesa
from kernel_lab.browsing.finding import Report
from kernel_lab.browsing.mesa import STAMP, Mesa
from kernel_lab.browsing.sources import Chromium
from kernel_lab.errors import LabError

INSTALL = "kernel-lab browsers install lavapipe"
STAND_IN = Path(__file__).parent / "standin/stand_in.c"
SWIFTSHADER = "libvk_swiftshader.so"
SWIFTSHADER_DRIVER_FILE = "vk_swiftshader_icd.json"
PLAIN, SPOOFED = "plain", "stand-in"


@dataclass(frozen=True, slots=True)
class Copy:
    """A prepared browser. `genuine`: per kind of start, whether Chromium takes lavapipe without the stand-in."""

    folder: Path
    program: str
    mesa: Mesa
    genuine: Mapping[str, bool]

    def takes_lavapipe(self, *, headed: bool) -> bool:
        """Whether the plain browser is enough, as far as was tried."""
        return self.genuine.get(kind_of_start(headed), False)

    def executable(self, *, spoofed: bool) -> Path:
        return self.folder / (SPOOFED if spoofed else PLAIN) / self.program

    def environment(self, *, spoofed: bool) -> dict[str, str]:
        """What the browser's process alone gets."""
        paths = [str(self.mesa.libraries), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        shaders = {"MESA_SHADER_CACHE_DIR": str(mesa.folder() / "shaders")}
        driver = {} if spoofed else {"VK_DRIVER_FILES": str(self.mesa.driver_file)}
        return {"LD_LIBRARY_PATH": ":".join(paths), **shaders, **driver}


def kind_of_start(headed: bool) -> str:
    return "headed" if headed else "headless"


def find(chromium: Chromium) -> Copy:
    """The copy of this Chromium; LabError says what is missing and how to get it."""
    unpacked = mesa.find()
    if unpacked is None:
        raise LabError(f"lavapipe is not installed: `{INSTALL}`.")
    stamp = mesa.read_stamp(_folder(chromium) / STAMP)
    if not stamp:
        raise LabError(f"lavapipe is not prepared for {chromium}: `{INSTALL}` does it in seconds.")
    if stamp.get("made_of") != _made_of(chromium, unpacked):
        raise LabError(
            f"lavapipe was prepared for another state of {chromium.program} (version {stamp.get('version')}; it is "
            f"{chromium.version} now): `{INSTALL}` prepares it anew, in seconds."
        )
    return Copy(_folder(chromium), chromium.program.name, unpacked, stamp["genuine"])


def prepare(chromium: Chromium, unpacked: Mesa, report: Report) -> Copy:
    """Makes the copy, without its stamp: `complete` writes that once the copy has been tried. Raises LabError."""
    driver = chromium.program.parent / SWIFTSHADER
    if not driver.is_file():
        raise LabError(f"{chromium.program.parent} has no {SWIFTSHADER}, in whose place the stand-in goes.")
    folder = _folder(chromium)
    shutil.rmtree(folder, ignore_errors=True)
    report(f"copying {chromium.program}")
    try:
        _copy(chromium.program, folder / PLAIN, unpacked)
        _copy_with_stand_in(folder, chromium.program.parent, report)
    except OSError as error:
        raise LabError(f"{error.filename or folder}: {error.strerror}.") from None
    except elf.NotPatched as error:
        raise LabError(str(error)) from None
    return Copy(folder, chromium.program.name, unpacked, {})


def complete(copy: Copy, chromium: Chromium, genuine: Mapping[str, bool]) -> Copy:
    """Writes down that the copy works, and where it needs no stand-in."""
    stamp = {"version": chromium.version, "made_of": _made_of(chromium, copy.mesa), "genuine": dict(genuine)}
    mesa.write_stamp(copy.folder / STAMP, stamp)
    return Copy(copy.folder, copy.program, copy.mesa, genuine)


def compiler() -> list[str]:
    """The C compiler, $CC or cc. LabError if there is none."""
    command = shlex.split(os.environ.get("CC") or "cc")
    if shutil.which(command[0]) is None:
        raise LabError(
            f"lavapipe's stand-in for SwiftShader is a page of C, but there is no C compiler ({command[0]}): on Debian "
            "`apt-get install gcc libc6-dev`, or set CC."
        )
    return command


def _folder(chromium: Chromium) -> Path:
    """One folder for each program, whatever its version: an upgrade replaces the copy."""
    digest = hashlib.sha256(str(chromium.program).encode()).hexdigest()[:8]
    return mesa.folder() / "browsers" / f"{chromium.source}-{chromium.program.name}-{digest}"


def _made_of(chromium: Chromium, unpacked: Mesa) -> dict[str, Any]:
    """All that a copy depends on; the program's size and time tell an upgrade that keeps its version."""
    status = chromium.program.stat()
    return {
        "program": str(chromium.program),
        "version": chromium.version,
        "bytes": status.st_size,
        "modified_ns": status.st_mtime_ns,
        "mesa": f"{unpacked.version} in {unpacked.root}",
        "stand_in": hashlib.sha256(STAND_IN.read_bytes()).hexdigest(),
    }


def _copy(program: Path, target: Path, unpacked: Mesa) -> None:
    target.mkdir(parents=True)
    for path in program.parent.iterdir():
        wanted = path == program or path.name == "chrome_crashpad_handler"
        if wanted and elf.is_program(path):
            elf.with_interpreter(path, target / path.name, unpacked.interpreter)
        else:
            (target / path.name).symlink_to(path)


def _copy_with_stand_in(folder: Path, original: Path, report: Report) -> None:
    """The same folder again, its programs shared with the plain one; ANGLE still gets the real SwiftShader."""
    target = folder / SPOOFED
    target.mkdir()
    for path in (folder / PLAIN).iterdir():
        if path.name in (SWIFTSHADER, SWIFTSHADER_DRIVER_FILE):
            continue
        if path.is_symlink():
            (target / path.name).symlink_to(path.readlink())
        else:
            os.link(path, target / path.name)
    driver = {"library_path": str(original / SWIFTSHADER), "api_version": "1.0.5"}
    (target / SWIFTSHADER_DRIVER_FILE).write_text(json.dumps({"file_format_version": "1.0.0", "ICD": driver}))
    _compile(STAND_IN, target / SWIFTSHADER, report)


def _compile(source: Path, target: Path, report: Report) -> None:
    report(f"compiling {source.name}")
    command = [*compiler(), "-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-o", str(target), str(source), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"`{shlex.join(command)}` failed: {' / '.join(done.stderr.strip().splitlines()[-5:])}")
