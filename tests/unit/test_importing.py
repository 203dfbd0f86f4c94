"""ONNX files as cases, without a browser: nodes, values, expected values, and the sentences for what cannot be read."""

import itertools
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from kernel_lab import line
from kernel_lab.errors import LabError
from kernel_lab.importing import collecting, expectation, feeds, nodes, runtime, saturation
from kernel_lab.importing.feeds import Feeding
from kernel_lab.operators import dtypes, operator
from kernel_lab.operators.cases import Case
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.requests import Opset
from kernel_lab.planning import scopes
from kernel_lab.planning.scopes import Scope

OPERATORS = operator.load_all()
DEQUANTIZE, CONV, QLINEAR = "ai.onnx.DequantizeLinear", "ai.onnx.ConvInteger", "com.microsoft.QLinearConv"
Write = Callable[..., Path]
generator = np.random.default_rng(7)


def node(kind: str, inputs: str, output: str, domain: str = "", name: str = "", **attrs: Any) -> onnx.NodeProto:
    """`inputs`: names with spaces between; `-` is an absent one."""
    names = ["" if word == "-" else word for word in inputs.split()]
    return helper.make_node(kind, names, [output], domain=domain, name=name or None, **attrs)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a model; its path. `inputs`: dtype and shape of each; `constants`: initializers."""

    def make(
        made: Sequence[onnx.NodeProto],
        inputs: Mapping[str, tuple[int, Sequence[int | str]]],
        constants: Mapping[str, Any] | None = None,
        opset: int = 21,
        name: str = "model.onnx",
    ) -> Path:
        graph = helper.make_graph(
            made,
            "graph",
            [helper.make_tensor_value_info(key, *value) for key, value in inputs.items()],
            [onnx.ValueInfoProto(name=made[-1].output[0])],
            [numpy_helper.from_array(np.asarray(value), key) for key, value in (constants or {}).items()],
        )
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        path = tmp_path / "models" / name
        path.parent.mkdir(exist_ok=True)
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
        return path

    return make


def cases_of(path: Path, **feeding: Any) -> dict[str, Case]:
    return {case.name: case for case in collecting.collect([path], Feeding(**feeding)).cases}


def source(case: Case) -> str:
    return line.expected_of(OPERATORS[case.operator], case)[1]


# ---- nodes ----------------------------------------------------------------------------------------------------------


def test_a_node_becomes_a_call() -> None:
    proto = node("ConvInteger", "a b - d", "out", auto_pad="SAME_UPPER", strides=[1, 2], group=2)
    read = nodes.read(proto, {"ai.onnx": 13}, OPERATORS)
    assert read is not None
    assert (read.operator.id, read.label, read.opsets) == (CONV, "out", (Opset("ai.onnx", 13),))
    assert read.attrs == {"auto_pad": "SAME_UPPER", "strides": [1, 2], "group": 2}
    assert type(read.attrs["strides"]) is list
    assert read.inputs == {"x": "a", "w": "b", "w_zero_point": "d"}
    assert read.outputs == {"y": "out"}


@pytest.mark.parametrize(
    ("kind", "domain", "found", "opsets"),
    [
        ("QLinearConv", "", QLINEAR, (Opset("ai.onnx", 17),)),
        ("QLinearConv", "ai.onnx", QLINEAR, (Opset("ai.onnx", 17),)),
        ("QLinearConv", "com.microsoft", QLINEAR, (Opset("com.microsoft", 1),)),
        ("DequantizeLinear", "", DEQUANTIZE, (Opset("ai.onnx", 17),)),
        ("DequantizeLinear", "com.microsoft", DEQUANTIZE, (Opset("ai.onnx", 17), None)),
        ("Conv", "", None, ()),
        ("ConvInteger", "org.example", CONV, (Opset("ai.onnx", 17), None)),
    ],
)
def test_domains(kind: str, domain: str, found: str | None, opsets: tuple[Opset | None, ...]) -> None:
    read = nodes.read(node(kind, "a b c", "y", domain), {"ai.onnx": 17, "com.microsoft": 1}, OPERATORS)
    assert (read and (read.operator.id, read.opsets)) == (found and (found, opsets))


@pytest.mark.parametrize(("dtype", "opset"), [(np.uint8, Opset("ai.onnx", 17)), (np.uint16, None)])
def test_a_contrib_twin_is_read_at_an_opset_that_has_its_form(dtype: type, opset: Opset | None) -> None:
    """uint16 came to the standard operator with opset 21 only."""
    read = nodes.read(node("DequantizeLinear", "a b", "y", "com.microsoft"), {"ai.onnx": 17}, OPERATORS)
    assert read is not None
    request = read.request({"x": np.zeros((2, 3), dtype), "x_scale": np.float32(1).reshape(())})
    assert request.opset == opset
    assert isinstance(scopes.scope_of(read.operator, request), Scope)


# ---- ONNX Runtime ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["int4", "uint4", "float8e4m3fn", "float8e5m2", "float8e5m2fnuz", "int16", "int8"])
def test_every_dtype_reaches_onnx_runtime(name: str) -> None:
    """Fed and as a constant; rows of odd length do not end on a byte."""
    dtype = dtypes.named(name)
    codes = generator.integers(0, 1 << dtype.bits, 15).astype(np.uint16 if dtype.bits == 16 else np.uint8)
    x = dtypes.from_codes(codes, dtype, (5, 3))
    model = helper.make_model(helper.make_graph([], "g", [], []), opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    for constants in ({}, {"x": numpy_helper.from_array(x, "x")}):
        values = {"x": x, "s": np.float32(1).reshape(())}
        y = runtime.run_node(node("DequantizeLinear", "x s", "y"), model, values, constants)["y"]
        assert np.array_equal(y, x.astype(np.float32), equal_nan=True)


def test_onnx_runtime_says_why_it_refuses() -> None:
    model = helper.make_model(helper.make_graph([], "g", [], []), opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    with pytest.raises(runtime.CannotRun, match="NoSuchOperator"):
        runtime.run_node(node("NoSuchOperator", "x", "y"), model, {"x": np.zeros(3, np.float32)}, {})


# ---- whole models ---------------------------------------------------------------------------------------------------


def test_a_model_gives_real_weights_and_activations(write: Write) -> None:
    w = generator.integers(0, 256, (3, 2, 1, 1)).astype(np.uint8)
    scale, zero = np.float32(0.25), np.uint8(3)
    path = write(
        [
            node("QuantizeLinear", "x s z", "quantized"),
            node("ConvInteger", "quantized w z", "sums", name="conv/1"),
            node("Cast", "sums", "floats", to=TensorProto.FLOAT),
            node("QuantizeLinear", "floats s", "nibbles", output_dtype=TensorProto.INT4),
            node("DequantizeLinear", "nibbles s", "y"),
        ],
        {"x": (TensorProto.FLOAT, [1, 2, 2, 2])},
        {"w": w, "s": scale, "z": zero},
    )
    x = np.float32([[[[0, 1], [2, 3]], [[4, 5], [-0.75, 7]]]])
    found = cases_of(path, arrays={"x": x})
    assert [case.query for case in found.values()] == [f"{CONV}:model.conv_1", f"{DEQUANTIZE}:model.y"]
    conv, dequantize = found.values()
    assert conv.request.opset == Opset("ai.onnx", 21)
    assert np.array_equal(conv.inputs["w"], w)
    assert np.array_equal(conv.inputs["x"], (x / scale + zero).astype(np.uint8))
    assert dequantize.inputs["x"].dtype == ml_dtypes.int4
    for case in (conv, dequantize):
        expected, who = line.expected_of(OPERATORS[case.operator], case)
        assert who == runtime.name()
        computed = OPERATORS[case.operator].reference.compute(case.inputs, case.request.attrs)["y"]
        assert np.array_equal(expected["y"], computed)


def test_constant_nodes_are_constants(write: Write) -> None:
    x = numpy_helper.from_array(np.array([-8, 7, 1], ml_dtypes.int4))
    made = [
        helper.make_node("Constant", [], ["x"], value=x),
        helper.make_node("Constant", [], ["s"], value_float=0.5),
        node("DequantizeLinear", "x s", "y"),
    ]
    (case,) = cases_of(write(made, {})).values()
    assert case.inputs["x"].astype(int).tolist() == [-8, 7, 1]
    assert case.request.shapes["x_scale"] == ()


def test_tensors_are_shared_not_copied(write: Write) -> None:
    made = [node("DequantizeLinear", "w s", name) for name in ("a", "b")]
    first, second = cases_of(write(made, {}, {"w": np.zeros((4, 4), np.int8), "s": np.float32(1)})).values()
    assert first.inputs["x"] is second.inputs["x"]


def test_names_never_stand_twice(write: Write) -> None:
    made = [node("DequantizeLinear", "w s", f"y{i}", name=name) for i, name in enumerate(("a/b", "a:b", "a_b"))]
    path = write(made, {}, {"w": np.zeros(4, np.int8), "s": np.float32(1)})
    assert list(cases_of(path)) == ["model.a_b", "model.a_b_2", "model.a_b_3"]
    twice = collecting.collect([path, path]).cases
    assert len({case.query for case in twice}) == 6
    assert twice[0].repeat == ("kernel-lab", "onnx", str(path), "--case")
    assert twice[3].repeat == ("kernel-lab", "onnx", str(path), str(path), "--case")


def test_a_one_element_zero_point_takes_its_scales_shape(write: Write) -> None:
    """ONNX Runtime's own quantiser writes scale [1] beside zero point []."""
    constants = {"w": np.zeros(4, np.int8), "s": np.ones(1, np.float32), "z": np.int8(5)}
    path = write([node("DequantizeLinear", "w s z", "y")], {}, constants)
    imported = collecting.collect([path])
    assert imported.cases[0].request.shapes["x_zero_point"] == (1,)
    assert any("zero points whose shape is not their scale's" in note for note in imported.notes)


