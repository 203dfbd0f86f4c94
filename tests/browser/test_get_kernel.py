"""Kernels as functions, in a page and in Python: the cards' own examples, refusals, tensors that stay on the GPU."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kernel_lab
from kernel_lab.browsing.lab import Lab
from kernel_lab.errors import LabError

Evaluate = Callable[..., Any]

CONV_INTEGER_CARD = """
import { getKernel } from "@huggingface/kernels";
const kernel = await getKernel("webgpu-kernels/ai.onnx.ConvInteger", { version: 1 });
const { y } = await kernel({
x: { data: xData, shape: [1, 1, 2, 1, 1] },
w: { data: wData, shape: [1, 1, 1, 1, 1] },
});
"""

QLINEAR_CONV_CARD = """
import { getKernel } from "@huggingface/kernels";

const kernel = await getKernel("webgpu-kernels/com.microsoft.QLinearConv", { version: 1 });
const { y } = await kernel({
  x: { data: xData, shape: [1, 1, 1, 1] },
  x_scale: { data: x_scaleData, shape: [1] },
  x_zero_point: { data: x_zero_pointData, shape: [1] },
  w: { data: wData, shape: [2, 1, 1, 1] },
  w_scale: { data: w_scaleData, shape: [1] },
  w_zero_point: { data: w_zero_pointData, shape: [1] },
  y_scale: { data: y_scaleData, shape: [1] },
  y_zero_point: { data: y_zero_pointData, shape: [1] },
});
"""

Operands = Mapping[str, tuple[np.ndarray, list[int]]]

CONV_INTEGER: Operands = {
    "x": (np.array([2, 250], np.uint8), [1, 1, 2, 1, 1]),
    "w": (np.array([-3], np.int8), [1, 1, 1, 1, 1]),
}
CONV_INTEGER_Y = np.array([2 * -3, 250 * -3], np.int32).reshape(1, 1, 2, 1, 1)

QLINEAR_CONV: Operands = {
    "x": (np.array([131], np.uint8), [1, 1, 1, 1]),
    "x_scale": (np.array([0.5], np.float32), [1]),
    "x_zero_point": (np.array([128], np.uint8), [1]),
    "w": (np.array([3, -5], np.int8), [2, 1, 1, 1]),
    "w_scale": (np.array([0.25], np.float32), [1]),
    "w_zero_point": (np.array([1], np.int8), [1]),
    "y_scale": (np.array([0.5], np.float32), [1]),
    "y_zero_point": (np.array([10], np.uint8), [1]),
}
# (131 - 128) * (3 - 1) = 6 and (131 - 128) * (-5 - 1) = -18, times 0.5 * 0.25 / 0.5: 1.5 and -4.5, ties to even, + 10
QLINEAR_CONV_Y = np.array([12, 6], np.uint8).reshape(1, 2, 1, 1)


@pytest.fixture
def evaluate(lab: Lab) -> Evaluate:
    """What the body of a JavaScript function returns that knows getKernel and two short ways to write tensors."""

    def run(body: str, argument: Any = None) -> Any:
        script = f"""async (given) => {{
          const {{ getKernel }} = await import("/harness/kernels.js");
          const tensor = (Type, values, shape, dtype) => {{
            return {{ data: new Type(values), shape, ...(dtype && {{ dtype }}) }};
          }};
          const shown = ({{ data, shape, dtype }}) => ({{
            data: Array.from(data), shape, dtype, array: data.constructor.name,
          }});
          {body}
        }}"""
        return lab.host.call(asyncio.wait_for(lab.browser.page.evaluate(script, argument), 60))

    return run


@pytest.mark.parametrize(
    ("card", "operands", "expected"),
    [(CONV_INTEGER_CARD, CONV_INTEGER, CONV_INTEGER_Y), (QLINEAR_CONV_CARD, QLINEAR_CONV, QLINEAR_CONV_Y)],
    ids=["ConvInteger", "QLinearConv"],
)
def test_cards_example_in_the_page(
    lab: Lab, evaluate: Evaluate, card: str, operands: Operands, expected: np.ndarray
) -> None:
    """The snippet as the card has it, a module of its own; only the import's address differs, and the data is given."""
    address = f"{lab.host.address}/harness/kernels.js"
    assert card.count('"@huggingface/kernels"') == 1
    filled = "".join(f"const {name}Data = {_typed_array(data)};\n" for name, (data, _) in operands.items())
    module = filled + card.replace("@huggingface/kernels", address) + "export { kernel, y };"
    found = evaluate(
        """const url = URL.createObjectURL(new Blob([given], { type: "text/javascript" }));
        const { kernel, y } = await import(url);
        return { ...shown(y), opId: kernel.opId };""",
        module,
    )
    assert found["data"] == expected.reshape(-1).tolist()
    assert found["shape"] == list(expected.shape)
    assert found["dtype"] == str(expected.dtype)
    assert found["array"].lower() == f"{expected.dtype}array"
    assert f'getKernel("webgpu-kernels/{found["opId"]}"' in card


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("webgpu-kernels/ai.onnx.ConvInteger", CONV_INTEGER, CONV_INTEGER_Y),
        ("webgpu-kernels/com.microsoft.QLinearConv", QLINEAR_CONV, QLINEAR_CONV_Y),
    ],
    ids=["ConvInteger", "QLinearConv"],
)
def test_cards_example_in_python(lab: Lab, name: str, operands: Operands, expected: np.ndarray) -> None:
    kernel = kernel_lab.get_kernel(name, version=1, lab=lab)
    y = kernel({role: {"data": data, "shape": shape} for role, (data, shape) in operands.items()})["y"]
    _equal(y, expected)
    y = kernel({role: data.reshape(shape) for role, (data, shape) in operands.items()})["y"]
    _equal(y, expected)


