"""Known failures: what may fail where, and why; everything else about such a line is an error of its file.

In: a TOML file (or the same as JSON), who runs, verdicts. Out: `Known`, verdicts with the outcome `known`, stale lines.
Reads that file, and is pure otherwise.

    [[known]]
    query = "com.microsoft.QLinearConv:*:implicit_gemm_i8"
    reason = "https://crbug.com/123456: the driver loses the last lane"
    browser = "chromium >= 150, < 154"      # or a pattern for the profile's name: "debian-*-lavapipe"
    adapter = "*llvmpipe*"                  # a pattern for the adapter's description, which no spoofed id enters
    features = ["shader-f16"]               # all of them are there (features and WGSL language features, as masked)
    lacks = ["subgroups"]                   # none of them is

A line applies where all of its conditions hold. There

- a pair that it names and that fails, in whatever way, is `known`: neither passed nor failed;
- a pair that it names and that passes is a failure: each pair is named because it fails;
- a pair that it names and that was skipped, or was not asked for, says nothing about it;
- it is stale, and the run a failure, if the run's queries cover its query, and the operators that were loaded have no
  pair of that name. So a run of some cases speaks of no line about others, and neither does a run of selected variants,
  or of what failed last, about a variant that it left out. One query covers another if it names all that the other may.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from kernel_lab.browsing.browser import BrowserInfo
from kernel_lab.errors import LabError
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.queries import Query, parse

_COMPARISON = r"(<=|<|>=|>|==) *(\d+)"
_RANGE = re.compile(rf"chromium *{_COMPARISON}( *, *{_COMPARISON})*")
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": int.__lt__,
    "<=": int.__le__,
    ">": int.__gt__,
    ">=": int.__ge__,
    "==": int.__eq__,
}
Pattern = Annotated[str, Field(min_length=1)]


def _query(text: str) -> str:
    try:
        parse(text)
    except LabError as error:
        raise ValueError(str(error).rstrip(".")) from None
    if not text.strip(":* "):
        raise ValueError("a query that names everything would hide every failure")
    return text


def _browser(text: str) -> str:
    if re.search("[<>=]", text) and not _RANGE.fullmatch(text):
        raise ValueError("a range is written as 'chromium >= 150, < 154', with <, <=, >, >= or ==")
    return text


class Entry(BaseModel):
    """One line: the pairs it speaks of, why they fail, and where they do; see above."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    query: Annotated[str, AfterValidator(_query)]
    reason: Annotated[str, Field(min_length=20)]
    browser: Annotated[Pattern, AfterValidator(_browser)] | None = None
    adapter: Pattern | None = None
    features: tuple[Pattern, ...] = ()
    lacks: tuple[Pattern, ...] = ()

    @model_validator(mode="after")
    def _can_hold(self) -> "Entry":
        both = sorted({*self.features} & {*self.lacks})
        if both:
            raise ValueError(f"{', '.join(both)} is in features and in lacks, so this line never applies")
        return self

    @property
    def parsed(self) -> Query:
        return parse(self.query)

    def applies(self, info: BrowserInfo) -> bool:
        """Whether its conditions hold there."""
        facts = info.facts
        if facts is None:
            return False
        has = facts.features | facts.language_features
        return (
            (self.browser is None or _is_browser(self.browser, info))
            and (self.adapter is None or fnmatchcase(facts.description, self.adapter))
            and has.issuperset(self.features)
            and has.isdisjoint(self.lacks)
        )

    def names(self, operator: str, case: str, variant: str) -> bool:
        return self.parsed.matches(operator, case, variant)


