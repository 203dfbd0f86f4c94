"""A debug run of a template's probes: values of one chosen invocation, or of all, in program order.

In: a Scope, a variant, a device's facts, a choice. Out: a Plan whose passes record what their probes are given, and the
function that reads what `instrument.BUFFER` holds afterwards. Pure but for reading templates.

WGSL has no overloading, so that each type of value has its own function. The type is what we know of the expression's
names, or what the probe's third argument says; were it wrong, the browser's compiler would refuse the call.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kernel_lab.debugging import instrument, names, records
from kernel_lab.debugging.instrument import Instrumented
from kernel_lab.debugging.records import Choice, Invocation, Scalar, Site, Value
from kernel_lab.errors import LabError
from kernel_lab.mutating import wgsl
from kernel_lab.mutating.kinds import Edit
from kernel_lab.mutating.wgsl import Code
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.manifest import Variant
from kernel_lab.planning import plans
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.includes import Origin
from kernel_lab.planning.plans import Plan, PlannedPass
from kernel_lab.planning.probes import ALLOWED, EXAMPLE, MARKER, ValueType, check_argument, value_type
from kernel_lab.planning.scopes import Scope

_MARKER = re.compile(rf"^[ \t]*(?P<call>{re.escape(MARKER)}(?P<arguments>\[.*\]))[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Probed:
    """One value. `order`: among its invocation's in this pass, from 0. `site`: the probe."""

    name: str
    invocation: Invocation
    order: int
    value: Value
    site: Site

    @property
    def json(self) -> dict[str, Any]:
        """A float that JSON has no number for is a string: `NaN`, `Infinity`, `-Infinity`."""
        parts = [json_of(part) for part in self.value] if isinstance(self.value, tuple) else json_of(self.value)
        own = {"name": self.name, "type": str(self.site.type), "value": parts, "order": self.order}
        return {**own, "invocation": self.invocation.json, **self.site.json}


@dataclass(frozen=True, slots=True)
class Probes:
    """What a debug run showed: by pass and invocation, each in program order. `lost`: values that the buffer had no
    room for. `silent`: probes that recorded nothing.
    """

    values: tuple[Probed, ...] = ()
    lost: int = 0
    silent: tuple[Site, ...] = field(default=())


Decode = Callable[[Array], Probes]


def probes_of(
    scope: Scope, variant: Variant, facts: DeviceFacts, choice: Choice, pass_id: str | None = None
) -> tuple[Plan, Decode]:
    """The plan of a debug run, and what reads its records. LabError, at the template's line, for a probe that cannot be
    one; and if there is none: in the named pass, or in any.
    """
    plan = plans.plan_of(scope, variant, facts)
    marked = plans.plan_of(scope, variant, facts, probes=True)
    chosen = _chosen(marked, pass_id)
    sites: list[Site] = []
    done = {}
    for item in (item for item in chosen if MARKER in item.wgsl.text):
        text, own = _with_calls(item, len(sites))
        sites += own
        done[item.label] = Instrumented(text, choice.words(), {site.type for site in own if site.type is not None})
    if not done:
        where = f"pass {pass_id} of {plan.label}" if pass_id else plan.label
        templates = ", ".join(dict.fromkeys(item.template for item in chosen)) or "no template: it dispatches nothing"
        raise LabError(
            f"{where} has no probe. Write {EXAMPLE} as a line of its own where a statement may stand ({templates})."
        )
    passes = tuple(
        there if there.label in done else item for item, there in zip(plan.passes, marked.passes, strict=True)
    )
    return instrument.instrumented(replace(plan, passes=passes), done), lambda words: _probes(words, sites)


def has_probes(scope: Scope, variant: Variant, facts: DeviceFacts, pass_id: str | None = None) -> bool:
    """Whether there is anything for `probes_of` to show; LabError if there is no such pass."""
    marked = plans.plan_of(scope, variant, facts, probes=True)
    return any(MARKER in item.wgsl.text for item in _chosen(marked, pass_id))


def _chosen(plan: Plan, pass_id: str | None) -> list[PlannedPass]:
    found = [item for item in plan.passes if pass_id in (None, _id(item))]
    if pass_id is not None and not found:
        there = ", ".join(map(_id, plan.passes)) or "none: every output is empty"
        raise LabError(f"{plan.label} has no pass {pass_id!r} (its passes: {there}).")
    return found


