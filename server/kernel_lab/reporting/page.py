"""The HTML page: one file with its styles, its script and the run's data, for any browser, from disk, without network.

In: a `Report`. Out: text.
"""

import re
from pathlib import Path

from markupsafe import escape

from kernel_lab.reporting.report import Report

_FOLDER = Path(__file__).parent / "page"


def page(report: Report, title: str) -> str:
    """The whole page. The data stand in a script element as JSON, in which `<` can only be part of a string."""
    data = report.model_dump_json(exclude_defaults=True).replace("<", "\\u003c")
    parts = {
        "title": str(escape(title)),
        "css": _text("page.css"),
        "js": _text("page.js"),
        "data": data,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _text("page.html"))


def _text(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8").rstrip("\n")
