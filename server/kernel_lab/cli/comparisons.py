"""What `kernel-lab compare` found, for a terminal, a pull request or a program.

In: a `Comparison`: one pair of runs, or the browsers of two matrices. Out: text, Markdown that a comment takes, JSON.
"""

import html
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from rich.markup import escape

from kernel_lab.cli import console
from kernel_lab.judging import changes
from kernel_lab.judging.changes import RESOLUTION_MS, WORDS, Change, Changes, Kind, Run, counted
from kernel_lab.judging.columns import Column

SHOWN = 10
"""Lines of one kind and cause on a terminal."""
SHOWN_IN_MARKDOWN = 50
"""The same in a comment, as far as that has room."""
LONGEST_MARKDOWN = 60_000
"""Characters; GitHub refuses a comment of more than 65,536."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What changed, and what of it a gate stops. Of two runs: one column without a name."""

    old: str
    new: str
    columns: Sequence[Column]
    gated: Mapping[str, Kind]

    @property
    def single(self) -> Changes | None:
        """The changes of two runs; None of two matrices."""
        (column, *more) = self.columns
        return column.found if not column.name and not more else None

    @property
    def stopping(self) -> list[Change]:
        return [change for column in self.columns for change in column.at([*self.gated.values()])]

    @property
    def faults(self) -> list[Column]:
        """The browsers of the new matrix that have no results, or not all."""
        return [column for column in self.columns if column.fault]

    @property
    def headline(self) -> str:
        """One line: the kinds that occur, with their numbers, and in how many browsers."""
        if self.single is not None:
            return self.columns[0].headline
        every = len(self.columns)
        found = [column.found for column in self.columns if column.found is not None]
        counts = Counter(change.kind for one in found for change in one.found)
        kinds = ", ".join(f"{counts[kind]:,} {word}" for kind, word in WORDS.items() if counts[kind])
        changed = sum(bool(one.found) for one in found)
        parts = [
            (kinds, f"{kinds} in {changed:,} of {counted(every, 'browser')}"),
            (self.faults, f"{len(self.faults):,} of {counted(every, 'browser')} without all results"),
            (n := sum(column.gone for column in self.columns), f"{counted(n, 'browser')} no longer asked for"),
            (n := sum(not one.old.results for one in found), f"{counted(n, 'browser')} with no earlier results"),
        ]
        return "; ".join(text for there, text in parts if there) or f"nothing changed in {counted(every, 'browser')}"


def _who(run: Run) -> tuple[str, str, str]:
    """The browser, the adapter and the counts of a run."""
    parts = [f"{count:,} {outcome}" for outcome, count in run.count.items()]
    if run.missing:
        parts.append(f"cut short: {run.missing:,} of {counted(run.header['pairs'], 'pair')} without a result")
    return f"Chromium {run.browser.get('version')}", str(run.adapter.get("description", "none")), ", ".join(parts)


def _verdict(told: Comparison) -> str:
    if not told.gated:
        return "gate     none"
    stopping = len(told.stopping)
    return f"gate     {', '.join(told.gated)}: {counted(stopping, 'change') if stopping else 'no change'}"


def _grouped(found: Changes) -> Iterator[tuple[Kind, str, list[Change]]]:
    """The changes by kind and cause."""
    for kind in WORDS:
        for cause, group in groupby(found.of(kind), key=lambda change: change.cause):
            yield kind, cause, list(group)


def _between(found: Changes) -> list[tuple[str, str]]:
    rows = [(contrast.what, str(contrast)) for contrast in found.contrasts]
    if found.rewritten:
        rows.append(("WGSL", f"other text in {found.rewritten:,} of {counted(found.compared, 'result')}"))
    return rows


def _times(found: Changes) -> Iterator[tuple[str, str]]:
    for times in found.times:
        told = f"{changes.milliseconds(times.old_median)} → {changes.milliseconds(times.new_median)}"
        yield times.stage, f"median {told} in {counted(times.results, 'result')}; scatter ×{times.scatter:.2f}"
    if found.untimed:
        yield "times", found.untimed
    elif found.times:
        software = (
            "; a software adapter's depend on what else its machine does" if found.new.adapter.get("fallback") else ""
        )
        yield "clock", f"steps of {RESOLUTION_MS} ms, each time measured once{software}"


