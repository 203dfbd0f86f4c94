"""What passes leave in intermediates is what the reference says: each variant that declares it, on one of its cases."""

import math
from collections.abc import Iterator

import pytest

from kernel_lab import line
from kernel_lab.browsing.lab import Lab
from kernel_lab.debugging import intermediates
from kernel_lab.debugging.intermediates import Held
from kernel_lab.judging.comparison import difference
from kernel_lab.operators import operator
from kernel_lab.operators.cases import Case
from kernel_lab.operators.manifest import Variant
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import selection
from kernel_lab.planning.plans import Plan
from kernel_lab.planning.scopes import Scope
from kernel_lab.serving import frames

LARGE_ENOUGH = 60
"""Elements of x and w: fewer leave most axes with one element, which no layout can get wrong."""


def declaring(op: Operator) -> list[str]:
    return [v.id for v in op.manifest.variants if any(item.lab.holds for item in v.intermediates)]


def planned(op: Operator, lab: Lab) -> Iterator[tuple[Case, Variant, Plan, list[Held]]]:
    """Each variant that runs here on the smallest case that is large enough."""
    left = set(declaring(op))

    def by_size(case: Case) -> tuple[bool, int]:
        size = sum(math.prod(case.request.shapes[role]) for role in ("x", "w"))
        return size < LARGE_ENOUGH, size

    for case in sorted((case for case in op.cases if case.refused is None), key=by_size):
        scope = line.check(op, case)
        decisions = line.decide(scope, lab.facts) if isinstance(scope, Scope) else ()
        for name in [decision.variant.id for decision in decisions if decision.variant.id in left]:
            chosen = selection.forced(decisions, name)
            if isinstance(scope, Scope) and chosen.can_run:
                plan = line.plan(scope, chosen, lab.facts)
                held = list(intermediates.held_by(op, case, chosen.variant, plan))
                if held:
                    left.discard(name)
                    yield case, chosen.variant, plan, held


@pytest.mark.parametrize("name", [op.id for op in operator.load_all().values() if declaring(op)])
def test_intermediates_are_the_reference_s_to_the_bit(lab: Lab, name: str) -> None:
    op = operator.named(name)
    compared = set()
    for case, variant, plan, held in planned(op, lab):
        read = tuple(item.buffer for item in held)
        result = lab.run(frames.job_of(plan, case.inputs, None, line.DEADLINE_MS, read=read))
        assert result.status == "ok", f"{case.query}:{variant.id}"
        for item in held:
            actual = result.read[item.buffer].reshape(-1)[item.read]
            found = difference(actual, item.expected.reshape(-1)[item.read])
            assert found is None, f"{case.query}:{variant.id}: {item.buffer}: {found.count} of {found.size} differ"
            compared.add((variant.id, item.value))
    assert compared, "no variant runs here"
