"""A case as an entry of test.json, with every value written out.

In: a case. Out: JSON values that `operators/cases.py` reads back to the same bits. Pure.
"""

import math
from typing import Any

import numpy as np

from kernel_lab.operators import dtypes
from kernel_lab.operators.cases import Case
from kernel_lab.operators.dtypes import Array


def entry(case: Case, name: str, why: str) -> dict[str, Any]:
    """One element of `cases`."""
    opset = case.request.opset
    return {
        "name": name,
        "why": why,
        **({"attrs": dict(case.request.attrs)} if case.request.attrs else {}),
        **({"opset": {"domain": opset.domain, "version": opset.version}} if opset else {}),
        "inputs": {role: tensor(array) for role, array in case.inputs.items()},
    }


def tensor(array: Array) -> dict[str, Any]:
    """As numbers; as bits only where a number does not say all: a NaN."""
    dtype = dtypes.of_array(array)
    head = {"dtype": dtype.name, "shape": list(array.shape)}
    if not dtype.is_float:
        return {**head, "data": {"kind": "values", "values": [int(value) for value in array.reshape(-1)]}}
    wide = array.reshape(-1).astype(np.float64)
    if np.isnan(wide).any():
        digits = -(-dtype.bits // 4)
        codes = [f"{int(code):0{digits}x}" for code in dtypes.raw_codes(array)]
        return {**head, "data": {"kind": "bits", "values": codes}}
    return {**head, "data": {"kind": "values", "values": [_number(float(value)) for value in wide]}}


def _number(value: float) -> float | str:
    """JSON has no infinity."""
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")
