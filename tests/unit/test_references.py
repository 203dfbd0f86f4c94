"""The three references against ONNX's own node tests, ONNX Runtime's CPU kernels and loops in exact arithmetic.

ONNX Runtime judges what it can run (three seeds of each combination); Python's integers and fractions judge everything,
in particular what ONNX Runtime lacks: bfloat16, float4, float8e8m0 scales, per-channel zero points of ConvInteger, five
of QLinearConv's eight type mixes, SAME padding with dilation. Every comparison is to the bit; only NaNs are all alike.
"""

import functools
import importlib
import importlib.util
import itertools
import math
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest

SHADERS = Path(__file__).parents[2] / "shaders"
SEEDS = (1, 2, 3)
ROLES = {
    "DequantizeLinear": ("x", "x_scale", "x_zero_point"),
    "ConvInteger": ("x", "w", "x_zero_point", "w_zero_point"),
    "QLinearConv": (
        *("x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point"),
        "B",
    ),
}


def load(operator):
    path = SHADERS / operator / "reference.py"
    spec = importlib.util.spec_from_file_location("reference_" + operator.replace(".", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DEQUANTIZE = load("ai.onnx.DequantizeLinear")
CONV_INTEGER = load("ai.onnx.ConvInteger")
QLINEAR_CONV = load("com.microsoft.QLinearConv")
REFERENCES = {"DequantizeLinear": DEQUANTIZE, "ConvInteger": CONV_INTEGER, "QLinearConv": QLINEAR_CONV}


def assert_same(actual, expected):
    """Same dtype, shape and bits; any NaN equals any NaN."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    actual, expected = np.ascontiguousarray(actual), np.ascontiguousarray(expected)  # at least of rank 1, too
    bits = np.dtype(f"u{actual.dtype.itemsize}")
    same = actual.view(bits) == expected.view(bits)
    if "float" in actual.dtype.name:
        same |= np.isnan(actual.astype(np.float32)) & np.isnan(expected.astype(np.float32))
    if not same.all():
        i = tuple(int(k) for k in np.unravel_index(np.argmin(same), same.shape))
        raise AssertionError(f"{(~same).sum()} of {same.size} differ; y{list(i)} is {actual[i]}, not {expected[i]}")


# ---- ONNX's node tests ----------------------------------------------------------------------------------------------


def node_tests():
    """(node, inputs, outputs, name) of the tests that ONNX's own exporters hand to `expect`."""
    for operator in ROLES:
        module = importlib.import_module(f"onnx.backend.test.case.node.{operator.lower()}")
        calls, expect = [], module.expect
        module.expect = lambda node, inputs, outputs, name, calls=calls, **_: calls.append(
            (node, inputs, outputs, name)
        )
        for export in (value for key, value in vars(getattr(module, operator)).items() if key.startswith("export")):
            export.__func__()
        module.expect = expect
        yield from (pytest.param(*call[:3], id=call[3]) for call in calls)


@pytest.mark.parametrize(("node", "inputs", "outputs"), list(node_tests()))
def test_onnx_node_test(node, inputs, outputs):
    attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    arrays = [onnx.numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else np.asarray(v) for v in inputs]
    named = dict(zip(ROLES[node.op_type], arrays, strict=False))
    assert_same(REFERENCES[node.op_type].reference(named, attrs)["y"], outputs[0])


# ---- ONNX Runtime ---------------------------------------------------------------------------------------------------


def ort_run(operator, inputs, attrs, y_dtype, opset=25):
    """ONNX Runtime's y, graph optimisations off. Sub-byte and float8 arrays travel as initializers."""
    inputs = {name: np.asarray(array) for name, array in inputs.items()}
    fed = {name: array for name, array in inputs.items() if array.dtype.isbuiltin == 1}
    tensor = onnx.helper.np_dtype_to_tensor_dtype
    domain = "com.microsoft" if operator == "QLinearConv" else ""
    names = [role if role in inputs else "" for role in ROLES[operator]]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(operator, names, ["y"], domain=domain, **attrs)],
        "one_node",
        [onnx.helper.make_tensor_value_info(name, tensor(a.dtype), a.shape) for name, a in fed.items()],
        [onnx.helper.make_tensor_value_info("y", tensor(np.dtype(y_dtype)), None)],
        [onnx.numpy_helper.from_array(a, name) for name, a in inputs.items() if name not in fed],
    )
    opsets = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=12)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(["y"], fed)[0]


