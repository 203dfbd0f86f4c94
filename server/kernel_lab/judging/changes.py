"""Changes: what is different between two runs, and between the browsers that ran them.

In: two runs as their journals tell them. Out: `Changes`, each of a kind that a gate can name. Times are compared only
where two numbers measure the same thing, and count only beyond a factor and an amount. Pure.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, median_low
from typing import Any, Literal

from kernel_lab.errors import LabError
from kernel_lab.judging import contrasts
from kernel_lab.judging.contrasts import Contrast
from kernel_lab.judging.journal import Kept, Trace

Record = Mapping[str, Any]
Kind = Literal[
    "failing",
    "skipped",
    "gone",
    "selection",
    "emulated",
    "digests",
    "messages",
    "slower",
    "known",
    "passing",
    "added",
    "faster",
]
WORDS: Mapping[Kind, str] = {
    "failing": "newly failing",
    "skipped": "newly skipped",
    "gone": "no longer run",
    "selection": "another variant selected",
    "emulated": "emulated in one run only",
    "digests": "passed with other outputs",
    "messages": "new messages",
    "slower": "slower",
    "known": "newly known to fail",
    "passing": "newly passing",
    "added": "newly run",
    "faster": "faster",
}
"""Every kind as people read it, what matters most first."""
GATES: Mapping[str, Kind] = {
    **{kind: kind for kind in ("failing", "skipped", "gone", "selection", "emulated", "digests", "messages")},
    "times": "slower",
}
"""What may end with exit code 1, by the word that asks for it."""
RELEASE = ("failing", "skipped", "gone")
"""The gate of a release: what worked must still be seen to work."""

OUTCOMES = ("passed", "known", "failed", "skipped")

RESOLUTION_MS = 0.1
"""The step of the browser's clock: what is below it was not measured."""
FACTOR = 2.0
LEAST_MS = 5.0
STAGES = ("compile_ms", "gpu_ms")
_BAD = ("passed", "skipped", "known", "failed")


@dataclass(frozen=True, slots=True)
class Noise:
    """A time has changed if it is `least_ms` away from what it was, and by more than `factor` times the cube of the
    factor by which all results scatter: 1 on a quiet machine, far more on a busy one.
    """

    factor: float = FACTOR
    least_ms: float = LEAST_MS


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run under the name it was asked for by; `results`: one a pair, by query, the worst if a pair has several;
    `decisions`: what selection said, by case.
    """

    name: str
    header: Record
    results: Mapping[str, Record]
    decisions: Mapping[str, Trace] = field(default_factory=dict)

    @property
    def count(self) -> Mapping[str, int]:
        """Results by outcome; `known` only where there are some."""
        found = Counter(record["outcome"] for record in self.results.values())
        return {outcome: found[outcome] for outcome in OUTCOMES if outcome != "known" or found[outcome]}

    @property
    def missing(self) -> int:
        """How many of the pairs that it was to run have no result, as far as its journal says how many those were."""
        planned: int = self.header.get("pairs", 0)
        return max(0, planned - len(self.results))

    @property
    def adapter(self) -> Record:
        return self.header.get("adapter") or {}

    @property
    def browser(self) -> Record:
        return self.header.get("browser") or {}


@dataclass(frozen=True, slots=True)
class Change:
    """One pair's change (for "selection" one case's). `cause`: what many have in common, as the feature that went."""

    kind: Kind
    query: str
    told: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Times:
    """One stage over all results in which it could be compared; milliseconds. `scatter`: half of those that are long
    enough lie within that factor of their middle.
    """

    stage: str
    results: int
    old_median: float
    new_median: float
    scatter: float


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """All of it. `contrasts`: between the browsers; `compared`: results that both runs have, of which `rewritten` ran
    other WGSL; `untimed`: why no times were compared, if none were.
    """

    old: Run
    new: Run
    contrasts: tuple[Contrast, ...]
    found: tuple[Change, ...]
    compared: int
    rewritten: int
    times: tuple[Times, ...]
    untimed: str = ""

    def of(self, kind: Kind) -> list[Change]:
        return [change for change in self.found if change.kind == kind]

    @property
    def headline(self) -> str:
        """One line: the kinds that occur, with their numbers."""
        counts = Counter(change.kind for change in self.found)
        parts = [f"{counts[kind]:,} {word}" for kind, word in WORDS.items() if counts[kind]]
        if not self.old.results:
            parts = [counted(len(self.new.results), "result"), *parts]
        return ", ".join(parts) or f"nothing changed in {counted(self.compared, 'result')}"


def counted(number: int, word: str) -> str:
    """A number and what it counts: `1 result`, `2 results`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def run_of(name: str, journals: Iterable[Kept]) -> Run:
    """The run that these journals (one, or one for each worker) tell of. LabError if nothing ran in it."""
    kept = list(journals)
    results: dict[str, Record] = {}
    for record in (record for one in kept for record in one.results):
        before = results.setdefault(record["query"], record)
        if _BAD.index(record["outcome"]) > _BAD.index(before["outcome"]):
            results[record["query"]] = record
    run = Run(name, kept[0].header, results, {case: trace for one in kept for case, trace in one.decisions.items()})
    if all(record["outcome"] == "skipped" for record in results.values()):
        raise LabError(f"{name}: nothing ran in it ({run.count['skipped']:,} skipped), so it cannot be compared.")
    return run


