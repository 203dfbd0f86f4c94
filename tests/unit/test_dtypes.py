"""ONNX dtypes: their codes and numpy types are ONNX's own; packing is lossless and puts low bits first."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_lab.errors import LabError
from kernel_lab.operators import dtypes
from kernel_lab.operators.dtypes import DTYPES, Array, DType, Packing

EVERY = pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
SUB_BYTE = [dtype for dtype in DTYPES.values() if dtype.bits < 8]
LEFT_OUT = {
    *("UNDEFINED", "STRING", "BOOL", "INT64", "UINT64", "DOUBLE", "COMPLEX64", "COMPLEX128"),
    *("FLOAT6E2M3", "FLOAT6E3M2"),
}


def of_codes(codes: list[int], dtype: DType, shape: tuple[int, ...] | None = None) -> Array:
    unsigned = {8: np.uint8, 16: np.uint16, 32: np.uint32}[max(dtype.bits, 8)]
    return dtypes.from_codes(np.array(codes, unsigned), dtype, (len(codes),) if shape is None else shape)


@EVERY
def test_code_name_and_numpy_type_are_onnx_s(dtype: DType) -> None:
    onnx_name = onnx.TensorProto.DataType.Name(dtype.code)
    assert onnx_name == {"float32": "FLOAT"}.get(dtype.name, dtype.name.upper())
    assert onnx.helper.tensor_dtype_to_np_dtype(dtype.code) == dtype.numpy


def test_only_these_onnx_dtypes_are_left_out() -> None:
    ours = {dtype.code for dtype in DTYPES.values()}
    missing = {name for name, code in onnx.TensorProto.DataType.items() if code not in ours}
    assert missing <= LEFT_OUT


@EVERY
def test_lookups_agree(dtype: DType) -> None:
    assert dtypes.named(dtype.name) is dtypes.of_code(dtype.code) is dtypes.of_array(np.zeros(2, dtype.numpy)) is dtype


def test_unknown_dtypes_are_named_with_the_known_ones() -> None:
    assert dtypes.of_code(onnx.TensorProto.DOUBLE) is None
    with pytest.raises(LabError, match=r"dtype 'int5' is unknown; known are float32, uint8, .*int2\."):
        dtypes.named("int5")
    with pytest.raises(LabError, match="numpy dtype float64 has no ONNX dtype here"):
        dtypes.of_array(np.zeros(2))
    with pytest.raises(LabError, match="numpy dtype >i2"):
        dtypes.of_array(np.zeros(2, ">i2"))


@EVERY
@pytest.mark.parametrize("packing", ["packed", "word"])
@settings(max_examples=20)
@given(data=st.data())
def test_unpack_undoes_pack_for_any_bits(dtype: DType, packing: Packing, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 5), max_size=3)))
    count = dtypes.numel(shape)
    codes = data.draw(st.lists(st.integers(0, 2**dtype.bits - 1), min_size=count, max_size=count))
    array = of_codes(codes, dtype, shape)
    packed = dtypes.pack(array, packing)
    assert len(packed) == 4 * dtypes.words(count, dtype, packing)
    again = dtypes.unpack(memoryview(packed), dtype, shape, packing)
    assert (again.dtype, again.shape) == (dtype.numpy, shape)
    assert dtypes.raw_codes(again).tolist() == dtypes.raw_codes(array).tolist() == codes


@pytest.mark.parametrize("dtype", SUB_BYTE, ids=lambda dtype: dtype.name)
def test_sub_byte_order_is_onnx_s_own(dtype: DType) -> None:
    array = of_codes([i * 5 % 2**dtype.bits for i in range(15)], dtype, (3, 5))
    stored = onnx.numpy_helper.from_array(array).raw_data
    assert dtypes.pack(array)[: len(stored)] == stored


@pytest.mark.parametrize(
    ("array", "packed"),
    [
        (np.array([1, 2, 15], ml_dtypes.uint4), "21 0f 00 00"),
        (np.array([1, -1, -8], ml_dtypes.int4), "f1 08 00 00"),
        (np.array([1, 2, 3, 0, 1], ml_dtypes.uint2), "39 01 00 00"),
        (np.array([1, -1, -2], ml_dtypes.int2), "2d 00 00 00"),
        (np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], ml_dtypes.uint4), "21 43 65 87 09 00 00 00"),  # rows run on
        (np.array([1, -2, 3, -4, 5], np.int8), "01 fe 03 fc 05 00 00 00"),
        (np.array([0x1234, 0x5678, 0x9ABC], np.uint16), "34 12 78 56 bc 9a 00 00"),
        (np.array([1.0], ml_dtypes.bfloat16), "80 3f 00 00"),
        (np.array(-2, np.int32), "fe ff ff ff"),
        (np.zeros((2, 0), np.int8), ""),
    ],
    ids=lambda value: value if isinstance(value, str) else value.dtype.name,
)
def test_packed_bytes(array: Array, packed: str) -> None:
    assert dtypes.pack(array).hex(" ") == packed


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([-1, 7], ml_dtypes.int4), [0xFFFFFFFF, 7]),
        (np.array([-2, 1], ml_dtypes.int2), [0xFFFFFFFE, 1]),
        (np.array([-3], np.int16), [0xFFFFFFFD]),
        (np.array([200, 3], np.uint8), [200, 3]),
        (np.array([-2.0], np.float16), [0xC000]),
        (np.array([0.5], ml_dtypes.float8_e5m2), [0x38]),
    ],
    ids=lambda value: "" if isinstance(value, list) else value.dtype.name,
)
def test_word_is_sign_extended_or_the_bits(array: Array, words: list[int]) -> None:
    assert np.frombuffer(dtypes.pack(array, "word"), np.uint32).tolist() == words


@pytest.mark.parametrize("packing", ["packed", "word"])
def test_a_view_is_packed_in_its_own_order(packing: Packing) -> None:
    matrix = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert dtypes.pack(matrix.T, packing) == dtypes.pack(matrix.T.copy(), packing)
    assert dtypes.pack(matrix[:, ::2], packing) == dtypes.pack(matrix[:, ::2].copy(), packing)


@EVERY
@given(count=st.integers(1, 19), stray=st.integers(0, 31), data=st.data())
@settings(max_examples=30, deadline=None)
def test_ends_are_clear_where_packing_gives_the_same_words(
    dtype: DType, count: int, stray: int, data: st.DataObject
) -> None:
    """One bit set anywhere in the last word: either it belongs to an element, or the end is not clear."""
    words = 4 * dtypes.words(count, dtype, "packed")
    given_words = bytearray(data.draw(st.binary(min_size=words, max_size=words)))
    used = count * dtype.bits
    kept = int.from_bytes(given_words, "little") & ((1 << used) - 1) | (1 << (8 * words - 32 + stray))
    stored = kept.to_bytes(words, "little")
    again = dtypes.pack(dtypes.unpack(stored, dtype, (count,)))
    assert dtypes.ends_clear(stored, dtype, (count,)) == (again == stored)
