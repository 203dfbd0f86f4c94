"""`kernel-lab run`: the main job."""

import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kernel_lab import line, runs
from kernel_lab.browsing.lab import Lab, NoAdapter
from kernel_lab.cli import console
from kernel_lab.cli.console import (
    BrowserOption,
    EmulateOption,
    HeadedOption,
    JsonOption,
    LimitOption,
    MaskOption,
    PackageOption,
    QueryArgument,
    ReferenceOption,
    SubgroupsOption,
)
from kernel_lab.errors import LabError
from kernel_lab.judging.journal import Journal, last_failed, new_run_folder
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators.operator import Operator
from kernel_lab.queries import parse
from kernel_lab.runs import Pair

VariantsOption = Annotated[
    str, typer.Option("--variants", metavar="selected|all", help="The selected variant, or every one that can.")
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="DIR", help="Keep the journal there (default: in the cache).")
]
DeadlineOption = Annotated[float, typer.Option("--deadline", metavar="SECONDS", help="For one run.")]
RepeatOption = Annotated[
    int, typer.Option("--repeat", metavar="N", min=1, help="Run each N times: outputs that change fail (races).")
]
AllowOption = Annotated[bool, typer.Option("--allow-no-adapter", help="Without an adapter skip, visibly, and exit 0.")]
LastFailedOption = Annotated[bool, typer.Option("--last-failed", help="Only what failed in the last run.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="One line per result.")]


def add_to(app: typer.Typer) -> None:
    @app.command("run")
    def run(
        query: QueryArgument = None,
        browser: BrowserOption = "default",
        headed: HeadedOption = False,
        mask: MaskOption = None,
        limit: LimitOption = None,
        subgroups: SubgroupsOption = None,
        emulate_matrices: EmulateOption = False,
        variants: VariantsOption = "selected",
        report: ReportOption = None,
        deadline: DeadlineOption = line.DEADLINE_MS / 1000,
        repeat: RepeatOption = 1,
        package: PackageOption = None,
        reference: ReferenceOption = None,
        last_failed_only: LastFailedOption = False,
        allow_no_adapter: AllowOption = False,
        verbose: VerboseOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """Run cases in a browser and compare every output with the reference, to the bit."""
        every = every_variant(variants)
        queries = [parse(text) for text in query or ["*"]]
        options = line.Options(
            int(deadline * 1000),
            times=repeat,
            repeat=_command(
                package=package, reference=reference, browser=browser, mask=mask, limit=limit, subgroups=subgroups,
                emulate_matrices=emulate_matrices, repeat=repeat,
            ),
        )  # fmt: skip
        operators = console.operators(package, reference).values()
        chosen = list(runs.pairs(operators, queries, every_variant=every))
        if not chosen:
            raise LabError(f"no case fits {', '.join(map(str, queries))}; `kernel-lab list` shows what there is.")
        if last_failed_only:
            chosen = _failed_last(chosen, operators) or chosen
        with Lab(console.profile(browser, headed, mask, limit, subgroups, emulate_matrices)) as lab:
            code = perform(
                chosen, lab, options,
                report=report, allow_no_adapter=allow_no_adapter, verbose=verbose, as_json=as_json,
            )  # fmt: skip
        raise typer.Exit(code)


_DEFAULTS = {"browser": "default", "repeat": 1}


def _command(**given: object) -> tuple[str, ...]:
    """The command that runs a case again as this run did, before its query: who it ran on, and what was hidden."""
    words = ["kernel-lab", "run"]
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value and value != _DEFAULTS.get(name):
            for one in value if isinstance(value, list) else [value]:
                words += [option, str(one)]
    return tuple(words)


def _failed_last(asked: Sequence[Pair], operators: Collection[Operator]) -> list[Pair]:
    """The pairs that failed in the last run, as far as they were asked for; none if nothing failed."""
    failed = last_failed()
    if not failed:
        console.err.print("Nothing failed in the last run, so everything runs.")
        return []
    cases = {pair.case.query for pair in asked}
    again = runs.pairs(operators, [parse(text) for text in failed], every_variant=False)
    return [pair for pair in again if pair.case.query in cases]


def every_variant(variants: str) -> bool:
    if variants not in ("selected", "all"):
        raise LabError(f"--variants: got {variants!r}, allowed are selected and all.")
    return variants == "all"


def perform(
    chosen: Sequence[Pair],
    lab: Lab,
    options: line.Options,
    *,
    report: Path | None = None,
    allow_no_adapter: bool = False,
    verbose: bool = False,
    as_json: bool = False,
    command: str = "run",
) -> int:
    """Runs pairs with all that a terminal shows. The exit code: 0 only if something ran and nothing failed."""
    try:
        _ = lab.facts
    except NoAdapter as error:
        if not allow_no_adapter:
            raise
        return _skip_all(chosen, error, as_json)
    if not as_json:
        for text in runs.headline(lab.info):
            console.out.print(escape(text))
    journal = Journal(report or new_run_folder(), {"command": command, **runs.describe(lab.info)})
    try:
        verdicts = _with_progress(chosen, lab, journal, options, verbose=verbose, quiet=as_json)
    finally:
        journal.close()
    summary = runs.counts(verdicts)
    if as_json:
        described = runs.describe(lab.info)
        console.print_json({"run": described, "results": [v.record for v in verdicts], "journal": str(journal.path)})
    else:
        _print_end(verdicts, journal, lab, options, command)
    return 0 if summary.passed and not summary.failed else 1


def _with_progress(
    chosen: Sequence[Pair], lab: Lab, journal: Journal, options: line.Options, *, verbose: bool, quiet: bool
) -> list[Verdict]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console.err, disable=quiet, transient=True) as progress:
        task = progress.add_task("running", total=len(chosen))

        def on_verdict(verdict: Verdict) -> None:
            progress.advance(task)
            if quiet:
                return
            if verdict.outcome == "failed":
                console.out.print(f"\n{console.mark('failed')}  {escape(verdict.report or verdict.summary)}\n")
            elif verbose or verdict.outcome == "skipped":
                console.out.print(
                    f"{console.mark(verdict.outcome)}  {escape(verdict.query)}  [dim]{escape(verdict.summary)}[/]"
                )

        return runs.perform(chosen, lab, journal, options, on_verdict)


def _print_end(verdicts: Sequence[Verdict], journal: Journal, lab: Lab, options: line.Options, command: str) -> None:
    by_operator: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_operator.setdefault(verdict.record["operator"], []).append(verdict)
    for name, group in by_operator.items():
        console.out.print(f"{name:<28} {runs.counts(group)}")
    if command == "onnx":
        console.out.print(escape(_expected_from(verdicts)))
    if lab.restarts:
        console.out.print(f"The browser was lost and started anew {lab.restarts} times.")
    console.out.print(f"journal  {escape(str(journal.path))}", soft_wrap=True)
    summary = runs.counts(verdicts)
    if summary.failed and command == "run":
        again = shlex.join([*options.repeat, "--last-failed"])
        console.out.print(f"Again, only what failed: {escape(again)}")
    if not summary.passed and not summary.failed:
        console.out.print("Nothing ran: that is a failure.")
    console.out.print(str(summary))


def _expected_from(verdicts: Sequence[Verdict]) -> str:
    """Who said what is right, with the number of cases; the reference is named even where it was not needed."""
    by_case = {
        (v.record["operator"], v.record["case"]): v.record["expected_from"]
        for v in verdicts
        if "expected_from" in v.record
    }
    found = Counter(by_case.values())
    if not any(source.startswith("the reference") for source in found):
        found["the reference"] = 0
    return "expected  " + ", ".join(f"from {source}: {count:,}" for source, count in found.items())


def _skip_all(chosen: Sequence[Pair], error: Exception, as_json: bool) -> int:
    if as_json:
        console.print_json({"run": None, "no_adapter": str(error), "results": [], "skipped": len(chosen)})
    else:
        console.out.print(f"{console.mark('skipped')}  every case: {escape(str(error))}")
        console.out.print(str(runs.Counts(skipped=len(chosen))))
    return 0
