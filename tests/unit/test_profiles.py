"""Names of browsers and what they become; masks; the sentences for what is not there. No browser is started."""

import re
import sys
from pathlib import Path

import pytest

from kernel_lab.browsing import finding, lavapipe, masks, profiles, sources
from kernel_lab.browsing.lavapipe import Copy
from kernel_lab.browsing.mesa import Mesa
from kernel_lab.browsing.sources import Chromium
from kernel_lab.errors import LabError
from kernel_lab.planning import facts as device_facts
from kernel_lab.planning.facts import DeviceFacts

SHELL = Chromium("debian", Path("/usr/bin/shell"), Path("/usr/lib/chromium/chromium-headless-shell"), "156.0.8078.108")
FULL = Chromium("debian", Path("/usr/bin/full"), Path("/usr/lib/chromium/chromium"), "156.0.8078.108")
OTHER = Chromium("playwright", Path("/cache/chrome"), Path("/cache/chrome"), "150.0.7000.1")
COPY = Copy(Path("/copy"), "chromium", Mesa(Path("/mesa"), Path("/mesa/lib"), "26.1.6"), {"headed": True})


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three Chromiums, of which the shell is found first and all are prepared for lavapipe."""
    monkeypatch.delenv(profiles.FLAGS_VARIABLE, raising=False)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(sources, "installed", lambda: [SHELL, FULL, OTHER])
    monkeypatch.setattr(sources, "of", lambda path: next(c for c in (SHELL, FULL, OTHER) if c.executable == path))
    monkeypatch.setattr(finding, "find_chromium", lambda: Path("/usr/bin/headless-shell"))
    monkeypatch.setattr(lavapipe, "find", lambda chromium: COPY)


def test_default_is_what_is_found_with_no_adapter_chosen() -> None:
    profile = profiles.resolve()
    assert profile.executable == Path("/usr/bin/headless-shell")
    assert not any("webgpu-adapter" in flag for flag in profile.arguments)
    assert profile.environment == {}


@pytest.mark.parametrize(
    ("name", "headed", "executable"),
    [
        ("debian-156-swiftshader", False, SHELL.executable),
        ("debian-156-swiftshader", True, FULL.executable),
        ("playwright-150-swiftshader", False, OTHER.executable),
        ("swiftshader", True, FULL.executable),
    ],
)
def test_name_gives_the_program(name: str, headed: bool, executable: Path) -> None:
    """A window needs a full browser; without one the headless shell, which starts faster, is preferred."""
    profile = profiles.resolve(name, headed=headed)
    assert (profile.name, profile.executable, profile.headed) == (name, executable, headed)
    assert "--use-webgpu-adapter=swiftshader" in profile.arguments


def test_hardware_is_a_gpu_or_an_error() -> None:
    assert profiles.resolve("debian-156-hardware").hardware
    assert not profiles.resolve("debian-156-swiftshader").hardware


def test_lavapipe_gets_its_libraries_and_the_stand_in() -> None:
    profile = profiles.resolve("playwright-150-lavapipe")
    assert profile.executable == Path("/copy/stand-in/chromium")
    assert profile.environment["LD_LIBRARY_PATH"] == "/mesa/lib"
    assert "VK_DRIVER_FILES" not in profile.environment
    assert "--use-webgpu-adapter=swiftshader" in profile.arguments


def test_lavapipe_does_without_the_stand_in_where_chromium_takes_it() -> None:
    """COPY says that the attempt with a window succeeded."""
    profile = profiles.resolve("debian-156-lavapipe", headed=True)
    assert profile.executable == Path("/copy/plain/chromium")
    assert profile.environment["VK_DRIVER_FILES"] == "/mesa/usr/share/vulkan/icd.d/lvp_icd.json"
    assert "--use-webgpu-adapter=swiftshader" not in profile.arguments


def test_path_of_a_program() -> None:
    assert profiles.resolve(sys.executable).executable == Path(sys.executable)


def test_flags_of_the_environment_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(profiles.FLAGS_VARIABLE, "--one --two='a b'")
    assert profiles.resolve("swiftshader").arguments[-2:] == ["--one", "--two=a b"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("chromium-headless", "browser 'chromium-headless' is unknown: give default, swiftshader, lavapipe, hardware"),
        ("debian-156-opengl", "a name like debian-156-lavapipe (see `kernel-lab browsers list`)"),
        (
            "debian-150-swiftshader",
            "no Chromium 150 from source 'debian' is on this machine; there are: "
            "debian-156 (chromium-headless-shell 156.0.8078.108), debian-156 (chromium 156.0.8078.108), playwright-150",
        ),
        ("npm-156-lavapipe", "no Chromium 156 from source 'npm'"),
        ("debian-156", "browser 'debian-156': on which adapter? Give debian-156-swiftshader, debian-156-lavapipe, "),
    ],
)
def test_name_that_is_not_there_is_a_sentence(name: str, sentence: str) -> None:
    with pytest.raises(LabError, match=re.escape(sentence)):
        profiles.resolve(name)


@pytest.mark.parametrize("name", ["default", "debian-156-swiftshader"])
def test_headless_shell_has_no_window(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "installed", lambda: [SHELL])
    with pytest.raises(LabError, match="is a headless shell, which has no window: install a full Chromium"):
        profiles.resolve(name, headed=True)


# Masks ---------------------------------------------------------------------------------------------------------------

ADAPTER = DeviceFacts(
    features=frozenset({"shader-f16", "subgroups", device_facts.MATRIX_FEATURE}),
    language_features=frozenset({"packed_4x8_integer_dot_product", "subgroup_id"}),
    limits={"maxComputeInvocationsPerWorkgroup": 1024, "maxBufferSize": 4096},
    info={"subgroupMinSize": 8, "subgroupMaxSize": 8, "vendor": "google", "description": "llvmpipe", "driver": "Mesa"},
    matrix_configs=({"componentType": "f16"},),
)


def masked(features: list[str], limits: list[str], subgroups: str | None) -> DeviceFacts:
    mask = masks.parse(features, limits, subgroups)
    return device_facts.masked(ADAPTER, mask.hidden, mask.limits, mask.subgroups)


def test_features_of_both_kinds_are_hidden() -> None:
    poorer = masked(["shader-f16", "packed_4x8_integer_dot_product"], [], None)
    assert poorer.features == {"subgroups", device_facts.MATRIX_FEATURE}
    assert poorer.language_features == {"subgroup_id"}
    assert poorer.masked == ("packed_4x8_integer_dot_product", "shader-f16")


def test_hidden_matrices_have_no_configurations() -> None:
    assert ADAPTER.matrix_configs
    assert masked([device_facts.MATRIX_FEATURE], [], None).matrix_configs == ()


def test_limits_are_lowered_never_raised() -> None:
    poorer = masked([], ["maxComputeInvocationsPerWorkgroup=128", "maxBufferSize=5_000"], None)
    assert poorer.limits == {"maxComputeInvocationsPerWorkgroup": 128, "maxBufferSize": 4096}
    assert poorer.masked == ("maxComputeInvocationsPerWorkgroup 128",)


@pytest.mark.parametrize(("text", "claimed"), [("4-128", (4, 128)), ("8", (8, 8)), ("1-8", (1, 8))])
def test_subgroup_range_is_claimed(text: str, claimed: tuple[int, int]) -> None:
    poorer = masked([], [], text)
    assert (poorer.info["subgroupMinSize"], poorer.info["subgroupMaxSize"]) == claimed
    assert poorer.masked == (f"subgroups {claimed[0]} to {claimed[1]} (the adapter's: 8 to 8)",)


def test_subgroup_range_that_the_adapter_cannot_have_is_refused() -> None:
    with pytest.raises(LabError, match="subgroups 16 to 32 cannot be claimed of this adapter"):
        masked([], [], "16-32")


@pytest.mark.parametrize(
    ("features", "limits", "subgroups", "sentence"),
    [
        (["shader_f16"], [], None, "mask: 'shader_f16' is no feature; did you mean 'shader-f16'?"),
        (["packed_4x8_integer_dot_prod"], [], None, "did you mean 'packed_4x8_integer_dot_product'?"),
        ([], ["maxBuffer=1"], None, "limit: unknown name 'maxBuffer' (known: maxStorageBuffersPerShaderStage, "),
        ([], ["maxBufferSize"], None, "limit: got 'maxBufferSize', wanted maxBufferSize=NUMBER."),
        ([], ["maxBufferSize=-1"], None, "wanted maxBufferSize=NUMBER."),
        ([], [], "128-4", "subgroups: got '128-4', wanted LOW-HIGH"),
        ([], [], "3-5", "subgroups: got '3-5'"),
        ([], [], "all", "subgroups: got 'all'"),
        ([], [], "4-8-16", "subgroups: got '4-8-16'"),
    ],
)
def test_mask_that_means_nothing_is_a_sentence(
    features: list[str], limits: list[str], subgroups: str | None, sentence: str
) -> None:
    with pytest.raises(LabError, match=re.escape(sentence)):
        masks.parse(features, limits, subgroups)


def test_feature_that_kernel_lab_does_not_know_may_be_new() -> None:
    assert masks.parse(["subgroup-quantum-entanglement"], [], None).hidden == ("subgroup-quantum-entanglement",)


def test_profile_takes_the_mask() -> None:
    mask = masks.parse(["shader-f16"], ["maxBufferSize=1000"], "4-8")
    profile = profiles.resolve("swiftshader", mask=mask)
    assert (profile.hidden, profile.limits, profile.subgroups) == (("shader-f16",), {"maxBufferSize": 1000}, (4, 8))


# Who the adapter is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("info", "spoofed", "description"),
    [
        (
            {
                "vendor": "google",
                "architecture": "swiftshader",
                "description": "llvmpipe (LLVM 19)",
                "driver": "Mesa 26",
            },
            True,
            "llvmpipe (LLVM 19), Mesa 26",
        ),
        (
            {"vendor": "mesa", "architecture": "", "description": "llvmpipe (LLVM 19)", "driver": "Mesa 26"},
            False,
            "mesa: llvmpipe (LLVM 19), Mesa 26",
        ),
        (
            {"vendor": "google", "architecture": "swiftshader", "description": "SwiftShader Device", "driver": "5.0.0"},
            False,
            "google: SwiftShader Device, 5.0.0",
        ),
        (
            {"vendor": "nvidia", "architecture": "hopper", "description": "H200", "driver": "570"},
            False,
            "nvidia: H200, 570",
        ),
    ],
)
def test_label_is_description_and_driver(info: dict[str, str], spoofed: bool, description: str) -> None:
    """A vendor that is not true is not shown."""
    facts = DeviceFacts(info=info)
    assert facts.spoofed_ids is spoofed
    assert facts.description == description


@pytest.mark.parametrize(
    ("address", "url", "shown", "port"),
    [
        ("ws://lab:4444/secret", "ws://lab:4444/secret", "ws://lab:4444", 0),
        ("wss://lab:4444/secret?token=x", "wss://lab:4444/secret?token=x", "wss://lab:4444", 0),
        ("cdp+http://127.0.0.1:9222", "http://127.0.0.1:9222", "cdp+http://127.0.0.1:9222", 0),
        ("cdp+http://me:word@[::1]:9222?port=8765", "http://me:word@[::1]:9222", "cdp+http://[::1]:9222", 8765),
    ],
)
def test_an_address_is_a_browser_elsewhere(address: str, url: str, shown: str, port: int) -> None:
    """What lets others in is not shown, and no flag is claimed."""
    profile = profiles.resolve(address)
    assert profile.remote is not None
    assert (profile.remote.url, profile.remote.shown, profile.remote.port) == (url, shown, port)
    assert (profile.name, profile.flags) == (shown, ())
    assert profile.program == f"{shown} (remote: program and flags are not known here)"


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("http://127.0.0.1:9222", "is no address with a port: allowed are ws://HOST:PORT/PATH"),
        ("ws://lab", "'ws://lab' is no address with a port"),
        ("ws://me:word@lab:many", "'ws://lab:many' is no address with a port"),
        ("cdp+http://lab:9222?serve=1", "cdp+http://lab:9222: after the ? only port=NUMBER is allowed"),
        ("cdp+http://lab:9222?port=99999", "cdp+http://lab:9222: after the ? only port=NUMBER is allowed"),
    ],
)
def test_an_address_that_is_wrong_is_a_sentence(address: str, sentence: str) -> None:
    with pytest.raises(LabError) as error:
        profiles.resolve(address)
    assert sentence in str(error.value)


def test_what_runs_elsewhere_takes_no_flag_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabError, match="ws://lab:1 runs already, so --headed cannot change it"):
        profiles.resolve("ws://lab:1/x", headed=True)
    monkeypatch.setenv(profiles.FLAGS_VARIABLE, "--use-angle=vulkan")
    with pytest.raises(LabError, match=f"so {profiles.FLAGS_VARIABLE} cannot change it"):
        profiles.resolve("ws://lab:1/x")
