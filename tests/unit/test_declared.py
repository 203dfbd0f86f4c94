"""Profiles that a project declares for itself, in kernel-lab.toml."""

from pathlib import Path

import pytest

from kernel_lab import runs
from kernel_lab.browsing import declared, masks, profiles
from kernel_lab.browsing.profiles import Profile
from kernel_lab.errors import LabError
from kernel_lab.operators import operator
from kernel_lab.planning import includes

OPERATORS = Path(__file__).parents[1] / "operators"
PROFILES = """
[profiles.poor]
browser = "{chromium}"
mask = ["subgroups"]
limits = ["maxBufferSize=1000000"]
retry_lost = true
flags = [{{ flag = "--a", why = "to see it" }}]

[profiles.drill]
browser = "poor"
limits = ["maxBufferSize=2000000", "maxComputeWorkgroupSizeX=64"]
templates = "own"
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a Chromium, templates and a table of profiles."""
    chromium = tmp_path / "chrome"
    chromium.write_text("")
    chromium.chmod(0o755)
    (tmp_path / "own").mkdir()
    (tmp_path / "kernel-lab.toml").write_text(PROFILES.format(chromium=chromium))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(declared.VARIABLE, raising=False)
    return tmp_path


def test_a_profile_is_another_with_its_differences(project: Path) -> None:
    poor = profiles.resolve("poor")
    assert (poor.name, poor.executable) == ("poor", project / "chrome")
    assert poor.flags[-1] == profiles.Flag("--a", "to see it")
    assert (poor.hidden, poor.limits, poor.retry_lost, poor.templates) == (
        ("subgroups",), {"maxBufferSize": 1_000_000}, True, None,
    )  # fmt: skip


def test_a_profile_may_start_from_a_declared_one(project: Path) -> None:
    drill = profiles.resolve("drill", mask=masks.parse(["shader-f16"], ["maxBufferSize=3000000"], "4"))
    assert (drill.name, drill.templates, drill.retry_lost) == ("drill", project / "own", True)
    assert drill.flags[-1].text == "--a"
    assert drill.hidden == ("subgroups", "shader-f16")
    assert drill.limits == {"maxBufferSize": 1_000_000, "maxComputeWorkgroupSizeX": 64}, "the lowest of all"
    assert drill.subgroups == (4, 4)
    assert profiles.base("drill") == str(project / "chrome")
    assert profiles.base("debian-156-swiftshader") == "debian-156-swiftshader"


def test_the_environment_names_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernel-lab.toml").rename(tmp_path / "other.toml")
    assert declared.load() == {}
    monkeypatch.setenv(declared.VARIABLE, "other.toml")
    assert list(declared.load()) == ["poor", "drill"]
    monkeypatch.setenv(declared.VARIABLE, "none.toml")
    with pytest.raises(LabError, match=r"none\.toml, which KERNEL_LAB_PROFILES names, cannot be read: No such file"):
        declared.load()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[profiles", r"kernel-lab\.toml: is no TOML: Expected"),
        ("[profiles.a]\nmask = []", r"kernel-lab\.toml: profiles\.a\.browser: Field required\."),
        ("[profiles.a]\nbrowser = 'b'\nflag = []", r"profiles\.a\.flag: Extra inputs are not permitted\."),
        (
            "[profiles.a]\nbrowser = 'b'\nflags = [{flag = '--x', why = ''}]",
            r"profiles\.a\.flags\.0\.why: .*at least 1",
        ),
        ("[profiles.a]\nbrowser = 'b'\ntemplates = 'none'", r"profiles\.a\.templates: .*none is no folder\."),
        ("[profiles.'A B']\nbrowser = 'b'", r"a profile's name is small letters"),
    ],
)
def test_a_fault_is_a_sentence_with_its_place(text: str, sentence: str, project: Path) -> None:
    (project / "kernel-lab.toml").write_text(text)
    with pytest.raises(LabError, match=sentence):
        profiles.resolve("a")


def test_profiles_that_go_round_are_refused(project: Path) -> None:
    (project / "kernel-lab.toml").write_text("[profiles.a]\nbrowser = 'b'\n[profiles.b]\nbrowser = 'a'\n")
    with pytest.raises(LabError, match="profile a starts from itself: a > b > a"):
        profiles.resolve("a")


def test_a_browser_that_runs_already_takes_no_flags(project: Path) -> None:
    flags = "flags = [{flag = '--x', why = 'y'}]"
    (project / "kernel-lab.toml").write_text(f"[profiles.a]\nbrowser = 'ws://there:1/s'\n{flags}\n")
    with pytest.raises(LabError, match="profile a: ws://there:1/s runs already, so flags cannot change it"):
        profiles.resolve("a")


def test_templates_of_its_own_stand_in_for_the_operators(project: Path) -> None:
    copy = operator.load_all(OPERATORS)["lab.test.Copy"]
    own = project / "own" / "copy.wgsl.jinja"
    own.write_text("// mine\n")
    (project / "own" / "unknown.txt").write_text("")
    there = operator.with_templates(copy, project / "own")
    assert includes.read("copy.wgsl.jinja", there.template_folders).text == "// mine\n"
    assert there.replaced == {"copy.wgsl.jinja": own}
    assert there.digest != copy.digest
    described = runs.describe_packages([copy], profiles.resolve("drill"))
    assert described["packages"] == {"lab.test.Copy": there.digest}
    assert list(described["templates"]) == ["copy.wgsl.jinja"]
    plain = runs.describe_packages([copy], Profile("p", Path("/chromium")))
    assert plain == {"packages": {"lab.test.Copy": copy.digest}, "templates": {}}


def test_templates_that_stand_in_for_nothing_are_an_error(project: Path) -> None:
    """A drill that alters nothing would look like a kernel that nothing can break."""
    (project / "own" / "cpoy.wgsl.jinja").write_text("")
    with pytest.raises(
        LabError, match=r"profile drill: no file in .*own has the name of a template of lab\.test\.Copy"
    ):
        runs.describe_packages([operator.load_all(OPERATORS)["lab.test.Copy"]], profiles.resolve("drill"))
