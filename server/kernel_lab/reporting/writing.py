"""Writes a report into a folder: run.json and report.html. The only side effects of this package."""

import datetime
from collections.abc import Sequence
from pathlib import Path

from kernel_lab.errors import LabError
from kernel_lab.reporting.page import page
from kernel_lab.reporting.report import Part, Report, report_of

JSON_FILE = "run.json"
PAGE_FILE = "report.html"


def write(folder: Path, parts: Sequence[Part]) -> Report:
    """Both files, in a folder that is made if need be; LabError if they cannot be written."""
    now = datetime.datetime.now(datetime.UTC)
    report = report_of(parts, now.isoformat(timespec="seconds"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / JSON_FILE).write_text(report.model_dump_json(indent=1, exclude_defaults=True) + "\n", "utf-8")
        (folder / PAGE_FILE).write_text(page(report, f"{now:%d %B %Y, %H:%M} UTC"), "utf-8")
    except OSError as error:
        raise LabError(
            f"the report cannot be written to {folder}: {error.strerror}. Choose another with --out."
        ) from None
    return report
