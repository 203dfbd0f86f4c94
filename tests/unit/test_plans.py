"""Plans: buffers, uniforms, passes and what a device is asked for, on the tiny operator."""

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab.errors import LabError
from kernel_lab.operators.manifest import Dispatch
from kernel_lab.planning import layout, plans
from kernel_lab.planning.expressions import Unmet
from kernel_lab.planning.facts import PACKING_FEATURE, WEBGPU_DEFAULT_LIMITS, DeviceFacts
from kernel_lab.planning.layout import GUARD_BYTES
from kernel_lab.planning.plans import POISON, Plan
from kernel_lab.planning.scopes import Scope

Json = dict[str, Any]
FACTS = DeviceFacts(features=frozenset({PACKING_FEATURE, "shader-f16", "subgroups"}))
PlanOf = Callable[..., Plan]


@pytest.fixture
def plan_of(tiny_manifest: Json, tiny_scope: Callable[..., Scope]) -> PlanOf:
    """The plan of the tiny operator's first variant, changed by these keys, for a request (default: uint8[2, 3])."""

    def make(facts: DeviceFacts = FACTS, request: Json | None = None, **variant: Any) -> Plan:
        tiny_manifest["variants"][0] |= variant
        scope = tiny_scope(tiny_manifest, **(request or {}))
        return plans.plan_of(scope, scope.operator.manifest.variants[0], facts)

    return make


@pytest.fixture
def words_of(tiny_manifest: Json, plan_of: PlanOf) -> Callable[..., tuple[int, ...]]:
    """The words of a uniform of these fields."""

    def make(*fields: tuple[str, str, Any]) -> tuple[int, ...]:
        described = [{"name": name, "type": kind, "value": value} for name, kind, value in fields]
        tiny_manifest["bindingSets"]["all"][3]["struct"]["fields"] = described
        return plan_of().buffer("copy.params").words

    return make


WordsOf = Callable[..., tuple[int, ...]]


def bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


# Uniforms.


@pytest.mark.parametrize(
    ("kind", "value", "word"),
    [
        ("u32", "count", 6),
        ("u32", 2**32 - 1, 0xFFFFFFFF),
        ("u32", "count > 1", 1),
        ("u32", 6.0, 6),
        ("i32", "-count", 0xFFFFFFFA),
        ("i32", -(2**31), 0x80000000),
        ("i32", 2**31 - 1, 0x7FFFFFFF),
        ("f32", "count / 4", bits(1.5)),
        ("f32", "1 / 3", bits(1 / 3)),
        ("f32", "-count", bits(-6.0)),
        ("f32", 16777217, bits(16777216.0)),
    ],
)
def test_word(words_of: WordsOf, kind: str, value: object, word: int) -> None:
    assert words_of(("v", kind, value)) == (word, 0, 0, 0)


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("u32", -1, "-1, which is no u32"),
        ("u32", 2**32, "4294967296, which is no u32"),
        ("i32", 2**31, "2147483648, which is no i32"),
        ("i32", -(2**31) - 1, "-2147483649, which is no i32"),
        ("u32", "count / 4", "1.5, which is no u32"),
        ("u32", "'6'", "'6', which is no u32"),
        ("u32", "shapes.x", "[2, 3], which is no u32"),
        ("u32", "none", "None, which is no u32"),
        ("f32", 1e39, "which is no f32"),
        ("f32", "'1'", "'1', which is no f32"),
    ],
)
def test_a_value_beyond_its_type_is_refused(words_of: WordsOf, kind: str, value: object, said: str) -> None:
    with pytest.raises(LabError, match=r"^lab\.test\.Tiny:plain:copy: uniform field 'v' is ") as error:
        words_of(("v", kind, value))
    assert said in str(error.value)


def test_a_uniform_is_padded_to_rows_of_four_words(words_of: WordsOf, plan_of: PlanOf) -> None:
    assert words_of(*((f"f{i}", "u32", i + 1) for i in range(4))) == (1, 2, 3, 4)
    assert words_of(*((f"f{i}", "u32", i + 1) for i in range(5))) == (1, 2, 3, 4, 5, 0, 0, 0)
    buffer = plan_of().buffer("copy.params")
    assert (buffer.kind, buffer.bytes, buffer.guard_bytes, buffer.fill) == ("uniform", 32, 0, None)
    assert buffer.fields == ("f0", "f1", "f2", "f3", "f4")


def test_a_field_hides_no_derived_value_of_its_name(words_of: WordsOf) -> None:
    assert words_of(("count", "u32", 100), ("twice", "u32", "count * 2")) == (100, 12, 0, 0)


