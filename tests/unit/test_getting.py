"""Browsers that are got: each source with a stand-in for its package manager on PATH. No network, no browser."""

import io
import os
import platform
import re
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import brotli
import pytest

from kernel_lab.browsing import finding, getting, installing, kept, profiles, sources
from kernel_lab.browsing.browser import BrowserInfo
from kernel_lab.browsing.getting import source
from kernel_lab.browsing.getting.npm import PACKAGE, PROGRAM
from kernel_lab.browsing.profiles import Profile
from kernel_lab.errors import LabError
from kernel_lab.planning.facts import DeviceFacts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-ins are shell scripts")

CHROMIUM = "#!/bin/sh\necho Chromium {}\n"
VERSIONS = '["122.0.0", "141.0.0", "147.0.0", "147.0.10", "147.0.9", "153.0.0-next.1"]'
MADISON = """\
chromium-headless-shell | 156.0.8078.108-1~deb12u1 | http://mirror.test/debian-security bookworm-security/main amd64 Packages
chromium-headless-shell | 156.0.8078.9-1~deb12u1 | http://mirror.test/debian bookworm-updates/main amd64 Packages
chromium-headless-shell | 150.0.7871.100-1~deb12u1 | http://mirror.test/debian bookworm/main amd64 Packages
"""  # noqa: E501 - as the program prints it
# As Puppeteer's command does: a folder of this layout, and one line that says what and where.
NPX = """\
[ "$1 $2 $3 $5" = "--yes @puppeteer/browsers install --path" ] || exit 9
echo "$4" >> "$ASKED"
at="$6/chrome-headless-shell/linux-156.0.8078.10/chrome-headless-shell-linux64"
mkdir -p "$at"
printf '#!/bin/sh\\necho Google Chrome for Testing 156.0.8078.10\\n' > "$at/chrome-headless-shell"
chmod +x "$at/chrome-headless-shell"
echo "chrome-headless-shell@156.0.8078.10 $at/chrome-headless-shell"
"""

Tool = Callable[[str, str], None]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Puts a shell script on PATH, before the system's programs; the cache is empty."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("KERNEL_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "playwright"))
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.delenv(finding.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setattr(finding, "PROGRAMS", ())  # the machine's own are not looked at
    monkeypatch.setattr(finding, "_root_prefix", lambda: None)  # nothing runs as root
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")

    def add(name: str, script: str) -> None:
        program = programs / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    return add


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Profile]:
    """The profiles that would have been started; each gives SwiftShader."""
    profiles_started: list[Profile] = []

    def examine(profile: Profile) -> BrowserInfo:
        assert profile.executable.is_file()
        profiles_started.append(profile)
        facts = DeviceFacts(info={"vendor": "google", "description": "SwiftShader", "isFallbackAdapter": True})
        return BrowserInfo("1", str(profile.executable), (), False, "", facts)

    monkeypatch.setattr(installing, "examine", examine)
    return profiles_started


