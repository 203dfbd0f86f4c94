"""DequantizeLinear in numpy: what every kernel of this folder must return, to the bit.

    y = T2(f32(x - x_zero_point) * f32(x_scale))

Rule: https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html, opsets 10 to 25. Where its text leaves the precision
open, the product is one float32 multiplication, rounded once more to T2; ONNX Runtime does the same.

In    x             T1[D0, ..., Dn], any rank: (u)int2, (u)int4, (u)int8, (u)int16, int32, float8*, float4e2m1
      x_scale       float32, float16, bfloat16 or float8e8m0: one element (per tensor), [D_axis] (per axis), or x's
                    shape with ceil(D_axis / block_size) on the axis (blocked; a 1-D x with a block_size is blocked too)
      x_zero_point  T1, shaped like x_scale; absent means 0
Attrs axis (1), block_size (0), output_dtype (0: x_scale's dtype; else a TensorProto number or a dtype's name)
Out   y             T2[D0, ..., Dn], float32, float16 or bfloat16

A difference of integers is exact, save that int32 wraps, and becomes float32 half to even. NaN, infinities, -0.0 and
subnormal numbers are kept. Assumes a valid request: refusals are decided before a reference is asked.
"""

import ml_dtypes
import numpy as np

OUTPUT_DTYPES = {
    **dict.fromkeys((1, "float32", "float"), np.dtype(np.float32)),
    **dict.fromkeys((10, "float16"), np.dtype(np.float16)),
    **dict.fromkeys((16, "bfloat16"), np.dtype(ml_dtypes.bfloat16)),
}
# elements of the types that share a byte
PER_BYTE = {"int4": 2, "uint4": 2, "float4_e2m1fn": 2, "int2": 4, "uint2": 4}

# ---- the operator, in steps that a mistake can replace --------------------------------------------------------------


def decode(x):
    """Codes as numbers: int64 for the integer types, float32 for the others."""
    return x.astype(np.int32).astype(np.int64) if "int" in x.dtype.name else x.astype(np.float32)


def subtract(x, zero_point):
    """float32(x - zero_point)."""
    difference = x - zero_point
    return (difference.astype(np.int32) if difference.dtype == np.int64 else difference).astype(np.float32)


def entry(i, count, block_size):
    """Which of the scale's `count` entries on the axis belongs to position i of x (int[D])."""
    return i // block_size if block_size else i


def multiply(difference, scale, dtype):
    """One float32 product, whatever the output's dtype."""
    return difference * scale


def narrow(product, dtype):
    """float32 to the output's dtype, half to even."""
    return product.astype(dtype)


def reference(inputs, attrs, *, decode=decode, subtract=subtract, entry=entry, multiply=multiply, narrow=narrow):
    """{"y": T2[D0, ..., Dn]}. The keywords are there for MISTAKES."""
    x, x_scale = inputs["x"], inputs["x_scale"]
    x_zero_point = inputs.get("x_zero_point", np.zeros(x_scale.shape, x.dtype))
    dtype = output_dtype(x_scale, attrs)
    with np.errstate(all="ignore"):
        difference = subtract(decode(x), spread(decode(x_zero_point), x.shape, attrs, entry))
        product = multiply(difference, spread(x_scale.astype(np.float32), x.shape, attrs, entry), dtype)
        return {"y": narrow(np.asarray(product), dtype)}


def output_dtype(x_scale, attrs):
    wanted = attrs.get("output_dtype", 0)
    return OUTPUT_DTYPES[wanted] if wanted else x_scale.dtype


def spread(parameter, shape, attrs, entry):
    """A scale or zero point, one element for each of x's."""
    if parameter.size == 1:
        return np.broadcast_to(parameter.reshape(()), shape)
    axis, block_size = attrs.get("axis", 1) % len(shape), attrs.get("block_size", 0)
    along = axis if block_size else 0
    chosen = entry(np.arange(shape[axis]), parameter.shape[along], block_size)
    parameter = np.take(parameter, chosen, axis=along, mode="clip")
    return parameter if block_size else parameter.reshape([-1 if d == axis else 1 for d in range(len(shape))])


