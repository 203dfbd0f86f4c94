"""What the harness must notice: each variant of the copy operator is wrong in one way, and each way is named."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from kernel_lab import line
from kernel_lab.browsing.lab import Lab
from kernel_lab.browsing.profiles import Profile
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator

Follow = Callable[..., Verdict]


@pytest.mark.parametrize("case", ["seven", "nothing", "large"])
def test_right_is_right(follow: Follow, case: str) -> None:
    verdict = follow("copy", case)
    assert verdict.passed, verdict.report


def test_refusal_that_is_asked_for_passes(follow: Follow) -> None:
    verdict = follow(None, "wrong_dtype")
    assert verdict.passed
    assert "x: got dtype int8" in verdict.summary


def test_wrong_element_is_shown_with_its_neighbours_and_its_inputs(follow: Follow) -> None:
    verdict = follow("off_by_one")
    assert verdict.outcome == "failed"
    assert "y: 1 of 7 elements differ; first at [5]" in verdict.report
    rows = [row.split() for row in verdict.report.splitlines()]
    assert ["index", "[4]", "[5]", "[6]"] in rows
    assert ["actual", "55", "67", "4294967295"] in rows
    assert ["expected", "55", "66", "4294967295"] in rows
    assert "x: [5]=66" in verdict.report
    for needed in (
        "variant   off_by_one",
        "adapter ",
        "browser ",
        "wgsl ",
        "kernel-lab run lab.test.Copy:seven:off_by_one",
    ):
        assert needed in verdict.report


def test_store_behind_the_tensor_damages_a_guard(follow: Follow) -> None:
    """All elements are right; only the guard words tell."""
    verdict = follow("past_the_end")
    assert verdict.outcome == "failed"
    assert verdict.summary == "wrote past the end of y"


def test_word_never_written_shows_as_poison(follow: Follow) -> None:
    """Element 2 is expected to be 0, which is what a fresh buffer would hold."""
    verdict = follow("unwritten")
    assert verdict.outcome == "failed"
    assert str(0xA5A5A5A5) in verdict.report


def test_compile_error_is_reported_at_the_template_line(follow: Follow) -> None:
    """The error stands in an included file, inside a loop: that file's line is named, and no number is compared."""
    verdict = follow("type_error")
    assert verdict.record["status"] == "compile_error"
    assert verdict.summary == "compile error"
    template = "spoil.wgsl.jinja"
    line = _line_of(template, "_wrong: u32 = 1.5")
    assert f"{template}:{line} (template)" in verdict.report
    assert "let first_wrong: u32 = 1.5;" in verdict.report
    assert "elements differ" not in verdict.report


def test_pipeline_error_is_caught_by_its_scope(follow: Follow) -> None:
    """Without error scopes an invalid pipeline is a silent no-op that leaves the poison, or zeros, behind."""
    verdict = follow("too_wide")
    assert verdict.record["status"] == "validation_error", verdict.report
    assert "lab.test.Copy:too_wide:copy" in verdict.report


def test_bindings_are_the_plans_not_the_shaders(follow: Follow) -> None:
    verdict = follow("swapped_access")
    assert verdict.record["status"] == "validation_error", verdict.report


def test_missing_feature_is_a_skip_with_its_reason(
    lab_profile: Profile, copy_operator: Operator, copy_case: Callable[[str], Case]
) -> None:
    """The profile masks shader-f16, so that the test means the same on an adapter that has it."""
    with Lab(replace(lab_profile, hidden=("shader-f16",))) as lab:
        verdict = line.follow(copy_operator, copy_case("seven"), lab, "wants_f16")
        assert verdict.outcome == "skipped"
        assert "shader-f16" in verdict.summary
        assert line.follow(copy_operator, copy_case("seven"), lab, "copy").passed


def test_request_that_no_variant_takes_is_a_failure(
    lab: Lab, copy_operator: Operator, copy_case: Callable[[str], Case]
) -> None:
    only_f16 = copy_operator.manifest.model_copy(update={"variants": [copy_operator.variant("wants_f16")]})
    poorer = Operator(copy_operator.id, copy_operator.folder, copy_operator.reference_file)
    poorer.__dict__["manifest"] = only_f16
    if "shader-f16" in lab.facts.features:
        assert line.follow(poorer, copy_case("seven"), lab).passed
    else:
        verdict = line.follow(poorer, copy_case("seven"), lab)
        assert verdict.outcome == "failed"
        assert "no variant of lab.test.Copy" in verdict.summary


def _line_of(template: str, text: str) -> int:
    from tests.harness.conftest import OPERATORS

    lines = (OPERATORS / "lab.test.Copy" / template).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)
