"""ConvInteger in numpy: what every kernel of this folder must return, to the bit.

    y[n, m, o] = sum over c and k of (x[n, c, o * stride + k * dilation - pad] - x_zero_point)
                                   * (w[m, c, k] - w_zero_point[m])

Rule: https://onnx.ai/onnx/operators/onnx__ConvInteger.html (opset 10). Its text forbids sums beyond int32; like ONNX
Runtime, this one wraps. A tap in the padding adds 0: padding stands for x_zero_point, not for the byte 0.

In    x             uint8 or int8 [N, C, D1, ..., Dn], n = 1, 2 or 3
      w             uint8 or int8 [M, C / group, k1, ..., kn]
      x_zero_point  x's dtype, [] or [1]; absent means 0
      w_zero_point  w's dtype, [], [1] or [M]; absent means 0
Attrs auto_pad ("NOTSET"), dilations, group (1), kernel_shape, pads, strides
Out   y             int32 [N, M, o1, ..., on]

The sums are float64 matrix products over gathered columns (im2col): exact below 2^53, and much faster than int32.
Assumes a valid request: refusals are decided before a reference is asked.
"""

import math
from typing import NamedTuple

import numpy as np

# ---- the operator, in steps that a mistake can replace --------------------------------------------------------------


class Axis(NamedTuple):
    """One spatial axis, counted in elements; begin and end are its padding."""

    size: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int

    def outputs(self):
        return (self.begin + self.size + self.end - self.dilation * (self.kernel - 1) - 1) // self.stride + 1


def axes_of(x, w, attrs):
    """One Axis for each spatial dimension, with auto_pad resolved."""
    rank, auto_pad = x.ndim - 2, attrs.get("auto_pad", "NOTSET")
    ones, pads = [1] * rank, attrs.get("pads", [0] * 2 * rank)
    axes = map(
        Axis, x.shape[2:], w.shape[2:], attrs.get("strides", ones), attrs.get("dilations", ones), pads, pads[rank:]
    )
    return [same(axis, auto_pad) if auto_pad.startswith("SAME") else axis for axis in axes]


