"""Mutants known to compute the same as the kernel they were made from, each with the argument why.

In: `equivalent-mutants.json` beside the operators' folders. Out: `Equivalents`. An entry that fits no mutant any more,
or whose mutant a case caught, is an error of that file.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kernel_lab.errors import LabError
from kernel_lab.mutating.survey import Host, Mutant, Survey
from kernel_lab.queries import parse

FILE = "equivalent-mutants.json"
_Line = tuple[str, str, str]
"""Template, function or pass, and the line's text."""


class Entry(BaseModel):
    """`template`, `place`, `kind`, `before` and `after` name the fault (`Fault.key`); `kind` and `after` may be `*`,
    where nothing that happens to a line can matter. `where`: queries of the variants in which it changes nothing;
    `matrices`: the subgroup matrices with which it does, a device's own or those emulated in plain WGSL.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    template: str
    place: str
    kind: str
    before: str
    after: str
    where: tuple[str, ...] = ("*",)
    matrices: Literal["any", "real", "emulated"] = "any"
    argument: Annotated[str, Field(min_length=20)]

    @property
    def line(self) -> _Line:
        return (self.template, self.place, self.before)

    def covers(self, mutant: Mutant) -> bool:
        template, place, kind, before, after = mutant.fault.key
        same = self.line == (template, place, before) and self.kind in ("*", kind) and self.after in ("*", after)
        return same and self.holds_in(mutant.host)

    def holds_in(self, host: Host) -> bool:
        fits = self.matrices in ("any", "emulated" if host.emulated else "real")
        return fits and any(parse(query).matches(host.operator, None, host.variant) for query in self.where)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    equivalents: list[Entry]


@dataclass(frozen=True, slots=True, eq=False)
class Equivalents:
    """The entries by the line they speak of."""

    entries: Mapping[_Line, tuple[Entry, ...]]

    def entry_for(self, mutant: Mutant) -> Entry | None:
        template, place, _, before, _ = mutant.fault.key
        found = self.entries.get((template, place, before), ())
        return next((entry for entry in found if entry.covers(mutant)), None)

    def stale(self, survey: Survey) -> list[Entry]:
        """Entries that fit no mutant, though a variant they speak of renders their template. Only a survey of whole
        operators can tell.
        """
        if not survey.complete:
            return []
        seen: dict[str, set[Host]] = {}
        used: set[Entry] = set()
        for fault, mutants in survey.mutants.items():
            for mutant in mutants:
                seen.setdefault(fault.template, set()).add(mutant.host)
                entry = self.entry_for(mutant)
                if entry is not None:
                    used.add(entry)
        unused = [entry for found in self.entries.values() for entry in found if entry not in used]
        return [entry for entry in unused if any(entry.holds_in(host) for host in seen.get(entry.template, ()))]


def load(folders: Iterable[Path]) -> Equivalents:
    """The entries of every such file in these folders; LabError names whatever is wrong. No file: no entry."""
    entries: dict[_Line, tuple[Entry, ...]] = {}
    for path in (folder / FILE for folder in folders):
        if not path.is_file():
            continue
        for entry in _read(path):
            known = entries.get(entry.line, ())
            if any(entry.model_copy(update={"argument": other.argument}) == other for other in known):
                raise LabError(f"{FILE}: this entry stands twice: {entry.template}, {entry.kind}: {entry.before!r}.")
            entries[entry.line] = (*known, entry)
    return Equivalents(entries)


def _read(path: Path) -> list[Entry]:
    try:
        return _File.model_validate(json.loads(path.read_text("utf-8"))).equivalents
    except json.JSONDecodeError as error:
        raise LabError(f"{FILE}: line {error.lineno}: not JSON: {error.msg}.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise LabError(f"{FILE}: {place}: {first['msg']} (found: {first['input']!r:.80}).") from None
