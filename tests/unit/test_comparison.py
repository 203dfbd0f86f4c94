"""The comparison: to the bit, except that NaN equals NaN; and it says how many differ, and where first."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab.judging.comparison import difference
from kernel_lab.operators import dtypes
from kernel_lab.operators.dtypes import DTYPES, Array, DType


def f32(*bits: int) -> Array:
    return np.array(bits, np.uint32).view(np.float32)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_equal_and_unequal_by_one_bit_in_every_dtype(dtype: DType) -> None:
    right = np.zeros((2, 3), dtype.numpy)
    wrong = right.copy()
    wrong[1, 2] = 1
    assert difference(right.copy(), right) is None
    found = difference(wrong, right)
    assert found is not None
    assert (found.count, found.size, found.first, found.kind) == (1, 6, (1, 2), "")


def test_nan_equals_nan_whatever_its_payload_or_sign() -> None:
    assert difference(f32(0x7FC00000, 0xFFC00000), f32(0x7F800001, 0x7FC12345)) is None
    codes = np.array([0x7F, 0xFF], np.uint8)
    assert difference(codes.view(ml_dtypes.float8_e4m3fn), codes[::-1].copy().view(ml_dtypes.float8_e4m3fn)) is None
    halves = np.array([0x7E00, 0xFFFF], np.uint16)
    for kind in (np.float16, ml_dtypes.bfloat16):
        nans = np.array([0x7FC0, 0xFFFF], np.uint16) if kind is not np.float16 else halves
        assert difference(nans.view(kind), nans[::-1].copy().view(kind)) is None


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (f32(0x7FC00000), f32(0x7F800000)),
        (f32(0x3F800000), f32(0x7FC00000)),
        (f32(0x80000000), f32(0)),
        (f32(0x00000001), f32(0)),
        (np.array([-0.0], ml_dtypes.bfloat16), np.array([0.0], ml_dtypes.bfloat16)),
        (np.array([-0.0], np.float16), np.array([0.0], np.float16)),
        (np.array([0x80], np.uint8).view(ml_dtypes.float8_e4m3fnuz), np.zeros(1, ml_dtypes.float8_e4m3fnuz)),
        (np.array([0x80], np.uint8).view(ml_dtypes.float8_e5m2), np.zeros(1, ml_dtypes.float8_e5m2)),
    ],
    ids=["nan-inf", "one-nan", "minus-zero", "subnormal", "bf16-zero", "f16-zero", "fnuz-nan", "e5m2-zero"],
)
def test_these_differ(actual: Array, expected: Array) -> None:
    assert difference(actual, expected) is not None
    assert difference(expected, actual) is not None


@pytest.mark.parametrize(
    ("actual", "kind"),
    [
        (np.zeros((3, 2), np.int8), "got int8[3, 2], expected int8[2, 3]"),
        (np.zeros(6, np.int8), "got int8[6], expected int8[2, 3]"),
        (np.zeros((2, 3), np.uint8), "got uint8[2, 3], expected int8[2, 3]"),
    ],
)
def test_shape_and_dtype_count_first(actual: Array, kind: str) -> None:
    found = difference(actual, np.zeros((2, 3), np.int8))
    assert found is not None
    assert (found.kind, found.count) == (kind, 6)


def test_empty_and_rank_0() -> None:
    assert difference(np.zeros((0, 3), np.int8), np.zeros((0, 3), np.int8)) is None
    found = difference(np.array(1, np.int32), np.array(2, np.int32))
    assert found is not None
    assert (found.first, found.count) == ((), 1)


@given(
    st.sampled_from([dtype for dtype in DTYPES.values() if dtype.bits == 8]),
    st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255)), min_size=4, max_size=4),
)
def test_count_and_first_are_those_of_a_loop(dtype: DType, pairs: list[tuple[int, int]]) -> None:
    actual, expected = (
        dtypes.from_codes(np.array(codes, np.uint8), dtype, (2, 2)) for codes in zip(*pairs, strict=True)
    )

    def equal(index: tuple[int, ...], codes: tuple[int, int]) -> bool:
        nans = [bool(np.isnan(float(array[index]))) for array in (actual, expected)]
        return codes[0] == codes[1] or all(nans)

    wrong = [index for index, codes in zip(np.ndindex(2, 2), pairs, strict=True) if not equal(index, codes)]
    found = difference(actual, expected)
    assert (found.count if found else 0) == len(wrong)
    assert found is None or found.first == wrong[0]
