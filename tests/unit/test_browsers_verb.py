"""`kernel-lab browsers` and the options that hide parts of an adapter, without starting a browser."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kernel_lab import cli
from kernel_lab.browsing import finding, installing, lavapipe, sources
from kernel_lab.browsing.browser import BrowserInfo
from kernel_lab.browsing.getting.debian import Debian
from kernel_lab.browsing.getting.npm import Npm
from kernel_lab.browsing.installing import Installed
from kernel_lab.browsing.profiles import Profile
from kernel_lab.browsing.sources import Chromium
from kernel_lab.errors import LabError
from kernel_lab.planning.facts import DeviceFacts

SHELL = Chromium("debian", Path("/usr/bin/shell"), Path("/usr/lib/chromium/chromium-headless-shell"), "156.0.8078.108")
FULL = Chromium("debian", Path("/usr/bin/full"), Path("/usr/lib/chromium/chromium"), "156.0.8078.108")
SWIFTSHADER = DeviceFacts(info={"vendor": "google", "description": "SwiftShader", "isFallbackAdapter": True})
TESTING = "chrome-for-testing"
INSTALLABLE = ["lavapipe", "debian-MAJOR", "npm-MAJOR", f"{TESTING}-MAJOR", f"{TESTING}-stable|beta|dev|canary"]

KernelLab = Callable[..., tuple[int, str, str]]


@pytest.fixture
def kernel_lab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> KernelLab:
    """The command line on a machine with two Chromiums and no lavapipe: exit code, stdout, stderr."""

    def not_installed(_: Chromium) -> None:
        raise LabError(f"lavapipe is not installed: `{lavapipe.INSTALL}`.")

    monkeypatch.setattr(sources, "installed", lambda: [SHELL, FULL])
    monkeypatch.setattr(lavapipe, "find", not_installed)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kernel-lab", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


def test_list_shows_names_and_what_can_be_installed(kernel_lab: KernelLab) -> None:
    """A full browser has the same names as the shell beside it, with a window."""
    code, out, _ = kernel_lab("browsers", "list")
    assert code == 0
    lines = [line.split("  ") for line in out.splitlines()]
    names = [line[1] for line in lines if line[0] == ""]
    adapters = ("swiftshader", "lavapipe", "hardware")
    assert names == [f"debian-156-{a}" for a in adapters] + [f"debian-156-{a} --headed" for a in adapters]
    assert "lavapipe is not installed: `kernel-lab browsers install lavapipe`." in out
    installable = [line.split("  ")[0] for line in out.splitlines() if line.startswith("kernel-lab browsers install")]
    assert installable == [f"kernel-lab browsers install {name}" for name in INSTALLABLE]


def test_list_as_json(kernel_lab: KernelLab) -> None:
    code, out, _ = kernel_lab("browsers", "list", "--json")
    listed = json.loads(out)
    assert code == 0
    assert [row["executable"] for row in listed["browsers"]] == ["/usr/bin/shell", "/usr/bin/full"]
    assert listed["browsers"][0]["profiles"][1]["usable"] is False
    assert list(listed["installable"]) == INSTALLABLE
    assert listed["offers"] == []  # no source was asked


def test_available_asks_each_source(kernel_lab: KernelLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be asked says why, and hides no other."""

    def offline(_: object) -> None:
        raise LabError("The network did not answer.")

    monkeypatch.setattr(Debian, "offered", lambda _: {156: "156.0.8078.108-1", 150: "150.0.7871.100-1"})
    monkeypatch.setattr(Npm, "offered", offline)
    code, out, _ = kernel_lab("browsers", "list", "--available")
    assert code == 0
    assert out.splitlines()[-3:] == [
        "debian: debian-156 (156.0.8078.108-1), debian-150 (150.0.7871.100-1)",
        "npm: The network did not answer.",
        "chrome-for-testing: has no list: any version can be tried",
    ]
    _, out, _ = kernel_lab("browsers", "list", "--available", "--json")
    assert json.loads(out)["offers"][0]["versions"]["debian-150"] == "150.0.7871.100-1"


