"""Dispatches folded over two dimensions: what only the largest tensors need, asked of every variant on a small one.

A dispatch of more workgroups than a dimension allows is folded over x and y, and kernels flatten it again. Here each
variant is planned as if a dimension allowed one, and so many that the last row is not full.
"""

from collections.abc import Iterator

import pytest

from kernel_lab import line
from kernel_lab.browsing.lab import Lab
from kernel_lab.judging.verdicts import finding
from kernel_lab.mutating.survey import Trial, folded, trials_of
from kernel_lab.operators import operator
from kernel_lab.serving import frames


def variants() -> Iterator[tuple[str, str]]:
    for op in operator.load_all().values():
        for variant in op.manifest.variants:
            yield op.id, variant.id


@pytest.mark.parametrize(("op", "variant"), list(variants()))
def test_a_folded_dispatch_gives_the_same(lab: Lab, op: str, variant: str) -> None:
    found = list(folded(trials_of(operator.named(op), lab.facts, variant), lab.facts))
    if not found:
        pytest.skip("no case that runs here is dispatched by a count of more than one workgroup")
    for trial in found:
        assert _summary(lab, trial) == "equal", trial.query


def _summary(lab: Lab, trial: Trial) -> str:
    expected, _ = line.expected_of(trial.operator, trial.case)
    job = frames.job_of(trial.plan, trial.case.inputs, expected, line.DEADLINE_MS)
    return finding(lab.run(job), expected).summary
