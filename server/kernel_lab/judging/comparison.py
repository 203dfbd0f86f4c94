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
    differs = _differs(actual, expected)
    count = int(np.count_nonzero(differs))
    if count == 0:
        return None
    first = np.unravel_index(int(differs.argmax()), expected.shape)
    return Difference(actual, expected, count, tuple(int(i) for i in first))


def picture(difference: Difference, rows: int = 48, columns: int = 96) -> list[str]:
    """Where the elements differ, as a picture of at most that size: the last axis across, all others down. A digit says
    how much of its field differs: 0 nothing, 9 everything, 1 even if it is one element. Empty if the shapes differ.
    """
    if difference.kind or not difference.expected.size:
        return []
    differs = _differs(difference.actual, difference.expected)
    flat = differs.reshape(-1, difference.expected.shape[-1] if difference.expected.ndim else 1)
    down = np.array_split(np.arange(flat.shape[0]), min(rows, flat.shape[0]))
    across = np.array_split(np.arange(flat.shape[1]), min(columns, flat.shape[1]))
    starts = [part[0] for part in across]
    shares = np.array(
        [np.add.reduceat(flat[part[0] : part[-1] + 1].sum(axis=0), starts) / len(part) for part in down]
    ) / np.array([len(part) for part in across])
    digits = np.where(shares > 0, np.clip(np.floor(9 * shares), 1, 9), 0).astype(int)
    return ["".join(map(str, row)) for row in digits]


def _differs(actual: Array, expected: Array) -> Array:
    """A flat array of bools."""
    differs: Array = dtypes.raw_codes(actual) != dtypes.raw_codes(expected)
    if differs.any() and dtypes.of_array(expected).is_float:
        with np.errstate(invalid="ignore"):
            both_nan = np.isnan(actual.astype(np.float32)) & np.isnan(expected.astype(np.float32))
        differs &= ~both_nan.reshape(-1)
    return differs
