"""Expressions: Jinja's, with unknown names, escapes and bombs refused by a sentence that quotes the expression."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab.planning import expressions
from kernel_lab.planning.expressions import Unmet, compiled, evaluate, first_false, sentence, sequence
from kernel_lab.planning.scopes import Names

SCOPE = {
    "attrs": Names({"axis": 1, "pads": None, "items": 7}),
    "shapes": Names({"x": [2, 3, 4]}),
    "dtypes": Names({"T": "f32"}),
    "n": 10,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 - 8 // 3 % 2", 7),
        ("n / 4", 2.5),
        ("n / 5", 2),
        ("[n / 5, 4.0, [0.5]]", [2, 4, [0.5]]),
        ("-7 // 2", -4),
        ("attrs.pads is none and attrs.axis == 1", True),
        ("attrs.items", 7),
        ("shapes.x[1:] + [5]", [3, 4, 5]),
        ("'f16' if dtypes.T == 'f16' else dtypes.T ~ '!'", "f32!"),
        ("shapes.x | length", 3),
        ("n in [1, 10] and not n > 10", True),
        ("[] == [] and [1] != []", True),
        ("2 < 3 < 4", True),
        ("ceil(2.1) + floor(2.9)", 5),
        ("min(shapes.x) ~ max(1, n)", "210"),
        ("ceilDiv(7, 2) + ceilDiv(8, 2) + ceilDiv(0, 2)", 8),
        ("[pow2ceil(0), pow2ceil(1), pow2ceil(5), pow2ceil(64)]", [1, 1, 8, 64]),
        ("pow(2, 10)", 1024),
        ("[numel(shapes.x), numel([]), rank(shapes.x), rank([])]", [24, 1, 3, 0]),
        ("[dim(shapes.x, -1), rows(shapes.x), cols(shapes.x)]", [4, 3, 4]),
        ("[outer(shapes.x, 1), inner(shapes.x, 1), outer(shapes.x, 0), inner(shapes.x, 2)]", [2, 4, 1, 1]),
        ("sameShape(shapes.x, [2, 3, 4]) and hasAxis(shapes.x, -3) and not hasAxis(shapes.x, 3)", True),
        ("has(attrs, 'axis') and not has(attrs, 'group')", True),
        ("pick([[n > 20, 'a'], [n > 5, 'b']], 'c') ~ pick([], 'd')", "bd"),
        ("[dtypeBits('int4'), dtypeBytes('int4'), dtypeBytes('float16')]", [4, 1, 2]),
    ],
)
def test_value(text: str, value: object) -> None:
    found = evaluate(text, SCOPE)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("literal", [3, True, 0.5, False])
def test_what_is_no_text_stands_for_itself(literal: object) -> None:
    assert evaluate(literal, {}) is literal


@given(st.integers(-(2**60), 2**60), st.integers(1, 2**30))
def test_ceil_div_is_exact(a: int, b: int) -> None:
    assert evaluate("ceilDiv(a, b)", {"a": a, "b": b}) == a // b + (a % b > 0)


@pytest.mark.parametrize(
    "text", ["stirdes", "false and stirdes", "1 if true else stirdes", "stirdes is defined", "[1, stirdes] | first"]
)
def test_unknown_name_is_an_error_wherever_it_stands(text: str) -> None:
    with pytest.raises(Unmet, match=r"^`.*`: unknown name 'stirdes' \(known: attrs, dtypes, n, shapes\)\.$"):
        evaluate(text, SCOPE)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("attrs.stirdes", "reads something that is not there"),
        ("[attrs.stirdes]", "reads something that is not there"),
        ("[[shapes.w]]", "reads something that is not there"),
        ("attrs.stirdes + 1", "has no attribute 'stirdes'"),
        ("shapes.x[7]", "reads something that is not there"),
        ("n if n > 20", "an `if` needs its `else`"),
        ("n // 0", "division|modulo"),
        ("min([])", "empty"),
        ("shapes.x + 1", "concatenate"),
        ("n < 'a'", "not supported"),
        ("dtypeBits('int5')", "dtype 'int5' is unknown"),
        ("pow(10, 400)", "bounded"),
        ("pow(4294967296, 64)", "large"),
        ("ceil(1, 2)", "argument"),
        ("n('a')", "not callable"),
    ],
)
def test_what_cannot_be_evaluated_is_said_with_the_expression(text: str, complaint: str) -> None:
    with pytest.raises(Unmet, match=complaint) as error:
        evaluate(text, SCOPE)
    assert str(error.value).startswith(f"`{text}`")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "n.__class__",
        "n['__class__']",
        "attrs.__init__.__globals__",
        "attrs._values",
        "numel.__globals__",
        "''.__class__.__mro__[1].__subclasses__()",
        "'{0.__class__}'.format(n)",
        "'{0.__class__}'.format_map(n)",
        "shapes.x.append(5)",
        "attrs | attr('__class__')",
        "n | tojson",
        "lipsum.__globals__",
        "cycler",
        "range(9)",
        "self",
        "'%s' % n",
    ],
)
def test_no_way_out_of_the_sandbox(text: str) -> None:
    with pytest.raises(Unmet):
        evaluate(text, SCOPE)


@pytest.mark.parametrize(
    "text",
    [
        "10 ** 10000000",
        "2 ** n ** 50",
        "'a' * 9999999999",
        "[0] * 9999999999",
        "9999999999 * 'a'",
        "dtypes.T * 9999999999",
        "'%9999999999d' % n",
        "'a'.ljust(9999999999)",
        "'a'.zfill(9999999999)",
        "pow(10, 10000000)",
        " * ".join(["999999999"] * 300),
        "(" * 1500 + "n" + ")" * 1500,
        "[" * 1500 + "]" * 1500,
        "not " * 900 + "n",
        "1 if n else " * 300 + "2",
        "n" + ".a" * 1900,
    ],
    ids=lambda text: text[:24],
)
def test_bombs_are_refused_at_once(soon: Callable[..., AbstractContextManager[None]], text: str) -> None:
    with soon(), pytest.raises(Unmet):
        evaluate(text, SCOPE)


def test_length_is_limited() -> None:
    longest = "1" + " " * (expressions.MAX_LENGTH - 1)
    assert evaluate(longest, {}) == 1
    with pytest.raises(Unmet, match=r"^`1 .*…`: 4001 characters; an expression may have 4000\.$"):
        evaluate(longest + " ", {})


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1, 2",
        "1) }}{{ (2",
        "1) }}x{{ (2",
        "1) }}{# #}{{ (2",
        "1 %}{% set n = 2",
        "1) %}{% set n = (2",
        "{% if n %}",
        "n; n",
        "n = 2",
        "(",
        "'a",
        "{'a': 1}",
        "1e",
        "n n",
        "n | nosuchfilter",
        "n is nosuchtest",
    ],
)
def test_one_expression_and_nothing_else(text: str) -> None:
    with pytest.raises(Unmet, match=r"^`"):
        compiled(text)


@given(text=st.text(st.sampled_from(list("nx01.,()[]{}%#'\"+-*/ ~|<>=!if")), max_size=14))
def test_any_text_gives_a_value_or_a_sentence(text: str) -> None:
    with contextlib.suppress(Unmet):
        evaluate(text, SCOPE)


def test_names_are_those_read_and_no_functions() -> None:
    assert compiled("n + numel(shapes.x) if f16Ok('f16') else attrs.axis").names == {"n", "shapes", "attrs", "f16Ok"}


SEQUENCES: list[tuple[tuple[tuple[str, object], ...], dict[str, Any]]] = [
    ((("a", "n + 1"), ("b", "a * 2"), ("c", "[a, b / 2]")), {"a": 11, "b": 22, "c": [11, 11]}),
    ((("a", 3), ("b", True), ("c", 0.5), ("d", "a if b else c")), {"a": 3, "b": True, "c": 0.5, "d": 3}),
    ((("n", "n + 1"), ("m", "n")), {"n": 11, "m": 11}),
    ((), {}),
]


@pytest.mark.parametrize(("definitions", "values"), SEQUENCES)
def test_sequence_gives_what_one_after_the_other_gives(
    definitions: tuple[tuple[str, object], ...], values: dict[str, Any]
) -> None:
    found = sequence(definitions)(SCOPE)
    assert found == values == expressions._one_by_one(definitions, SCOPE)
    assert [type(value) for value in found.values()] == [type(value) for value in values.values()]


@pytest.mark.parametrize(
    ("definitions", "complaint"),
    [
        ((("a", "n"), ("b", "a // 0")), r"^b: `a // 0`: .*\.$"),
        ((("a", "b"), ("b", "1")), r"^a: `b`: unknown name 'b'"),
        ((("a", "false and b"),), r"^a: .*unknown name 'b'"),
        ((("a", "[attrs.nosuch]"),), r"^a: .*not there"),
        ((("a-b", "1"),), r"^'a-b' cannot be the name"),
        ((("_a", "1"),), r"^'_a' cannot be the name"),
        ((("a", "1) %}{% set n = (2"),), r"^`1\) %}"),
    ],
)
def test_sequence_names_the_definition_at_fault(definitions: tuple[tuple[str, object], ...], complaint: str) -> None:
    with pytest.raises(Unmet, match=complaint):
        sequence(definitions)(SCOPE)


def test_first_false_stops_at_the_first() -> None:
    conditions = ("n > 0", "n > 20", "n // 0 == 1")
    assert first_false(conditions)(SCOPE) == 1
    assert first_false(conditions[:1])(SCOPE) == -1
    with pytest.raises(Unmet):
        first_false(conditions)({**SCOPE, "n": 30})


def test_first_false_checks_every_name_and_takes_many() -> None:
    with pytest.raises(Unmet, match="unknown name 'm'"):
        first_false(("false", "m"))(SCOPE)
    assert first_false(("n > 0",) * 60 + ("n < 0",))(SCOPE) == 60


def test_sentence_fills_holes_and_never_fails() -> None:
    assert sentence("x: got {{ shapes.x }}, not {{ n + 1 }}.", SCOPE) == "x: got [2, 3, 4], not 11."
    assert sentence("x: got {{ nosuch }}, not {{ n }}.", SCOPE) == "x: got ? nosuch , not ? n ."
    assert sentence("{{ attrs.axis }}", {"attrs": Names({"axis": "{{ n }}"})}) == "{{ n }}"
