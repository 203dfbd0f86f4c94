"""Random numbers of cases: the same in every language, so they are compared with plain Python integers."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab.operators import dtypes, generators

MASK = 0xFFFFFFFF


def lowbias32(seed: int, index: int) -> int:
    """The definition, one step a line."""
    h = (seed + index * 0x9E3779B9) & MASK
    h ^= h >> 16
    h = h * 0x7FEB352D & MASK
    h ^= h >> 15
    h = h * 0x846CA68B & MASK
    return h ^ h >> 16


def test_numbers_worked_out_by_hand() -> None:
    h = 0x7FEB352D  # 1 ^ 1 >> 16 is 1; times the first constant
    h ^= 0xFFD6  # its upper 17 bits
    assert h == 0x7FEBCAFB
    h *= 0x846CA68B
    assert h == 0x422BDF5B_6889F849  # the upper word falls off
    assert generators.lowbias32(1, 1).tolist() == [0x6889F849 ^ 0x6889]
    assert generators.lowbias32(0, 1).tolist() == [0]


@given(seed=st.integers(-(2**33), 2**33), count=st.integers(0, 40))
def test_every_number_is_the_definition_s(seed: int, count: int) -> None:
    found = generators.lowbias32(seed, count)
    assert found.dtype == np.uint32
    assert found.tolist() == [lowbias32(seed, index) for index in range(count)]


@given(seed=st.integers(0, MASK), low=st.integers(-128, 127), span=st.integers(0, 255))
def test_integers_are_the_hash_modulo_the_span_ends_included(seed: int, low: int, span: int) -> None:
    high = min(low + span, 127)
    drawn = generators.draw(seed, low, high, dtypes.named("int8"), (3, 5))
    assert drawn.reshape(-1).tolist() == [low + lowbias32(seed, i) % (high - low + 1) for i in range(15)]


def test_whole_range_of_uint32_and_int32() -> None:
    drawn = generators.draw(5, 0, MASK, dtypes.named("uint32"), (4,))
    assert drawn.tolist() == [lowbias32(5, i) for i in range(4)]
    signed = generators.draw(5, -(2**31), 2**31 - 1, dtypes.named("int32"), (4,))
    assert signed.tolist() == [lowbias32(5, i) - 2**31 for i in range(4)]


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_floats_use_24_bits_and_are_rounded_once(name: str) -> None:
    dtype = dtypes.named(name)
    drawn = generators.draw(9, -0.5, 2.0, dtype, (50,))
    exact = [-0.5 + 2.5 * ((lowbias32(9, i) >> 8) / 2**24) for i in range(50)]
    assert np.array_equal(drawn, np.array(exact, np.float64).astype(dtype.numpy))
    assert -0.5 <= drawn.astype(np.float64).min() < drawn.astype(np.float64).max() <= 2.0


def test_sub_byte_draws_reach_both_ends() -> None:
    drawn = generators.draw(1, -8, 7, dtypes.named("int4"), (300,))
    assert drawn.dtype == ml_dtypes.int4
    assert set(drawn.astype(int).tolist()) == set(range(-8, 8))


def test_rank_0_is_one_number_and_a_part_is_a_prefix() -> None:
    dtype = dtypes.named("uint8")
    assert generators.draw(7, 0, 255, dtype, ()).shape == ()
    assert generators.draw(7, 0, 255, dtype, (0, 4)).size == 0
    assert generators.draw(7, 0, 255, dtype, (5,)).tolist() == generators.draw(7, 0, 255, dtype, (9,))[:5].tolist()
