"""A reference that is no Python, or that raises, is a sentence with its file and line."""

from pathlib import Path

import numpy as np
import pytest

from kernel_lab.errors import LabError
from kernel_lab.operators import references


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def reference(inputs, attrs:\n", r"reference\.py: line 1: is no Python: "),
        ("import numpy\n\nnumpy.nothing()\n", r"reference\.py: line 3: AttributeError: .*nothing"),
    ],
)
def test_a_reference_that_cannot_be_loaded_is_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "reference.py").write_text(text)
    with pytest.raises(LabError, match=sentence):
        references.load(tmp_path / "reference.py")


def test_what_a_reference_raises_is_a_sentence_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text("def reference(x, attrs):\n    y = x['x']\n    return y / attrs['z']\n")
    reference = references.load(tmp_path / "reference.py")
    with pytest.raises(LabError, match=r"reference\.py: line 3: KeyError: 'z'\.$"):
        reference.compute({"x": np.zeros(2)}, {})
