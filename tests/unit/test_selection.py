"""Selection: the order of preference, and one sentence for each variant that cannot run, on devices made up here."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kernel_lab import line
from kernel_lab.errors import LabError
from kernel_lab.operators import operator
from kernel_lab.operators.cases import Case
from kernel_lab.operators.requests import Request
from kernel_lab.planning import scopes, selection
from kernel_lab.planning.facts import PACKING_FEATURE, WEBGPU_DEFAULT_LIMITS, DeviceFacts, masked
from kernel_lab.planning.scopes import Scope
from kernel_lab.planning.selection import Decision

Json = dict[str, Any]
ScopeOf = Callable[..., Scope]
SHIPPED = operator.load_all()
ACCEPTED = [case for op in SHIPPED.values() for case in op.cases if case.refused is None]
LEAST = DeviceFacts(features=frozenset({PACKING_FEATURE}))
"""WebGPU's default limits and no optional feature."""


@pytest.fixture
def decide(tiny_manifest: Json, tiny_scope: ScopeOf) -> Callable[..., tuple[Decision, ...]]:
    """The decisions about these variants (each with one pass, unless it has its own) on a device."""

    def run(variants: list[Json], facts: DeviceFacts = LEAST, **request: Any) -> tuple[Decision, ...]:
        tiny_manifest["variants"] = [{"passes": [{"use": "copy"}], **variant} for variant in variants]
        return line.decide(tiny_scope(tiny_manifest, **request), facts)

    return run


Decide = Callable[..., tuple[Decision, ...]]


def _only(decisions: tuple[Decision, ...]) -> tuple[str, str]:
    (decision,) = decisions
    return decision.stage, decision.reason


def test_default_first_then_priority_then_the_file_s_order_and_the_demoted_last(decide: Decide) -> None:
    variants: list[Json] = [
        {"id": "a"},
        {"id": "b", "priority": 5, "demoteWhen": "count < 100"},
        {"id": "c", "priority": 5},
        {"id": "d", "default": True, "priority": -1},
        {"id": "e", "priority": 5},
        {"id": "f", "default": True, "demoteWhen": ["false", "true"]},
    ]
    decisions = decide(variants)
    assert [d.variant.id for d in decisions] == ["d", "c", "e", "a", "f", "b"]
    assert [d.stage for d in decisions] == ["accepted"] * 4 + ["demoted"] * 2
    chosen = selection.selected(decisions)
    assert chosen is not None
    assert chosen.variant.id == "d"


def test_a_demoted_variant_runs_if_no_other_can(decide: Decide) -> None:
    decisions = decide([{"id": "a", "when": "false"}, {"id": "b", "demoteWhen": "true"}])
    chosen = selection.selected(decisions)
    assert chosen is not None
    assert (chosen.variant.id, str(chosen)) == ("b", "Accepted, but demoted: `true` holds, so other routes go first.")


def test_no_variant_is_selected_if_none_can(decide: Decide) -> None:
    assert selection.selected(decide([{"id": "a", "when": "false"}])) is None


def test_forcing_ignores_demotion_and_nothing_else(decide: Decide) -> None:
    decisions = decide([{"id": "a", "demoteWhen": "true"}, {"id": "b", "when": "false"}])
    assert selection.forced(decisions, "a").stage == "accepted"
    assert selection.forced(decisions, "b").stage == "when"
    with pytest.raises(LabError, match=r"there is no variant 'c' \(known: b, a\)\."):
        selection.forced(decisions, "c")


def test_every_condition_must_be_exactly_true(decide: Decide) -> None:
    said = {
        condition: _only(decide([{"id": "a", "when": ["true", condition]}]))
        for condition in ("count == 7", "1", "none", "shapes.x", "'true'", "nosuch", "count // 0")
    }
    assert {stage for stage, _ in said.values()} == {"when"}
    assert said["count == 7"][1] == "needs `count == 7`, which is false here."
    assert said["1"][1] == "needs `1`, which is 1 here."
    assert said["none"][1] == "needs `none`, which is none here."
    assert said["shapes.x"][1] == "needs `shapes.x`, which is [2, 3] here."
    assert said["'true'"][1] == "needs `'true'`, which is 'true' here."
    assert said["nosuch"][1].startswith("`nosuch`: unknown name 'nosuch' (known: ")
    assert said["count // 0"][1].startswith("`count // 0`: ")


