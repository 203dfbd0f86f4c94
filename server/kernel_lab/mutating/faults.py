"""Faults of a kernel: what kind, on which template line, before and after; and what each changes in a plan.

In: the plans of one variant for its cases. Out: `Fault`s with their `Change`s. Pure.

A fault in WGSL is one in the template: it is made wherever the same template line was rendered to the same text, in
every pass and for every case. A fault in a plan is one in the manifest: in a uniform's values, bindings or dispatch.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, combinations
from typing import Protocol

from kernel_lab.mutating import kinds, wgsl
from kernel_lab.mutating.kinds import Edit
from kernel_lab.planning.plans import Plan, PlannedPass
from kernel_lab.planning.rendering import Wgsl

PLAN_KINDS = ("plan_field", "plan_fields_swapped", "plan_bindings_swapped", "plan_dispatch")


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """`template`: a template's name, or an operator's manifest. `place`: the function, or the pass. `before`, `after`:
    the whole lines that change. `line`: in the template, 0 for a manifest.
    """

    template: str
    line: int
    kind: str
    place: str
    before: str
    after: str

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """What names the fault as long as its line's text stays: template, place, kind, before, after."""
        return (self.template, self.place, self.kind, on_one_line(self.before), on_one_line(self.after))

    @property
    def where(self) -> str:
        return f"{self.template}:{self.line}" if self.line else self.template


class Change(Protocol):
    """Makes a fault in a plan; gives None where that changes nothing. `texts`: digests of the WGSL that it changes."""

    @property
    def texts(self) -> Collection[str]: ...

    def __call__(self, plan: Plan) -> Plan | None: ...


def on_one_line(text: str) -> str:
    return " ".join(line.strip() for line in text.splitlines())


def of_plans(plans: Iterable[Plan], manifest: str) -> Iterator[tuple[Fault, Change]]:
    """Every fault of one variant, seen over its plans for all cases; each once. `manifest`: what to call it."""
    passes: dict[str, list[tuple[Plan, PlannedPass]]] = {}
    for plan in plans:
        for item in plan.passes:
            passes.setdefault(item.label, []).append((plan, item))
    texts: dict[Fault, dict[str, tuple[Edit, ...]]] = {}
    for found in passes.values():
        for item in {item.wgsl.digest: item for _, item in found}.values():
            for fault, edits in _of_wgsl(item.wgsl, item.entry_point).items():
                texts.setdefault(fault, {})[item.wgsl.digest] = edits
    for fault, by_digest in texts.items():
        yield fault, _Rewritten(by_digest)
    for label, found in passes.items():
        yield from _of_pass(label, found, manifest)


_known: dict[tuple[str, str], Mapping[Fault, tuple[Edit, ...]]] = {}


def _of_wgsl(text: Wgsl, entry: str) -> Mapping[Fault, tuple[Edit, ...]]:
    if (text.digest, entry) not in _known:
        _known[text.digest, entry] = _found_in(text, entry)
    return _known[text.digest, entry]


