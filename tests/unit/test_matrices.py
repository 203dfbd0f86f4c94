"""Variants on subgroup matrices: two bodies behind one set of macros, and what each needs. No browser."""

from dataclasses import replace
from typing import Any

import pytest

from kernel_lab import line
from kernel_lab.operators import operator
from kernel_lab.operators.manifest import Variant
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import matrices, plans, scopes, selection
from kernel_lab.planning.facts import PACKING_FEATURE, WEBGPU_DEFAULT_LIMITS, DeviceFacts
from kernel_lab.planning.plans import Plan
from kernel_lab.planning.scopes import Scope

LEAST = DeviceFacts(features=frozenset({PACKING_FEATURE}))
RICH = replace(
    LEAST,
    features=frozenset({PACKING_FEATURE, *matrices.MATRIX_FEATURES}),
    language_features=frozenset({"buffer_view", "subgroup_id", "packed_4x8_integer_dot_product"}),
    limits={**WEBGPU_DEFAULT_LIMITS, "maxComputeWorkgroupStorageSize": 32_768, "maxStorageBuffersPerShaderStage": 16},
    info={"subgroupMinSize": 32, "subgroupMaxSize": 32},
    matrix_configs=(
        {"componentType": "f16", "resultComponentType": "f32", "M": 16, "N": 16, "K": 16},
        {"componentType": "f32", "resultComponentType": "f32", "M": 8, "N": 8, "K": 8},
        {"componentType": "i8", "resultComponentType": "i32", "M": 16, "N": 16, "K": 32},
    ),
)
WITH_MATRICES = [
    (op, variant)
    for op in operator.load_all().values()
    for variant in op.manifest.variants
    if variant.requires.subgroupMatrixConfigs
]
each = pytest.mark.parametrize(("op", "variant"), WITH_MATRICES, ids=lambda part: part.id)


def _scope(op: Operator, variant: Variant) -> Scope:
    for case in op.cases:
        scope = scopes.scope_of(op, case.request) if case.refused is None else None
        if isinstance(scope, Scope) and selection.forced(selection.eligible(scope), variant.id).can_run:
            return scope
    raise AssertionError(f"no case runs {variant.id}")


def _plan(op: Operator, variant: Variant, facts: DeviceFacts) -> Plan:
    scope = _scope(op, variant)
    decision = selection.forced(line.decide(scope, facts), variant.id)
    assert decision.can_run, decision.reason
    return plans.plan_of(scope, variant, facts)


@each
def test_emulation_is_plain_wgsl(op: Operator, variant: Variant) -> None:
    """It runs on a device with no optional feature, and says so."""
    plan = _plan(op, variant, replace(LEAST, limits=RICH.limits, emulate_matrices=True))
    assert plan.emulated
    assert not matrices.MATRIX_FEATURES & set(plan.features)
    for item in plan.passes:
        assert "enable " not in item.wgsl.text
        assert "subgroupMatrix" not in item.wgsl.text


@each
def test_built_ins_take_the_device_s_shape(op: Operator, variant: Variant) -> None:
    plan = _plan(op, variant, RICH)
    (text,) = [item.wgsl.text for item in plan.passes if "subgroup_matrix_result" in item.wgsl.text]
    assert not plan.emulated
    assert "enable chromium_experimental_subgroup_matrix;" in text
    shape = matrices.fitting(variant, RICH)
    assert shape is not None
    for name in "MNK":
        assert f"const MATRIX_{name}: u32 = {shape[name]}u;" in text


@each
def test_older_browsers_get_the_older_loads(op: Operator, variant: Variant) -> None:
    """Chromium 150 and older do not know the typed ones; the language feature buffer_view came with them."""
    older = replace(RICH, language_features=RICH.language_features - {"buffer_view"})
    for facts, typed in ((RICH, True), (older, False)):
        text = "".join(item.wgsl.text for item in _plan(op, variant, facts).passes)
        assert ("subgroupMatrixStore<row_major>(" in text) is typed


@each
def test_subgroups_of_several_sizes_are_refused(op: Operator, variant: Variant) -> None:
    mixed = replace(RICH, info={"subgroupMinSize": 8, "subgroupMaxSize": 32})
    decision = selection.forced(line.decide(_scope(op, variant), mixed), variant.id)
    assert (decision.stage, decision.reason) == (
        "requires",
        "needs subgroups of one size; this adapter's have 8 to 32 invocations.",
    )


def _without(configs: tuple[Any, ...], component: str) -> tuple[Any, ...]:
    return tuple(config for config in configs if config["componentType"] != component)


def test_unsigned_matrices_do_where_there_are_no_signed_ones() -> None:
    u8 = {"componentType": "u8", "resultComponentType": "u32", "M": 8, "N": 8, "K": 8}
    facts = replace(RICH, matrix_configs=(*_without(RICH.matrix_configs, "i8"), u8))
    for op, variant in WITH_MATRICES:
        if variant.id.startswith("matrix_i8"):
            text = _plan(op, variant, facts).passes[-1 if op.id.startswith("ai") else -2].wgsl.text
            assert "subgroup_matrix_left<u8, MATRIX_K, MATRIX_M>" in text
