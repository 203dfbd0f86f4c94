"""What any pass needs to write records: two more bindings, the invocation's place in private variables, functions.

In: a plan, and for some of its passes WGSL that calls those functions. Out: the plan with these passes instrumented, a
buffer for all of their records, and for each pass a uniform that says what to record. Pure.

No line is added before the end, so that every line keeps its template's line, and the browser's messages their place.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from kernel_lab.debugging import records
from kernel_lab.debugging.records import BUFFER_WORDS
from kernel_lab.errors import LabError
from kernel_lab.mutating import wgsl
from kernel_lab.mutating.kinds import Edit
from kernel_lab.mutating.wgsl import Code
from kernel_lab.planning import layout
from kernel_lab.planning.plans import Plan, PlannedBinding, PlannedBuffer, PlannedPass
from kernel_lab.planning.probes import ValueType
from kernel_lab.planning.rendering import wgsl_of

BUFFER = "lab.records"
"""The buffer to read after the run. With a point in it, as no input or output has."""
_BUILTINS = {"workgroup_id": "vec3<u32>", "local_invocation_index": "u32", "global_invocation_id": "vec3<u32>"}


@dataclass(frozen=True, slots=True)
class Instrumented:
    """A pass's WGSL that calls our functions. `kinds`: of its probes. `choice`: the words of its `LabChoice`."""

    text: str
    choice: tuple[int, ...]
    kinds: Collection[ValueType] = ()


def instrumented(plan: Plan, by_label: Mapping[str, Instrumented]) -> Plan:
    """The plan with those passes instrumented; LabError if the device has no storage buffer left for one of them."""
    passes = tuple(_pass(item, by_label[item.label], plan) if item.label in by_label else item for item in plan.passes)
    size, guard = 4 * BUFFER_WORDS, layout.GUARD_BYTES
    kept = PlannedBuffer(BUFFER, "intermediate", "uint32", (BUFFER_WORDS,), "packed", size, guard, fill=0)
    choices = [_choice(label, done.choice) for label, done in by_label.items()]
    return replace(plan, buffers=(*plan.buffers, kept, *choices), passes=passes)


def parsed(text: str, item: PlannedPass) -> Code:
    """The text's tokens; LabError where it cannot be taken apart."""
    try:
        code = wgsl.parse(text, item.entry_point)
    except (KeyError, IndexError, StopIteration):
        raise LabError(
            f"{item.label}: its WGSL cannot be taken apart; a bracket without its other half, perhaps. "
            "`kernel-lab run` shows what the browser's compiler says."
        ) from None
    if not any(function.name == item.entry_point for function in code.functions):
        raise LabError(f"{item.label}: its WGSL has no function {item.entry_point!r}.")
    return code


def refuse_our_names(code: Code, item: PlannedPass) -> None:
    """LabError if a kernel uses a name that a debug run adds."""
    for token in code.tokens:
        if token.kind == "name" and (token.text.startswith("lab_") or token.text in ("LabRecords", "LabChoice")):
            raise LabError(f"{item.label}: debug runs add {token.text!r} to the WGSL; give yours another name.")


def edited(text: str, edits: Sequence[Edit]) -> str:
    """The text with all of the edits, which do not overlap."""
    ordered = sorted(edits, key=lambda edit: edit.start)
    assert all(one.end <= other.start for one, other in pairwise(ordered)), "edits overlap"
    for edit in reversed(ordered):
        text = edit.applied(text)
    return text


def _choice_of(label: str) -> str:
    return f"{label.rpartition(':')[2]}.lab.choice"


def _choice(label: str, words: tuple[int, ...]) -> PlannedBuffer:
    size = len(words)
    return PlannedBuffer(_choice_of(label), "uniform", "uint32", (size,), "packed", 4 * size, 0, None, words)


def _pass(item: PlannedPass, done: Instrumented, plan: Plan) -> PlannedPass:
    storage = sum(binding.type != "uniform" for binding in item.bindings)
    most = plan.limits.get("maxStorageBuffersPerShaderStage")
    if most is not None and storage >= most:
        raise LabError(
            f"{item.label} binds {storage} storage buffers, and this device allows {most}: none is left for what a "
            "debug run records. Another adapter may allow more, or another variant bind fewer."
        )
    first = 1 + max((binding.binding for binding in item.bindings), default=-1)
    added = (PlannedBinding(first, BUFFER, "storage"), PlannedBinding(first + 1, _choice_of(item.label), "uniform"))
    text = edited(done.text, list(_entry_edits(parsed(done.text, item), item.entry_point)))
    whole = wgsl_of(text + records.wgsl(first, first + 1, done.kinds), item.wgsl.origins)
    return replace(item, wgsl=whole, bindings=(*item.bindings, *added))


def _entry_edits(code: Code, entry: str) -> Iterator[Edit]:
    """The built-in values that the entry point does not take yet, and the call that keeps them, first in its body."""
    name = next(index for index in range(1, len(code.tokens)) if code.at(index - 1) == "fn" and code.at(index) == entry)
    opening = name + 1
    closing = code.partner[opening]
    taken = {builtin: _taken(code, opening, builtin) for builtin in _BUILTINS}
    missing = [f"@builtin({name}) lab_{name}: {kind}" for name, kind in _BUILTINS.items() if taken[name] is None]
    if missing:
        comma = ", " if closing > opening + 1 and code.at(closing - 1) != "," else ""
        yield Edit(code.tokens[closing].start, code.tokens[closing].start, comma + ", ".join(missing))
    brace = next(index for index in range(closing, len(code.tokens)) if code.at(index) == "{")
    values = ", ".join(taken[name] or f"lab_{name}" for name in _BUILTINS)
    yield Edit(code.tokens[brace].end, code.tokens[brace].end, f" lab_begin({values});")


def _taken(code: Code, opening: int, builtin: str) -> str | None:
    """How the entry point names a built-in value that it takes, by itself or in a struct."""
    own = _named(code, opening, builtin)
    if own is not None:
        return own
    for argument in code.arguments(opening):
        colon = next(index for index in argument if code.at(index) == ":")
        struct = code.at(colon + 1)
        for index, token in enumerate(code.tokens):
            if token.text == "struct" and code.at(index + 1) == struct:
                member = _named(code, index + 2, builtin)
                if member is not None:
                    return f"{code.at(colon - 1)}.{member}"
    return None


def _named(code: Code, opening: int, builtin: str) -> str | None:
    """What stands before the colon behind `@builtin(…)`, between a bracket and its partner."""
    for index in range(opening, code.partner[opening]):
        if [code.at(index + step) for step in range(5)] == ["@", "builtin", "(", builtin, ")"]:
            colon = next(at for at in range(index, code.partner[opening]) if code.at(at) == ":")
            return code.at(colon - 1)
    return None