@functools.cache
def saturating_operand(operator, x_dtype, w_dtype):
    """The int8 operand, x or w, if this machine's ONNX Runtime clips sums of two of its products to 16 bits; else None.

    Its AVX2 matrix product does so where the left matrix is uint8 and the right one int8. Left stands w in ConvInteger,
    x in QLinearConv. Where that operand keeps to 7 bits, no pair of products with a uint8 is clipped.
    """
    left, right, types = ("w", "x", (w_dtype, x_dtype)) if operator == "ConvInteger" else ("x", "w", (x_dtype, w_dtype))
    if types != ("uint8", "int8"):
        return None
    largest = {left: np.full((2, 2, 1), 255, np.uint8), right: np.full((2, 2, 1), 127, np.int8)}
    if operator == "ConvInteger":
        clipped = ort_run(operator, largest, {}, np.int32) != 2 * 255 * 127
    else:
        one, zero = np.array(1, np.float32), np.zeros((), np.int8)
        scales = {"x_scale": one, "w_scale": one, "y_scale": np.array(300, np.float32)}
        zero_points = {
            "x_zero_point": zero.astype(np.uint8),
            "w_zero_point": zero,
            "y_zero_point": zero.astype(np.uint8),
        }
        clipped = ort_run(operator, {**largest, **scales, **zero_points}, {}, np.uint8) != round(2 * 255 * 127 / 300)
    return right if clipped.any() else None


# ---- random requests ------------------------------------------------------------------------------------------------


def codes(rng, dtype, shape):
    """Any bit pattern of the dtype."""
    dtype = np.dtype(dtype)
    largest = 15 if "float4" in dtype.name else 255
    return rng.integers(0, largest, (*shape, dtype.itemsize), np.uint8, endpoint=True).view(dtype).reshape(shape)


def floats(rng, dtype, shape):
    """Scales of either sign, over 30 binary orders of magnitude, none of them round."""
    return np.asarray(rng.normal(size=shape) * 2.0 ** rng.integers(-20, 10, shape)).astype(dtype)


def dequantize_request(rng, dtype, scale_dtype, granularity):
    shape, attrs, per = (3, 7, 5), {}, ()
    if granularity == "per_axis":
        attrs, per = {"axis": -2}, (7,)
    elif granularity == "blocked":
        attrs, per = {"axis": 1, "block_size": 3}, (3, 3, 5)
    elif granularity == "blocked_1d":
        shape, attrs, per = (23,), {"axis": 0, "block_size": 6}, (4,)
    inputs = {"x": codes(rng, dtype, shape), "x_scale": floats(rng, scale_dtype, per)}
    if granularity != "no_zero_point":
        float8 = "float" in np.dtype(dtype).name
        inputs["x_zero_point"] = np.zeros(per, dtype) if float8 else codes(rng, dtype, per)
    return inputs, attrs