@dataclass(frozen=True, slots=True)
class Known:
    """The lines of a file; none without one."""

    file: str = ""
    entries: tuple[Entry, ...] = ()

    def there(self, info: BrowserInfo) -> "Known":
        """Those that apply there."""
        return replace(self, entries=tuple(entry for entry in self.entries if entry.applies(info)))

    def entries_for(self, verdict: Verdict) -> list[Entry]:
        """Those that name that pair."""
        operator, case, variant = (verdict.record[key] for key in ("operator", "case", "variant"))
        return [entry for entry in self.entries if entry.names(operator, case, variant)]

    def judged(self, verdict: Verdict) -> Verdict:
        """The verdict in the light of the lines that apply: a failure may be known, a pass may be one too many."""
        entries = self.entries_for(verdict) if self.entries and verdict.outcome in ("passed", "failed") else []
        if not entries:
            return verdict
        entry = entries[0]
        more: dict[str, Any] = {"reason": entry.reason, "known_by": entry.query}
        if verdict.outcome == "failed":
            more |= {"outcome": "known", "summary": f"{verdict.summary} (known: {entry.reason})"}
            return replace(verdict, outcome="known", summary=more["summary"], record={**verdict.record, **more})
        summary = f"unexpected pass: remove the line {entry.query!r} of {self.file}, or narrow it"
        report = f"{verdict.query}\n  {summary}\n  its reason was: {entry.reason}"
        more |= {"outcome": "failed", "summary": summary, "report": report}
        return replace(verdict, outcome="failed", summary=summary, report=report, record={**verdict.record, **more})

    def stale(
        self, asked: Sequence[Query], names_a_pair: Callable[[Query], bool], verdicts: Iterable[Verdict] = ()
    ) -> list[Entry]:
        """The lines (of those that apply) that a run of these queries shows to be stale. `names_a_pair`: whether the
        operators have a pair that a query names, whatever variant a run selects. `verdicts`: what was judged; a line
        that names one of them is not stale, wherever that pair came from.
        """
        judged = {entry for verdict in verdicts for entry in self.entries_for(verdict)}
        return [
            entry
            for entry in self.entries
            if entry not in judged
            and any(covers(query, entry.parsed) for query in asked)
            and not names_a_pair(entry.parsed)
        ]

    def told(self, entry: Entry) -> str:
        """A stale line as a sentence."""
        return f"stale: {self.file}: no pair is named {entry.query!r} any more: remove the line, or correct its query."


NOTHING = Known()
"""No known failure."""


def covers(wide: Query, narrow: Query) -> bool:
    """Whether one query names, by its text, all that the other may name."""

    def fits(pattern: str, text: str) -> bool:
        if pattern == text:
            return True
        if re.search(r"[?\[]", pattern) and re.search(r"[*?\[]", text):  # what `?` takes is not what `*` stands for
            return False
        return fnmatchcase(text, pattern)

    by_operator = fits(wide.operator, narrow.operator) or fits(wide.operator, narrow.operator.rpartition(".")[2])
    return by_operator and fits(wide.case, narrow.case) and fits(wide.variant, narrow.variant)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    known: list[Entry]


def load(path: Path | None) -> Known:
    """The lines of a file, none for None; LabError names whatever is wrong in it."""
    if path is None:
        return NOTHING
    entries = _read(path)
    for number, entry in enumerate(entries):
        for earlier in entries[:number]:
            if entry.model_copy(update={"reason": earlier.reason}) == earlier:
                raise LabError(
                    f"{path}: this line stands twice: {entry.query!r}, under the same conditions. Keep one of the two."
                )
    return Known(str(path), entries)


def _read(path: Path) -> tuple[Entry, ...]:
    try:
        text = path.read_text("utf-8")
        found = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        return tuple(_File.model_validate(found).known)
    except OSError as error:
        raise LabError(f"{path}: known failures cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise LabError(f"{path}: is not UTF-8 text.") from None
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise LabError(f"{path}: is not {'JSON' if path.suffix == '.json' else 'TOML'}: {error}.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        told = first["msg"].removeprefix("Value error, ")
        raise LabError(f"{path}: {place}: {told} (found: {first['input']!r:.80}).") from None


def _is_browser(condition: str, info: BrowserInfo) -> bool:
    if not _RANGE.fullmatch(condition):
        return fnmatchcase(info.profile, condition)
    major = int(info.version.partition(".")[0] or 0)
    return all(_COMPARE[sign](major, int(number)) for sign, number in re.findall(_COMPARISON, condition))