def test_conditions_on_the_device_wait_for_it(tiny_manifest: Json, tiny_scope: ScopeOf, decide: Decide) -> None:
    condition = "device.limits.maxComputeInvocationsPerWorkgroup >= 512"
    variants: list[Json] = [{"id": "a", "when": condition}, {"id": "b", "demoteWhen": "not f16Ok('f16')"}]
    rich = replace(
        LEAST,
        features=frozenset({PACKING_FEATURE, "shader-f16"}),
        limits={**WEBGPU_DEFAULT_LIMITS, "maxComputeInvocationsPerWorkgroup": 1024},
    )
    poor = {d.variant.id: (d.stage, d.reason) for d in decide(variants)}
    assert poor["a"] == ("when", f"needs `{condition}`, which does not hold on this adapter.")
    assert poor["b"] == ("demoted", "`not f16Ok('f16')` holds on this adapter, so other routes go first.")
    assert [d.stage for d in decide(variants, rich)] == ["accepted", "accepted"]
    tiny_manifest["variants"] = [{"passes": [{"use": "copy"}], **variant} for variant in variants]
    assert [d.stage for d in selection.eligible(tiny_scope(tiny_manifest))] == ["accepted", "accepted"]


@pytest.mark.parametrize("condition", ["device.features.has('shader-f16')", "has(device.features, 'shader-f16')"])
def test_a_condition_may_ask_for_a_feature(decide: Decide, condition: str) -> None:
    assert _only(decide([{"id": "a", "when": condition}]))[0] == "when"
    rich = replace(LEAST, features=frozenset({PACKING_FEATURE, "shader-f16"}))
    assert _only(decide([{"id": "a", "when": condition}], rich)) == ("accepted", "")


def test_a_variant_s_own_values_count_in_its_conditions(decide: Decide) -> None:
    own: Json = {"derive": {"half": "count // 2", "wide": "device.limits.maxComputeWorkgroupSizeX // half"}}
    assert _only(decide([{"id": "a", "when": "half == 3", **own}])) == ("accepted", "")
    assert _only(decide([{"id": "a", "when": "half == 4", **own}]))[1] == "needs `half == 4`, which is false here."
    assert _only(decide([{"id": "a", "when": "wide == 85", **own}])) == ("accepted", "")
    assert _only(decide([{"id": "a", "when": "wide == 86", **own}]))[1].endswith("does not hold on this adapter.")


def test_a_variant_s_own_tunables_count_in_its_conditions(tiny_manifest: Json, decide: Decide) -> None:
    tiny_manifest["tunables"] = {"SIZE": 64}
    variants: list[Json] = [
        {"id": "a", "when": "tunables.SIZE == 64"},
        {"id": "b", "when": "tunables.SIZE == 64", "tunables": {"SIZE": 32}},
    ]
    assert {d.variant.id: d.stage for d in decide(variants)} == {"a": "accepted", "b": "when"}


def test_a_feature_is_required_or_masked(decide: Decide) -> None:
    variant: Json = {"id": "a", "requires": {"features": ["shader-f16"]}}
    rich = replace(LEAST, features=frozenset({PACKING_FEATURE, "shader-f16", "subgroups"}))
    assert _only(decide([variant])) == ("requires", "needs the feature 'shader-f16'; this adapter offers: none.")
    assert _only(decide([variant], rich)) == ("accepted", "")
    hidden = masked(rich, ("shader-f16",), {})
    said = "needs the feature 'shader-f16'; this profile masks it and leaves: subgroups."
    assert _only(decide([variant], hidden)) == ("requires", said)


def test_a_language_feature_is_required(decide: Decide) -> None:
    variant: Json = {"id": "a", "requires": {"x-lab": {"wgslLanguageFeatures": ["packed_4x8_integer_dot_product"]}}}
    offers = replace(LEAST, language_features=frozenset({"packed_4x8_integer_dot_product"}))
    said = "needs the WGSL language feature 'packed_4x8_integer_dot_product'; this adapter offers: none."
    assert _only(decide([variant])) == ("requires", said)
    assert _only(decide([variant], offers)) == ("accepted", "")


def test_packing_is_a_feature_that_only_we_have(decide: Decide) -> None:
    packed: Json = {"id": "a", "x-lab": {"packing": {"x": "packed"}}}
    word: Json = {"id": "a", "x-lab": {"packing": {"x": "word"}}}
    stage, reason = _only(decide([packed], DeviceFacts()))
    assert (stage, reason) == ("requires", f"needs the feature {PACKING_FEATURE!r}; this adapter offers: none.")
    assert _only(decide([word], DeviceFacts())) == ("accepted", "")


