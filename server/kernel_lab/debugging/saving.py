"""From a case that a browser has run to the standalone page that shows it.

In: an operator, a case, a variant's name or none, a Lab. Out: the verdict there and the page's text. The only side
effects are the Lab's.
"""

from dataclasses import dataclass

from kernel_lab import line
from kernel_lab.browsing.lab import Lab
from kernel_lab.debugging.standalone import Sighting, standalone
from kernel_lab.errors import LabError
from kernel_lab.judging.failure_report import repeat_command
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators import dtypes
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import selection
from kernel_lab.planning.scopes import Refused
from kernel_lab.serving import frames


@dataclass(frozen=True, slots=True)
class Saved:
    """A page's text, and the verdict that it says it was saved with."""

    verdict: Verdict
    text: str


def save(operator: Operator, case: Case, variant: str | None, lab: Lab, options: line.Options | None = None) -> Saved:
    """Plans the case for the lab's adapter, runs it there once, and makes its page. LabError, with the sentence, where
    there is no plan: a refused case, a variant that cannot run or cannot be rendered.
    """
    options = options or line.Options()
    there = line.operator_there(operator, lab)
    scope = line.check(there, case)
    if isinstance(scope, Refused):
        raise LabError(f"{case.query} is refused, so there is nothing to run: {scope.sentence}")
    decisions = line.decide(scope, lab.facts)
    chosen = selection.forced(decisions, variant) if variant else selection.selected(decisions)
    if chosen is None:
        raise LabError(f"no variant runs {case.query} there; `kernel-lab explain {case.query}` says why.")
    if not chosen.can_run:
        raise LabError(f"{case.query}:{chosen.variant.id} cannot run there: {chosen.reason}")
    plan = line.plan(scope, chosen, lab.facts)
    expected, source = line.expected_of(there, case)
    job = frames.job_of(plan, case.inputs, expected, options.deadline_ms)
    verdict = line.follow(operator, case, lab, chosen.variant.id, options)
    info = lab.info_of_last_run
    sighting = Sighting(
        query=f"{case.query}:{chosen.variant.id}",
        summary=f"{verdict.outcome}: {verdict.summary}",
        browser=f"Chromium {info.version}",
        adapter=info.facts.description if info.facts else "none",
        why=case.why,
        user_agent=info.user_agent,
        flags=info.flags,
        expected_from=source,
        repeat=repeat_command(f"{case.query}:{chosen.variant.id}", case.repeat or options.repeat),
    )
    right = {output.name: dtypes.pack(expected[output.name], output.packing) for output in plan.outputs}
    return Saved(verdict, standalone(plan, job.inputs, right, sighting))
