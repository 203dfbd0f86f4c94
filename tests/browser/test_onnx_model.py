"""A real model, the text detector of PP-OCRv4, quantised in three ways: every quantised node with real activations."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from kernel_lab.importing import collecting, expectation, feeds, runtime
from kernel_lab.pytest_plugin import Judge
from kernel_lab.queries import Query

RECIPE = Path(__file__).parents[1] / "models" / "ppocr.py"
SIZE = 64
"""Pixels; the software adapter takes seconds for this size, minutes for a real one."""
pytestmark = pytest.mark.xdist_group("ppocr")  # one worker makes the models


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, lacking: Callable[[str], NoReturn]) -> Path:
    """The folder with what tests/models/ppocr.py makes."""
    folder = tmp_path_factory.mktemp("ppocr")
    command = [sys.executable, str(RECIPE), str(folder), "--size", str(SIZE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 2:
        lacking(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(
    ("form", "counts"),
    [
        ("ppocr_qlinear", {"com.microsoft.QLinearConv": 62, "ai.onnx.DequantizeLinear": 37}),
        ("ppocr_dynamic", {"ai.onnx.ConvInteger": 62}),
        ("ppocr_qdq", {"ai.onnx.DequantizeLinear": 520}),
    ],
)
def test_every_node(form: str, counts: dict[str, int], models: Path, lab_judge: Judge) -> None:
    """Each equals ONNX Runtime's value to the bit, but for what 16-bit saturation does to that on CPUs without VNNI."""
    feeding = feeds.feeding(models / "inputs.npz", 0, [])
    imported = collecting.collect([models / f"{form}.onnx"], feeding)
    assert Counter(case.operator for case in imported.cases) == counts
    verdicts = [lab_judge(pair) for pair in collecting.pairs(imported.cases, [Query()], every_variant=False)]
    failed = [verdict.report for verdict in verdicts if not verdict.passed]
    assert not failed, f"{len(failed)} of {len(verdicts)} nodes:\n" + "\n\n".join(failed[:3])
    sources = {str(verdict.record["expected_from"]) for verdict in verdicts}
    name = runtime.name()
    assert sources <= {name, f"{expectation.REFERENCE} ({name} saturates pairs at 16 bits on this machine)"}
