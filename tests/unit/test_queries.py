"""Queries: the one string that names an operator, a case and a variant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab import queries
from kernel_lab.errors import LabError
from kernel_lab.queries import Query

NAME = st.text(st.sampled_from("abcXYZ019._-"), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", Query()),
        ("*", Query()),
        ("ai.onnx.ConvInteger", Query("ai.onnx.ConvInteger")),
        ("ConvInteger:valid", Query("ConvInteger", "valid")),
        ("ConvInteger::dp4a*", Query("ConvInteger", "*", "dp4a*")),
        (":valid", Query("*", "valid")),
    ],
)
def test_parse(text: str, query: Query) -> None:
    assert queries.parse(text) == query


def test_a_fourth_part_is_refused() -> None:
    with pytest.raises(LabError, match=r"query 'a:b:c:d': got 4 parts, allowed are at most three"):
        queries.parse("a:b:c:d")


@given(parts=st.lists(st.one_of(st.just("*"), NAME), min_size=3, max_size=3))
def test_text_of_a_query_is_that_query(parts: list[str]) -> None:
    query = Query(*parts)
    assert queries.parse(str(query)) == query
    assert not str(query).endswith(":*")


@pytest.mark.parametrize(
    ("pattern", "operator", "matches"),
    [
        ("ai.onnx.ConvInteger", "ai.onnx.ConvInteger", True),
        ("ConvInteger", "ai.onnx.ConvInteger", True),
        ("Conv*", "ai.onnx.ConvInteger", True),
        ("ai.*", "ai.onnx.ConvInteger", True),
        ("Conv", "ai.onnx.ConvInteger", False),
        ("convinteger", "ai.onnx.ConvInteger", False),
        ("onnx.ConvInteger", "ai.onnx.ConvInteger", False),
    ],
)
def test_operator_by_whole_or_last_name(pattern: str, operator: str, matches: bool) -> None:
    assert queries.matches_operator(pattern, operator) is matches


def test_names_not_given_fit_anything() -> None:
    query = queries.parse("ConvInteger:pad*:dp4a_*")
    assert query.matches("ai.onnx.ConvInteger")
    assert query.matches("ai.onnx.ConvInteger", "pads")
    assert query.matches("ai.onnx.ConvInteger", "pads", "dp4a_x")
    assert not query.matches("ai.onnx.ConvInteger", "valid", "dp4a_x")
    assert not query.matches("ai.onnx.ConvInteger", "pads", "matrix")
    assert not query.matches("com.microsoft.QLinearConv", "pads", "dp4a_x")


@given(text=st.text(max_size=20))
def test_a_foreign_name_becomes_a_part_of_a_query(text: str) -> None:
    name = queries.name_of(text)
    query = queries.parse(f"op:{name}")
    assert query == Query("op", name)
    assert query.matches("op", name)


@pytest.mark.parametrize("query", ["ai.onnx.ConvInteger:pads:dp4a", "ConvInteger:*", "a/b:..\\c?:*"])
def test_file_names_have_no_character_that_a_file_system_refuses(query: str) -> None:
    assert not set(queries.file_name_of(query)) & set(':/\\*?"<>| ')


def test_file_names_keep_the_parts_apart() -> None:
    assert queries.file_name_of("ai.onnx.ConvInteger:pads:dp4a") == "ai.onnx.ConvInteger__pads__dp4a"
