"""Refusals that depend on values: a float zero point must be 0, y_scale neither 0 nor NaN; everything else passes."""

from typing import Any

import numpy as np
import pytest

from kernel_lab.operators import dtypes, operator
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.requests import request_of
from kernel_lab.planning import scopes, values
from kernel_lab.planning.scopes import Scope

SHIPPED = operator.load_all()


def refusal(op: str, inputs: dict[str, Array]) -> str | None:
    scope = scopes.scope_of(SHIPPED[op], request_of(op, inputs, {}))
    assert isinstance(scope, Scope), scope
    return values.refusal(scope, inputs)


@pytest.mark.parametrize(
    ("dtype", "code", "refused"),
    [
        ("float8e4m3fn", 0x00, False),
        ("float8e4m3fn", 0x80, False),  # -0
        ("float8e4m3fn", 0x01, True),
        ("float8e4m3fn", 0x7F, True),  # NaN
        ("float8e4m3fnuz", 0x80, True),  # NaN
        ("float8e5m2", 0x80, False),  # -0
        ("float8e5m2", 0x7C, True),  # infinity
        ("float8e5m2fnuz", 0x01, True),
        ("float4e2m1", 0x0, False),
        ("float4e2m1", 0x1, True),
        ("int8", 0x05, False),
        ("uint4", 0xF, False),
    ],
)
def test_zero_point_of_dequantize_linear(dtype: str, code: int, refused: bool) -> None:
    kind = dtypes.named(dtype)
    one = dtypes.from_codes(np.array([code], np.uint8), kind, (1,))
    said = refusal("ai.onnx.DequantizeLinear", {"x": one, "x_scale": np.ones(1, np.float32), "x_zero_point": one})
    expected = f"x_zero_point: got a value other than 0, but only 0 is allowed for {dtype}."
    assert said == (expected if refused else None)


def test_a_zero_point_that_is_absent_is_not_looked_at() -> None:
    x = dtypes.from_codes(np.array([0x7F], np.uint8), dtypes.named("float8e4m3fn"), (1,))
    assert refusal("ai.onnx.DequantizeLinear", {"x": x, "x_scale": np.ones(1, np.float32)}) is None


@pytest.mark.parametrize(
    ("y_scale", "refused"),
    [(0.0, True), (-0.0, True), (np.nan, True), (1e-45, False), (-1.0, False), (np.inf, False)],
)
def test_y_scale_of_qlinear_conv(y_scale: Any, refused: bool) -> None:
    inputs: dict[str, Array] = {name: np.ones((), np.float32) for name in ("x_scale", "w_scale")}
    inputs |= {name: np.zeros((), np.uint8) for name in ("x_zero_point", "w_zero_point", "y_zero_point")}
    inputs |= {"x": np.ones((1, 1, 2), np.uint8), "w": np.ones((1, 1, 1), np.uint8)}
    said = refusal("com.microsoft.QLinearConv", {**inputs, "y_scale": np.array(y_scale, np.float32)})
    assert said == ("y_scale: got 0 or NaN, but it must be another number." if refused else None)
