"""The harness is tested with an operator of its own, tests/operators/lab.test.Copy, whose variants are wrong in one way each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernel_lab import line
from kernel_lab.browsing.lab import Lab
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators import operator
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import scopes, selection
from kernel_lab.serving import frames
from kernel_lab.serving.frames import Job

OPERATORS = Path(__file__).parent.parent / "operators"


@pytest.fixture(scope="session")
def copy_operator() -> Operator:
    return operator.load_all(OPERATORS)["lab.test.Copy"]


@pytest.fixture(scope="session")
def copy_case(copy_operator: Operator) -> Callable[[str], Case]:
    """A case by its name."""
    return lambda name: next(case for case in copy_operator.cases if case.name == name)


@pytest.fixture
def follow(lab: Lab, copy_operator: Operator, copy_case: Callable[[str], Case]) -> Callable[..., Verdict]:
    """The whole line for one variant of the copy operator."""

    def run(variant: str | None, case: str = "seven", **options: Any) -> Verdict:
        return line.follow(copy_operator, copy_case(case), lab, variant, line.Options(**options))

    return run


@pytest.fixture
def job(lab: Lab, copy_operator: Operator, copy_case: Callable[[str], Case]) -> Callable[..., Job]:
    """One run of the copy operator, as the browser gets it."""

    def make(variant: str = "copy", case: str = "seven", expected: bool = True, **options: Any) -> Job:
        chosen = copy_case(case)
        scope = scopes.scope_of(copy_operator, chosen.request)
        assert isinstance(scope, scopes.Scope)
        decision = selection.forced(line.decide(scope, lab.facts), variant)
        plan = line.plan(scope, decision, lab.facts)
        right = copy_operator.reference.compute(chosen.inputs, {}) if expected else None
        return frames.job_of(plan, chosen.inputs, right, options.pop("deadline_ms", 20_000), **options)

    return make
