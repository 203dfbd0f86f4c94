"""What there is to mutate: every variant that this device can run, with its cases, plans and faults.

In: operators, the device's facts, which variants. Out: `Trial`s and `Mutant`s. Pure but for reading templates.

Every case of a variant is a trial of its mutants. So are two cases a pass planned for a device that allows but a few
workgroups in a dimension: then the count is folded over x and y, which else only the largest tensors need
(tests/browser/test_folded.py runs the same). And so, after those, are the cases of other variants of the operator that
run the same WGSL, to the letter: a preparation pass is tested wherever it is used.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
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
    """One case on one variant, unchanged. `folded`: planned for so few workgroups in a dimension; 0: as it is."""

    operator: Operator
    case: Case
    variant: str
    plan: Plan
    folded: int = 0

    @property
    def name(self) -> str:
        return f"{self.case.name}{f' (folded to {self.folded})' if self.folded else ''}"

    @property
    def query(self) -> str:
        return f"{self.operator.id}:{self.name}:{self.variant}"

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

    @property
    def emulated(self) -> bool:
        """Whether plain WGSL stands in for subgroup matrices."""
        return any(trial.plan.emulated for trial in self.trials)


@dataclass(frozen=True, slots=True, eq=False)
class Mutant:
    """A fault in one variant of one operator. `elsewhere`: trials of other variants, which run the same WGSL."""

    fault: Fault
    host: Host
    change: Change = field(repr=False)
    elsewhere: tuple[Trial, ...] = field(default=(), repr=False)


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
        trials = {name: [*found, *folded(found, facts)] for name, found in _trials(operator, facts, names).items()}
        left_out += [f"{operator.id}:*:{name}" for name in names if not trials[name]]
        here = [
            Host(operator.id, name, tuple(sorted(trials[name], key=lambda trial: trial.cost)))
            for name in names
            if trials[name]
        ]
        hosts += here
        by_text = _by_text(here)
        for host in here:
            on_variant(host.query)
            own = {trial.name for trial in host.trials}
            plans = [trial.plan for trial in host.trials]
            for fault, change in faults.of_plans(plans, f"{operator.id}/manifest.json"):
                others = {name: trial for text in change.texts for name, trial in by_text[text].items()}
                elsewhere = tuple(trial for name, trial in others.items() if name not in own)
                found.setdefault(fault, []).append(Mutant(fault, host, change, elsewhere))
    if not hosts:
        raise LabError(f"no variant that runs here has a case and fits --variants {variants!r}.")
    mutants = {fault: tuple(same) for fault, same in found.items()}
    return Survey(mutants, tuple(hosts), tuple(left_out), variants == "*")


def trials_of(operator: Operator, facts: DeviceFacts, variant: str) -> list[Trial]:
    """Every case that the variant can compute on this device, planned."""
    return _trials(operator, facts, [variant])[variant]


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


def folded(trials: Iterable[Trial], facts: DeviceFacts) -> Iterator[Trial]:
    """For every pass the cheapest of one variant's cases that is dispatched otherwise where a dimension holds one
    workgroup, and where it holds just so many that the last row is not full.
    """
    cheap = sorted(trials, key=lambda trial: trial.cost)
    for most_of in (_one, _uneven):
        done: set[str] = set()
        for trial in cheap:
            for item in trial.plan.passes:
                most = most_of(max(item.workgroups))
                if item.label in done or most is None:
                    continue
                plan = _replanned(trial, facts, most)
                if any(new.label == item.label and new != item for new in plan.passes):
                    done.add(item.label)
                    yield replace(trial, plan=plan, folded=most)


def _one(count: int) -> int | None:
    return 1 if count > 1 else None


def _uneven(count: int) -> int | None:
    return next((most for most in range(2, count) if count % most), None)


def _replanned(trial: Trial, facts: DeviceFacts, most: int) -> Plan:
    scope = line.check(trial.operator, trial.case)
    assert isinstance(scope, Scope)
    decision = selection.Decision(trial.operator.variant(trial.variant), "accepted")
    few = replace(facts, limits={**facts.limits, "maxComputeWorkgroupsPerDimension": most})
    return line.plan(scope, decision, few)


def _by_text(hosts: Iterable[Host]) -> dict[str, dict[str, Trial]]:
    """For the digest of each WGSL the cases that run it, each on the first variant that does."""
    found: dict[str, dict[str, Trial]] = {}
    for host in hosts:
        for trial in host.trials:
            for item in trial.plan.passes:
                found.setdefault(item.wgsl.digest, {}).setdefault(trial.name, trial)
    return found
