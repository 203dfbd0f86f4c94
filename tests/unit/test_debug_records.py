"""What a debug run writes, read back: order, values of each type, and what did not fit."""

import math
import struct

import numpy as np
import pytest

from kernel_lab.debugging import records
from kernel_lab.debugging.probing import json_of
from kernel_lab.debugging.records import BUFFER_WORDS, CAPACITY, Choice, Record, Site, Value, decode, value_of
from kernel_lab.operators.dtypes import Array
from kernel_lab.planning.probes import ValueType

SITES = [Site("op:v:first", "a", "a", None), Site("op:v:second", "b", "b", None)]


def buffer(*rows: tuple[int, ...], written: int | None = None) -> Array:
    """As a kernel leaves it: (site, order, x, y, z, local index, global x, y, z, four words of value)."""
    words = np.zeros(BUFFER_WORDS, np.uint32)
    words[0] = len(rows) if written is None else written
    flat = np.array(rows, np.uint32).reshape(-1)
    words[1 : 1 + flat.size] = flat
    return words


def row(site: int, order: int, workgroup: tuple[int, int, int], local: int, value: int = 0) -> tuple[int, ...]:
    return (site, order, *workgroup, local, 4 * workgroup[0] + local, 8, 9, value, 0, 0, 0)


def brief(record: Record) -> tuple[str, tuple[int, int, int], int, int]:
    who = record.invocation
    return (record.site.name, who.workgroup_id, who.local_invocation_index, record.order)


def test_records_come_by_pass_and_invocation_each_in_program_order() -> None:
    found = decode(
        buffer(
            row(1, 0, (0, 0, 0), 0),
            row(0, 1, (1, 0, 0), 3),
            row(0, 0, (0, 1, 0), 0),
            row(0, 0, (1, 0, 0), 3, value=7),
            row(0, 0, (1, 0, 0), 2),
        ),
        SITES,
    )
    assert [brief(record) for record in found.kept] == [
        ("a", (1, 0, 0), 2, 0),
        ("a", (1, 0, 0), 3, 0),
        ("a", (1, 0, 0), 3, 1),
        ("a", (0, 1, 0), 0, 0),
        ("b", (0, 0, 0), 0, 0),
    ]
    assert found.lost == 0
    assert found.kept[1].words == (7, 0, 0, 0)
    assert found.kept[1].invocation.global_invocation_id == (7, 8, 9)


def test_an_empty_buffer_has_no_record() -> None:
    assert decode(buffer(), []) == records.Records((), 0)


def test_what_did_not_fit_is_counted() -> None:
    rows = [row(0, order, (0, 0, 0), 0) for order in range(CAPACITY)]
    found = decode(buffer(*rows, written=CAPACITY + 5), SITES)
    assert (len(found.kept), found.lost) == (CAPACITY, 5)
    assert [record.order for record in found.kept] == list(range(CAPACITY))


@pytest.mark.parametrize(
    ("words", "kind", "value"),
    [
        ([0xFFFFFFFF], ValueType("u32"), 4294967295),
        ([0xFFFFFFFF], ValueType("i32"), -1),
        ([0x7FFFFFFF], ValueType("i32"), 2147483647),
        ([1], ValueType("bool"), True),
        ([0], ValueType("bool"), False),
        ([0x40490FDB], ValueType("f32"), struct.unpack("<f", bytes.fromhex("db0f4940"))[0]),
        ([0x00000001], ValueType("f32"), 2.0**-149),
        ([0xC000], ValueType("f16"), -2.0),
        ([1, 2, 0xFFFFFFFE], ValueType("i32", 3), (1, 2, -2)),
        ([0x3F800000, 0xFF800000], ValueType("f32", 2), (1.0, -math.inf)),
        ([1, 0, 1, 1], ValueType("bool", 4), (True, False, True, True)),
    ],
)
def test_values_are_what_their_type_makes_of_the_words(words: list[int], kind: ValueType, value: Value) -> None:
    found = value_of([*words, *[0xAAAAAAAA] * (4 - len(words))], kind)
    assert found == value
    assert type(found) is type(value)


def test_json_has_no_number_for_some_floats() -> None:
    shown = [json_of(value) for value in (math.nan, math.inf, -math.inf, 1.5, True, 3)]
    assert shown == ["NaN", "Infinity", "-Infinity", 1.5, True, 3]


def test_a_choice_is_eight_words() -> None:
    assert Choice("global", (1, 2, 3)).words() == (1, 0, 0, 0, 1, 2, 3, 0)
    assert Choice("workgroup", (1, 2, 3), 4).words() == (2, 4, 0, 0, 1, 2, 3, 0)
    assert records.EVERY.words() == (3, 0, 0, 0, 0, 0, 0, 0)
    assert records.NOBODY.words(9, 2) == (0, 0, 9, 2, 0, 0, 0, 0)
