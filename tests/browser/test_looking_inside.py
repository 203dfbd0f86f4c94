"""Looking inside every variant of our operators: who wrote an element, and probes anywhere, without changing a result.

That the writer is right is seen without asking it again: with only the workgroups before its own, the element is not
written; with its own, it is.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernel_lab import line, resources
from kernel_lab.browsing.lab import Lab
from kernel_lab.debugging import probing, writers
from kernel_lab.debugging.instrument import BUFFER
from kernel_lab.debugging.records import EVERY
from kernel_lab.judging.verdicts import finding
from kernel_lab.mutating.survey import Trial, trials_of
from kernel_lab.operators import dtypes, operator
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.operator import Operator
from kernel_lab.planning import plans, scopes
from kernel_lab.planning.plans import POISON, Plan
from kernel_lab.planning.scopes import Scope
from kernel_lab.serving import frames
from kernel_lab.serving.frames import RunResult

MOST_WORKGROUPS = 64
"""Of a trial's last pass: as many as possible up to this, so that most of them are not the element's."""

EACH = [
    pytest.param(op.id, variant.id, marks=pytest.mark.xdist_group(f"{op.id}:{variant.id}"))
    for op in operator.load_all().values()
    for variant in op.manifest.variants
]


def trial_of(op: Operator, lab: Lab, variant: str) -> Trial:
    found = [trial for trial in trials_of(op, lab.facts, variant) if trial.plan.passes]
    if not found:
        pytest.skip("no case runs on this variant here")
    return max(found, key=lambda trial: _workgroups(trial.plan))


def _workgroups(plan: Plan) -> int:
    count = int(np.prod(plan.passes[-1].workgroups))
    return count if count <= MOST_WORKGROUPS else -count


@pytest.mark.parametrize(("op", "variant"), EACH)
def test_the_writer_of_an_element_is_the_one_without_whom_it_is_not_written(lab: Lab, op: str, variant: str) -> None:
    trial = trial_of(operator.named(op), lab, variant)
    expected, _ = line.expected_of(trial.operator, trial.case)
    [output] = trial.plan.outputs
    element = _telling(expected[output.name])
    plan, decode = writers.writers_of(trial.plan, output.name, element)

    def run(plan: Plan) -> RunResult:
        return lab.run(frames.job_of(plan, trial.case.inputs, expected, line.DEADLINE_MS, (BUFFER, output.buffer)))

    result = run(plan)
    assert finding(result, expected).summary == "equal"  # what watches the stores changes none
    found = decode(result.read[BUFFER])
    assert found.lost == 0
    [writer] = found.found  # in our kernels an invocation owns its words
    x, y, z = writer.invocation.workgroup_id
    item = next(item for item in plan.passes if item.label == writer.site.label)
    assert (y, z, *item.workgroups[1:]) == (0, 0, 1, 1)
    for workgroups, written in ((x, False), (x + 1, True)):
        few = replace(item, workgroups=(workgroups, 1, 1))
        result = run(replace(plan, passes=tuple(few if one is item else one for one in plan.passes)))
        assert result.status == "ok", result.messages
        assert bool(decode(result.read[BUFFER]).found) == written
        right = result.read[output.buffer][element].tobytes() == expected[output.name][element].tobytes()
        assert right == written


def _telling(array: Array) -> tuple[int, ...]:
    """The last element whose right value is not what the buffer holds before."""
    poison = np.full(array.size, POISON, np.uint32).tobytes()
    before = dtypes.unpack(poison, dtypes.of_array(array), array.shape)
    differs = dtypes.raw_codes(array) != dtypes.raw_codes(before)
    return tuple(int(at) for at in np.unravel_index(int(np.flatnonzero(differs)[-1]), array.shape))


# Probes behind statements drawn at random, in kernels with barriers and without.

PROBED = [
    ("ai.onnx.ConvInteger", "accumulate_spatial"),
    ("ai.onnx.ConvInteger", "dp4a_pointwise_1x1_tail"),
    ("ai.onnx.ConvInteger", "matrix_i8_im2col"),
    ("ai.onnx.DequantizeLinear", "general"),
    ("ai.onnx.DequantizeLinear", "vectors_axis"),
    ("com.microsoft.QLinearConv", "depthwise_nhwc"),
    ("com.microsoft.QLinearConv", "nchw2d_columns_x4"),
    ("com.microsoft.QLinearConv", "portable_f32_im2col_nchw_row"),
    ("com.microsoft.QLinearConv", "precast_f16_pointwise_nhwc_column"),
]


@pytest.fixture(scope="module")
def with_probes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Operator]:
    """The operator, with a probe behind about every fourth statement of its templates."""

    def lines_of(path: Path, draw: random.Random) -> Iterator[str]:
        for number, text in enumerate(path.read_text("utf-8").split("\n"), 1):
            yield text
            if text.endswith(";") and draw.random() < 0.25:
                yield f'{{{{ probe("{path.name}:{number}", "{number}u") }}}}'

    def make(op: str) -> Operator:
        folder = tmp_path_factory.mktemp(op)
        draw = random.Random(op)
        for shaders in (resources.shaders() / op, resources.shaders() / operator.SHARED):
            for path in sorted(shaders.glob("*.jinja")):
                (folder / path.name).write_text("\n".join(lines_of(path, draw)), "utf-8")
        return operator.with_templates(operator.named(op), folder)

    return make


@pytest.mark.parametrize(("op", "variant"), PROBED)
def test_probes_anywhere_change_no_result(
    lab: Lab, with_probes: Callable[[str], Operator], op: str, variant: str
) -> None:
    trial = trial_of(operator.named(op), lab, variant)
    probed = with_probes(op)
    scope = scopes.scope_of(probed, trial.case.request)
    assert isinstance(scope, Scope)
    plan, decode = probing.probes_of(scope, probed.variant(variant), lab.facts, EVERY)
    expected, _ = line.expected_of(trial.operator, trial.case)
    result = lab.run(frames.job_of(plan, trial.case.inputs, expected, line.DEADLINE_MS, (BUFFER,)))
    assert result.status == "ok", [message.text for message in result.messages]
    assert finding(result, expected).summary == "equal"
    found = decode(result.read[BUFFER])
    assert len(found.values) > 20
    for one in found.values:
        assert one.site.origin is not None
        file, number = one.name.split(":")
        assert one.site.origin.file == file  # and the line above it in the template is that of its number
        above = (
            (probed.templates / file).read_text("utf-8").split("\n")[: one.site.origin.line] if probed.templates else []
        )
        assert above[-1] == f'{{{{ probe("{file}:{number}", "{number}u") }}}}'
        assert one.value == int(number)
    plain = plans.plan_of(scope, probed.variant(variant), lab.facts)
    assert [item.wgsl.digest for item in plain.passes] == [item.wgsl.digest for item in trial.plan.passes]