def changes(old: Run, new: Run, noise: Noise = Noise()) -> Changes:
    """Everything that changed from the old run to the new one. LabError if they have nothing in common."""
    matched = list(_matched(old, new))
    both = [(before, after) for before, after in matched if before is not None and after is not None]
    if not both:
        raise LabError(f"{old.name} and {new.name} have no result in common, so there is nothing to compare.")
    found = [change for before, after in matched for change in _of_pair(before, after, old, new)]
    found += _selections(old, new)
    untimed = _why_untimed(old, new)
    times = []
    for stage in () if untimed else STAGES:
        measured = list(_measured(stage, both, old, new))
        if measured:
            befores, afters = [one.old for one in measured], [one.new for one in measured]
            scatter = _scatter([one.ratio for one in measured if one.longest >= noise.least_ms])
            times.append(Times(stage, len(measured), median(befores), median(afters), scatter))
            found += _timed(stage, measured, noise, scatter)
    order = list(WORDS)
    found.sort(key=lambda change: (order.index(change.kind), change.cause))  # stable: as the runs had them
    other = (*contrasts.browsers(old.header, new.header), *contrasts.machines(old.header, new.header))
    return Changes(old, new, other, tuple(found), len(both), _rewritten(both), tuple(times), untimed)


def first(new: Run) -> Changes:
    """The same where nothing is known of before: what fails fails newly, and that the rest runs is no news."""
    old = Run("", {}, {})
    every = [change for after in new.results.values() for change in _of_pair(None, after, old, new)]
    return Changes(old, new, (), tuple(change for change in every if change.kind == "failing"), 0, 0, ())


# Between results.


def _matched(old: Run, new: Run) -> Iterator[tuple[Record | None, Record | None]]:
    """Each result with the one of the same pair in the other run. What selection chose for a case is the same pair
    even where it chose another variant, unless that variant was run anyway.
    """
    chosen = _chosen(new)
    taken = set()
    for query, before in old.results.items():
        after = new.results.get(query)
        if after is None and _is_chosen(before):
            after = chosen.get(_case(before))
            if after is not None and after["query"] in old.results:
                after = None
        if after is not None:
            taken.add(after["query"])
        yield before, after
    yield from ((None, after) for query, after in new.results.items() if query not in taken)


def _of_pair(before: Record | None, after: Record | None, old: Run, new: Run) -> Iterator[Change]:
    if after is None:
        assert before is not None
        yield Change("gone", before["query"], f"{before['outcome']} before")
        return
    query, outcome = after["query"], after["outcome"]
    was = before["outcome"] if before is not None else "not run"
    if (outcome == "failed" and was != "failed") or (outcome == "known" and was == "passed"):
        yield Change("failing", query, f"{was} → {outcome}: {after['summary']}")  # what worked does so no more
    elif before is None:
        yield Change("added", query, outcome)
    elif outcome == "skipped" and was != "skipped":
        yield Change("skipped", query, f"{was} → skipped", _why_skipped(after["summary"], old, new))
    elif outcome == "known" and was != "known":
        yield Change("known", query, f"{was} → known: {after.get('reason', after['summary'])}")
    elif outcome == "passed" and was != "passed":
        yield Change("passing", query, f"{was} → passed")
    said = (before or {}).get("messages", ())
    for message in dict.fromkeys(after.get("messages", ())):
        if message not in said:
            yield Change("messages", query, message)
    if before is None:
        return
    if before.get("emulated", after.get("emulated")) != after.get("emulated", before.get("emulated")):
        yield Change("emulated", query, "real → emulated" if after["emulated"] else "emulated → real")
    outputs, newer = before.get("outputs"), after.get("outputs")
    if was == outcome == "passed" and outputs is not None and newer is not None and outputs != newer:
        names = [name for name in dict.fromkeys([*outputs, *newer]) if outputs.get(name) != newer.get(name)]
        told = (f"{name} {_short(outputs.get(name))} → {_short(newer.get(name))}" for name in names)
        yield Change("digests", query, ", ".join(told))


