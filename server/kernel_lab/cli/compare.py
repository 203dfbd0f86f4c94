"""`kernel-lab compare`: what changed between two runs, for a terminal, a pull request or a program."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Annotated, Any

import typer
from rich.markup import escape

from kernel_lab.cli import console
from kernel_lab.cli.console import JsonOption
from kernel_lab.errors import LabError
from kernel_lab.judging import changes, journal
from kernel_lab.judging.changes import (
    FACTOR,
    GATES,
    LEAST_MS,
    RELEASE,
    RESOLUTION_MS,
    WORDS,
    Change,
    Changes,
    Kind,
    Noise,
    Run,
)

SHOWN = 10
"""Lines of one kind and cause on a terminal."""
SHOWN_IN_MARKDOWN = 50
"""The same in a comment, which GitHub ends at 65,536 characters."""

_RELEASE = ",".join(RELEASE)
_RUN = "a report folder, a journal, or the name of a run in the cache."
OldArgument = Annotated[str, typer.Argument(metavar="OLD", help=f"The run that is known: {_RUN}")]
NewArgument = Annotated[str, typer.Argument(metavar="NEW", help="The run to be judged: the same.")]
GateOption = Annotated[
    str,
    typer.Option(
        "--gate",
        metavar="KINDS",
        help=f"Which changes end with exit code 1: some of {', '.join(GATES)}, with commas between them; or none. "
        "By default what a release must not lose: a result that passed, or that was seen at all.",
    ),
]
FactorOption = Annotated[
    float,
    typer.Option(
        "--time-factor",
        metavar="TIMES",
        min=1,
        help="A time changed if it is so many times what it was (more, where the run's own times scatter) …",
    ),
]
LeastOption = Annotated[float, typer.Option("--time-ms", metavar="MS", min=0, help="… and also so far from it.")]
MarkdownOption = Annotated[bool, typer.Option("--markdown", help="Print a comment for a pull request.")]


def add_to(app: typer.Typer) -> None:
    @app.command("compare")
    def compare(
        old: OldArgument,
        new: NewArgument,
        gate: GateOption = _RELEASE,
        time_factor: FactorOption = FACTOR,
        time_ms: LeastOption = LEAST_MS,
        markdown: MarkdownOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """Say what changed between two runs: results, selection, outputs, messages, times, and the browsers themselves.

        Exit code 1 only for what --gate names, 2 if a run cannot be read or nothing ran in it.
        """
        if markdown and as_json:
            raise LabError("--markdown and --json: only one of them can be printed.")
        gated = _gated(gate)
        older, newer = (changes.run_of(name, map(journal.load, journal.locate(name))) for name in (old, new))
        found = changes.changes(older, newer, Noise(time_factor, time_ms))
        if as_json:
            console.print_json(described(found, gated))
        elif markdown:
            typer.echo("\n".join(_markdown(found, gated)))
        else:
            print_changes(found, gated)
        raise typer.Exit(1 if _stopping(found, gated) else 0)


def _gated(text: str) -> dict[str, Kind]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if words == ["none"]:
        return {}
    unknown = [word for word in words if word not in GATES]
    if unknown or not words:
        raise LabError(f"--gate: got {(unknown or [text])[0]!r}, allowed are {', '.join(GATES)}, or none alone.")
    return {word: GATES[word] for word in words}


def _stopping(found: Changes, gated: dict[str, Kind]) -> list[Change]:
    return [change for change in found.found if change.kind in gated.values()]


def _who(run: Run) -> tuple[str, str, str]:
    """The browser, the adapter and the counts of a run."""
    parts = [f"{count:,} {outcome}" for outcome, count in run.count.items()]
    return f"Chromium {run.browser.get('version')}", str(run.adapter.get("description", "none")), ", ".join(parts)


def _verdict(found: Changes, gated: dict[str, Kind]) -> str:
    if not gated:
        return "gate     none"
    stopping = len(_stopping(found, gated))
    return f"gate     {', '.join(gated)}: {f'{stopping:,} changes' if stopping else 'no change'}"


def _grouped(found: Changes) -> Iterator[tuple[Kind, str, list[Change]]]:
    """The changes by kind and cause."""
    for kind in WORDS:
        for cause, group in groupby(found.of(kind), key=lambda change: change.cause):
            yield kind, cause, list(group)


def _between(found: Changes) -> list[tuple[str, str]]:
    rows = [(contrast.what, str(contrast)) for contrast in found.contrasts]
    if found.rewritten:
        rows.append(("WGSL", f"other text in {found.rewritten:,} of {found.compared:,} results"))
    return rows


def _times(found: Changes) -> Iterator[tuple[str, str]]:
    for times in found.times:
        told = f"{changes.milliseconds(times.old_median)} → {changes.milliseconds(times.new_median)}"
        yield times.stage, f"median {told} in {times.results:,} results, which scatter by ×{times.scatter:.2f}"
    if found.untimed:
        yield "times", found.untimed
    elif found.times:
        software = (
            "; a software adapter's depend on what else its machine does" if found.new.adapter.get("fallback") else ""
        )
        yield "clock", f"steps of {RESOLUTION_MS} ms, each time measured once{software}"


# A terminal.


def print_changes(found: Changes, gated: dict[str, Kind]) -> None:
    """All that changed, the most important first."""
    for word, run in (("old", found.old), ("new", found.new)):
        browser, adapter, counts = _who(run)
        console.out.print(f"[bold]{word}[/]      {escape(run.name)}")
        for text in (f"{browser}; {adapter}", counts):
            console.out.print(f"         {escape(text)}")
    _print_rows("Between them", _between(found), [])
    for kind, cause, group in _grouped(found):
        rows = [(change.query, _one_line(change.told)) for change in group[:SHOWN]]
        more = [f"… and {len(group) - SHOWN:,} more; --json has all"] if len(group) > SHOWN else []
        title = f"{WORDS[kind]}{f', {cause}' if cause else ''}: {len(group):,}"
        _print_rows(title, rows, more, _style(kind, kind in gated.values()))
    console.out.print()
    for what, told in _times(found):
        console.out.print(f"[dim]{what:<12} {escape(told)}[/]")
    headline = found.headline
    console.out.print(escape(_verdict(found, gated)))
    console.out.print(f"[bold]{escape(headline[0].upper() + headline[1:])}[/]")


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


def _markdown(found: Changes, gated: dict[str, Kind]) -> Iterator[str]:
    stopping = _stopping(found, gated)
    counted = f"{len(stopping):,} at the gate" if stopping else "nothing at the gate"
    yield f"### kernel-lab: {found.headline}"
    yield ""
    yield f"Gate: {', '.join(gated) or 'none'}; {counted}." if gated else "No gate."
    yield ""
    yield from _table(
        ("", "old", "new"),
        [
            ("run", *(_code(run.name) for run in (found.old, found.new))),
            *zip(
                ("browser", "adapter", "results"),
                *(map(_cell, _who(run)) for run in (found.old, found.new)),
                strict=True,
            ),
        ],
    )
    rows = [(_cell(what), _cell(told)) for what, told in _between(found)]
    if rows:
        yield from _details(f"{len(rows):,} differences between the browsers", ("what", "difference"), rows)
    for kind, cause, group in _grouped(found):
        rows = [(_code(change.query), _cell(_one_line(change.told))) for change in group[:SHOWN_IN_MARKDOWN]]
        if len(group) > SHOWN_IN_MARKDOWN:
            rows.append((f"… and {len(group) - SHOWN_IN_MARKDOWN:,} more", ""))
        title = f"{len(group):,} {WORDS[kind]}{f': {cause}' if cause else ''}"
        yield from _details(title, ("result", "change"), rows)
    rows = [(_cell(what), _cell(told)) for what, told in _times(found)]
    if rows:
        yield from _details("Times", ("what", "time"), rows)


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


def described(found: Changes, gated: dict[str, Kind]) -> dict[str, Any]:
    """The same as a JSON object."""

    def run(one: Run) -> dict[str, Any]:
        header = {key: one.header.get(key) for key in ("browser", "adapter", "machine", "started")}
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
        "gate": list(gated),
        "at_the_gate": len(_stopping(found, gated)),
    }
