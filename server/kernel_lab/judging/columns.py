"""Columns: what changed between two matrices, browser by browser, each compared with itself of before.

In: the parts that two matrices left, or of one run each. Out: a `Column` for each browser of either. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kernel_lab.judging.changes import Change, Changes, Kind, Noise, changes, first, run_of
from kernel_lab.reporting.report import Part

NO_OLD = "no earlier run to compare with"


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One browser. `found`: what changed, if it has results now; `fault`: why it has none now, or not all; `remark`:
    why there is nothing to compare with; `gone`: it had results and is no longer asked for.
    """

    name: str
    found: Changes | None
    fault: str = ""
    remark: str = ""
    gone: bool = False

    def at(self, gated: Sequence[Kind]) -> list[Change]:
        """The changes that a gate names. A browser that is gone is one."""
        if self.gone and "gone" in gated:
            return [Change("gone", self.name, self.remark)]
        return [change for change in (self.found.found if self.found else ()) if change.kind in gated]

    @property
    def headline(self) -> str:
        """One line of its own: what it lacks, what changed."""
        told = [text for text in (self.fault, self.remark) if text]
        return "; ".join([*told, *([self.found.headline] if self.found else [])])


def columns(old: Sequence[Part], new: Sequence[Part], noise: Noise) -> list[Column]:
    """The new matrix's browsers in its order, then those that only the old one has (which is empty if there is none).
    LabError if one cannot be compared.
    """
    before, now = ({part.name: part for part in parts} for parts in (old, new))
    unknown = "not in the earlier run" if old else NO_OLD
    return [_column(name, before.get(name), now.get(name), noise, unknown) for name in dict.fromkeys([*now, *before])]


def _column(name: str, before: Part | None, now: Part | None, noise: Noise, unknown: str) -> Column:
    if now is None:
        return Column(name, None, remark="no longer asked for", gone=before is not None and _ran(before))
    if not _ran(now):
        return Column(name, None, fault=now.reason or "nothing ran in it")
    run = run_of(name, now.journals)
    if before is None:
        return Column(name, first(run), now.reason, unknown)
    if not _ran(before):
        return Column(name, first(run), now.reason, f"nothing ran in it before ({before.reason or 'all was skipped'})")
    return Column(name, changes(run_of(name, before.journals), run, noise), now.reason)


def _ran(part: Part) -> bool:
    return any(record["outcome"] != "skipped" for one in part.journals for record in one.results)
