"""`kernel-lab reduce`: a failing case becomes the smallest one that fails in the same way."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from kernel_lab import line, runs
from kernel_lab.browsing.lab import Lab
from kernel_lab.cli import console, save
from kernel_lab.cli.console import (
    BrowserOption,
    EmulateOption,
    HeadedOption,
    JsonOption,
    LimitOption,
    MaskOption,
    PackageOption,
    ReferenceOption,
    SubgroupsOption,
)
from kernel_lab.cli.explain import one_case
from kernel_lab.cli.run import DeadlineOption, command_of
from kernel_lab.debugging import kinds, literal, reducing, saving
from kernel_lab.debugging.reducing import Budget, Reduction
from kernel_lab.errors import LabError
from kernel_lab.judging.journal import cache_folder
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.queries import file_name_of, parse

MostOption = Annotated[int, typer.Option("--most-runs", metavar="N", min=1, help="Try no more cases than that.")]
SecondsOption = Annotated[float, typer.Option("--seconds", metavar="S", min=0, help="Begin no run after that time.")]
PageOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE.html", help="The reduced case as one page, as `save` makes it.")
]
CaseOption = Annotated[
    Path | None,
    typer.Option(
        "--case", metavar="FILE.json", help="Where the reduced case goes, for `run --cases` (default: in the cache)."
    ),
]


def add_to(app: typer.Typer) -> None:
    @app.command("reduce")
    def reduce(
        query: Annotated[str, typer.Argument(metavar="OP:CASE[:VARIANT]")],
        browser: BrowserOption = "default",
        headed: HeadedOption = False,
        mask: MaskOption = None,
        limit: LimitOption = None,
        subgroups: SubgroupsOption = None,
        emulate_matrices: EmulateOption = False,
        deadline: DeadlineOption = line.DEADLINE_MS / 1000,
        most_runs: MostOption = reducing.MOST_RUNS,
        seconds: SecondsOption = reducing.SECONDS,
        package: PackageOption = None,
        reference: ReferenceOption = None,
        case_file: CaseOption = None,
        out: PageOption = None,
        as_json: JsonOption = False,
    ) -> None:
        """Shrink a case that fails, shapes first and then values, for as long as it fails in the same way.

        The smaller case is written as an entry of test.json. What is right is always what the operator's reference
        says. Exit code 2 if the case passes.
        """
        asked = parse(query)
        operator, case = one_case(asked, package, reference)
        variant = None if asked.variant == "*" else operator.variant(asked.variant).id
        words = command_of(
            "run",
            package=package, reference=reference, browser=browser, headed=headed, mask=mask, limit=limit,
            subgroups=subgroups, emulate_matrices=emulate_matrices, deadline=deadline,
        )  # fmt: skip
        options = line.Options(int(deadline * 1000), repeat=words)
        with Lab(console.profile(browser, headed, mask, limit, subgroups, emulate_matrices)) as lab:
            start = reducing.judged_by_reference(case)
            before = _failing(line.follow(operator, start, lab, variant, options))
            variant = before.record["variant"]
            if not as_json:
                _print_start(lab, before)
            found = _reduced(operator, start, variant, before, lab, options, Budget(most_runs, seconds), quiet=as_json)
            name = f"{case.name}_reduced"[:100]
            file = case_file or cache_folder() / "reduced" / f"{file_name_of(f'{case.query}:{variant}')}.json"
            told = f"{kinds.kind_of(before)} on {variant}; reduced from {case.name}"
            small = replace(found.case, name=name, why=told, repeat=(*words, "--cases", str(file)))
            after = _failing(line.follow(operator, small, lab, variant, options))
            document = {"op": operator.id, "cases": [literal.entry(small, name, told)]}
            _write_case(file, document)
            if out is not None:
                save.write(out, saving.save(operator, small, variant, lab, options).text)
        if as_json:
            console.print_json(_record(case, variant, found, document, before, after, file, out))
        else:
            _print_end(start, found, after, file, out)


def _failing(verdict: Verdict) -> Verdict:
    """LabError if there is nothing to reduce."""
    if verdict.outcome == "failed" and verdict.record["status"] not in ("not run", "refused"):
        return verdict
    told = "passes" if verdict.outcome == "passed" else f"is not run ({verdict.outcome}: {verdict.summary})"
    raise LabError(f"{verdict.query} {told}, so there is nothing to reduce: give a case and a variant that fail there.")


def _reduced(
    operator: Operator, case: Case, variant: str, before: Verdict, lab: Lab, options: line.Options, budget: Budget,
    *, quiet: bool,
) -> Reduction:  # fmt: skip
    kind = kinds.kind_of(before)
    columns = (TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console.err, disable=quiet, transient=True) as progress:
        task = progress.add_task("reducing", total=None)

        def on_try(count: int, smallest: Case) -> None:
            told = f"{count:,} runs, {reducing.elements(smallest):,} elements: {reducing.sizes(smallest)}"
            progress.update(task, description=escape(told))

        fails: Callable[[Case], bool] = kinds.fails_like(kind, operator, variant, lab, options)
        return reducing.reduce(case, fails, kinds.valid_there(operator, variant, lab), budget, on_try)


def _write_case(file: Path, document: dict[str, Any]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    except OSError as error:
        raise LabError(f"the case cannot be written to {file}: {error.strerror}. Choose another with --case.") from None


def _print_start(lab: Lab, before: Verdict) -> None:
    for text in runs.headline(lab.info_of_last_run):
        console.out.print(escape(text))
    console.out.print(f"{console.mark('failed')}  {escape(before.query)}  [dim]{escape(before.summary)}[/]")


def _print_end(case: Case, found: Reduction, after: Verdict, file: Path, out: Path | None) -> None:
    for step in found.steps:
        console.out.print(f"  run {step.runs:>4,}  {escape(step.text)}")
    console.out.print(f"before   {reducing.elements(case):,} elements: {escape(reducing.sizes(case))}")
    console.out.print(f"after    {reducing.elements(found.case):,} elements: {escape(reducing.sizes(found.case))}")
    end = "nothing smaller fails" if found.complete else "the budget was spent; --most-runs and --seconds give more"
    console.out.print(f"runs     {found.runs:,}: {end}")
    console.out.print(f"\n{console.mark('failed')}  {escape(after.report)}\n")
    console.out.print(f"case     {escape(str(file))}")
    if out is not None:
        console.out.print(f"page     {escape(str(out))}")


def _record(
    case: Case, variant: str, found: Reduction, document: dict[str, Any], before: Verdict, after: Verdict, file: Path,
    out: Path | None,
) -> dict[str, Any]:  # fmt: skip
    return {
        "query": f"{case.query}:{variant}",
        "kind": str(kinds.kind_of(before)),
        "runs": found.runs,
        "complete": found.complete,
        "steps": [{"runs": step.runs, "text": step.text} for step in found.steps],
        "before": {"elements": reducing.elements(case), "sizes": reducing.sizes(case), "summary": before.summary},
        "after": {
            "elements": reducing.elements(found.case), "sizes": reducing.sizes(found.case), "summary": after.summary,
        },
        "case": document["cases"][0],
        "file": str(file),
        "page": str(out) if out is not None else None,
    }  # fmt: skip
