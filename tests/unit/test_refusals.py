"""What must be refused is: every refusal of the three operators is reached by a case of each operator it applies to."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from kernel_lab import line
from kernel_lab.operators import operator
from kernel_lab.operators.cases import Case, refuse_test
from kernel_lab.operators.operator import Operator
from kernel_lab.planning.scopes import Refused, Scope

SHIPPED = operator.load_all()
CASES = {case.query: case for op in SHIPPED.values() for case in op.cases}
REFUSED = [case for case in CASES.values() if case.refused is not None]


class Refusal(NamedTuple):
    """`sentence`: what every such refusal says (a pattern). The cases that meet it, by operator."""

    sentence: str
    dequantize_linear: str = ""
    conv_integer: str = ""
    qlinear_conv: str = ""


REFUSALS = {
    "an input of the wrong rank": Refusal(
        r"got (rank \d|shape \[.*\]),? but",
        dequantize_linear="x_scale_rank x_zero_point_rank block_scale_rank block_scalar_scale",
        conv_integer="x_rank w_rank w_zero_point_rank x_zero_point_shape",
        qlinear_conv="x_rank w_rank w_scale_rank B_rank x_scale_shape x_zero_point_shape y_scale_shape "
        "y_zero_point_shape",
    ),
    "spatial rank above 3": Refusal(
        r"x: got rank 6, but rank 3, 4 or 5 is needed", conv_integer="x_rank_6", qlinear_conv="x_rank_6"
    ),
    "an input of the wrong dtype": Refusal(
        r"got dtype \w+, but",
        dequantize_linear="x_dtype x_scale_dtype x_zero_point_dtype",
        conv_integer="x_dtype w_dtype x_zero_point_dtype w_zero_point_dtype",
        qlinear_conv="x_dtype w_dtype y_zero_point_dtype x_zero_point_dtype w_zero_point_dtype x_scale_dtype "
        "w_scale_dtype y_scale_dtype B_dtype",
    ),
    "an input that is missing": Refusal(r"missing, but \w+ needs it", qlinear_conv="y_zero_point_missing"),
    "scale and zero point of different shape": Refusal(
        r"x_zero_point: got shape .* it must have the shape .* of x_scale",
        dequantize_linear="x_zero_point_shape x_zero_point_rank",
    ),
    "a vector of scales that does not match M or the axis": Refusal(
        r"(x|w)_scale: got shape \[\d+\], but", dequantize_linear="x_scale_length", qlinear_conv="w_scale_length"
    ),
    "w_zero_point of a length neither 1 nor M": Refusal(
        r"w_zero_point: got shape \[4\], but \[\], \[1\] or \[M\] = \[6\]",
        conv_integer="w_zero_point_length",
        qlinear_conv="w_zero_point_length",
    ),
    "B that is not int32[M]": Refusal(r"B: got (dtype|shape)", qlinear_conv="B_dtype B_length B_rank"),
    "x with channels unlike w.shape[1] * group": Refusal(
        r"x: got \d+ channels, but w\.shape\[1\] \* group",
        conv_integer="channels channels_of_groups",
        qlinear_conv="channels channels_last_order",
    ),
    "M not divisible by group": Refusal(
        r"w: got M = 6 .* divisible by group", conv_integer="group_not_dividing", qlinear_conv="group_not_dividing"
    ),
    "group below 1": Refusal(
        r"group: got -?\d, but it must be at least 1", conv_integer="group_0 group_negative", qlinear_conv="group_0"
    ),
    "an unknown auto_pad": Refusal(
        r"auto_pad: got 'SAME', but", conv_integer="auto_pad_unknown", qlinear_conv="auto_pad_unknown"
    ),
    "auto_pad other than NOTSET together with pads": Refusal(
        r"pads: got .* beside auto_pad",
        conv_integer="auto_pad_with_pads valid_with_pads",
        qlinear_conv="auto_pad_with_pads",
    ),
    "channels_last that is neither 0 nor 1": Refusal(r"channels_last: got 2", qlinear_conv="channels_last_2"),
    "a dtype that the stated opset lacks": Refusal(
        r"got dtype \w+, but ai\.onnx opset \d\d allows",
        dequantize_linear="float8_before_19 f16_scale_before_19 uint16_before_21 int4_before_21 float4_before_23 "
        "e8m0_before_24 int2_before_25",
    ),
    "an attribute that the opset lacks": Refusal(
        r"\w+ of [\w.]+ opset \d+ has no such attribute",
        dequantize_linear="output_dtype_before_23 block_size_before_21 axis_before_13 unknown_attribute",
        conv_integer="unknown_attribute",
        qlinear_conv="channels_last_in_ai_onnx unknown_attribute",
    ),
    "axis out of range": Refusal(
        r"axis: got -?\d, but x of rank \d has the axes",
        dequantize_linear="axis_too_large axis_too_small axis_of_1d block_size_axis",
    ),
    "block_size negative": Refusal(r"block_size: got -2", dequantize_linear="block_size_negative"),
    "block_size with a scale of the wrong rank or dims": Refusal(
        r"x_scale: got shape .* block",
        dequantize_linear="block_count block_other_dims block_scale_rank block_scalar_scale",
    ),
    "strides or dilations below 1": Refusal(
        r"(strides|dilations): got .* at least 1",
        conv_integer="strides_0 dilations_0",
        qlinear_conv="strides_0 dilations_0",
    ),
    "strides or dilations of the wrong length": Refusal(
        r"(strides|dilations): got .* as many values",
        conv_integer="strides_length dilations_length",
        qlinear_conv="strides_length dilations_length",
    ),
    "kernel_shape unlike w": Refusal(
        r"kernel_shape: got", conv_integer="kernel_shape kernel_shape_length", qlinear_conv="kernel_shape"
    ),
    "pads of the wrong length or negative": Refusal(
        r"pads: got .* but (2 spatial axes need 4|none may be negative)",
        conv_integer="pads_length pads_negative",
        qlinear_conv="pads_length pads_negative",
    ),
    "a negative output size": Refusal(
        r"y: output sizes \[-1, -1\] would be negative", conv_integer="negative_output", qlinear_conv="negative_output"
    ),
    "a float8 zero point other than 0": Refusal(
        r"x_zero_point: got a value other than 0", dequantize_linear="float8_zero_point"
    ),
    "a float8e8m0 scale without output_dtype": Refusal(
        r"x_scale: got float8e8m0 without output_dtype", dequantize_linear="e8m0_without_output_dtype"
    ),
    "an output_dtype that is none": Refusal(
        r"output_dtype: got 3, but", dequantize_linear="output_dtype_of_an_integer"
    ),
    "y_scale of 0 or NaN": Refusal(
        r"y_scale: got 0 or NaN", qlinear_conv="y_scale_0 y_scale_minus_0 y_scale_nan"
    ),
}  # fmt: skip
"""A tensor beyond maxStorageBufferBindingSize or maxBufferSize is refused by the device, not the request: see
test_selection.py.
"""


def _queries(refusal: Refusal) -> Iterator[str]:
    for op, names in zip(
        ("ai.onnx.DequantizeLinear", "ai.onnx.ConvInteger", "com.microsoft.QLinearConv"), refusal[1:], strict=True
    ):
        yield from (f"{op}:refused_{name}" for name in names.split())


REACHED = [(refusal, query) for refusal, entry in REFUSALS.items() for query in _queries(entry)]


@pytest.mark.parametrize(("refusal", "query"), REACHED, ids=[f"{query}-{refusal}" for refusal, query in REACHED])
def test_refusal_is_reached(refusal: str, query: str) -> None:
    case = CASES[query]
    found = line.check(SHIPPED[case.operator], case)
    assert isinstance(found, Refused)
    assert re.match(rf"(\w+: )?{REFUSALS[refusal].sentence}", found.sentence), found.sentence


def test_every_refused_case_is_listed() -> None:
    assert {case.query for case in REFUSED} == {query for _, query in REACHED}


@pytest.mark.parametrize("case", REFUSED, ids=[case.query for case in REFUSED])
def test_a_case_that_must_be_refused_is_refused_for_its_reason(case: Case) -> None:
    op = SHIPPED[case.operator]
    found = line.check(op, case)
    assert isinstance(found, Refused)
    assert refuse_test(case, found.sentence)
    assert re.match(r"\w+: .", case.refused or ""), "`refused` must say more than which operand"
    assert found.sentence.startswith(case.refused or "?")
    names = [*(item.role for item in op.manifest.inputs), "y", *op.manifest.attributes, *case.request.attrs]
    assert found.sentence.partition(":")[0] in names
    assert re.fullmatch(r"[^{}\n]+[^.]\.", found.sentence)
    assert not re.search(r"manifest\.json|Error|Traceback|undefined", found.sentence)


@pytest.mark.parametrize("op", SHIPPED.values(), ids=SHIPPED)
def test_every_other_case_is_accepted(op: Operator) -> None:
    for case in op.cases:
        if case.refused is None:
            assert isinstance(line.check(op, case), Scope), case.query


def test_a_check_of_values_waits_for_the_values() -> None:
    """A page's getKernel has no values when it plans: the request alone is valid."""
    case = CASES["com.microsoft.QLinearConv:refused_y_scale_nan"]
    assert isinstance(line.check(SHIPPED[case.operator], case, look_at_values=False), Scope)
