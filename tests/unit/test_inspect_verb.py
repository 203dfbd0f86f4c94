"""`kernel-lab inspect` without a browser: what its options mean, what it prints, which sentences it refuses with."""

import pytest

from kernel_lab.cli.inspect import lines_of, what_to_look_at
from kernel_lab.debugging.inspecting import Element, Inspection
from kernel_lab.debugging.probing import Probed, Probes
from kernel_lab.debugging.records import EVERY, Choice, Invocation, Site
from kernel_lab.debugging.writers import Writer, Writers
from kernel_lab.errors import LabError
from kernel_lab.planning.includes import Origin
from kernel_lab.planning.probes import ValueType

WHO = Invocation((1, 0, 0), 2, (6, 0, 0))
OTHER = Invocation((2, 0, 0), 0, (8, 0, 0))
STORE = Site("op:v:sum", "", "y[i] = s;", Origin("t.jinja", 9))


def probed(name: str, order: int, value: int | tuple[float, ...], who: Invocation = WHO) -> Probed:
    kind = ValueType("f32", 2) if isinstance(value, tuple) else ValueType("u32")
    return Probed(name, who, order, value, Site("op:v:sum", name, "s", Origin("t.jinja", 7), kind))


@pytest.mark.parametrize(
    ("invocation", "every", "element", "looks_at"),
    [
        (None, False, None, Choice("global", (0, 0, 0))),
        ("7", False, None, Choice("global", (7, 0, 0))),
        ("7, 8", False, None, Choice("global", (7, 8, 0))),
        ("7,8,9", False, None, Choice("global", (7, 8, 9))),
        (None, True, None, EVERY),
        (None, False, "y[0,3,2]", Element("y", (0, 3, 2))),
        (None, False, "columns[ 5 ]", Element("columns", (5,))),
        (None, False, "y[]", Element("y", ())),
        (None, False, "y", Element("y", ())),
    ],
)
def test_options_say_what_to_look_at(
    invocation: str | None, every: bool, element: str | None, looks_at: Choice | Element
) -> None:
    assert what_to_look_at(invocation, every, element) == looks_at


@pytest.mark.parametrize(
    ("invocation", "every", "element", "said"),
    [
        ("1", True, None, "--invocation, --all and --element exclude each other"),
        (None, True, "y[0]", "exclude each other"),
        ("1,2,3,4", False, None, "--invocation 1,2,3,4: must be one to three numbers"),
        ("", False, None, "must be one to three numbers"),
        ("-1", False, None, "--invocation -1: '-1' must be numbers of 0 or more"),
        (None, False, "y[0", "--element y[0: must be an output's name and an index, as y[0,3,2]"),
        (None, False, "y[1,,2]", "must be numbers of 0 or more with commas"),
        (None, False, "y[-1]", "must be an output's name and an index"),
    ],
)
def test_options_that_say_nothing_clear_are_refused(
    invocation: str | None, every: bool, element: str | None, said: str
) -> None:
    with pytest.raises(LabError) as error:
        what_to_look_at(invocation, every, element)
    assert said in str(error.value)


def test_the_page_names_the_writer_and_then_its_probes() -> None:
    found = Inspection(
        "op:case:v", Element("y", (0, 3)), 41, Writers((Writer(WHO, STORE, 2, 0),), 4, 0), Writer(WHO, STORE, 2, 0),
        Probes((probed("s", 0, 7), probed("pair", 1, (0.5, 1.0))), 0, (Site("op:v:sum", "deep", "d", None),)),
    )  # fmt: skip
    assert list(lines_of(found)) == [
        "y[0,3] = 41",
        "  stored by workgroup [1, 0, 0], local index 2, global id [6, 0, 0], 2 times",
        "    in pass sum, t.jinja:9: y[i] = s;",
        "  These stores are to a word that 4 elements share.",
        "",
        "probes of workgroup [1, 0, 0], local index 2, global id [6, 0, 0]:",
        "     0  s     7  u32  (t.jinja:7)",
        "     1  pair  (0.5, 1.0)  vec2<f32>  (t.jinja:7)",
        "  deep: recorded nothing (op:v:sum)",
    ]


def test_the_page_says_who_when_there_are_several_and_what_is_missing() -> None:
    found = Inspection("op:case:v", probes=Probes((probed("s", 0, 7), probed("s", 0, 8, OTHER)), 1234))
    assert list(lines_of(found)) == [
        "pass sum, workgroup [1, 0, 0], local index 2, global id [6, 0, 0]:",
        "     0  s  7  u32  (t.jinja:7)",
        "pass sum, workgroup [2, 0, 0], local index 0, global id [8, 0, 0]:",
        "     0  s  8  u32  (t.jinja:7)",
        "  … and 1,234 more values, for which there was no room.",
    ]


def test_the_page_says_so_when_nobody_stored_and_when_there_is_no_probe() -> None:
    nobody = Inspection("op:case:v", Element("y", (0,)), 3, Writers((), 1, 0))
    assert list(lines_of(nobody)) == ["y[0] = 3", "  Nobody stored there: it holds what it was filled with."]
    writer = Writer(WHO, STORE, 1, 0)
    silent = list(lines_of(Inspection("op:case:v", Element("y", (0,)), 3, Writers((writer,), 1, 0), writer)))
    assert silent[-1] == 'No probes: write {{ probe("sum", "sum") }} as a line of its own in the template.'


def test_json_has_all_of_it() -> None:
    writer = Writer(WHO, STORE, 1, 0)
    found = Inspection(
        "op:case:v", Element("y", (3,)), float("inf"), Writers((writer,), 1, 0), writer, Probes((probed("s", 4, 7),), 2)
    )
    who = {"workgroup_id": [1, 0, 0], "local_invocation_index": 2, "global_invocation_id": [6, 0, 0]}
    place = {"pass": "sum", "file": "t.jinja"}
    assert found.json == {
        "query": "op:case:v",
        "element": {
            "buffer": "y",
            "index": [3],
            "value": "Infinity",
            "writers": [{"invocation": who, "times": 1, "order": 0, **place, "line": 9, "text": "y[i] = s;"}],
            "elements_watched": 1,
            "lost": 0,
        },
        "inspected": who,
        "probes": [
            {"name": "s", "type": "u32", "value": 7, "order": 4, "invocation": who, **place, "line": 7, "text": "s"}
        ],
        "probes_lost": 2,
        "probes_silent": [],
    }