def test_declarations_name_every_binding_in_order(tiny_manifest: Json, plan_of: PlanOf) -> None:
    tiny_manifest["bindingSets"]["all"][0] |= {"elementType": "$VECTOR", "length": "$COUNT"}
    tiny_manifest["bindingSets"]["all"][1] |= {"elementType": "$T"}
    text = plan_of(constants={"VECTOR": "'vec4<u32>'", "COUNT": "count // 2"}).passes[0].wgsl.text
    assert text.startswith(
        "struct Params {\n  count: u32,\n  _pad0: u32,\n  _pad1: u32,\n  _pad2: u32,\n}\n"
        "@group(0) @binding(0) var<storage, read> x: array<vec4<u32>, 3>;\n"
        "@group(0) @binding(1) var<storage, read> bias: array<u32>;\n"
        "@group(0) @binding(2) var<storage, read_write> y: array<u32>;\n"
        "@group(0) @binding(3) var<uniform> params: Params;\n"
    )


# Buffers.


def test_buffers_have_whole_words_a_guard_and_their_fill(plan_of: PlanOf) -> None:
    plan = plan_of(
        request={"shape": (7,), "dtypes": {"x": "uint8", "bias": "int32"}},
        intermediates=[
            {"id": "sums", "dtype": "int32", "shape": "[count, 2]"},
            {"id": "zeros", "dtype": "float16", "shape": ["count"], "x-lab": {"fill": "zero"}},
        ],
    )
    found = {b.name: (b.kind, b.bytes, b.guard_bytes, b.fill) for b in plan.buffers}
    assert found == {
        "x": ("input", 8, GUARD_BYTES, None),
        "bias": ("input", 28, GUARD_BYTES, None),
        "y": ("output", 8, GUARD_BYTES, POISON),
        "sums": ("intermediate", 56, GUARD_BYTES, POISON),
        "zeros": ("intermediate", 16, GUARD_BYTES, 0),
        "copy.params": ("uniform", 16, 0, None),
    }
    (output,) = plan.outputs
    assert (output.name, output.buffer, output.dtype, output.shape, output.bytes) == ("y", "y", "uint8", (7,), 8)


def test_one_element_a_word_unless_packed(plan_of: PlanOf) -> None:
    plan = plan_of(request={"shape": (7,)}, **{"x-lab": {"packing": {"y": "packed"}}})
    assert (plan.buffer("x").bytes, plan.buffer("x").packing) == (28, "word")
    assert (plan.buffer("y").bytes, plan.buffer("y").packing) == (8, "packed")


def test_an_absent_input_is_bound_as_one_word_of_zero(plan_of: PlanOf) -> None:
    plan = plan_of()
    bound = {binding.binding: binding.buffer for binding in plan.passes[0].bindings}
    assert bound == {0: "x", 1: "absent.bias", 2: "y", 3: "copy.params"}
    buffer = plan.buffer("absent.bias")
    assert (buffer.bytes, buffer.guard_bytes, buffer.fill) == (4, GUARD_BYTES, 0)


def test_an_absent_input_without_a_stand_in_is_a_fault_with_its_place(tiny_manifest: Json, plan_of: PlanOf) -> None:
    del tiny_manifest["bindingSets"]["all"][1]["x-lab"]
    with pytest.raises(LabError, match=r"^lab\.test\.Tiny:plain:copy: binding 'bias': 'bias' is no input, output or"):
        plan_of()


def test_two_passes_share_buffers_and_have_uniforms_of_their_own(plan_of: PlanOf) -> None:
    plan = plan_of(passes=[{"use": "copy"}, {"use": "copy", "id": "again"}])
    assert [item.label for item in plan.passes] == ["lab.test.Tiny:plain:copy", "lab.test.Tiny:plain:again"]
    assert [b.name for b in plan.buffers] == ["x", "y", "absent.bias", "copy.params", "again.params"]
    assert plan.passes[0].wgsl is plan.wgsl_of("lab.test.Tiny:plain:copy")
    assert plan.wgsl_of("nobody") is None


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 5)])
def test_an_empty_tensor_needs_no_pass(plan_of: PlanOf, shape: tuple[int, ...]) -> None:
    plan = plan_of(request={"shape": shape})
    assert plan.passes == ()
    assert [output.bytes for output in plan.outputs] == [0]
    assert all(buffer.bytes == 4 for buffer in plan.buffers)


