"""The standalone page as text: nothing in it asks a server, and nothing that it carries can end its script."""

import base64
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernel_lab import line
from kernel_lab.debugging.standalone import Sighting, standalone
from kernel_lab.operators import dtypes, operator
from kernel_lab.planning import selection
from kernel_lab.planning.facts import PACKING_FEATURE, DeviceFacts
from kernel_lab.planning.plans import Plan
from kernel_lab.planning.scopes import Scope

COPY = operator.load_all(Path(__file__).parent.parent / "operators")["lab.test.Copy"]
FACTS = DeviceFacts(features=frozenset({PACKING_FEATURE}))
EVIL = "</script><script>alert(1)</script><!-- {{data}} &lt; \u2028 \\u003c"
SEEN = Sighting("lab.test.Copy:seven:copy", "failed: y", "Chromium 1", "an adapter")


def planned(case: str) -> tuple[Plan, dict[str, bytes], dict[str, bytes]]:
    chosen = next(one for one in COPY.cases if one.name == case)
    scope = line.check(COPY, chosen)
    assert isinstance(scope, Scope)
    plan = line.plan(scope, selection.forced(line.decide(scope, FACTS), "copy"), FACTS)
    packed = dtypes.pack(chosen.inputs["x"])
    return plan, {"x": packed}, {"y": packed}


def document(text: str) -> dict[str, Any]:
    """What the page's script reads, as a browser finds it: up to the first end of a script element."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found is not None
    read: dict[str, Any] = json.loads(found[1])
    return read


def with_wgsl(plan: Plan, text: str) -> Plan:
    (item,) = plan.passes
    return replace(plan, passes=(replace(item, wgsl=replace(item.wgsl, text=text)),))


def test_what_would_end_the_script_stays_text() -> None:
    plan, inputs, expected = planned("seven")
    text = standalone(with_wgsl(plan, EVIL), inputs, expected, replace(SEEN, query=EVIL, why=EVIL))
    assert text.count("<script") == text.count("</script>") == 2
    assert list(document(text)["wgsl"].values()) == [EVIL]
    assert document(text)["seen"]["why"] == EVIL
    assert text.count("alert(1)&lt;/script&gt;") == 2  # title and heading
    without_it = standalone(plan, inputs, expected, SEEN)
    assert without_it.count("<!--") == text.count("<!--") == 0


def test_inputs_and_expected_outputs_travel_whole() -> None:
    plan, inputs, expected = planned("large")
    found = document(standalone(plan, inputs, expected, SEEN))
    data = base64.b64decode(found["inputs"]["x"], validate=True)
    assert data == inputs["x"]
    assert len(data) == 4 * 3 * 50001
    assert np.array_equal(np.frombuffer(base64.b64decode(found["expected"]["y"]), np.uint32).reshape(3, 50001),
                          next(case for case in COPY.cases if case.name == "large").inputs["x"])  # fmt: skip


def test_the_plan_is_the_one_that_the_harness_gets() -> None:
    plan, inputs, expected = planned("seven")
    found = document(standalone(plan, inputs, expected, SEEN))
    (item,) = plan.passes
    assert found["plan"]["passes"][0]["wgsl"] == item.wgsl.digest
    assert found["wgsl"] == {item.wgsl.digest: item.wgsl.text}
    assert found["fields"] == {"copy.params": ["count"]}
    assert found["plan"]["buffers"][1]["fill"] == 0xA5A5A5A5


@pytest.mark.parametrize(
    "asks",
    [r"\bsrc\s*=", r"\bhref\s*=", r"\burl\(", r"@import", r"\bfetch\(", r"XMLHttpRequest", r"\bimport\b\s*[({\"']",
     r"WebSocket", r"https?://", r"innerHTML", r"\beval\("],
)  # fmt: skip
def test_the_page_asks_nobody(asks: str) -> None:
    text = standalone(*planned("seven"), SEEN)
    assert re.search(asks, text) is None
    assert "default-src 'none'" in text


def test_equal_arguments_give_equal_pages() -> None:
    assert standalone(*planned("seven"), SEEN) == standalone(*planned("seven"), SEEN)
