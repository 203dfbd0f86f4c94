"""QLinearConv in numpy: what every kernel of this folder must return, to the bit.

    acc[n, m, o] = B[m] + sum over c and k of (x[n, c, o * stride + k * dilation - pad] - x_zero_point)
                                            * (w[m, c, k] - w_zero_point[m])
    y            = clip(rint(f32(acc) * (x_scale * w_scale[m] / y_scale)) + y_zero_point)

Rule: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearConv and
https://onnx.ai/onnx/operators/onnx__QLinearConv.html (opset 10, without channels_last). Neither says how to round. As
in ONNX Runtime, each product and the quotient is rounded to float32, rint is half to even, the zero point goes on after
rounding, and clip keeps to y's type. acc is int32 and wraps. A tap in the padding adds 0: padding is x_zero_point.

In    x             uint8 or int8 [N, C, D1, ..., Dn], or [N, D1, ..., Dn, C] with channels_last; n = 1, 2 or 3
      w             uint8 or int8 [M, C / group, k1, ..., kn] in both layouts
      x_zero_point, y_zero_point, x_scale, y_scale   [] or [1]; zero points of x's and y's dtype, scales float32
      w_zero_point, w_scale                          [], [1] or [M]; w's dtype, float32
      B             int32 [M]; absent means 0
Attrs auto_pad ("NOTSET"), channels_last (0), dilations, group (1), kernel_shape, pads, strides
Out   y             y_zero_point's dtype (uint8 or int8), [N, M, o1, ..., on] or [N, o1, ..., on, M]

Multipliers that are not finite are defined too: an infinite product saturates, and NaN (a NaN scale, or a sum of 0
times infinity) gives the smallest value of y's type. So does ONNX Runtime 1.32 on x86-64: with y_scale 0, -0, NaN,
infinity, -infinity and 1e-45 it gave these bytes for u8 u8 u8 and u8 i8 u8 (NaN: 0) and for i8 i8 i8 (NaN: -128).

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


def narrow(totals, bias):
    """int32, wrapping; bias is int32[M / group, 1]."""
    return (totals.astype(np.int64) + bias).astype(np.int32)


def scale(acc, x_scale, w_scale, y_scale):
    """float32: acc int32[M, outputs] in units of y_scale; x_scale and y_scale float32[1], w_scale float32[1] or [M]."""
    return acc.astype(np.float32) * (x_scale * w_scale / y_scale)[:, np.newaxis]


def shift(scaled, zero_point):
    """float32: whole numbers, the zero point added."""
    return np.rint(scaled) + zero_point


def saturate(shifted, dtype):
    """Clipped to the type; NaN becomes its smallest value."""
    lowest, highest = np.iinfo(dtype).min, np.iinfo(dtype).max
    return np.where(np.isnan(shifted), lowest, np.clip(shifted, lowest, highest)).astype(dtype)


def accumulate(
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
    """acc int32[N, M, o1 * ... * on]. The keywords are there for MISTAKES."""
    x, w = channels_first(inputs["x"], attrs), inputs["w"]
    N, M, group = x.shape[0], w.shape[0], attrs.get("group", 1)
    axes = axes_of(x, w, attrs)
    outputs = [axis.outputs() for axis in axes]
    tables = [positions(seen, count) for seen, count in zip(see(axes, attrs), outputs, strict=True)]
    padding = pad(int(inputs["x_zero_point"].reshape(())))
    images = centre_x(x, inputs["x_zero_point"])
    weights = centre_w(w, inputs["w_zero_point"]).astype(np.float64).reshape(group, M // group, math.prod(w.shape[1:]))
    bias = inputs.get("B", np.zeros(M, np.int32)).reshape(group, M // group, 1)
    acc = np.empty((N, group, M // group, math.prod(outputs)), np.int32)
    for n, g in np.ndindex(N, group):
        taps = columns(images[n, channels_read(g, x, w, attrs)], tables, padding)
        acc[n, g] = narrow(total(weights[g], taps), bias[g])
    return acc.reshape(N, M, math.prod(outputs))


def reference(inputs, attrs, *, scale=scale, shift=shift, saturate=saturate, **steps):
    """{"y": uint8 or int8}. The keywords, and those of `accumulate`, are there for MISTAKES."""
    acc = accumulate(inputs, attrs, **steps)
    scales = [inputs[name].reshape(-1) for name in ("x_scale", "w_scale", "y_scale")]
    y_zero_point = inputs["y_zero_point"].reshape(())
    with np.errstate(all="ignore"):
        scaled = scale(acc, *scales)
        y = saturate(shift(scaled, y_zero_point.astype(np.float32)), y_zero_point.dtype)
    return {"y": in_layout_of_y(y, inputs, attrs)}


def in_layout_of_y(values, inputs, attrs):
    """[N, M, o1 * ... * on] with an axis for each spatial dimension, channels where attrs says."""
    x, w = channels_first(inputs["x"], attrs), inputs["w"]
    values = values.reshape(*values.shape[:2], *(axis.outputs() for axis in axes_of(x, w, attrs)))
    return np.ascontiguousarray(np.moveaxis(values, 1, -1)) if attrs.get("channels_last", 0) else values


def channels_first(x, attrs):
    return np.moveaxis(x, -1, 1) if attrs.get("channels_last", 0) else x


def inputs_of(index, inputs, attrs):
    """The elements of each input that y[index] is made of, by input name; taps in the padding are left out."""
    x, w, last = channels_first(inputs["x"], attrs), inputs["w"], attrs.get("channels_last", 0)
    (n, *outputs, m) = index if last else (index[0], *index[2:], index[1])
    axes = axes_of(x, w, attrs)
    rows = [positions(axis, axis.outputs())[o] for axis, o in zip(axes, outputs, strict=True)]
    taps = [k for k in np.ndindex(*w.shape[2:]) if all(row[i] >= 0 for row, i in zip(rows, k, strict=True))]
    places = [tuple(int(row[i]) for row, i in zip(rows, k, strict=True)) for k in taps]
    channels = channels_read(m // (w.shape[0] // attrs.get("group", 1)), x, w, attrs).tolist()
    elements = {name: [(0,) * array.ndim if array.size == 1 else (m,)] for name, array in inputs.items()}
    elements["x"] = [(n, *place, c) if last else (n, c, *place) for c in channels for place in places]
    elements["w"] = [(m, c, *k) for c in range(w.shape[1]) for k in taps]
    return elements


def taps_of(index, inputs, attrs):
    """Every tap of y[index], those in the padding too: its place in w, and in x (None: padding)."""
    x, w, last = channels_first(inputs["x"], attrs), inputs["w"], attrs.get("channels_last", 0)
    (n, *outputs, m) = index if last else (index[0], *index[2:], index[1])
    axes = axes_of(x, w, attrs)
    rows = [positions(axis, axis.outputs())[o] for axis, o in zip(axes, outputs, strict=True)]
    for c, channel in enumerate(channels_read(m // (w.shape[0] // attrs.get("group", 1)), x, w, attrs).tolist()):
        for k in np.ndindex(*w.shape[2:]):
            place = [int(row[i]) for row, i in zip(rows, k, strict=True)]
            x_at = (n, *place, channel) if last else (n, channel, *place)
            yield (m, c, *k), None if -1 in place else x_at


def steps_of(index, inputs, attrs):
    """The sum of y[index], tap by tap, and how it becomes a byte."""
    m = index[-1] if attrs.get("channels_last", 0) else index[1]
    one = {name: array.reshape(-1)[m if array.size > 1 else 0] for name, array in inputs.items() if name not in "xw"}
    x_zero, w_zero = int(one["x_zero_point"]), int(one["w_zero_point"])
    rows, total = [], 0
    for w_at, x_at in taps_of(index, inputs, attrs):
        w_value = int(inputs["w"][w_at])
        x_value = x_zero if x_at is None else int(inputs["x"][x_at])
        product = (x_value - x_zero) * (w_value - w_zero)
        total += product
        place = "padding" if x_at is None else f"x{list(x_at)}"
        rows.append([place, x_value, x_value - x_zero, f"w{list(w_at)}", w_value, w_value - w_zero, product, total])
    columns = ["x at", "x", f"x - {x_zero}", "w at", "w", f"w - {w_zero}", "product", "sum"]
    bias = int(one.get("B", 0))
    acc = narrow(np.array([[float(total)]]), np.int64(bias))
    with np.errstate(all="ignore"):
        multiplier = one["x_scale"] * one["w_scale"] / one["y_scale"]
        scaled = scale(acc, *(np.atleast_1d(one[name]) for name in ("x_scale", "w_scale", "y_scale")))
        shifted = shift(scaled, np.float32(one["y_zero_point"]))
        y = saturate(shifted, one["y_zero_point"].dtype)
    then = [
        f"int32({total} + bias {bias}) = {acc[0, 0]}",
        f"x_scale {one['x_scale']} * w_scale {one['w_scale']} / y_scale {one['y_scale']} = {multiplier} (float32)",
        f"{acc[0, 0]} * {multiplier} = {scaled[0, 0]} (float32)",
        f"rint({scaled[0, 0]}) + y_zero_point {one['y_zero_point']} = {shifted[0, 0]}",
        f"clip to {y.dtype}: {y[0, 0]}",
    ]
    return {"columns": columns, "rows": rows, "then": then}


# ---- what passes leave in intermediates -----------------------------------------------------------------------------
#
# Axes: n image, g group, m and c output and input channel of the group, o output pixel, k tap; o and k are row-major.


def sums(inputs, attrs):
    """int32, y's shape: what is summed up before the bias goes on."""
    return in_layout_of_y(accumulate({**inputs, "B": np.zeros(inputs["w"].shape[0], np.int32)}, attrs), inputs, attrs)


