"""A run: which pairs it is of, what of them is left, how many passed, and who ran it. Without a browser.

In: operators, queries, results. Out: pairs of a case and a variant, counts, what a journal says of browser and machine.
"""

import datetime
import hashlib
import platform
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel_lab.browsing.browser import BrowserInfo
from kernel_lab.browsing.profiles import Profile
from kernel_lab.errors import LabError
from kernel_lab.judging.known import Entry, Known
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator, with_templates
from kernel_lab.planning import scopes, selection
from kernel_lab.planning.facts import COMPUTE_FEATURES
from kernel_lab.planning.scopes import Scope
from kernel_lab.queries import Query


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """A case and the variant it runs on; None: the one that selection prefers (or none, for a refusal)."""

    operator: Operator
    case: Case
    variant: str | None = None

    @property
    def query(self) -> str:
        return f"{self.case.query}:{self.variant}" if self.variant else self.case.query


def pairs(operators: Iterable[Operator], queries: Sequence[Query], *, every_variant: bool) -> Iterator[Pair]:
    """What the queries name, in order. A query that names a variant forces it; `every_variant` gives each that can
    compute a
    case. A case that must be refused is one pair without a variant."""
    for operator in operators:
        if any(query.matches(operator.id) for query in queries):
            yield from pairs_of_cases(operator, operator.cases, queries, every_variant=every_variant)


def pairs_of_cases(
    operator: Operator, cases: Iterable[Case], queries: Sequence[Query], *, every_variant: bool
) -> Iterator[Pair]:
    """The same for given cases of one operator."""
    for case in cases:
        wanted = [query for query in queries if query.matches(operator.id, case.name)]
        if not wanted:
            continue
        forced = every_variant or all(query.variant != "*" for query in wanted)
        scope = scopes.scope_of(operator, case.request) if case.refused is None else None
        if not forced or not isinstance(scope, Scope):
            if not forced or any(query.variant == "*" for query in wanted):
                yield Pair(operator, case)
            continue
        for decision in selection.eligible(scope):
            name = decision.variant.id
            if decision.can_run and any(query.matches(operator.id, case.name, name) for query in wanted):
                yield Pair(operator, case, name)


def stale(
    known: Known, operators: Collection[Operator], asked: Sequence[Query], verdicts: Iterable[Verdict] = ()
) -> list[Entry]:
    """The lines of known failures (those that apply) that name no pair of these operators, though the queries cover
    them.
    """

    def names_a_pair(query: Query) -> bool:
        every = pairs(operators, [query], every_variant=True)
        return any(query.matches(pair.operator.id, pair.case.name, pair.variant or "") for pair in every)

    return known.stale(asked, names_a_pair, verdicts)


def unfinished(chosen: Iterable[Pair], results: Iterable[Mapping[str, Any]]) -> list[Pair]:
    """The pairs that have no result yet, whatever its outcome. That of the variant which selection preferred is the
    result of the pair that names none.
    """
    finished = set()
    for record in results:
        finished.add(record["query"])
        if record.get("selected"):
            finished.add(f"{record['operator']}:{record['case']}")
    return [pair for pair in chosen if pair.query not in finished]


def verdict_of(record: Mapping[str, Any]) -> Verdict:
    """The verdict that a journal keeps."""
    return Verdict(record["query"], record["outcome"], record["summary"], record.get("report", ""), record)


@dataclass(frozen=True, slots=True)
class Counts:
    """How many passed, failed and were skipped; crash and timeout count as failed. `known`: failures that a file of
    known ones names; told only where there are some.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    known: int = 0

    @property
    def total(self) -> int:
        return self.passed + self.known + self.failed + self.skipped

    @property
    def ran(self) -> int:
        return self.passed + self.known + self.failed

    def __str__(self) -> str:
        known = f"{self.known:,} known, " if self.known else ""
        return f"{self.passed:,} passed, {known}{self.failed:,} failed, {self.skipped:,} skipped"


def counts(verdicts: Iterable[Verdict]) -> Counts:
    found = Counter(verdict.outcome for verdict in verdicts)
    return Counts(found["passed"], found["failed"], found["skipped"], found["known"])


def describe(info: BrowserInfo) -> dict[str, Any]:
    """Who ran it, as recorded: browser, flags, adapter and driver, what is emulated or spoofed."""
    facts = info.facts
    return {
        "browser": {
            "profile": info.profile,
            "version": info.version,
            "executable": info.executable,
            "flags": list(info.flags),
            "environment": dict(info.environment),
            "headed": info.headed,
            "user_agent": info.user_agent,
        },
        "adapter": None
        if facts is None
        else {
            "description": facts.description,
            "info": dict(facts.info),
            "fallback": facts.is_fallback,
            "spoofed_ids": facts.spoofed_ids,
            "features": sorted(facts.features),
            "language_features": sorted(facts.language_features),
            "limits": dict(facts.limits),
            "matrix_configs": [dict(config) for config in facts.matrix_configs],
            "masked": list(facts.masked),
        },
        "no_adapter": info.no_adapter,
        "machine": {"system": platform.platform(), "python": platform.python_version()},
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def describe_packages(operators: Iterable[Operator], profile: Profile) -> dict[str, Any]:
    """Which operators a run is about, as recorded: `packages`: the SHA-256 of each one's files, by its id; `templates`:
    that of each file of the profile's own that stands in for one of theirs. LabError if none of the profile's does.
    """
    own = profile.templates
    there = [operator if own is None else with_templates(operator, own) for operator in dict.fromkeys(operators)]
    replaced = {name: path for operator in there for name, path in operator.replaced.items()}
    if own is not None and not replaced:
        names = ", ".join(operator.id for operator in there)
        raise LabError(f"profile {profile.name}: no file in {own} has the name of a template of {names}.")
    return {
        "packages": {operator.id: operator.digest for operator in there},
        "templates": {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in replaced.items()},
    }


def headline(info: BrowserInfo) -> list[str]:
    """The same for a terminal, in a few lines; of the features those that kernels use, while the record has all."""
    facts = info.facts
    lines = [f"browser  Chromium {info.version}{' (headed)' if info.headed else ''}  {info.executable}"]
    if facts is None:
        return [*lines, f"adapter  none: {info.no_adapter}"]
    low, high = facts.info.get("subgroupMinSize"), facts.info.get("subgroupMaxSize")
    lines.append(f"adapter  {facts.description}{'  (reported ids are spoofed)' if facts.spoofed_ids else ''}")
    features = ", ".join(feature for feature in COMPUTE_FEATURES if feature in facts.features) or "none"
    lines.append(
        f"         subgroups {low} to {high}; fallback {'yes' if facts.is_fallback else 'no'}; features: {features}"
    )
    if facts.masked:
        lines.append(f"         masked by the profile: {', '.join(facts.masked)}")
    return lines
