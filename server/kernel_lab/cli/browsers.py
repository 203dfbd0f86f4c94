"""`kernel-lab browsers`: the Chromiums on this machine, and what can be added to them."""

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.markup import escape

from kernel_lab.browsing import getting, installing, lavapipe, profiles, sources
from kernel_lab.browsing.browser import BrowserInfo
from kernel_lab.browsing.finding import missing
from kernel_lab.browsing.getting.source import Source
from kernel_lab.browsing.installing import Installed
from kernel_lab.browsing.sources import Chromium
from kernel_lab.cli import console
from kernel_lab.cli.console import JsonOption
from kernel_lab.errors import LabError

INSTALLABLE = {
    "lavapipe": "Mesa's software adapter for the Chromiums above: f16, subgroups of 8, subgroup matrices",
    **getting.known(),
}


def add_to(app: typer.Typer) -> None:
    browsers = typer.Typer(help="Where Chromiums come from, and what can be added to them.", no_args_is_help=True)
    app.add_typer(browsers, name="browsers")

    @browsers.command("list")
    def list_(
        probe: Annotated[bool, typer.Option("--probe", help="Start each profile and ask for its adapter.")] = False,
        available: Annotated[bool, typer.Option("--available", help="Ask each source for its versions.")] = False,
        as_json: JsonOption = False,
    ) -> None:
        """List the Chromiums that are found, their profiles for --browser, and what can be installed."""
        with console.err.status("looking for Chromiums") as status:
            say = status.update
            rows = [_row(chromium, probe, say) for chromium in sources.installed()]
            offers = [_offer(source, say) for source in getting.SOURCES] if available else []
        if as_json:
            console.print_json({"browsers": rows, "installable": INSTALLABLE, "offers": offers})
            return
        for row in rows:
            console.out.print(f"[bold]{row['source']} {row['version']}[/]  {escape(row['executable'])}")
            for profile in row["profiles"]:
                console.out.print(f"  {profile['name']:<32} {escape(profile['state'])}")
        if not rows:
            console.out.print(escape(missing()))
        for name, what in INSTALLABLE.items():
            console.out.print(f"kernel-lab browsers install {name}  [dim]{escape(what)}[/]")
        for offer in offers:
            console.out.print(f"{offer['source']}: {escape(offer['state'])}")

    @browsers.command("install")
    def install(names: Annotated[list[str], typer.Argument(metavar="NAME...", help=", ".join(INSTALLABLE))]) -> None:
        """Get something and see that it works. What is there is kept, until `kernel-lab cache clear --all`; a channel's
        newest is got each time.

        One that cannot be got keeps none of the others from it; exit code 2 at the end.
        """
        for name in names:
            if name != "lavapipe":
                getting.named(name)  # all names are read before anything is got
        report = _reporter()
        failed = []
        for name in names:
            try:
                _install(name, report)
            except LabError as failure:
                if len(names) == 1:
                    raise
                report(f"{name}: {failure}")
                failed.append(name)
        if failed:
            raise LabError(f"not installed: {', '.join(failed)}; why is said above. The others are there.")


def _install(name: str, report: Callable[[str], None]) -> None:
    if name == "lavapipe":
        _show(installing.install_lavapipe(report))
        console.out.print("Use it: --browser lavapipe")
    else:
        done = installing.install_browser(name, report)
        _show([done])
        console.out.print(f"Use it: --browser {done.profile}")


def _show(results: list[Installed]) -> None:
    for done in results:
        facts = done.info.facts
        assert facts is not None  # else it would not count as installed
        spoofed = "; reported ids are spoofed" if facts.spoofed_ids else ""
        console.out.print(f"{done.profile}  {done.chromium.version}  {escape(facts.description)}{spoofed}")
        console.out.print(f"  {escape(str(done.info.executable))}")


def _offer(source: Source, say: Callable[[str], None]) -> dict[str, Any]:
    """What a source has, or the sentence that says why that is not known."""
    say(f"asking {source.what}")
    try:
        versions = {f"{source.name}-{major}": version for major, version in source.offered().items()}
    except LabError as error:
        return {"source": source.name, "versions": {}, "state": str(error)}
    listed = ", ".join(f"{name} ({version})" for name, version in versions.items())
    return {"source": source.name, "versions": versions, "state": listed or "has no list: any version can be tried"}


def _reporter() -> Callable[[str], None]:
    """Says each step with the seconds since the start."""
    began = time.perf_counter()
    return lambda text: console.err.print(f"[dim]{time.perf_counter() - began:6.1f} s[/]  {escape(text)}")


def _row(chromium: Chromium, probe: bool, say: Callable[[str], None]) -> dict[str, Any]:
    return {
        "source": chromium.source,
        "version": chromium.version,
        "executable": str(chromium.executable),
        "program": str(chromium.program),
        "windows": chromium.can_show_windows,
        "profiles": [_state(chromium, adapter, probe, say) for adapter in profiles.ADAPTERS],
    }


def _state(chromium: Chromium, adapter: str, probe: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """A profile and what is known of it. Where a headless shell has taken the name, a full browser has it --headed."""
    headed = sources.find(chromium.name) != chromium
    name = f"{chromium.name}-{adapter}{' --headed' if headed else ''}"
    say(f"starting {name}" if probe else f"looking at {name}")
    try:
        profile = profiles.on_adapter(name, chromium, adapter)
        info = installing.examine(profile) if probe else None
    except LabError as error:
        return {"name": name, "usable": False, "state": str(error)}
    if info is None:
        prepared = (
            f"prepared in {lavapipe.find(chromium).folder}" if adapter == "lavapipe" else "not asked: see --probe"
        )
        return {"name": name, "usable": None, "state": prepared}
    return {"name": name, **_probed(info, profile.hardware)}


def _probed(info: BrowserInfo, hardware: bool) -> dict[str, Any]:
    facts = info.facts
    if facts is None:
        return {"usable": False, "state": f"no adapter: {info.no_adapter}"}
    described = {"description": facts.description, "spoofed_ids": facts.spoofed_ids}
    if hardware and facts.is_fallback:
        return {"usable": False, "state": f"no GPU: Chromium gave {facts.description}", **described}
    return {"usable": True, "state": facts.description, **described}
