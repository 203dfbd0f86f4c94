"""`kernel-lab list`: what there is."""

import typer
from rich.markup import escape
from rich.table import Table

from kernel_lab.cli import console
from kernel_lab.cli.console import JsonOption, PackageOption, QueryArgument
from kernel_lab.errors import LabError
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import scopes, selection
from kernel_lab.planning.scopes import Scope
from kernel_lab.queries import parse


def add_to(app: typer.Typer) -> None:
    @app.command("list")
    def list_(query: QueryArgument = None, package: PackageOption = None, as_json: JsonOption = False) -> None:
        """List operators, their variants and cases, and how many cases each variant can compute."""
        queries = [parse(text) for text in query or ["*"]]
        found = [op for op in console.operators(package).values() if any(q.matches(op.id) for q in queries)]
        if not found:
            raise LabError(f"no operator fits {', '.join(map(str, queries))}.")
        listed = [
            _described(op, [c for c in op.cases if any(q.matches(op.id, c.name) for q in queries)]) for op in found
        ]
        if as_json:
            console.print_json(listed)
            return
        for entry in listed:
            _print(entry)


def _described(op: Operator, cases: list[Case]) -> dict[str, object]:
    able = {variant.id: 0 for variant in op.manifest.variants}
    for case in cases:
        scope = scopes.scope_of(op, case.request) if case.refused is None else None
        if isinstance(scope, Scope):
            for decision in selection.eligible(scope):
                able[decision.variant.id] += decision.can_run
    variants = [{"id": v.id, "cases": able[v.id], "description": v.description} for v in op.manifest.variants]
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
