"""Coverage: which variant ran on which adapter, read from journals. Three words are kept apart.

ran: on the adapter's own features. emulated: plain WGSL stood in for subgroup matrices. unreachable: neither, anywhere,
and why not. Only results that passed count: a variant that fails is not covered.

In: journals and the variants there are. Out: one `Covered` a variant. Reads files, writes none.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kernel_lab.judging import journal
from kernel_lab.operators.operator import Operator


@dataclass(slots=True, eq=False)
class Covered:
    """One variant. `ran` and `emulated`: passed cases by adapter. `reasons`: why it was skipped, by adapter."""

    operator: str
    variant: str
    ran: Counter[str] = field(default_factory=Counter)
    emulated: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def word(self) -> str:
        return "ran" if self.ran else "emulated" if self.emulated else "unreachable"

    @property
    def told(self) -> str:
        """What a person reads: how many cases where, or why nowhere."""
        parts = [f"ran {count:,} cases on {adapter}" for adapter, count in sorted(self.ran.items())]
        parts += [f"emulated {count:,} cases on {adapter}" for adapter, count in sorted(self.emulated.items())]
        if not parts:
            parts = [f"{adapter}: {reason}" for adapter, reason in sorted(self.reasons.items())]
        return "; ".join(parts) or "no journal speaks of it"


def coverage(operators: Iterable[Operator], journals: Iterable[Path]) -> list[Covered]:
    """One entry a variant, in the manifests' order."""
    found = {(op.id, v.id): Covered(op.id, v.id) for op in operators for v in op.manifest.variants}
    for path in journals:
        adapter = "an unknown adapter"
        for record in journal.read(path):
            if record.get("type") == "run":
                adapter = _label(record)
                continue
            entry = found.get((record.get("operator", ""), record.get("variant", "")))
            if entry is None:
                continue
            if record["outcome"] == "passed":
                (entry.emulated if record.get("emulated") else entry.ran)[adapter] += 1
            elif record["outcome"] == "skipped":
                entry.reasons.setdefault(adapter, record["summary"])
    return list(found.values())


def journals_in(folder: Path) -> list[Path]:
    """Every journal below a folder."""
    return sorted(folder.glob(f"**/{journal.FILE}"))


def _label(header: dict[str, object]) -> str:
    """An adapter by its description and driver, never by the identity it may have borrowed."""
    adapter = header.get("adapter")
    info = adapter.get("info", {}) if isinstance(adapter, dict) else {}
    return str(info.get("description") or info.get("device") or "an unnamed adapter")
