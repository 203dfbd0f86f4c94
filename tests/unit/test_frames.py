"""A result frame as a RunResult: what the page sends is taken apart, and bits behind the last element are noticed."""

from typing import Any

import numpy as np
import pytest

from kernel_lab.judging.verdicts import finding
from kernel_lab.operators.dtypes import Packing
from kernel_lab.planning.plans import Plan, PlannedBuffer, PlannedOutput
from kernel_lab.serving import frames
from kernel_lab.serving.frames import RunResult


def result_of(words: list[int], packing: Packing = "packed") -> RunResult:
    """The result of a run whose output y, uint8[5], came back as these words."""
    data = np.array(words, np.uint32).tobytes()
    buffer = PlannedBuffer("y", "output", "uint8", (5,), packing, len(data), 16, 0)
    plan = Plan("op:variant", (), {}, (buffer,), (), (PlannedOutput("y", "y", "uint8", (5,), packing, len(data)),))
    header: dict[str, Any] = {"status": "ok", "outputs": [{"name": "y", "equal": False, "digest": "", "blob": 0}]}
    return frames.result_of(header, [memoryview(data)], plan)


def test_an_output_comes_back_as_an_array() -> None:
    result = result_of([0x04030201, 0x00000005])
    assert result.outputs["y"].tolist() == [1, 2, 3, 4, 5]
    assert result.untidy == frozenset()


@pytest.mark.parametrize("last", [0x00000105, 0x80000005])
def test_bits_behind_the_last_element_are_noticed(last: int) -> None:
    result = result_of([0x04030201, last])
    assert result.outputs["y"].tolist() == [1, 2, 3, 4, 5]
    assert result.untidy == {"y"}
    found = finding(result, {"y": np.array([1, 2, 3, 4, 5], np.uint8)})
    assert not found.right
    assert found.summary == "y: bits behind the last element are not 0"


def test_one_element_a_word_has_no_rest() -> None:
    assert result_of([1, 2, 3, 4, 5], "word").untidy == frozenset()


def test_a_wrong_element_is_told_first() -> None:
    found = finding(result_of([0x04030201, 0x00000106]), {"y": np.array([1, 2, 3, 4, 5], np.uint8)})
    assert "1 of 5 elements differ" in found.summary
