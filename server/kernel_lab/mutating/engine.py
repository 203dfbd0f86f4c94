"""Runs mutants against an operator's own cases: caught, survived, or not compiled.

In: a survey, what to draw, something that runs a job. Out: an `Outcome` for each mutant. Stops at the first case that
catches. A case only counts where the kernel itself, unchanged, gives the right answer in the same time.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from kernel_lab import line
from kernel_lab.errors import LabError
from kernel_lab.judging import verdicts
from kernel_lab.mutating.choosing import Draw
from kernel_lab.mutating.equivalents import Entry, Equivalents
from kernel_lab.mutating.faults import PLAN_KINDS
from kernel_lab.mutating.survey import Mutant, Trial
from kernel_lab.planning.plans import Plan
from kernel_lab.serving import frames
from kernel_lab.serving.frames import Job, RunResult

PATIENT_DEADLINE_MS = 60_000
_NOT_ITS_FAULT = ("waiting for pipelines", "waiting for a device")
"""What the page waited for when time ran out: a pipeline that is slow to compile says nothing about its kernel."""

Fate = Literal["caught", "survived", "equivalent", "not compiled"]


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """`equivalent`: survived, as an entry argues it must. `by`: the case that caught it, `how` in a few words."""

    mutant: Mutant
    fate: Fate
    by: str = ""
    how: str = ""
    entry: Entry | None = None
    runs: int = 0
    seconds: float = 0.0

    @property
    def compiled(self) -> bool:
        return self.fate != "not compiled"

    @property
    def refuted(self) -> bool:
        """Caught, though an entry argues that nothing can catch it."""
        return self.fate == "caught" and self.entry is not None


def identity_of(mutant: Mutant) -> tuple[str, ...]:
    """What tells a mutant from all others, in this run and in the next."""
    return (mutant.host.query, mutant.fault.where, *mutant.fault.key)


@dataclass(slots=True, eq=False)
class Court:
    """Judges mutants one after the other; remembers which cases caught most, and which kernels were found right.

    `run`: gives a job to a browser; `prepare`: compiles a plan's pipelines there, before the clock runs. `deadline_ms`:
    for one run; a mutant that takes longer where its kernel does not is caught. `earlier`: records of an earlier run by
    `identity_of`, whose catches stand. `wrong`: the kernels that fail a case unchanged, and how.
    """

    run: Callable[[Job], RunResult]
    prepare: Callable[[list[Plan]], None]
    deadline_ms: int
    equivalents: Equivalents
    earlier: Mapping[tuple[str, ...], Mapping[str, Any]] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    _jobs: dict[str, Job] = field(default_factory=dict)
    _right: dict[str, bool] = field(default_factory=dict)
    _catches: Counter[tuple[str, str]] = field(default_factory=Counter)
    _compiled: set[str] = field(default_factory=set)

    def judge_all(self, draw: Draw) -> Iterator[Outcome]:
        """Draws and judges until enough compiled."""
        while (mutant := draw.next()) is not None:
            outcome = self.judge(mutant)
            if outcome.compiled:
                draw.compiled(mutant.fault)
            yield outcome

    def judge(self, mutant: Mutant) -> Outcome:
        """One mutant on its trials, those that catch most and those that cost least first."""
        began = time.perf_counter()
        template = mutant.fault.template
        entry = self.equivalents.entry_for(mutant)
        runs = 0

        def outcome(fate: Fate, by: str = "", how: str = "") -> Outcome:
            return Outcome(mutant, fate, by, how, entry, runs, time.perf_counter() - began)

        if (record := self.earlier.get(identity_of(mutant))) is not None:
            fate: Fate = "caught" if record["fate"] == "caught" else "not compiled"
            return Outcome(mutant, fate, record["by"], record["how"], entry, record["runs"], record["seconds"])
        own, elsewhere = (
            sorted(trials, key=lambda trial: -self._catches[template, trial.name])
            for trials in (mutant.host.trials, mutant.elsewhere)
        )
        for trial in (*own, *elsewhere):
            plan = mutant.change(trial.plan)
            if plan is None:
                continue
            runs += 1
            result = self._result(replace(self._job(trial), plan=plan))
            if result.status in ("compile_error", "validation_error") and mutant.fault.kind not in PLAN_KINDS:
                return outcome("not compiled", how=_said(result))
            if result.status == "harness_error":
                raise LabError(f"the harness could not run a mutant of {trial.query}: {_said(result)}")
            found = verdicts.finding(result, line.expected_of(trial.operator, trial.case)[0])
            if not found.right and self._is_right(trial):
                self._catches[template, trial.name] += 1
                return outcome("caught", f"{trial.name}:{trial.variant}", found.summary)
        return outcome("equivalent" if entry else "survived")

    def _job(self, trial: Trial) -> Job:
        if trial.query not in self._jobs:
            expected, _ = line.expected_of(trial.operator, trial.case)
            self._jobs[trial.query] = frames.job_of(trial.plan, trial.case.inputs, expected, self.deadline_ms)
        return self._jobs[trial.query]

    def _result(self, job: Job) -> RunResult:
        digests = {item.wgsl.digest for item in job.plan.passes}
        if not digests <= self._compiled:
            self.prepare([job.plan])
            self._compiled |= digests
        result = self.run(job)
        if result.status in ("timeout", "crash", "device_lost"):
            self._compiled.clear()
            if any(text in _said(result) for text in _NOT_ITS_FAULT):
                return self.run(replace(job, deadline_ms=PATIENT_DEADLINE_MS))
        return result

    def _is_right(self, trial: Trial) -> bool:
        """Whether the unchanged kernel passes the case; asked once. One that fails is noted in `wrong`."""
        if trial.query not in self._right:
            result = self._result(self._job(trial))
            found = verdicts.finding(result, line.expected_of(trial.operator, trial.case)[0])
            self._right[trial.query] = found.right
            if not found.right:
                self.wrong[trial.query] = found.summary
        return self._right[trial.query]


def _said(result: RunResult) -> str:
    texts = [message.text for message in result.messages if message.kind == "error"] or [result.reason]
    return texts[0].strip().splitlines()[0] if texts[0].strip() else result.status
