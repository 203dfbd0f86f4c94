"""Who stores to an element: which forms of a store are watched and how, and which are told apart by a sentence."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernel_lab.debugging import instrument, writers
from kernel_lab.debugging.records import BUFFER_WORDS
from kernel_lab.errors import LabError
from kernel_lab.mutating import wgsl
from kernel_lab.operators.dtypes import Packing
from kernel_lab.planning.includes import Origin
from kernel_lab.planning.plans import Plan, PlannedBinding, PlannedBuffer, PlannedPass
from kernel_lab.planning.rendering import wgsl_of

HEAD = """\
struct Params {{ count: u32, y: u32, }}
@group(0) @binding(0) var<storage, read> x: array<u32>;
@binding(1) @group(0) var<storage, read_write> y: {kind};
@group(0) @binding(2) var<uniform> params: Params;
alias Four = vec4<u32>;
fn index_of(e: u32) -> u32 {{ return e; }}
fn given(place: ptr<storage, u32, read_write>) {{ *place = 1u; }}
"""


def planned(
    *lines: str, kind: str = "array<u32>", dtype: str = "uint32", shape: tuple[int, ...] = (40,),
    packing: Packing = "packed", before: str = "",
) -> Plan:  # fmt: skip
    """A plan of one pass with that WGSL, whose output is y."""
    body = "\n".join(f"  {line}" for line in lines)
    text = f"{HEAD.format(kind=kind)}{before}@compute @workgroup_size(64)\nfn main() {{\n{body}\n}}\n"
    origins = tuple(Origin("t", number) for number in range(1, text.count("\n") + 2))
    bindings = tuple(
        PlannedBinding(index, name, type)
        for index, (name, type) in enumerate({"x": "read-only-storage", "y": "storage", "p": "uniform"}.items())
    )
    item = PlannedPass("op:v:one", "t", wgsl_of(text, origins), "main", bindings, (1, 1, 1))
    y = PlannedBuffer("y", "output", dtype, shape, packing, 400, 16, 0)
    return Plan("op:v", (), {}, (y,), (item,), ())


def watched(*lines: str, element: tuple[int, ...] = (5,), **more: Any) -> list[str]:
    """The lines of main that are changed, as they are then."""
    plan = planned(*lines, **more)
    done, _ = writers.writers_of(plan, "y", element)
    before = set(plan.passes[0].wgsl.text.split("\n"))
    own = done.passes[0].wgsl.text.split("\n")[: len(plan.passes[0].wgsl.text.split("\n")) - 1]
    return [line.strip() for line in own if line not in before and "lab_begin" not in line and "fn main" not in line]


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("y[3] = 1u;", "y[lab_store(0u, u32(3), 15u)] = 1u;"),
        ("y[x[y[1]]] = y[2];", "y[lab_store(0u, u32(x[y[1]]), 15u)] = y[2];"),
        ("y[index_of(1u)] += 1u;", "y[lab_store(0u, u32(index_of(1u)), 15u)] += 1u;"),
        ("y[1]++;", "y[lab_store(0u, u32(1), 15u)]++;"),
        ("(y[1]) >>= 1u;", "(y[lab_store(0u, u32(1), 15u)]) >>= 1u;"),
        ("((y)[1]) = 1u;", "((y)[lab_store(0u, u32(1), 15u)]) = 1u;"),
        (
            "for (var i = 0u; i < 4u; y[i] = 2u) { i++; }",
            "for (var i = 0u; i < 4u; y[lab_store(0u, u32(i), 15u)] = 2u) { i++; }",
        ),
        ("if (true) { y[1] = 1u; } else { y[2] = 2u; }", None),
    ],
)
def test_a_store_by_index_is_watched(line: str, becomes: str | None) -> None:
    if becomes is None:
        becomes = "if (true) { y[lab_store(0u, u32(1), 15u)] = 1u; } else { y[lab_store(1u, u32(2), 15u)] = 2u; }"
    assert watched(line) == [becomes]


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("y[1] = vec4<u32>(1u);", "y[lab_store(0u, u32(1), 15u)] = vec4<u32>(1u);"),
        ("y[1].z = 1u;", "y[lab_store(0u, u32(1), 4u)].z = 1u;"),
        ("y[1].b++;", "y[lab_store(0u, u32(1), 4u)].b++;"),
        ("y[1].xw = vec2(1u);", "y[lab_store(0u, u32(1), 9u)].xw = vec2(1u);"),
        ("y[1][params.y] |= 2u;", "y[lab_store(0u, u32(1), 1u << u32(params.y))][params.y] |= 2u;"),
    ],
)
@pytest.mark.parametrize("kind", ["array<vec4<u32>>", "array<vec4u, 10>", "array<Four>"])
def test_a_component_of_a_vector_is_watched(line: str, becomes: str, kind: str) -> None:
    assert watched(line, kind=kind) == [becomes]


@pytest.mark.parametrize("call", ["atomicStore", "atomicAdd", "atomicOr", "atomicExchange"])
def test_an_atomic_is_watched_wherever_it_stands(call: str) -> None:
    line = f"let a = 1u + {call}(&y[i], 1u);"
    assert watched(line, kind="array<atomic<u32>>") == [f"let a = 1u + {call}(&y[lab_store(0u, u32(i), 15u)], 1u);"]


@pytest.mark.parametrize(
    "line",
    [
        "let a = y[1];",
        "let a = y[1] == 2u && (y[2]) <= 3u;",
        "let a = arrayLength(&y);",
        "let a = atomicLoad(&y[1]);",
        "let a = x[0].y;",
        "let a = params.y & y[1];",
        "let a = (1u) & y[1];",
        "let a = subgroupMatrixLoad<Left>(&y, 0u, false, 8u);",
        "if (y[1] == 1u) { return; }",
        "_ = vec2(1u, y[1]).y;",
    ],
)
def test_a_read_is_none(line: str) -> None:
    with pytest.raises(LabError, match=r"^op:v: no pass that is dispatched stores to y\.$"):
        watched(line)
    assert watched(line, "y[0] = 1u;") == ["y[lab_store(0u, u32(0), 15u)] = 1u;"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("let p = &y[1];", "a pointer is taken to y[1]: `let p = &y[1];`"),
        ("let p = &(y[1]);", "a pointer is taken to (y[1])"),
        ("given(&y[1]);", "given is given a pointer to y[1]"),
        ("f(1u, &y[1]);", "a pointer is taken to y[1]"),
        ("let p = &y; (*p)[1] = 2u;", "a pointer is taken to y:"),
        ("subgroupMatrixStore<row_major>(&y, 0u, m, 8u);", "subgroupMatrixStore is given a pointer to y:"),
        ("atomicAdd(&y, 1u);", "atomicAdd is given a pointer to y:"),
        ("y = z;", "it is stored as a whole: `y = z;`"),
        ("y[1].size = 2u;", "it stores to a member .size"),
        ("y[1][index_of(2u)] = 2u;", "it stores to a component that a function call chooses"),
        ("var y = 2u; y = 3u;", "in main a local y hides the buffer's name"),
    ],
)
def test_what_is_not_understood_is_said_with_its_line(line: str, said: str) -> None:
    with pytest.raises(LabError) as error:
        watched("y[0] = 1u;", line)
    assert re.match(r"t:\d+: who writes here is not known, because ", str(error.value))
    assert said in str(error.value)


@pytest.mark.parametrize("kind", ["array<Params>", "array<array<u32,4>>", "Params", "atomic<u32>", "array<mat2x2f>"])
def test_types_that_are_not_understood_are_named(kind: str) -> None:
    with pytest.raises(
        LabError, match=re.escape(f"op:v:one: y is of type {kind}; who writes an element is only known")
    ):
        watched("y[0] = 1u;", kind=kind)


@pytest.mark.parametrize(
    ("kind", "dtype", "packing", "shape", "element", "index", "component", "shared"),
    [
        ("array<u32>", "uint32", "packed", (5, 8), (2, 3), 19, 1, 1),
        ("array<u32>", "int8", "packed", (5, 8), (2, 3), 4, 1, 4),
        ("array<u32>", "uint8", "word", (5, 8), (2, 3), 19, 1, 1),
        ("array<u32>", "int4", "packed", (5, 8), (2, 3), 2, 1, 8),
        ("array<vec4<u32>>", "uint32", "packed", (5, 8), (2, 3), 4, 8, 1),
        ("array<vec4<u32>>", "uint8", "packed", (5, 8), (2, 3), 1, 1, 4),
        ("array<vec2<f32>>", "float32", "packed", (5, 8), (2, 3), 9, 2, 1),
        ("array<vec3<u32>>", "uint32", "packed", (5, 8), (2, 2), 4, 4, 1),
        ("array<f16>", "float16", "packed", (5, 8), (2, 3), 19, 1, 1),
        ("array<vec4<f16>>", "float16", "packed", (5, 8), (2, 3), 4, 8, 1),
        ("array<vec4h>", "float16", "packed", (5, 8), (2, 1), 4, 2, 1),
        ("array<u32>", "float16", "packed", (5, 8), (2, 3), 9, 1, 2),
        ("array<u32>", "uint32", "packed", (), (), 0, 1, 1),
    ],
)
def test_the_place_of_an_element(
    kind: str, dtype: str, packing: Packing, shape: tuple[int, ...], element: tuple[int, ...],
    index: int, component: int, shared: int,
) -> None:  # fmt: skip
    plan, decode = writers.writers_of(
        planned("y[0] = 1;", kind=kind, dtype=dtype, shape=shape, packing=packing), "y", element
    )
    assert plan.buffer("one.lab.choice").words[:4] == (0, 0, index, component)
    assert decode(np.zeros(BUFFER_WORDS, np.uint32)) == writers.Writers((), shared, 0)


def test_an_element_larger_than_what_is_stored_is_not_understood() -> None:
    with pytest.raises(LabError, match="no smaller than the element"):
        watched("y[0] = 1;", kind="array<f16>")


@pytest.mark.parametrize(
    ("name", "element", "said"),
    [
        ("x", (1,), "op:v writes no 'x'; it writes y."),
        ("y", (1, 2), "y[1, 2]: there is no such element; y has shape [40]."),
        ("y", (40,), "y[40]: there is no such element"),
        ("y", (-1,), "y[-1]: there is no such element"),
    ],
)
def test_what_is_no_element_is_said(name: str, element: tuple[int, ...], said: str) -> None:
    with pytest.raises(LabError, match=re.escape(said)):
        writers.writers_of(planned("y[0] = 1u;"), name, element)


def test_only_passes_that_are_dispatched_count() -> None:
    plan = planned("y[0] = 1u;")
    idle = replace(plan, passes=(replace(plan.passes[0], workgroups=(0, 1, 1)),))
    with pytest.raises(LabError, match="no pass that is dispatched stores to y"):
        writers.writers_of(idle, "y", (0,))


def test_several_passes_share_the_buffer_and_keep_their_sites_apart() -> None:
    plan = planned("y[1] = 1u;", "y[2] = 2u;")
    two = replace(plan, passes=(plan.passes[0], replace(plan.passes[0], label="op:v:two")))
    done, decode = writers.writers_of(two, "y", (2,))
    assert [len(re.findall(r"\[lab_store\((\d)u", item.wgsl.text)) for item in done.passes] == [2, 2]
    words = np.zeros(BUFFER_WORDS, np.uint32)
    words[0] = 3
    for number, (site, order) in enumerate([(3, 0), (1, 0), (1, 1)]):
        words[1 + 13 * number : 3 + 13 * number] = site, order
    found = decode(words).found
    assert [(one.site.label, one.site.text, one.times, one.order) for one in found] == [
        ("op:v:one", "y[2] = 2u;", 2, 0),
        ("op:v:two", "y[2] = 2u;", 1, 0),
    ]


def _stored(text: str, name: str) -> int:
    """Stores to a variable, found by a search of lines: how our templates happen to be written."""
    code = wgsl.parse(text)
    reached = [code.slice(function.body) for function in code.functions if function.body]
    return sum(len(re.findall(rf"^ *{name}\[.*\] = ", body, re.M)) for body in reached)


@pytest.mark.xdist_group("renderings")
def test_every_store_of_our_kernels_to_storage_is_watched(renderings: list[Any]) -> None:
    seen = 0
    for found in renderings:
        text = found.wgsl.text
        declared = re.findall(r"@binding\((\d+)\) var<storage, read_write> (\w+): array<(?:vec4<)?(\w+)", text)
        bindings = tuple(PlannedBinding(int(number), name, "storage") for number, name, _ in declared)
        item = PlannedPass(f"{found.label}:pass", found.source.name, found.wgsl, "main", bindings, (1, 1, 1))
        for _, name, scalar in declared:
            if not _stored(text, name):
                continue
            dtype = "float16" if scalar == "f16" else "uint32"
            buffer = PlannedBuffer(name, "output", dtype, (64,), "packed", 256, 16, 0)
            plan = Plan(found.label, (), {}, (buffer,), (item,), ())
            done, _ = writers.writers_of(plan, name, (0,))
            calls = re.findall(rf"{name}\[lab_store\(", done.passes[0].wgsl.text)
            assert len(calls) == _stored(text, name), found.label
            seen += 1
    assert seen > 200


def test_the_instrumented_text_keeps_every_line_but_those_with_stores() -> None:
    plan = planned("let a = 1u;", "y[a] = 2u;")
    done, _ = writers.writers_of(plan, "y", (1,))
    before, after = plan.passes[0].wgsl, done.passes[0].wgsl
    changed = [
        number
        for number, (one, other) in enumerate(zip(before.text.split("\n"), after.text.split("\n"), strict=False), 1)
        if one != other
    ]
    lines = before.text.split("\n")
    assert [lines[number - 1].strip() for number in changed[:2]] == ["fn main() {", "y[a] = 2u;"]
    assert after.origins[: len(lines) - 1] == before.origins[: len(lines) - 1]
    assert any(binding.buffer == instrument.BUFFER for binding in done.passes[0].bindings)
