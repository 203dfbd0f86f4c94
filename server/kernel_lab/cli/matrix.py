"""`kernel-lab matrix`: the same cases in several browsers, and one report of all."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kernel_lab import line, runs
from kernel_lab import matrix as matrices
from kernel_lab.browsing import profiles, sources
from kernel_lab.cli import console
from kernel_lab.cli.console import PackageOption, QueryArgument, ReferenceOption
from kernel_lab.cli.report import print_report
from kernel_lab.cli.run import DeadlineOption, KnownOption, RepeatOption, RetryOption, command_of, every_variant
from kernel_lab.errors import LabError
from kernel_lab.judging.journal import new_run_folder
from kernel_lab.queries import parse
from kernel_lab.reporting import writing
from kernel_lab.reporting.report import Part

BrowsersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--browser",
        metavar="NAME",
        help="One column; repeat it. Default: every Chromium that is found, on each software adapter prepared for it.",
    ),
]
VariantsOption = Annotated[
    str,
    typer.Option(
        "--variants",
        metavar="selected|all",
        help="All: every template that a browser's adapter can take is compiled and run there, selected or not.",
    ),
]


def add_to(app: typer.Typer) -> None:
    @app.command("matrix")
    def matrix(
        query: QueryArgument = None,
        browser: BrowsersOption = None,
        processes: Annotated[
            int, typer.Option("--processes", metavar="N", min=1, help="So many browsers at a time.")
        ] = 1,
        variants: VariantsOption = "all",
        report: Annotated[
            Path | None, typer.Option("--report", metavar="DIR", help="Keep all there (default: in the cache).")
        ] = None,
        deadline: DeadlineOption = line.DEADLINE_MS / 1000,
        repeat: RepeatOption = 1,
        retry_lost: RetryOption = False,
        known: KnownOption = None,
        package: PackageOption = None,
        reference: ReferenceOption = None,
    ) -> None:
        """Run the same cases in several browsers; each one's failure, crash or missing adapter is its own row."""
        queries = [parse(text) for text in query or ["*"]]
        operators = console.operators(package, reference).values()
        pairs = list(runs.pairs(operators, queries, every_variant=every_variant(variants)))
        if not pairs:
            raise LabError(f"no case fits {', '.join(map(str, queries))}; `kernel-lab list` shows what there is.")
        options = command_of(
            "run", variants=variants, deadline=deadline, repeat=repeat, retry_lost=retry_lost, known=known,
            package=package, reference=reference,
        )  # fmt: skip
        words = [*(query or ()), *options[2:]]
        names = browser or installed()
        if not names:
            raise LabError("no Chromium was found: `kernel-lab browsers list` says what can be installed.")
        place = report or new_run_folder()
        parts = _with_progress(matrices.seats(names, place), words, len(pairs), processes)
        made = writing.write(place, parts)
        print_report(made, place)
        good = all((one.passed or one.known) and not one.failed and not one.reason for one in made.browsers)
        raise typer.Exit(0 if good else 1)


def installed() -> list[str]:
    """Every profile that runs without a GPU: SwiftShader on each Chromium, lavapipe where it is prepared."""
    names = []
    for chromium in sources.installed():
        for adapter in ("swiftshader", "lavapipe"):
            name = f"{chromium.name}-{adapter}"
            try:
                profiles.resolve(name)
            except LabError:  # `browsers list` says why
                continue
            names.append(name)
    return list(dict.fromkeys(names))


def _with_progress(places: Sequence[matrices.Seat], words: Sequence[str], pairs: int, processes: int) -> list[Part]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console.err, transient=True) as progress:
        tasks = {seat.name: progress.add_task(seat.name, total=pairs) for seat in places}

        def on_progress(counts: Mapping[str, int]) -> None:
            for name, count in counts.items():
                progress.update(tasks[name], completed=count)

        return matrices.perform(places, words, pairs, processes, on_progress)
