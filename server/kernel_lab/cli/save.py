"""`kernel-lab save`: one case as one HTML file that runs anywhere, without kernel-lab."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from kernel_lab import line, runs
from kernel_lab.browsing.lab import Lab
from kernel_lab.cli import console
from kernel_lab.cli.console import (
    BrowserOption,
    EmulateOption,
    HeadedOption,
    LimitOption,
    MaskOption,
    PackageOption,
    ReferenceOption,
    SubgroupsOption,
)
from kernel_lab.cli.explain import one_case
from kernel_lab.cli.run import DeadlineOption, command_of
from kernel_lab.debugging import saving
from kernel_lab.errors import LabError
from kernel_lab.queries import parse

PageOption = Annotated[Path, typer.Option("--out", metavar="FILE.html", help="Where to.")]


def add_to(app: typer.Typer) -> None:
    @app.command("save")
    def save(
        query: Annotated[str, typer.Argument(metavar="OP:CASE[:VARIANT]")],
        out: PageOption,
        browser: BrowserOption = "default",
        headed: HeadedOption = False,
        mask: MaskOption = None,
        limit: LimitOption = None,
        subgroups: SubgroupsOption = None,
        emulate_matrices: EmulateOption = False,
        deadline: DeadlineOption = line.DEADLINE_MS / 1000,
        package: PackageOption = None,
        reference: ReferenceOption = None,
    ) -> None:
        """Save a case as one HTML file (plan, WGSL, inputs, expected outputs, runner) that shows what it does in any
        WebGPU browser, without a server: what a bug report wants.

        It is planned for this browser's adapter and run once, so that the page can say what was seen here.
        """
        asked = parse(query)
        operator, case = one_case(asked, package, reference)
        variant = None if asked.variant == "*" else operator.variant(asked.variant).id
        profile = console.profile(browser, headed, mask, limit, subgroups, emulate_matrices)
        repeat = command_of(
            "run",
            package=package, reference=reference, browser=browser, headed=headed, mask=mask, limit=limit,
            subgroups=subgroups, emulate_matrices=emulate_matrices, deadline=deadline,
        )  # fmt: skip
        options = line.Options(int(deadline * 1000), repeat=repeat)
        with Lab(profile) as lab:
            saved = saving.save(operator, case, variant, lab, options)
            told = runs.headline(lab.info_of_last_run)
        write(out, saved.text)
        for text in told:
            console.out.print(escape(text))
        verdict = saved.verdict
        console.out.print(
            f"{console.mark(verdict.outcome)}  {escape(verdict.query)}  [dim]{escape(verdict.summary)}[/]"
        )
        console.out.print(f"page     {escape(str(out))}  ({len(saved.text.encode()):,} bytes)")


def write(path: Path, text: str) -> None:
    """The file; LabError if it cannot be written."""
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise LabError(f"the page cannot be written to {path}: {error.strerror}. Choose another with --out.") from None