def test_attributes_and_absent_inputs(lab: Lab, evaluate: Evaluate) -> None:
    """A convolution by hand, with asymmetric pads and a stride; the same from the page and from Python."""
    x = np.arange(1, 13, dtype=np.uint8).reshape(1, 1, 3, 4)
    w = np.array([[1, -2], [3, 4]], np.int8).reshape(1, 1, 2, 2)
    attrs = {"pads": [1, 0, 0, 1], "strides": [1, 2]}
    padded = np.zeros((4, 5), np.int64)
    padded[1:, :4] = x[0, 0].astype(np.int64) - 7
    expected = np.zeros((1, 1, 3, 2), np.int32)
    for row in range(3):
        for column in range(2):
            window = padded[row : row + 2, 2 * column : 2 * column + 2]
            expected[0, 0, row, column] = (window * w[0, 0]).sum()
    zero_point = np.array(7, np.uint8)
    _equal(
        kernel_lab.get_kernel("ConvInteger", lab=lab)({"x": x, "w": w, "x_zero_point": zero_point}, attrs)["y"],
        expected,
    )
    found = evaluate(
        """const kernel = await getKernel("ai.onnx.ConvInteger", { version: 1 });
        const x_zero_point = tensor(Uint8Array, [7], []);
        const x = tensor(Uint8Array, given.x, [1, 1, 3, 4]);
        const w = tensor(Int8Array, given.w, [1, 1, 2, 2]);
        const outputs = { y: { shape: [1, 1, 3, 2], dtype: "int32" } };
        const { y } = await kernel({ x, w, x_zero_point, w_zero_point: undefined }, { attrs: given.attrs, outputs });
        return shown(y);""",
        {"x": x.reshape(-1).tolist(), "w": w.reshape(-1).tolist(), "attrs": attrs},
    )
    assert found["data"] == expected.reshape(-1).tolist()
    assert found["shape"] == [1, 1, 3, 2]


REFUSALS = {
    "wrong_dtype": (
        "ai.onnx.ConvInteger",
        {"x": ("Uint8Array", [1], [1, 1, 1], "uint8"), "w": ("Float32Array", [1], [1, 1, 1], "float32")},
        "w: got dtype float32",
    ),
    "missing_input": ("ai.onnx.ConvInteger", {"x": ("Uint8Array", [1], [1, 1, 1], "uint8")}, "w: missing"),
    "y_scale_0": (
        "com.microsoft.QLinearConv",
        {
            "x": ("Uint8Array", [1], [1, 1, 1], "uint8"),
            "x_scale": ("Float32Array", [1], [], "float32"),
            "x_zero_point": ("Uint8Array", [0], [], "uint8"),
            "w": ("Uint8Array", [1], [1, 1, 1], "uint8"),
            "w_scale": ("Float32Array", [1], [], "float32"),
            "w_zero_point": ("Uint8Array", [0], [], "uint8"),
            "y_scale": ("Float32Array", [0], [], "float32"),
            "y_zero_point": ("Uint8Array", [0], [], "uint8"),
        },
        "y_scale",
    ),
    "float8_zero_point": (
        "ai.onnx.DequantizeLinear",
        {
            "x": ("Uint8Array", [0x38, 0x40], [2], "float8e4m3fn"),
            "x_scale": ("Float32Array", [1], [], "float32"),
            "x_zero_point": ("Uint8Array", [0x38], [], "float8e4m3fn"),
        },
        "x_zero_point",
    ),
}


