"""`kernel-lab mutate`: how good are the cases? Puts small faults into kernels and counts those that no case notices."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from kernel_lab import runs
from kernel_lab.browsing.lab import Lab
from kernel_lab.cli import console
from kernel_lab.cli.console import (
    BrowserOption,
    EmulateOption,
    JsonOption,
    MaskOption,
    PackageOption,
    ReferenceOption,
)
from kernel_lab.errors import LabError
from kernel_lab.judging.journal import FILE, Journal, new_run_folder, read
from kernel_lab.mutating import choosing, equivalents, faults, survey
from kernel_lab.mutating.choosing import Draw, Wanted
from kernel_lab.mutating.engine import Court, Outcome
from kernel_lab.mutating.equivalents import Equivalents
from kernel_lab.mutating.survey import Survey
from kernel_lab.operators.operator import Operator
from kernel_lab.queries import matches_operator


def add_to(app: typer.Typer) -> None:
    @app.command("mutate")
    def mutate(
        op: Annotated[str, typer.Argument(metavar="OP", help="Which operator; `*` matches.")],
        count: Annotated[int, typer.Option("--count", help="At least so many mutants that compile.")] = 100,
        per_template: Annotated[int, typer.Option("--per-template", help="At least so many of each template.")] = 10,
        per_kind: Annotated[int, typer.Option("--per-kind", help="At least so many of each kind of fault.")] = 10,
        seed: Annotated[int, typer.Option("--seed", help="Which mutants: the same seed draws the same.")] = 1,
        variants: Annotated[str, typer.Option("--variants", metavar="PATTERN", help="Only variants so named.")] = "*",
        require: Annotated[float, typer.Option("--require", help="Percent of the mutants to be caught.")] = 95.0,
        deadline: Annotated[float, typer.Option("--deadline", help="Seconds for one run of a mutant.")] = 5.0,
        report: Annotated[
            Path | None, typer.Option("--report", metavar="DIR", help="Where to keep the result.")
        ] = None,
        resume: Annotated[
            Path | None, typer.Option("--resume", metavar="DIR", help="An earlier run, whose catches stand.")
        ] = None,
        browser: BrowserOption = "default",
        mask: MaskOption = None,
        emulate_matrices: EmulateOption = False,
        package: PackageOption = None,
        reference: ReferenceOption = None,
        as_json: JsonOption = False,
    ) -> None:
        """Put small faults into an operator's kernels and see whether its own cases notice them.

        Those that nothing can notice are argued in equivalent-mutants.json.
        """
        operators = [o for name, o in console.operators(package, reference).items() if matches_operator(op, name)]
        if not operators:
            raise LabError(f"no operator fits {op!r}; `kernel-lab list` shows what there is.")
        known = equivalents.load(sorted({operator.folder.parent for operator in operators}))
        wanted = Wanted(count, per_template, per_kind)
        earlier = _earlier(resume) if resume is not None else {}
        with Lab(console.profile(browser, mask=mask, emulate_matrices=emulate_matrices)) as lab:
            described = runs.describe(lab.info)
            if not as_json:
                for text in runs.headline(lab.info):
                    console.out.print(escape(text))
            court = Court(lab.run, lab.prepare, int(1000 * deadline), known, earlier)
            journal = Journal(report or new_run_folder(), {"command": "mutate", "seed": seed, **described})
            try:
                found = _survey(operators, lab, variants, quiet=as_json)
                outcomes = _judge(court, choosing.draw(found.mutants, wanted, seed), journal, quiet=as_json)
                result = _Result(found, outcomes, known, court.wrong, require)
                journal.append({"type": "score", **result.record()})
            finally:
                journal.close()
        if as_json:
            mutants = [_record(outcome) for outcome in outcomes]
            console.print_json({**result.record(), "mutants": mutants, "journal": str(journal.path)})
        else:
            _print(result, journal.path)
        raise typer.Exit(0 if result.good else 1)


def _survey(operators: Sequence[Operator], lab: Lab, variants: str, *, quiet: bool) -> Survey:
    with nullcontext() if quiet else console.err.status("looking for places") as status:

        def on_variant(query: str) -> None:
            if status is not None:
                status.update(f"looking for places in {escape(query)}")

        return survey.survey(operators, lab.facts, variants, on_variant)


def _judge(court: Court, draw: Draw, journal: Journal, *, quiet: bool) -> list[Outcome]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    outcomes: list[Outcome] = []
    with Progress(*columns, console=console.err, disable=quiet, transient=True) as progress:
        task = progress.add_task("0 survived", total=draw.expected())
        for outcome in court.judge_all(draw):
            outcomes.append(outcome)
            journal.append(_record(outcome))
            survived = sum(one.fate == "survived" for one in outcomes)
            progress.update(task, advance=outcome.compiled, description=f"{survived} survived")
            if outcome.fate == "survived" and not quiet:
                console.out.print(f"[bold]survived[/]  {escape(_one_line(outcome))}")
    return outcomes


class _Result:
    """What a run says: counts, the score in percent, and all that must be looked at."""

    def __init__(
        self, found: Survey, outcomes: Sequence[Outcome], known: Equivalents, wrong: dict[str, str], require: float
    ) -> None:
        self.survey, self.outcomes, self.wrong, self.require = found, outcomes, wrong, require
        self.fates = Counter(outcome.fate for outcome in outcomes)
        self.compiled = sum(outcome.compiled for outcome in outcomes)
        self.stale = known.stale(found)
        self.survivors = [outcome for outcome in outcomes if outcome.fate == "survived"]
        self.refuted = [outcome for outcome in outcomes if outcome.refuted]

    @property
    def score(self) -> float:
        """Percent caught of those that compiled and are not argued equivalent."""
        could = self.compiled - self.fates["equivalent"]
        return 100 * self.fates["caught"] / could if could else 0.0

    @property
    def strict_score(self) -> float:
        """Percent caught of all that compiled."""
        return 100 * self.fates["caught"] / self.compiled if self.compiled else 0.0

    @property
    def good(self) -> bool:
        return self.score >= self.require and not (self.stale or self.refuted or self.wrong)

    def table(self, of: Callable[[Outcome], str]) -> dict[str, Counter[str]]:
        """Fates by kind, by template or by whatever `of` says."""
        rows: dict[str, Counter[str]] = {}
        for outcome in self.outcomes:
            rows.setdefault(of(outcome), Counter())[outcome.fate] += 1
        return dict(sorted(rows.items()))

    def record(self) -> dict[str, Any]:
        return {
            "compiled": self.compiled,
            **{str(fate): number for fate, number in self.fates.items()},
            "score": self.score,
            "score_with_equivalents": self.strict_score,
            "faults_known": len(self.survey.mutants),
            "variants": [host.query for host in self.survey.hosts],
            "left_out": list(self.survey.left_out),
            "kinds": self.table(lambda outcome: outcome.mutant.fault.kind),
            "templates": self.table(lambda outcome: outcome.mutant.fault.template),
            "operators": self.table(lambda outcome: outcome.mutant.host.operator),
            "kernels_wrong_unchanged": self.wrong,
            "stale_equivalents": [entry.model_dump() for entry in self.stale],
        }


def _record(outcome: Outcome) -> dict[str, Any]:
    template, place, kind, before, after = outcome.mutant.fault.key
    return {
        "type": "mutant",
        "fate": outcome.fate,
        "variant": outcome.mutant.host.query,
        "line": outcome.mutant.fault.where,
        "template": template, "place": place, "kind": kind, "before": before, "after": after,
        "by": outcome.by,
        "how": outcome.how,
        "argument": outcome.entry.argument if outcome.entry else "",
        "runs": outcome.runs,
        "seconds": round(outcome.seconds, 4),
    }  # fmt: skip


def _earlier(folder: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    """The mutants that an earlier run caught or could not compile; what survived then is judged anew."""
    path = folder / FILE
    if not path.is_file():
        raise LabError(f"--resume {folder}: there is no {FILE}.")
    keys = ("variant", "line", "template", "place", "kind", "before", "after")
    return {
        tuple(record[key] for key in keys): record
        for record in read(path)
        if record["type"] == "mutant" and record["fate"] in ("caught", "not compiled")
    }


def _one_line(outcome: Outcome) -> str:
    fault = outcome.mutant.fault
    changed = f"{faults.on_one_line(fault.before)}  →  {faults.on_one_line(fault.after)}"
    return f"{fault.where}  {fault.kind}  {changed}"


def _print(result: _Result, path: Path) -> None:
    for title, rows in (
        ("kind", result.table(lambda outcome: outcome.mutant.fault.kind)),
        ("template", result.table(lambda outcome: outcome.mutant.fault.template)),
    ):
        console.out.print(_table(title, rows))
        console.out.print()
    _print_survivors(result.survivors)
    for outcome in result.refuted:
        console.out.print(f"[bold]no equivalent[/]  {escape(_one_line(outcome))}: {escape(outcome.by)} caught it.")
    for entry in result.stale:
        console.out.print(f"[bold]stale[/]  {escape(entry.template)}, {entry.kind}: no mutant is {escape(entry.after)}")
    for query, summary in result.wrong.items():
        console.out.print(f"[bold]wrong[/]  {escape(query)}, unchanged: {escape(summary)}")
    if result.survey.left_out:
        console.out.print(f"{len(result.survey.left_out)} variants left out: not on this device, or without a case.")
    seconds = sum(outcome.seconds for outcome in result.outcomes)
    fates, tried = result.fates, len(result.outcomes)
    console.out.print(f"journal  {escape(str(path))}")
    console.out.print(
        f"{tried:,} mutants in {seconds:.0f} s ({seconds / max(tried, 1):.2f} s each); {result.compiled:,} compiled: "
        f"{fates['caught']:,} caught, {fates['equivalent']:,} argued equivalent, {fates['survived']:,} survived"
    )
    console.out.print(
        f"score {result.score:.1f} % (needed: {result.require:g} %; with the equivalents {result.strict_score:.1f} %)"
    )


def _table(title: str, rows: dict[str, Counter[str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column(title, no_wrap=True, min_width=max(map(len, rows), default=0))
    for name in ("compiled", "caught", "equivalent", "survived", "not compiled"):
        table.add_column(name, justify="right")
    for name, fates in rows.items():
        compiled = fates.total() - fates["not compiled"]
        counts = (compiled, *(fates[fate] for fate in ("caught", "equivalent", "survived", "not compiled")))
        table.add_row(escape(name), *map(str, counts))
    return table


def _print_survivors(survivors: Iterable[Outcome]) -> None:
    for outcome in survivors:
        fault = outcome.mutant.fault
        console.out.print(f"[bold]survived[/]  {escape(fault.where)}  {fault.kind}, in {escape(fault.place)}")
        console.out.print(f"          {escape(outcome.mutant.host.query)}, {outcome.runs} runs")
        for mark, text in (("-", fault.before), ("+", fault.after)):
            for line in text.splitlines() or [""]:
                console.out.print(f"    {mark} {escape(line)}")
        console.out.print()
