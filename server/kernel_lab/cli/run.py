"""`kernel-lab run`: the main job."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from kernel_lab import line, runs
from kernel_lab.browsing.lab import Lab
from kernel_lab.cli import console, performing
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
from kernel_lab.judging import journal
from kernel_lab.judging.journal import Kept, last_failed
from kernel_lab.judging.known import load
from kernel_lab.operators import cases as case_files
from kernel_lab.operators.operator import Operator
from kernel_lab.queries import Query, parse
from kernel_lab.runs import Pair

VariantsOption = Annotated[
    str, typer.Option("--variants", metavar="selected|all", help="The selected variant, or every one that can.")
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="DIR", help="Keep the journal there (default: in the cache).")
]
ResumeOption = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        help="Go on with a run that was cut short: its folder, or its name in the cache. Repeat its other words: of "
        "the pairs that they ask for, those without a result in its journal run. A failure is a result, too.",
    ),
]
DeadlineOption = Annotated[float, typer.Option("--deadline", metavar="SECONDS", help="For one run.")]
KnownOption = Annotated[
    Path | None,
    typer.Option(
        "--known",
        metavar="FILE",
        help="Known failures, as TOML or JSON: each with a reason, and where it applies. They count apart. A pair of "
        "them that passes fails, and so does a line that names no pair any more.",
    ),
]
CasesOption = Annotated[
    Path | None,
    typer.Option(
        "--cases",
        metavar="FILE.json",
        help="The cases of that file, in the form of test.json, in place of the operator's own (`reduce` writes one).",
    ),
]
RepeatOption = Annotated[
    int, typer.Option("--repeat", metavar="N", min=1, help="Run each N times: outputs that change fail (races).")
]
RetryOption = Annotated[
    bool,
    typer.Option(
        "--retry-lost", help="A case whose browser was lost runs once more, in a new one; its record says so."
    ),
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
        resume: ResumeOption = None,
        deadline: DeadlineOption = line.DEADLINE_MS / 1000,
        repeat: RepeatOption = 1,
        retry_lost: RetryOption = False,
        known: KnownOption = None,
        cases: CasesOption = None,
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
        lines = load(known)
        if cases is not None and (known is not None or resume is not None):
            raise LabError("--cases: its cases are no operator's own, so it takes neither --known nor --resume.")
        if resume is not None and (report is not None or last_failed_only):
            raise LabError(
                "--resume goes on in the folder of that run, so it takes neither --report nor --last-failed."
            )
        options = line.Options(
            int(deadline * 1000),
            times=repeat,
            repeat=command_of(
                "run", package=package, reference=reference, browser=browser, headed=headed, mask=mask, limit=limit,
                subgroups=subgroups, emulate_matrices=emulate_matrices, deadline=deadline, repeat=repeat,
                retry_lost=retry_lost,
                known=known, cases=cases,
            ),
            debug=() if cases else command_of(
                "debug", package=package, reference=reference, browser=browser, mask=mask, limit=limit,
                subgroups=subgroups, emulate_matrices=emulate_matrices,
            ),
        )  # fmt: skip
        operators = console.operators(package, reference).values()
        chosen = list(_pairs(operators, queries, cases, every_variant=every))
        if not chosen:
            raise LabError(f"no case fits {', '.join(map(str, queries))}; `kernel-lab list` shows what there is.")
        if last_failed_only:
            chosen = _failed_last(chosen, operators, cases) or chosen
        kept = _kept(resume) if resume is not None else None
        again = [*options.repeat, *(query or ()), *(["--variants", variants] if every else []), "--resume"]
        profile = console.profile(browser, headed, mask, limit, subgroups, emulate_matrices)
        with Lab(replace(profile, retry_lost=retry_lost or profile.retry_lost)) as lab:
            code = performing.perform(
                chosen, lab, options,
                report=report, kept=kept, again=again,
                allow_no_adapter=allow_no_adapter, verbose=verbose, as_json=as_json,
                known=lines, stale=lambda there, judged: runs.stale(there, operators, queries, judged),
            )  # fmt: skip
        raise typer.Exit(code)


def _pairs(
    operators: Collection[Operator], queries: Sequence[Query], cases: Path | None, *, every_variant: bool
) -> Iterable[Pair]:
    """What the queries name, among the operators' own cases or those of a file, which says whose they are."""
    if cases is None:
        return runs.pairs(operators, queries, every_variant=every_variant)
    name = case_files.operator_of(cases)
    found = next((operator for operator in operators if operator.id == name), None)
    if found is None:
        known = ", ".join(operator.id for operator in operators)
        raise LabError(f"--cases {cases}: op: {name} is no operator here (known: {known}); --package names others.")
    return runs.pairs_of_cases(found, case_files.load(cases, name), queries, every_variant=every_variant)


_DEFAULTS = {"browser": "default", "deadline": line.DEADLINE_MS / 1000, "repeat": 1}


def command_of(verb: str, **given: object) -> tuple[str, ...]:
    """The command that takes a case as this run did, before its query: who it ran on, and what was hidden."""
    words = ["kernel-lab", verb]
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value and value != _DEFAULTS.get(name):
            for one in value if isinstance(value, list) else [value]:
                words += [option, f"{one:g}" if isinstance(one, float) else str(one)]
    return tuple(words)


def _failed_last(asked: Sequence[Pair], operators: Collection[Operator], cases: Path | None) -> list[Pair]:
    """The pairs that failed in the last run, as far as they were asked for; none if nothing failed."""
    failed = last_failed()
    if not failed:
        console.err.print("Nothing failed in the last run, so everything runs.")
        return []
    names = {pair.case.query for pair in asked}
    again = _pairs(operators, [parse(text) for text in failed], cases, every_variant=False)
    return [pair for pair in again if pair.case.query in names]


def _kept(run: str) -> Kept:
    """What the journal of an earlier run holds; LabError if that run cannot be gone on with."""
    kept = journal.load(journal.locate(run)[0])
    command = kept.header.get("command")
    if kept.path.name != journal.FILE or command != "run":
        raise LabError(
            f"--resume {run}: only a journal of `kernel-lab run` can be gone on with; this one is of {command}."
        )
    return kept


def every_variant(variants: str) -> bool:
    if variants not in ("selected", "all"):
        raise LabError(f"--variants: got {variants!r}, allowed are selected and all.")
    return variants == "all"
