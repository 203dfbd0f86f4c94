"""Masks that the debug page asks for: the plan of a profile that hides the same, and the sentence for others."""

from pathlib import Path
from typing import Any

import pytest

from kernel_lab import line
from kernel_lab.browsing import declared, masks, profiles
from kernel_lab.debugging.desk import Desk
from kernel_lab.errors import LabError
from kernel_lab.operators import operator
from kernel_lab.planning import facts, selection
from kernel_lab.planning.facts import WEBGPU_DEFAULT_LIMITS
from kernel_lab.planning.scopes import Scope
from kernel_lab.serving import frames, wire
from kernel_lab.serving.planner import PageFacts

PAGE: dict[str, Any] = {
    "adapter": {"vendor": "v", "subgroupMinSize": 4, "subgroupMaxSize": 32},
    "features": ["subgroups", "shader-f16"],
    "languageFeatures": ["packed_4x8_integer_dot_product"],
    "limits": {**WEBGPU_DEFAULT_LIMITS, "maxStorageBuffersPerShaderStage": 10},
}
DECLARED = """
[profiles.plain]
browser = "swiftshader"
mask = ["packed_4x8_integer_dot_product"]
limits = ["maxBufferSize=90000", "maxStorageBuffersPerShaderStage=9"]
[profiles.poor]
browser = "plain"
limits = ["maxBufferSize=70000"]
subgroups = "4-8"
"""
QUERY = "QLinearConv:uint8_int8_int8"
OPERATORS = operator.load_all()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    (tmp_path / declared.FILE).write_text(DECLARED)
    monkeypatch.setenv(declared.VARIABLE, str(tmp_path / declared.FILE))
    return Desk(OPERATORS)


def opened(desk: Desk, **mask: Any) -> dict[str, Any]:
    header, _ = wire.decode(desk.specimen({"query": QUERY, "facts": PAGE, "mask": mask}))
    return header


def test_a_mask_does_what_a_profile_with_it_does(desk: Desk) -> None:
    """Selection, and the device that is requested, are those of a Lab on that profile."""
    header = opened(desk, profile="poor", mask=["shader-f16"], limit=["maxBufferSize=80000"], subgroups="8-16")
    given = masks.parse(["shader-f16"], ["maxBufferSize=80000"], "8-16")
    own = declared.load()["poor"]
    stated = masks.parse(own.mask, own.limits, own.subgroups)
    base = masks.parse(declared.load()["plain"].mask, declared.load()["plain"].limits, None)
    whole = masks.joined(masks.joined(base, stated), given)
    device = PageFacts.model_validate(PAGE).device
    assert device is not None
    there = facts.masked(device, whole.hidden, whole.limits, whole.subgroups, whole.emulate_matrices)
    op = OPERATORS["com.microsoft.QLinearConv"]
    scope = line.check(op, next(case for case in op.cases if case.name == "uint8_int8_int8"))
    assert isinstance(scope, Scope)
    decisions = line.decide(scope, there)
    chosen = selection.selected(decisions)
    assert chosen is not None
    assert header["decisions"] == [decision.json for decision in decisions]
    assert header["plan"] == frames.plan_header(line.plan(scope, chosen, there))
    assert header["plan"]["device"]["limits"]["maxBufferSize"] == 70_000
    assert header["masked"] == [
        "packed_4x8_integer_dot_product", "shader-f16", "maxBufferSize 70,000", "maxStorageBuffersPerShaderStage 9",
        "subgroups 8 to 16 (the adapter's: 4 to 32)",
    ]  # fmt: skip


@pytest.mark.usefixtures("desk")
def test_a_profile_s_mask_is_its_own_and_that_of_what_it_starts_from() -> None:
    mask = profiles.mask_of("poor")
    assert mask.hidden == ("packed_4x8_integer_dot_product",)
    assert mask.limits == {"maxBufferSize": 70_000, "maxStorageBuffersPerShaderStage": 9}
    assert mask.subgroups == (4, 8)
    assert profiles.mask_of("default").limits == {}


def test_the_catalogue_offers_what_decides_and_no_more(desk: Desk) -> None:
    told = desk.catalogue()
    assert [one["name"] for one in told["profiles"]] == ["plain", "poor"]
    assert told["profiles"][1]["masks"].endswith("--subgroups 4-8")
    assert set(told["limits"]) == {
        "maxStorageBuffersPerShaderStage", "maxStorageBufferBindingSize", "maxBufferSize",
        "maxComputeWorkgroupStorageSize", "maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupsPerDimension",
    }  # fmt: skip
    assert {"shader-f16", "subgroups", "packed_4x8_integer_dot_product", "subgroup_id"} <= set(told["features"])
    assert "timestamp-query" not in told["features"], "no kernel asks for it"


def test_a_saved_page_repeats_with_the_same_masks(desk: Desk) -> None:
    mask = {"profile": "poor", "mask": ["shader-f16"], "limit": ["maxBufferSize=80000"], "emulate_matrices": True}
    page = desk.save({"query": f"{QUERY}:accumulate_spatial", "facts": PAGE, "mask": mask, "summary": ""})
    options = "--browser poor --mask shader-f16 --limit maxBufferSize=80000 --emulate-matrices"
    assert f"kernel-lab run {options} com.microsoft.QLinearConv:uint8_int8_int8:accumulate_spatial" in page


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        ({"limit": ["maxBufferSize=-1"]}, "limit: got 'maxBufferSize=-1', wanted maxBufferSize=NUMBER."),
        ({"limit": ["maxBuffers=1"]}, "limit: unknown name 'maxBuffers'"),
        ({"subgroups": "16-4"}, "subgroups: got '16-4', wanted LOW-HIGH"),
        ({"subgroups": "64-128"}, "subgroups 64 to 128 cannot be claimed of this adapter"),
        ({"mask": ["subgroup"]}, "mask: 'subgroup' is no feature; did you mean 'subgroups'"),
        ({"profile": "rich"}, r"profile 'rich' is not declared in kernel-lab\.toml \(declared: plain, poor\)\."),
        ({"features": []}, r"mask\.features: Extra inputs are not permitted"),
    ],
)
def test_what_cannot_be_masked_is_a_sentence(desk: Desk, mask: dict[str, Any], sentence: str) -> None:
    with pytest.raises(LabError, match=sentence):
        opened(desk, **mask)
