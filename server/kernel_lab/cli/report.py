"""`kernel-lab report`: run.json and one HTML page from the journals of one or several runs."""

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from kernel_lab.cli import console
from kernel_lab.errors import LabError
from kernel_lab.judging import journal
from kernel_lab.reporting import writing
from kernel_lab.reporting.report import Browser, Part, Report, schema

OutOption = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where to (default: beside the journal).")]


def add_to(app: typer.Typer) -> None:
    @app.command("report")
    def report(
        run: Annotated[
            list[str] | None,
            typer.Argument(metavar="[NAME=]RUN...", help="Report folders, journals, or names of runs in the cache."),
        ] = None,
        out: OutOption = None,
        print_schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of run.json.")] = False,
    ) -> None:
        """Make run.json and report.html from runs that are there, one column a run."""
        if print_schema:
            sys.stdout.write(schema())
            return
        parts = [_part(text) for text in run or [_last()]]
        twice = [name for name, count in Counter(part.name for part in parts).items() if count > 1]
        if twice:
            raise LabError(f"two runs are called {twice[0]}: give them names, as in old={twice[0]} or new=DIR.")
        folder = out or parts[0].journals[0].path.parent
        print_report(writing.write(folder, parts), folder)


def _last() -> str:
    found = journal.last_run()
    if found is None:
        raise LabError(f"there is no earlier run in {journal.runs_folder()}: run once, or name a report folder.")
    return str(found)


def _part(text: str) -> Part:
    name, equals, run = text.partition("=")
    kept = tuple(journal.load(path) for path in journal.locate(run if equals else text))
    return Part(name if equals else kept[0].header["browser"]["profile"], kept)


def print_report(report: Report, folder: Path) -> None:
    """One line a browser, then where the files are."""
    width = max(len(browser.name) for browser in report.browsers)
    for browser in report.browsers:
        console.out.print(f"{escape(browser.name):<{width}}  {_counts(browser)}")
        if browser.reason:
            console.out.print(f"{'':<{width}}  [bold]{escape(browser.reason)}[/]")
    console.out.print(f"report   {escape(str(folder / writing.PAGE_FILE))}")
    console.out.print(f"data     {escape(str(folder / writing.JSON_FILE))}")


def _counts(browser: Browser) -> str:
    known = f"{browser.known:,} known, " if browser.known else ""
    return f"{browser.passed:,} passed, {known}{browser.failed:,} failed, {browser.skipped:,} skipped"
