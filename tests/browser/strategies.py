"""Valid requests of the three operators, drawn by hypothesis: what the property test feeds to every variant.

Shapes stay small, geometry does not: pads larger than kernels, strides beyond inputs, groups, empty batches. Values
come from a seed and a flavour: any byte, the ends of the range alone, or all of one end.

Some variants take only sizes that fill whole tiles or words, which small odd shapes hardly ever do. A share of the
draws has such sizes, the smallest there are, so that every variant is drawn.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from kernel_lab.operators import dtypes
from kernel_lab.operators.cases import Case
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.requests import request_of

BYTES = (np.uint8, np.int8)
FLAVOURS = ("any", "ends", "high", "low")


@dataclass(frozen=True)
class Call:
    """One call of an operator; its repr is what hypothesis prints of the smallest failure."""

    operator: str
    inputs: Mapping[str, Array]
    attrs: Mapping[str, Any]

    @property
    def case(self) -> Case:
        """The same as a case, which planning takes."""
        return Case(self.operator, "drawn", request_of(self.operator, self.inputs, self.attrs), lambda: self.inputs)


def bytes_of(dtype: Any, shape: tuple[int, ...], seed: int, flavour: str = "any") -> Array:
    """Bytes of one flavour."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    random = np.random.default_rng(seed)
    if flavour == "any":
        return random.integers(low, high, shape, dtype, endpoint=True)
    if flavour == "ends":
        return random.choice(np.array([low, high], dtype), shape)
    return np.full(shape, high if flavour == "high" else low, dtype)