def inputs_of(index, inputs, attrs):
    """The elements of each input that y[index] is made of, by input name."""
    scale, rank = inputs["x_scale"], inputs["x"].ndim
    if scale.size == 1:
        at = (0,) * scale.ndim
    else:
        axis, block_size = attrs.get("axis", 1) % rank, attrs.get("block_size", 0)
        at = (*index[:axis], index[axis] // block_size, *index[axis + 1 :]) if block_size else (index[axis],)
    return {name: [tuple(index) if name == "x" else at] for name in inputs}


def steps_of(index, inputs, attrs):
    """How y[index] comes about."""
    at = {name: places[0] for name, places in inputs_of(index, inputs, attrs).items()}
    x, scale = inputs["x"][at["x"]], inputs["x_scale"][at["x_scale"]]
    zero = (
        inputs["x_zero_point"][at["x_zero_point"]] if "x_zero_point" in inputs else np.zeros((), inputs["x"].dtype)[()]
    )
    dtype = output_dtype(inputs["x_scale"], attrs)
    with np.errstate(all="ignore"):
        difference = subtract(decode(np.asarray(x)), decode(np.asarray(zero)))[()]
        product = multiply(difference, np.float32(scale), dtype)
        y = narrow(np.asarray(product), dtype)[()]
    row = [f"x{list(at['x'])}", str(x), str(zero), str(difference), f"x_scale{list(at['x_scale'])}", str(scale)]
    columns = ["x at", "x", "zero point", "float32(x - zero point)", "scale at", "scale"]
    then = [f"{difference!s} * float32({scale!s}) = {product!s} (float32)", f"{dtype.name}: {y!s}"]
    return {"columns": columns, "rows": [row], "then": then}


# ---- deliberate mistakes --------------------------------------------------------------------------------------------


def mistaken(**steps):
    """The operator with some of its steps replaced."""
    return lambda inputs, attrs: reference(inputs, attrs, **steps)


def misread(address):
    """The operator reading x's element i at address(i, x); beyond the end there is 0."""

    def changed(x):
        flat = np.append(x.reshape(-1), np.zeros(1, x.dtype))
        return flat[np.minimum(address(np.arange(x.size), x), x.size)].reshape(x.shape)

    return lambda inputs, attrs: reference({**inputs, "x": changed(inputs["x"])}, attrs)


def decoding(wrong, *names):
    """A decoding that is wrong for some types."""
    return mistaken(decode=lambda x: wrong(x) if x.dtype.name in names else decode(x))


def narrowing(name, wrong):
    """A rounding that is wrong for one output type."""
    return mistaken(narrow=lambda product, dtype: (wrong if dtype.name == name else narrow)(product, dtype))


def integers(wrong):
    """A difference that is wrong for integers: wrong(the exact one, int64)."""
    return mistaken(subtract=lambda x, zero: np.float32(wrong(x - zero)) if x.dtype == np.int64 else subtract(x, zero))


def blocks(wrong):
    """Blocked scales chosen by wrong(i, count, block_size)."""
    return mistaken(entry=lambda i, count, block_size: wrong(i, count, block_size) if block_size else i)


def axis_as(wrong):
    """The axis misread where it places a 1-D scale."""
    return lambda inputs, attrs: reference(
        inputs, {**attrs, "axis": wrong(attrs.get("axis", 1))} if inputs["x_scale"].ndim == 1 else attrs
    )


def rows_start_on_bytes(i, x):
    """The address of element i if each row were packed by itself."""
    row, per_byte = max(x.shape[-1], 1) if x.ndim else 1, PER_BYTE.get(x.dtype.name, 1)
    return i // row * -(-row // per_byte) * per_byte + i % row


def finite(mantissa_bits, bias):
    """A float8 decoder that knows no NaN and no infinity."""

    def decoded(x):
        code = x.view(np.uint8).astype(np.int64)
        exponent, mantissa = (code & 127) >> mantissa_bits, code % 2**mantissa_bits
        significand = np.where(exponent > 0, 2**mantissa_bits, 0) + mantissa
        magnitude = significand * 2.0 ** (np.maximum(exponent, 1) - mantissa_bits - bias)
        return np.where(code < 128, magnitude, -magnitude).astype(np.float32)

    return decoded


def flushed(values):
    """Subnormal numbers of the values' own dtype become zeros."""
    return np.where(np.abs(values) < ml_dtypes.finfo(values.dtype).smallest_normal, values * 0, values)


def toward_zero(product, dtype):
    """Surplus bits dropped: one code back wherever rounding went away from zero."""
    nearest = product.astype(dtype)
    too_far = np.abs(nearest.astype(np.float32)) > np.abs(product)
    return (nearest.view(np.uint16) - too_far.astype(np.uint16)).view(dtype)


def ties_away(product, dtype):
    """A nudge outwards by the least float32 step decides the ties."""
    return np.nextafter(product, np.copysign(np.float32(np.inf), product)).astype(dtype)


def converted_toward_zero(difference):
    exact = difference.astype(np.int32).astype(np.float64)
    nearest = np.float32(exact)
    return np.where(np.abs(nearest) > np.abs(exact), np.nextafter(nearest, np.float32(0)), nearest)


def zero_point_ignored(inputs, attrs):
    return reference({name: array for name, array in inputs.items() if name != "x_zero_point"}, attrs)


@np.errstate(all="ignore")
def multiply_then_subtract(inputs, attrs):
    in_float32 = {**attrs, "output_dtype": 1}
    scaled = zero_point_ignored(inputs, in_float32)["y"]
    offset = reference({**inputs, "x": np.zeros_like(inputs["x"])}, in_float32)["y"]
    return {"y": narrow(scaled + offset, output_dtype(inputs["x_scale"], attrs))}


def blocked_1d_as_per_axis(inputs, attrs):
    return reference(inputs, {**attrs, "block_size": 1} if inputs["x"].ndim == 1 and "block_size" in attrs else attrs)


@np.errstate(all="ignore")
def rounded_to_scale_dtype(inputs, attrs):
    y, scale = reference(inputs, attrs)["y"], inputs["x_scale"].dtype
    return {"y": y if scale.itemsize == 1 else y.astype(scale).astype(y.dtype)}


def e8m0_code_0_as_0(inputs, attrs):
    scale = inputs["x_scale"]
    return reference({**inputs, "x_scale": flushed(np.float32(scale)) if scale.itemsize == 1 else scale}, attrs)


MISTAKES = {
    "zero_point_ignored": zero_point_ignored,
    "unsigned_subtract": integers(lambda difference: difference % 2**32),
    "difference_in_16_bits": integers(lambda difference: difference.astype(np.int16)),
    "int32_saturates": integers(lambda difference: np.clip(difference, -(2**31), 2**31 - 1)),
    "int32_converted_toward_zero": integers(converted_toward_zero),
    "multiply_then_subtract": multiply_then_subtract,
    "axis_ignored": axis_as(lambda axis: 1),
    "negative_axis_as_0": axis_as(lambda axis: max(axis, 0)),
    "first_channel_everywhere": mistaken(entry=lambda i, count, block_size: i * 0),
    "interleaved_blocks": blocks(lambda i, count, block_size: i % count),
    "block_size_guessed": blocks(lambda i, count, block_size: i * count // max(len(i), 1)),
    "last_block_dropped": blocks(lambda i, count, block_size: np.minimum(i // block_size, len(i) // block_size - 1)),
    "blocked_1d_as_per_axis": blocked_1d_as_per_axis,
    "word_index_divided_twice": misread(lambda i, x: i // 16 * 4 + i % 4),
    "high_bits_first": misread(lambda i, x: i ^ (PER_BYTE.get(x.dtype.name, 1) - 1)),
    "rows_start_on_bytes": misread(rows_start_on_bytes),
    "signed_int4_as_offset": decoding(lambda x: (decode(x) & 15) - 8, "int4"),
    "signed_int2_as_offset": decoding(lambda x: (decode(x) & 3) - 2, "int2"),
    "e4m3fn_nan_as_480": decoding(finite(3, 7), "float8_e4m3fn"),
    "e5m2_infinity_as_65536": decoding(finite(2, 15), "float8_e5m2"),
    "fnuz_nan_as_minus_0": decoding(lambda x: np.nan_to_num(decode(x), nan=-0.0), "float8_e4m3fnuz", "float8_e5m2fnuz"),
    "fnuz_bias_as_fn": decoding(lambda x: decode(x) * 2, "float8_e4m3fnuz", "float8_e5m2fnuz"),
    "small_floats_flushed": mistaken(decode=lambda x: decode(flushed(x)) if "float" in x.dtype.name else decode(x)),
    "e8m0_code_0_as_0": e8m0_code_0_as_0,
    "product_in_output_dtype": mistaken(multiply=lambda d, s, dtype: np.float32(d.astype(dtype) * s.astype(dtype))),
    "rounded_to_scale_dtype": rounded_to_scale_dtype,
    "f16_truncated": narrowing("float16", toward_zero),
    "f16_ties_away": narrowing("float16", ties_away),
    "f16_subnormals_flushed": narrowing("float16", lambda product, dtype: flushed(product.astype(dtype))),
    "f16_overflow_as_nan": narrowing("float16", lambda p, dtype: np.where(np.abs(p) < 65520, p, np.nan).astype(dtype)),
    "bf16_truncated": narrowing("bfloat16", toward_zero),
    "bf16_ties_away": narrowing("bfloat16", ties_away),
    "minus_0_lost": mistaken(multiply=lambda difference, scale, dtype: difference * scale + np.float32(0)),
    "tail_dropped": mistaken(
        narrow=lambda p, dtype: np.where(np.arange(p.size).reshape(p.shape) < p.size // 4 * 4, p, 0 * p).astype(dtype)
    ),
}