def _found_in(text: Wgsl, entry: str) -> Mapping[Fault, tuple[Edit, ...]]:
    found: dict[Fault, list[Edit]] = {}
    lines = text.text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    for kind, place, edit in kinds.edits_of(text.text, entry):
        first = bisect_right(starts, edit.start)
        last = bisect_right(starts, edit.end - 1)
        origin = text.origin(first)
        if origin is None:
            continue
        before = "\n".join(lines[first - 1 : last])
        moved = Edit(edit.start - starts[first - 1], edit.end - starts[first - 1], edit.text)
        fault = Fault(origin.file, origin.line, kind, place, before, moved.applied(before))
        found.setdefault(fault, []).append(edit)
    late = kinds.late_edits(text.text, entry)
    return {fault: (*edits, *(late if fault.kind == "barrier" else ())) for fault, edits in found.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Rewritten:
    """Edits of the WGSL with each digest."""

    edits: Mapping[str, tuple[Edit, ...]]

    @property
    def texts(self) -> Collection[str]:
        return self.edits.keys()

    def __call__(self, plan: Plan) -> Plan | None:
        if not any(item.wgsl.digest in self.edits for item in plan.passes):
            return None
        return replace(plan, passes=tuple(replace(item, wgsl=self._of(item.wgsl)) for item in plan.passes))

    def _of(self, wgsl: Wgsl) -> Wgsl:
        text = wgsl.text
        for edit in sorted(self.edits.get(wgsl.digest, ()), reverse=True):
            text = edit.applied(text)
        return Wgsl(text, hashlib.sha256(text.encode()).hexdigest(), wgsl.origins)


def _of_pass(label: str, found: list[tuple[Plan, PlannedPass]], manifest: str) -> Iterator[tuple[Fault, Change]]:
    plan, first = found[0]
    place = label.rpartition(":")[2]
    read = set[str]()
    for item in {item.wgsl.digest: item for _, item in found}.values():
        read |= _members(wgsl.parse(item.wgsl.text, item.entry_point))

    def fault(kind: str, before: str, after: str) -> Fault:
        return Fault(manifest, 0, kind, place, before, after)

    for binding in first.bindings:
        buffer = plan.buffer(binding.buffer)
        for name in (name for name in buffer.fields if name in read):
            for by in (1, -1):
                after = f"{name} {'+' if by > 0 else '-'} 1"
                yield fault("plan_field", name, after), _Field(buffer.name, buffer.fields.index(name), by)
        for one, two in combinations([name for name in buffer.fields if name in read], 2):
            if kinds.similar(one, two):
                indices = buffer.fields.index(one), buffer.fields.index(two)
                yield fault("plan_fields_swapped", f"{one}, {two}", f"{two}, {one}"), _Fields(buffer.name, *indices)
    for a, b in combinations(first.bindings, 2):
        if a.type == b.type != "uniform":
            names = plan_name(a.buffer), plan_name(b.buffer)
            swapped = _Bindings(label, a.binding, b.binding)
            yield fault("plan_bindings_swapped", ", ".join(names), ", ".join(reversed(names))), swapped
    for axis in range(3):
        if any(item.workgroups[axis] > 1 for _, item in found) or axis == 0:
            name = f"workgroups.{'xyz'[axis]}"
            yield fault("plan_dispatch", name, f"{name} - 1"), _Dispatch(label, axis)


def plan_name(buffer: str) -> str:
    """A buffer's name, whether or not an optional input is there."""
    return buffer.removeprefix("absent.")


def _members(code: wgsl.Code) -> set[str]:
    return {code.at(i) for function in code.functions for i in function.body if code.at(i - 1) == "."}


class _InPlan:
    """Changes no WGSL."""

    __slots__ = ()

    @property
    def texts(self) -> Collection[str]:
        return ()


@dataclass(frozen=True, slots=True)
class _Field(_InPlan):
    """A word of a uniform, by one too much or too little; 0 stays 0."""

    buffer: str
    index: int
    by: int

    def __call__(self, plan: Plan) -> Plan | None:
        words = _words(plan, self.buffer)
        if not words or words[self.index] + self.by < 0:
            return None
        words[self.index] = (words[self.index] + self.by) % 2**32
        return _with_words(plan, self.buffer, words)


@dataclass(frozen=True, slots=True)
class _Fields(_InPlan):
    """Two words of a uniform exchanged."""

    buffer: str
    one: int
    two: int

    def __call__(self, plan: Plan) -> Plan | None:
        words = _words(plan, self.buffer)
        if not words or words[self.one] == words[self.two]:
            return None
        words[self.one], words[self.two] = words[self.two], words[self.one]
        return _with_words(plan, self.buffer, words)


def _words(plan: Plan, name: str) -> list[int]:
    return next((list(buffer.words) for buffer in plan.buffers if buffer.name == name), [])


def _with_words(plan: Plan, name: str, words: list[int]) -> Plan:
    buffers = (replace(b, words=tuple(words)) if b.name == name else b for b in plan.buffers)
    return replace(plan, buffers=tuple(buffers))


@dataclass(frozen=True, slots=True)
class _Bindings(_InPlan):
    """The buffers of two bindings exchanged."""

    label: str
    one: int
    two: int

    def __call__(self, plan: Plan) -> Plan | None:
        return _with_pass(plan, self.label, self._swapped)

    def _swapped(self, item: PlannedPass) -> PlannedPass:
        buffers = {binding.binding: binding.buffer for binding in item.bindings}
        other = {self.one: buffers[self.two], self.two: buffers[self.one]}
        bindings = (replace(b, buffer=other.get(b.binding, b.buffer)) for b in item.bindings)
        return replace(item, bindings=tuple(bindings))


@dataclass(frozen=True, slots=True)
class _Dispatch(_InPlan):
    """One workgroup fewer along an axis."""

    label: str
    axis: int

    def __call__(self, plan: Plan) -> Plan | None:
        return _with_pass(plan, self.label, self._fewer)

    def _fewer(self, item: PlannedPass) -> PlannedPass:
        x, y, z = (max(0, count - (axis == self.axis)) for axis, count in enumerate(item.workgroups))
        return replace(item, workgroups=(x, y, z))


def _with_pass(plan: Plan, label: str, change: Callable[[PlannedPass], PlannedPass]) -> Plan | None:
    if all(item.label != label for item in plan.passes):
        return None
    return replace(plan, passes=tuple(change(item) if item.label == label else item for item in plan.passes))
