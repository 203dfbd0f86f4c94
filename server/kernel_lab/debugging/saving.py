"""From a case that a browser has run to the standalone page that shows it.

In: an operator, a case, a variant's name or none, a Lab. Out: the verdict there and the page's text. The only side
effects are the Lab's.
"""

from dataclasses import dataclass

from kernel_lab import line
from kernel_lab.browsing.browser import BrowserInfo
from kernel_lab.browsing.lab import Lab
from kernel_lab.debugging.standalone import Sighting, standalone
from kernel_lab.errors import LabError
from kernel_lab.judging.failure_report import repeat_command
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators import dtypes
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import selection
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.plans import Plan
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
    plan, chosen = planned(there, case, lab.facts, variant)
    _, source = line.expected_of(there, case)
    verdict = line.follow(operator, case, lab, chosen, options)
    query = f"{case.query}:{chosen}"
    repeat = repeat_command(query, case.repeat or options.repeat)
    summary = f"{verdict.outcome}: {verdict.summary}"
    seen = sighting(lab.info_of_last_run, case, query, summary, source, repeat)
    return Saved(verdict, page_of(there, case, plan, seen))


def planned(operator: Operator, case: Case, facts: DeviceFacts, variant: str | None) -> tuple[Plan, str]:
    """The case's plan on a device, and the variant: the one that is named, or the one that is selected. LabError, with
    the sentence, where there is none.
    """
    scope = line.check(operator, case)
    if isinstance(scope, Refused):
        raise LabError(f"{case.query} is refused, so there is nothing to run: {scope.sentence}")
    decisions = line.decide(scope, facts)
    chosen = selection.forced(decisions, variant) if variant else selection.selected(decisions)
    if chosen is None:
        raise LabError(f"no variant runs {case.query} there; `kernel-lab explain {case.query}` says why.")
    if not chosen.can_run:
        raise LabError(f"{case.query}:{chosen.variant.id} cannot run there: {chosen.reason}")
    return line.plan(scope, chosen, facts), chosen.variant.id


def page_of(operator: Operator, case: Case, plan: Plan, seen: Sighting) -> str:
    """The page of a case on a plan."""
    expected, _ = line.expected_of(operator, case)
    job = frames.job_of(plan, case.inputs, expected, line.DEADLINE_MS)
    right = {output.name: dtypes.pack(expected[output.name], output.packing) for output in plan.outputs}
    return standalone(plan, job.inputs, right, seen)


def sighting(info: BrowserInfo, case: Case, query: str, summary: str, source: str, repeat: str) -> Sighting:
    """What a browser of ours saw."""
    return Sighting(
        query=query,
        summary=summary,
        browser=f"Chromium {info.version}",
        adapter=info.facts.description if info.facts else "none",
        why=case.why,
        user_agent=info.user_agent,
        flags=info.flags,
        expected_from=source,
        repeat=repeat,
    )