def test_install_says_how_to_use_it(kernel_lab: KernelLab, monkeypatch: pytest.MonkeyPatch) -> None:
    def install(name: str, _: object) -> Installed:
        info = BrowserInfo("156", "/cache/shell", (), False, "", SWIFTSHADER)
        return Installed(SHELL, f"{name}-swiftshader", info)

    monkeypatch.setattr(installing, "install_browser", install)
    code, out, _ = kernel_lab("browsers", "install", "npm-153")
    assert code == 0
    assert out.startswith("npm-153-swiftshader  156.0.8078.108  google: SwiftShader")
    assert out.endswith("  /cache/shell\nUse it: --browser npm-153-swiftshader\n")


def test_one_that_cannot_be_got_keeps_none_of_the_others_from_it(
    kernel_lab: KernelLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a CI, a channel that is broken today must not take the matrix from the others."""

    def install(name: str, _: object) -> Installed:
        if name == "npm-131":
            raise LabError("npm is not there today.")
        return Installed(SHELL, f"{name}-swiftshader", BrowserInfo("156", "/shell", (), False, "", SWIFTSHADER))

    monkeypatch.setattr(installing, "install_browser", install)
    code, out, err = kernel_lab("browsers", "install", "npm-131", "npm-153")
    assert code == 2
    assert "Use it: --browser npm-153-swiftshader" in out
    reported, sentence = err.splitlines()
    assert reported.endswith("npm-131: npm is not there today.")
    assert sentence == "kernel-lab: not installed: npm-131; why is said above. The others are there."
    assert kernel_lab("browsers", "install", "npm-131") == (2, "", "kernel-lab: npm is not there today.\n")


def test_probe_says_who_answers(kernel_lab: KernelLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A software adapter is no answer to the question for a GPU."""

    def examine(profile: Profile) -> BrowserInfo:
        return BrowserInfo("156", str(profile.executable), (), False, "", SWIFTSHADER)

    monkeypatch.setattr(installing, "examine", examine)
    _, out, _ = kernel_lab("browsers", "list", "--probe", "--json")
    swiftshader, missing, hardware = json.loads(out)["browsers"][0]["profiles"]
    assert (swiftshader["usable"], swiftshader["spoofed_ids"]) == (True, False)
    assert missing["usable"] is False
    assert hardware["usable"] is False
    assert hardware["state"].startswith("no GPU: Chromium gave google: SwiftShader")


def test_nothing_to_list_is_a_sentence(kernel_lab: KernelLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "installed", list)
    code, out, _ = kernel_lab("browsers", "list")
    assert code == 0
    assert finding.missing() in out
    code, _, err = kernel_lab("browsers", "install", "lavapipe")
    assert code == 2
    assert finding.missing() in err


def test_what_cannot_be_installed_is_a_sentence(kernel_lab: KernelLab) -> None:
    """All names are read before anything is got."""
    code, _, err = kernel_lab("browsers", "install", "lavapipe", "netscape")
    assert code == 2
    assert err.startswith("kernel-lab: 'netscape' cannot be installed; known: lavapipe, debian-MAJOR, npm-MAJOR, ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--browser", "debian-156-lavapipe"), "lavapipe is not installed: `kernel-lab browsers install lavapipe`."),
        (("--browser", "debian-99-swiftshader"), "no Chromium 99 from source 'debian' is on this machine"),
        (("--mask", "shader_f16"), "mask: 'shader_f16' is no feature; did you mean 'shader-f16'?"),
        (("--limit", "maxSize=1"), "limit: unknown name 'maxSize'"),
        (("--subgroups", "5"), "subgroups: got '5', wanted LOW-HIGH"),
    ],
)
@pytest.mark.parametrize("verb", [("run",), ("bench",), ("explain", "ai.onnx.ConvInteger:card_example")])
def test_options_of_every_verb_are_read_alike(
    kernel_lab: KernelLab, verb: tuple[str, ...], arguments: tuple[str, ...], sentence: str
) -> None:
    code, _, err = kernel_lab(*verb, *arguments)
    assert code == 2
    assert err.startswith(f"kernel-lab: {sentence}")
