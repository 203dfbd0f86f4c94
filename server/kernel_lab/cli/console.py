"""What all verbs share on the terminal: the console, the options of a browser, JSON output."""

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console

from kernel_lab.browsing.profiles import Profile, resolve

# Rich's own highlighting colours numbers and quotes at random places; kernel-lab colours outcomes only.
out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

BrowserOption = Annotated[
    str, typer.Option("--browser", metavar="NAME", help="default, swiftshader, hardware, or the path of a Chromium.")
]
HeadedOption = Annotated[bool, typer.Option("--headed", help="Show the browser's window.")]
MaskOption = Annotated[
    list[str] | None,
    typer.Option("--mask", metavar="FEATURE", help="Hide a feature or WGSL language feature; may be repeated."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
QueryArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[OP[:CASE[:VARIANT]]]...", help="What to take; `*` matches. Default: all."),
]


def profile(browser: str, headed: bool, mask: list[str] | None) -> Profile:
    return resolve(browser, headed=headed, hidden=tuple(mask or ()))


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def mark(outcome: str) -> str:
    """An outcome in a colour that also differs in brightness and in its word, for any pair of eyes."""
    style = {"passed": "cyan", "failed": "bold yellow on red", "skipped": "dim"}[outcome]
    return f"[{style}]{outcome}[/]"
