"""What a failure leaves in a folder: its report, plan, WGSL and tensors, and the page that shows it anywhere.

In: the evidence of a failed run. Out: files. LabError if they cannot be written. Runs nothing.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from kernel_lab import line
from kernel_lab.debugging import saving
from kernel_lab.errors import LabError
from kernel_lab.judging.failure_report import Evidence
from kernel_lab.operators import dtypes
from kernel_lab.operators.dtypes import Array
from kernel_lab.serving import frames

PAGE_FILE = "page.html"
PICTURE_FILE = "page.png"


def write(folder: Path, evidence: Evidence, report: str) -> Path:
    """The folder, with report.txt, plan.json, one .wgsl a pass, tensors.npz and page.html."""
    plan, case = evidence.plan, evidence.case
    expected, _ = line.expected_of(evidence.operator, case)
    summary = f"failed: {evidence.finding.summary}"
    query = f"{case.query}:{evidence.variant}"
    seen = saving.sighting(evidence.info, case, query, summary, evidence.expected_from, evidence.repeat)
    texts = {
        "report.txt": report + "\n",
        "plan.json": json.dumps(frames.plan_header(plan), indent=1) + "\n",
        PAGE_FILE: saving.page_of(evidence.operator, case, plan, seen),
        **{f"{number}-{_name(p.label)}.wgsl": p.wgsl.text for number, p in enumerate(plan.passes, 1)},
    }
    tensors = {f"input.{name}": array for name, array in case.inputs.items()}
    tensors |= {f"expected.{name}": array for name, array in expected.items()}
    tensors |= {f"actual.{name}": array for name, array in evidence.result.outputs.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, "utf-8")
        kept: dict[str, Any] = dict(map(_storable, tensors.items()))
        np.savez_compressed(folder / "tensors.npz", **kept)
    except OSError as error:
        raise LabError(f"what the failure leaves cannot be written to {folder}: {error.strerror}.") from None
    return folder


def _storable(item: tuple[str, Array]) -> tuple[str, Array]:
    """Types that numpy itself lacks as their codes: unsigned bits, with the dtype in the name."""
    name, array = item
    if array.dtype.kind in "iuf" and array.dtype.isbuiltin == 1:
        return name, array
    return f"{name}.{dtypes.of_array(array).name}", dtypes.raw_codes(array).reshape(array.shape)


def _name(label: str) -> str:
    return label.rpartition(":")[2]
