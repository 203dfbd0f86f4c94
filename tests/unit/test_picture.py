"""The picture of where two arrays differ."""

import numpy as np

from kernel_lab.judging import comparison
from kernel_lab.operators.dtypes import Array


def picture(expected: Array, *wrong: tuple[int, ...], **size: int) -> list[str]:
    actual = expected.copy()
    for index in wrong:
        actual[index] += 1
    found = comparison.difference(actual, expected)
    assert found is not None
    return comparison.picture(found, **size)


def test_a_small_array_has_a_digit_an_element() -> None:
    assert picture(np.zeros((2, 3), np.int32), (0, 2), (1, 0)) == ["009", "900"]


def test_the_last_axis_goes_across_and_the_others_down() -> None:
    assert picture(np.zeros((2, 2, 2), np.uint8), (1, 0, 1)) == ["00", "00", "09", "00"]
    assert picture(np.zeros(3, np.uint8), (1,)) == ["090"]
    assert picture(np.zeros((), np.uint8), ()) == ["9"]


def test_a_large_array_is_drawn_smaller_and_one_element_still_shows() -> None:
    drawn = picture(np.zeros((100, 1000), np.int32), (99, 999), rows=10, columns=20)
    assert [len(row) for row in drawn] == [20] * 10
    assert "".join(drawn) == "0" * 199 + "1"


def test_a_digit_is_the_share_of_its_field() -> None:
    half = picture(np.zeros((1, 8), np.int32), *[(0, i) for i in (0, 1, 2, 3, 4, 5)], rows=1, columns=2)
    assert half == ["94"]


def test_other_nans_are_no_difference() -> None:
    expected = np.array([np.nan, 1.0], np.float32)
    actual = np.array([-np.nan, 2.0], np.float32)
    found = comparison.difference(actual, expected)
    assert found is not None
    assert comparison.picture(found) == ["09"]


def test_other_shapes_have_no_picture() -> None:
    found = comparison.difference(np.zeros(2, np.uint8), np.zeros(3, np.uint8))
    assert found is not None
    assert comparison.picture(found) == []