def conv_request(rng, rank, x_dtype, w_dtype, *, auto_pad=True, dilated_same=False, per_channel=True, seven_bits=None):
    """A small convolution in which every size, stride, dilation and pad is drawn by itself. x is [N, C, ...]."""
    group = int(rng.choice([1, 1, 2, 3]))
    in_group, out_group = rng.integers(1, 6, 2) if group == 1 else rng.integers(1, 4, 2)
    kernel, strides, dilations = (rng.integers(1, 4, rank).tolist() for _ in range(3))
    attrs = {"group": group, "strides": strides, "dilations": dilations}
    mode = rng.choice(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]) if auto_pad else "NOTSET"
    if mode == "NOTSET":
        attrs["pads"] = rng.integers(0, 5, 2 * rank).tolist()
    else:
        attrs["auto_pad"] = str(mode)
    if mode.startswith("SAME") and not dilated_same:
        attrs["dilations"] = [1] * rank
    size = [(k - 1) * d + 1 + int(rng.integers(0, 5)) for k, d in zip(kernel, attrs["dilations"], strict=True)]
    M = int(out_group * group)
    inputs = {
        "x": codes(rng, x_dtype, (int(rng.integers(1, 3)), int(in_group * group), *size)),
        "w": codes(rng, w_dtype, (M, int(in_group), *kernel)),
        "x_zero_point": codes(rng, x_dtype, [(), (1,)][rng.integers(2)]),
        "w_zero_point": codes(rng, w_dtype, (M,) if per_channel else [(), (1,)][rng.integers(2)]),
    }
    if seven_bits:  # the zero point too: it pads x
        for name in (seven_bits, seven_bits + "_zero_point"):
            inputs[name] = np.asarray(inputs[name] // 2)
    return inputs, attrs


def quantised(rng, inputs, y_dtype, *, per_channel, bias):
    """A ConvInteger request made one of QLinearConv: scales such that y's whole range is met."""
    M, taps = inputs["w"].shape[0], math.prod(inputs["w"].shape[1:])
    w_scale = rng.uniform(0.01, 0.09, (M,) if per_channel else [(), (1,)][rng.integers(2)]).astype(np.float32)
    x_scale = np.asarray(rng.uniform(0.1, 0.9), np.float32)
    y_scale = np.asarray(float(x_scale) * 0.05 * 7000 * math.sqrt(taps) / rng.uniform(60, 200), np.float32)
    inputs = {
        **inputs,
        "x_scale": x_scale,
        "w_scale": w_scale,
        "y_scale": y_scale,
        "y_zero_point": codes(rng, y_dtype, ()),
    }
    if bias:
        inputs["B"] = rng.integers(-20000, 20000, M, np.int32)
    return {role: inputs[role] for role in ROLES["QLinearConv"] if role in inputs}


# ---- exact arithmetic -----------------------------------------------------------------------------------------------

FORMATS = {"float32": (24, -126, 127), "float16": (11, -14, 15), "bfloat16": (8, -126, 127)}  # precision, exponents
FLOAT8 = {"float8_e4m3fn": (3, 7), "float8_e4m3fnuz": (3, 8), "float8_e5m2": (2, 15), "float8_e5m2fnuz": (2, 16)}


def nearest(value, name):
    """A Fraction rounded half to even to a binary format; math.inf beyond its range."""
    if value == 0 or isinstance(value, float):
        return value
    precision, smallest, largest = FORMATS[name]
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    exponent -= abs(value) < Fraction(2) ** exponent
    ulp = Fraction(2) ** (max(exponent, smallest) - precision + 1)
    result = round(value / ulp) * ulp
    return result if abs(result) < Fraction(2) ** (largest + 1) else math.copysign(math.inf, value)


def decoded(element):
    """One x of DequantizeLinear as (negative?, magnitude), from its bits; the magnitude is a Fraction, inf or nan."""
    name, code = element.dtype.name, int(element.reshape(1).view(f"u{element.dtype.itemsize}")[0])
    if "int" in name:
        bits = int(name.removeprefix("u").removeprefix("int"))
        code &= 2**bits - 1
        value = code - 2**bits if name[0] == "i" and code >= 2 ** (bits - 1) else code
        return value < 0, Fraction(abs(value))
    if name == "float4_e2m1fn":
        return code & 8 > 0, (Fraction(0), Fraction(1, 2), 1, Fraction(3, 2), 2, 3, 4, 6)[code & 7] * Fraction(1)
    mantissa_bits, bias = FLOAT8[name]
    exponent, mantissa = (code & 127) >> mantissa_bits, code & (2**mantissa_bits - 1)
    if (name.endswith("fnuz") and code == 0x80) or (name == "float8_e4m3fn" and code & 127 == 127):
        return False, math.nan
    if name == "float8_e5m2" and exponent == 31:
        return code >= 128, math.nan if mantissa else math.inf
    significand = mantissa + (2**mantissa_bits if exponent else 0)
    return code >= 128, significand * Fraction(2) ** (max(exponent, 1) - mantissa_bits - bias)


def wrapped(value):
    return (int(value) + 2**31) % 2**32 - 2**31


def exact_dequantize(x, zero_point, scale, y_dtype):
    """One element of y, given one element of each input (zero_point may be None)."""
    negative, magnitude = decoded(x)
    if "int" in x.dtype.name:
        z_negative, z_magnitude = decoded(zero_point) if zero_point is not None else (False, Fraction(0))
        difference = wrapped((-magnitude if negative else magnitude) - (-z_magnitude if z_negative else z_magnitude))
        negative, magnitude = difference < 0, nearest(abs(Fraction(difference)), "float32")
    scale = float(scale)
    negative ^= math.copysign(1, scale) < 0
    if isinstance(magnitude, float) or not math.isfinite(scale):
        result = float(magnitude) * abs(scale)
    else:
        result = float(nearest(nearest(magnitude * abs(Fraction(scale)), "float32"), np.dtype(y_dtype).name))
    return -result if negative else result


def parameter_at(parameter, index, attrs, rank):
    if parameter is None or parameter.size == 1:
        return parameter if parameter is None else parameter.reshape(())
    axis, block = attrs["axis"] % rank, attrs.get("block_size", 0)
    return parameter[(*index[:axis], index[axis] // block, *index[axis + 1 :])] if block else parameter[index[axis]]


def exact_dequantized(inputs, attrs, y_dtype):
    x, y = inputs["x"], np.empty(inputs["x"].shape, y_dtype)
    for index in np.ndindex(x.shape):
        zero_point = parameter_at(inputs.get("x_zero_point"), index, attrs, x.ndim)
        scale = parameter_at(inputs["x_scale"], index, attrs, x.ndim)
        y[index] = exact_dequantize(np.asarray(x[index]), zero_point, scale, y_dtype)
    return y


def exact_sums(inputs, attrs):
    """object[N, M, ...]: the convolution of x [N, C, ...] by loops over Python integers, not wrapped."""
    x, w, rank = inputs["x"].astype(object), inputs["w"].astype(object), inputs["x"].ndim - 2
    M, per_group = w.shape[:2]
    x_zero_point = int(inputs["x_zero_point"].reshape(-1)[0]) if "x_zero_point" in inputs else 0
    w_zero_points = np.broadcast_to(inputs.get("w_zero_point", np.zeros(1, np.int8)).reshape(-1), (M,)).tolist()
    strides, dilations = attrs.get("strides", [1] * rank), attrs.get("dilations", [1] * rank)
    begins, ends = [*attrs.get("pads", [0] * 2 * rank)][:rank], [*attrs.get("pads", [0] * 2 * rank)][rank:]
    sizes, reach = x.shape[2:], [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    if attrs.get("auto_pad", "NOTSET").startswith("SAME"):
        for i, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
            needed = max(0, (math.ceil(size / stride) - 1) * stride + reach[i] - size)
            halves = [math.floor(needed / 2), math.ceil(needed / 2)]
            begins[i], ends[i] = halves if attrs["auto_pad"] == "SAME_UPPER" else halves[::-1]
    counts = [math.floor((sizes[i] + begins[i] + ends[i] - reach[i]) / strides[i]) + 1 for i in range(rank)]
    y = np.zeros((x.shape[0], M, *counts), object)
    for n, m, *o in np.ndindex(y.shape):
        first = m // (M // attrs.get("group", 1)) * per_group
        for c, *k in np.ndindex(w.shape[1:]):
            at = [o[i] * strides[i] + k[i] * dilations[i] - begins[i] for i in range(rank)]
            if all(0 <= at[i] < sizes[i] for i in range(rank)):
                y[n, m, *o] += (x[n, first + c, *at] - x_zero_point) * (w[m, c, *k] - w_zero_points[m])
    return y


def exact_requantised(acc, multiplier, zero_point, dtype):
    info = np.iinfo(dtype)
    product = nearest(nearest(Fraction(acc), "float32") * multiplier, "float32")
    if isinstance(product, float):
        return info.max if product > 0 else info.min
    return min(max(round(product) + zero_point, info.min), info.max)


def exact_multiplier(x_scale, w_scale, y_scale):
    product = nearest(Fraction(float(x_scale)) * Fraction(float(w_scale)), "float32")
    return nearest(product / Fraction(float(y_scale)), "float32")


def exact_qlinear_conv(inputs, attrs):
    last = attrs.get("channels_last", 0)
    sums = exact_sums({**inputs, "x": np.moveaxis(inputs["x"], -1, 1) if last else inputs["x"]}, attrs)
    M, zero_point = sums.shape[1], inputs["y_zero_point"].reshape(())
    w_scales = np.broadcast_to(inputs["w_scale"].reshape(-1), (M,))
    multipliers = [exact_multiplier(inputs["x_scale"].reshape(()), s, inputs["y_scale"].reshape(())) for s in w_scales]
    y = np.empty(sums.shape, zero_point.dtype)
    for index in np.ndindex(sums.shape):
        acc = wrapped(sums[index] + int(inputs["B"][index[1]] if "B" in inputs else 0))
        y[index] = exact_requantised(acc, multipliers[index[1]], int(zero_point), y.dtype)
    return np.moveaxis(y, 1, -1) if last else y


# ---- DequantizeLinear -----------------------------------------------------------------------------------------------

INTEGERS = [
    ml_dtypes.int2,
    ml_dtypes.uint2,
    ml_dtypes.int4,
    ml_dtypes.uint4,
    *(np.int8, np.uint8, np.int16, np.uint16, np.int32),
]
SMALL_FLOATS = [getattr(ml_dtypes, name) for name in FLOAT8]
GRANULARITIES = ("per_tensor", "no_zero_point", "per_axis", "blocked", "blocked_1d")


def dtype_id(value):
    return np.dtype(value).name if not isinstance(value, str) else value


@pytest.mark.parametrize("scale_dtype", [np.float32, np.float16], ids=dtype_id)
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("dtype", INTEGERS + SMALL_FLOATS, ids=dtype_id)
def test_dequantize_linear_like_onnxruntime(dtype, granularity, scale_dtype):
    for seed in SEEDS:
        inputs, attrs = dequantize_request(np.random.default_rng(seed), dtype, scale_dtype, granularity)
        expected = ort_run("DequantizeLinear", inputs, attrs, scale_dtype)
        assert_same(DEQUANTIZE.reference(inputs, attrs)["y"], expected)


@pytest.mark.parametrize("y_dtype", FORMATS)
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("dtype", [*INTEGERS, *SMALL_FLOATS, ml_dtypes.float4_e2m1fn], ids=dtype_id)
def test_dequantize_linear_exactly(dtype, granularity, y_dtype):
    scale_dtype = getattr(ml_dtypes, y_dtype, None) or np.dtype(y_dtype)
    inputs, attrs = dequantize_request(np.random.default_rng(4), dtype, scale_dtype, granularity)
    assert_same(DEQUANTIZE.reference(inputs, attrs)["y"], exact_dequantized(inputs, attrs, scale_dtype))


@pytest.mark.parametrize(("given", "wanted"), list(itertools.permutations(FORMATS, 2)))
def test_dequantize_linear_output_dtype(given, wanted):
    """The attribute as ONNX's number and as a name; the scale's own type does not round the product."""
    given_dtype, wanted_dtype = (np.dtype(getattr(ml_dtypes, name, None) or name) for name in (given, wanted))
    inputs, attrs = dequantize_request(np.random.default_rng(5), np.int16, given_dtype, "blocked")
    expected = exact_dequantized(inputs, attrs, wanted_dtype)
    number = onnx.helper.np_dtype_to_tensor_dtype(wanted_dtype)
    assert_same(DEQUANTIZE.reference(inputs, {**attrs, "output_dtype": number})["y"], expected)
    assert_same(DEQUANTIZE.reference(inputs, {**attrs, "output_dtype": wanted})["y"], expected)
    assert DEQUANTIZE.reference(inputs, {**attrs, "output_dtype": 0})["y"].dtype == given_dtype
    if "bfloat16" not in (given, wanted):
        assert_same(ort_run("DequantizeLinear", inputs, {**attrs, "output_dtype": number}, wanted_dtype), expected)


@pytest.mark.parametrize("y_dtype", FORMATS)
def test_dequantize_linear_all_e8m0_scales(y_dtype):
    """All 256 scales, 2^-127 (subnormal in float32) and NaN among them."""
    wanted = np.dtype(getattr(ml_dtypes, y_dtype, None) or y_dtype)
    inputs = {
        "x": codes(np.random.default_rng(6), ml_dtypes.float4_e2m1fn, (256, 3)),
        "x_scale": np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu).reshape(256, 1),
    }
    attrs = {"axis": 1, "block_size": 32, "output_dtype": int(onnx.helper.np_dtype_to_tensor_dtype(wanted))}
    assert_same(DEQUANTIZE.reference(inputs, attrs)["y"], exact_dequantized(inputs, attrs, wanted))


@pytest.mark.parametrize("y_dtype", FORMATS)
def test_dequantize_linear_any_scale_bits(y_dtype):
    """Scales of every exponent, NaN, infinities, both zeros, subnormals; products that overflow or vanish."""
    dtype, rng = np.dtype(getattr(ml_dtypes, y_dtype, None) or y_dtype), np.random.default_rng(7)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], dtype)
    tiny = np.arange(1, 6, dtype=f"u{dtype.itemsize}").view(dtype)
    inputs = {
        "x": rng.integers(-300, 300, (400, 5)).astype(np.int32),
        "x_scale": np.concatenate([special, tiny, codes(rng, dtype, (390,))]),
        "x_zero_point": rng.integers(-300, 300, 400).astype(np.int32),
    }
    assert_same(DEQUANTIZE.reference(inputs, {"axis": 0})["y"], exact_dequantized(inputs, {"axis": 0}, dtype))


@pytest.mark.parametrize("bits", range(0, 2**16, 2**14), ids=hex)
def test_dequantize_linear_rounds_every_halfway_point(bits):
    """float32 to bfloat16 at, just below and just above each of 65,536 midpoints, against integer rounding."""
    high = (np.arange(bits, bits + 2**14, dtype=np.uint32) << 16)[:, None]
    scale = (high | np.array([0x7FFF, 0x8000, 0x8001], np.uint32)).view(np.float32)
    words = scale.view(np.uint32).astype(np.uint64)
    expected = ((words + 0x7FFF + (words >> 16 & 1)) >> 16).astype(np.uint16).view(ml_dtypes.bfloat16)
    request = {"x": np.ones(scale.shape, np.int8), "x_scale": scale}, {"axis": 0, "block_size": 1, "output_dtype": 16}
    assert_same(
        DEQUANTIZE.reference(*request)["y"], np.where(np.isnan(scale), np.nan, expected).astype(ml_dtypes.bfloat16)
    )


def test_dequantize_linear_without_elements_or_axes():
    one = np.array([3], np.uint8)
    for x, scale, attrs in [
        (one.reshape(()), (), {}),
        (one.reshape(()), (1,), {}),
        (one, (), {"axis": 0}),
        (one, (1,), {"axis": 0, "block_size": 4}),
        (np.zeros((0, 3), np.uint8), (3,), {"axis": 1}),
        (np.zeros((2, 0), np.uint8), (0,), {"axis": 1}),
        (np.zeros((2, 0), np.uint8), (2, 0), {"axis": 1, "block_size": 4}),
        (np.zeros((0, 5), np.uint8), (0, 2), {"axis": -1, "block_size": 4}),
    ]:
        inputs = {"x": x, "x_scale": np.full(scale, 0.5, np.float32), "x_zero_point": np.full(scale, 4, np.uint8)}
        assert_same(DEQUANTIZE.reference(inputs, attrs)["y"], np.full(x.shape, -0.5, np.float32))


# ---- ConvInteger ----------------------------------------------------------------------------------------------------

BYTES = ("uint8", "int8")
MIXES = list(itertools.product(BYTES, BYTES))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("x_dtype", "w_dtype"), MIXES)
def test_conv_integer_like_onnxruntime(x_dtype, w_dtype, rank):
    seven_bits = saturating_operand("ConvInteger", x_dtype, w_dtype)
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        for _ in range(12):
            inputs, attrs = conv_request(rng, rank, x_dtype, w_dtype, per_channel=False, seven_bits=seven_bits)
            assert_same(CONV_INTEGER.reference(inputs, attrs)["y"], ort_run("ConvInteger", inputs, attrs, np.int32))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("x_dtype", "w_dtype"), MIXES)
