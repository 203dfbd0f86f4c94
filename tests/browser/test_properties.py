"""Any valid request, on every variant that can compute it: outputs equal the reference to the bit, hence each other.

KERNEL_LAB_DRAWS sets the number of draws per operator (default 40). A failure is shrunk to a small call and printed.
In a long run, each variant that the adapter can run must have been drawn one time in a hundred, empty outputs aside.
"""

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, note, seed, settings

from kernel_lab import line
from kernel_lab.browsing.lab import Lab
from kernel_lab.operators import operator
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import selection
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.scopes import Refused, Scope
from tests.browser.strategies import STRATEGIES, Call

DRAWS = int(os.environ.get("KERNEL_LAB_DRAWS", "40"))
SEED = int(os.environ.get("KERNEL_LAB_SEED", "20261129"))
LONG_RUN = 1000
"""From so many draws on, a variant that is drawn less than once in a hundred is not bad luck."""


def runnable(op: Operator, facts: DeviceFacts) -> set[str]:
    """The variants that some built-in case runs on there: what must be drawn, whatever is drawn."""
    scopes = (line.check(op, case) for case in op.cases if case.refused is None)
    decisions = (decision for scope in scopes if isinstance(scope, Scope) for decision in line.decide(scope, facts))
    return {decision.variant.id for decision in decisions if decision.can_run or decision.stage == "emulated"}


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_variant_agrees_with_the_reference(name: str, lab: Lab, record_property: pytest.FixtureRequest) -> None:
    ran: Counter[str] = Counter()
    op = operator.named(name)

    @seed(SEED)
    @settings(
        max_examples=DRAWS,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(call=STRATEGIES[name])
    def holds(call: Call) -> None:
        case = call.case
        scope = line.check(op, case)
        assert not isinstance(scope, Refused), scope.sentence
        decisions = line.decide(scope, lab.facts)
        assert selection.selected(decisions) is not None, "no variant takes it: " + "; ".join(map(str, decisions))
        for decision in decisions:
            if decision.can_run or decision.stage == "emulated":
                verdict = line.follow(op, case, lab, decision.variant.id)
                ran[decision.variant.id] += scope.values["y_elements"] > 0  # an empty output is no evidence
                note(verdict.report)
                assert verdict.passed, verdict.report

    holds()
    for variant, count in sorted(ran.items()):
        record_property(f"{name}:{variant}", count)  # type: ignore[operator]
    print(f"\n{name}: {DRAWS} draws, seed {SEED}: " + ", ".join(f"{variant} {count}" for variant, count in ran.items()))
    if DRAWS >= LONG_RUN:
        rare = {variant: ran[variant] for variant in sorted(runnable(op, lab.facts)) if ran[variant] < DRAWS // 100}
        assert not rare, f"drawn less than {DRAWS // 100} times in {DRAWS:,} draws: {rare}"
