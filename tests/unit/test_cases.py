"""Cases: what a test.json may hold, what is said of one that is wrong, and what ours cover."""

import json
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernel_lab.errors import LabError
from kernel_lab.operators import dtypes, generators, operator
from kernel_lab.operators.cases import Case, refuse_test
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.operator import Operator
from kernel_lab.operators.requests import Opset

Json = dict[str, Any]
SHIPPED = operator.load_all()
EVERY = pytest.mark.parametrize("op", SHIPPED.values(), ids=SHIPPED)
Load = Callable[..., tuple[Case, ...]]


@pytest.fixture
def load(operator_from: Callable[..., Operator], tiny_manifest: Json) -> Load:
    """The cases of a test.json of these (with an input x, unless a case has its own inputs), and with other keys."""

    def run(*cases: Json, **more: Any) -> tuple[Case, ...]:
        file = {"cases": [{"inputs": {"x": ONE}, **case} for case in cases], **more}
        return operator_from(tiny_manifest, **{"test.json": json.dumps(file)}).cases

    return run


def values(dtype: str, shape: list[int], values: Any, kind: str = "values") -> Json:
    return {"dtype": dtype, "shape": shape, "data": {"kind": kind, "values": values}}


def random(dtype: str, low: float, high: float) -> Json:
    data = {"kind": "random", "generator": "lowbias32", "seed": 3, "min": low, "max": high}
    return {"dtype": dtype, "shape": [4], "data": data}


ONE = values("uint8", [1], [7])


def the(load: Load, tensor: Json, **more: Any) -> Array:
    (case,) = load({"name": "c", "inputs": {"x": tensor}}, **more)
    return case.inputs["x"]


# Tensors.


@pytest.mark.parametrize(
    ("tensor", "array"),
    [
        (values("uint8", [2, 2], [0, 1, 2, 255]), np.array([[0, 1], [2, 255]], np.uint8)),
        (values("int4", [3], [-8, 0, 7]), np.array([-8, 0, 7], ml_dtypes.int4)),
        (values("int32", [], [-2147483648]), np.array(-(2**31), np.int32)),
        (values("uint32", [1], [4294967295]), np.array([2**32 - 1], np.uint32)),
        (values("int8", [1], [3.0]), np.array([3], np.int8)),
        (values("int8", [0, 3], []), np.zeros((0, 3), np.int8)),
        (values("float32", [4], [0.1, "inf", "-inf", "nan"]), np.array([0.1, np.inf, -np.inf, np.nan], np.float32)),
        (values("float32", [1], [3.4028235e38]), np.array([np.finfo(np.float32).max], np.float32)),
        (values("float16", [2], [65519, 1e-9]), np.array([65504, 0], np.float16)),
        (values("bfloat16", [1], [1.00390625]), np.array([1.0], ml_dtypes.bfloat16)),
        (values("float8e5m2", [2], ["7f", "c0"], "bits"), np.array([0x7F, 0xC0], np.uint8).view(ml_dtypes.float8_e5m2)),
        (values("int4", [2], ["8", "f"], "bits"), np.array([-8, -1], ml_dtypes.int4)),
        (values("float32", [1], ["7fc00001"], "bits"), np.array([0x7FC00001], np.uint32).view(np.float32)),
        (values("bfloat16", [1], ["0x3f80"], "bits"), np.array([1.0], ml_dtypes.bfloat16)),
        (random("int8", -5, 9), generators.draw(3, -5, 9, dtypes.named("int8"), (4,))),
        (random("float16", -0.5, 2), generators.draw(3, -0.5, 2, dtypes.named("float16"), (4,))),
    ],
)
def test_tensor(load: Load, tensor: Json, array: Array) -> None:
    found = the(load, tensor)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert dtypes.raw_codes(found).tolist() == dtypes.raw_codes(array).tolist()


