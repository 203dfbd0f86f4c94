"""`kernel-lab inspect`: who wrote an element, and what values a kernel's probes had on the way."""

import re
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.markup import escape

from kernel_lab import line, runs
from kernel_lab.browsing.lab import Lab
from kernel_lab.cli import console
from kernel_lab.cli.console import (
    BrowserOption,
    EmulateOption,
    JsonOption,
    LimitOption,
    MaskOption,
    PackageOption,
    SubgroupsOption,
)
from kernel_lab.cli.explain import one_case
from kernel_lab.debugging import inspecting
from kernel_lab.debugging.inspecting import Element, Inspection
from kernel_lab.debugging.probing import Probes
from kernel_lab.debugging.records import CAPACITY, EVERY, Choice
from kernel_lab.debugging.writers import Writers
from kernel_lab.errors import LabError
from kernel_lab.planning import selection
from kernel_lab.planning.scopes import Refused
from kernel_lab.queries import parse

PassOption = Annotated[str | None, typer.Option("--pass", metavar="PASS", help="Only that pass's probes.")]
InvocationOption = Annotated[
    str | None,
    typer.Option("--invocation", metavar="X[,Y[,Z]]", help="The probes of that global_invocation_id. Default: 0,0,0."),
]
AllOption = Annotated[bool, typer.Option("--all", help=f"The probes of every invocation, up to {CAPACITY:,} values.")]
ElementOption = Annotated[
    str | None,
    typer.Option(
        "--element", metavar="OUTPUT[I,J,…]", help="Who wrote that element of an output or intermediate; its probes."
    ),
]
_ELEMENT = re.compile(r"(?P<name>[^\[\]]+)(?:\[(?P<index>[\d,\s]*)\])?")


def add_to(app: typer.Typer) -> None:
    @app.command("inspect")
    def inspect(
        query: Annotated[str, typer.Argument(metavar="OP:CASE[:VARIANT]")],
        only_pass: PassOption = None,
        invocation: InvocationOption = None,
        every: AllOption = False,
        element: ElementOption = None,
        browser: BrowserOption = "default",
        mask: MaskOption = None,
        limit: LimitOption = None,
        subgroups: SubgroupsOption = None,
        emulate_matrices: EmulateOption = False,
        package: PackageOption = None,
        as_json: JsonOption = False,
    ) -> None:
        """Say which invocation wrote an element, and show the values of its `{{ probe("name", "value") }}` lines."""
        look_at = what_to_look_at(invocation, every, element)
        asked = parse(query)
        op, case = one_case(asked, package)
        if asked.variant != "*":
            op.variant(asked.variant)
        with Lab(console.profile(browser, False, mask, limit, subgroups, emulate_matrices)) as lab:
            op = line.operator_there(op, lab)
            scope = line.check(op, case)
            if isinstance(scope, Refused):
                raise LabError(f"{case.query} is refused: {scope.sentence}")
            decisions = line.decide(scope, lab.facts)
            chosen = (
                selection.forced(decisions, asked.variant) if asked.variant != "*" else selection.selected(decisions)
            )
            if chosen is None or not chosen.can_run:
                reason = f": {chosen.reason}" if chosen else f"; `kernel-lab explain {case.query}` says why."
                raise LabError(f"{case.query} does not run there{reason}")
            variant = chosen.variant
            found = inspecting.inspect(
                scope, variant, lab.facts, case.inputs, look_at, lab.run,
                pass_id=only_pass, query=f"{case.query}:{variant.id}",
            )  # fmt: skip
            who = runs.headline(lab.info)
        if as_json:
            console.print_json({**found.json, "device": who})
            return
        console.out.print(f"[bold]{escape(found.query)}[/]")
        for text in [*who, "", *lines_of(found)]:
            console.out.print(escape(text))


def what_to_look_at(invocation: str | None, every: bool, element: str | None) -> Element | Choice:
    """What the options say; LabError if they say two things, or none that can be read."""
    if (invocation is not None) + every + (element is not None) > 1:
        raise LabError("--invocation, --all and --element exclude each other: give one of them.")
    if element is not None:
        match = _ELEMENT.fullmatch(element.strip())
        if match is None:
            raise LabError(f"--element {element}: must be an output's name and an index, as y[0,3,2].")
        return Element(match["name"].strip(), _numbers(match["index"] or "", f"--element {element}"))
    if every:
        return EVERY
    given = _numbers("0" if invocation is None else invocation, f"--invocation {invocation}")
    if not 1 <= len(given) <= 3:
        raise LabError(f"--invocation {invocation}: must be one to three numbers: X, X,Y or X,Y,Z.")
    x, y, z = (*given, 0, 0)[:3]
    return Choice("global", (x, y, z))


def _numbers(text: str, option: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if not all(part.isdecimal() for part in parts):
        raise LabError(f"{option}: {text!r} must be numbers of 0 or more with commas between them.")
    return tuple(map(int, parts))


def lines_of(found: Inspection) -> Iterator[str]:
    """The page, as text."""
    if found.element is not None and found.writers is not None:
        yield f"{found.element} = {found.value}"
        yield from _writer_lines(found.writers)
        if found.inspected is not None:
            yield ""
            if found.probes is None:
                yield 'No probes: write {{ probe("sum", "sum") }} as a line of its own in the template.'
            else:
                yield f"probes of {found.inspected.invocation}:"
    if found.probes is not None:
        yield from _probe_lines(found.probes)


def _writer_lines(writers: Writers) -> Iterator[str]:
    if not writers.found:
        yield "  Nobody stored there: it holds what it was filled with."
    for writer in writers.found:
        times = f", {writer.times} times" if writer.times > 1 else ""
        where = f"{writer.site.origin}: " if writer.site.origin else ""
        yield f"  stored by {writer.invocation}{times}"
        yield f"    in pass {writer.site.label.rpartition(':')[2]}, {where}{writer.site.text}"
    if writers.found and writers.shared > 1:
        yield f"  These stores are to a word that {writers.shared} elements share."
    if writers.lost:
        yield f"  … and {writers.lost:,} more stores, for which there was no room."


def _probe_lines(probes: Probes) -> Iterator[str]:
    groups = {(probed.site.label, probed.invocation) for probed in probes.values}
    width = max((len(probed.name) for probed in probes.values), default=0)
    last = None
    for probed in probes.values:
        if len(groups) > 1 and last != (probed.site.label, probed.invocation):
            yield f"pass {probed.site.label.rpartition(':')[2]}, {probed.invocation}:"
        last = (probed.site.label, probed.invocation)
        value = f"({', '.join(map(str, probed.value))})" if isinstance(probed.value, tuple) else str(probed.value)
        place = f"  ({probed.site.origin})" if probed.site.origin else ""
        yield f"  {probed.order:>4}  {probed.name:<{width}}  {value}  {probed.site.type}{place}"
    for site in probes.silent:
        yield f"  {site.name}: recorded nothing ({site.origin or site.label})"
    if probes.lost:
        yield f"  … and {probes.lost:,} more values, for which there was no room."
