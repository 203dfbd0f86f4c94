"""Which invocations wrote an element of a buffer, for any kernel and without its template's help.

In: a plan, one of its buffers, an element. Out: the plan with each store to that buffer watched, and the function that
reads what `instrument.BUFFER` holds afterwards. LabError, in a sentence, for a store in a form that is not understood:
no answer is better than a wrong one. Pure.

A store `y[e] = …` becomes `y[lab_store(site, u32(e), components)] = …`: the function gives the index back, and records
the invocation if it is the element's. That holds for every form with an index (`+=`, `++`, a component, an atomic's
`&y[e]`), evaluates `e` once and changes no control flow.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernel_lab.debugging import instrument, names, records
from kernel_lab.debugging.instrument import Instrumented
from kernel_lab.debugging.records import NOBODY, Invocation, Site
from kernel_lab.errors import LabError
from kernel_lab.mutating import wgsl
from kernel_lab.mutating.kinds import Edit
from kernel_lab.mutating.wgsl import Code, Function
from kernel_lab.operators import dtypes
from kernel_lab.operators.dtypes import Array
from kernel_lab.planning.plans import Plan, PlannedBuffer, PlannedPass

_SCALAR_BYTES = {"u32": 4, "i32": 4, "f32": 4, "f16": 2, "atomic<u32>": 4, "atomic<i32>": 4}
_SUFFIX_BYTES = {"u": 4, "i": 4, "f": 4, "h": 2}
_READING_CALLS = ("arrayLength", "subgroupMatrixLoad")
_MEMBERS = {"x": 1, "y": 2, "z": 4, "w": 8, "r": 1, "g": 2, "b": 4, "a": 8}


@dataclass(frozen=True, slots=True)
class Writer:
    """One that stored to the element's word (or component), `times` at this `site`. `order`: of its first store among
    its own in this pass.
    """

    invocation: Invocation
    site: Site
    times: int
    order: int

    @property
    def json(self) -> dict[str, Any]:
        return {"invocation": self.invocation.json, "times": self.times, "order": self.order, **self.site.json}


@dataclass(frozen=True, slots=True)
class Writers:
    """By pass and invocation. None: nobody stored there. `shared`: how many elements lie in what was watched; above 1 a
    writer need not have changed this one. `lost`: stores that the buffer had no room for.
    """

    found: tuple[Writer, ...]
    shared: int
    lost: int


Decode = Callable[[Array], Writers]


def writers_of(plan: Plan, name: str, element: tuple[int, ...]) -> tuple[Plan, Decode]:
    """The plan that finds who writes an element of an output or an intermediate, and what reads its records."""
    buffer = _buffer(plan, name)
    offset, bits = _place(buffer, element)
    sites: list[Site] = []
    done = {}
    shared = 1
    for item in plan.passes:
        variables = [b.binding for b in item.bindings if b.buffer == buffer.name and b.type == "storage"]
        if not variables or 0 in item.workgroups:
            continue
        code = instrument.parsed(item.wgsl.text, item)
        instrument.refuse_our_names(code, item)
        watch = _watch(code, item, variables[0], offset, bits)
        edits: list[Edit] = []
        for store in _stores(code, item, watch.variable):
            edits += [
                Edit(store.opening, store.opening, f"lab_store({len(sites)}u, u32("),
                Edit(store.closing, store.closing, f"), {store.components})"),
            ]
            sites.append(_site(item, store))
        if edits:
            choice = NOBODY.words(watch.index, watch.component)
            done[item.label] = Instrumented(instrument.edited(item.wgsl.text, edits), choice)
            shared = max(shared, watch.bits // bits)
    if not done:
        raise LabError(f"{plan.label}: no pass that is dispatched stores to {name}.")
    return instrument.instrumented(plan, done), lambda words: _writers(words, sites, shared)


def _writers(words: Array, sites: list[Site], shared: int) -> Writers:
    kept = records.decode(words, sites)
    orders: dict[tuple[Invocation, Site], list[int]] = {}
    for one in kept.kept:
        orders.setdefault((one.invocation, one.site), []).append(one.order)
    found = [Writer(who, site, len(order), order[0]) for (who, site), order in orders.items()]
    return Writers(tuple(found), shared, kept.lost)


def _buffer(plan: Plan, name: str) -> PlannedBuffer:
    written = [buffer for buffer in plan.buffers if buffer.kind in ("output", "intermediate")]
    found = next((buffer for buffer in written if buffer.name == name), None)
    if found is None:
        there = ", ".join(buffer.name for buffer in written)
        raise LabError(f"{plan.label} writes no {name!r}; it writes {there}.")
    return found


def _place(buffer: PlannedBuffer, element: tuple[int, ...]) -> tuple[int, int]:
    """Where the element's bits begin in the buffer, and how many they are."""
    shape = buffer.shape
    if len(element) != len(shape) or not all(0 <= at < size for at, size in zip(element, shape, strict=True)):
        raise LabError(
            f"{buffer.name}{list(element)}: there is no such element; {buffer.name} has shape {list(shape)}."
        )
    bits = dtypes.named(buffer.dtype).bits if buffer.packing == "packed" else 32
    flat = int(np.ravel_multi_index(element, shape)) if shape else 0
    return flat * bits, bits


