"""`kernel-lab debug`: one case in a browser with a window and DevTools, on the page that takes it apart."""

from dataclasses import replace
from typing import Annotated
from urllib.parse import urlencode

import typer

from kernel_lab.browsing import declared
from kernel_lab.browsing.showing import show
from kernel_lab.cli import console
from kernel_lab.cli.console import (
    BrowserOption,
    EmulateOption,
    LimitOption,
    MaskOption,
    PackageOption,
    ReferenceOption,
    SubgroupsOption,
)
from kernel_lab.cli.explain import one_case
from kernel_lab.debugging.desk import Desk
from kernel_lab.errors import LabError
from kernel_lab.queries import parse
from kernel_lab.serving import planner
from kernel_lab.serving.host import Host


def add_to(app: typer.Typer) -> None:
    @app.command("debug")
    def debug(
        query: Annotated[str, typer.Argument(metavar="OP:CASE[:VARIANT]")],
        browser: BrowserOption = "default",
        mask: MaskOption = None,
        limit: LimitOption = None,
        subgroups: SubgroupsOption = None,
        emulate_matrices: EmulateOption = False,
        package: PackageOption = None,
        reference: ReferenceOption = None,
    ) -> None:
        """Open a headed Chromium with DevTools on a case: its plan, WGSL, buffers, the wrong element; edits show."""
        profile = console.profile(browser, True, mask, limit, subgroups, emulate_matrices)
        if profile.remote is not None:
            raise LabError("debug starts a browser of this machine; `kernel-lab serve` prints an address for others.")
        asked = parse(query)
        op, case = one_case(asked, package, reference)
        named = [] if asked.variant == "*" else [op.variant(asked.variant).id]
        wanted = ":".join([case.query, *named])
        host = Host(planner.answer, desk=Desk(console.operators(package, reference)))
        try:
            hidden = {"mask": mask or [], "limit": limit or [], "subgroups": [subgroups] if subgroups else []}
            hidden |= {"emulate_matrices": ["1"] if emulate_matrices else []}
            hidden |= {"profile": [browser] if browser in declared.load() else []}
            asked_for = urlencode({"query": wanted, **hidden, "token": host.hub.token}, doseq=True)
            address = f"{host.address}/debug?{asked_for}"
            console.out.print(f"open     {address}", soft_wrap=True)
            console.out.print("Close the window, or Ctrl-C, to end.")
            show(replace(profile, devtools=True), address)
        except KeyboardInterrupt:
            console.out.print("ended")
        finally:
            host.close()