@pytest.mark.parametrize(
    ("tensor", "complaint"),
    [
        (values("uint8", [2], [1]), "got 1 values, shape [2] needs 2."),
        (values("uint8", [2, 3], []), "got 0 values, shape [2, 3] needs 6."),
        (values("uint8", [2], [1, 256]), "256 does not fit uint8."),
        (values("uint8", [1], [-1]), "-1 does not fit uint8."),
        (values("int4", [1], [8]), "8 does not fit int4."),
        (values("int8", [1], [1.5]), "1.5 does not fit int8."),
        (values("int32", [1], [2**31]), "2147483648 does not fit int32."),
        (values("int32", [1], [2**70]), f"{2**70} does not fit int32."),
        (values("int8", [1], ["inf"]), "a value is no number of int8."),
        (values("int8", [1], [1e400]), "a value is no number of int8."),
        (values("float32", [1], ["one"]), "a value is no number of float32."),
        (values("float32", [1], [1e39]), "1e+39 does not fit float32."),
        (values("float16", [1], [70000]), "70000 does not fit float16."),
        (values("float8e4m3fn", [2], [1, 1000]), "1000 does not fit float8e4m3fn."),
        (values("float8e4m3fn", [1], ["inf"]), "'inf' does not fit float8e4m3fn."),
        (values("float4e2m1", [1], [100]), "100 does not fit float4e2m1."),
        (values("float4e2m1", [1], ["nan"]), "'nan' does not fit float4e2m1."),
        (values("int5", [1], [1]), "dtype 'int5' is unknown (known: float32, uint8,"),
        (values("uint8", [1], ["xy"], "bits"), "'xy' is no hexadecimal number."),
        (values("uint8", [1], ["1ff"], "bits"), "'1ff' does not fit the 8 bits of uint8."),
        (values("int4", [1], ["1f"], "bits"), "'1f' does not fit the 4 bits of int4."),
        (values("uint8", [1], ["-1"], "bits"), "'-1' does not fit the 8 bits of uint8."),
        (
            values("uint8", [1], {"$ref": "#/fixtureArrays/b"}),
            "unknown fixture {'$ref': '#/fixtureArrays/b'} (known: a).",
        ),
        (random("int8", -200, 5), "-200 to 5 is no range of int8 (-128 to 127)."),
        (random("uint2", 0, 4), "0 to 4 is no range of uint2 (0 to 3)."),
        (random("int8", 0.5, 5), "0.5 to 5 is no range of int8 (-128 to 127)."),
        (random("int8", 5, 4), "min 5 is above max 4."),
        (random("float32", 5, 4), "min 5 is above max 4."),
    ],
)
def test_a_tensor_that_is_wrong_is_named_when_it_is_made(load: Load, tensor: Json, complaint: str) -> None:
    (case,) = load({"name": "some_case", "inputs": {"x": tensor}}, fixtureArrays={"a": [1]})
    with pytest.raises(LabError) as error:
        _ = case.inputs
    assert str(error.value).startswith(f"lab.test.Tiny/test.json: some_case.x: {complaint}")


def test_fixture_arrays_are_shared(load: Load) -> None:
    tensor = values("uint8", [3], {"$ref": "#/fixtureArrays/abc"})
    assert the(load, tensor, fixtureArrays={"abc": [1, 2, 3]}).tolist() == [1, 2, 3]


# Cases.


def test_a_case_has_its_request_and_says_where_it_comes_from(load: Load) -> None:
    whole = {
        "name": "whole",
        "why": "It says why.",
        "attrs": {"axis": 0},
        "opset": 21,
        "expected": {"y": values("uint8", [1], [8])},
        "provenance": {"source": "a card", "test": "some test"},
    }
    case, bare, other = load(whole, {"name": "bare"}, {"name": "o", "opset": {"domain": "ai.onnx", "version": 10}})
    assert (case.query, case.why, case.origin) == ("lab.test.Tiny:whole", "It says why.", "a card")
    assert (case.request.dtypes, case.request.shapes, case.request.attrs) == ({"x": "uint8"}, {"x": (1,)}, {"axis": 0})
    assert case.request.opset == Opset("lab.test", 21)
    assert other.request.opset == Opset("ai.onnx", 10)
    assert case.expected is not None
    assert (case.expected[0]["y"].tolist(), case.expected[1]) == ([8], "a card")
    assert (bare.expected, bare.refused, bare.request.opset, bare.origin) == (None, None, None, "test.json")


def test_tensors_are_made_once_and_only_when_asked_for(load: Load) -> None:
    (case,) = load({"name": "c", "inputs": {"x": values("uint8", [2], [1])}})
    with pytest.raises(LabError):
        _ = case.inputs
    (case,) = load({"name": "c"})
    assert case.inputs is case.inputs


def test_a_refusal_is_recognised_by_a_piece_of_its_sentence(load: Load) -> None:
    (case,) = load({"name": "c", "refused": "x: got Rank"})
    assert refuse_test(case, "x: got rank 2, but …")
    assert not refuse_test(case, "w: got rank 2, but …")


