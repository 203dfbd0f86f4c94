"""The property test draws every variant: a new one that no draw reaches is found here, without a browser."""

import json
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
from tests.browser.strategies import STRATEGIES, Call

DRAWS = 600
_RECORD = json.loads((Path(__file__).parents[2] / "benchmarks/h200-conformance.json").read_text())["run"]["adapter"]
H200 = DeviceFacts(
    features=frozenset(_RECORD["features"]),
    language_features=frozenset(_RECORD["language_features"]),
    limits=_RECORD["limits"],
    info=_RECORD["info"],
    matrix_configs=tuple(_RECORD["matrix_configs"]),
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