def test_conv_integer_exactly(x_dtype, w_dtype, rank):
    rng = np.random.default_rng(rank)
    for absent in ((), ("x_zero_point",), ("w_zero_point",), ("x_zero_point", "w_zero_point")):
        inputs, attrs = conv_request(rng, rank, x_dtype, w_dtype, dilated_same=True)
        inputs = {name: array for name, array in inputs.items() if name not in absent}
        expected = exact_sums(inputs, attrs)
        assert_same(CONV_INTEGER.reference(inputs, attrs)["y"], expected.astype(np.int32))


def test_conv_integer_wraps():
    """33,026 products of 65,025 pass 2^31."""
    taps = 33_026
    inputs = {
        "x": np.full((1, 1, taps), 255, np.uint8),
        "w": np.full((2, 1, taps), 255, np.uint8),
        "w_zero_point": np.array([0, 1], np.uint8),
    }
    expected = np.array([[[wrapped(taps * 65_025)], [taps * 64_770]]], np.int32)
    assert expected[0, 0, 0] < 0
    assert_same(CONV_INTEGER.reference(inputs, {})["y"], expected)
    same_zero_points = {**inputs, "w_zero_point": np.array(0, np.uint8)}
    assert (ort_run("ConvInteger", same_zero_points, {}, np.int32) == expected[0, 0, 0]).all()


