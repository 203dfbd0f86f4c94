"""ONNX tensor dtypes: their bits, their numpy form, and how tensors are packed into 32-bit words.

In: ONNX dtype names and numpy arrays. Out: `DType` values, bytes. Never touches shapes' meaning or WGSL.

Codes are those of onnx.proto3's TensorProto.DataType (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3).
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

from kernel_lab.errors import LabError

Array = npt.NDArray[Any]
Packing = Literal["packed", "word"]


@dataclass(frozen=True, slots=True)
class DType:
    """One ONNX dtype. `bits`: of an element when packed. `wgsl`: the scalar a template would use for its values."""

    name: str
    code: int
    bits: int
    numpy: np.dtype[Any]
    wgsl: str

    @property
    def is_float(self) -> bool:
        return "float" in self.name

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest value of an integer dtype."""
        half = 1 << (self.bits - 1)
        return (-half, half - 1) if self.name.startswith("int") else (0, 2 * half - 1)


def _table() -> dict[str, DType]:
    rows: list[tuple[str, int, int, Any, str]] = [
        ("float32", 1, 32, np.float32, "f32"),
        ("uint8", 2, 8, np.uint8, "u32"),
        ("int8", 3, 8, np.int8, "i32"),
        ("uint16", 4, 16, np.uint16, "u32"),
        ("int16", 5, 16, np.int16, "i32"),
        ("int32", 6, 32, np.int32, "i32"),
        ("float16", 10, 16, np.float16, "f16"),
        ("uint32", 12, 32, np.uint32, "u32"),
        ("bfloat16", 16, 16, ml_dtypes.bfloat16, "u32"),
        ("float8e4m3fn", 17, 8, ml_dtypes.float8_e4m3fn, "u32"),
        ("float8e4m3fnuz", 18, 8, ml_dtypes.float8_e4m3fnuz, "u32"),
        ("float8e5m2", 19, 8, ml_dtypes.float8_e5m2, "u32"),
        ("float8e5m2fnuz", 20, 8, ml_dtypes.float8_e5m2fnuz, "u32"),
        ("uint4", 21, 4, ml_dtypes.uint4, "u32"),
        ("int4", 22, 4, ml_dtypes.int4, "i32"),
        ("float4e2m1", 23, 4, ml_dtypes.float4_e2m1fn, "u32"),
        ("float8e8m0", 24, 8, ml_dtypes.float8_e8m0fnu, "u32"),
        ("uint2", 25, 2, ml_dtypes.uint2, "u32"),
        ("int2", 26, 2, ml_dtypes.int2, "i32"),
    ]
    return {name: DType(name, code, bits, np.dtype(kind), wgsl) for name, code, bits, kind, wgsl in rows}


DTYPES = _table()
_BY_CODE = {dtype.code: dtype for dtype in DTYPES.values()}
_BY_NUMPY = {dtype.numpy: dtype for dtype in DTYPES.values()}


def named(name: str) -> DType:
    """The dtype of that ONNX name; LabError if there is none."""
    try:
        return DTYPES[name]
    except KeyError:
        raise LabError(f"dtype {name!r} is unknown; known are {', '.join(DTYPES)}.") from None


def of_code(code: int) -> DType | None:
    """The dtype of that TensorProto code, or None for one kernel-lab has no use for."""
    return _BY_CODE.get(code)


def of_array(array: Array) -> DType:
    """The dtype of a numpy array; LabError for one without an ONNX name here (float64, say)."""
    try:
        return _BY_NUMPY[array.dtype]
    except KeyError:
        raise LabError(f"numpy dtype {array.dtype} has no ONNX dtype here; known are {', '.join(DTYPES)}.") from None


def numel(shape: tuple[int, ...]) -> int:
    """Number of elements; 1 for rank 0."""
    return math.prod(shape)


def words(count: int, dtype: DType, packing: Packing) -> int:
    """How many 32-bit words `count` elements take."""
    return count if packing == "word" else -(-count * dtype.bits // 32)


def raw_codes(array: Array) -> Array:
    """The elements' bit patterns as unsigned integers of 8, 16 or 32 bits, flat; sub-byte codes in the low bits."""
    dtype = of_array(array)
    flat = np.ascontiguousarray(array).reshape(-1)
    codes = flat.view({1: np.uint8, 2: np.uint16, 4: np.uint32}[flat.dtype.itemsize])
    return codes & np.uint8((1 << dtype.bits) - 1) if dtype.bits < 8 else codes


def from_codes(codes: Array, dtype: DType, shape: tuple[int, ...]) -> Array:
    """The inverse of `raw_codes`."""
    if dtype.bits < 8 and dtype.name.startswith("int"):  # ml_dtypes wants its signed nibbles sign-extended
        sign = np.uint8(1 << (dtype.bits - 1))
        signed = (codes.astype(np.uint8) ^ sign).astype(np.int16) - np.int16(sign)
        return signed.astype(np.int8).astype(dtype.numpy).reshape(shape)
    return np.ascontiguousarray(codes).view(dtype.numpy).reshape(shape)


def pack(array: Array, packing: Packing = "packed") -> bytes:
    """An array as little-endian 32-bit words.

    packed: flat C order, low bits first, 32/bits elements to a word, unused bits of the last word 0 (ONNX's own order
    for sub-byte types). word: one element per word, sign-extended for signed integers, the bit pattern otherwise.
    """
    dtype = of_array(array)
    codes = raw_codes(array)
    if packing == "word":
        signed = dtype.name.startswith("int")
        return (array.reshape(-1).astype(np.int32) if signed else codes.astype(np.uint32)).tobytes()
    if dtype.bits < 8:
        per_byte = 8 // dtype.bits
        padded = np.zeros(-(-codes.size // per_byte) * per_byte, np.uint8)
        padded[: codes.size] = codes
        shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(dtype.bits)
        codes = np.bitwise_or.reduce(padded.reshape(-1, per_byte) << shifts, axis=1).astype(np.uint8)
    data = codes.tobytes()
    return data + bytes(-len(data) % 4)


def ends_clear(data: bytes | memoryview, dtype: DType, shape: tuple[int, ...]) -> bool:
    """Whether the bits behind the last element of packed words are 0, as `pack` leaves them."""
    used = numel(shape) * dtype.bits % 32
    return not used or int.from_bytes(data[-4:], "little") >> used == 0


def unpack(data: bytes | memoryview, dtype: DType, shape: tuple[int, ...], packing: Packing = "packed") -> Array:
    """The inverse of `pack`: little-endian words to an array of that dtype and shape."""
    count = numel(shape)
    if packing == "word":
        codes = np.frombuffer(data, np.uint32, count)
        kind = {8: np.uint8, 16: np.uint16, 32: np.uint32}[max(dtype.bits, 8)]
        masked = codes & np.uint32((1 << dtype.bits) - 1)
        return from_codes(masked.astype(kind), dtype, shape)
    if dtype.bits < 8:
        per_byte = 8 // dtype.bits
        stored = np.frombuffer(data, np.uint8, -(-count // per_byte))
        shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(dtype.bits)
        codes = ((stored[:, None] >> shifts) & np.uint8((1 << dtype.bits) - 1)).reshape(-1)[:count]
        return from_codes(codes, dtype, shape)
    return np.frombuffer(data, dtype.numpy, count).reshape(shape)