def test_rank_0_is_one_element(plan_of: PlanOf) -> None:
    plan = plan_of(request={"shape": ()})
    assert (plan.buffer("x").bytes, plan.outputs[0].shape, plan.passes[0].workgroups) == (4, (), (1, 1, 1))


# Dispatch.


def groups(limit: int = 65_535, **dispatch: Any) -> tuple[int, int, int]:
    return layout.workgroups(Dispatch(**dispatch), {"n": 100_000}, limit)


@pytest.mark.parametrize(
    ("dispatch", "found"),
    [
        ({"threads": 1, "workgroupSize": 64}, (1, 1, 1)),
        ({"threads": 64}, (1, 1, 1)),
        ({"threads": 65}, (2, 1, 1)),
        ({"threads": 0, "workgroupSize": 64}, (0, 0, 1)),
        ({"threads": "n", "workgroupSize": 1}, (65_535, 2, 1)),
        ({"workgroups": 65_535}, (65_535, 1, 1)),
        ({"workgroups": 65_536}, (65_535, 2, 1)),
        ({"workgroups": 2 * 65_535 + 1}, (65_535, 3, 1)),
        ({"x": 3}, (3, 1, 1)),
        ({"x": 2, "y": 3, "z": "n // 10000"}, (2, 3, 10)),
    ],
)
def test_workgroups(dispatch: Json, found: tuple[int, int, int]) -> None:
    assert groups(**dispatch) == found


@given(count=st.integers(1, 10**9), limit=st.integers(1, 70_000))
def test_a_fold_holds_every_workgroup_and_less_than_a_row_more(count: int, limit: int) -> None:
    x, y, z = groups(limit, workgroups=count)
    assert 0 < x <= limit
    assert 0 <= x * y * z - count < x


@pytest.mark.parametrize(
    "dispatch", [{"threads": -1}, {"threads": 1.5}, {"threads": 1, "workgroupSize": 0}, {"x": "'a'"}]
)
def test_a_dispatch_must_be_whole(dispatch: Json) -> None:
    with pytest.raises(Unmet, match=r"^dispatch\.\w+ is .*; it must be an integer of [01] or more\.$"):
        groups(**dispatch)


# What templates see, and what a device is asked for.


def test_constants_of_the_pass_go_before_the_variant_s_and_the_manifest_s(tiny_manifest: Json, plan_of: PlanOf) -> None:
    tiny_manifest["constants"] = {"A": 1, "B": 2, "C": 3}
    tiny_manifest["tunables"] = {"SIZE": 64, "OTHER": {"default": 8}}
    template = (
        "{{ A }} {{ B }} {{ C }} {{ D }} {{ dtypes.T }} {{ tunables.SIZE }} {{ tunables.OTHER }} {{ source.k }}\n"
    )
    plan = plan_of(
        request={"seen.wgsl.jinja": template},
        constants={"B": "constants.A + 20", "D": "'text'"},
        tunables={"SIZE": 32},
        passes=[
            {
                "id": "p",
                "source": {"shader": "seen.wgsl.jinja", "inputs": {"k": ["count", "constants.C"]}},
                "bindings": "all",
                "constants": {"C": "constants.B + 100"},
                "dispatch": {"x": 1},
            }
        ],
    )
    assert plan.passes[0].wgsl.text == "1 21 121 text u32 32 8 [6, 121]"
    assert plan.passes[0].template == "seen.wgsl.jinja"


def test_a_template_s_fault_names_its_place(plan_of: PlanOf) -> None:
    with pytest.raises(LabError, match=r"^copy\.wgsl\.jinja:2: 'nobody' is undefined"):
        plan_of(request={"copy.wgsl.jinja": "fine\n{{ nobody }}\n"})


def test_a_device_is_asked_for_exactly_the_features_and_for_all_of_the_limits(plan_of: PlanOf) -> None:
    limits = {**WEBGPU_DEFAULT_LIMITS, "maxBufferSize": 2**32, "maxComputeWorkgroupsPerDimension": 100_000}
    plan = plan_of(replace(FACTS, limits=limits), requires={"features": ["subgroups", "shader-f16", "subgroups"]})
    assert plan.features == ("shader-f16", "subgroups")
    assert plan.limits == {name: limits[name] for name in plans.REQUESTED_LIMITS}
    assert plan_of(requires={}).features == ()


def test_the_same_request_gives_the_same_plan(plan_of: PlanOf) -> None:
    one, other = plan_of(), plan_of()
    assert one.buffers == other.buffers
    assert [item.wgsl.digest for item in one.passes] == [item.wgsl.digest for item in other.passes]
