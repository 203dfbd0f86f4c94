"""What makes two failures the same kind: a reduction keeps to it, so that a mismatch does not end as a compile error.

In: verdicts, or a variant and the Lab that runs it. Out: kinds, which compare; what `reduce` asks of a case. Only
`fails_like` runs anything.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kernel_lab import line
from kernel_lab.browsing.lab import Lab
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import selection
from kernel_lab.planning.scopes import Scope


@dataclass(frozen=True, slots=True)
class Kind:
    """`status`: what came of the run; if bytes came back: whether elements differ, and whether guards do."""

    outcome: str
    status: str
    differs: bool = False
    past_the_end: bool = False

    def __str__(self) -> str:
        if self.status != "ok":
            return self.status.replace("_", " ")
        parts = ["elements differ"] if self.differs else []
        parts += ["a store past the end"] if self.past_the_end else []
        return " and ".join(parts) or self.outcome


def kind_of(verdict: Verdict) -> Kind:
    """The kind of a verdict's failure."""
    record = verdict.record
    return Kind(
        verdict.outcome,
        record.get("status", ""),
        any(map(bool, record.get("pictures", {}).values())),
        "wrote past the end" in verdict.summary,
    )


def fails_like(kind: Kind, operator: Operator, variant: str, lab: Lab, options: line.Options) -> Callable[[Case], bool]:
    """Whether a case, run in that browser, fails in that way."""
    return lambda case: kind_of(line.follow(operator, case, lab, variant, options)) == kind


def valid_there(operator: Operator, variant: str, lab: Lab) -> Callable[[Case], bool]:
    """Whether a case is a valid request that the variant can compute on that browser's adapter; runs nothing."""
    there, facts = line.operator_there(operator, lab), lab.facts

    def valid(case: Case) -> bool:
        scope = line.check(there, case)
        if not isinstance(scope, Scope):
            return False
        return selection.forced_on(selection.eligible(scope), variant, scope, facts).can_run

    return valid
