"""Random numbers for cases: named, seeded, and the same in every language.

`lowbias32` (Chris Wellons, https://nullprogram.com/blog/2018/07/31/) hashes the flat index, so that any part of a
tensor can be made alone.
"""

import numpy as np

from kernel_lab.operators.dtypes import Array, DType


def lowbias32(seed: int, count: int) -> Array:
    """`count` uint32 values: h(seed + i * 0x9E3779B9)."""
    with np.errstate(over="ignore"):
        h = np.uint32(seed & 0xFFFFFFFF) + np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B9)
        h ^= h >> np.uint32(16)
        h *= np.uint32(0x7FEB352D)
        h ^= h >> np.uint32(15)
        h *= np.uint32(0x846CA68B)
        h ^= h >> np.uint32(16)
    return h


def draw(seed: int, low: float, high: float, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Integers from low to high inclusive (h mod span), or floats low + (high - low) * (h >> 8) / 2^24 rounded to the
    dtype.
    """
    count = int(np.prod(shape, dtype=np.int64))
    h = lowbias32(seed, count)
    if dtype.is_float:
        fraction = (h >> np.uint32(8)).astype(np.float64) / 2.0**24
        return (low + (high - low) * fraction).astype(dtype.numpy).reshape(shape)
    span = int(high) - int(low) + 1
    return (h.astype(np.int64) % span + int(low)).astype(dtype.numpy).reshape(shape)
