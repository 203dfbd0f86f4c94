"""Subgroup matrices of f32, which no adapter that we know has: the built-ins are right as far as a browser can tell."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NoReturn

import pytest

from kernel_lab import line
from kernel_lab.browsing.lab import Lab
from kernel_lab.browsing.profiles import resolve
from kernel_lab.errors import LabError
from kernel_lab.operators import operator
from kernel_lab.planning import scopes, selection
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.scopes import Scope
from kernel_lab.serving import frames

QLINEARCONV = operator.named("com.microsoft.QLinearConv")
F32 = {"componentType": "f32", "resultComponentType": "f32", "M": 8, "N": 8, "K": 8}

pytestmark = pytest.mark.xdist_group("lavapipe")


@pytest.fixture(scope="module")
def lab_with_matrices(lacking: Callable[[str], NoReturn]) -> Iterator[Lab]:
    try:
        profile = resolve("lavapipe")
    except LabError as error:
        lacking(str(error))
    with Lab(profile) as lab:
        yield lab


@pytest.fixture
def claiming(lab_with_matrices: Lab) -> DeviceFacts:
    """The adapter's facts, and a claim of f32 matrices that is not true."""
    facts = lab_with_matrices.facts
    return replace(facts, matrix_configs=(*facts.matrix_configs, F32))


@pytest.mark.parametrize(
    "variant", [v.id for v in QLINEARCONV.manifest.variants if v.id.startswith("precast_f32")], ids=str
)
def test_f32_module_compiles_and_only_its_pipeline_is_refused(
    lab_with_matrices: Lab, claiming: DeviceFacts, variant: str
) -> None:
    for case in QLINEARCONV.cases:
        scope = scopes.scope_of(QLINEARCONV, case.request)
        if case.refused is None and isinstance(scope, Scope) and y_elements(scope):
            decision = selection.forced(line.decide(scope, claiming), variant)
            if decision.can_run:
                break
    plan = line.plan(scope, decision, claiming)
    assert not plan.emulated
    result = lab_with_matrices.run(frames.job_of(plan, case.inputs, None, line.DEADLINE_MS))
    assert result.status == "validation_error"  # a module that does not compile is a compile_error
    assert "configuration" in result.messages[0].text
    assert "f32" in result.messages[0].text


def y_elements(scope: Scope) -> int:
    return int(scope.values["y_elements"])
