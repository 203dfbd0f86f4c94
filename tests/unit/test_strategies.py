"""The property test draws every variant: a new one that no draw reaches is found here, without a browser."""

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import Phase, find, settings
from hypothesis.errors import NoSuchExample

from kernel_lab import line
from kernel_lab.operators import operator
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.scopes import Scope
from kernel_lab.reporting.report import Report
from tests.browser.strategies import STRATEGIES, Call

DRAWS = 600
RECORD = Report.model_validate_json((Path(__file__).parents[2] / "benchmarks/h200-run.json").read_text())
_ADAPTER = RECORD.browsers[0].adapter
assert _ADAPTER is not None
H200 = DeviceFacts(
    features=frozenset(_ADAPTER.features),
    language_features=frozenset(_ADAPTER.language_features),
    limits=_ADAPTER.limits,
    info=_ADAPTER.info,
    matrix_configs=_ADAPTER.matrix_configs,
)
"""A device on which every variant runs, those for subgroup matrices of float32 emulated."""


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_variant_is_drawn(name: str) -> None:
    """Each is reached by a request whose output is not empty; drawing ends with the last of them."""
    op = operator.named(name)
    missing = {variant.id for variant in op.manifest.variants}

    def was_the_last(call: Call) -> bool:
        scope = line.check(op, call.case)
        assert isinstance(scope, Scope), scope.sentence
        if scope.values["y_elements"]:
            decisions = line.decide(scope, H200)
            missing.difference_update(d.variant.id for d in decisions if d.can_run or d.stage == "emulated")
        return not missing

    options = settings(max_examples=DRAWS, derandomize=False, phases=[Phase.generate])
    with suppress(NoSuchExample):
        find(STRATEGIES[name], was_the_last, settings=options, random=Random(20261129))
    assert not missing, f"{DRAWS} draws of tests/browser/strategies.py never reach {', '.join(sorted(missing))}"


def test_the_record_of_the_h200_has_every_variant_equal_there() -> None:
    """Kept by `kernel-lab matrix --browser hardware` (without its times): only f32 matrices are emulated."""
    (browser,) = RECORD.browsers
    assert (browser.failed, browser.skipped) == (0, 0)
    assert H200.is_fallback is False
    cells = [(result.operator, result.variant, result.cells[browser.name]) for result in RECORD.results]
    emulated = {variant for _, variant, cell in cells if cell.emulated}
    assert all(variant.startswith("precast_f32_") for variant in emulated)
    assert len(emulated) == 14
    ran = {(operator, variant) for operator, variant, cell in cells if cell.outcome == "passed" and variant}
    assert ran == {(name, variant.id) for name, op in operator.load_all().items() for variant in op.manifest.variants}
