"""What a convolution gives on a CPU that adds pairs of products in 16 bits: an oracle's fault, to be told from ours.

AVX2's vpmaddubsw multiplies unsigned bytes by signed ones and adds neighbouring products with saturation at int16.
ONNX Runtime uses it on machines without VNNI wherever one operand is uint8 and the other int8: it takes raw bytes,
pairs along the taps of one output, and corrects for zero points afterwards. Taps are ordered (C, k…) where it
multiplies weights by columns, (k…, C) where it multiplies pixels by weights.

In: inputs by role (`x`, `w`, their zero points …), attributes, the operator's reference for what follows the sum.
Out: y for each order of taps. Numpy only; slow, and called only when the oracle and the reference disagree.
"""

import math
from collections.abc import Iterator, Mapping

import numpy as np

from kernel_lab.operators.cases import Tensors
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.references import Compute
from kernel_lab.operators.requests import Attribute

LOWEST, HIGHEST = -(2**15), 2**15 - 1


def outputs(inputs: Tensors, attrs: Mapping[str, Attribute], reference: Compute) -> Iterator[Array]:
    """y with saturated pairs, once per order of taps; nothing where no pair can saturate."""
    if "w" not in inputs or {inputs["x"].dtype, inputs["w"].dtype} != {np.dtype(np.uint8), np.dtype(np.int8)}:
        return
    last = bool(attrs.get("channels_last", 0))
    x = np.moveaxis(inputs["x"], -1, 1) if last else inputs["x"]
    columns, spatial = _columns(x, inputs["w"], _zero_points(inputs, "x")[0], attrs)
    for channels_inside in (False, True):
        acc = _sums(columns, inputs, channels_inside).reshape(x.shape[0], inputs["w"].shape[0], *spatial)
        y = _after_the_sum(acc, inputs, reference)
        yield np.moveaxis(y, 1, -1) if last else y


def _zero_points(inputs: Tensors, operand: str) -> Array:
    """int64[1] or [M]; absent means 0."""
    given = inputs.get(f"{operand}_zero_point")
    return np.zeros(1, np.int64) if given is None else given.astype(np.int64).reshape(-1)


def _columns(x: Array, w: Array, padding: int, attrs: Mapping[str, Attribute]) -> tuple[Array, tuple[int, ...]]:
    """int32[N, group, C / group, taps of the kernel, outputs], and the outputs' shape. Padding holds x's zero point."""
    rank = x.ndim - 2
    kernel = w.shape[2:]
    strides, dilations = (_ints(attrs.get(key), rank) for key in ("strides", "dilations"))
    pads = _pads(x.shape[2:], kernel, strides, dilations, attrs)
    x = np.pad(x.astype(np.int32), [(0, 0), (0, 0), *pads], constant_values=padding)
    for axis in range(rank):  # axis 2 + axis becomes two: taps, then outputs
        extent = dilations[axis] * (kernel[axis] - 1) + 1
        count = (x.shape[2 + 2 * axis] - extent) // strides[axis] + 1
        at = np.arange(kernel[axis])[:, None] * dilations[axis] + np.arange(count) * strides[axis]
        x = np.take(x, at, axis=2 + 2 * axis)
    spatial = x.shape[3::2]
    x = x.transpose(0, 1, *range(2, x.ndim, 2), *range(3, x.ndim, 2))
    group = x.shape[1] // w.shape[1]
    return x.reshape(x.shape[0], group, w.shape[1], math.prod(kernel), math.prod(spatial)), spatial


def _ints(value: Attribute, rank: int) -> list[int]:
    return value if isinstance(value, list) else [1] * rank


def _pads(
    sizes: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: list[int],
    dilations: list[int],
    attrs: Mapping[str, Attribute],
) -> list[tuple[int, int]]:
    """(begin, end) of each spatial axis, auto_pad resolved."""
    mode = str(attrs.get("auto_pad", "NOTSET"))
    if not mode.startswith("SAME"):
        given = attrs.get("pads")
        flat = given if isinstance(given, list) and mode == "NOTSET" else [0] * 2 * len(sizes)
        return list(zip(flat[: len(sizes)], flat[len(sizes) :], strict=True))
    pads = []
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        missing = max((-(-size // stride) - 1) * stride + dilation * (k - 1) + 1 - size, 0)
        small, large = missing // 2, missing - missing // 2
        pads.append((small, large) if mode == "SAME_UPPER" else (large, small))
    return pads


def _sums(columns: Array, inputs: Tensors, channels_inside: bool) -> Array:
    """int32[N, M, outputs]: saturated sums of pairs of raw products, corrected for the zero points; wraps."""
    N, group, C, taps, count = columns.shape
    w: Array = inputs["w"].astype(np.int32).reshape(group, -1, C, taps)
    if channels_inside:
        columns, w = columns.swapaxes(2, 3), w.swapaxes(2, 3)
    columns, w = columns.reshape(N, group, C * taps, count), w.reshape(group, -1, C * taps)
    acc: Array = np.zeros((N, group, w.shape[1], count), np.int64)
    for k in range(0, C * taps, 2):
        pair = np.einsum("gmk,ngko->ngmo", w[:, :, k : k + 2], columns[:, :, k : k + 2])
        acc += np.clip(pair, LOWEST, HIGHEST)
    x_zero, w_zero = _zero_points(inputs, "x")[0], _zero_points(inputs, "w")
    w_zero = np.broadcast_to(w_zero, inputs["w"].shape[0]).reshape(group, -1, 1)
    acc -= w_zero * columns.sum(axis=2, dtype=np.int64)[:, :, None]
    acc += x_zero * (C * taps * w_zero - w.sum(axis=2, dtype=np.int64)[:, :, None])
    return acc.astype(np.int32).reshape(N, -1, count)


def _after_the_sum(acc: Array, inputs: Tensors, reference: Compute) -> Array:
    """y of the sums int32[N, M, …]. What the operator does with a sum, its reference does: each sum becomes the bias of
    an output channel of its own, over an input that is all zero point."""
    if "y_scale" not in inputs:
        return acc
    M = acc.shape[1]
    per_channel = [1, M, *[1] * (acc.ndim - 2)]

    def spread(array: Array) -> Array:
        """One element, or one per channel, to one per sum."""
        return np.broadcast_to(array.reshape(per_channel if array.size == M else -1), acc.shape).reshape(-1)

    with np.errstate(over="ignore"):
        bias = acc + spread(inputs["B"]).reshape(acc.shape) if "B" in inputs else acc
    one_each = {
        **inputs,
        "x": inputs["x_zero_point"].reshape(1, 1, 1),
        "w": np.zeros((acc.size, 1, 1), inputs["w"].dtype),
        "w_scale": spread(inputs["w_scale"]),
        "B": bias.reshape(-1),
    }
    one_each["w_zero_point"] = np.zeros((), inputs["w"].dtype)
    y: Array = reference(one_each, {})["y"]
    return y.reshape(acc.shape)
