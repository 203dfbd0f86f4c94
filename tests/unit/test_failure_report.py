"""The failure report: aligned rows, a marker under what is wrong, the inputs that fed it, who ran it, how to repeat."""

import shlex
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from kernel_lab.browsing.browser import BrowserInfo
from kernel_lab.judging import failure_report, verdicts
from kernel_lab.judging.failure_report import Evidence, message_lines, repeat_command
from kernel_lab.operators.cases import Case
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.operator import Operator
from kernel_lab.operators.requests import request_of
from kernel_lab.planning import plans, scopes
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.plans import Plan
from kernel_lab.planning.scopes import Scope
from kernel_lab.serving.frames import Message, RunResult

Report = Callable[..., str]
FACTS = DeviceFacts(info={"description": "llvmpipe (LLVM 15)", "vendor": "nvidia"})
INFO = BrowserInfo("156.0", "/usr/bin/chromium", (), False, "agent", FACTS)
REFERENCE = """
def reference(inputs, attrs):
    return {"y": inputs["x"]}

def inputs_of(index, inputs, attrs):
    return {"x": [(i,) for i in range(index[0] + 1)] if len(index) == 1 else [index], "bias": []}
"""
TEMPLATE = "fn first() {}\n{% include 'part.wgsl.jinja' %}\n@compute @workgroup_size(64)\nfn main() {}\n"


@pytest.fixture
def tiny(operator_from: Callable[..., Operator], tiny_manifest: dict[str, Any]) -> Operator:
    files = {"reference.py": REFERENCE, "copy.wgsl.jinja": TEMPLATE, "part.wgsl.jinja": "// part\n  let a = b;\n"}
    return operator_from(tiny_manifest, **files)


@pytest.fixture
def plan(tiny: Operator) -> Plan:
    return _plan(tiny, np.zeros(2, np.uint8))


def _plan(tiny: Operator, x: Array) -> Plan:
    scope = scopes.scope_of(tiny, request_of(tiny.id, {"x": x}, {}))
    assert isinstance(scope, Scope)
    return plans.plan_of(scope, tiny.variant("plain"), DeviceFacts())


@pytest.fixture
def report(tiny: Operator) -> Report:
    """The report of a run that gave `actual` where `expected` is right (or of a result that is given)."""

    def make(actual: Array, expected: Array, **result: Any) -> str:
        inputs = {"x": expected.astype(np.float32)}
        case = Case(
            tiny.id, "some case", request_of(tiny.id, inputs, {}), lambda: MappingProxyType(inputs), why="It says why."
        )
        came_back = RunResult(**{"status": "ok", "outputs": {"y": actual}, **result})
        found = verdicts.finding(came_back, {"y": expected})
        repeat = repeat_command(f"{case.query}:plain")
        plan = _plan(tiny, inputs["x"])
        return failure_report.report(
            Evidence(tiny, case, "plain", plan, came_back, found, INFO, "the reference", repeat)
        )

    return make


def test_rows_are_aligned_and_the_marker_stands_under_the_wrong_element(report: Report) -> None:
    right = np.arange(100, 110, dtype=np.int32)
    wrong = right.copy()
    wrong[4] = -2147483648
    lines = report(wrong, right).splitlines()
    assert lines[0] == "lab.test.Tiny:some case:plain"
    assert lines[1:3] == ["y: 1 of 10 elements differ; first at [4]", "this case: It says why."]
    assert lines[4:8] == [
        "  index     [3]          [4]  [5]  [6]  [7]  [8]",
        "  actual    103  -2147483648  105  106  107  108",
        "  expected  103          104  105  106  107  108",
        "                 ^^^^^^^^^^^",
    ]


def test_every_wrong_element_in_the_rows_is_marked(report: Report) -> None:
    right = np.array([1, 2, 3, 4], np.uint8)
    lines = report(np.array([9, 2, 9, 4], np.uint8), right).splitlines()
    assert lines[7].split() == ["^", "^"]
    assert [place for place, char in enumerate(lines[7]) if char == "^"] == [
        place for place, char in enumerate(lines[5]) if char == "9"
    ]


def test_the_sign_of_zero_shows(report: Report) -> None:
    lines = report(np.array([-0.0], np.float32), np.array([0.0], np.float32)).splitlines()
    assert [line.split()[-1] for line in lines[5:8]] == ["-0.0", "0.0", "^^^^"]


def test_nan_beside_nan_is_not_marked(report: Report) -> None:
    right = np.array([0x7FC00000, 0x3F800000], np.uint32).view(np.float32)
    wrong = np.array([0x7FC00001, 0x40000000], np.uint32).view(np.float32)
    lines = report(wrong, right).splitlines()
    assert lines[5].split() == ["actual", "nan", "2.0"]
    assert lines[7].split() == ["^^^"]
    assert lines[7].index("^") == lines[5].index("2.0")