EMPTY = [
    pytest.param((0, 2, 5), (3, 2, 2), {}, (0, 3, 4), id="no_batch"),
    pytest.param((1, 2, 5), (0, 2, 2), {}, (1, 0, 4), id="no_output_channels"),
    pytest.param((1, 0, 5), (3, 0, 2), {}, (1, 3, 4), id="no_input_channels"),
    pytest.param((2, 0, 5), (4, 0, 2), {"group": 2}, (2, 4, 4), id="no_input_channels_in_groups"),
    pytest.param((1, 2, 2, 4), (3, 2, 3, 3), {}, (1, 3, 0, 2), id="no_rows"),
    pytest.param((1, 2, 0), (3, 2, 1), {"pads": [1, 1]}, (1, 3, 2), id="padding_alone"),
    pytest.param((1, 2, 0), (3, 2, 3), {"auto_pad": "SAME_UPPER"}, (1, 3, 0), id="same_of_nothing"),
]


@pytest.mark.parametrize(("x", "w", "attrs", "y"), EMPTY)
def test_conv_integer_of_nothing(x, w, attrs, y):
    inputs = {"x": np.full(x, 7, np.uint8), "w": np.full(w, -3, np.int8), "x_zero_point": np.array([9], np.uint8)}
    inputs["w_zero_point"] = np.full(w[0], 2, np.int8)
    assert_same(CONV_INTEGER.reference(inputs, attrs)["y"], np.zeros(y, np.int32))


