"""A session: many pairs in one browser, one after the other, each verdict written down as it comes.

In: pairs of a case and a variant, a Lab, a journal. Out: verdicts, in order. Whatever a browser does, each pair has
exactly one verdict.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernel_lab import line
from kernel_lab.browsing.lab import Lab, Running
from kernel_lab.debugging import artifacts
from kernel_lab.errors import LabError
from kernel_lab.judging.journal import Journal
from kernel_lab.judging.known import NOTHING, Known
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators.cases import Case
from kernel_lab.planning.selection import Decision
from kernel_lab.queries import file_name_of
from kernel_lab.runs import Pair


def perform(
    chosen: Sequence[Pair],
    lab: Lab,
    journal: Journal | None,
    options: line.Options | None = None,
    on_verdict: Callable[[Verdict], None] = lambda _: None,
    known: Known = NOTHING,
) -> list[Verdict]:
    """Runs the pairs in order. Whatever a browser does, each pair has exactly one verdict. `known`: the known failures
    that apply there.
    """
    session = Session(lab, journal, options or line.Options(), known)
    verdicts = []
    for verdict in session.judge_each(chosen):
        verdicts.append(verdict)
        on_verdict(verdict)
    return verdicts


AHEAD = 2
"""Pairs that are planned while one runs: the page has the next at hand when it is done, and another is on its way."""

MOST_ARTIFACTS = 20
"""Failures of a run that leave files: each takes a second, and nobody looks at more."""


LOST = ("timeout", "crash", "device_lost")
"""What a kernel did that another browser must not be asked to bear for a picture's sake."""


@dataclass(frozen=True, slots=True, eq=False)
class _Underway:
    """A pair whose job has been begun."""

    pair: Pair
    prepared: line.Prepared
    running: Running


@dataclass(slots=True, eq=False)
class Session:
    """Judges pairs in one browser; writes down each verdict and, once a case, what selection said of every variant. The
    first failures leave files beside the journal.
    """

    lab: Lab
    journal: Journal | None
    options: line.Options = field(default_factory=line.Options)
    known: Known = NOTHING
    _decided: set[str] = field(default_factory=set)
    _kept: int = 0

    def judge(self, pair: Pair) -> Verdict:
        return self._ended(self._begun(pair))

    def judge_each(self, chosen: Iterable[Pair]) -> Iterator[Verdict]:
        """The verdicts in order. While a pair runs, the next ones are planned; not where times are asked for, which
        that would change.
        """
        waiting: deque[Verdict | _Underway] = deque()
        try:
            for pair in chosen:
                while len(waiting) > (0 if self.options.timing else AHEAD):
                    yield self._ended(waiting.popleft())
                try:
                    waiting.append(self._begun(pair))
                except LabError:
                    yield from map(self._ended, waiting)  # what runs has a verdict yet, whatever the next one met
                    raise
            while waiting:
                yield self._ended(waiting.popleft())
        finally:
            for begun in reversed(waiting):  # none has its turn because one before it was cancelled
                if isinstance(begun, _Underway):
                    begun.running.cancel()

    def _begun(self, pair: Pair) -> Verdict | _Underway:
        """A pair's job under way, or its verdict where there is nothing to run."""
        if self.journal is not None and pair.case.query not in self._decided:
            self._decided.add(pair.case.query)
            decisions = line.decisions_there(pair.operator, pair.case, self.lab)
            if decisions:
                self.journal.append(_decided(pair.case, decisions))
        prepared = line.prepare(pair.operator, pair.case, self.lab, pair.variant, self.options)
        return prepared if isinstance(prepared, Verdict) else _Underway(pair, prepared, self.lab.begin(prepared.job))

    def _ended(self, begun: Verdict | _Underway) -> Verdict:
        verdict = self.known.judged(begun if isinstance(begun, Verdict) else self._ran(begun))
        if self.journal is not None:
            if verdict.outcome == "failed" and verdict.evidence is not None and self._kept < MOST_ARTIFACTS:
                verdict = self._with_artifacts(verdict, self.journal.folder)
            self.journal.append(verdict.record)
        return replace(verdict, evidence=None)  # it holds tensors, and a run may have thousands of verdicts

    def _ran(self, begun: _Underway) -> Verdict:
        pair, options = begun.pair, self.options
        first = line.judge(begun.prepared, begun.running.ran(), options)

        def again() -> Verdict:
            return line.follow(pair.operator, pair.case, self.lab, pair.variant, options)

        return repeated(first, again, options.times)

    def _with_artifacts(self, verdict: Verdict, folder: Path) -> Verdict:
        """The verdict, with what leads to its files; a folder that cannot be written costs no result."""
        self._kept += 1
        told = "none"
        try:
            place = artifacts.write(folder / "failures" / file_name_of(verdict.query), verdict.evidence, verdict.report)
            told = str(place)
            if verdict.record["status"] not in LOST:  # the page runs the kernel, too
                self.lab.picture(place / artifacts.PAGE_FILE, place / artifacts.PICTURE_FILE)
        except LabError as error:
            told = f"{told} ({error})"
        report = f"{verdict.report}\n  files     {told}"
        return replace(verdict, report=report, record={**verdict.record, "report": report})


def _decided(case: Case, decisions: Iterable[Decision]) -> dict[str, Any]:
    told = [[decision.variant.id, decision.stage, decision.reason] for decision in decisions]
    return {"type": "decisions", "operator": case.operator, "case": case.name, "decisions": told}


def repeated(first: Verdict, again: Callable[[], Verdict], times: int) -> Verdict:
    """The verdict on a pair that runs so many times: what is right once must be right, with the same bytes, every time.
    A race between invocations shows as a run that differs.
    """
    verdict = first
    for number in range(2, times + 1):
        if verdict.outcome != "passed":
            break
        verdict = _compared(verdict, again(), f"run {number} of {times}")
    return verdict


def _compared(first: Verdict, again: Verdict, which: str) -> Verdict:
    """The first verdict, with one run more on its record; or, if the outputs changed, a failure that says when."""
    if again.outcome == "passed" and again.record["outputs"] == first.record["outputs"]:
        return replace(first, record={**first.record, "runs": first.record.get("runs", 1) + 1})
    summary = f"{which} differs from those before, which were right: {again.summary}"
    report = f"{again.report or again.query}\n\n  {which} differs from those before, which were right: a race?"
    return replace(
        again,
        outcome="failed",
        summary=summary,
        report=report,
        record={**again.record, "outcome": "failed", "summary": summary, "report": report, "run": which},
    )