@st.composite
def geometry(draw: DrawFn) -> dict[str, Any]:
    """Spatial sizes, kernel, strides, dilations and padding of a convolution whose output is not negative."""
    rank = draw(st.sampled_from([1, 2, 2, 3]))
    most = {1: 24, 2: 9, 3: 5}[rank]
    pointwise = draw(st.booleans())
    kernel = [1 if pointwise else draw(st.integers(1, 4 if rank < 3 else 2)) for _ in range(rank)]
    spatial = [draw(st.integers(1, most)) for _ in range(rank)]
    attrs: dict[str, Any] = {}
    plain = pointwise and draw(st.booleans())
    if not plain:
        if draw(st.booleans()):
            attrs["strides"] = [draw(st.integers(1, 3)) for _ in range(rank)]
        if draw(st.booleans()):
            attrs["dilations"] = [draw(st.integers(1, 3)) for _ in range(rank)]
        padding = draw(st.sampled_from(["none", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"]))
        if padding == "pads":
            attrs["pads"] = [draw(st.integers(0, 3)) for _ in range(2 * rank)]
        elif padding != "none":
            attrs["auto_pad"] = padding
    if draw(st.booleans()):
        attrs["kernel_shape"] = kernel
    pads = attrs.get("pads", [0] * 2 * rank)
    if not attrs.get("auto_pad", "").startswith("SAME"):
        for axis in range(rank):  # grow what would be negative
            extent = (kernel[axis] - 1) * attrs.get("dilations", [1] * rank)[axis] + 1
            spatial[axis] = max(spatial[axis], extent - pads[axis] - pads[rank + axis])
    return {"spatial": spatial, "kernel": kernel, "attrs": attrs}


@st.composite
def channels(draw: DrawFn) -> tuple[int, int, int]:
    """group, channels per group, outputs per group: dense, grouped or depthwise."""
    kind = draw(st.sampled_from(["dense", "fours", "deep", "grouped", "depthwise"]))
    if kind == "dense":
        return 1, draw(st.integers(1, 19)), draw(st.integers(1, 19))
    if kind == "fours":
        return draw(st.sampled_from([1, 1, 2])), 4 * draw(st.integers(1, 8)), 4 * draw(st.integers(1, 8))
    if kind == "deep":  # around and beyond 258, where float32 sums of byte products stop being exact
        return 1, draw(st.sampled_from([255, 256, 257, 258, 259, 516])), draw(st.integers(1, 5))
    if kind == "grouped":
        return draw(st.integers(2, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 5))
    return draw(st.integers(2, 9)), 1, draw(st.integers(1, 2))


@st.composite
def small_sizes(draw: DrawFn) -> tuple[int, dict[str, Any], tuple[int, int, int]]:
    """Batch, geometry and channels of any kind."""
    shape, channel_counts = draw(geometry()), draw(channels())
    return draw(st.sampled_from([1, 1, 1, 2, 3, 0])), shape, channel_counts


@st.composite
def whole_tiles(draw: DrawFn) -> tuple[int, dict[str, Any], tuple[int, int, int]]:
    """The same where x and w fill tiles of 64 x 64 x 64 to the brim: one, or two along one axis."""
    depth, outputs, pixels = draw(st.sampled_from([(64, 64, 64), (128, 64, 64), (64, 128, 64), (64, 64, 128)]))
    spatial = draw(st.sampled_from([[pixels], [8, pixels // 8], [1, pixels], [pixels // 2, 2]]))
    kernel = [1] * len(spatial)
    attrs = {"kernel_shape": kernel} if draw(st.booleans()) else {}
    return draw(st.sampled_from([1, 1, 2])), {"spatial": spatial, "kernel": kernel, "attrs": attrs}, (1, depth, outputs)


Sizes = SearchStrategy[tuple[int, dict[str, Any], tuple[int, int, int]]]


@st.composite
def integer_convolution(
    draw: DrawFn, sizes: Sizes, channels_last: bool = False
) -> tuple[dict[str, Array], dict[str, Any], int]:
    """x, w and both zero points, the attributes, and M."""
    batch, shape, (group, of_group, per_group) = draw(sizes)
    seed, flavour = draw(st.integers(0, 2**16)), draw(st.sampled_from(FLAVOURS))
    x_dtype, w_dtype = draw(st.sampled_from(BYTES)), draw(st.sampled_from(BYTES))
    count, outputs = group * of_group, group * per_group
    x_shape = (batch, *shape["spatial"], count) if channels_last else (batch, count, *shape["spatial"])
    w_shape = (outputs, of_group, *shape["kernel"])
    attrs = {**shape["attrs"], **({"group": group} if group > 1 or draw(st.booleans()) else {})}
    one = st.sampled_from([(), (1,)])
    inputs = {
        "x": bytes_of(x_dtype, x_shape, seed, flavour),
        "w": bytes_of(w_dtype, w_shape, seed + 1, draw(st.sampled_from(FLAVOURS))),
        "x_zero_point": bytes_of(x_dtype, draw(one), seed + 2),
        "w_zero_point": bytes_of(w_dtype, draw(st.one_of(one, st.just((outputs,)))), seed + 3),
    }
    return inputs, attrs, outputs


X_ZERO, W_ZERO = "x_zero_point", "w_zero_point"
ABSENT = ((), (), (X_ZERO,), (X_ZERO,), (W_ZERO,), (X_ZERO, W_ZERO))
"""Twice where w's zero point may be one or one for each filter, so that each of the six kinds is drawn as often."""


@st.composite
def conv_integer(draw: DrawFn) -> Call:
    whole = draw(st.sampled_from([False, False, False, True]))
    inputs, attrs, _ = draw(integer_convolution(whole_tiles() if whole else small_sizes()))
    for role in draw(st.sampled_from(ABSENT)):
        del inputs[role]
    return Call("ai.onnx.ConvInteger", inputs, attrs)


@st.composite
def qlinear_conv(draw: DrawFn) -> Call:
    channels_last = draw(st.booleans())
    inputs, attrs, outputs = draw(integer_convolution(small_sizes(), channels_last))
    if channels_last or draw(st.booleans()):
        attrs["channels_last"] = int(channels_last)
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    one = st.sampled_from([(), (1,)])
    w_scale_shape = draw(st.one_of(one, st.just((outputs,))))
    # y_scale near x_scale * w_scale * sqrt(K) * 64 keeps most outputs off both ends; a wide factor reaches them
    terms = max(inputs["w"][0].size, 1) if outputs else 1
    w_scale = random.uniform(0.001, 0.1, w_scale_shape).astype(np.float32)
    x_scale = random.uniform(0.001, 0.1, draw(one)).astype(np.float32)
    wide = draw(st.sampled_from([1.0, 1.0, 0.01, 100.0]))
    y_scale = np.full(draw(one), float(x_scale.max() * w_scale.max()) * terms**0.5 * 64 * wide, np.float32)
    y_dtype = draw(st.sampled_from(BYTES))
    inputs |= {
        "x_scale": x_scale,
        "w_scale": w_scale,
        "y_scale": y_scale,
        "y_zero_point": bytes_of(y_dtype, draw(one), draw(st.integers(0, 99))),
    }
    if draw(st.booleans()):
        inputs["B"] = random.integers(-(2**16), 2**16, outputs, np.int32)
    return Call("com.microsoft.QLinearConv", inputs, attrs)


NOT_QUANTISED = ("float32", "float16", "bfloat16", "uint32", "float8e8m0")
X_TYPES = tuple(name for name in dtypes.DTYPES if name not in NOT_QUANTISED)
SCALE_TYPES = ("float32", "float16", "bfloat16", "float8e8m0")
OUTPUT_TYPES = ("float32", "float16", "bfloat16")


def codes_of(dtype: dtypes.DType, shape: tuple[int, ...], seed: int) -> Array:
    """Any bit pattern of that dtype."""
    random = np.random.default_rng(seed)
    kind = {8: np.uint8, 16: np.uint16, 32: np.uint32}[max(dtype.bits, 8)]
    codes = random.integers(0, 2**dtype.bits, dtypes.numel(shape), np.uint64).astype(kind)
    return dtypes.from_codes(codes, dtype, shape)


@st.composite
def dequantize_linear(draw: DrawFn) -> Call:
    x_type = dtypes.named(draw(st.sampled_from(X_TYPES)))
    scale_type = dtypes.named(draw(st.sampled_from(SCALE_TYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 9), min_size=0, max_size=4)))
    whole_words = draw(st.booleans()) and len(shape) > 0
    if whole_words:  # the four words of y that one invocation may write hold four or eight elements
        shape = (*shape[:-1], 8 * draw(st.integers(1, 3)))
    attrs: dict[str, Any] = {}
    kinds = ["tensor"] + (["axis", "blocked", "blocked"] if shape else [])
    granularity = draw(st.sampled_from(kinds))
    scale_shape: tuple[int, ...] = draw(st.sampled_from([(), (1,)]))
    if granularity != "tensor":
        axis = draw(st.integers(0, len(shape) - 1))
        attrs["axis"] = draw(st.sampled_from([axis, axis - len(shape)]))
        scale_shape = (shape[axis],)
        if granularity == "blocked":
            unit = 4 if whole_words and axis == len(shape) - 1 else 1
            attrs["block_size"] = block = unit * draw(st.integers(1, max(shape[axis] // unit, 1)))
            scale_shape = (*shape[:axis], -(-shape[axis] // block), *shape[axis + 1 :])
        elif scale_shape == (1,):
            del attrs["axis"]  # one element is per tensor, whatever the axis
    if scale_type.name == "float8e8m0" or draw(st.booleans()):
        attrs["output_dtype"] = dtypes.named(draw(st.sampled_from(OUTPUT_TYPES))).code
    seed = draw(st.integers(0, 2**16))
    scale = codes_of(scale_type, scale_shape, seed + 1)
    if draw(st.booleans()):  # ordinary scales instead of any pattern
        scale = np.random.default_rng(seed).uniform(-2, 2, scale_shape).astype(np.float32).astype(scale_type.numpy)
    inputs = {"x": codes_of(x_type, shape, seed), "x_scale": scale}
    if draw(st.booleans()):
        zero_point = codes_of(x_type, scale_shape, seed + 2)
        inputs["x_zero_point"] = zero_point if not x_type.is_float else np.zeros(scale_shape, x_type.numpy)
    return Call("ai.onnx.DequantizeLinear", inputs, attrs)


STRATEGIES: dict[str, SearchStrategy[Call]] = {
    "ai.onnx.ConvInteger": conv_integer(),
    "ai.onnx.DequantizeLinear": dequantize_linear(),
    "com.microsoft.QLinearConv": qlinear_conv(),
}
