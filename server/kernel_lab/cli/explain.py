"""`kernel-lab explain` and `kernel-lab render`: one case followed from its request to its WGSL."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from kernel_lab import line, runs
from kernel_lab.browsing.lab import Lab
from kernel_lab.browsing.profiles import Profile
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
from kernel_lab.errors import LabError
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import plans, scopes, selection
from kernel_lab.planning.facts import PACKING_FEATURE, DeviceFacts
from kernel_lab.planning.plans import Plan, PlannedPass
from kernel_lab.planning.rendering import Wgsl
from kernel_lab.planning.scopes import Refused, Scope
from kernel_lab.planning.selection import Decision
from kernel_lab.queries import Query, parse

AnyDeviceOption = Annotated[
    bool,
    typer.Option("--any-device", help="No browser: judge for a device with WebGPU's default limits and no feature."),
]
RenderBrowserOption = Annotated[
    str | None, typer.Option("--browser", metavar="NAME", help="Render for that browser's adapter.")
]
ANY_DEVICE = DeviceFacts(features=frozenset({PACKING_FEATURE}))


def add_to(app: typer.Typer) -> None:
    @app.command("explain")
    def explain(
        query: Annotated[str, typer.Argument(metavar="OP:CASE[:VARIANT]")],
        browser: BrowserOption = "default",
        mask: MaskOption = None,
        limit: LimitOption = None,
        subgroups: SubgroupsOption = None,
        emulate_matrices: EmulateOption = False,
        any_device: AnyDeviceOption = False,
        package: PackageOption = None,
        as_json: JsonOption = False,
    ) -> None:
        """Say which variant runs a case and why not the others; with a variant, follow it down to its WGSL."""
        asked = parse(query)
        op, case = one_case(asked, package)
        _check_variant(op, asked)
        facts, who = _device(
            None if any_device else console.profile(browser, False, mask, limit, subgroups, emulate_matrices)
        )
        scope = line.check(op, case)
        if isinstance(scope, Refused):
            _say_refused(case, scope, as_json)
            return
        decisions = line.decide(scope, facts)
        chosen = selection.selected(decisions)
        if as_json:
            rows = [decision.json for decision in decisions]
            selected = chosen.variant.id if chosen else None
            console.print_json({"query": case.query, "device": who, "selected": selected, "decisions": rows})
            return
        console.out.print(f"[bold]{escape(case.query)}[/]  {escape(case.why)}")
        for text in who:
            console.out.print(escape(text))
        if asked.variant == "*":
            _print_decisions(decisions, chosen)
        else:
            _print_whole(scope, selection.forced(decisions, asked.variant), facts)

    @app.command("render")
    def render(
        query: Annotated[str, typer.Argument(metavar="OP:CASE:VARIANT")],
        browser: RenderBrowserOption = None,
        mask: MaskOption = None,
        limit: LimitOption = None,
        subgroups: SubgroupsOption = None,
        emulate_matrices: EmulateOption = False,
        package: PackageOption = None,
        origins: Annotated[bool, typer.Option("--origins", help="The template line behind each line.")] = False,
        as_json: JsonOption = False,
    ) -> None:
        """Print the WGSL of a case's variant, pass after pass.

        For a device with WebGPU's default limits and no feature, unless a browser or what to hide of it is given.
        """
        asked = parse(query)
        op, case = one_case(asked, package)
        _check_variant(op, asked)
        told = browser or mask or limit or subgroups or emulate_matrices
        profile = console.profile(browser or "default", False, mask, limit, subgroups, emulate_matrices)
        facts, _ = _device(profile if told else None)
        scope = scopes.scope_of(op, case.request)
        if isinstance(scope, Refused):
            raise LabError(f"{case.query} is refused: {scope.sentence}")
        decisions = line.decide(scope, facts)
        if asked.variant == "*":
            chosen = selection.selected(decisions)
            if chosen is None:
                raise LabError(f"no variant runs {case.query} there; `kernel-lab explain {case.query}` says why.")
        else:
            chosen = selection.forced(decisions, asked.variant)
        passes = plans.plan_of(scope, chosen.variant, facts).passes
        if as_json:
            console.print_json([_pass_record(item) for item in passes])
            return
        if not passes:
            console.err.print("Nothing to render: every output is empty, so nothing is dispatched.")
        for item in passes:
            typer.echo(f"// {item.label}  {item.template}  {item.wgsl.digest[:16]}")
            for text in _wgsl_lines(item.wgsl, origins):
                typer.echo(text)


def _check_variant(op: Operator, asked: Query) -> None:
    """Before a browser is started."""
    if asked.variant != "*":
        op.variant(asked.variant)


def _pass_record(item: PlannedPass) -> dict[str, Any]:
    origins = [str(origin) if origin else None for origin in item.wgsl.origins]
    record = {"label": item.label, "template": item.template, "digest": item.wgsl.digest}
    return {**record, "wgsl": item.wgsl.text, "origins": origins}


def one_case(asked: Query, package: list[Path] | None = None, reference: Path | None = None) -> tuple[Operator, Case]:
    """The one case that a query names; LabError lists the candidates when it is not one."""
    operators = console.operators(package, reference).values()
    found = [(op, case) for op in operators for case in op.cases if asked.matches(op.id, case.name)]
    if len(found) == 1:
        return found[0]
    some = ", ".join(case.query for _, case in found[:8])
    if not found:
        raise LabError(f"no case fits {asked}; `kernel-lab list` shows what there is.")
    raise LabError(f"{asked} names {len(found)} cases; give one of them: {some}{' …' if len(found) > 8 else ''}")


def _device(profile: Profile | None) -> tuple[DeviceFacts, list[str]]:
    if profile is None:
        return ANY_DEVICE, ["device   any: WebGPU's default limits, no optional feature (no browser was asked)"]
    with Lab(profile) as lab:
        return lab.facts, runs.headline(lab.info)


def _say_refused(case: Case, refused: Refused, as_json: bool) -> None:
    if as_json:
        console.print_json({"query": case.query, "refused": refused.sentence})
    else:
        console.out.print(f"[bold]{escape(case.query)}[/] is refused: {escape(refused.sentence)}")


def _print_decisions(decisions: tuple[Decision, ...], chosen: Decision | None) -> None:
    width = max(len(decision.variant.id) for decision in decisions)
    for decision in decisions:
        arrow = "→" if decision is chosen else " "
        style = "cyan" if decision.can_run else "dim"
        console.out.print(f"{arrow} {decision.variant.id:<{width}}  [{style}]{escape(str(decision))}[/]")
    if chosen is None:
        console.out.print("No variant can run this case here.")


def _print_whole(scope: Scope, decision: Decision, facts: DeviceFacts) -> None:
    for title, lines in _sections(scope, decision, facts):
        console.out.print(f"\n[bold]{title}[/]")
        for text in lines:
            console.out.print("  " + escape(text))


def _sections(scope: Scope, decision: Decision, facts: DeviceFacts) -> Iterator[tuple[str, list[str]]]:
    """The page, in the order of the line: request, derived values, decision, buffers, passes, WGSL."""
    request = scope.request
    yield (
        f"request ({scope.opset})",
        [
            *(f"{role:<14} {request.dtypes[role]}{list(request.shapes[role])}" for role in request.dtypes),
            *(f"{name:<14} {value!r} (attribute)" for name, value in request.attrs.items()),
            *(f"{role:<14} {t.dtype}{list(t.shape)} (inferred output)" for role, t in scope.outputs.items()),
        ],
    )
    derived = {name: value for name, value in scope.values.items() if name in scope.operator.manifest.derive}
    yield "derived values", _wrapped(derived)
    yield f"decision: {decision.variant.id}", [str(decision), decision.variant.description]
    if not decision.can_run:
        return
    plan = plans.plan_of(scope, decision.variant, facts)
    yield "buffers", list(_buffer_lines(plan))
    yield "passes", list(_pass_lines(plan))
    for item in plan.passes:
        yield (
            f"WGSL of {item.label} ({item.template}, sha256 {item.wgsl.digest[:16]})",
            list(_wgsl_lines(item.wgsl, True)),
        )


def _wrapped(values: Mapping[str, Any], indent: str = "") -> list[str]:
    """Named values, as many to a line as 100 columns take."""
    lines, text = [], ""
    for name, value in values.items():
        shown = f"{name} = {value}"
        if text and len(indent) + len(text) + len(shown) > 100:
            lines.append(indent + text)
            text = ""
        text += ("   " if text else "") + shown
    return [*lines, indent + text] if text else lines


def _buffer_lines(plan: Plan) -> Iterator[str]:
    for b in plan.buffers:
        kept = f"{b.kind:<12} {b.dtype}{list(b.shape)} {b.packing}"
        if b.kind == "uniform":
            yield f"{b.name:<22} {b.kind:<12} {b.bytes} bytes"
            yield from _wrapped(dict(zip(b.fields, b.words, strict=False)), indent=" " * 23)
        else:
            fill = "" if b.fill is None else f", filled with 0x{b.fill:08x}"
            yield f"{b.name:<22} {kept}: {b.bytes:,} bytes + {b.guard_bytes} guard{fill}"


def _pass_lines(plan: Plan) -> Iterator[str]:
    if not plan.passes:
        yield "none: every output is empty"
    for item in plan.passes:
        bound = ", ".join(f"{b.binding}={b.buffer}" for b in item.bindings)
        yield f"{item.label}  workgroups {item.workgroups}  bindings {bound}"


def _wgsl_lines(wgsl: Wgsl, origins: bool) -> Iterator[str]:
    lines = wgsl.text.split("\n")
    if not origins:
        yield from lines
        return
    width = max((len(str(origin)) for origin in wgsl.origins if origin), default=0)
    for number, text in enumerate(lines, 1):
        origin = wgsl.origin(number)
        yield f"{str(origin) if origin else '':<{width}} | {text}"
