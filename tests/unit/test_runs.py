"""Which pairs of a case and a variant a run has, made without a browser; and how they are counted."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from kernel_lab import runs
from kernel_lab.cli.run import command_of
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators.operator import Operator
from kernel_lab.queries import parse
from kernel_lab.runs import Counts

PairsOf = Callable[..., list[str]]


@pytest.fixture
def pairs_of(operator_from: Callable[..., Operator], tiny_manifest: dict[str, Any]) -> PairsOf:
    """The queries of the pairs of an operator with three variants (one for small x alone) and three cases."""
    tiny_manifest["variants"] = [
        {"id": "best", "priority": 9, "when": "count < 3", "passes": [{"use": "copy"}]},
        {"id": "plain", "passes": [{"use": "copy"}]},
        {"id": "slow", "demoteWhen": "true", "passes": [{"use": "copy"}]},
    ]

    def case(name: str, dtype: str, size: int, **more: str) -> dict[str, Any]:
        data = {"kind": "values", "values": list(range(size))}
        return {"name": name, "inputs": {"x": {"dtype": dtype, "shape": [size], "data": data}}, **more}

    cases = [case("small", "uint8", 2), case("large", "uint8", 5), case("wrong", "int8", 2, refused="x: got dtype")]
    op = operator_from(tiny_manifest, **{"test.json": json.dumps({"cases": cases})})

    def find(*queries: str, every_variant: bool = False) -> list[str]:
        found = runs.pairs([op], [parse(query) for query in queries or ["*"]], every_variant=every_variant)
        return [pair.query.removeprefix("lab.test.Tiny:") for pair in found]

    return find


def test_one_pair_a_case_unless_every_variant_is_asked_for(pairs_of: PairsOf) -> None:
    assert pairs_of() == ["small", "large", "wrong"]
    every = pairs_of(every_variant=True)
    assert every == ["small:best", "small:plain", "small:slow", "large:plain", "large:slow", "wrong"]


def test_a_query_that_names_a_variant_forces_it_where_it_can_compute_the_case(pairs_of: PairsOf) -> None:
    assert pairs_of("Tiny:*:best") == ["small:best"]
    assert pairs_of("Tiny:*:s*") == ["small:slow", "large:slow"]
    assert pairs_of("Tiny:large:plain") == ["large:plain"]
    assert pairs_of("Tiny:large:plain", every_variant=True) == ["large:plain"]


def test_queries_add_up_and_those_that_fit_nothing_give_nothing(pairs_of: PairsOf) -> None:
    assert pairs_of("Tiny:small", "Tiny:large:slow") == ["small", "large:slow"]
    assert pairs_of("Tiny:nosuch") == pairs_of("Other") == pairs_of("Tiny:*:nosuch") == []


def test_counts_read_as_a_sentence() -> None:
    verdicts = [Verdict("q", "passed", "")] * 1_234 + [Verdict("q", "failed", "")] + [Verdict("q", "skipped", "")] * 2
    counts = runs.counts(verdicts)
    assert counts == Counts(1_234, 1, 2)
    assert (counts.total, str(counts)) == (1_237, "1,234 passed, 1 failed, 2 skipped")


def test_the_command_that_repeats_a_case_names_who_ran_it() -> None:
    assert command_of("run", browser="default", mask=None, repeat=1, emulate_matrices=False) == ("kernel-lab", "run")
    assert command_of(
        "run", package=["p"], browser="lavapipe", mask=["a", "b"], subgroups="4-8", emulate_matrices=True
    ) == (
        *("kernel-lab", "run", "--package", "p", "--browser", "lavapipe", "--mask", "a", "--mask", "b"),
        *("--subgroups", "4-8", "--emulate-matrices"),
    )
