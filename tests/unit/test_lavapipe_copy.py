"""Copies of a browser for lavapipe, made of small files in a browser's place. Nothing is started or downloaded."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_lab.browsing import archive, elf, lavapipe, mesa, sources
from kernel_lab.browsing.lavapipe import Copy
from kernel_lab.browsing.mesa import Mesa
from kernel_lab.browsing.sources import Chromium
from kernel_lab.errors import LabError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="lavapipe is a driver for Linux")


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("KERNEL_LAB_CACHE", str(tmp_path))
    return tmp_path / "lavapipe"


@pytest.fixture
def chromium(tmp_path: Path) -> Chromium:
    """A folder like a browser's: a real program, the driver in whose place the stand-in goes, and a resource."""
    folder = tmp_path / "browser"
    folder.mkdir()
    program = folder / "chromium"
    program.write_bytes(Path("/bin/sh").resolve().read_bytes())
    program.chmod(0o755)
    for name in ("libvk_swiftshader.so", "vk_swiftshader_icd.json", "resources.pak"):
        (folder / name).write_text(name)
    return Chromium("system", program, program, "156.0.1.2")


@pytest.fixture
def unpacked(cache: Path) -> Mesa:
    """A Mesa whose dynamic linker is this system's own."""
    libraries = cache / "mesa/lib"
    libraries.mkdir(parents=True)
    own = next(path for path in Path("/lib64").glob("ld-linux-*.so.*"))
    (libraries / own.name).symlink_to(own)
    stamp = {"format": 1, "libraries": "lib", "packages": {"mesa-vulkan-drivers": "26.0.0-1"}}
    mesa.write_stamp(cache / "mesa/stamp.json", stamp)
    return Mesa(cache / "mesa", libraries, "26.0.0-1")


def prepared(chromium: Chromium, unpacked: Mesa) -> Copy:
    copy = lavapipe.prepare(chromium, unpacked, lambda _: None)
    return lavapipe.complete(copy, chromium, {"headless": False})


def test_without_mesa_the_sentence_says_how_to_get_it(cache: Path, chromium: Chromium) -> None:
    with pytest.raises(LabError, match="lavapipe is not installed: `kernel-lab browsers install lavapipe`"):
        lavapipe.find(chromium)


def test_copy_is_found_once_it_is_complete(chromium: Chromium, unpacked: Mesa) -> None:
    """Interrupted before its stamp was written, it does not count."""
    lavapipe.prepare(chromium, unpacked, lambda _: None)
    with pytest.raises(LabError, match="lavapipe is not prepared for system-156"):
        lavapipe.find(chromium)
    prepared(chromium, unpacked)
    assert not lavapipe.find(chromium).takes_lavapipe(headed=False)