def steps_of_sum(index, inputs, attrs):
    """A sum, tap by tap: the first part of y's steps."""
    steps = steps_of(index, inputs, attrs)
    total = steps["rows"][-1][-1] if steps["rows"] else 0
    return {**steps, "then": [f"int32({total}) = {narrow(np.array([float(total)]), np.int64(0))[0]}"]}


def multiplier(inputs, attrs):
    """float32[g, m]: x_scale * w_scale / y_scale. A finite one is kept in [-512, 512], from where on every sum but 0
    saturates y.
    """
    M, group = inputs["w"].shape[0], attrs.get("group", 1)
    x_scale, w_scale, y_scale = (inputs[name].reshape(-1) for name in ("x_scale", "w_scale", "y_scale"))
    with np.errstate(all="ignore"):
        exact = np.broadcast_to(x_scale * w_scale / y_scale, (M,)).reshape(group, M // group)
    return np.where(np.isfinite(exact), np.clip(exact, np.float32(-512), np.float32(512)), exact)


def windows_of(images, padding, inputs, attrs):
    """images[N, C, D1, ..., Dn] gathered, int16[n, g, o, c, k]: what each tap of each output pixel reads."""
    x, w, group = images, inputs["w"], attrs.get("group", 1)
    axes = axes_of(x, w, attrs)
    tables = [positions(axis, axis.outputs()) for axis in axes]
    sizes = (w.shape[1], math.prod(w.shape[2:]), math.prod(axis.outputs() for axis in axes))
    found = np.empty((x.shape[0], group, sizes[2], *sizes[:2]), np.int16)
    for n, g in np.ndindex(x.shape[0], group):
        taps = columns(images[n, channels_read(g, x, w, attrs)], tables, padding)
        found[n, g] = np.moveaxis(taps.reshape(sizes), -1, 0)
    return found


def windows(inputs, attrs):
    """x's dtype [n, g, o, c, k]: x as it is, x_zero_point in the padding."""
    x_zero_point = int(inputs["x_zero_point"].reshape(()))
    return windows_of(channels_first(inputs["x"], attrs), x_zero_point, inputs, attrs).astype(inputs["x"].dtype)


def centred_windows(inputs, attrs):
    """int16[n, g, o, c, k]: x - x_zero_point, 0 in the padding."""
    return windows_of(centre(channels_first(inputs["x"], attrs), inputs["x_zero_point"]), 0, inputs, attrs)


def by_group(w, attrs):
    """w[M, C / group, k1, ..., kn] as [g, m, c, k]."""
    group = attrs.get("group", 1)
    return w.reshape(group, w.shape[0] // group, w.shape[1], math.prod(w.shape[2:]))


def y_by_group(inputs, attrs):
    """y as [n, g, m, o]."""
    y, group = channels_first(reference(inputs, attrs)["y"], attrs), attrs.get("group", 1)
    return y.reshape(y.shape[0], group, y.shape[1] // group, math.prod(y.shape[2:]))


INTERMEDIATES = {
    "sums": {"of": sums, "steps_of": steps_of_sum},
    "multiplier": {"of": multiplier, "axes": "g m"},
    "windows": {"of": windows, "axes": "n g o c k"},
    "centred_windows": {"of": centred_windows, "axes": "n g o c k"},
    "weights": {"of": lambda inputs, attrs: by_group(inputs["w"], attrs), "axes": "g m c k"},
    "centred_weights": {
        "of": lambda inputs, attrs: by_group(centre(inputs["w"], inputs["w_zero_point"]), attrs),
        "axes": "g m c k",
    },
    "y": {"of": y_by_group, "axes": "n g m o"},
}


# ---- deliberate mistakes --------------------------------------------------------------------------------------------


def mistaken(**steps):
    """The operator with some of its steps replaced."""
    return lambda inputs, attrs: reference(inputs, attrs, **steps)


def sees(change):
    """Each axis misread as change(axis, the axis at the mirrored place); the output keeps its size."""
    return mistaken(see=lambda axes, attrs: [change(*pair) for pair in zip(axes, reversed(axes), strict=True)])


def same_lower_as_upper(inputs, attrs):
    return reference(inputs, {**attrs, "auto_pad": attrs.get("auto_pad", "NOTSET").replace("LOWER", "UPPER")})


def centres(change):
    """x and w both centred by change(values, zero_point)."""
    return mistaken(centre_x=change, centre_w=change)


def weights(change):
    """The centred weights int16[M, C / group, k1, ..., kn] replaced by change(weights)."""
    return mistaken(centre_w=lambda w, zero_point: change(centre(w, zero_point)))


def channel_tail_dropped(weights):
    channels = weights.shape[1]
    kept = np.arange(channels) < (channels // 4 * 4 if channels >= 4 else channels)
    return weights * kept.reshape(-1, *[1] * (weights.ndim - 2))


def pairs_saturate(weights, columns):
    products = weights[:, :, None] * columns
    pairs = np.add.reduceat(products, np.arange(0, products.shape[1], 2), axis=1)
    return np.clip(pairs, -(2**15), 2**15 - 1).sum(axis=1)


def multiplied_by(multiplier, convert=np.float32):
    """acc scaled by multiplier(x_scale, w_scale, y_scale), its conversion to a float perhaps wrong too."""
    return mistaken(scale=lambda acc, *scales: convert(acc) * multiplier(*scales)[:, np.newaxis])


def converted_toward_zero(acc):
    nearest = acc.astype(np.float32)
    too_far = np.abs(nearest.astype(np.float64)) > np.abs(acc.astype(np.float64))
    return np.where(too_far, np.nextafter(nearest, np.float32(0)), nearest)


def multiply_then_divide(acc, x_scale, w_scale, y_scale):
    return scale(acc, x_scale, w_scale, np.float32([1])) / y_scale


def small_flushed(product):
    """Subnormal products become zeros."""
    return np.where(np.abs(product) < 2.0**-126, product * 0, product)


def rounded(change):
    """rint replaced by change(scaled)."""
    return mistaken(shift=lambda scaled, zero_point: change(scaled) + zero_point)


def wrap(shifted, dtype):
    return np.clip(np.nan_to_num(shifted), -(2**31), 2**31 - 1).astype(np.int64).astype(dtype)


def bias_as(change):
    """B int32[M] replaced by change(B)."""
    return lambda inputs, attrs: reference({**inputs, "B": change(inputs["B"])} if "B" in inputs else inputs, attrs)


def bias_unscaled(inputs, attrs):
    """B added to y instead of the sum."""
    y, bias = bias_as(np.zeros_like)(inputs, attrs)["y"], inputs.get("B", np.zeros(1, np.int32))
    bias = bias if attrs.get("channels_last", 0) else bias.reshape(-1, *[1] * (y.ndim - 2))
    return {"y": saturate(y.astype(np.int64) + bias, y.dtype)}


def w_read_channels_last(inputs, attrs):
    w = inputs["w"]
    w = np.moveaxis(w.reshape(w.shape[0], *w.shape[2:], w.shape[1]), -1, 1) if attrs.get("channels_last", 0) else w
    return reference({**inputs, "w": w}, attrs)


def y_written_channels_first(inputs, attrs):
    y = reference(inputs, attrs)["y"]
    return {"y": np.moveaxis(y, -1, 1).reshape(y.shape) if attrs.get("channels_last", 0) else y}


MISTAKES = {
    "x_zero_point_ignored": mistaken(centre_x=lambda x, zero_point: x.astype(np.int16)),
    "w_zero_point_ignored": mistaken(centre_w=lambda w, zero_point: w.astype(np.int16)),
    "first_w_zero_point_everywhere": mistaken(centre_w=lambda w, zero_point: centre(w, zero_point.reshape(-1)[:1])),
    "unsigned_difference": centres(lambda values, zero_point: centre(values, zero_point) & 255),
    "int8_as_uint8": centres(lambda values, zero_point: centre(values.view(np.uint8), zero_point.view(np.uint8))),
    "padding_is_raw_zero": mistaken(pad=lambda zero_point: -zero_point),
    "padding_of_the_other_sign": mistaken(pad=lambda zero_point: zero_point % 256 - zero_point),
    "swapped_pads": sees(lambda axis, other: axis._replace(begin=axis.end)),
    "same_lower_as_upper": same_lower_as_upper,
    "swapped_stride_axes": sees(lambda axis, other: axis._replace(stride=other.stride)),
    "swapped_dilation_axes": sees(lambda axis, other: axis._replace(dilation=other.dilation)),
    "dilations_ignored": sees(lambda axis, other: axis._replace(dilation=1)),
    "kernel_transposed": weights(lambda w: w.transpose(0, 1, *range(w.ndim - 1, 1, -1)).reshape(w.shape)),
    "every_group_reads_the_first": mistaken(channels_read=lambda g, x, w, attrs: np.arange(w.shape[1])),
    "groups_by_output_channels": mistaken(
        channels_read=lambda g, x, w, attrs: (
            (g * w.shape[0] // attrs.get("group", 1) + np.arange(w.shape[1])) % x.shape[1]
        )
    ),
    "channel_tail_dropped": weights(channel_tail_dropped),
    "w_read_channels_last": w_read_channels_last,
    "y_written_channels_first": y_written_channels_first,
    "pairs_saturate_at_16_bits": mistaken(total=pairs_saturate),
    "sums_in_f16": mistaken(total=lambda w, x: np.float16(np.clip(total(w, x), -65504, 65504))),
    "sums_in_f32": mistaken(total=lambda w, x: np.float32(total(w, x))),
    "acc_saturates": mistaken(narrow=lambda totals, bias: np.clip(totals + bias, -(2**31), 2**31 - 1)),
    "acc_converted_toward_zero": multiplied_by(lambda x, w, y: x * w / y, converted_toward_zero),
    "bias_ignored": bias_as(np.zeros_like),
    "first_bias_everywhere": bias_as(lambda bias: np.broadcast_to(bias[:1], bias.shape)),
    "bias_unscaled": bias_unscaled,
    "first_w_scale_everywhere": multiplied_by(lambda x, w, y: x * w[:1] / y),
    "float64_multiplier": multiplied_by(lambda x, w, y: x.astype(np.float64) * w / y, np.float64),
    "multiplier_rounded_once": multiplied_by(lambda x, w, y: np.float32(x.astype(np.float64) * w / y)),
    "division_by_reciprocal": multiplied_by(lambda x, w, y: x * w * (np.float32(1) / y)),
    "x_scale_over_y_scale_first": multiplied_by(lambda x, w, y: x / y * w),
    "small_product_flushed": multiplied_by(lambda x, w, y: small_flushed(x * w) / y),
    "multiply_then_divide": mistaken(scale=multiply_then_divide),
    "truncated_round": rounded(np.trunc),
    "half_up": rounded(lambda scaled: np.floor(scaled + np.float32(0.5))),
    "half_away": rounded(lambda scaled: np.copysign(np.floor(np.abs(scaled) + np.float32(0.5)), scaled)),
    "zero_point_before_rounding": mistaken(shift=lambda scaled, zero_point: np.rint(scaled + zero_point)),
    "y_zero_point_ignored": mistaken(shift=lambda scaled, zero_point: np.rint(scaled)),
    "wraps_instead_of_saturating": mistaken(saturate=wrap),
    "saturates_to_127": mistaken(saturate=lambda shifted, dtype: saturate(np.minimum(shifted, 127), dtype)),
    "saturates_to_minus_127": mistaken(saturate=lambda shifted, dtype: saturate(np.maximum(shifted, -127), dtype)),
    "nan_as_0": mistaken(saturate=lambda shifted, dtype: saturate(np.nan_to_num(shifted), dtype)),
}
