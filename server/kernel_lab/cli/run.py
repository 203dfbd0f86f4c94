"""`kernel-lab run`: the main job."""

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

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
from kernel_lab.judging import contrasts, journal
from kernel_lab.judging.journal import Journal, Kept, last_failed, new_run_folder
from kernel_lab.judging.known import NOTHING, Entry, Known, load
from kernel_lab.judging.verdicts import Verdict
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
            debug=() if cases else command_of("debug", package=package, reference=reference, browser=browser),
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
            code = perform(
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


def _refuse_another(kept: Kept, described: Mapping[str, Any]) -> None:
    """Results of two browsers do not belong into one journal."""
    found = contrasts.browsers(kept.header, described)
    if found:
        told = ", ".join(f"{contrast.what} ({contrast})" for contrast in found)
        raise LabError(f"--resume {kept.path.parent}: another browser or adapter made that journal: {told}.")
    before: Mapping[str, str] = kept.header.get("packages") or {}
    edited = [name for name, digest in described["packages"].items() if before.get(name, digest) != digest]
    if edited:
        raise LabError(
            f"--resume {kept.path.parent}: the files of {', '.join(edited)} have changed since, so its results are of "
            "other kernels. Run anew, without --resume."
        )


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
    kept: Kept | None = None,
    again: Sequence[str] = (),
    allow_no_adapter: bool = False,
    verbose: bool = False,
    as_json: bool = False,
    command: str = "run",
    known: Known = NOTHING,
    stale: Callable[[Known, Sequence[Verdict]], Sequence[Entry]] = lambda *_: (),
) -> int:
    """Runs pairs with all that a terminal shows. The exit code: 0 only if something ran, nothing failed (but `known`
    failures where they apply) and no line of theirs is `stale`.

    `kept`: the run that this one goes on with; its results count, too. `again`: the command that goes on with this one
    if it is cut short, before the folder.
    """
    try:
        _ = lab.facts
    except NoAdapter as error:
        if not allow_no_adapter:
            raise
        return _skip_all(chosen, error, as_json)
    if not as_json:
        for text in runs.headline(lab.info):
            console.out.print(escape(text))
    made_of = runs.describe_packages((pair.operator for pair in chosen), lab.profile)
    described = {**runs.describe(lab.info), **made_of, "pairs": len(chosen)}
    known = known.there(lab.info)
    verdicts: list[Verdict] = []
    left_over: list[Entry] = []
    if kept is None:
        log = Journal(report or new_run_folder(), {"command": command, **described})
    else:
        _refuse_another(kept, described)
        log = Journal(kept.path.parent, None)
        verdicts += map(runs.verdict_of, kept.results)
        chosen = runs.unfinished(chosen, kept.results)
    try:
        verdicts += _with_progress(chosen, lab, log, options, known, before=verdicts, verbose=verbose, quiet=as_json)
    except (LabError, KeyboardInterrupt):
        if again:
            console.err.print(f"To go on with it: {escape(shlex.join([*again, str(log.folder)]))}")
        raise
    else:
        left_over += stale(known, verdicts)
        for entry in left_over:
            log.append({"type": "stale", "query": entry.query, "reason": entry.reason, "file": known.file})
    finally:
        log.close()
    summary = runs.counts(verdicts)
    sentences = [known.told(entry) for entry in left_over]
    if as_json:
        console.print_json(
            {"run": described, "results": [v.record for v in verdicts], "journal": str(log.path), "stale": sentences}
        )
    else:
        _print_end(verdicts, log, lab, options, command, sentences)
    return 0 if summary.ran and not summary.failed and not left_over else 1


def _with_progress(
    chosen: Sequence[Pair],
    lab: Lab,
    log: Journal,
    options: line.Options,
    known: Known,
    *,
    before: Sequence[Verdict],
    verbose: bool,
    quiet: bool,
) -> list[Verdict]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    if before and not quiet:
        console.out.print(f"{len(before):,} results are in the journal, {len(chosen):,} pairs are left")
        for verdict in before:
            if verdict.outcome == "failed":
                console.out.print(
                    f"{console.mark('failed')}  {escape(verdict.query)}  [dim]{escape(verdict.summary)}[/]"
                )
    with Progress(*columns, console=console.err, disable=quiet, transient=True) as progress:
        task = progress.add_task("running", total=len(before) + len(chosen), completed=len(before))

        def on_verdict(verdict: Verdict) -> None:
            progress.advance(task)
            if quiet:
                return
            if verdict.outcome == "failed":
                console.out.print(f"\n{console.mark('failed')}  {escape(verdict.report or verdict.summary)}\n")
            elif verbose or verdict.outcome in ("skipped", "known"):
                console.out.print(
                    f"{console.mark(verdict.outcome)}  {escape(verdict.query)}  [dim]{escape(verdict.summary)}[/]"
                )

        return runs.perform(chosen, lab, log, options, on_verdict, known)


def _print_end(
    verdicts: Sequence[Verdict], log: Journal, lab: Lab, options: line.Options, command: str, stale: Sequence[str]
) -> None:
    by_operator: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_operator.setdefault(verdict.record["operator"], []).append(verdict)
    for name, group in by_operator.items():
        console.out.print(f"{name:<28} {runs.counts(group)}")
    if command == "onnx":
        console.out.print(escape(_expected_from(verdicts)))
    if lab.restarts:
        console.out.print(f"The browser was lost and started anew {lab.restarts} times.")
    console.out.print(f"journal  {escape(str(log.path))}", soft_wrap=True)
    summary = runs.counts(verdicts)
    if summary.failed and command == "run":
        again = shlex.join([*options.repeat, "--last-failed"])
        console.out.print(f"Again, only what failed: {escape(again)}")
    if not summary.ran:
        console.out.print("Nothing ran: that is a failure.")
    for sentence in stale:
        console.out.print(f"{console.mark('failed')}  {escape(sentence)}")
    console.out.print(f"{summary}{f', {len(stale):,} stale' if stale else ''}")


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