def test_node_by_node_where_onnx_runtime_cannot(write: Write) -> None:
    """No bfloat16 there, and no QLinearConv of uint8 and int8 to int8: the reference computes these."""
    constants = {
        "half": np.asarray(0.5, ml_dtypes.bfloat16),
        "w": generator.integers(-128, 128, (3, 2, 1, 1)).astype(np.int8),
        "s": np.float32(0.5),
        "zx": np.uint8(9),
        "zw": np.int8(0),
        "zy": np.int8(-3),
    }
    made = [
        node("DequantizeLinear", "x half", "bf16"),
        node("QLinearConv", "x s zx w s zw s zy", "q"),
        node("DequantizeLinear", "q s zy", "y"),
        node("NoSuchOperator", "y", "lost", domain="com.microsoft"),
        node("DequantizeLinear", "lost s", "unreached"),
    ]
    imported = collecting.collect([write(made, {"x": (TensorProto.UINT8, [1, 2, 3, 3])}, constants)])
    sources = {case.name: source(case) for case in imported.cases}
    refused = f"the reference ({runtime.name()} does not run this node)"
    assert sources == {"model.bf16": refused, "model.q": refused, "model.y": runtime.name()}
    notes = "\n".join(imported.notes)
    assert "node by node" in notes
    assert "NoSuchOperator lost does not run" in notes
    assert "1 of 4 nodes lack inputs" in notes