def test_rows_fit_80_columns_and_always_show_the_first_wrong_element(report: Report) -> None:
    right = np.zeros((2, 30, 40, 50), np.float32)
    wrong = right.copy()
    wrong[1, 29, 39, 45] = np.float32(1 / 3)
    rows = report(wrong, right).splitlines()[4:8]
    assert max(map(len, rows)) <= 80
    assert "[1,29,39,45]" in rows[0]
    assert "^" in rows[3]
    assert len(rows[0].split()) > 3


def test_rank_0(report: Report) -> None:
    lines = report(np.array(1, np.int32), np.array(2, np.int32)).splitlines()
    assert lines[4].split() == ["index", "[]"]
    assert "    x: []=2.0" in lines


def test_inputs_that_fed_the_element(report: Report) -> None:
    right = np.arange(20, dtype=np.uint8)
    wrong = right.copy()
    wrong[1] = 77
    text = report(wrong, right)
    assert (
        "  fed by these inputs (element [1]):\n    x: [0]=0.0 [1]=1.0\n    bias: none (all of them padding)\n" in text
    )
    wrong = right.copy()
    wrong[15] = 77
    assert "[11]=11.0 … and 4 more" in report(wrong, right)


def test_wrong_shape_is_said_and_no_element_is_compared(report: Report) -> None:
    text = report(np.zeros((2, 3), np.uint8), np.zeros(6, np.uint8))
    assert text.splitlines()[1] == "y: got uint8[2, 3], expected uint8[6]"
    assert "index" not in text
    assert "fed by" not in text


def test_damage_reason_and_attempts_are_said(report: Report) -> None:
    y = np.zeros(2, np.uint8)
    text = report(y, y, damaged=("y",))
    assert text.splitlines()[1] == "wrote past the end of y"
    assert "The guard words behind y were overwritten" in text
    lost = report(y, y, status="device_lost", reason="the GPU process died", attempts=2)
    assert lost.splitlines()[1] == "device lost"
    assert "reason: the GPU process died\ntried 2 times, the last time on a new device\n" in lost


def test_who_ran_it(report: Report) -> None:
    lines = report(np.zeros(1, np.uint8), np.ones(1, np.uint8)).splitlines()
    who = {line.split()[0]: line for line in lines[lines.index("  variant   plain") :]}
    assert who["adapter"] == "  adapter   llvmpipe (LLVM 15) (reported ids are spoofed)"
    assert who["browser"] == "  browser   156.0 (/usr/bin/chromium)"
    assert who["expected"] == "  expected  from the reference"
    assert who["wgsl"].endswith("  copy.wgsl.jinja (copy)")
    assert list(who)[-1] == "repeat"


@pytest.mark.parametrize("query", ["a.b:case:plain", "a.b:two words:plain", "a:b'c:*", "a:$HOME;x:y"])
def test_repeat_command_survives_a_shell(query: str) -> None:
    assert shlex.split(repeat_command(query)) == ["kernel-lab", "run", query]
    command = repeat_command(query, ("kernel-lab", "onnx", "a model.onnx"))
    assert command.startswith("kernel-lab onnx ")


def test_compile_message_names_the_template_line_and_marks_the_place(plan: Plan) -> None:
    """Rendered line 3 is the included file's second line; the marker stands under `b`."""
    label = "lab.test.Tiny:plain:copy"
    lines = message_lines(Message("error", "no b\n", label, line=3, column=11, length=1), plan)
    assert lines == [
        f"error in {label} at part.wgsl.jinja:2 (template), line 3:11 (rendered):",
        "  no b",
        "      3 |   let a = b;",
        "        |           ^",
    ]


@pytest.mark.parametrize(
    "place",
    [
        {"line": 3, "column": 11, "length": 500},
        {"line": 3, "column": 500, "length": 3},
        {"line": 3, "column": 0, "length": 0},
        {"line": 500, "column": 1},
        {"line": 0},
    ],
)
def test_a_message_from_anywhere_is_shown(plan: Plan, place: dict[str, int]) -> None:
    lines = message_lines(Message("error", "no b", "lab.test.Tiny:plain:copy", **place), plan)
    assert lines[1] == "  no b"
    assert max(map(len, lines)) < 600


def test_a_message_of_no_pass_names_the_plan(plan: Plan) -> None:
    assert message_lines(Message("warning", "hm"), plan) == ["warning in lab.test.Tiny:plain:", "  hm"]
