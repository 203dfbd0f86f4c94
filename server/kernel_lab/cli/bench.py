"""`kernel-lab bench`: timings. With --harness, what kernel-lab itself costs."""

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from kernel_lab import runs
from kernel_lab.benching import harness, kernels, reloading
from kernel_lab.browsing.lab import Lab
from kernel_lab.cli import console
from kernel_lab.cli.console import (
    BrowserOption,
    JsonOption,
    LimitOption,
    MaskOption,
    QueryArgument,
    SubgroupsOption,
)
from kernel_lab.errors import LabError
from kernel_lab.queries import parse


def add_to(app: typer.Typer) -> None:
    @app.command("bench")
    def bench(
        query: QueryArgument = None,
        overhead: Annotated[bool, typer.Option("--harness", help="Our own overhead instead of kernels.")] = False,
        cases: Annotated[int, typer.Option("--cases", help="How many small cases --harness runs.")] = 1000,
        preset: Annotated[
            list[str] | None, typer.Option("--preset", help="smoke (default), standard or large; may be repeated.")
        ] = None,
        rounds: Annotated[int, typer.Option("--rounds", help="Timed runs of each kernel.")] = 10,
        browser: BrowserOption = "default",
        mask: MaskOption = None,
        limit: LimitOption = None,
        subgroups: SubgroupsOption = None,
        as_json: JsonOption = False,
    ) -> None:
        """Time kernels on bench.json's cases, or the harness. A software adapter's numbers say nothing of a GPU."""
        presets = _presets(preset)
        with Lab(console.profile(browser, False, mask, limit, subgroups)) as lab:
            described = runs.describe(lab.info)
            if not as_json:
                for text in runs.headline(lab.info):
                    console.out.print(escape(text))
            if overhead:
                report = harness.measure(lab, cases)
            else:
                queries = [parse(text) for text in query or ["*"]]
                report = {"kernels": kernels.measure(lab, queries, presets, rounds)}
        if as_json:
            console.print_json({"environment": described, **report})
        elif overhead:
            _print_harness(report)
        else:
            _print_kernels(report["kernels"])


def _presets(stated: list[str] | None) -> list[str]:
    presets = stated or ["smoke"]
    for preset in presets:
        if preset not in kernels.PRESETS:
            raise LabError(f"--preset: got {preset!r}, allowed are {', '.join(kernels.PRESETS)}.")
    return presets


def _print_harness(report: dict[str, Any]) -> None:
    small = report["small_cases"]
    console.out.print(
        f"{small['count']:,} small cases in {small['seconds']:.1f} s ({small['failed']} failed); medians in ms:"
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in small["median_ms"]:
        table.add_column(name, justify="right")
    table.add_row(*(f"{value:.2f}" for value in small["median_ms"].values()))
    console.out.print(table)
    whole = 1e3 * small["seconds"] / small["count"]
    console.out.print(f"a case takes {whole:.2f} ms, {small['own_ms']:.2f} of them beyond GPU and readback")
    pairs = report["collection"]
    console.out.print(f"{pairs['pairs']:,} case-variant pairs collected in {pairs['seconds']:.2f} s")
    large = report["large"]
    size = large["bytes"] / 2**20
    for name in ("input", "matching_output", "mismatching_output", "bare_websocket", "bare_worker_websocket"):
        console.out.print(f"{name.replace('_', ' '):<21} {size:.0f} MiB at {large[name]:.0f} MB/s")
    page, worker = (large["mismatching_output"] / large[name] for name in ("bare_websocket", "bare_worker_websocket"))
    console.out.print(
        f"mismatching outputs come back at {page:.0%} of a page's bare WebSocket, {worker:.0%} of a shared worker's"
    )
    for text in reloading.lines(report["reload"]):
        console.out.print(text)


def _print_kernels(timings: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name in ("case", "variant", "median ms", "spread", "metric"):
        table.add_column(
            name, justify="right" if name in ("median ms", "spread", "metric") else "left", overflow="fold"
        )
    for row in timings:
        table.add_row(*(escape(str(row[key])) for key in ("case", "variant", "median", "spread", "metric")))
    console.out.print(table)