def test_nodes_in_subgraphs_are_counted(write: Write) -> None:
    inner = node("DequantizeLinear", "w s", "inner")
    body = helper.make_graph([inner], "body", [], [helper.make_tensor_value_info("inner", TensorProto.FLOAT, [4])])
    choice = helper.make_node("If", ["c"], ["chosen"], then_branch=body, else_branch=body)
    constants = {"w": np.zeros(4, np.int8), "s": np.float32(1), "c": np.bool_(True)}
    imported = collecting.collect([write([node("DequantizeLinear", "w s", "y"), choice], {}, constants)])
    assert len(imported.cases) == 1
    assert "model.onnx: 2 nodes in bodies of If, Loop or Scan are not taken" in imported.notes
    with pytest.raises(LabError, match=r"has no node of .*\. 2 nodes in bodies of If, Loop or Scan are not taken\."):
        collecting.collect([write([choice], {}, constants)])


# ---- what a model is fed with ---------------------------------------------------------------------------------------


def test_random_inputs_follow_the_seed(write: Write) -> None:
    path = write([node("DequantizeLinear", "x s", "y")], {"x": (TensorProto.INT4, ["N", 5])}, {"s": np.float32(1)})
    drawn = [cases_of(path, shapes={"x": (3, 5)}, seed=seed)["model.y"].inputs["x"] for seed in (0, 0, 1)]
    assert drawn[0].dtype == ml_dtypes.int4
    values = [array.astype(int).tolist() for array in drawn]
    assert values[0] == values[1] != values[2]
    notes = collecting.collect([path], Feeding(shapes={"x": (3, 5)})).notes
    assert "model.onnx: input x: int4[3, 5], random by seed 0" in notes


