"""`kernel-lab list`: what there is."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from kernel_lab.cli import console
from kernel_lab.cli.console import JsonOption, PackageOption, QueryArgument
from kernel_lab.errors import LabError
from kernel_lab.judging import coverage, journal
from kernel_lab.operators.cases import Case
from kernel_lab.operators.manifest import Variant
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import scopes, selection
from kernel_lab.planning.scopes import Scope
from kernel_lab.queries import Query, parse

CoverageOption = Annotated[bool, typer.Option("--coverage", help="What ran where, from the journals of earlier runs.")]
JournalsOption = Annotated[
    Path | None, typer.Option("--journals", metavar="DIR", help="With --coverage: look for journals there.")
]


def add_to(app: typer.Typer) -> None:
    @app.command("list")
    def list_(
        query: QueryArgument = None,
        package: PackageOption = None,
        with_coverage: CoverageOption = False,
        journals: JournalsOption = None,
        as_json: JsonOption = False,
    ) -> None:
        """List operators, their variants and cases; with --coverage, which variant ran on which adapter.

        --coverage ends with exit code 1 if a variant neither ran nor was emulated anywhere.
        """
        queries = [parse(text) for text in query or ["*"]]
        found = [op for op in console.operators(package).values() if any(_fits(q, op) for q in queries)]
        if not found:
            raise LabError(f"nothing fits {', '.join(map(str, queries))}; `kernel-lab list` shows what there is.")
        if with_coverage:
            raise typer.Exit(_coverage(found, journals or journal.runs_folder(), as_json))
        listed = [
            _described(
                op,
                [
                    variant
                    for variant in op.manifest.variants
                    if any(q.matches(op.id, None, variant.id) for q in queries)
                ],
                [case for case in op.cases if any(q.matches(op.id, case.name) for q in queries)],
            )
            for op in found
        ]
        if as_json:
            console.print_json(listed)
            return
        for entry in listed:
            _print(entry)


def _coverage(operators: list[Operator], folder: Path, as_json: bool) -> int:
    covered = coverage.coverage(operators, coverage.journals_in(folder))
    words = Counter(entry.word for entry in covered)
    if as_json:
        rows = [{"operator": e.operator, "variant": e.variant, "word": e.word, "told": e.told} for e in covered]
        console.print_json({"counts": words, "variants": rows})
    else:
        width = max(len(entry.variant) for entry in covered)
        for entry in covered:
            style = {"ran": "cyan", "emulated": "default", "unreachable": "bold yellow on red"}[entry.word]
            told = f"[{style}]{entry.word:<11}[/] {escape(entry.told)}"
            console.out.print(f"{entry.operator.rpartition('.')[2]:<17} {entry.variant:<{width}}  {told}")
        console.out.print(", ".join(f"{words[word]} {word}" for word in ("ran", "emulated", "unreachable")))
    return 1 if words["unreachable"] else 0


def _fits(query: Query, op: Operator) -> bool:
    """Whether the query names something of the operator: with a case or a variant, one that there is."""
    cases = query.case == "*" or any(query.matches(op.id, case.name) for case in op.cases)
    return cases and any(query.matches(op.id, None, variant.id) for variant in op.manifest.variants)


def _described(op: Operator, shown: list[Variant], cases: list[Case]) -> dict[str, object]:
    able = {variant.id: 0 for variant in op.manifest.variants}
    for case in cases:
        scope = scopes.scope_of(op, case.request) if case.refused is None else None
        if isinstance(scope, Scope):
            for decision in selection.eligible(scope):
                able[decision.variant.id] += decision.can_run
    variants = [{"id": v.id, "cases": able[v.id], "description": v.description} for v in shown]
    named = [{"query": c.query, "name": c.name, "why": c.why, "refused": c.refused is not None} for c in cases]
    return {"operator": op.id, "description": op.manifest.description, "variants": variants, "cases": named}


def _print(entry: dict[str, object]) -> None:
    console.out.print(f"[bold]{entry['operator']}[/]  {escape(str(entry['description']))}")
    for title, rows, columns in (
        ("variant", entry["variants"], ("id", "cases", "description")),
        ("case", entry["cases"], ("name", "why")),
    ):
        assert isinstance(rows, list)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title=None)
        for column in columns:
            header = title if column in ("id", "name") else column
            table.add_column(header, header_style="dim", overflow="fold", no_wrap=column in ("id", "name"))
        for row in rows:
            table.add_row(*(escape(str(row[column])) for column in columns))
        console.out.print(table)
        console.out.print()
