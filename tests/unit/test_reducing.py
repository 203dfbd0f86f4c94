"""Reduction with made-up failures on real operators' cases: what is left is the least that fails, and always valid."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernel_lab import line
from kernel_lab.debugging import literal, reducing, shrinking
from kernel_lab.debugging.reducing import Budget, Reduction
from kernel_lab.operators import cases, dtypes, operator
from kernel_lab.operators.cases import Case
from kernel_lab.planning.scopes import Scope

SHIPPED = operator.load_all()
PLENTY = Budget(most_runs=3000, seconds=600)
Predicate = Callable[[Case], bool]


def case_of(query: str) -> Case:
    name, _, case = query.partition(":")
    return next(one for one in SHIPPED[name].cases if one.name == case)


def valid(case: Case) -> bool:
    return isinstance(line.check(SHIPPED[case.operator], case), Scope)


def reduced(case: Case, fails: Predicate, budget: Budget = PLENTY) -> Reduction:
    assert valid(case)
    assert fails(case)
    asked = []

    def counted(candidate: Case) -> bool:
        assert valid(candidate), reducing.sizes(candidate)
        asked.append(candidate)
        return fails(candidate)

    found = reducing.reduce(case, counted, valid, budget)
    assert found.runs == len(asked) <= budget.most_runs
    assert valid(found.case)
    assert fails(found.case)
    return found


def shapes(case: Case) -> dict[str, tuple[int, ...]]:
    return dict(case.request.shapes)


def attribute(case: Case, name: str, default: Any) -> Any:
    return case.request.attrs.get(name, default)


CONV = "ai.onnx.ConvInteger"


def conv(group: int = 3, per_group: int = 2, out: int = 2, size: int = 6, kernel: int = 3, **attrs: Any) -> Case:
    """A convolution of whatever sizes, with values that are all different from 0."""
    base = case_of(f"{CONV}:groups")
    random = np.random.default_rng(1)
    x = random.integers(1, 255, (2, group * per_group, size, size + 1), dtype=np.uint8)
    w = random.integers(1, 120, (group * out, per_group, kernel, kernel), dtype=np.int8)
    zero = random.integers(1, 100, (group * out,), dtype=np.int8)
    inputs = {"x": x, "w": w, "x_zero_point": np.uint8(7).reshape(()), "w_zero_point": zero}
    return shrinking.case_with(base, inputs, {"group": group, "kernel_shape": [kernel, kernel], **attrs})


def test_a_negative_weight_in_group_2() -> None:
    case = conv(pads=[1, 2, 0, 1], strides=[2, 1])
    w = case.inputs["w"].copy()
    w[5, 1, 2, 0] = -7
    case = shrinking.case_with(case, {**case.inputs, "w": w}, case.request.attrs)

    def fails(candidate: Case) -> bool:
        group = attribute(candidate, "group", 1)
        weights = candidate.inputs["w"]
        each = weights.shape[0] // group
        return group > 2 and bool((weights[2 * each : 3 * each] < 0).any())

    found = reduced(case, fails)
    assert found.complete
    assert shapes(found.case) == {"x": (1, 3, 1), "w": (3, 1, 1)}
    assert dict(found.case.request.attrs) == {"group": 3}
    assert set(found.case.inputs) == {"x", "w"}
    assert found.case.inputs["w"].reshape(-1).tolist() == [0, 0, -1]
    assert not found.case.inputs["x"].any()


def test_more_than_four_channels_and_an_odd_width() -> None:
    found = reduced(
        conv(group=1, per_group=11, out=5),
        lambda c: c.request.shapes["x"][1] > 4 and c.request.shapes["x"][-1] % 2 == 1,
    )
    assert found.complete
    assert shapes(found.case)["x"] == (1, 5, 1)
    assert shapes(found.case)["w"][:2] == (1, 5)
    assert not found.case.request.attrs


def test_an_asymmetric_pad() -> None:
    def fails(candidate: Case) -> bool:
        pads = attribute(candidate, "pads", [])
        return pads[: len(pads) // 2] != pads[len(pads) // 2 :]

    found = reduced(conv(pads=[2, 2, 1, 2], dilations=[1, 2]), fails)
    assert found.complete
    assert list(found.case.request.attrs) == ["pads"]
    assert sorted(found.case.request.attrs["pads"]) == [0, 0, 0, 1]  # type: ignore[type-var, arg-type]  # of JSON's values these are numbers
    assert reducing.elements(found.case) == 2


def test_blocks_and_their_scales_shrink_together() -> None:
    case = case_of("ai.onnx.DequantizeLinear:int4_to_f16_blocked")
    assert shapes(case) == {"x": (10, 3), "x_scale": (3, 3), "x_zero_point": (3, 3)}
    code = int(case.inputs["x"].astype(np.int64).min())
    found = reduced(
        case, lambda c: bool((c.inputs["x"].astype(np.int64) == code).any()) and "block_size" in c.request.attrs
    )
    assert found.complete
    assert set(found.case.inputs) == {"x", "x_scale"}
    assert found.case.inputs["x"].size == found.case.inputs["x_scale"].size == 1
    assert int(found.case.inputs["x"].astype(np.int64).item()) == code


def test_scales_of_every_channel_follow_it() -> None:
    case = case_of("com.microsoft.QLinearConv:nhwc_im2col_per_channel")
    channels = case.request.shapes["w"][0]
    assert channels > 2
    found = reduced(case, lambda c: c.request.shapes["w"][0] >= 2)
    assert found.complete
    assert shapes(found.case)["w"][0] == 2
    assert reducing.elements(found.case) < reducing.elements(case) / 4


def test_values_are_small_whole_numbers() -> None:
    case = conv(group=1)
    found = reduced(case, lambda c: int(c.inputs["x"].astype(np.int64).max()) >= 37)
    assert found.complete
    assert found.case.inputs["x"].reshape(-1).tolist() == [37]


def test_the_data_that_fail_stay() -> None:
    """One element among thousands, whose value nothing but slicing can keep."""
    case = conv(group=1, per_group=5, size=20)
    x = case.inputs["x"].copy()
    x[1, 3, 17, 11] = 0
    case = shrinking.case_with(case, {**case.inputs, "x": x}, case.request.attrs)
    found = reduced(case, lambda c: bool((c.inputs["x"] == 0).any()) and c.inputs["x"].size > 0)
    assert found.case.inputs["x"].size == 1


def test_a_tail_becomes_the_least_tail() -> None:
    found = reduced(conv(group=2, per_group=19), lambda c: c.request.shapes["w"][1] % 4 == 3)
    assert found.complete
    assert shapes(found.case) == {"x": (1, 3, 1), "w": (1, 3, 1)}


@pytest.mark.parametrize("most", [0, 1, 7, 12])
def test_the_budget_is_kept(most: int) -> None:
    found = reduced(conv(), lambda c: c.request.shapes["x"][0] == 2, Budget(most_runs=most))
    assert found.runs == most
    assert not found.complete


def test_no_run_begins_after_the_seconds_are_over() -> None:
    clock = iter(range(1000))
    found = reducing.reduce(conv(), lambda _: False, valid, Budget(seconds=5), now=lambda: float(next(clock)))
    assert found.runs == 4
    assert not found.complete
    assert found.steps == ()


def test_what_fails_always_becomes_the_least_case() -> None:
    for op in SHIPPED.values():
        case = next(case for case in op.cases if case.refused is None and len(case.inputs) > 2)
        found = reduced(case, lambda _: True)
        assert found.complete
        assert not found.case.request.attrs
        assert all(array.size == 1 for array in found.case.inputs.values())


def test_the_same_twice() -> None:
    def fails(candidate: Case) -> bool:
        return candidate.request.shapes["w"][-1] == 3

    first, second = (reduced(conv(), fails) for _ in range(2))
    assert [step.text for step in first.steps] == [step.text for step in second.steps]
    assert reducing.identity(first.case) == reducing.identity(second.case)


def test_steps_tell_what_changed() -> None:
    found = reduced(conv(), lambda c: c.request.shapes["w"][-1] == 3)
    texts = [step.text for step in found.steps]
    assert any("group 3 -> 1" in text or "without group" in text for text in texts)
    assert all(texts)
    runs = [step.runs for step in found.steps]
    assert runs == sorted(runs)
    assert runs[-1] <= found.runs


# what is written down


@pytest.mark.parametrize("op", SHIPPED.values(), ids=lambda op: op.id)
def test_a_written_case_reads_back_to_the_bit(op: operator.Operator, tmp_path: Path) -> None:
    kept = [case for case in op.cases if case.refused is None and reducing.elements(case) < 5000]
    assert len(kept) > 50
    document = {"op": op.id, "cases": [literal.entry(case, case.name, case.why) for case in kept]}
    file = tmp_path / "test.json"
    file.write_text(json.dumps(document))
    for case, again in zip(kept, cases.load(file, op.id), strict=True):
        assert again.request.opset == case.request.opset
        assert dict(again.request.attrs) == dict(case.request.attrs)
        for role, array in case.inputs.items():
            assert again.inputs[role].shape == array.shape
            assert np.array_equal(dtypes.raw_codes(again.inputs[role]), dtypes.raw_codes(array)), (case.name, role)