@pytest.mark.parametrize(
    ("fed", "sentence"),
    [
        ({}, r"the sizes of x \[N, 3, \?\] are open: state them \(--shape x=…"),
        ({"shapes": {"x": (1, 4, 2)}}, r"input x: got uint8\[1, 4, 2\], but the model takes uint8\[N, 3, \?\]"),
        ({"shapes": {"x": (1, 3)}}, r"input x: got uint8\[1, 3\], but"),
        ({"arrays": {"x": np.zeros((1, 3, 2), np.int8)}}, r"input x: got int8\[1, 3, 2\], but"),
    ],
)
def test_wrong_inputs(write: Write, fed: dict[str, Any], sentence: str) -> None:
    shape = ["N", 3, None]
    path = write([node("DequantizeLinear", "x s", "y")], {"x": (TensorProto.UINT8, shape)}, {"s": np.float32(1)})
    with pytest.raises(LabError, match=f"model.onnx: {sentence}"):
        cases_of(path, **fed)


def test_inputs_from_the_command_line(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.arange(3))
    found = feeds.feeding(tmp_path / "in.npz", 4, ["a=1,2", "b/c=3", "scalar="])
    assert found.arrays["x"].tolist() == [0, 1, 2]
    assert (found.shapes, found.seed) == ({"a": (1, 2), "b/c": (3,), "scalar": ()}, 4)
    shapes = ["--shape", "a=1,2", "--shape", "b/c=3", "--shape", "scalar="]
    assert found.words == ["--inputs", str(tmp_path / "in.npz"), "--seed", "4", *shapes]
    for text in ("1,2", "a=1,x", "a=-1", "=3"):
        with pytest.raises(LabError, match="must be NAME=sizes"):
            feeds.feeding(None, 0, [text])
    (tmp_path / "bad.npz").write_bytes(b"bad")
    with pytest.raises(LabError, match=r"bad\.npz: cannot be read as \.npz"):
        feeds.feeding(tmp_path / "bad.npz", 0, [])


# ---- folders and files ----------------------------------------------------------------------------------------------


def test_all_folders_are_read() -> None:
    imported = collecting.collect([Path(__file__).parents[1] / "onnx_cases"])
    counted = Counter(case.operator for case in imported.cases)
    assert counted == {CONV: 17, DEQUANTIZE: 29, QLINEAR: 37}
    assert sum(case.refused is not None for case in imported.cases) == 5
    for case in imported.cases:
        scope = line.check(OPERATORS[case.operator], case)
        assert isinstance(scope, Scope) == (case.refused is None), case.name


