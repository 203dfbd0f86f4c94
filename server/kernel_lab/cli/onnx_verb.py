"""`kernel-lab onnx`: a model's quantised nodes, or ONNX backend-test folders, as cases."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from kernel_lab import line
from kernel_lab.browsing.lab import Lab
from kernel_lab.cli import console, performing
from kernel_lab.cli.console import BrowserOption, HeadedOption, JsonOption, LimitOption, MaskOption, SubgroupsOption
from kernel_lab.cli.run import AllowOption, DeadlineOption, ReportOption, VariantsOption, VerboseOption, every_variant
from kernel_lab.errors import LabError
from kernel_lab.queries import parse

PathsArgument = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Models (.onnx), backend-test folders, or folders of such.")
]
CaseOption = Annotated[
    list[str] | None, typer.Option("--case", metavar="OP[:CASE[:VARIANT]]", help="Only these; may be repeated.")
]
InputsOption = Annotated[Path | None, typer.Option("--inputs", metavar="FILE.npz", help="A model's inputs, by name.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="For inputs that are not given: random ones.")]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=SIZES", help="The shape of such an input, as x=1,3,64,64; may be repeated."),
]


def add_to(app: typer.Typer) -> None:
    @app.command("onnx")
    def onnx(
        paths: PathsArgument,
        case: CaseOption = None,
        inputs: InputsOption = None,
        seed: SeedOption = 0,
        shape: ShapeOption = None,
        browser: BrowserOption = "default",
        headed: HeadedOption = False,
        mask: MaskOption = None,
        limit: LimitOption = None,
        subgroups: SubgroupsOption = None,
        variants: VariantsOption = "selected",
        report: ReportOption = None,
        deadline: DeadlineOption = line.DEADLINE_MS / 1000,
        allow_no_adapter: AllowOption = False,
        verbose: VerboseOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """Run a model's quantised nodes, or ONNX backend tests, as cases and compare with ONNX Runtime, to the bit."""
        from kernel_lab.importing import collecting, feeds  # needs packages that no other verb needs

        every = every_variant(variants)
        queries = [parse(text) for text in case or ["*"]]
        feeding = feeds.feeding(inputs, seed, shape or [])
        with console.err.status("reading, and computing activations"):
            imported = collecting.collect(paths, feeding)
        for note in imported.notes:
            (console.err if as_json else console.out).print(escape(note))
        chosen = list(collecting.pairs(imported.cases, queries, every_variant=every))
        if not chosen:
            known = ", ".join(c.query for c in imported.cases[:5])
            raise LabError(
                f"no case fits {', '.join(map(str, queries))}; of {len(imported.cases)} the first are {known}."
            )
        options = line.Options(deadline_ms=int(deadline * 1000))
        with Lab(console.profile(browser, headed, mask, limit, subgroups)) as lab:
            code = performing.perform(
                chosen, lab, options,
                report=report, allow_no_adapter=allow_no_adapter, verbose=verbose, as_json=as_json, command="onnx",
            )  # fmt: skip
        raise typer.Exit(code)