# ---- QLinearConv ----------------------------------------------------------------------------------------------------

ORT_MIXES = (("uint8", "uint8", "uint8"), ("uint8", "int8", "uint8"), ("int8", "int8", "int8"))


@pytest.mark.parametrize("channels_last", [0, 1])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mix", ORT_MIXES, ids="-".join)
def test_qlinear_conv_like_onnxruntime(mix, rank, channels_last):
    seven_bits = saturating_operand("QLinearConv", *mix[:2])
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        for per_channel, bias in itertools.product((False, True), (False, True)):
            request, attrs = conv_request(rng, rank, *mix[:2], per_channel=per_channel, seven_bits=seven_bits)
            inputs = quantised(rng, request, mix[2], per_channel=per_channel, bias=bias)
            if channels_last:
                inputs["x"], attrs["channels_last"] = np.ascontiguousarray(np.moveaxis(inputs["x"], 1, -1)), 1
            assert_same(QLINEAR_CONV.reference(inputs, attrs)["y"], ort_run("QLinearConv", inputs, attrs, mix[2]))


@pytest.mark.parametrize("channels_last", [0, 1])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mix", [(*mix, y) for mix in MIXES for y in BYTES], ids="-".join)
def test_qlinear_conv_exactly(mix, rank, channels_last):
    rng = np.random.default_rng(8)
    for bias in (False, True):
        request, attrs = conv_request(rng, rank, *mix[:2], dilated_same=True)
        inputs = quantised(rng, request, mix[2], per_channel=True, bias=bias)
        if channels_last:
            inputs["x"], attrs["channels_last"] = np.moveaxis(inputs["x"], 1, -1), 1
        assert_same(QLINEAR_CONV.reference(inputs, attrs)["y"], exact_qlinear_conv(inputs, attrs))


