"""How good the cases are: each deliberate mistake that a reference lists is caught by at least one of them."""

import functools
from typing import Any

import numpy as np
import pytest

from kernel_lab.judging.comparison import difference
from kernel_lab.operators import dtypes, operator
from kernel_lab.operators.cases import Case
from kernel_lab.operators.dtypes import Array

SHIPPED = operator.load_all()
MISTAKES = [(op.id, name) for op in SHIPPED.values() for name in op.reference.mistakes]


@functools.cache
def cases_by_size(op: str) -> list[Case]:
    """The cases that run, small ones first: most mistakes are caught without the large ones."""
    ran = [case for case in SHIPPED[op].cases if case.refused is None]
    return sorted(ran, key=lambda case: sum(map(dtypes.numel, case.request.shapes.values())))


@functools.cache
def right(case: Case) -> Array:
    return _y(case.operator, None, case)


def _y(op: str, mistake: str | None, case: Case) -> Array:
    reference = SHIPPED[op].reference
    compute = reference.compute if mistake is None else reference.mistakes[mistake]
    with np.errstate(all="ignore"):
        y: Array = compute(case.inputs, case.request.attrs)["y"]
    return y


@pytest.mark.parametrize(("op", "mistake"), MISTAKES, ids=[f"{op}:{name}" for op, name in MISTAKES])
def test_some_case_catches_the_mistake(op: str, mistake: str) -> None:
    assert any(difference(_y(op, mistake, case), right(case)) is not None for case in cases_by_size(op))


@pytest.mark.parametrize("op", SHIPPED)
def test_every_reference_lists_mistakes_and_is_none_itself(op: str) -> None:
    """The mistakes that every kernel of the kind is prone to are there by name."""
    named: dict[str, Any] = SHIPPED[op].reference.mistakes  # type: ignore[assignment]
    assert len(named) >= 8
    assert any("zero_point" in name for name in named)
    assert all(callable(compute) for compute in named.values())


@pytest.mark.parametrize("op", SHIPPED)
def test_expected_values_written_in_a_case_are_the_reference_s(op: str) -> None:
    for case in cases_by_size(op):
        if case.expected is not None:
            assert difference(right(case), case.expected[0]["y"]) is None, case.query
