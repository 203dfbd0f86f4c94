"""What kernels take on the adapter at hand: bench.json's cases, GPU timestamps where there are any, interleaved rounds.

In: a Lab and queries. Out: one row per case. Milliseconds and units per second of the case's own metric. Every kernel's
output is compared with the reference before it is timed; a time below the timer's resolution is printed as such.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from kernel_lab import line
from kernel_lab.browsing.lab import Lab
from kernel_lab.errors import LabError
from kernel_lab.judging.verdicts import finding
from kernel_lab.operators import dtypes, generators, operator
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.operator import Operator
from kernel_lab.operators.requests import request_of
from kernel_lab.planning import expressions, scopes, selection
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.plans import Plan
from kernel_lab.queries import Query
from kernel_lab.serving import frames
from kernel_lab.serving.frames import Job, RunResult

DEADLINE_MS = 300_000
PRESETS = ("smoke", "standard", "large")
"""How large a bench case is: for a software adapter, for any GPU, for a large one."""
_UNITS = {"operations": "GOP/s", "bandwidth": "GB/s"}
RESOLUTION_NS = 100_000
"""Chromium rounds GPU timestamps to 100 microseconds unless its timestamp quantisation is switched off."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BenchInput(_Model):
    """`dist`: randint (min to max), linearMod (i * step mod `mod`), uniform (offset + scale * [0, 1) or [-1, 1))."""

    shape: list[int]
    dtype: str
    dist: str
    seed: int = 1
    min: int = 0
    max: int = 255
    step: int = 1
    mod: int = 256
    offset: float = 0.0
    scale: float = 1.0
    signed: bool = False


class BenchMetric(_Model):
    type: str
    value: str | int | float


class BenchTarget(_Model):
    primary: bool = False
    metrics: list[BenchMetric]


class BenchCase(_Model):
    name: str
    preset: str = ""
    vars: dict[str, int | float] = {}
    attrs: dict[str, Any] = {}
    inputs: dict[str, BenchInput]
    outputs: dict[str, Any] = {}
    bench: BenchTarget


class BenchFile(_Model):
    op: str | None = None
    tunableSpace: dict[str, list[int]] = {}
    cases: list[BenchCase]


@dataclass(slots=True, eq=False)
class _Timed:
    case: BenchCase
    variant: str
    job: Job
    pass_ns: list[float]
    submit_ms: list[float]


def measure(lab: Lab, queries: Sequence[Query], presets: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """One row per bench case that the queries and presets name; LabError if none does."""
    timed = [entry for op in operator.load_all().values() for entry in _prepared(op, lab, queries, presets)]
    if not timed:
        raise LabError(f"no bench case of preset {' or '.join(presets)} fits {', '.join(map(str, queries))}.")
    for _ in range(rounds):
        for entry in timed:
            _time(entry, lab.run(entry.job))
    return [_row(entry) for entry in timed]


def load(op: Operator) -> BenchFile:
    """An operator's bench.json."""
    try:
        return BenchFile.model_validate(op.bench)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise LabError(f"{op.id}/bench.json: {place}: {first['msg']} (found: {first['input']!r:.80}).") from None


def inputs_of(case: BenchCase) -> dict[str, Array]:
    """The arrays of a bench case."""
    return {role: _tensor(source) for role, source in case.inputs.items()}


def _prepared(op: Operator, lab: Lab, queries: Sequence[Query], presets: Sequence[str]) -> Iterator[_Timed]:
    """Each case on its selected (or named) variant, once run and found right."""
    for case in (case for case in load(op).cases if case.preset in presets):
        for query in (q for q in queries if q.matches(op.id, case.name)):
            inputs = inputs_of(case)
            scope = scopes.scope_of(op, request_of(op.id, inputs, case.attrs))
            if isinstance(scope, scopes.Refused):
                raise LabError(f"{op.id}/bench.json: {case.name}: {scope.sentence}")
            plan, variant = _plan(scope, lab.facts, query)
            expected = op.reference.compute(inputs, case.attrs)
            job = frames.job_of(plan, inputs, expected, DEADLINE_MS, timing="timestamp-query" in lab.facts.features)
            found = finding(lab.run(job), expected)
            if not found.right:
                raise LabError(f"{op.id}:{case.name}:{variant}: not timed, because it is not right: {found.summary}.")
            yield _Timed(case, variant, job, [], [])


def _plan(scope: scopes.Scope, facts: DeviceFacts, query: Query) -> tuple[Plan, str]:
    decisions = line.decide(scope, facts)
    chosen = selection.selected(decisions) if query.variant == "*" else selection.forced(decisions, query.variant)
    if chosen is None or not chosen.can_run:
        raise LabError(f"{scope.operator.id}: {chosen.reason if chosen else 'no variant can run here'}")
    return line.plan(scope, chosen, facts), chosen.variant.id


def _time(entry: _Timed, result: RunResult) -> None:
    if result.status != "ok":
        raise LabError(f"{entry.job.plan.label}: {result.status}: {result.reason}")
    nanoseconds = [value for value in result.timings.get("pass_ns") or [] if value is not None]
    entry.pass_ns.append(sum(nanoseconds) if nanoseconds else 0.0)
    entry.submit_ms.append(result.timings["gpu_ms"])


def _row(entry: _Timed) -> dict[str, Any]:
    stamped = bool(entry.job.timing and max(entry.pass_ns, default=0) > 0)
    values = [value / 1e6 for value in entry.pass_ns] if stamped else entry.submit_ms
    median = statistics.median(values)
    below = median <= 0 or (stamped and median * 1e6 < RESOLUTION_NS)
    spread = (max(values) - min(values)) / median if median > 0 else 0.0
    metric = entry.case.bench.metrics[0]
    amount = float(expressions.evaluate(metric.value, {"args": scopes.Names(entry.case.vars)}))
    rate = None if below else amount / (median / 1e3)
    return {
        "case": f"{entry.job.plan.label.partition(':')[0]}:{entry.case.name}",
        "variant": entry.variant,
        "median_ms": median,
        "median": "< resolution" if below else f"{median:.3f}",
        "spread": f"{spread:.0%}",
        "clock": "GPU timestamps" if stamped else "submit to done",
        "metric": "" if rate is None else f"{rate / 1e9:.2f} {_UNITS.get(metric.type, f'G {metric.type}/s')}",
    }


def _tensor(source: BenchInput) -> Array:
    dtype, shape = dtypes.named(source.dtype), tuple(source.shape)
    if source.dist == "randint":
        return generators.draw(source.seed, source.min, source.max, dtype, shape)
    if source.dist == "linearMod":
        index = np.arange(dtypes.numel(shape), dtype=np.int64)
        return (index * source.step % source.mod).astype(dtype.numpy).reshape(shape)
    if source.dist == "uniform":
        low = source.offset - (source.scale if source.signed else 0.0)
        return generators.draw(source.seed, low, source.offset + source.scale, dtype, shape)
    raise LabError(f"dist {source.dist!r} is unknown; known are randint, linearMod and uniform.")
