"""lavapipe, the richest adapter without a GPU: who it says it is, what it has, and what a profile can hide of it."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from kernel_lab import line, runs
from kernel_lab.browsing import lavapipe, masks, sources
from kernel_lab.browsing.lab import Lab
from kernel_lab.browsing.profiles import Profile, resolve
from kernel_lab.errors import LabError
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.planning.facts import MATRIX_FEATURE

MATRICES = {("f16", "f16"), ("f16", "f32"), ("u8", "u32"), ("i8", "i32")}
LIMIT = "maxComputeInvocationsPerWorkgroup"

pytestmark = pytest.mark.xdist_group("lavapipe")


@pytest.fixture(scope="module")
def on_lavapipe(lacking: Callable[[str], NoReturn]) -> Callable[..., Profile]:
    """A profile on lavapipe."""

    def profile(*, headed: bool = False) -> Profile:
        try:
            return resolve("lavapipe", headed=headed)
        except LabError as error:
            lacking(str(error))

    return profile


@pytest.fixture(scope="module")
def rich(on_lavapipe: Callable[..., Profile]) -> Iterator[Lab]:
    with Lab(on_lavapipe()) as lab:
        yield lab


@pytest.fixture
def follow_in(copy_operator: Operator, copy_case: Callable[[str], Case]) -> Callable[..., Verdict]:
    """The whole line for one variant of the copy operator, in a lab of the test's choice."""

    def run(lab: Lab, variant: str, case: str = "seven", **options: Any) -> Verdict:
        return line.follow(copy_operator, copy_case(case), lab, variant, line.Options(**options))

    return run


def test_adapter_is_known_by_its_description_not_by_its_vendor(rich: Lab) -> None:
    facts = rich.facts
    assert re.match(r"llvmpipe \(LLVM .*\), llvmpipe: Mesa \d+\.", facts.description)
    stands_in = lavapipe.SPOOFED in rich.profile.executable.parts
    assert facts.spoofed_ids is stands_in
    recorded = runs.describe(rich.info)
    assert recorded["adapter"]["spoofed_ids"] is stands_in
    assert recorded["browser"]["profile"] == "lavapipe"
    assert ("(reported ids are spoofed)" in "\n".join(runs.headline(rich.info))) is stands_in


def test_adapter_is_the_richest(rich: Lab) -> None:
    facts = rich.facts
    assert {"shader-f16", "subgroups", "timestamp-query", MATRIX_FEATURE} <= facts.features
    assert (facts.info["subgroupMinSize"], facts.info["subgroupMaxSize"]) == (8, 8)
    assert {(config["componentType"], config["resultComponentType"]) for config in facts.matrix_configs} >= MATRICES
    assert all((config["M"], config["N"], config["K"]) == (8, 8, 8) for config in facts.matrix_configs)
    assert facts.limits[LIMIT] == 1024


def test_kernels_run_with_f16_and_without(rich: Lab, follow_in: Callable[..., Verdict]) -> None:
    for variant in ("wants_f16", "copy", "timed"):
        for case in ("seven", "large"):
            verdict = follow_in(rich, variant, case)
            assert verdict.passed, verdict.report
    assert follow_in(rich, "off_by_one").outcome == "failed"


def test_masks_reach_planning_and_the_device(
    on_lavapipe: Callable[..., Profile], follow_in: Callable[..., Verdict]
) -> None:
    """What is hidden is neither planned with nor requested; what is lowered is all that the device has."""
    mask = masks.parse(["shader-f16", "timestamp-query", MATRIX_FEATURE], [f"{LIMIT}=300"], "4-16")
    poorer = replace(on_lavapipe(), hidden=mask.hidden, limits=mask.limits, subgroups=mask.subgroups)
    with Lab(poorer) as lab:
        assert not {"shader-f16", "timestamp-query", MATRIX_FEATURE} & lab.facts.features
        assert lab.facts.matrix_configs == ()
        assert (lab.facts.info["subgroupMinSize"], lab.facts.info["subgroupMaxSize"]) == (4, 16)
        for variant, feature in (("wants_f16", "shader-f16"), ("timed", "timestamp-query")):
            verdict = follow_in(lab, variant)
            assert verdict.outcome == "skipped"
            assert f"needs the feature {feature!r}; this profile masks it" in verdict.summary
        requested = _note_requests(lab)
        assert follow_in(lab, "copy", timing=True).passed
        (asked,) = requested()
        assert not {"shader-f16", "timestamp-query", MATRIX_FEATURE} & set(asked["features"])
        assert asked["limits"][LIMIT] == 300
        headline = "\n".join(runs.headline(lab.info))
        assert f"{LIMIT} 300, subgroups 4 to 16 (the adapter's: 8 to 8)" in headline


def test_both_software_adapters_in_one_session(rich: Lab, follow_in: Callable[..., Verdict]) -> None:
    """lavapipe's libraries are given to its own browser alone."""
    before = dict(os.environ)
    assert follow_in(rich, "copy").passed
    with Lab(resolve("swiftshader")) as poor:
        assert "SwiftShader" in poor.facts.description
        assert not poor.facts.spoofed_ids
        assert follow_in(poor, "copy").passed
        assert follow_in(poor, "wants_f16").outcome == "skipped"
    assert follow_in(rich, "copy").passed
    assert dict(os.environ) == before


def test_browser_that_was_lost_comes_back_on_the_same_adapter(rich: Lab, follow_in: Callable[..., Verdict]) -> None:
    restarts = rich.restarts
    rich.host.call(rich.browser.page.close())
    assert follow_in(rich, "copy").passed
    assert rich.restarts == restarts + 1
    assert "llvmpipe" in rich.facts.description


def test_name_of_the_profile_says_source_version_and_adapter(on_lavapipe: Callable[..., Profile]) -> None:
    on_lavapipe()
    chromium = sources.installed()[0]
    named = resolve(f"{chromium.name}-lavapipe")
    assert named.name == f"{chromium.name}-lavapipe"
    assert named.environment["LD_LIBRARY_PATH"]


def test_with_a_window(
    on_lavapipe: Callable[..., Profile],
    follow_in: Callable[..., Verdict],
    display: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Full Chromium, headed: its GPU process starts twice, and the page waits for the second."""
    monkeypatch.setenv("DISPLAY", display)
    with Lab(on_lavapipe(headed=True)) as lab:
        assert lab.info.headed
        assert "llvmpipe" in lab.facts.description
        assert follow_in(lab, "wants_f16").passed


def _note_requests(lab: Lab) -> Callable[[], list[dict[str, Any]]]:
    """Has the page note every device that is requested from now on; gives a function that gets them."""
    page = lab.browser.page
    lab.host.call(
        page.evaluate(
            """() => {
              const noted = (globalThis.requested = []);
              const original = GPUAdapter.prototype.requestDevice;
              GPUAdapter.prototype.requestDevice = function (asked) {
                noted.push({ features: [...(asked.requiredFeatures ?? [])], limits: { ...asked.requiredLimits } });
                return original.call(this, asked);
              };
            }"""
        )
    )

    def requested() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = lab.host.call(page.evaluate("() => globalThis.requested"))
        return found

    return requested