# A terminal.


def show(told: Comparison) -> None:
    """Prints all to the terminal, the verdict last."""
    if told.single is not None:
        _print_who(told.single)
        _print_found(told.single, told.gated)
        console.out.print()
        _print_times(told.single)
    else:
        for column in told.columns:
            style = "bold yellow on red" if column.fault or column.at([*told.gated.values()]) else "bold"
            console.out.print(f"[{style}]{escape(column.name)}[/]  {escape(column.headline)}")
            if column.found is not None and (column.found.found or column.found.contrasts):
                _print_found(column.found, told.gated)
                console.out.print()
    headline = told.headline
    console.out.print(escape(_verdict(told)))
    console.out.print(f"[bold]{escape(headline[0].upper() + headline[1:])}[/]")


def _print_who(found: Changes) -> None:
    for word, run in (("old", found.old), ("new", found.new)):
        if not run.results:
            continue
        browser, adapter, counts = _who(run)
        console.out.print(f"[bold]{word}[/]      {escape(run.name)}")
        for text in (f"{browser}; {adapter}", counts):
            console.out.print(f"         {escape(text)}")


def _print_found(found: Changes, gated: Mapping[str, Kind]) -> None:
    _print_rows("Between them", _between(found), [])
    for kind, cause, group in _grouped(found):
        rows = [(change.query, _one_line(change.told)) for change in group[:SHOWN]]
        more = [f"… and {len(group) - SHOWN:,} more; --json has all"] if len(group) > SHOWN else []
        title = f"{WORDS[kind]}{f', {cause}' if cause else ''}: {len(group):,}"
        _print_rows(title, rows, more, _style(kind, kind in gated.values()))


def _print_times(found: Changes) -> None:
    for what, text in _times(found):
        console.out.print(f"[dim]{what:<12} {escape(text)}[/]")


def _print_rows(title: str, rows: Sequence[tuple[str, str]], more: Sequence[str], style: str = "bold") -> None:
    if not rows:
        return
    width = max(len(name) for name, _ in rows)
    console.out.print(f"\n[{style}]{escape(title)}[/]")
    for name, told in rows:
        console.out.print(f"  {escape(f'{name:<{width}}')}  [dim]{escape(told)}[/]")
    for text in more:
        console.out.print(f"  {escape(text)}")


def _style(kind: Kind, gated: bool) -> str:
    if kind in ("passing", "faster"):
        return "cyan"
    return "bold yellow on red" if gated else "bold"


def _one_line(text: str) -> str:
    """The first line of a message; the journal has the rest."""
    first, _, rest = text.strip().partition("\n")
    return f"{first} …" if rest else first


# A pull request.


def markdown(told: Comparison) -> str:
    """A comment: what matters most first, and no longer than GitHub takes."""
    stopping = len(told.stopping)
    counted_there = f"{stopping:,} at the gate" if stopping else "nothing at the gate"
    lines = [f"### kernel-lab: {told.headline}", ""]
    lines += [f"Gate: {', '.join(told.gated)}; {counted_there}." if told.gated else "No gate.", ""]
    if told.single is not None:
        lines += _table_of_two(told.single)
        sections = [*_sections(told.single)]
    else:
        lines += _table_of_columns(told.columns)
        found = [(column, column.found) for column in told.columns if column.found is not None]
        sections = [section for column, one in found for section in _sections(one, f"{column.name}: ")]
    return _fitting("\n".join(lines), ["\n".join(section) for section in sections])


def _fitting(text: str, sections: Sequence[str]) -> str:
    """The sections that there is room for, whole: half a table would swallow what follows it."""
    left = 0
    for section in sections:
        if len(text) + len(section) < LONGEST_MARKDOWN:
            text += f"\n{section}"
        else:
            left += 1
    return f"{text}\n\n… and {left:,} more of these for which a comment has no room." if left else text


