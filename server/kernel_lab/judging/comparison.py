"""Step 10, the comparison: two arrays, element by element, to the bit.

In: actual and expected arrays. Out: a `Difference`, or None. Never a tolerance, never an aggregate. NaN equals NaN
whatever its payload; the sign of zero counts.
"""

from dataclasses import dataclass

import numpy as np

from kernel_lab.operators import dtypes
from kernel_lab.operators.dtypes import Array


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """`count` of `size` elements differ, the first at `first`. `kind` is set when dtype or shape differ already."""

    actual: Array
    expected: Array
    count: int
    first: tuple[int, ...]
    kind: str = ""

    @property
    def size(self) -> int:
        return self.expected.size


def difference(actual: Array, expected: Array) -> Difference | None:
    """Where the two differ; None if nowhere."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        shown = [f"{a.dtype}{list(a.shape)}" for a in (actual, expected)]
        return Difference(actual, expected, expected.size, (), f"got {shown[0]}, expected {shown[1]}")
    differs = dtypes.raw_codes(actual) != dtypes.raw_codes(expected)
    if not differs.any():
        return None
    if dtypes.of_array(expected).is_float:
        with np.errstate(invalid="ignore"):
            both_nan = np.isnan(actual.astype(np.float32)) & np.isnan(expected.astype(np.float32))
        differs &= ~both_nan.reshape(-1)
    count = int(np.count_nonzero(differs))
    if count == 0:
        return None
    first = np.unravel_index(int(differs.argmax()), expected.shape)
    return Difference(actual, expected, count, tuple(int(i) for i in first))