@pytest.mark.parametrize(
    ("low", "high", "stage"),
    [(32, 32, "accepted"), (8, 32, "requires"), (16, 16, "requires"), (None, None, "requires")],
)
def test_a_subgroup_size_must_be_the_only_one(decide: Decide, low: int | None, high: int | None, stage: str) -> None:
    variant: Json = {"id": "a", "requires": {"x-lab": {"subgroupSizes": [32, 64]}}}
    found = _only(decide([variant], replace(LEAST, info={"subgroupMinSize": low, "subgroupMaxSize": high})))
    assert found[0] == stage
    if stage == "requires":
        assert found[1] == f"needs a subgroup size of exactly 32 or 64; this adapter's is {low} to {high}."


MATRIX = "chromium-experimental-subgroup-matrix"
F16 = {"componentType": "f16", "resultComponentType": "f32", "M": 8, "N": 8, "K": 8}
F32 = {"componentType": "f32", "resultComponentType": "f32", "M": 8, "N": 8, "K": 8}


def test_any_one_matrix_config_is_enough(decide: Decide) -> None:
    wanted = [{"componentType": "f16", "resultComponentType": "f32"}, {"componentType": "f32", "M": 8, "N": 8, "K": 8}]
    variant: Json = {"id": "a", "requires": {"features": [MATRIX], "subgroupMatrixConfigs": wanted}}
    has = replace(LEAST, features=frozenset({PACKING_FEATURE, MATRIX}))
    for configs in ((F16,), (F32,), (F16, F32)):
        assert _only(decide([variant], replace(has, matrix_configs=configs))) == ("accepted", "")
    said = _only(decide([variant], replace(has, matrix_configs=({**F16, "resultComponentType": "f16"},))))
    assert said[0] == "requires"
    assert said[1] == "needs subgroup matrices f16→f32 or f32→any 8x8x8; this adapter offers: f16→f16 8x8x8."
    assert _only(decide([variant], has))[1].endswith("this adapter offers: none.")


@pytest.mark.parametrize("emulation", ["automatic", "on_request"])
def test_an_emulated_variant_is_never_selected_but_may_be_forced(decide: Decide, emulation: str) -> None:
    variant: Json = {
        "id": "a",
        "requires": {"features": [MATRIX], "subgroupMatrixConfigs": [{"componentType": "f32"}]},
        "x-lab": {"emulation": emulation},
    }
    lacks, asked = decide([variant]), decide([variant], replace(LEAST, emulate_matrices=True))
    assert asked[0].stage == "emulated"
    assert lacks[0].stage == ("emulated" if emulation == "automatic" else "requires")
    assert selection.selected(asked) is selection.selected(lacks) is None
    assert selection.forced(asked, "a").can_run
    has = replace(LEAST, features=frozenset({PACKING_FEATURE, MATRIX}), matrix_configs=(F32,))
    assert _only(decide([variant], has)) == ("accepted", "")


def test_a_limit_is_compared_with_the_device_s(decide: Decide) -> None:
    variant: Json = {"id": "a", "requires": {"x-lab": {"limits": {"maxComputeWorkgroupStorageSize": "count * 4096"}}}}
    stage, reason = _only(decide([variant]))
    assert stage == "limits"
    assert reason == "needs maxComputeWorkgroupStorageSize of 24,576; this adapter has 16,384."
    assert _only(decide([variant], shape=(2, 2))) == ("accepted", "")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"requires": {"x-lab": {"limits": {"maxBufferSize": "'big'"}}}}, "requires.limits.maxBufferSize is 'big'"),
        ({"requires": {"x-lab": {"limits": {"maxBufferSize": "nosuch"}}}}, "`nosuch`: unknown name"),
        ({"intermediates": [{"id": "i", "dtype": "int32", "shape": "[nosuch]"}]}, "`[nosuch]`: unknown name"),
        ({"intermediates": [{"id": "i", "dtype": "int32", "shape": "[2.5]"}]}, "intermediates[i].shape is [2.5]"),
        ({"intermediates": [{"id": "i", "dtype": "int32", "shape": "count"}]}, "intermediates[i].shape is 6"),
        ({"passes": [{"use": "copy", "dispatch": {"threads": "count - 9"}}]}, "dispatch.threads is -3"),
        ({"passes": [{"use": "copy", "dispatch": {"threads": 9, "workgroupSize": 0}}]}, "dispatch.workgroupSize is 0"),
        ({"passes": [{"use": "copy", "dispatch": {"x": "count / 4"}}]}, "dispatch.x is 1.5"),
        ({"derive": {"n": "m"}, "when": "n == 1"}, "n: `m`: unknown name 'm'"),
    ],
)
def test_a_variant_that_cannot_be_laid_out_is_out_and_says_why(decide: Decide, change: Json, said: str) -> None:
    decisions = decide([{"id": "a", **change}, {"id": "b"}])
    found = {d.variant.id: d for d in decisions}
    assert not found["a"].can_run
    assert found["a"].reason.startswith(said)
    assert found["b"].can_run


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"maxStorageBufferBindingSize": 255}, "x: uint8[15, 16] takes 256 bytes"),
        ({"maxBufferSize": 255}, "x: uint8[15, 16] takes 256 bytes, but this adapter's maxBufferSize is 255."),
        ({"maxStorageBuffersPerShaderStage": 2}, "pass copy binds 3 storage buffers, but this adapter allows 2."),
        ({"maxComputeWorkgroupsPerDimension": 1}, "pass copy needs (1, 4, 1) workgroups, but this adapter allows 1"),
    ],
)
def test_a_device_that_cannot_hold_it(decide: Decide, limits: dict[str, int], said: str) -> None:
    """240 bytes and their guard of 16."""
    variant: Json = {"id": "a", "x-lab": {"packing": {"*": "packed"}}}
    facts = replace(LEAST, limits={**WEBGPU_DEFAULT_LIMITS, **limits})
    stage, reason = _only(decide([variant], facts, shape=(15, 16)))
    assert stage == "limits"
    assert reason.startswith(said)
    exactly = replace(LEAST, limits={**WEBGPU_DEFAULT_LIMITS, "maxBufferSize": 256, "maxStorageBufferBindingSize": 256})
    assert _only(decide([variant], exactly, shape=(15, 16))) == ("accepted", "")


