"""`kernel-lab doctor`, `serve` and `cache`: the machine, the server, the cache."""

import contextlib
import platform
import shutil
import time
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from kernel_lab import line, resources, runs
from kernel_lab.browsing.lab import Lab
from kernel_lab.browsing.profiles import Profile
from kernel_lab.cli import console
from kernel_lab.cli.console import BrowserOption, HeadedOption, JsonOption
from kernel_lab.debugging.desk import Desk
from kernel_lab.errors import LabError
from kernel_lab.judging import journal
from kernel_lab.operators import operator
from kernel_lab.serving import planner
from kernel_lab.serving.host import Host

PACKAGES = (
    "playwright",
    "jinja2",
    "numpy",
    "ml_dtypes",
    "fastapi",
    "uvicorn",
    "websockets",
    "pytest",
    "onnx",
    "onnxruntime",
)


def add_to(app: typer.Typer) -> None:
    @app.command("doctor")
    def doctor(browser: BrowserOption = "default", headed: HeadedOption = False, as_json: JsonOption = False) -> None:
        """Check this machine: programs, browser, adapter, and one case of each operator from end to end."""
        profile = console.profile(browser, headed, None)
        report = _examine(profile)
        if as_json:
            console.print_json(report)
        else:
            _print_report(report, profile)
        raise typer.Exit(0 if report["healthy"] else 1)

    @app.command("serve")
    def serve(port: Annotated[int, typer.Option("--port", help="0 takes a free one.")] = 8770) -> None:
        """Serve the harness, so that any browser on this machine can open it and pages can call getKernel."""
        host = Host(planner.answer, port, desk=Desk(operator.load_all()))
        console.out.print(f"open     {host.address}/debug?token={host.hub.token}", soft_wrap=True)
        console.out.print(
            "The debug page. getKernel is at /harness/kernels.js; examples at /harness/examples.html. Ctrl-C ends it."
        )
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            console.out.print("ended")
        finally:
            host.close()

    cache = typer.Typer(help="Where runs, and installed browsers and adapters, are kept.", no_args_is_help=True)
    app.add_typer(cache, name="cache")

    @cache.command("path")
    def path() -> None:
        """Print the cache's folder."""
        typer.echo(journal.cache_folder())

    @cache.command("clear")
    def clear(
        everything: Annotated[
            bool,
            typer.Option("--all", help="Also what `browsers install` has put there; it takes minutes to get anew."),
        ] = False,
    ) -> None:
        """Delete the runs that the cache holds."""
        folder = journal.cache_folder() if everything else journal.runs_folder()
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) if folder.exists() else 0
        if folder.exists():
            _delete(folder)
        console.out.print(f"deleted {size / 1e6:.1f} MB in {escape(str(folder))}")


def _delete(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise LabError(f"{folder} cannot be deleted: {error.strerror}.") from None


def _examine(profile: Profile) -> dict[str, Any]:
    report: dict[str, Any] = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "shaders": str(resources.shaders()),
        "js_harness": str(resources.js_harness()),
        "cache": str(journal.cache_folder()),
        "flags": [{"flag": flag.text, "why": flag.why} for flag in profile.flags],
        "cases": [],
        "healthy": False,
    }
    with Lab(profile) as lab:
        report["run"] = runs.describe(lab.info)
        report["headline"] = runs.headline(lab.info)
        if lab.info.facts is None:
            return report
        for op in operator.load_all().values():
            case = next(case for case in op.cases if case.refused is None)
            started = time.perf_counter()
            verdict = line.follow(op, case, lab)
            seconds = time.perf_counter() - started
            entry = {"query": verdict.query, "outcome": verdict.outcome, "summary": verdict.summary, "seconds": seconds}
            report["cases"].append(entry)
    report["healthy"] = bool(report["cases"]) and all(entry["outcome"] == "passed" for entry in report["cases"])
    return report


def _version(package: str) -> str | None:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None


def _print_report(report: dict[str, Any], profile: Profile) -> None:
    console.out.print(f"python   {report['python']} on {escape(report['system'])}")
    versions = ", ".join(f"{name} {version or 'missing'}" for name, version in report["packages"].items())
    console.out.print(f"packages {versions}")
    console.out.print(
        f"folders  {escape(report['shaders'])}, {escape(report['js_harness'])}, cache {escape(report['cache'])}"
    )
    console.out.print("flags")
    for flag in profile.flags:
        console.out.print(f"         {escape(flag.text)}  [dim]{escape(flag.why)}[/]")
    for text in report.get("headline", []):
        console.out.print(escape(text))
    for entry in report["cases"]:
        told = f"{escape(entry['query'])}  {escape(entry['summary'])}  [dim]{entry['seconds']:.2f} s[/]"
        console.out.print(f"{console.mark(entry['outcome'])}  {told}")
    console.out.print("healthy" if report["healthy"] else "not healthy: see above")
