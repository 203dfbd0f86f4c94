"""The body of a POST as plain JSON, small enough that whatever planning does with it stays quick.

In: bytes. Out: a JSON object of text, finite numbers, lists and objects. LabError for anything else. Pure.

Stricter than Python's own JSON, because an answer may quote what was asked: no NaN, no number of a thousand digits, no
half of a surrogate pair (it has no UTF-8), no more than 200 levels.
"""

import math
from typing import Any

from pydantic_core import from_json

from kernel_lab.errors import LabError

MAX_BYTES = 64 * 1024
"""The longest request of our cases has 3 KiB, most of them the adapter's facts."""
MAX_VALUES = 4096
MAX_INTEGER = 2**65
"""WebGPU has limits of 64 bits, the greatest of which JavaScript prints as 18446744073709552000."""


def read(body: bytes, path: str) -> dict[str, Any]:
    """The JSON object that the body of a POST to that path is."""
    try:
        data = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise LabError(f"the body of POST {path} must be JSON: {error}.") from None
    if not isinstance(data, dict):
        raise LabError(f"the body of POST {path} must be a JSON object.")
    values = _values(data)
    if len(values) > MAX_VALUES:
        raise LabError(f"the body of POST {path} holds {len(values):,} values; it may hold {MAX_VALUES:,}.")
    for value in values:
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise LabError(f"the body of POST {path} holds an integer beyond {MAX_INTEGER:,}.")
        if isinstance(value, float) and not math.isfinite(value):
            raise LabError(f"the body of POST {path} holds a number that no float64 can hold.")
    return data


def _values(data: Any) -> list[Any]:
    """What a JSON value consists of: itself, and whatever is in it."""
    found = [data]
    for value in found:  # which grows meanwhile
        if isinstance(value, dict):
            found.extend(value.values())
        elif isinstance(value, list):
            found.extend(value)
    return found
