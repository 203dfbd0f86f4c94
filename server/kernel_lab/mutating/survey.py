"""What there is to mutate: every variant that this device can run, with its cases, plans and faults.

In: operators, the device's facts, which variants. Out: `Trial`s and `Mutant`s. Pure but for reading templates.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from kernel_lab import line
from kernel_lab.errors import LabError
from kernel_lab.mutating import faults
from kernel_lab.mutating.faults import Change, Fault
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import selection
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.plans import Plan
from kernel_lab.planning.scopes import Scope


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One case on one variant, unchanged."""

    operator: Operator
    case: Case
    variant: str
    plan: Plan

    @property
    def query(self) -> str:
        return f"{self.case.query}:{self.variant}"

    @property
    def cost(self) -> int:
        """Bytes that move: a rough order, cheap ones first."""
        return sum(buffer.bytes for buffer in self.plan.buffers)


@dataclass(frozen=True, slots=True, eq=False)
class Host:
    """A variant and its trials, cheap ones first: where faults are put. `query`: OPERATOR:*:VARIANT."""

    operator: str
    variant: str
    trials: tuple[Trial, ...]

    @property
    def query(self) -> str:
        return f"{self.operator}:*:{self.variant}"


@dataclass(frozen=True, slots=True, eq=False)
class Mutant:
    """A fault in one variant of one operator."""

    fault: Fault
    host: Host
    change: Change = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """All mutants, by fault: each fault with the variants that have it. `left_out`: variants that this device cannot
    run, or that no case reaches. `complete`: whether no variant was left out on request.
    """

    mutants: Mapping[Fault, tuple[Mutant, ...]]
    hosts: tuple[Host, ...]
    left_out: tuple[str, ...]
    complete: bool


def survey(
    operators: Iterable[Operator],
    facts: DeviceFacts,
    variants: str = "*",
    on_variant: Callable[[str], None] = lambda _: None,
) -> Survey:
    """The faults of every variant whose name fits the pattern; LabError if none does."""
    found: dict[Fault, list[Mutant]] = {}
    hosts: list[Host] = []
    left_out: list[str] = []
    for operator in operators:
        names = [variant.id for variant in operator.manifest.variants if fnmatchcase(variant.id, variants)]
        trials = _trials(operator, facts, names)
        for name in names:
            on_variant(f"{operator.id}:*:{name}")
            if not trials[name]:
                left_out.append(f"{operator.id}:*:{name}")
                continue
            host = Host(operator.id, name, tuple(sorted(trials[name], key=lambda trial: trial.cost)))
            hosts.append(host)
            plans = [trial.plan for trial in trials[name]]
            for fault, change in faults.of_plans(plans, f"{operator.id}/manifest.json"):
                found.setdefault(fault, []).append(Mutant(fault, host, change))
    if not hosts:
        raise LabError(f"no variant that runs here has a case and fits --variants {variants!r}.")
    mutants = {fault: tuple(same) for fault, same in found.items()}
    return Survey(mutants, tuple(hosts), tuple(left_out), variants == "*")


def _trials(operator: Operator, facts: DeviceFacts, names: list[str]) -> dict[str, list[Trial]]:
    trials: dict[str, list[Trial]] = {name: [] for name in names}
    for case in operator.cases:
        scope = line.check(operator, case)
        if not isinstance(scope, Scope) or case.refused is not None:
            continue
        decisions = line.decide(scope, facts)
        for name in names:
            chosen = selection.forced(decisions, name)
            if chosen.can_run:
                plan = line.plan(scope, chosen, facts)
                if plan.passes:
                    trials[name].append(Trial(operator, case, name, plan))
    return trials
