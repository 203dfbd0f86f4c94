"""What other people's expressions and sentences cannot do: fill the memory, go on for ever, call what is no function.

The bombs here are small ones, of 100 MB or some minutes: without a bound the tests fail, and the machine survives.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from kernel_lab.planning.expressions import Unmet, evaluate, sentence, sequence, unfilled

Soon = Callable[..., AbstractContextManager[None]]
LETTERS = "'" + "a" * 1200 + "'"


@pytest.mark.parametrize(
    "text",
    [
        "numel([9999999999] * 2)",
        "'%100000000d' is odd",
        "'%100000000d' is even",
        "'%100000000d' is divisibleby(1)",
        f"{LETTERS} | join({LETTERS}) | join({LETTERS})",
        "numel([" + ", ".join(["2 + 9999999999"] * 200) + "])",
        "'" + "z" * 3000 + "' | int(0, 36)",
        "'a'.ljust",
        "numel",
    ],
    ids=lambda text: text[:30],
)
def test_no_expression_makes_much_from_little(soon: Soon, text: str) -> None:
    with soon(), pytest.raises(Unmet):
        evaluate(text, {"x": [1]})


@pytest.mark.parametrize("text", ["numel(['a', 10**8])", "outer(['a', 10**8, 1], 2)", "inner([1, 'a', 10**8], 0)"])
def test_only_numbers_are_multiplied(text: str) -> None:
    with pytest.raises(Unmet, match="a number is needed, and a str is none"):
        evaluate(text.replace("10**8", "100000000"), {})


@pytest.mark.parametrize(
    "step",
    ["a ~ a", "a + a", "[a, a]", "[a] + [a]", "[a, a] | join", "a | join(a)", "pick([], [a, a])", "[[[a]]]"],
)
@pytest.mark.parametrize("start", ["'aaaaaaaa'", "[1, 2]"])
def test_no_sequence_of_definitions_grows_without_bound(soon: Soon, start: str, step: str) -> None:
    definitions = tuple(
        (f"a{i}", step.replace("a", f"a{i - 1}").replace(f"pa{i - 1}", "p") if i else start) for i in range(24)
    )
    with soon(), pytest.raises(Unmet):
        sequence(definitions)({})


@pytest.mark.parametrize("method", ["'{:100000000}'.format", "'a'.ljust", "'1'.zfill", "numel"])
def test_no_definition_is_a_function_that_another_calls(method: str) -> None:
    """The syntax admits calls of names: a name must never stand for more than a value."""
    with pytest.raises(Unmet, match="is no value"):
        sequence((("f", method), ("g", "f(100000000)")))({})


@pytest.mark.parametrize(
    "text",
    [
        "{% for a in n %}{% for b in n %}{% endfor %}{% endfor %}{{ n }}",
        "{% set a = n %}{{ a }}",
        "{{ 'a'.ljust(100000000) }}",
        "{{ n | center(100000000) }}",
        "{{ n.__class__ }}",
        "{{ lipsum() }}",
        "{{ " + "(" * 1500 + "n" + ")" * 1500 + " }}",
        "{{ n }}" * 700,
    ],
    ids=lambda text: text[:30],
)
def test_a_sentence_is_text_with_expressions_and_nothing_else(soon: Soon, text: str) -> None:
    with soon():
        assert sentence(text, {"n": "1" * 9}) == unfilled(text)


def test_a_sentence_s_bounds_leave_room_for_what_sentences_say() -> None:
    scope: dict[str, Any] = {"n": [1, 2], "m": "x"}
    assert sentence("{{ m }}: got {{ n }}, but {{ n[0] + 1 if m else 'a' ~ m }} is needed.", scope) == (
        "x: got [1, 2], but 2 is needed."
    )