@pytest.mark.parametrize(("op", "operands", "part"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refusal_is_the_same_sentence_in_both(
    lab: Lab, evaluate: Evaluate, op: str, operands: Mapping[str, tuple[str, list[int], list[int], str]], part: str
) -> None:
    said = evaluate(
        """const kernel = await getKernel(given.op, { version: 1 });
        const inputs = Object.fromEntries(Object.entries(given.operands).map(
          ([role, [type, values, shape, dtype]]) => [role, tensor(globalThis[type], values, shape, dtype)]));
        try { await kernel(inputs); } catch (error) { return error.message; }""",
        {"op": op, "operands": operands},
    )
    arrays = {}
    for role, (_, values, shape, dtype) in operands.items():
        numpy_type = {"float8e4m3fn": ml_dtypes.float8_e4m3fn}.get(dtype, dtype)
        codes = np.array(values, np.uint8)
        array = codes.view(numpy_type) if numpy_type is ml_dtypes.float8_e4m3fn else np.array(values, numpy_type)
        arrays[role] = array.reshape(shape)
    with pytest.raises(LabError) as raised:
        kernel_lab.get_kernel(op, lab=lab)(arrays)
    assert part in said
    assert "\n" not in said
    assert str(raised.value) == f"{op}: {said}"


def test_operands_that_are_none_are_refused(evaluate: Evaluate, lab: Lab) -> None:
    """Before anything is planned: a shape that does not fit the data, data that is no typed array, a negative size."""
    said = evaluate(
        """const kernel = await getKernel("ai.onnx.ConvInteger", { version: 1 });
        const w = tensor(Int8Array, [1], [1, 1, 1]);
        const given_x = [tensor(Uint8Array, [1, 2], [1, 1, 3]), { data: [1, 2], shape: [1, 1, 2] },
          tensor(Uint8Array, [1], [1, -1, -1]), tensor(Float64Array, [1], [1, 1, 1]),
          tensor(Uint8Array, [1], [1, 1, 1], "int9"), tensor(Uint8Array, [1], [1, 1, 1], "int8")];
        const said = [];
        for (const x of given_x) await kernel({ x, w }).catch((error) => said.push(error.message));
        return said;"""
    )
    assert [text.partition(":")[0] for text in said] == ["x"] * 6
    for text, part in zip(
        said,
        ["takes 3 bytes", "typed array", "no whole number", "Float64Array", "int9", "travels in Int8Array"],
        strict=True,
    ):
        assert part in text
    kernel = kernel_lab.get_kernel("ConvInteger", lab=lab)
    with pytest.raises(LabError, match=r"^x: data has 2 elements, but shape \[1, 1, 3\] has 3\.$"):
        kernel({"x": {"data": [1, 2], "shape": [1, 1, 3], "dtype": "uint8"}, "w": np.ones((1, 1, 1), np.int8)})


def test_outputs_that_are_said_otherwise_are_refused(evaluate: Evaluate) -> None:
    said = evaluate(
        """const kernel = await getKernel("ai.onnx.ConvInteger", { version: 1 });
        const inputs = { x: tensor(Uint8Array, [1], [1, 1, 1]), w: tensor(Int8Array, [1], [1, 1, 1]) };
        const said = [];
        const wrong = [{ y: { shape: [1, 1, 2] } }, { y: { shape: [1, 1, 1], dtype: "int8" } }, { z: { shape: [] } }];
        for (const outputs of wrong) {
          await kernel(inputs, { outputs }).catch((error) => said.push(error.message));
        }
        return said;"""
    )
    assert said == [
        "outputs: y is int32[1,1,1], not [1,1,2]",
        "outputs: y is int32[1,1,1], not int8[1,1,1]",
        "outputs: no output z (there are: y)",
    ]


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_other_versions_are_refused(lab: Lab, evaluate: Evaluate, version: Any) -> None:
    said = evaluate(
        """return await getKernel("ai.onnx.ConvInteger", { version: given }).catch((error) => error.message);""",
        version,
    )
    assert "version must be 1" in said
    with pytest.raises(LabError, match=r"^version: got .*, but kernel-lab has version 1 of its kernels only\.$"):
        kernel_lab.get_kernel("ai.onnx.ConvInteger", version=version, lab=lab)


def test_unknown_operator_is_a_sentence(lab: Lab, evaluate: Evaluate) -> None:
    said = evaluate(
        """const kernel = await getKernel("webgpu-kernels/ai.onnx.Nonsense", { version: 1 });
        try { await kernel({ x: tensor(Uint8Array, [1], [1]) }); } catch (error) { return error.message; }"""
    )
    assert "operator 'ai.onnx.Nonsense' is unknown; known are " in said
    with pytest.raises(LabError, match=r"operator 'ai\.onnx\.Nonsense' is unknown; known are "):
        kernel_lab.get_kernel("webgpu-kernels/ai.onnx.Nonsense", lab=lab)


def test_output_stays_on_the_gpu_as_another_kernels_input(evaluate: Evaluate) -> None:
    """QLinearConv's y, never read back, is DequantizeLinear's x: (12 - 10) * 0.5 and (6 - 10) * 0.5."""
    found = evaluate(
        """const convolve = await getKernel("com.microsoft.QLinearConv", { version: 1 });
        const dequantize = await getKernel("ai.onnx.DequantizeLinear", { version: 1 });
        const inputs = Object.fromEntries(Object.entries(given).map(
          ([role, [type, values, shape]]) => [role, tensor(globalThis[type], values, shape)]));
        const { y: onGpu } = await convolve(inputs, { output: "gpu" });
        const { y } = await dequantize({ x: onGpu, x_scale: inputs.y_scale, x_zero_point: inputs.y_zero_point });
        const again = (await dequantize({ x: onGpu, x_scale: inputs.y_scale })).y;
        const kept = [onGpu.constructor.name, onGpu.dtype, onGpu.shape, onGpu.size];
        onGpu.destroy();
        const gone = await dequantize({ x: onGpu, x_scale: inputs.y_scale }).catch((error) => error.message);
        return { y: shown(y), again: shown(again), kept, gone };""",
        {role: [_array_type(data), data.tolist(), shape] for role, (data, shape) in QLINEAR_CONV.items()},
    )
    assert found["y"]["data"] == [1.0, -2.0]
    assert found["again"]["data"] == [6.0, 3.0]
    assert found["y"]["shape"] == [1, 2, 1, 1]
    assert found["kept"] == ["GpuTensor", "uint8", [1, 2, 1, 1], 2]
    assert found["gone"] == "x: this GPU tensor was destroyed"


def test_runtime_can_be_disposed_and_kernels_go_on(evaluate: Evaluate) -> None:
    found = evaluate(
        """const { disposeSharedKernelRuntime } = await import("/harness/kernels.js");
        const kernel = await getKernel("ai.onnx.DequantizeLinear", { version: 1 });
        const inputs = { x: tensor(Int8Array, [-3, 4, 5], [3]), x_scale: tensor(Float32Array, [0.5], []) };
        const { y: old } = await kernel(inputs, { output: "gpu" });
        await disposeSharedKernelRuntime();
        const { y } = await kernel(inputs);
        const { y: x } = await kernel(inputs, { output: "gpu" });
        const said = await kernel({ x: old, x_scale: inputs.x_scale }).catch((error) => error.message);
        return { y: shown(y), dtype: x.dtype, said };"""
    )
    assert found["y"]["data"] == [-1.5, 2.0, 2.5]
    assert found["dtype"] == "float32"
    assert found["said"]


# dtype: numpy's type, values, the page's array, its contents (types below 8 bits: packed, low bits first)
NARROW = {
    "int4": (ml_dtypes.int4, [-8, 7, 3], "Uint8Array", [0x78, 0x03]),
    "uint4": (ml_dtypes.uint4, [15, 1, 9], "Uint8Array", [0x1F, 0x09]),
    "int2": (ml_dtypes.int2, [-2, 1, -1, 0, 1], "Uint8Array", [0b00110110, 0b01]),
    "uint2": (ml_dtypes.uint2, [3, 0, 2, 1, 2], "Uint8Array", [0b01100011, 0b10]),
    "float8e4m3fn": (ml_dtypes.float8_e4m3fn, [1.0, -0.5, 448.0], "Uint8Array", [0x38, 0xB0, 0x7E]),
    "float8e5m2": (ml_dtypes.float8_e5m2, [1.0, -0.25, 57344.0], "Uint8Array", [0x3C, 0xB4, 0x7B]),
}


@pytest.mark.parametrize("dtype", NARROW)
def test_dtypes_that_arrays_do_not_say(lab: Lab, evaluate: Evaluate, dtype: str) -> None:
    """Types without an array of their own are named; the values, times 2, come out as float32."""
    numpy_type, values, array_type, contents = NARROW[dtype]
    expected = (2 * np.array(values, np.float32)).reshape(len(values))
    kernel = kernel_lab.get_kernel("ai.onnx.DequantizeLinear", lab=lab)
    scale = np.array(2, np.float32)
    _equal(kernel({"x": np.array(values).astype(numpy_type), "x_scale": scale})["y"], expected)
    named = {"data": values, "shape": [len(values)], "dtype": dtype}
    _equal(kernel({"x": named, "x_scale": scale})["y"], expected)
    found = evaluate(
        """const kernel = await getKernel("ai.onnx.DequantizeLinear", { version: 1 });
        const x = tensor(globalThis[given.type], given.contents, [given.size], given.dtype);
        return shown((await kernel({ x, x_scale: tensor(Float32Array, [2], []) })).y);""",
        {"type": array_type, "contents": contents, "size": len(values), "dtype": dtype},
    )
    assert found["data"] == expected.tolist()


def test_bfloat16_travels_raw_in_the_page(lab: Lab, evaluate: Evaluate) -> None:
    """A bfloat16 scale gives a bfloat16 output: 0.5 * 3 is 0x3FC0, 0.5 * -7 is 0xC060."""
    kernel = kernel_lab.get_kernel("ai.onnx.DequantizeLinear", lab=lab)
    scale = {"data": [0.5], "shape": [], "dtype": "bfloat16"}
    y = kernel({"x": np.array([3, -7], np.int8), "x_scale": scale})["y"]
    _equal(y, np.array([1.5, -3.5], ml_dtypes.bfloat16))
    found = evaluate(
        """const kernel = await getKernel("ai.onnx.DequantizeLinear", { version: 1 });
        const x_scale = tensor(Uint16Array, [0x3f00], [], "bfloat16");
        return shown((await kernel({ x: tensor(Int8Array, [3, -7], [2]), x_scale })).y);"""
    )
    assert found == {"data": [0x3FC0, 0xC060], "shape": [2], "dtype": "bfloat16", "array": "Uint16Array"}


def test_empty_tensor_gives_an_empty_tensor(lab: Lab, evaluate: Evaluate) -> None:
    kernel = kernel_lab.get_kernel("ai.onnx.DequantizeLinear", lab=lab)
    _equal(
        kernel({"x": np.zeros((0, 3), np.int8), "x_scale": np.array(2, np.float32)})["y"], np.zeros((0, 3), np.float32)
    )
    found = evaluate(
        """const kernel = await getKernel("ai.onnx.DequantizeLinear", { version: 1 });
        const x_scale = tensor(Float32Array, [2], []);
        return shown((await kernel({ x: tensor(Int8Array, [], [0, 3]), x_scale })).y);"""
    )
    assert found == {"data": [], "shape": [0, 3], "dtype": "float32", "array": "Float32Array"}


def test_calls_at_once_do_not_mix(evaluate: Evaluate) -> None:
    """A page need not wait for one call before it makes the next."""
    found = evaluate(
        """const kernel = await getKernel("ai.onnx.DequantizeLinear", { version: 1 });
        const x_scale = tensor(Float32Array, [1], []);
        const calls = Array.from({ length: 8 }, (_, n) => kernel({ x: tensor(Int8Array, [n, -n, 7], [3]), x_scale }));
        return (await Promise.all(calls)).map(({ y }) => Array.from(y.data));"""
    )
    assert found == [[float(n), float(-n), 7.0] for n in range(8)]


def test_examples_page_runs(lab: Lab) -> None:
    """The page that people open to see it work."""

    async def run() -> str:
        page = await lab.running_browser.page.context.browser.new_page()
        try:
            await page.goto(lab.address)
            await page.goto(f"{lab.host.address}/harness/examples.html")
            await (
                page.get_by_role("status")
                .filter(has_text="done")
                .or_(page.get_by_role("status").filter(has_text="failed"))
                .wait_for(timeout=60_000)
            )
            return await page.locator("#results").inner_text()
        finally:
            await page.close()

    _ = lab.info
    results = lab.host.call(run())
    assert "ConvInteger: int32[1,1,2,1,1] = [-6,-750]" in results
    assert "QLinearConv: uint8[1,2,1,1] = [16,0]" in results


def _equal(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def _array_type(data: np.ndarray) -> str:
    return {"uint8": "Uint8Array", "int8": "Int8Array", "float32": "Float32Array"}[str(data.dtype)]


def _typed_array(data: np.ndarray) -> str:
    return f"new {_array_type(data)}({json.dumps(data.tolist())})"
