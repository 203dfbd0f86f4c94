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


@pytest.mark.parametrize("name", ["inputs_of", "steps_of"])
def test_so_is_what_its_other_functions_raise(tmp_path: Path, name: str) -> None:
    (tmp_path / "reference.py").write_text(
        f"def reference(x, attrs): ...\ndef {name}(index, x, attrs):\n    return x[9]\n"
    )
    with pytest.raises(LabError, match=r"reference\.py: line 3: IndexError: "):
        getattr(references.load(tmp_path / "reference.py"), name)((0,), [], {})


def test_so_is_what_a_mistake_or_a_value_raises(tmp_path: Path) -> None:
    given = "MISTAKES = {'m': fails}\nINTERMEDIATES = {'v': {'of': fails}}\n"
    text = f"def reference(x, attrs): ...\ndef fails(x, attrs):\n    return x[9]\n{given}"
    (tmp_path / "reference.py").write_text(text)
    found = references.load(tmp_path / "reference.py")
    for function in (found.mistakes["m"], found.values["v"].of):
        with pytest.raises(LabError, match=r"reference\.py: line 3: IndexError: "):
            function([], {})  # type: ignore[arg-type]  # whatever: it fails
