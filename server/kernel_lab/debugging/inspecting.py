"""Who wrote an element, and what values the probes of that invocation had: two runs, one answer.

In: a case's scope and inputs, a variant, what to look at, and a function that runs a job. Out: `Inspection`, and its
JSON for a page. LabError if a run fails, with what the browser said. Runs nothing by itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernel_lab.debugging import probing, writers
from kernel_lab.debugging.instrument import BUFFER
from kernel_lab.debugging.probing import Probes
from kernel_lab.debugging.records import Choice, Scalar
from kernel_lab.debugging.writers import Writer, Writers
from kernel_lab.errors import LabError
from kernel_lab.judging.failure_report import message_lines
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.manifest import Variant
from kernel_lab.planning import plans
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.plans import Plan
from kernel_lab.planning.scopes import Scope
from kernel_lab.serving import frames
from kernel_lab.serving.frames import Job, RunResult

DEADLINE_MS = 60_000
Run = Callable[[Job], RunResult]


@dataclass(frozen=True, slots=True)
class Element:
    """An element of an output or of an intermediate."""

    buffer: str
    index: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.buffer}[{','.join(map(str, self.index))}]"


@dataclass(frozen=True, slots=True)
class Inspection:
    """`element`, `value`, `writers`: where an element was asked for. `inspected`: the writer whose probes these are; of
    several the last. `probes`: None where nobody stored there, or no template has any.
    """

    query: str
    element: Element | None = None
    value: Scalar | None = None
    writers: Writers | None = None
    inspected: Writer | None = None
    probes: Probes | None = field(default=None)

    @property
    def json(self) -> dict[str, Any]:
        asked = None
        if self.element is not None and self.writers is not None:
            asked = {
                "buffer": self.element.buffer,
                "index": list(self.element.index),
                "value": probing.json_of(self.value),
                "writers": [writer.json for writer in self.writers.found],
                "elements_watched": self.writers.shared,
                "lost": self.writers.lost,
            }
        probes = self.probes or Probes()
        return {
            "query": self.query,
            "element": asked,
            "inspected": self.inspected.invocation.json if self.inspected else None,
            "probes": [probed.json for probed in probes.values],
            "probes_lost": probes.lost,
            "probes_silent": [{"name": site.name, **site.json} for site in probes.silent],
        }


def inspect(
    scope: Scope, variant: Variant, facts: DeviceFacts, inputs: Mapping[str, Array], look_at: Element | Choice,
    run: Run, *, pass_id: str | None = None, query: str = "",
) -> Inspection:  # fmt: skip
    """Follows an element to its writer and that one's probes; or, for a choice, shows the probes of those chosen."""
    query = query or f"{scope.operator.id}:{variant.id}"
    if isinstance(look_at, Choice):
        plan, decode = probing.probes_of(scope, variant, facts, look_at, pass_id)
        return Inspection(query, probes=decode(_run(plan, inputs, run).read[BUFFER]))
    plan, decode_writers = writers.writers_of(plans.plan_of(scope, variant, facts), look_at.buffer, look_at.index)
    result = _run(plan, inputs, run, look_at.buffer)
    found = decode_writers(result.read[BUFFER])
    value = _plain(result.read[look_at.buffer][look_at.index])
    last = found.found[-1] if found.found else None
    if last is None:
        return Inspection(query, look_at, value, found)
    where = pass_id or last.site.label.rpartition(":")[2]
    probes = None
    if probing.has_probes(scope, variant, facts, where):
        plan, decode = probing.probes_of(scope, variant, facts, last.invocation.choice, where)
        probes = decode(_run(plan, inputs, run).read[BUFFER])
    return Inspection(query, look_at, value, found, last, probes)


def _plain(value: Any) -> Scalar:
    """A number of any dtype as Python has it."""
    integer = "int" in value.dtype.name
    return int(value) if integer else float(value)


def _run(plan: Plan, inputs: Mapping[str, Array], run: Run, *also: str) -> RunResult:
    result = run(frames.job_of(plan, inputs, None, DEADLINE_MS, (BUFFER, *also)))
    if result.status != "ok":
        said = [text for message in result.messages for text in message_lines(message, plan)]
        reason = f" ({result.reason})" if result.reason else ""
        raise LabError("\n".join([f"{plan.label}: the debug run ended with {result.status}{reason}.", *said]))
    return result
