"""A debug run's plan: what its WGSL calls, what the entry point is given, which bindings there are, what is refused."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernel_lab.debugging import instrument, probing
from kernel_lab.debugging.records import EVERY, Choice
from kernel_lab.errors import LabError
from kernel_lab.operators import operator
from kernel_lab.planning import plans, scopes
from kernel_lab.planning.facts import PACKING_FEATURE, DeviceFacts
from kernel_lab.planning.plans import Plan
from kernel_lab.planning.probes import MARKER
from kernel_lab.planning.scopes import Scope

FACTS = DeviceFacts(features=frozenset({PACKING_FEATURE, "subgroups"}))
FOUR_SUMS = operator.load_all(Path(__file__).parents[1] / "operators")["lab.test.FourSums"]
HEAD = "{{ env.wgsl.resourceDeclarations }}\nstruct Pair { one: u32, two: f32, }\nalias Four = vec4<i32>;\n"

Tiny = Callable[[str], Scope]


@pytest.fixture
def tiny(tiny_scope: Callable[..., Scope], tiny_manifest: dict[str, Any]) -> Tiny:
    """The scope of the tiny operator with that template."""
    return lambda text: tiny_scope(tiny_manifest, **{"copy.wgsl.jinja": text})


def debug(scope: Scope, facts: DeviceFacts = FACTS, pass_id: str | None = None) -> Plan:
    return probing.probes_of(scope, scope.operator.variant("plain"), facts, EVERY, pass_id)[0]


def main_of(*lines: str, before: str = "", parameters: str = "") -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return f"{HEAD}{before}\n@compute @workgroup_size(64)\nfn main({parameters}) {{\n{body}\n}}\n"


def four_sums(variant: str) -> Plan:
    scope = scopes.scope_of(FOUR_SUMS, FOUR_SUMS.cases[0].request)
    assert isinstance(scope, Scope)
    return probing.probes_of(scope, FOUR_SUMS.variant(variant), FACTS, Choice("global", (1, 0, 0)))[0]


def test_every_line_keeps_its_place_and_what_is_added_stands_behind() -> None:
    scope = scopes.scope_of(FOUR_SUMS, FOUR_SUMS.cases[0].request)
    assert isinstance(scope, Scope)
    plain = plans.plan_of(scope, FOUR_SUMS.variant("plain"), FACTS).passes[0].wgsl
    probed = four_sums("plain").passes[0].wgsl
    lines = probed.text.split("\n")
    assert len(lines) == len(probed.origins)
    calls = [(str(probed.origin(n)), text.strip()) for n, text in enumerate(lines, 1) if "lab_probe_" in text]
    assert calls[:5] == [
        ("four-sums.wgsl.jinja:7", "lab_probe_u32(0u, value);"),
        ("four-sums.wgsl.jinja:36", "lab_probe_u32(1u, sum);"),
        ("four-sums.wgsl.jinja:39", "lab_probe_i32(2u, less);"),
        ("four-sums.wgsl.jinja:40", "lab_probe_f32(3u, f32(sum) / 2.0);"),
        ("four-sums.wgsl.jinja:41", "lab_probe_bool(4u, sum % 2u == 0u);"),
    ]
    assert "nothing" not in probed.text  # the function that nobody calls has no probe any more
    kept = [text for text in plain.text.split("\n") if text.strip() and "fn main" not in text]
    assert all(text in lines or "@builtin" in text or text.startswith(")") for text in kept)


def test_a_plan_has_one_buffer_more_and_a_uniform_for_each_probed_pass() -> None:
    plan = four_sums("plain")
    bindings = {binding.binding: (binding.buffer, binding.type) for binding in plan.passes[0].bindings}
    assert bindings[3] == (instrument.BUFFER, "storage")
    assert bindings[4] == ("sum.lab.choice", "uniform")
    assert plan.buffer("sum.lab.choice").words == (1, 0, 0, 0, 1, 0, 0, 0)
    assert plan.buffer(instrument.BUFFER).fill == 0
    text = plan.passes[0].wgsl.text
    assert "@group(0) @binding(3) var<storage, read_write> lab_records" in text
    assert "@group(0) @binding(4) var<uniform> lab_choice" in text


@pytest.mark.parametrize(
    ("parameters", "taken", "begins"),
    [
        ("", "(@builtin(workgroup_id) lab_workgroup_id: vec3<u32>, @builtin(local_", "lab_workgroup_id, lab_local"),
        ("@builtin(workgroup_id) at: vec3u", ": vec3u, @builtin(local_invocation_index) lab_local", "at, lab_local"),
        ("@builtin(workgroup_id) at: vec3u,", ": vec3u,@builtin(local_invocation_index) lab_local", "at, lab_local"),
        (
            "given: Given, @builtin(local_invocation_index) lane: u32",
            "lane: u32, @builtin(global_invocation_id) lab_global_invocation_id: vec3<u32>)",
            "given.place, lane, lab_global_invocation_id",
        ),
    ],
)  # fmt: skip
def test_the_entry_point_takes_what_it_lacks(tiny: Tiny, parameters: str, taken: str, begins: str) -> None:
    before = "struct Given { @builtin(workgroup_id) place: vec3<u32>, @builtin(num_workgroups) all: vec3<u32>, }"
    scope = tiny(main_of('{{ probe("one", "1u") }}', parameters=parameters, before=before))
    text = debug(scope).passes[0].wgsl.text
    assert taken in text
    assert f"{{ lab_begin({begins}" in text
    assert text.count("@builtin(workgroup_id)") == 1 + ("given" not in parameters)


@pytest.mark.parametrize(
    ("value", "function"),
    [
        ("1u", "u32"), ("2.5", "f32"), ("-3i", "i32"), ("local", "i32"), ("local < 3", "bool"), ("params.count", "u32"),
        ("x[3]", "u32"), ("SIZE", "u32"), ("tile[0].xy", "vec2_f32"), ("vec3<bool>(true)", "vec3_bool"),
        ("helper(1u)", "vec4_i32"), ("f32(local)", "f32"), ("pair.two", "f32"), ("count", "u32"), ("half", "f16"),
        ("bitcast<i32>(1u)", "i32"), ("from_tile", "vec4_f32"),
    ],
)  # fmt: skip
def test_types_that_are_known(tiny: Tiny, value: str, function: str) -> None:
    before = (
        "const SIZE: u32 = 3u;\nvar<workgroup> tile: array<vec4<f32>, 4>;\n"
        "fn helper(count: u32) -> Four { return Four(1); }\n"
    )
    lines = (
        "let local = -1i;", "let from_tile = tile[1];", "let pair = Pair(1u, 2f);", "let count = params.count;",
        "let half = f16(1);", f'{{{{ probe("it", "{value}") }}}}',
    )  # fmt: skip
    text = debug(tiny(main_of(*lines, before=before))).passes[0].wgsl.text
    assert f"lab_probe_{function}(0u, {value});" in text
    assert re.search(rf"^fn lab_probe_{function}\(site: u32, value: ", text, re.M)
    assert ("fn lab_probe_f16" in text) == (function == "f16")  # f16 only where the template has enabled it


@pytest.mark.parametrize("value", ["unheard_of(1)", "Pair(1u, 2.0)", "tile", "7"])
def test_a_type_that_is_not_known_must_be_stated(tiny: Tiny, value: str) -> None:
    before = "var<workgroup> tile: array<u32, 4>;"
    with pytest.raises(LabError, match=r"^copy\.wgsl\.jinja:\d+: the type of .* third argument, as in "):
        debug(tiny(main_of(f'{{{{ probe("it", "{value}") }}}}', before=before)))
    stated = debug(tiny(main_of(f'{{{{ probe("it", "{value}", "vec2<u32>") }}}}', before=before)))
    assert f"lab_probe_vec2_u32(0u, {value});" in stated.passes[0].wgsl.text


def test_arguments_that_only_jinja_knows_are_checked_where_it_evaluates_them(tiny: Tiny) -> None:
    with pytest.raises(LabError, match=r"copy\.wgsl\.jinja:8: a probe's type is 'mat3x3f'; allowed are f32, f16"):
        debug(tiny(main_of('{% set kind = "mat3x3f" %}', '{{ probe("it", "1u", kind) }}')))


def test_a_probe_that_jinja_puts_inside_a_line_is_refused(tiny: Tiny) -> None:
    lines = ("{% macro two() %}", '{{ probe("it", "1u") }}', "2u", "{% endmacro %}", "let a = {{ two() }};")
    with pytest.raises(LabError, match=r"copy\.wgsl\.jinja:\d+: this probe comes to stand inside another line"):
        debug(tiny(main_of(*lines)))


def test_no_probe_is_an_error_that_says_how_to_write_one(tiny: Tiny) -> None:
    scope = tiny(main_of("let a = 1u;"))
    assert not probing.has_probes(scope, scope.operator.variant("plain"), FACTS)
    with pytest.raises(LabError, match=r"has no probe\. Write .* \(copy\.wgsl\.jinja\)"):
        debug(scope)


def test_a_pass_that_is_not_there_is_an_error(tiny: Tiny) -> None:
    scope = tiny(main_of('{{ probe("it", "1u") }}'))
    assert debug(scope, pass_id="copy").passes[0].wgsl.text.count("lab_probe_u32(0u") == 1
    for ask in (debug, lambda *_, **asked: probing.has_probes(scope, scope.operator.variant("plain"), FACTS, **asked)):
        with pytest.raises(LabError, match=r"has no pass 'paste' \(its passes: copy\)"):
            ask(scope, pass_id="paste")


def test_a_device_without_a_storage_buffer_to_spare_is_told_so(tiny: Tiny) -> None:
    scope = tiny(main_of('{{ probe("it", "1u") }}'))
    facts = replace(FACTS, limits={**FACTS.limits, "maxStorageBuffersPerShaderStage": 3})
    with pytest.raises(LabError, match="binds 3 storage buffers, and this device allows 3: none is left"):
        debug(scope, facts)
    debug(scope, replace(facts, limits={**facts.limits, "maxStorageBuffersPerShaderStage": 4}))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (('{{ probe("it", "1u") }}', "let lab_it = 1u;"), "debug runs add 'lab_it' to the WGSL"),
        (('{{ probe("it", "1u") }}', "if (true {"), "its WGSL cannot be taken apart"),
        (('{{ probe("it", "(1u") }}', "let a = 1u"), "its WGSL cannot be taken apart"),
    ],
)
def test_wgsl_that_cannot_be_probed_is_an_error_not_a_hang(tiny: Tiny, lines: tuple[str, ...], said: str) -> None:
    with pytest.raises(LabError, match=re.escape(said)):
        debug(tiny(main_of(*lines)))


def test_an_unfinished_statement_is_left_to_the_browser(tiny: Tiny) -> None:
    assert MARKER not in debug(tiny(main_of('{{ probe("it", "1u") }}', "let a = 1u"))).passes[0].wgsl.text
