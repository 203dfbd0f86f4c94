"""What intermediates should hold: where the reference's elements lie, and the sentence where they do not fit."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernel_lab import line
from kernel_lab.debugging import intermediates, specimen
from kernel_lab.debugging.intermediates import Held
from kernel_lab.errors import LabError
from kernel_lab.operators import operator, references
from kernel_lab.operators.cases import Case
from kernel_lab.operators.manifest import Holds, Variant
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import facts, selection
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.scopes import Scope

MATRICES = [("i8", "i32"), ("f16", "f32"), ("f32", "f32")]
FACTS = DeviceFacts(
    frozenset({*facts.COMPUTE_FEATURES, facts.PACKING_FEATURE}),
    frozenset({"packed_4x8_integer_dot_product"}),
    {**facts.WEBGPU_DEFAULT_LIMITS, "maxStorageBuffersPerShaderStage": 10, "maxComputeWorkgroupStorageSize": 65_536},
    {"subgroupMinSize": 16, "subgroupMaxSize": 16},
    tuple({"componentType": a, "resultComponentType": b, "M": 8, "N": 8, "K": 8} for a, b in MATRICES),
)
"""An adapter on which every variant runs."""
CONVOLUTION = operator.named("QLinearConv")
CASES = {case.name: case for case in CONVOLUTION.cases}
CASE = CASES["nchw_im2col_per_channel"]


def held(
    variant: str, change: Callable[[Variant], Variant] = lambda variant: variant, case: Case = CASE
) -> dict[str, Held]:
    scope = line.check(CONVOLUTION, case)
    assert isinstance(scope, Scope)
    chosen = selection.forced(line.decide(scope, FACTS), variant)
    plan = line.plan(scope, chosen, FACTS)
    return {item.buffer: item for item in intermediates.held_by(CONVOLUTION, case, change(chosen.variant), plan)}


def holding(buffer: str, **holds: Any) -> Callable[[Variant], Variant]:
    """The variant with another statement of what the buffer holds."""

    def change(variant: Variant) -> Variant:
        items = [
            item.model_copy(update={"lab": item.lab.model_copy(update={"holds": Holds(**holds)})})
            if item.id == buffer
            else item
            for item in variant.intermediates
        ]
        return variant.model_copy(update={"intermediates": items})

    return change


WITH_INTERMEDIATES = [op for op in operator.load_all().values() if any(v.intermediates for v in op.manifest.variants)]


@pytest.mark.parametrize("op", WITH_INTERMEDIATES, ids=lambda op: op.id)
def test_every_intermediate_of_ours_has_a_value_that_fits(op: Operator) -> None:
    left = {v.id for v in op.manifest.variants if v.intermediates}
    for case in op.cases:
        scope = line.check(op, case)
        if not left or not isinstance(scope, Scope) or case.refused is not None:
            continue
        decisions = line.decide(scope, FACTS)
        for name in sorted(left):
            chosen = selection.forced(decisions, name)
            if not chosen.can_run:
                continue
            plan = line.plan(scope, chosen, FACTS)
            full = {item.id for item in chosen.variant.intermediates if np.prod(plan.buffer(item.id).shape) > 0}
            assert {item.buffer for item in intermediates.held_by(op, case, chosen.variant, plan)} == full
            left.discard(name)
    assert not left


def test_tiles_are_counted_first_and_filled_second() -> None:
    """The centred windows of the portable product, by the formula in its template's head."""
    item = held("portable_f32_im2col_nchw_row")["activation"]
    _, _, depth_tiles, tile_depth, tile_lines = item.expected.shape
    products = item.expected.shape[0]
    centred = CONVOLUTION.reference.values["centred_windows"].of(CASE.inputs, CASE.request.attrs)
    images, groups, pixels, channels, taps = centred.shape
    assert (products, depth_tiles * tile_depth > channels * taps) == (images * groups, True)
    flat = item.expected.reshape(products, -1, depth_tiles, tile_depth, tile_lines)
    for product, line_at, depth in itertools.product(range(products), range(pixels), range(channels * taps)):
        place = (product, line_at // tile_lines, depth // tile_depth, depth % tile_depth, line_at % tile_lines)
        value = centred[product // groups, product % groups, line_at, depth // taps, depth % taps]
        assert flat[place] == value
    assert np.count_nonzero(item.places >= 0) == centred.size
    assert not item.expected.reshape(-1)[item.places < 0].any()
    assert item.read.all(), "padding of operands is 0, and compared"


def test_padding_that_no_pass_makes_use_of_is_exactly_what_lies_behind_the_lines() -> None:
    case = CASES["uint8_int8_int8"]
    item = held("dp4a_im2col_nchw_bias", case=case)["lines"]
    y = CONVOLUTION.reference.compute(case.inputs, case.request.attrs)["y"]
    pixels = int(np.prod(y.shape[2:]))
    assert pixels % 4, "or there were no such padding"
    read = item.read.reshape(item.expected.shape)
    assert read[:, :pixels].all()
    assert not read[:, pixels:].any()
    assert np.array_equal(item.expected[:, :pixels].reshape(y.shape), y.view(np.uint8))


FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("sums", {"value": "sum"}, r"sums\]\.x-lab\.holds: the reference has no value 'sum' \(known: sums, multiplier, "),
    ("sums", {"value": "weights"}, r"weights is u?int8\[.*\], sums int32\[.*\]; without names of axes on both sides"),
    ("sums", {"value": "sums", "axes": ["n", "g m", "o", "o"]}, "without names of axes on both sides"),
    ("multiplier", {"value": "multiplier", "axes": ["g"]}, r"\['g'\] must place each of g m, once, along the buffer's"),
    ("multiplier", {"value": "multiplier", "axes": ["g", "m"]}, "must place each of g m, once"),
    ("multiplier", {"value": "y", "axes": ["n g m o"]}, r"\d+ elements along 'n g m o' do not fit into 5\."),
    ("sums", {"value": "multiplier", "axes": ["g", "m", "", ""], "padding": 0}, "not every value fits into int32"),
    ("sums", {"value": "y", "axes": ["n", "g m", "o", ""]}, "elements along 'o' do not fit into"),
    ("sums", {"value": "weights", "axes": ["g", "m", "", "c k"]}, "elements along 'c k' do not fit into"),
    ("sums", {"value": "multiplier", "axes": ["g", "m", "", ""]}, r"that leaves \d+ elements, but no `padding`"),
]


@pytest.mark.parametrize(("buffer", "holds", "sentence"), FAULTS)
def test_what_does_not_fit_is_a_sentence(buffer: str, holds: dict[str, Any], sentence: str) -> None:
    with pytest.raises(LabError, match=sentence) as caught:
        held("accumulate_spatial", holding(buffer, **holds))
    assert str(caught.value).startswith("com.microsoft.QLinearConv/manifest.json: variants[accumulate_spatial].")


def test_the_steps_of_a_sum_end_at_the_sum() -> None:
    sums = CONVOLUTION.reference.values["sums"].of(CASE.inputs, CASE.request.attrs)
    index = tuple(size - 1 for size in sums.shape)
    told = specimen.value(CONVOLUTION, CASE, "sums", index)
    assert told["expected"] == str(sums[index])
    assert told["steps"]["then"][-1].endswith(f"= {sums[index]}")
    with pytest.raises(LabError, match="lies outside of its shape"):
        specimen.value(CONVOLUTION, CASE, "sums", (99, 0, 0, 0))
    with pytest.raises(LabError, match="value 'z': the reference has sums, multiplier, "):
        specimen.value(CONVOLUTION, CASE, "z", (0,))


def test_an_operator_without_a_reference_has_no_values() -> None:
    scope = line.check(CONVOLUTION, CASE)
    assert isinstance(scope, Scope)
    chosen = selection.forced(line.decide(scope, FACTS), "accumulate_spatial")
    foreign = replace(CONVOLUTION, reference_file=None)
    assert list(intermediates.held_by(foreign, CASE, chosen.variant, line.plan(scope, chosen, FACTS))) == []


@pytest.mark.parametrize("given", ["3", "{'of': 3}", "{'axes': 'a'}", "{'of': reference, 'axis': 'a'}"])
def test_a_value_is_a_function_and_maybe_names(tmp_path: Path, given: str) -> None:
    (tmp_path / "reference.py").write_text(f"def reference(x, a): ...\nINTERMEDIATES = {{'v': {given}}}\n")
    with pytest.raises(LabError, match=r"INTERMEDIATES\['v'\]: must be \{\"of\": a function"):
        references.load(tmp_path / "reference.py")
