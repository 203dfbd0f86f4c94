"""The desk: what the debug page may ask, and the sentence for what it may not."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kernel_lab.debugging.desk import Desk
from kernel_lab.errors import LabError
from kernel_lab.operators import operator
from kernel_lab.planning.facts import WEBGPU_DEFAULT_LIMITS
from kernel_lab.serving import wire

OPERATORS = Path(__file__).parents[1] / "operators"
FACTS: dict[str, Any] = {"adapter": {"vendor": "v"}, "features": [], "limits": dict(WEBGPU_DEFAULT_LIMITS)}


@pytest.fixture
def desk() -> Desk:
    return Desk(operator.load_all(OPERATORS))


def opened(desk: Desk, query: str, **more: Any) -> tuple[dict[str, Any], list[memoryview]]:
    return wire.decode(desk.specimen({"query": query, "facts": FACTS, **more}))


def test_a_specimen_holds_all_that_a_page_needs(desk: Desk) -> None:
    header, blobs = opened(desk, "Copy:seven:twin")
    assert (header["query"], header["variant"], header["selected"]) == ("lab.test.Copy:seven", "twin", "copy")
    (item,) = header["plan"]["passes"]
    text = header["wgsl"][item["wgsl"]]
    assert len(header["passes"][0]["origins"]) == len(text.split("\n"))
    assert set(header["templates"]) == {file for file, _ in filter(None, header["passes"][0]["origins"])}
    assert bytes(blobs[header["inputs"][0]["blob"]]) == bytes(blobs[header["expected"][0]["blob"]])
    assert header["stamp"] == desk.stamp("Copy")["stamp"]


def test_a_refused_case_says_so_and_no_more(desk: Desk) -> None:
    header, blobs = opened(desk, "Copy:wrong_dtype")
    assert header["refused"].startswith("x: got dtype int8")
    assert "plan" not in header
    assert blobs == []


def test_a_variant_that_cannot_run_says_why(desk: Desk) -> None:
    header, _ = opened(desk, "Copy:seven:wants_f16")
    assert header["unplanned"].startswith("wants_f16: needs the feature 'shader-f16'")


@pytest.mark.parametrize(
    ("ask", "body", "sentence"),
    [
        ("specimen", {"query": "Copy:seven"}, r"facts: Field required\."),
        ("specimen", {"query": "Copy:eight", "facts": FACTS}, "lab.test.Copy has no case 'eight'"),
        ("specimen", {"query": "Cpy:seven", "facts": FACTS}, "operator 'Cpy' is unknown; known are lab.test.Copy"),
        ("specimen", {"query": "Copy:seven:none", "facts": FACTS}, "there is no variant 'none'"),
        ("specimen", {"query": "Copy:seven", "facts": {"adapter": None, "reason": "no GPU"}}, "no adapter: no GPU"),
        ("specimen", {"query": "Copy:seven", "facts": FACTS, "more": 1}, r"more: Extra inputs are not permitted\."),
        ("element", {"query": "Copy:seven", "output": "y", "index": [7]}, r"y\[7\] lies outside of its shape \[7\]"),
        ("inspect", {"query": "Copy:seven", "facts": FACTS, "buffer": "y"}, "a debug run needs a variant"),
        ("inspect", {"query": "Copy:wrong_dtype:copy", "facts": FACTS}, "is refused: x: got dtype int8"),
        (
            "inspect",
            {"query": "Copy:seven:copy", "facts": FACTS, "buffer": "y", "index": [0], "words": "zz"},
            "words: these are not the words of that debug run",
        ),
        ("save", {"query": "Copy:wrong_dtype", "facts": FACTS, "summary": ""}, "so there is nothing to run"),
    ],
)
def test_what_cannot_be_answered_is_a_sentence(desk: Desk, ask: str, body: dict[str, Any], sentence: str) -> None:
    with pytest.raises(LabError, match=sentence):
        getattr(desk, ask)(body)


def test_a_changed_file_has_another_stamp(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(OPERATORS, tmp_path / "operators"))
    desk = Desk(operator.load_all(folder))
    before = desk.stamp("Copy")["stamp"]
    file = folder / "lab.test.Copy" / "test.json"
    file.write_text(file.read_text().replace('"seven"', '"sieben"', 1))
    assert desk.stamp("Copy")["stamp"] != before
    assert opened(desk, "Copy:sieben:copy")[0]["case"] == "sieben"


def test_a_reference_is_read_anew_though_its_length_and_its_second_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own bytecode files know a text by these two."""
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    folder = Path(shutil.copytree(OPERATORS, tmp_path / "operators"))
    reference = (folder / "lab.test.Copy" / "reference.py").rename(tmp_path / "trusted.py")
    text = reference.read_text()
    found = []
    for wrong in ('inputs["x"] + 3', 'inputs["x"] + 4'):
        reference.write_text(text.replace('inputs["x"].copy()', wrong))
        os.utime(reference, (1e9, 1e9))
        if not found:
            desk = Desk(operator.load_packages([folder], reference))
        desk.stamp("Copy")
        found.append(desk.element({"query": "Copy:seven", "output": "y", "index": [2]})["expected"])
    assert found == ["3", "4"]
