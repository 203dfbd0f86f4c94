"""One case as one HTML file that shows its failure in any WebGPU browser: what one attaches to a bug report.

In: a plan, its packed inputs, the packed outputs that are right, and who saw what. Out: the page's text. Pure. The page
opens from disk and asks no server for anything: its own runner (standalone_page/runner.js) is all that runs the plan.
"""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from markupsafe import escape

from kernel_lab.planning.plans import Plan
from kernel_lab.serving import frames

_FOLDER = Path(__file__).parent / "standalone_page"
_PARTS = ("page.css", "values.js", "runner.js", "page.js")


@dataclass(frozen=True, slots=True)
class Sighting:
    """Who saw what: `summary` is that browser's verdict in a line, `expected_from` who says what is right.

    `query`: OPERATOR:CASE:VARIANT; `repeat`: the command that runs it again with kernel-lab.
    """

    query: str
    summary: str
    browser: str
    adapter: str
    why: str = ""
    user_agent: str = ""
    flags: tuple[str, ...] = ()
    expected_from: str = ""
    repeat: str = ""


def standalone(
    plan: Plan, inputs: Mapping[str, bytes], expected: Mapping[str, bytes], sighting: Sighting, title: str = ""
) -> str:
    """The whole page. `inputs`: by buffer, `expected`: by output, both packed as the plan says."""
    document = {
        "plan": frames.plan_header(plan),
        "wgsl": {p.wgsl.digest: p.wgsl.text for p in plan.passes},
        "templates": {p.label: p.template for p in plan.passes},
        "origins": {p.wgsl.digest: [str(origin) if origin else "" for origin in p.wgsl.origins] for p in plan.passes},
        "fields": {b.name: b.fields for b in plan.buffers if b.fields},
        "inputs": {name: _base64(data) for name, data in inputs.items()},
        "expected": {name: _base64(data) for name, data in expected.items()},
        "emulated": plan.emulated,
        "seen": asdict(sighting),
    }
    parts = {name: (_FOLDER / name).read_text("utf-8").rstrip("\n") for name in _PARTS}
    parts |= {"title": str(escape(title or sighting.query)), "data": _json(document)}
    shell = (_FOLDER / "page.html").read_text("utf-8")
    return re.sub(r"\{\{([\w.]+)\}\}", lambda found: parts[found[1]], shell)


def _json(document: Mapping[str, Any]) -> str:
    """JSON for a script element. In it `<` can only be part of a string, so that no WGSL ends the element early."""
    return json.dumps(document, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