def tar(**files: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name.replace("__", "/"))
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def npm_with(tool: Tool, folder: Path, version: str, program: bytes | None = None) -> None:
    """An npm whose one package is laid out like the real one."""
    packed = brotli.compress(program or CHROMIUM.format(version).encode())
    driver = brotli.compress(tar(libvk_swiftshader=b"driver"))
    libraries = brotli.compress(tar(lib__libnss3=b"library"))
    files = {"chromium.br": packed, "swiftshader.tar.br": driver, "al2023.tar.br": libraries, "fonts.tar.br": b"fonts"}
    with tarfile.open(folder / "package.tgz", "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    pack = f'cp {folder}/package.tgz sparticuz.tgz; echo "$2" >> {folder}/packed'
    tool("npm", f"case $1 in view) echo '{VERSIONS}' ;; pack) {pack} ;; esac")


def silent(_: str) -> None:
    pass


# Names and versions ---------------------------------------------------------------------------------------------------


def test_name_is_source_and_major() -> None:
    assert [(getting.named(f"{one.name}-156")) for one in getting.SOURCES] == [(one, 156) for one in getting.SOURCES]


def test_name_is_source_and_channel_where_the_source_has_some() -> None:
    *_, testing = getting.SOURCES
    assert getting.named("chrome-for-testing-beta") == (testing, "beta")
    assert getting.channels() == [f"chrome-for-testing-{channel}" for channel in ("stable", "beta", "dev", "canary")]


MEANINGLESS = ("npm", "npm-", "npm-153.0.0", "npm-beta", "opera-9", "NPM-153", "chrome-for-testing", "")


@pytest.mark.parametrize("name", MEANINGLESS)
def test_name_that_means_nothing_is_a_sentence(name: str) -> None:
    testing = "chrome-for-testing-MAJOR, chrome-for-testing-stable|beta|dev|canary"
    sentence = f"{name!r} cannot be installed; known: lavapipe, debian-MAJOR, npm-MAJOR, {testing}. "
    with pytest.raises(LabError, match=re.escape(sentence)):
        getting.named(name)


def test_each_major_stands_for_its_newest_version(tool: Tool) -> None:
    """Ten is newer than nine; what is not released, and what cannot work, is not offered."""
    tool("npm", f"echo '{VERSIONS}'")
    tool("apt-cache", f"cat <<'END'\n{MADISON}END")
    debian, npm, testing = (one.offered() for one in getting.SOURCES)
    assert list(npm.items()) == [(147, "147.0.10"), (141, "141.0.0")]
    assert list(debian.items()) == [(156, "156.0.8078.108-1~deb12u1"), (150, "150.0.7871.100-1~deb12u1")]
    assert testing == {}


# What is got ----------------------------------------------------------------------------------------------------------


def test_npm(tool: Tool, started: list[Profile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm_with(tool, tmp_path, "147.0.7727.0")
    reports: list[str] = []
    done = installing.install_browser("npm-147", reports.append)
    place = tmp_path / "cache/browsers/npm-147"
    assert (tmp_path / "packed").read_text() == f"{PACKAGE}@147.0.10\n"
    assert (done.profile, done.info.executable) == ("npm-147-swiftshader", str(place / PROGRAM))
    assert sorted(path.name for path in place.iterdir()) == [PROGRAM, "libraries", "libvk_swiftshader", "stamp.json"]
    assert any("unpacking chromium.br" in line for line in reports)
    assert started[0].environment == {"LD_LIBRARY_PATH": str(tmp_path / "cache/browsers/npm-147.partial/libraries")}
    profile = profiles.resolve("npm-147-swiftshader")  # no line of code names it
    assert (profile.executable, profile.environment["LD_LIBRARY_PATH"]) == (place / PROGRAM, str(place / "libraries"))
    assert sources.of(place / PROGRAM).name == "npm-147"
    monkeypatch.setenv(finding.ENVIRONMENT_VARIABLE, str(place / PROGRAM))
    assert [chromium.name for chromium in sources.installed()] == ["npm-147"]  # once, and not as `system`
    with pytest.raises(LabError, match="is a headless shell, which has no window"):
        profiles.resolve("npm-147-swiftshader", headed=True)


def test_what_was_got_is_the_default_where_there_is_nothing_else(
    tool: Tool, started: list[Profile], tmp_path: Path
) -> None:
    with pytest.raises(LabError, match="No Chromium was found"):
        profiles.resolve()
    npm_with(tool, tmp_path, "147.0.7727.0")
    program = installing.install_browser("npm-147", silent).chromium.program
    by_path = profiles.resolve(str(program))
    for profile in (profiles.resolve(), by_path):
        assert profile.executable == program
        assert profile.environment == {"LD_LIBRARY_PATH": str(program.parent / "libraries")}


def test_second_time_it_is_only_started(tool: Tool, started: list[Profile], tmp_path: Path) -> None:
    npm_with(tool, tmp_path, "147.0.7727.0")
    installing.install_browser("npm-147", silent)
    tool("npm", "exit 1")
    assert installing.install_browser("npm-147", silent).profile == "npm-147-swiftshader"
    assert len(started) == 2


def test_debian(tool: Tool, started: list[Profile], tmp_path: Path) -> None:
    policy = "echo '  Candidate: 156.0.8078.108-1~deb12u1'"
    tool("apt-cache", f"case $1 in policy) {policy} ;; madison) cat <<'END'\n{MADISON}END\n;; esac")
    tool("apt-get", f'echo "$@" >> {tmp_path}/asked; touch a.deb')
    script = CHROMIUM.format("150.0.7871.100").replace("\n", "\\n")
    tool("dpkg-deb", f"mkdir -p $3/usr/lib/chromium; cd $3/usr/lib/chromium; printf '{script}' > a; chmod +x a; "
         "mv a chromium-headless-shell")  # fmt: skip
    done = installing.install_browser("debian-150", silent)
    version = "150.0.7871.100-1~deb12u1"
    asked = (tmp_path / "asked").read_text()
    assert asked.endswith(f" chromium-headless-shell={version} chromium-common={version}\n")
    assert done.chromium.program == tmp_path / "cache/browsers/debian-150/usr/lib/chromium/chromium-headless-shell"
    assert not (tmp_path / "cache/browsers/debian-150/downloads").exists()
    assert profiles.resolve("debian-150-swiftshader").environment == {}


def test_chrome_for_testing(tool: Tool, started: list[Profile], tmp_path: Path) -> None:
    tool("npx", NPX)
    done = installing.install_browser("chrome-for-testing-156", silent)
    assert (done.profile, done.chromium.version) == ("chrome-for-testing-156-swiftshader", "156.0.8078.10")
    assert profiles.resolve(done.profile).executable == done.chromium.program
    assert done.chromium.program.is_relative_to(tmp_path / "cache/browsers/chrome-for-testing-156")


def test_a_channel_keeps_its_name_whatever_version_it_has(tool: Tool, started: list[Profile], tmp_path: Path) -> None:
    """So that this week's beta is compared with last week's; beside it the same version is another browser."""
    tool("npx", NPX)
    done = installing.install_browser("chrome-for-testing-beta", silent)
    assert (done.profile, done.chromium.version) == ("chrome-for-testing-beta-swiftshader", "156.0.8078.10")
    assert done.chromium.program.is_relative_to(tmp_path / "cache/browsers/chrome-for-testing-beta")
    assert (tmp_path / "asked").read_text() == "chrome-headless-shell@beta\n"
    with pytest.raises(LabError, match="To get it: `kernel-lab browsers install chrome-for-testing-156`"):
        profiles.resolve("chrome-for-testing-156-swiftshader")
    installing.install_browser("chrome-for-testing-156", silent)
    for name in ("chrome-for-testing-beta", "chrome-for-testing-156"):
        profile = profiles.resolve(f"{name}-swiftshader")
        assert profile.executable.is_relative_to(tmp_path / "cache/browsers" / name)
    with pytest.raises(
        LabError, match=r"no Chromium dev from source 'chrome-for-testing'.* install chrome-for-testing-"
    ):
        profiles.resolve("chrome-for-testing-dev-swiftshader")


def test_a_channel_is_got_anew_each_time(tool: Tool, started: list[Profile], tmp_path: Path) -> None:
    """What it gave before stays until what it gives now has been seen to work."""
    tool("npx", NPX)
    installing.install_browser("chrome-for-testing-dev", silent)
    tool("npx", "exit 1")
    with pytest.raises(LabError):
        installing.install_browser("chrome-for-testing-dev", silent)
    assert profiles.resolve("chrome-for-testing-dev-swiftshader").executable.is_file()
    tool("npx", NPX.replace("156.0.8078.10", "157.0.1.2"))
    assert installing.install_browser("chrome-for-testing-dev", silent).chromium.version == "157.0.1.2"
    assert [(one.name, one.version) for one in kept.every()] == [("chrome-for-testing-dev", "157.0.1.2")]
    assert profiles.resolve("chrome-for-testing-dev-swiftshader").executable.is_file()


def test_old_versions_get_the_flags_that_they_need(tool: Tool, started: list[Profile], tmp_path: Path) -> None:
    old, new = (
        profiles.on_adapter("x", sources.Chromium("npm", tmp_path, tmp_path, f"{major}.0.1.2"), "swiftshader")
        for major in (131, 137)
    )
    more = {"--enable-features=Vulkan", "--use-vulkan=swiftshader", "--use-angle=swiftshader"}
    assert set(old.arguments) - set(new.arguments) == more


# What goes wrong: a sentence, and nothing half-made -------------------------------------------------------------------


def left(tmp_path: Path) -> list[str]:
    return [path.name for path in (tmp_path / "cache/browsers").iterdir() if path.name != "lock"]


@pytest.mark.parametrize(
    ("name", "tools", "sentence"),
    [
        ("npm-99", {"npm": f"echo '{VERSIONS}'"}, f"npm-99 is not offered by npm's {PACKAGE}; there are: 147, 141."),
        ("npm-147", {"npm": "echo ENOTFOUND; exit 1"}, "The network did not answer"),
        ("npm-147", {"npm": "echo hello"}, "gave no JSON, but: 'hello"),
        ("npm-147", {"npm": "[ $1 = pack ] && { echo x > a.tgz; exit; }; echo '\"147.0.0\"'"}, "could not be unpacked"),
        ("debian-150", {"apt-cache": "true", "apt-get": "true"}, "apt's lists name no chromium-headless-shell: run"),
        ("chrome-for-testing-156", {"npx": "echo getaddrinfo EAI_AGAIN; exit 1"}, "The network did not answer"),
        ("chrome-for-testing-156", {"npx": "true"}, "ended well, but there is no chrome-headless-shell/*/*/"),
        ("chrome-for-testing-155", {"npx": NPX}, "gave 156.0.8078.10 where 155 was asked for: nothing was kept."),
    ],
)
def test_source_that_fails_is_a_sentence(
    name: str, tools: dict[str, str], sentence: str, tool: Tool, started: list[Profile], tmp_path: Path
) -> None:
    for program, script in tools.items():
        tool(program, script)
    with pytest.raises(LabError, match=re.escape(sentence)):
        installing.install_browser(name, silent)
    assert left(tmp_path) == []
    assert started == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("npm-147", "npm is not on PATH: it comes with Node.js"),
        ("chrome-for-testing-156", "npx is not on PATH: it comes with Node.js"),
        ("debian-150", "apt-cache is not on PATH: this source is for Debian and its relatives."),
    ],
)
def test_package_manager_that_is_not_there_is_a_sentence(
    name: str, sentence: str, tool: Tool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(LabError, match=re.escape(sentence)):
        installing.install_browser(name, silent)
    assert left(tmp_path) == []


def test_other_architecture_is_a_sentence(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(LabError, match="holds programs for Linux on x86_64; this is Linux on aarch64"):
        installing.install_browser("npm-147", silent)


def test_program_that_does_not_start_says_why(tool: Tool, tmp_path: Path) -> None:
    npm_with(tool, tmp_path, "", b"#!/bin/sh\necho libnss3.so: cannot open shared object file >&2; exit 127\n")
    with pytest.raises(LabError, match=r"libnss3\.so: cannot open shared object file.*apt-get install chromium-head"):
        installing.install_browser("npm-147", silent)
    assert left(tmp_path) == []


def test_browser_without_an_adapter_is_not_kept(tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm_with(tool, tmp_path, "147.0.7727.0")
    without = BrowserInfo("147", "", (), False, "", None, "requestAdapter gave null")
    monkeypatch.setattr(installing, "examine", lambda _: without)
    with pytest.raises(LabError, match="starts, but offers no adapter: requestAdapter gave null"):
        installing.install_browser("npm-147", silent)
    assert left(tmp_path) == []


def test_what_is_incomplete_is_not_there(tool: Tool, started: list[Profile], tmp_path: Path) -> None:
    npm_with(tool, tmp_path, "147.0.7727.0")
    program = installing.install_browser("npm-147", silent).chromium.program
    assert [one.major for one in kept.every()] == [147]
    program.unlink()
    assert kept.every() == []
    (program.parent / "stamp.json").write_text("{")
    assert kept.every() == []
    with pytest.raises(LabError, match="To get it: `kernel-lab browsers install npm-147`"):
        profiles.resolve("npm-147-swiftshader")
    assert installing.install_browser("npm-147", silent).chromium.program == program


def test_program_that_hangs_is_a_sentence(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "ASK_SECONDS", 0.2)
    tool("npm", "exec sleep 5")
    with pytest.raises(LabError, match=re.escape("did not end within 0.2 s: is the network there?")):
        source.asked(["npm", "view"], "")


def test_channels_are_sources(tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Google's and Microsoft's packages: a script on PATH whose folder holds the program."""
    opt = tmp_path / "opt/msedge"
    opt.mkdir(parents=True)
    for name in ("microsoft-edge-beta", "msedge"):
        (opt / name).write_text(CHROMIUM.format("157.0.1.2"))
        (opt / name).chmod(0o755)
    (tmp_path / "bin/microsoft-edge-beta").symlink_to(opt / "microsoft-edge-beta")
    monkeypatch.setattr(finding, "PROGRAMS", tuple(finding.CHANNELS))
    monkeypatch.setattr(sources.elf, "is_program", lambda path: path.name == "msedge")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}/nowhere")
    assert [(one.name, one.program) for one in sources.installed()] == [("msedge-beta-157", opt / "msedge")]