def requantise_alone(acc, x_scale, w_scale, y_scale, y_zero_point, dtype):
    """QLinearConv of nothing but bias: acc int32[M], w_scale float32[M] give y [1, M, 1]."""
    inputs = {
        "x": np.zeros((1, 0, 1), np.uint8),
        "x_scale": np.float32([x_scale]),
        "x_zero_point": np.uint8([0]),
        "w": np.zeros((acc.size, 0, 1), np.int8),
        "w_scale": np.asarray(w_scale, np.float32),
        "w_zero_point": np.int8([0]),
        "y_scale": np.float32([y_scale]),
        "y_zero_point": np.array(y_zero_point, dtype),
        "B": acc,
    }
    return QLINEAR_CONV.reference(inputs, {})["y"].reshape(-1)


@pytest.mark.parametrize(
    ("x_scale", "w_scale", "y_scale"),
    [
        pytest.param(0.7, 0.05, 7.0, id="inexact_quotient"),
        pytest.param(0.5, 1.0, 1.0, id="ties"),
        pytest.param(4.0, 2.0, 3.0, id="above_1"),
        pytest.param(1e-22, 3e-20, 1e-40, id="subnormal_product"),
        pytest.param(3e-38, 1e-3, 1.3e-39, id="subnormal_everywhere"),
        pytest.param(2e19, 3e19, 1.0, id="products_overflow"),
        pytest.param(2e19, 3e18, 5e37, id="large_scales"),
        pytest.param(-0.3, 0.11, 0.9, id="negative"),
    ],
)
@pytest.mark.parametrize("dtype", BYTES)
def test_requantise_exactly(x_scale, w_scale, y_scale, dtype):
    """Sums near each rounding boundary, beyond 2^24 and at the ends of int32."""
    rng = np.random.default_rng(9)
    w_scales = np.float32(w_scale * rng.choice([1, 1, 0.77, 1.3], 400))
    multipliers = [exact_multiplier(np.float32(x_scale), s, np.float32(y_scale)) for s in w_scales]
    unit = abs(float(multipliers[0]))
    halves = (
        (rng.integers(-600, 600, 340) / 2 / unit + rng.integers(-2, 3, 340)) if 0 < unit < math.inf else np.zeros(340)
    )
    ends = rng.choice([2**31 - 1, -(2**31), 2**24 + 1, -(2**24) - 3, 2**25 + 6, 0, 1, -1], 60)
    acc = np.clip(np.concatenate([halves, ends]), -(2**31), 2**31 - 1).astype(np.int32)
    zero_point = 77 if dtype == "uint8" else -31
    expected = [exact_requantised(int(a), m, zero_point, dtype) for a, m in zip(acc, multipliers, strict=True)]
    actual = requantise_alone(acc, x_scale, w_scales, y_scale, zero_point, dtype)
    assert_same(actual, np.array(expected, dtype))


@pytest.mark.parametrize("y_scale", [0.0, -0.0, math.nan, math.inf, -math.inf, 1e-45])
@pytest.mark.parametrize("mix", ORT_MIXES, ids="-".join)
def test_qlinear_conv_without_a_finite_multiplier(mix, y_scale):
    inputs = {
        "x": np.array([[[5, 6, 4, 5, 7, 3, 5]]], mix[0]),
        "x_scale": np.array(0.5, np.float32),
        "x_zero_point": np.array(5, mix[0]),
        "w": np.ones((2, 1, 1), mix[1]),
        "w_scale": np.array([0.5, 0.25], np.float32),
        "w_zero_point": np.zeros(2, mix[1]),
        "y_scale": np.array(y_scale, np.float32),
        "y_zero_point": np.array(3, mix[2]),
    }
    y = QLINEAR_CONV.reference(inputs, {})["y"]
    assert_same(y, ort_run("QLinearConv", inputs, {}, mix[2]))
    assert not math.isnan(y_scale) or (y == np.iinfo(mix[2]).min).all()