@dataclass(frozen=True, slots=True)
class _Watch:
    """What is watched in one pass: the variable, an index of its array and a component (a bit), of so many bits."""

    variable: str
    index: int
    component: int
    bits: int


def _watch(code: Code, item: PlannedPass, binding: int, offset: int, bits: int) -> _Watch:
    variable, kind = _declared(code, item, binding)
    aliases = names.aliases(code)
    kind = aliases.get(kind, kind)
    element = kind.removeprefix("array<").removesuffix(">").partition(",")[0] if kind.startswith("array<") else ""
    element = aliases.get(element, element)
    scalar, stride, size = _layout(element)
    if not scalar or bits > 8 * size:
        raise LabError(
            f"{item.label}: {variable} is of type {kind}; who writes an element is only known for arrays of 32-bit "
            "numbers, f16, atomics and vectors of them, no smaller than the element."
        )
    byte = offset // 8
    return _Watch(variable, byte // stride, 1 << (byte % stride // size), 8 * size)


def _layout(element: str) -> tuple[str, int, int]:
    """Of an array's element: its scalar, its stride and its scalar's size in bytes; nothing for any other type."""
    if element in _SCALAR_BYTES:
        return element, _SCALAR_BYTES[element], _SCALAR_BYTES[element]
    if element[:3] == "vec" and element[3:4] in ("2", "3", "4"):
        rest = element[4:]
        size = _SUFFIX_BYTES.get(rest) or _SCALAR_BYTES.get(rest.removeprefix("<").removesuffix(">"), 0)
        width = 4 if element[3] == "3" else int(element[3])
        return rest if size else "", width * size, size
    return "", 0, 0


def _declared(code: Code, item: PlannedPass, binding: int) -> tuple[str, str]:
    """Name and type of the variable at a binding of group 0."""
    types = names.module_types(code)
    for index, token in enumerate(code.tokens):
        if [code.at(index + step) for step in range(5)] == ["@", "binding", "(", str(binding), ")"]:
            at = next(i for i in range(index, len(code.tokens)) if code.at(i) in ("var", ";"))
            name = code.at(code.partner[at + 1] + 1) if code.at(at + 1) == "<" else ""
            if name in types and token.text == "@":
                return name, types[name]
    raise LabError(f"{item.label}: its WGSL declares no variable at @binding({binding}) that could be found.")


@dataclass(frozen=True, slots=True)
class _Store:
    """`opening`, `closing`: the characters between which the index stands. `components`: WGSL for those it writes."""

    opening: int
    closing: int
    components: str
    start: int


def _site(item: PlannedPass, store: _Store) -> Site:
    line = item.wgsl.text.count("\n", 0, store.start)
    text = item.wgsl.text.split("\n")[line].strip()
    return Site(item.label, "", text, item.wgsl.origin(line + 1))


def _stores(code: Code, item: PlannedPass, name: str) -> Iterator[_Store]:
    """Each store to that variable; LabError for a use of it that is neither a store by index nor a read."""
    for function in code.functions:
        uses = [at for at in function.body if code.at(at) == name and code.at(at - 1) not in (".", "@")]
        if name in function.types:
            if uses:
                raise _not_understood(code, item, uses[0], f"in {function.name} a local {name} hides the buffer's name")
            continue
        for at in uses:
            store = _store(code, item, function, at)
            if store is not None:
                yield store


def _store(code: Code, item: PlannedPass, function: Function, at: int) -> _Store | None:
    """The store whose variable is that token, or None for a read."""
    place = _whole_place(code, at)
    before, behind = code.at(place.start - 1), code.at(place.stop)
    pointer = before == "&" and not code.is_binary(place.start - 1)
    caller = _caller(code, place.start - 1) if pointer else ""
    if caller in _READING_CALLS or (caller == "atomicLoad" and place.index is not None):
        return None
    if pointer and not (caller.startswith("atomic") and place.index is not None):
        what = f"{caller} is given a pointer" if caller else "a pointer is taken"
        raise _not_understood(code, item, at, f"{what} to {code.slice(range(place.start, place.stop))}")
    if not (pointer or wgsl.is_assignment(behind) or behind in ("++", "--")):
        return None
    if place.index is None:
        raise _not_understood(code, item, at, "it is stored as a whole")
    opening, components = place.index, "15u"
    for accessor in place.accessors:
        components = _components(code, item, function, accessor)
    start, end = code.tokens[opening].end, code.tokens[code.partner[opening]].start
    return _Store(start, end, components, code.tokens[at].start)


@dataclass(frozen=True, slots=True)
class _PlaceInText:
    """An expression `y[e]…` with the parentheses around it. `index`: its first bracket; `accessors`: those behind."""

    start: int
    stop: int
    index: int | None
    accessors: tuple[int, ...]


def _whole_place(code: Code, at: int) -> _PlaceInText:
    start, stop = at, at + 1
    index: int | None = None
    accessors: list[int] = []
    while True:
        if code.at(stop) == "[":
            if index is None:
                index = stop
            else:
                accessors.append(stop)
            stop = code.partner[stop] + 1
        elif code.at(stop) == ".":
            accessors.append(stop)
            stop += 2
        elif code.at(start - 1) == "(" and code.at(stop) == ")" and not _caller(code, start):
            start, stop = start - 1, stop + 1
        else:
            return _PlaceInText(start, stop, index, tuple(accessors))


def _caller(code: Code, argument: int) -> str:
    """The name before the parenthesis that stands before this token: of the function whose first argument it is."""
    if code.at(argument - 1) != "(":
        return ""
    at = argument - 2
    if code.at(at) == ">" and at in code.partner:
        at = code.partner[at] - 1
    token = code.tokens[at]
    return token.text if token.kind == "name" and (not wgsl.is_keyword(token)) else ""


def _components(code: Code, item: PlannedPass, function: Function, accessor: int) -> str:
    """WGSL for the components that `.x` or `[k]` behind a vector writes."""
    if code.at(accessor) == ".":
        member = code.at(accessor + 1)
        if not all(letter in _MEMBERS for letter in member):
            raise _not_understood(code, item, accessor, f"it stores to a member .{member}")
        return f"{sum({_MEMBERS[letter] for letter in member})}u"
    inside = range(accessor + 1, code.partner[accessor])
    if any(code.at(index) in code.results for index in inside):
        raise _not_understood(code, item, accessor, "it stores to a component that a function call chooses")
    return f"1u << u32({code.slice(inside)})"


def _not_understood(code: Code, item: PlannedPass, at: int, what: str) -> LabError:
    line = code.text.count("\n", 0, code.tokens[at].start)
    text, origin = code.text.split("\n")[line].strip(), item.wgsl.origin(line + 1)
    return LabError(
        f"{origin or item.label}: who writes here is not known, because {what}: `{text}`. "
        "Stores by index are understood: y[i] = …, y[i] += …, y[i].x = …, atomicOr(&y[i], …) and their like."
    )
