"""The failure report: what is wrong, where, which inputs fed it, who ran it, and the command that repeats this one
case.

In: a finding and all that led to it. Out: text, readable at 80 columns. Pure.
"""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernel_lab.browsing.browser import BrowserInfo
from kernel_lab.judging.comparison import Difference, difference
from kernel_lab.judging.verdicts import Finding
from kernel_lab.operators.cases import Case
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.operator import Operator
from kernel_lab.planning.plans import Plan
from kernel_lab.serving.frames import Message, RunResult

SHOWN = 6
"""Elements in a row: one good one before the first bad one, the rest behind it; fewer where they do not fit."""
COLUMNS = 80
MOST_INPUTS = 12


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """All that a report may speak of. `repeat`, `debug`: the commands that run it again and open the debug page."""

    operator: Operator
    case: Case
    variant: str
    plan: Plan
    result: RunResult
    finding: Finding
    info: BrowserInfo
    expected_from: str
    repeat: str
    debug: str = ""


def report(evidence: Evidence) -> str:
    """The whole text."""
    e = evidence
    lines = [f"{e.case.query}:{e.variant}", e.finding.summary]
    if e.case.why:
        lines.append(f"this case: {e.case.why}")
    for name, found in e.finding.differences.items():
        lines += ["", *_rows(name, found)]
        lines += _inputs(e, found)
    for name in e.finding.damaged:
        lines.append(f"The guard words behind {name} were overwritten: a store went past the end of the tensor.")
    if e.result.reason:
        lines.append(f"reason: {e.result.reason}")
    if e.result.attempts > 1:
        lines.append(f"tried {e.result.attempts} times, the last time on a new device")
    for message in e.result.messages:
        lines += ["", *message_lines(message, e.plan)]
    return "\n".join([*lines, "", *_who(e)])


def message_lines(message: Message, plan: Plan) -> list[str]:
    """A browser's message with the template's line, where it has one, and the rendered line with a marker under the
    place.
    """
    wgsl = plan.wgsl_of(message.label)
    origin = wgsl.origin(message.line) if wgsl and message.line else None
    place = f" at {origin} (template), line {message.line}:{message.column} (rendered)" if origin else ""
    lines = [f"{message.kind} in {message.label or plan.label}{place}:", f"  {message.text.strip()}"]
    rendered = wgsl.text.split("\n") if wgsl else []
    if 1 <= message.line <= len(rendered):
        shown = rendered[message.line - 1]
        marks = "^" * max(1, min(message.length, len(shown) - message.column + 1))
        gutter = f"  {message.line:>5} | "
        lines += [f"{gutter}{shown}", " " * (len(gutter) - 2) + "| " + " " * (message.column - 1) + marks]
    return lines


def _rows(name: str, found: Difference) -> Iterator[str]:
    if found.kind:
        yield f"{name}: {found.kind}"
        return
    flat = int(np.ravel_multi_index(found.first, found.expected.shape)) if found.first else 0
    start = max(0, flat - 1)
    places = range(start, min(found.expected.size, start + SHOWN))
    columns = [[_index(found.expected.shape, i), *_pair(found, i)] for i in places]
    widths = [max(len(cell) for cell in column) for column in columns]
    while len(columns) > 2 and len(f"  {'expected':<8}") + sum(2 + width for width in widths) > COLUMNS:
        columns.pop()
        widths.pop()
    for row, label in enumerate(("index", "actual", "expected", "")):
        yield (f"  {label:<8}  " + "  ".join(c[row].rjust(w) for c, w in zip(columns, widths, strict=True))).rstrip()


def _pair(found: Difference, flat: int) -> list[str]:
    actual, expected = (array.reshape(-1)[flat : flat + 1] for array in (found.actual, found.expected))
    shown = [_value(array[0]) for array in (actual, expected)]
    return [*shown, "" if difference(actual, expected) is None else "^" * max(map(len, shown))]


def _index(shape: tuple[int, ...], flat: int) -> str:
    return "[" + ",".join(str(int(i)) for i in np.unravel_index(flat, shape)) + "]"


def _value(value: Any) -> str:
    return str(value)


def _inputs(e: Evidence, found: Difference) -> list[str]:
    inputs_of = e.operator.reference.inputs_of if e.operator.has_reference else None
    if inputs_of is None or found.kind:
        return []
    fed = inputs_of(found.first, e.case.inputs, e.case.request.attrs)
    lines = ["", f"  fed by these inputs (element {list(found.first)}):"]
    for role, places in fed.items():
        lines.append(f"    {role}: {_elements(e.case.inputs, role, places)}")
    return lines


def _elements(inputs: Mapping[str, Array], role: str, places: list[tuple[int, ...]]) -> str:
    shown = [f"[{','.join(map(str, place))}]={_value(inputs[role][place])}" for place in places[:MOST_INPUTS]]
    more = f" … and {len(places) - MOST_INPUTS:,} more" if len(places) > MOST_INPUTS else ""
    return " ".join(shown) + more if shown else "none (all of them padding)"


def _who(e: Evidence) -> list[str]:
    facts = e.info.facts
    adapter = facts.description if facts else "none"
    lines = [
        f"  variant   {e.variant}",
        f"  adapter   {adapter}{' (reported ids are spoofed)' if facts and facts.spoofed_ids else ''}",
        f"  browser   {e.info.version} ({e.info.executable})",
        f"  expected  from {e.expected_from}",
    ]
    lines += [f"  wgsl      {p.wgsl.digest[:16]}  {p.template} ({p.label.rpartition(':')[2]})" for p in e.plan.passes]
    lines.append(f"  repeat    {e.repeat}")
    return [*lines, f"  look      {e.debug}"] if e.debug else lines


def repeat_command(query: str, words: tuple[str, ...] = ("kernel-lab", "run")) -> str:
    """The command line that runs this one case again."""
    return shlex.join([*words, query])
