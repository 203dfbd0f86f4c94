"""`kernel-lab compare`: what changed between two runs, or between two matrices, browser by browser."""

from typing import Annotated

import typer

from kernel_lab import matrix as matrices
from kernel_lab.cli import comparisons, console
from kernel_lab.cli.comparisons import Comparison
from kernel_lab.cli.console import JsonOption
from kernel_lab.errors import LabError
from kernel_lab.judging import changes, journal
from kernel_lab.judging.changes import FACTOR, GATES, LEAST_MS, RELEASE, Kind, Noise, Run
from kernel_lab.judging.columns import NO_OLD, Column, columns
from kernel_lab.reporting.report import Part

_RELEASE = ",".join(RELEASE)
_RUN = "a report folder, of `matrix` too; a journal; or the name of a run in the cache."
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
NoOldOption = Annotated[
    bool,
    typer.Option(
        "--allow-no-old",
        help="Where there is no OLD, as in a CI's first run, say so: whatever fails then counts as newly failing.",
    ),
]
MarkdownOption = Annotated[bool, typer.Option("--markdown", help="Print a comment for a pull request.")]


def add_to(app: typer.Typer) -> None:
    @app.command("compare")
    def compare(
        old: OldArgument,
        new: NewArgument,
        gate: GateOption = _RELEASE,
        time_factor: FactorOption = FACTOR,
        time_ms: LeastOption = LEAST_MS,
        allow_no_old: NoOldOption = False,
        markdown: MarkdownOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """Say what changed between two runs: results, selection, outputs, messages, times, and the browsers themselves.

        Exit code 1 only for what --gate names; 2 if a run cannot be read or nothing ran in it, or if a browser of the
        matrix NEW has no results, or not all.
        """
        if markdown and as_json:
            raise LabError("--markdown and --json: only one of them can be printed.")
        gated = _gated(gate)
        told = Comparison(old, new, _columns(old, new, Noise(time_factor, time_ms), allow_no_old), gated)
        if as_json:
            console.print_json(comparisons.described(told))
        elif markdown:
            typer.echo(comparisons.markdown(told))
        else:
            comparisons.show(told)
        raise typer.Exit(2 if told.faults else 1 if told.stopping else 0)


def _gated(text: str) -> dict[str, Kind]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if words == ["none"]:
        return {}
    unknown = [word for word in words if word not in GATES]
    if unknown or not words:
        raise LabError(f"--gate: got {(unknown or [text])[0]!r}, allowed are {', '.join(GATES)}, or none alone.")
    return {word: GATES[word] for word in words}


def _columns(old: str, new: str, noise: Noise, allow_no_old: bool) -> list[Column]:
    """Two runs as one column, or two matrices. LabError if one of them cannot be read, or is not what the other is."""
    older, newer = _matrix(old), _matrix(new)
    none = allow_no_old and older is None and not _is_run(old)
    if newer is None:
        run = _run(new)
        if older is not None:
            raise LabError(_other(old, new))
        if none:
            return [Column("", changes.first(run), remark=NO_OLD)]
        return [Column("", changes.changes(_run(old), run, noise))]
    if older is None and not none:
        journal.locate(old)  # has a sentence for what is not there
        raise LabError(_other(new, old))
    return columns(older or [], newer, noise)


def _matrix(name: str) -> list[Part] | None:
    return next((parts for place in journal.places(name) if (parts := matrices.kept(place)) is not None), None)


def _run(name: str) -> Run:
    return changes.run_of(name, map(journal.load, journal.locate(name)))


def _is_run(name: str) -> bool:
    try:
        return bool(journal.locate(name))
    except LabError:
        return False


def _other(matrix: str, run: str) -> str:
    return f"{matrix} is a matrix and {run} one run: of the matrix, name one browser's folder, as in {matrix}/BROWSER."