def _table_of_two(found: Changes) -> Iterator[str]:
    runs = [run for run in (found.old, found.new) if run.results]
    rows = zip(("browser", "adapter", "results"), *(map(_cell, _who(run)) for run in runs), strict=True)
    heads = ["old", "new"][-len(runs) :]
    yield from _table(("", *heads), [("run", *(_code(run.name) for run in runs)), *rows])


def _table_of_columns(columns: Sequence[Column]) -> Iterator[str]:
    rows = []
    for column in columns:
        old, new = (column.found.old, column.found.new) if column.found is not None else (None, None)
        versions = [str(run.browser.get("version")) if run is not None and run.results else "" for run in (old, new)]
        counts = _who(new)[2] if new is not None else ""
        rows.append((_code(column.name), *map(_cell, (*versions, counts, column.headline))))
    yield from _table(("browser", "old", "new", "results", "what changed"), rows)


def _sections(found: Changes, name: str = "") -> Iterator[Sequence[str]]:
    """Each to be opened by itself; `name` begins their titles."""
    rows = [(_cell(what), _cell(told)) for what, told in _between(found)]
    if rows:
        yield [
            *_details(f"{name}{counted(len(rows), 'difference')} between the browsers", ("what", "difference"), rows)
        ]
    for kind, cause, group in _grouped(found):
        rows = [(_code(change.query), _cell(_one_line(change.told))) for change in group[:SHOWN_IN_MARKDOWN]]
        if len(group) > SHOWN_IN_MARKDOWN:
            rows.append((f"… and {len(group) - SHOWN_IN_MARKDOWN:,} more", ""))
        title = f"{name}{len(group):,} {WORDS[kind]}{f': {cause}' if cause else ''}"
        yield [*_details(title, ("result", "change"), rows)]
    rows = [(_cell(what), _cell(told)) for what, told in _times(found)] if not name else []
    if rows:
        yield [*_details("Times", ("what", "time"), rows)]


def _details(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from ("", f"<details><summary>{html.escape(title, quote=False)}</summary>", "")
    yield from _table(head, rows)
    yield from ("", "</details>")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _cell(text: str) -> str:
    """Text that means nothing in a Markdown table, whatever is in it."""
    for mark, instead in (("&", "&amp;"), ("<", "&lt;"), ("|", "\\|"), ("*", "\\*"), ("_", "\\_"), ("`", "\\`")):
        text = text.replace(mark, instead)
    return " ".join(text.split())


def _code(text: str) -> str:
    return f"`{' '.join(text.split())}`".replace("|", "\\|")


# A program.


def described(told: Comparison) -> dict[str, Any]:
    """All of it, for --json."""
    gate = {"gate": list(told.gated), "at_the_gate": len(told.stopping)}
    if told.single is not None:
        return {**_of_two(told.single), **gate}
    browsers = [
        {
            "name": column.name,
            "fault": column.fault,
            "remark": column.remark,
            "at_the_gate": len(column.at([*told.gated.values()])),
            "found": None if column.found is None else _of_two(column.found),
        }
        for column in told.columns
    ]
    return {"old": told.old, "new": told.new, "browsers": browsers, **gate}


def _of_two(found: Changes) -> dict[str, Any]:
    def run(one: Run) -> dict[str, Any] | None:
        if not one.results:
            return None
        header = {key: one.header.get(key) for key in ("browser", "adapter", "machine", "started", "pairs")}
        return {"name": one.name, "counts": one.count, **header}

    return {
        "old": run(found.old),
        "new": run(found.new),
        "browsers": [{**asdict(contrast), "told": str(contrast)} for contrast in found.contrasts],
        "compared": found.compared,
        "rewritten": found.rewritten,
        "counts": {kind: len(found.of(kind)) for kind in WORDS},
        "changes": [asdict(change) for change in found.found],
        "times": [asdict(times) for times in found.times],
        "times_not_compared": found.untimed,
        "resolution_ms": RESOLUTION_MS,
    }