@pytest.mark.parametrize(("x", "w", "attrs", "y"), EMPTY)
@pytest.mark.parametrize("channels_last", [0, 1])
def test_qlinear_conv_of_nothing(x, w, attrs, y, channels_last):
    """Where only padding or no channel is summed, y is its zero point."""
    inputs = {
        "x": np.full(x, 7, np.uint8),
        "x_scale": np.float32([0.5]),
        "x_zero_point": np.uint8([9]),
        "w": np.full(w, -3, np.int8),
        "w_scale": np.full(w[0], 0.5, np.float32),
        "w_zero_point": np.full(w[0], 2, np.int8),
        "y_scale": np.float32([2]),
        "y_zero_point": np.int8([-6]),
    }
    expected = np.full(y, -6, np.int8)
    if channels_last:
        inputs["x"], attrs, expected = (
            np.moveaxis(inputs["x"], 1, -1),
            {**attrs, "channels_last": 1},
            np.moveaxis(expected, 1, -1),
        )
    assert_same(QLINEAR_CONV.reference(inputs, attrs)["y"], expected)


def test_qlinear_conv_bias_wraps():
    acc = np.array([2**31 - 1, -(2**31), 5], np.int32)
    inputs = {
        "x": np.ones((1, 1, 1), np.uint8),
        "x_scale": np.float32(1),
        "x_zero_point": np.uint8(0),
        "w": np.array([1, -1, 1], np.int8).reshape(3, 1, 1),
        "w_scale": np.float32(1),
        "w_zero_point": np.int8(0),
        "y_scale": np.float32(1),
        "y_zero_point": np.uint8(100),
        "B": acc,
    }
    inputs = {name: np.asarray(array) for name, array in inputs.items()}
    assert QLINEAR_CONV.reference(inputs, {})["y"].reshape(-1).tolist() == [0, 255, 106]
    assert_same(QLINEAR_CONV.reference(inputs, {})["y"], ort_run("QLinearConv", inputs, {}, np.uint8))


# ---- inputs_of ------------------------------------------------------------------------------------------------------


def assert_only_these_matter(module, inputs, attrs, rng):
    """y[index] survives any change of the elements that inputs_of does not list, and all listed places exist."""
    y = module.reference(inputs, attrs)["y"]
    for flat in rng.choice(y.size, min(y.size, 6), replace=False):
        index = tuple(int(i) for i in np.unravel_index(flat, y.shape))
        listed = module.inputs_of(index, inputs, attrs)
        assert listed.keys() == inputs.keys()
        changed = {}
        for name, array in inputs.items():
            noise = codes(rng, array.dtype, array.shape)
            if "float" in array.dtype.name:
                noise = floats(rng, array.dtype, array.shape)
            for place in listed[name]:
                assert len(place) == array.ndim
                assert all(0 <= i < size for i, size in zip(place, array.shape, strict=True))
                noise[place] = array[place]
            changed[name] = noise
        assert_same(module.reference(changed, attrs)["y"][index], y[index])


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_inputs_of_dequantize_linear(granularity):
    rng = np.random.default_rng(10)
    assert_only_these_matter(DEQUANTIZE, *dequantize_request(rng, np.int16, np.float32, granularity), rng)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_inputs_of_convolutions(rank):
    rng = np.random.default_rng(rank)
    for per_channel, channels_last in itertools.product((False, True), (0, 1)):
        inputs, attrs = conv_request(rng, rank, "uint8", "int8", per_channel=per_channel)
        assert_only_these_matter(CONV_INTEGER, inputs, attrs, rng)
        inputs = quantised(rng, inputs, "int8", per_channel=per_channel, bias=True)
        inputs["x"] = np.moveaxis(inputs["x"], 1, -1) if channels_last else inputs["x"]
        assert_only_these_matter(QLINEAR_CONV, inputs, {**attrs, "channels_last": channels_last}, rng)


def test_inputs_of_leaves_the_padding_out():
    inputs = {"x": np.zeros((1, 2, 3), np.uint8), "w": np.zeros((1, 2, 3), np.uint8)}
    listed = CONV_INTEGER.inputs_of((0, 0, 0), inputs, {"pads": [2, 0]})
    assert listed == {"x": [(0, 0, 0), (0, 1, 0)], "w": [(0, 0, 2), (0, 1, 2)]}