def test_upgraded_browser_needs_a_new_copy(chromium: Chromium, unpacked: Mesa) -> None:
    prepared(chromium, unpacked)
    status = chromium.program.stat()
    os.utime(chromium.program, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(LabError, match=r"another state of .* prepares it anew"):
        lavapipe.find(chromium)


def test_copy_runs_through_the_other_linker_and_leaves_the_original_alone(chromium: Chromium, unpacked: Mesa) -> None:
    before = chromium.program.read_bytes()
    copy = prepared(chromium, unpacked)
    interpreter = str(unpacked.interpreter).encode()
    for spoofed in (False, True):
        program = copy.executable(spoofed=spoofed)
        assert interpreter in program.read_bytes()
        assert os.spawnv(os.P_WAIT, str(program), ["sh", "-c", "exit 7"]) == 7
        assert (program.parent / "resources.pak").resolve() == chromium.program.parent / "resources.pak"
    assert copy.executable(spoofed=False).samefile(copy.executable(spoofed=True))  # no byte is kept twice
    assert chromium.program.read_bytes() == before


def test_stand_in_takes_the_place_of_swiftshader_alone(chromium: Chromium, unpacked: Mesa) -> None:
    copy = prepared(chromium, unpacked)
    plain, spoofed = (copy.executable(spoofed=way).parent / "libvk_swiftshader.so" for way in (False, True))
    assert plain.read_text() == "libvk_swiftshader.so"
    assert b"vk_icdGetInstanceProcAddr" in spoofed.read_bytes()
    real = str(chromium.program.parent / "libvk_swiftshader.so")
    assert real in (spoofed.parent / "vk_swiftshader_icd.json").read_text()


def test_without_a_compiler_the_sentence_says_what_to_install(
    chromium: Chromium, unpacked: Mesa, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(LabError, match=r"no C compiler \(no-such-compiler\): on Debian `apt-get install gcc"):
        prepared(chromium, unpacked)


@pytest.mark.parametrize("content", [b"#!/bin/sh\n", b"", b"\x7fELF\x01\x01" + bytes(4096)])
def test_what_is_no_program_is_not_patched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert not elf.is_program(path)
    with pytest.raises(elf.NotPatched, match=re.escape(str(path))):
        elf.with_interpreter(path, tmp_path / "copy", Path("/lib/ld.so"))


def test_browser_without_swiftshader_is_a_sentence(chromium: Chromium, unpacked: Mesa) -> None:
    (chromium.program.parent / "libvk_swiftshader.so").unlink()
    with pytest.raises(LabError, match=r"has no libvk_swiftshader\.so, in whose place the stand-in goes"):
        prepared(chromium, unpacked)


def test_script_that_hides_its_program_is_a_sentence(tmp_path: Path) -> None:
    """However it is called: a program elsewhere of the same name is another one."""
    script = tmp_path / "chromium"
    script.write_text("#!/bin/sh\nexec true\n")
    script.chmod(0o755)
    with pytest.raises(LabError, match="no Chromium program was found behind it"):
        sources.of(script)


def test_version_is_what_the_program_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "chrome"
    script.write_text("#!/bin/sh\necho Chromium 150.1.22.333 built on something\n")
    script.chmod(0o755)
    monkeypatch.setattr(elf, "is_program", lambda path: path == script)
    chromium = sources.of(script)
    assert (chromium.name, chromium.version) == ("system-150", "150.1.22.333")


# apt -----------------------------------------------------------------------------------------------------------------

needs_apt = pytest.mark.skipif(shutil.which("apt-config") is None, reason="this system has no apt")


@needs_apt
def test_apt_keeps_to_its_own_folder(tmp_path: Path) -> None:
    """The machine's proxies stay; its folders, sources and hooks do not."""
    path = archive._configure(tmp_path, "http://mirror.test/debian/", ["one", "two"])
    environment = {**os.environ, "APT_CONFIG": str(path)}
    dumped = subprocess.run(["apt-config", "dump"], env=environment, capture_output=True, text=True, check=True).stdout
    assert f'Dir::State "{tmp_path}";' in dumped
    assert "APT::Update::Post-Invoke" not in dumped
    assert "DPkg::Post-Invoke" not in dumped
    lines = (tmp_path / "sources.list").read_text().splitlines()
    assert [line.split("] ")[-1] for line in lines] == [
        "http://mirror.test/debian/ one main",
        "http://mirror.test/debian/ two main",
    ]
    assert path.stat().st_mode & 0o077 == 0  # a proxy's password may stand in it


@needs_apt
def test_mirror_is_the_machines_own_where_that_is_debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = tmp_path / "os-release"
    monkeypatch.setattr(archive, "OS_RELEASE", release)
    release.write_text("ID=ubuntu\nVERSION_CODENAME=noble\n")
    assert archive._mirror() == archive.PUBLIC_MIRROR
    release.write_text('ID=debian\nVERSION_CODENAME="bookworm"\n')
    listed = "bookworm-security main http://security.test/ \nbookworm contrib http://other.test/\nbookworm main http://mirror.test/debian/\n"
    answer = subprocess.CompletedProcess([], 0, stdout=listed.replace(" \n", "\n"))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    assert archive._mirror() == "http://mirror.test/debian/"


def test_missing_suite_and_missing_tools_are_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "E: The repository 'http://mirror.test trixie-backports Release' does not have a Release file."
    sentence = archive._explained(said, "http://mirror.test", ["trixie", "trixie-backports"])
    assert sentence.startswith("http://mirror.test offers no suite trixie-backports, which is needed")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(LabError, match="this system has no apt-get and no apt-config and no dpkg-deb"):
        archive.fetch(["mesa"], ["trixie"], tmp_path, lambda _: None)


def test_versions_are_read_from_file_names() -> None:
    files = [Path("libllvm19_1%3a19.1.7-3+b1_amd64.deb"), Path("libc6_2.41-12+deb13u5_amd64.deb")]
    assert archive.versions(files) == {"libllvm19": "1:19.1.7-3+b1", "libc6": "2.41-12+deb13u5"}


@pytest.mark.parametrize(
    ("packages", "own_glibc", "sentence"),
    [
        ({"mesa-vulkan-drivers": "25.0.7-2", "libc6": "2.41-12"}, "2.36", "need Mesa 26 or newer"),
        ({"mesa-vulkan-drivers": "26.1.6-1", "libc6": "2.41-12"}, "2.43", "glibc 2.43 is newer than that of trixie"),
    ],
)
def test_wrong_versions_are_sentences(
    packages: dict[str, str], own_glibc: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mesa.platform, "libc_ver", lambda: ("glibc", own_glibc))
    with pytest.raises(LabError, match=sentence):
        mesa._check(packages)


def test_right_versions_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesa.platform, "libc_ver", lambda: ("glibc", "2.36"))
    mesa._check({"mesa-vulkan-drivers": "26.1.6-1~bpo13+1", "libc6": "2.41-12+deb13u5"})