def _selections(old: Run, new: Run) -> Iterator[Change]:
    newer = _chosen(new)
    for case, before in _chosen(old).items():
        after = newer.get(case)
        if after is not None and before["variant"] != after["variant"]:
            told = f"{before['variant'] or 'none'} → {after['variant'] or 'none'}"
            reason = _why_not(before["variant"], new.decisions.get(case, ()))
            yield Change("selection", case, f"{told}: {before['variant']} {reason}" if reason else told)


def _why_not(variant: str, trace: Trace) -> str:
    """Why selection passed over a variant, or the end of it where it only came later than another."""
    return next((reason or "comes later now" for name, _, reason in trace if name == variant), "")


def _chosen(run: Run) -> dict[str, Record]:
    """What ran where nobody named a variant, by case."""
    return {_case(record): record for record in run.results.values() if _is_chosen(record)}


def _is_chosen(record: Record) -> bool:
    return bool(record.get("selected")) or not record["variant"]


def _case(record: Record) -> str:
    return f"{record['operator']}:{record['case']}"


def _why_skipped(reason: str, old: Run, new: Run) -> str:
    """The feature that went, by name, if the reason speaks of one."""
    named = re.match(r"needs the (?:WGSL language )?feature '([^']+)'", reason)
    if named is None:
        return reason.partition(";")[0].rstrip(".")
    feature = named[1]
    if feature in new.adapter.get("masked", ()):
        return f"{feature} is masked"
    had = feature in {*old.adapter.get("features", ()), *old.adapter.get("language_features", ())}
    return f"{feature} vanished" if had else f"needs {feature}, which neither browser has"


def _short(digest: object) -> str:
    return str(digest)[:12]


def _rewritten(both: Sequence[tuple[Record, Record]]) -> int:
    return sum(before["variant"] == after["variant"] and _wgsl(before) != _wgsl(after) for before, after in both)


# Times.


def _why_untimed(old: Run, new: Run) -> str:
    who, newer = (
        [(run.adapter.get("info") or {}).get(key) for key in ("vendor", "device", "type")] for run in (old, new)
    )
    return "" if who == newer else "not compared: the adapters are not the same."


@dataclass(frozen=True, slots=True)
class _Measured:
    query: str
    old: float
    new: float

    @property
    def longest(self) -> float:
        return max(self.old, self.new)

    @property
    def ratio(self) -> float:
        """New to old, as far as the clock can tell."""
        return max(self.new, RESOLUTION_MS) / max(self.old, RESOLUTION_MS)


def _measured(stage: str, both: Sequence[tuple[Record, Record]], old: Run, new: Run) -> Iterator[_Measured]:
    """The pairs in which both numbers measure the same: the same variant passed, and, for compilation, was the first of
    its run to need that WGSL (whatever comes after finds it compiled).
    """
    fresh, newer_fresh = (_compiled(run) if stage == "compile_ms" else run.results.keys() for run in (old, new))
    for before, after in both:
        query = after["query"]
        if before["query"] != query or query not in fresh or query not in newer_fresh:
            continue
        if not before["outcome"] == after["outcome"] == "passed" or before.get("emulated") != after.get("emulated"):
            continue
        value, newer = ((record.get("timings") or {}).get(stage) for record in (before, after))
        if isinstance(value, int | float) and isinstance(newer, int | float):
            yield _Measured(query, value, newer)


def _compiled(run: Run) -> set[str]:
    """The queries whose WGSL nothing before them in the run had needed, all of it."""
    known: set[str] = set()
    found = set()
    for query, record in run.results.items():
        digests = _wgsl(record)
        if digests and known.isdisjoint(digests):
            found.add(query)
        known |= digests
    return found


def _wgsl(record: Record) -> set[str]:
    return set((record.get("wgsl") or {}).values())


def _scatter(ratios: Sequence[float]) -> float:
    """The factor by which half of the ratios stay within their middle; 1 where there are too few to say."""
    logs = [math.log(ratio) for ratio in ratios] or [0.0]
    middle = median_low(logs)
    return math.exp(median_low([abs(value - middle) for value in logs]))


def _timed(stage: str, measured: Sequence[_Measured], noise: Noise, scatter: float) -> Iterator[Change]:
    """The times that changed, the greatest change first."""
    for one in sorted(measured, key=lambda one: -abs(math.log(one.ratio))):
        if abs(one.new - one.old) >= noise.least_ms and max(one.ratio, 1 / one.ratio) >= noise.factor * scatter**3:
            told = f"{stage} {milliseconds(one.old)} → {milliseconds(one.new)} (×{one.ratio:.2g})"
            yield Change("slower" if one.ratio > 1 else "faster", one.query, told)


def milliseconds(value: float) -> str:
    """A time as the browser's clock can tell it."""
    return f"{value:,.1f} ms" if round(value, 1) >= RESOLUTION_MS else f"< {RESOLUTION_MS} ms"
