"""The way to one element that references spell out ends at the element, for every case."""

import numpy as np
import pytest

from kernel_lab.debugging import specimen
from kernel_lab.errors import LabError
from kernel_lab.operators import operator

OPERATORS = operator.load_all()
MOST_TAPS = 3000


@pytest.mark.parametrize("name", OPERATORS)
def test_steps_end_at_the_value_and_go_by_what_feeds_it(name: str) -> None:
    operator = OPERATORS[name]
    looked_at = 0
    for case in operator.cases:
        taps = np.prod(case.request.shapes.get("w", (0, 0))[1:])
        if case.refused is not None or taps > MOST_TAPS:
            continue
        for role, expected in operator.reference.compute(case.inputs, case.request.attrs).items():
            for flat in {0, expected.size // 2, expected.size - 1} if expected.size else ():
                index = tuple(int(at) for at in np.unravel_index(flat, expected.shape))
                told = specimen.element(operator, case, role, index)
                steps = told["steps"]
                assert steps["then"][-1].endswith((f"= {told['expected']}", f": {told['expected']}")), case.query
                assert all(len(row) == len(steps["columns"]) for row in steps["rows"])
                read = [row[0] for row in steps["rows"] if row[0] != "padding"]
                assert read == [f"x{place['index']}" for place in told["fed"]["x"]], case.query
                looked_at += 1
    assert looked_at > 200


@pytest.mark.parametrize(
    ("output", "index", "sentence"),
    [
        ("z", (0,), "output 'z': there are y"),
        ("y", (0,), r"y\[0\] lies outside of its shape \["),
        ("y", (0, 0, 0, -1), "lies outside"),
    ],
)
def test_an_element_that_is_not_there_is_a_sentence(output: str, index: tuple[int, ...], sentence: str) -> None:
    operator = OPERATORS["ai.onnx.ConvInteger"]
    case = next(case for case in operator.cases if case.name == "groups")
    with pytest.raises(LabError, match=sentence):
        specimen.element(operator, case, output, index)