def test_an_intermediate_counts_too(decide: Decide) -> None:
    variant: Json = {"id": "a", "intermediates": [{"id": "columns", "dtype": "int32", "shape": "[count, 10000000]"}]}
    assert _only(decide([variant]))[1].startswith("columns: int32[6, 10000000] takes 240,000,016 bytes, but")


# Ours.


@pytest.mark.parametrize("case", ACCEPTED, ids=[case.query for case in ACCEPTED])
def test_some_variant_takes_every_case_on_the_least_device(case: Case) -> None:
    scope = scopes.scope_of(SHIPPED[case.operator], case.request)
    assert isinstance(scope, Scope)
    decisions = line.decide(scope, LEAST)
    assert selection.selected(decisions) is not None
    for decision in decisions:
        assert decision.can_run == (not decision.reason) or decision.stage == "demoted"
        assert not decision.reason or re.fullmatch(r"[^\n]+\.", decision.reason)


@pytest.mark.parametrize("op", SHIPPED.values(), ids=SHIPPED)
def test_the_answer_depends_on_nothing_but_the_question(op: Any) -> None:
    case = next(case for case in op.cases if case.refused is None)
    seen = set()
    for _ in range(3):
        scopes.forget()
        scope = scopes.scope_of(op, case.request)
        assert isinstance(scope, Scope)
        seen.add(tuple((d.variant.id, d.stage, d.reason) for d in line.decide(scope, LEAST)))
    assert len(seen) == 1


@pytest.mark.parametrize("op", SHIPPED.values(), ids=SHIPPED)
@pytest.mark.parametrize("limit", ["maxStorageBufferBindingSize", "maxBufferSize"])
def test_a_tensor_too_large_for_the_device_is_named(op: Any, limit: str) -> None:
    case = max(
        (case for case in op.cases if case.refused is None), key=lambda case: math.prod(case.request.shapes["x"])
    )
    scope = scopes.scope_of(op, case.request)
    assert isinstance(scope, Scope)
    decisions = line.decide(scope, replace(LEAST, limits={**WEBGPU_DEFAULT_LIMITS, limit: 64}))
    assert selection.selected(decisions) is None
    reasons = [d.reason for d in decisions if d.stage == "limits"]
    assert reasons
    for reason in reasons:
        assert re.fullmatch(rf"\w+: \w+\[.*\] takes [\d,]+ bytes, but this adapter's {limit} is 64\.", reason)


def test_a_request_of_gigabytes_is_answered_by_arithmetic_alone() -> None:
    op = SHIPPED["ai.onnx.DequantizeLinear"]
    shapes = {"x": (1 << 16, 1 << 16), "x_scale": ()}
    scope = scopes.scope_of(op, Request(op.id, {"x": "uint8", "x_scale": "float32"}, shapes, {}))
    assert isinstance(scope, Scope)
    assert {d.reason.partition(":")[0] for d in line.decide(scope, LEAST) if d.stage == "limits"} == {"x"}