def test_folders_of_other_operators_are_counted(write: Write, tmp_path: Path) -> None:
    path = write([node("Relu", "x", "y")], {"x": (TensorProto.FLOAT, [2])})
    relu = path.parent / "test_relu"
    relu.mkdir()
    path.rename(relu / "model.onnx")
    with pytest.raises(LabError, match="none of the 1 folders is a test of"):
        collecting.collect([relu])
    ours = Path(__file__).parents[1] / "onnx_cases" / "dq01_u8_below_zp"
    imported = collecting.collect([ours, path.parent])
    assert [case.query for case in imported.cases] == [f"{DEQUANTIZE}:dq01_u8_below_zp"]
    assert imported.notes == ("backend-test folders: 2; 1 folders are of other operators",)


def test_what_cannot_be_read_is_a_sentence(write: Write, tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no model")
    (tmp_path / "empty").mkdir()
    relu = write([node("Relu", "x", "y")], {"x": (TensorProto.FLOAT, [2])})
    for path, sentence in (
        (tmp_path / "text.onnx", "is no ONNX model"),
        (tmp_path / "missing.onnx", "there is no such file or folder"),
        (tmp_path / "empty", "is no backend-test folder and holds none"),
        (relu, "has no node of ConvInteger, DequantizeLinear, QLinearConv"),
    ):
        with pytest.raises(LabError, match=sentence):
            collecting.collect([path])


def test_without_the_packages_a_sentence_says_what_to_install() -> None:
    script = "import sys; sys.modules['onnxruntime'] = None\nfrom kernel_lab.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", script, "onnx", "x"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'kernel-lab[onnx]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_other_verb_loads_onnx() -> None:
    script = "import sys, kernel_lab.cli; sys.exit(any(name in sys.modules for name in ('onnx', 'onnxruntime')))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


# ---- expected values ------------------------------------------------------------------------------------------------


def one_by_one(inputs: Mapping[str, Array], channels_inside: bool) -> Array:
    """int64[M, oh, ow] of an unpadded convolution, multiplied as vpmaddubsw does: two products at a time."""
    x, w = inputs["x"][0].astype(int), inputs["w"].astype(int)
    (M, C, kh, kw), (_, height, width) = w.shape, x.shape
    y = np.zeros((M, height - kh + 1, width - kw + 1), np.int64)
    taps = list(itertools.product(range(C), range(kh), range(kw)))
    if channels_inside:
        taps.sort(key=lambda tap: tap[1:])
    zero_x, zero_w = int(inputs["x_zero_point"]), inputs["w_zero_point"].reshape(-1).astype(int)
    for m, i, j in np.ndindex(y.shape):
        zero = zero_w[m % zero_w.size]
        products = [(x[c, i + a, j + b], w[m, c, a, b]) for c, a, b in taps]
        for k in range(0, len(products), 2):
            y[m, i, j] += max(-32768, min(32767, sum(p * q for p, q in products[k : k + 2])))
        y[m, i, j] -= sum(zero * p + zero_x * q - zero_x * zero for p, q in products)
    return y


def extreme(zero_x: int = 200, kind: str = "uint8") -> dict[str, Array]:
    """Operands whose pairs overflow 16 bits. `kind`: x's dtype; w has the other."""
    unsigned, signed = np.random.default_rng(3).integers(200, 256, (2, 120))
    first, second = unsigned.astype(np.uint8), (signed - 130).astype(np.int8)
    x, w = (first, second) if kind == "uint8" else (second, first)
    zeros = {"x_zero_point": np.array(zero_x, x.dtype), "w_zero_point": np.array([1, 2, 3, 5], w.dtype)}
    return {"x": x[:75].reshape(1, 3, 5, 5), "w": w[:72].reshape(4, 3, 3, 2), **zeros}


@pytest.mark.parametrize(("kind", "zero"), [("uint8", 200), ("int8", -7)])
def test_saturated_pairs(kind: str, zero: int) -> None:
    inputs = extreme(zero, kind)
    exact = OPERATORS[CONV].reference.compute(inputs, {})["y"]
    found = list(saturation.outputs(inputs, {}, OPERATORS[CONV].reference.compute))
    assert len(found) == 2
    for y, channels_inside in zip(found, (False, True), strict=True):
        assert np.array_equal(y[0], one_by_one(inputs, channels_inside))
        assert not np.array_equal(y, exact)


@pytest.mark.parametrize(
    "attrs",
    [
        {"pads": [1, 0, 2, 1], "strides": [2, 1]},
        {"auto_pad": "SAME_LOWER", "strides": [1, 2]},
        {"auto_pad": "SAME_UPPER"},
        {"dilations": [2, 1], "channels_last": 1},
        {"auto_pad": "VALID"},
    ],
)
def test_saturation_follows_the_geometry(attrs: dict[str, Any]) -> None:
    """With operands too small to saturate it is the reference's own value: scales, bias and clipping included."""
    x = generator.integers(0, 90, (2, 4, 6, 7)).astype(np.uint8)
    inputs = {
        "x": np.ascontiguousarray(np.moveaxis(x, 1, -1)) if "channels_last" in attrs else x,
        "x_scale": np.float32([0.1]),
        "x_zero_point": np.array(40, np.uint8),
        "w": generator.integers(-90, 90, (6, 2, 3, 2)).astype(np.int8),
        "w_scale": generator.random(6).astype(np.float32),
        "w_zero_point": np.zeros(6, np.int8),
        "y_scale": np.asarray(np.float32(4)),
        "y_zero_point": np.array(100, np.uint8),
        "B": generator.integers(-9000, 9000, 6).astype(np.int32),
    }
    attrs = {"group": 2, **attrs}
    exact = OPERATORS[QLINEAR].reference.compute(inputs, attrs)["y"]
    assert len(np.unique(exact)) > 20
    for y in saturation.outputs(inputs, attrs, OPERATORS[QLINEAR].reference.compute):
        assert y.dtype == exact.dtype
        assert np.array_equal(y, exact)


def test_who_is_right() -> None:
    inputs, reference = extreme(), OPERATORS[CONV].reference
    exact = reference.compute(inputs, {})
    saturated = {"y": one_by_one(inputs, True)[None].astype(np.int32)}
    wrong = {"y": exact["y"] + (np.arange(exact["y"].size).reshape(exact["y"].shape) == 5)}
    name = runtime.name()
    for given, right, who in (
        (exact, exact, name),
        (None, exact, f"the reference ({name} does not run this node)"),
        (saturated, exact, f"the reference ({name} saturates pairs at 16 bits on this machine)"),
        (wrong, wrong, f"{name}, against the reference (y: 1 of 48 elements, first at [0, 0, 1, 1])"),
    ):
        given = given and {"y": given["y"].astype(np.int32)}
        expected, found = expectation.expected(inputs, {}, given, reference)
        assert found == who
        assert np.array_equal(expected["y"], right["y"])


def test_this_machines_onnx_runtime_is_understood(write: Write) -> None:
    """Operands that overflow pairs: whatever CPU this is, either its value is exact or saturation explains it."""
    for kind, zero in (("uint8", 200), ("int8", -7)):
        inputs = extreme(zero, kind)
        inputs["w_zero_point"] = inputs["w_zero_point"][0]
        x = inputs.pop("x")
        path = write([node("ConvInteger", "x w x_zero_point w_zero_point", "y")], {"x": (_code(x), x.shape)}, inputs)
        (case,) = cases_of(path, arrays={"x": x}).values()
        assert "against" not in source(case)


def _code(array: Array) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))
