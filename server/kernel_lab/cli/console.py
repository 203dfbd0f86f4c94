"""What all verbs share on the terminal: the console, the options of a browser, JSON output."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from kernel_lab.browsing import masks
from kernel_lab.browsing.profiles import Profile, resolve
from kernel_lab.errors import LabError
from kernel_lab.operators import operator
from kernel_lab.operators.operator import Operator

# Rich's own highlighting colours numbers and quotes at random places; kernel-lab colours outcomes only.
# Emoji codes are off: in a query, `:seven:` is a case.
out = Console(highlight=False, emoji=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)

BrowserOption = Annotated[
    str,
    typer.Option(
        "--browser",
        metavar="NAME",
        help="default, swiftshader, lavapipe, hardware, a name that `browsers list` shows, the path of a Chromium, or "
        "the address of one on another machine (ws://…, cdp+http://…).",
    ),
]
HeadedOption = Annotated[bool, typer.Option("--headed", help="Show the browser's window.")]
MaskOption = Annotated[
    list[str] | None,
    typer.Option("--mask", metavar="FEATURE", help="Hide a feature or WGSL language feature; may be repeated."),
]
LimitOption = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="NAME=VALUE", help="Lower a limit of the adapter; may be repeated."),
]
SubgroupsOption = Annotated[
    str | None, typer.Option("--subgroups", metavar="LOW-HIGH", help="Claim that range of subgroup sizes, as 4-128.")
]
EmulateOption = Annotated[
    bool,
    typer.Option("--emulate-matrices", help="Plain WGSL stands in for subgroup matrices, whatever the adapter has."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
QueryArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[OP[:CASE[:VARIANT]]]...", help="What to take; `*` matches. Default: all."),
]


PackageOption = Annotated[
    list[Path] | None,
    typer.Option("--package", metavar="DIR", help="Take operators from there, not kernel-lab's own; may be repeated."),
]
ReferenceOption = Annotated[
    Path | None,
    typer.Option("--reference", metavar="FILE", help="A reference.py to trust for --package."),
]


def operators(packages: list[Path] | None, reference: Path | None = None) -> dict[str, Operator]:
    """kernel-lab's own operators, or those of the packages."""
    if reference is not None and not packages:
        raise LabError("--reference belongs to --package: kernel-lab's own operators have theirs.")
    return operator.load_packages(packages, reference) if packages else operator.load_all()


def profile(
    browser: str,
    headed: bool = False,
    mask: list[str] | None = None,
    limit: list[str] | None = None,
    subgroups: str | None = None,
    emulate_matrices: bool = False,
) -> Profile:
    """The browser that the options name, with what they hide of it."""
    hidden = masks.parse(mask or (), limit or (), subgroups, emulate_matrices=emulate_matrices)
    return resolve(browser, headed=headed, mask=hidden)


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def mark(outcome: str) -> str:
    """An outcome in a colour that also differs in brightness and in its word, for any pair of eyes."""
    style = {"passed": "cyan", "known": "magenta", "failed": "bold yellow on red", "skipped": "dim"}[outcome]
    return f"[{style}]{outcome}[/]"