def same(axis, auto_pad):
    """Padding for ceil(size / stride) outputs; an odd element goes to the end (SAME_UPPER) or the beginning."""
    missing = (-(-axis.size // axis.stride) - 1) * axis.stride + axis.dilation * (axis.kernel - 1) + 1 - axis.size
    small, large = max(missing, 0) // 2, (max(missing, 0) + 1) // 2
    return axis._replace(begin=small, end=large) if auto_pad == "SAME_UPPER" else axis._replace(begin=large, end=small)


def positions(axis, outputs):
    """int[outputs, kernel]: where each tap reads along the axis; -1 is the padding."""
    at = np.arange(outputs)[:, None] * axis.stride + np.arange(axis.kernel) * axis.dilation - axis.begin
    return np.where((at >= 0) & (at < axis.size), at, -1)


def centre(values, zero_point):
    """int16: values - zero_point; a vector of zero points lies along the first axis."""
    zero_point = zero_point.reshape(()) if zero_point.size == 1 else zero_point.reshape(-1, *[1] * (values.ndim - 1))
    return values.astype(np.int16) - zero_point.astype(np.int16)


def channels_read(g, x, w, attrs):
    """The input channels that group g reads."""
    return g * w.shape[1] + np.arange(w.shape[1])


def columns(image, tables, padding):
    """float64[C * k1 * ... * kn, o1 * ... * on]: what each tap of each output reads from image [C, D1, ..., Dn]."""
    image = np.pad(image, [(0, 0)] + [(0, 1)] * len(tables), constant_values=padding)  # position -1
    for d, table in enumerate(tables):
        image = np.take(image, table.T, axis=1 + 2 * d)  # [C, k1, o1, D2, ...], then [C, k1, o1, k2, o2, D3, ...]
    taps_first = image.transpose(0, *range(1, image.ndim, 2), *range(2, image.ndim, 2))
    kernel, outputs = [t.shape[1] for t in tables], [t.shape[0] for t in tables]
    return taps_first.reshape(image.shape[0] * math.prod(kernel), math.prod(outputs)).astype(np.float64)


def total(weights, columns):
    """float64[M / group, outputs] of weights float64[M / group, taps] and columns float64[taps, outputs]."""
    return weights @ columns


def narrow(totals):
    """int32, wrapping."""
    return totals.astype(np.int64).astype(np.int32)


def reference(
    inputs,
    attrs,
    *,
    centre_x=centre,
    centre_w=centre,
    see=lambda axes, attrs: axes,
    pad=lambda zero_point: 0,
    channels_read=channels_read,
    total=total,
    narrow=narrow,
):
    """{"y": int32[N, M, o1, ..., on]}. The keywords are there for MISTAKES."""
    x, w = inputs["x"], inputs["w"]
    N, M, group = x.shape[0], w.shape[0], attrs.get("group", 1)
    x_zero_point = inputs.get("x_zero_point", np.zeros((), x.dtype))
    w_zero_point = inputs.get("w_zero_point", np.zeros((), w.dtype))
    axes = axes_of(x, w, attrs)
    outputs = [axis.outputs() for axis in axes]
    tables = [positions(seen, count) for seen, count in zip(see(axes, attrs), outputs, strict=True)]
    padding = pad(int(x_zero_point.reshape(())))
    images = centre_x(x, x_zero_point)
    weights = centre_w(w, w_zero_point).astype(np.float64).reshape(group, M // group, math.prod(w.shape[1:]))
    y = np.empty((N, group, M // group, math.prod(outputs)), np.int32)
    for n, g in np.ndindex(N, group):
        taps = columns(images[n, channels_read(g, x, w, attrs)], tables, padding)
        y[n, g] = narrow(total(weights[g], taps))
    return {"y": y.reshape(N, M, *outputs)}


def inputs_of(index, inputs, attrs):
    """The elements of each input that y[index] is made of, by input name; taps in the padding are left out."""
    x, w = inputs["x"], inputs["w"]
    n, m, *outputs = index
    axes = axes_of(x, w, attrs)
    rows = [positions(axis, axis.outputs())[o] for axis, o in zip(axes, outputs, strict=True)]
    taps = [k for k in np.ndindex(*w.shape[2:]) if all(row[i] >= 0 for row, i in zip(rows, k, strict=True))]
    channels = channels_read(m // (w.shape[0] // attrs.get("group", 1)), x, w, attrs).tolist()
    elements = {
        "x": [(n, c, *(int(row[i]) for row, i in zip(rows, k, strict=True))) for c in channels for k in taps],
        "w": [(m, c, *k) for c in range(w.shape[1]) for k in taps],
    }
    for name in ("x_zero_point", "w_zero_point"):
        if name in inputs:
            elements[name] = [(0,) * inputs[name].ndim if inputs[name].size == 1 else (m,)]
    return elements


def taps_of(index, inputs, attrs):
    """Every tap of y[index], those in the padding too: its place in w, and in x (None: padding)."""
    x, w = inputs["x"], inputs["w"]
    n, m, *outputs = index
    axes = axes_of(x, w, attrs)
    rows = [positions(axis, axis.outputs())[o] for axis, o in zip(axes, outputs, strict=True)]
    for c, channel in enumerate(channels_read(m // (w.shape[0] // attrs.get("group", 1)), x, w, attrs).tolist()):
        for k in np.ndindex(*w.shape[2:]):
            place = [int(row[i]) for row, i in zip(rows, k, strict=True)]
            yield (m, c, *k), None if -1 in place else (n, channel, *place)


def steps_of(index, inputs, attrs):
    """The sum of y[index], tap by tap."""
    x_zero = int(inputs.get("x_zero_point", np.zeros(1, np.int8)).reshape(-1)[0])
    w_zeros = inputs.get("w_zero_point", np.zeros(1, np.int8)).reshape(-1)
    w_zero = int(w_zeros[index[1] if w_zeros.size > 1 else 0])
    rows, total = [], 0
    for w_at, x_at in taps_of(index, inputs, attrs):
        w_value = int(inputs["w"][w_at])
        x_value = x_zero if x_at is None else int(inputs["x"][x_at])
        product = (x_value - x_zero) * (w_value - w_zero)
        total += product
        place = "padding" if x_at is None else f"x{list(x_at)}"
        rows.append([place, x_value, x_value - x_zero, f"w{list(w_at)}", w_value, w_value - w_zero, product, total])
    columns = ["x at", "x", f"x - {x_zero}", "w at", "w", f"w - {w_zero}", "product", "sum"]
    return {"columns": columns, "rows": rows, "then": [f"int32({total}) = {int(narrow(np.array([float(total)]))[0])}"]}


# ---- what passes leave in intermediates -----------------------------------------------------------------------------


def windows(inputs, attrs):
    """x's dtype [n, g, o, c, k]: what tap k of input channel c of group g reads of image n for output pixel o; x as it
    is, x_zero_point in the padding; o and k are row-major.
    """
    x, w, group = inputs["x"], inputs["w"], attrs.get("group", 1)
    axes = axes_of(x, w, attrs)
    tables = [positions(axis, axis.outputs()) for axis in axes]
    padding = int(inputs.get("x_zero_point", np.zeros((), x.dtype)).reshape(()))
    sizes = (w.shape[1], math.prod(w.shape[2:]), math.prod(axis.outputs() for axis in axes))
    found = np.empty((x.shape[0], group, sizes[2], *sizes[:2]), x.dtype)
    for n, g in np.ndindex(x.shape[0], group):
        taps = columns(x[n, channels_read(g, x, w, attrs)], tables, padding)
        found[n, g] = np.moveaxis(taps.reshape(sizes), -1, 0)
    return found


INTERMEDIATES = {"windows": {"of": windows, "axes": "n g o c k"}}


# ---- deliberate mistakes --------------------------------------------------------------------------------------------


def mistaken(**steps):
    """The operator with some of its steps replaced."""
    return lambda inputs, attrs: reference(inputs, attrs, **steps)


def sees(change):
    """Each axis misread as change(axis, the axis at the mirrored place); the output keeps its size."""
    return mistaken(see=lambda axes, attrs: [change(*pair) for pair in zip(axes, reversed(axes), strict=True)])


def pads_as_pairs(axes, attrs):
    """[begin, begin, ..., end, end, ...] read as [begin, end, begin, end, ...]."""
    pads = [axis.begin for axis in axes] + [axis.end for axis in axes]
    return [axis._replace(begin=begin) for axis, begin in zip(axes, pads[::2], strict=True)]


def same_without_dilation(axes, attrs):
    if not attrs.get("auto_pad", "").startswith("SAME"):
        return axes
    return [axis._replace(begin=same(axis._replace(dilation=1), attrs["auto_pad"]).begin) for axis in axes]


def same_lower_as_upper(inputs, attrs):
    return reference(inputs, {**attrs, "auto_pad": attrs.get("auto_pad", "NOTSET").replace("LOWER", "UPPER")})


def centres(change):
    """x and w both centred by change(values, zero_point)."""
    return mistaken(centre_x=change, centre_w=change)


def weights(change):
    """The centred weights int16[M, C / group, k1, ..., kn] replaced by change(weights)."""
    return mistaken(centre_w=lambda w, zero_point: change(centre(w, zero_point)))


def w_zero_point_by_input_channel(w, zero_point):
    return centre(w.swapaxes(0, 1), np.resize(zero_point, w.shape[1])).swapaxes(0, 1)


def channel_tail_dropped(weights):
    channels = weights.shape[1]
    kept = np.arange(channels) < (channels // 4 * 4 if channels >= 4 else channels)
    return weights * kept.reshape(-1, *[1] * (weights.ndim - 2))


def pairs_saturate(weights, columns):
    products = weights[:, :, None] * columns
    pairs = np.add.reduceat(products, np.arange(0, products.shape[1], 2), axis=1)
    return np.clip(pairs, -(2**15), 2**15 - 1).sum(axis=1)


MISTAKES = {
    "x_zero_point_ignored": mistaken(centre_x=lambda x, zero_point: x.astype(np.int16)),
    "w_zero_point_ignored": mistaken(centre_w=lambda w, zero_point: w.astype(np.int16)),
    "first_w_zero_point_everywhere": mistaken(centre_w=lambda w, zero_point: centre(w, zero_point.reshape(-1)[:1])),
    "w_zero_point_by_input_channel": mistaken(centre_w=w_zero_point_by_input_channel),
    "unsigned_difference": centres(lambda values, zero_point: centre(values, zero_point) & 255),
    "difference_in_8_bits": centres(lambda values, zero_point: centre(values, zero_point).astype(np.int8)),
    "int8_as_uint8": centres(lambda values, zero_point: centre(values.view(np.uint8), zero_point.view(np.uint8))),
    "padding_is_raw_zero": mistaken(pad=lambda zero_point: -zero_point),
    "padding_of_the_other_sign": mistaken(pad=lambda zero_point: zero_point % 256 - zero_point),
    "swapped_pads": sees(lambda axis, other: axis._replace(begin=axis.end)),
    "pads_as_pairs": mistaken(see=pads_as_pairs),
    "begin_pads_ignored": sees(lambda axis, other: axis._replace(begin=0)),
    "same_lower_as_upper": same_lower_as_upper,
    "same_without_dilation": mistaken(see=same_without_dilation),
    "swapped_stride_axes": sees(lambda axis, other: axis._replace(stride=other.stride)),
    "strides_ignored": sees(lambda axis, other: axis._replace(stride=1)),
    "swapped_dilation_axes": sees(lambda axis, other: axis._replace(dilation=other.dilation)),
    "dilations_ignored": sees(lambda axis, other: axis._replace(dilation=1)),
    "kernel_flipped": weights(lambda w: np.flip(w, tuple(range(2, w.ndim)))),
    "kernel_transposed": weights(lambda w: w.transpose(0, 1, *range(w.ndim - 1, 1, -1)).reshape(w.shape)),
    "every_group_reads_the_first": mistaken(channels_read=lambda g, x, w, attrs: np.arange(w.shape[1])),
    "groups_by_output_channels": mistaken(
        channels_read=lambda g, x, w, attrs: (
            (g * w.shape[0] // attrs.get("group", 1) + np.arange(w.shape[1])) % x.shape[1]
        )
    ),
    "channel_tail_dropped": weights(channel_tail_dropped),
    "pairs_saturate_at_16_bits": mistaken(total=pairs_saturate),
    "sums_in_f16": mistaken(total=lambda w, x: np.float16(np.clip(total(w, x), -65504, 65504))),
    "sums_in_f32": mistaken(total=lambda w, x: np.float32(total(w, x))),
    "int32_saturates": mistaken(narrow=lambda totals: np.clip(totals, -(2**31), 2**31 - 1)),
}