def fault(load: Load, *cases: Json, **more: Any) -> str:
    with pytest.raises(LabError) as error:
        load(*cases, **more)
    return str(error.value).removeprefix("lab.test.Tiny/test.json: ")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"name": "a b"}, "cases[a b].name: String should match pattern"),
        ({"name": "c", "inputs": {}, "input": {}}, "cases[c]: unknown key 'input' (allowed: name, why, attrs, opset,"),
        ({"name": "c", "inputs": {"x": {"dtype": "uint8", "data": {}}}}, "cases[c].inputs.x.shape: Field required"),
        ({"name": "c", "inputs": {"x": {**ONE, "shape": [-1]}}}, "cases[c].inputs.x.shape[0]: Input should be greater"),
        (
            {"name": "c", "inputs": {"x": {**ONE, "data": {"kind": "zeros"}}}},
            "cases[c].inputs.x.data: Input tag 'zeros'",
        ),
        ({"name": "c", "opset": "new"}, "cases[c].opset"),
        ({"name": "c", "attrs": [1]}, "cases[c].attrs: Input should be a valid dictionary (found: [1])."),
        ({"name": "c", "refused": 3}, "cases[c].refused: Input should be a valid string (found: 3)."),
    ],
)
def test_a_file_that_is_wrong_is_named_with_case_and_place(load: Load, change: Json, complaint: str) -> None:
    assert fault(load, {"name": "fine"}, change).startswith(complaint)


def test_whole_files_that_are_wrong(load: Load, operator_from: Callable[..., Operator], tiny_manifest: Json) -> None:
    assert fault(load, {"name": "a"}, {"name": "b"}, {"name": "a"}) == "these names stand twice: a."
    assert (
        fault(load, op="ai.onnx.Other")
        == "op: must be lab.test.Tiny, as its folder is called (found: 'ai.onnx.Other')."
    )
    assert fault(load, casess=[]) == "the file: unknown key 'casess' (allowed: op, fixtureArrays, cases)."
    for text, complaint in (("{", "line 1: not JSON"), ("[]", "the file: Input should be")):
        op = operator_from(tiny_manifest, **{"test.json": text})
        with pytest.raises(LabError, match=complaint):
            _ = op.cases
    with pytest.raises(LabError, match=r"lab\.test\.Tiny/test\.json: the file is missing\."):
        _ = operator_from(tiny_manifest).cases


# Ours.


@EVERY
def test_every_case_of_ours_says_why_in_a_sentence_and_has_a_name_of_its_own(op: Operator) -> None:
    names = [case.name for case in op.cases]
    assert len(names) == len(set(names)) > 50
    for case in op.cases:
        assert len(case.why.split()) >= 2, case.name
        assert case.why.endswith("."), case.name
        assert case.name.startswith("refused_") == (case.refused is not None)


@EVERY
def test_every_tensor_of_ours_can_be_made(op: Operator) -> None:
    for case in op.cases:
        tensors = {**case.inputs, **(case.expected[0] if case.expected else {})}
        for role, array in case.inputs.items():
            assert dtypes.of_array(array).name == case.request.dtypes[role]
            assert array.shape == case.request.shapes[role]
        assert tensors


def test_every_dtype_the_operators_have_occurs_in_a_case_that_runs() -> None:
    for op in SHIPPED.values():
        ran = [case.request.dtypes for case in op.cases if case.refused is None]
        for item in op.manifest.inputs:
            allowed = set(op.manifest.typeConstraints.get(item.dtype, [item.dtype]))
            assert {found[item.role] for found in ran if item.role in found} == allowed, f"{op.id}: {item.role}"


def test_every_type_mix_of_the_convolutions_occurs() -> None:
    for op, roles in (("ai.onnx.ConvInteger", ("x", "w")), ("com.microsoft.QLinearConv", ("x", "w", "y_zero_point"))):
        mixes = {tuple(c.request.dtypes[role] for role in roles) for c in SHIPPED[op].cases if c.refused is None}
        assert len(mixes) == 2 ** len(roles)


def test_every_output_dtype_of_dequantize_linear_meets_every_input_dtype() -> None:
    """Exactly rounded to float32, float16 and bfloat16; each input dtype to float32 at least."""
    op = SHIPPED["ai.onnx.DequantizeLinear"]
    seen = {
        (c.request.dtypes["x"], op.reference.compute(c.inputs, c.request.attrs)["y"].dtype.name)
        for c in op.cases
        if c.refused is None and dtypes.numel(c.request.shapes["x"]) < 5000
    }
    assert {name for name, output in seen if output == "float32"} == set(op.manifest.typeConstraints["T1"])
    assert {output for _, output in seen} == {"float32", "float16", "bfloat16"}