def _id(item: PlannedPass) -> str:
    return item.label.rpartition(":")[2]


def json_of(part: Scalar | None) -> Any:
    """A number as JSON; a string for a float that JSON has no number for."""
    if isinstance(part, float) and not np.isfinite(part):
        return "NaN" if np.isnan(part) else "Infinity" if part > 0 else "-Infinity"
    return part


def _probes(words: Array, sites: list[Site]) -> Probes:
    found = records.decode(words, sites)
    values = []
    for one in found.kept:
        assert one.site.type is not None
        value = records.value_of(one.words, one.site.type)
        values.append(Probed(one.site.name, one.invocation, one.order, value, one.site))
    spoke = {id(one.site) for one in found.kept}
    silent = tuple(site for site in sites if id(site) not in spoke) if not found.lost else ()
    return Probes(tuple(values), found.lost, silent)


@dataclass(frozen=True, slots=True)
class _Call:
    """A marker in the text. `kind`: what its third argument says."""

    start: int
    end: int
    name: str
    value: str
    kind: ValueType | None
    origin: Origin | None
    where: str


def _with_calls(item: PlannedPass, first: int) -> tuple[str, list[Site]]:
    """The text with a call for each marker that the entry point can reach, and nothing for the others."""
    calls = _calls(item)
    instrument.refuse_our_names(instrument.parsed(_replaced(item, calls, [""] * len(calls)), item), item)
    named = [f"let lab_value_{number} = {call.value};" for number, call in enumerate(calls)]
    kinds = _kinds(instrument.parsed(_replaced(item, calls, named), item))
    texts: list[str] = []
    sites: list[Site] = []
    for number, call in enumerate(calls):
        known = kinds.get(f"lab_value_{number}")
        kind = call.kind if call.kind is not None else _kind(call, known)
        if known is None or kind is None:  # no function that the entry point calls has it
            texts.append("")
            continue
        texts.append(f"{records.function_of(kind)}({first + len(sites)}u, {call.value});")
        sites.append(Site(item.label, call.name, call.value, call.origin, kind))
    return _replaced(item, calls, texts), sites


def _calls(item: PlannedPass) -> list[_Call]:
    text, found = item.wgsl.text, []
    for match in _MARKER.finditer(text):
        origin = item.wgsl.origin(text.count("\n", 0, match.start("call")) + 1)
        where = str(origin or item.label)
        arguments = json.loads(match["arguments"])
        for argument, what in zip(arguments, ("name", "value", "type"), strict=False):
            check_argument(argument, what, where)
        kind = value_type(arguments[2]) if len(arguments) == 3 else None
        start, end = match.span("call")
        found.append(_Call(start, end, arguments[0], arguments[1], kind, origin, where))
    for start in (match.start() for match in re.finditer(re.escape(MARKER), text)):
        if all(call.start != start for call in found):
            origin = item.wgsl.origin(text.count("\n", 0, start) + 1)
            raise LabError(f"{origin or item.label}: this probe comes to stand inside another line; it is a statement.")
    return found


def _replaced(item: PlannedPass, calls: list[_Call], texts: list[str]) -> str:
    edits = [Edit(call.start, call.end, text) for call, text in zip(calls, texts, strict=True)]
    return instrument.edited(item.wgsl.text, edits)


def _kind(call: _Call, known: str | None) -> ValueType | None:
    """The type of a probe that does not say it; None for one out of the entry point's reach."""
    if known is None:
        return None
    kind = value_type(known)
    if kind is None:
        found = f"is {known}" if known else "is not known here"
        raise LabError(
            f"{call.where}: the type of {call.value!r} {found}. Say it as the third argument, as in "
            f'{{{{ probe("{call.name}", "{call.value}", "i32") }}}}; allowed are {ALLOWED}.'
        )
    return kind


def _kinds(code: Code) -> dict[str, str]:
    """The types of the values, by the names given to them."""
    outer = names.module_types(code)
    found: dict[str, str] = {}
    for function in code.functions:
        local = wgsl.types_within(code, function.body, {**outer, **function.types})
        found |= {name: kind for name, kind in local.items() if name.startswith("lab_value_")}
    aliases = names.aliases(code)
    return {name: aliases.get(kind, kind) for name, kind in found.items()}
