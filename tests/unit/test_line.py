"""The line from a case to its verdict, with a Lab that answers whatever a test tells it to."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernel_lab import line
from kernel_lab.browsing.browser import BrowserInfo
from kernel_lab.browsing.lab import Ran
from kernel_lab.browsing.profiles import Profile
from kernel_lab.errors import LabError
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.operators.requests import request_of
from kernel_lab.planning.facts import PACKING_FEATURE, DeviceFacts
from kernel_lab.serving.frames import Job, RunResult

Json = dict[str, Any]
FACTS = DeviceFacts(features=frozenset({PACKING_FEATURE}))
INPUTS = {"x": np.array([1, 2, 3], np.uint8)}
REFERENCE = "def reference(inputs, attrs):\n    return {'y': inputs['x'] + 1}\n"
Answer = Callable[[Job], RunResult]


class Answered(NamedTuple):
    """A job that was begun and is done."""

    answer: Ran

    def ran(self) -> Ran:
        return self.answer


class FakeLab:
    """Gives every job the same kind of answer and remembers the jobs."""

    facts = FACTS
    profile = Profile("p", Path("/chromium"))
    info = BrowserInfo("156", "/chromium", (), False, "agent", FACTS)

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.jobs: list[Job] = []

    def begin(self, job: Job) -> Answered:
        self.jobs.append(job)
        return Answered(Ran(self.answer(job), self.info, 1.0))


def equal(_: Job) -> RunResult:
    return RunResult("ok", equal=frozenset({"y"}))


def nothing(_: Job) -> RunResult:
    pytest.fail("this case must not reach the browser")


@pytest.fixture
def follow(operator_from: Callable[..., Operator], tiny_manifest: Json) -> Callable[..., Verdict]:
    """Follows one case of the tiny operator (y = x + 1), changed by these manifest keys."""

    def run(
        answer: Answer | FakeLab = equal,
        variant: str | None = None,
        manifest: Json | None = None,
        options: line.Options | None = None,
        files: dict[str, str] | None = None,
        **case: Any,
    ) -> Verdict:
        tiny_manifest.update(manifest or {})
        op = operator_from(tiny_manifest, **{"reference.py": REFERENCE, **(files or {})})
        lab: Any = answer if isinstance(answer, FakeLab) else FakeLab(answer)
        inputs = case.pop("inputs", INPUTS)
        made = Case(op.id, "c", request_of(op.id, inputs, case.pop("attrs", {})), lambda: inputs, **case)
        return line.follow(op, made, lab, variant, options)

    return run


Follow = Callable[..., Verdict]


# What is right.


def test_the_reference_decides_unless_the_case_says(
    operator_from: Callable[..., Operator], tiny_manifest: Json
) -> None:
    op = operator_from(tiny_manifest, **{"reference.py": REFERENCE})
    request = request_of(op.id, INPUTS, {})
    by_reference = Case(op.id, "c", request, lambda: INPUTS)
    expected, source = line.expected_of(op, by_reference)
    assert (expected["y"].tolist(), source) == ([2, 3, 4], "lab.test.Tiny/reference.py")
    assert line.expected_of(op, by_reference)[0] is expected
    stated = Case(op.id, "c", request, lambda: INPUTS, lambda: ({"y": np.array([9], np.uint8)}, "a card"))
    assert line.expected_of(op, stated)[1] == "a card"


def test_a_package_of_others_is_judged_by_its_cases_only(
    operator_from: Callable[..., Operator], tiny_manifest: Json
) -> None:
    op = operator_from(tiny_manifest, **{"reference.py": "raise SystemExit('never run')"})
    foreign = Operator(op.id, op.folder, None)
    with pytest.raises(LabError, match=r"reference\.py is not run"):
        line.expected_of(foreign, Case(op.id, "c", request_of(op.id, INPUTS, {}), lambda: INPUTS))


# Verdicts.


def test_equal_outputs_pass(follow: Follow) -> None:
    verdict = follow(equal)
    assert (verdict.query, verdict.outcome, verdict.summary) == ("lab.test.Tiny:c:plain", "passed", "equal")
    assert verdict.report == ""
    record = verdict.record
    assert (record["type"], record["operator"], record["case"], record["variant"]) == (
        *("result", "lab.test.Tiny", "c", "plain"),
    )
    assert (record["selected"], record["expected_from"], record["status"]) == (
        *(True, "lab.test.Tiny/reference.py", "ok"),
    )
    assert set(record["wgsl"]) == {"copy"}
    assert set(record["timings"]) == {"plan_ms", "reference_ms", "round_trip_ms", "compare_ms"}


def test_the_job_has_packed_inputs_expected_digests_and_the_deadline(follow: Follow) -> None:
    lab = FakeLab(equal)
    follow(lab, options=line.Options(deadline_ms=123))
    (job,) = lab.jobs
    assert job.inputs == {"x": b"\1\2\3\0"}
    assert list(job.expected) == ["y"]
    assert job.deadline_ms == 123


def test_bytes_that_came_back_are_compared(follow: Follow) -> None:
    right = follow(lambda _: RunResult("ok", outputs={"y": np.array([2, 3, 4], np.uint8)}))
    assert right.passed
    wrong = follow(lambda _: RunResult("ok", outputs={"y": np.array([2, 9, 4], np.uint8)}))
    assert (wrong.outcome, wrong.summary) == ("failed", "y: 1 of 3 elements differ; first at [1]")
    assert wrong.report.splitlines()[0] == "lab.test.Tiny:c:plain"
    repeat, look = wrong.report.splitlines()[-2:]
    assert repeat == "  repeat    kernel-lab run lab.test.Tiny:c:plain"
    assert look == "  look      kernel-lab debug lab.test.Tiny:c:plain"
    assert wrong.record["report"] == wrong.report


def test_damage_fails_even_where_outputs_are_equal(follow: Follow) -> None:
    verdict = follow(lambda _: RunResult("ok", equal=frozenset({"y"}), damaged=("y",)))
    assert (verdict.outcome, verdict.summary) == ("failed", "wrote past the end of y")


def test_an_output_that_did_not_come_back_is_an_error_and_no_pass(follow: Follow) -> None:
    assert follow(lambda _: RunResult("ok")).summary == "harness error"


@pytest.mark.parametrize("status", ["compile_error", "timeout", "crash", "device_lost", "out_of_memory"])
def test_any_status_but_ok_fails(follow: Follow, status: Any) -> None:
    verdict = follow(lambda _: RunResult(status, equal=frozenset({"y"}), reason="because"))
    assert (verdict.outcome, verdict.summary) == ("failed", status.replace("_", " "))
    assert "reason: because" in verdict.report
    assert verdict.record["status"] == status


# Refusals.

WRONG: Json = {"inputs": {"x": np.array([1], np.int8)}}
SENTENCE = "x: got dtype int8, but lab.test opset 1 allows uint8, float32."


def test_a_refusal_that_is_asked_for_passes_without_a_browser(follow: Follow) -> None:
    verdict = follow(nothing, refused="x: got dtype int8", **WRONG)
    assert (verdict.outcome, verdict.summary) == ("passed", f"refused, as it must be: {SENTENCE}")
    assert verdict.query == "lab.test.Tiny:c"
    assert verdict.record["status"] == "refused"


def test_a_refusal_for_another_reason_fails(follow: Follow) -> None:
    verdict = follow(nothing, refused="x: got rank", **WRONG)
    assert (verdict.outcome, verdict.summary) == ("failed", f"refused, but not for 'x: got rank': {SENTENCE}")


def test_a_refusal_that_nobody_asked_for_fails(follow: Follow) -> None:
    verdict = follow(nothing, **WRONG)
    assert (verdict.outcome, verdict.summary) == ("failed", f"refused, though it should run: {SENTENCE}")
    assert verdict.report == f"lab.test.Tiny:c\n{verdict.summary}"


def test_a_case_that_must_be_refused_and_is_not_fails(follow: Follow) -> None:
    verdict = follow(nothing, refused="x: got rank")
    assert (verdict.outcome, verdict.summary) == ("failed", "accepted, though it must be refused (for 'x: got rank')")


CHECK: Json = {"x-lab": {"valueChecks": [{"input": "x", "rule": "zero", "else": "x: got a value other than 0."}]}}


def test_values_are_looked_at(follow: Follow, tiny_manifest: Json) -> None:
    tiny_manifest["x-lab"] |= CHECK["x-lab"]
    verdict = follow(nothing, refused="x: got a value")
    assert verdict.passed
    assert follow(inputs={"x": np.zeros(3, np.uint8)}).passed


# Variants.

PLAIN: Json = {"id": "plain", "passes": [{"use": "copy"}]}


def test_a_variant_that_is_named_runs_and_is_recorded_as_not_selected(follow: Follow) -> None:
    variants = [PLAIN, {**PLAIN, "id": "other", "priority": -1, "demoteWhen": "true"}]
    verdict = follow(variant="other", manifest={"variants": variants})
    assert (verdict.query, verdict.record["selected"]) == ("lab.test.Tiny:c:other", False)


def test_a_device_without_what_the_variant_needs_is_a_skip(follow: Follow) -> None:
    needy = {**PLAIN, "requires": {"features": ["shader-f16"]}}
    verdict = follow(nothing, variant="plain", manifest={"variants": [needy]})
    assert (verdict.outcome, verdict.summary) == (
        *("skipped", "needs the feature 'shader-f16'; this adapter offers: none."),
    )
    assert verdict.report == ""


def test_a_variant_that_cannot_compute_the_case_fails_when_forced(follow: Follow) -> None:
    verdict = follow(nothing, variant="plain", manifest={"variants": [{**PLAIN, "when": "count > 3"}]})
    assert (verdict.outcome, verdict.summary) == ("failed", "needs `count > 3`, which is false here.")


def test_a_case_that_no_variant_takes_fails_and_says_why_for_each(follow: Follow) -> None:
    verdict = follow(nothing, manifest={"variants": [{**PLAIN, "when": "count > 3"}]})
    assert verdict.outcome == "failed"
    assert verdict.summary == (
        "no variant of lab.test.Tiny can run this request here: plain: needs `count > 3`, which is false here."
    )


def test_a_variant_that_does_not_exist_is_an_error(follow: Follow) -> None:
    with pytest.raises(LabError, match="there is no variant 'nobody'"):
        follow(nothing, variant="nobody")


# A run goes on after what cannot be made.


def test_a_template_that_cannot_be_rendered_fails_the_case(follow: Follow) -> None:
    verdict = follow(nothing, files={"copy.wgsl.jinja": "{{ nobody }}\n"})
    assert (verdict.query, verdict.outcome) == ("lab.test.Tiny:c:plain", "failed")
    assert verdict.summary == "copy.wgsl.jinja:1: 'nobody' is undefined"
    assert (verdict.record["status"], verdict.record["selected"]) == ("not run", True)


def test_a_case_whose_values_cannot_be_made_fails(operator_from: Callable[..., Operator], tiny_manifest: Json) -> None:
    tensor = {"dtype": "uint8", "shape": [2], "data": {"kind": "values", "values": [1, 300]}}
    text = json.dumps({"cases": [{"name": "c", "inputs": {"x": tensor}}]})
    op = operator_from(tiny_manifest, **{"reference.py": REFERENCE, "test.json": text})
    lab: Any = FakeLab(nothing)
    verdict = line.follow(op, op.cases[0], lab)
    assert (verdict.outcome, verdict.summary) == ("failed", "lab.test.Tiny/test.json: c.x: 300 does not fit uint8.")
