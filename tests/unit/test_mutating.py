"""Mutation: WGSL as tokens, the kinds of fault, what is drawn, how mutants are judged, and the file of equivalents."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernel_lab import resources
from kernel_lab.cli.explain import ANY_DEVICE
from kernel_lab.errors import LabError
from kernel_lab.mutating import choosing, equivalents, faults, kinds, survey, wgsl
from kernel_lab.mutating.choosing import Wanted
from kernel_lab.mutating.engine import Court, identity_of
from kernel_lab.mutating.equivalents import Equivalents
from kernel_lab.mutating.faults import Fault
from kernel_lab.mutating.survey import Host, Mutant, Survey, Trial
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.operators.requests import Request
from kernel_lab.planning.includes import Origin
from kernel_lab.planning.plans import Plan, PlannedBinding, PlannedBuffer, PlannedOutput, PlannedPass
from kernel_lab.planning.rendering import Wgsl
from kernel_lab.serving.frames import Job, Message, RunResult, Status

HEAD = """struct Params { count: u32, stride_height: u32, stride_width: u32, _pad0: u32, }
@group(0) @binding(0) var<storage, read_write> y: array<u32, 4>;
@group(0) @binding(1) var<uniform> params: Params;
const SIZE: u32 = 64u;
"""


def main_of(*statements: str, before: str = "") -> str:
    body = "\n".join(f"  {statement}" for statement in statements)
    return f"{HEAD}{before}\n@compute @workgroup_size(64)\nfn main() {{\n{body}\n}}\n"


def texts(*statements: str, before: str = "", kind: str) -> list[str]:
    """The lines that a kind turns the statements into, in order."""
    text = main_of(*statements, before=before)
    lines = set(text.splitlines())
    found = [edit.applied(text) for name, _, edit in kinds.edits_of(text) if name == kind]
    return [line.strip() for mutated in found for line in mutated.splitlines() if line not in lines]


# --- tokens


def test_a_text_is_its_tokens() -> None:
    code = wgsl.parse("fn main() { // a < b\n  x /* one /* two */ */ += 0x1Fu >> 2u; }")
    assert " ".join(token.text for token in code.tokens) == "fn main ( ) { x += 0x1Fu >> 2u ; }"
    assert all(code.text[token.start : token.end] == token.text for token in code.tokens)


@pytest.mark.parametrize(
    ("text", "less"),
    [
        ("let a = vec3<i32>(b);", 0),
        ("var a: array<vec4<u32>, 4>;", 0),
        ("let a = bitcast<f32>(b) * bitcast<f32>(c);", 0),
        ("if (a < b) { c = d > e; }", 2),
        ("for (var i = 0u; i < n; i++) { a = vec2<u32>(i); }", 1),
        ("let a = b < c && d > e;", 2),
        ("let a = array<array<u32, 2>>(b) >> c;", 0),
    ],
)
def test_a_types_brackets_are_not_comparisons(text: str, less: int) -> None:
    code = wgsl.parse(f"fn main() {{ {text} }}")
    assert sum(token.kind == "operator" and token.text in ("<", ">") for token in code.tokens) == less


@pytest.mark.parametrize(
    ("text", "left", "right"),
    [
        ("let a = b + c * d;", "b", "c * d"),
        ("let a = (b - c) + d;", "(b - c)", "d"),
        ("let a = b * c + d % e;", "b * c", "d % e"),
        ("y[b] = c - d + f(e, g)[0].x;", "c - d", "f(e, g)[0].x"),
        ("a = f(b, c + d, e);", "c", "d"),
        ("return -b + c;", "-b", "c"),
        ("if (a + b < c) { d = e; }", "a", "b"),
    ],
)
def test_operands_reach_as_far_as_their_operator_binds(text: str, left: str, right: str) -> None:
    code = wgsl.parse(f"fn main() {{ {text} }}")
    plus = [i for i, token in enumerate(code.tokens) if token.text == "+" and code.is_binary(i)][-1]
    assert (code.slice(code.left_of(plus)), code.slice(code.right_of(plus))) == (left, right)


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("a", "i32"), ("-a", "i32"), ("b.y", "u32"), ("b.xy", "vec2<u32>"), ("c[1]", "f32"), ("params.count", "u32"),
        ("vec3<i32>(b)", "vec3<i32>"), ("a * vec3<i32>(b)", "vec3<i32>"), ("bitcast<f32>(d)", "f32"), ("2u", "u32"),
        ("0xffi", "i32"), ("1.5", "f32"), ("max(a, 3)", "i32"), ("other(a)", "vec2<f32>"), ("a < 3", "bool"), ("7", ""),
        ("unknown", ""), ("(a + 1)", "i32"),
    ],
)  # fmt: skip
def test_types_are_known_where_the_text_says_them(expression: str, kind: str) -> None:
    declared = "let a = 3i; let b = vec3<u32>(); var c: array<f32, 4>; let d = 1u;"
    other = "fn other(p: i32) -> vec2<f32> { return vec2<f32>(); }"
    code = wgsl.parse(main_of(declared, f"let e = {expression};", "y[0] = u32(other(1).x);", before=other))
    main = next(function for function in code.functions if function.name == "main")
    assert main.types.get("e") == kind


# --- kinds


@pytest.mark.parametrize(
    ("kind", "statement", "expected"),
    [
        ("constant", "let a = b[0] + 2u;", ["let a = b[1] + 2u;", "let a = b[0] + 3u;", "let a = b[0] + 1u;"]),
        ("constant", "let a = 0x0fu + b;", ["let a = 0x10u + b;", "let a = 0x0eu + b;"]),
        ("constant", "let a = 0.5 * b;", ["let a = 1.5 * b;"]),
        ("constant", "var a: array<u32, 4>;", []),
        ("comparison", "if (a >= b) { y[0] = 1u; }", ["if (a > b) { y[0] = 1u; }"]),
        ("comparison", "let a = b == c;", ["let a = b != c;"]),
        ("loop_bound", "for (var i = 0u; i < n; i++) { f(); }", [
            "for (var i = 0u; i + 1 < n; i++) { f(); }", "for (var i = 0u; i <= n; i++) { f(); }",
            "for (var i = 0u + 1; i < n; i++) { f(); }"]),
        ("sum_sign", "let a = -b + c;", ["let a = -b - c;"]),
        ("sum_sign", "a -= b;", ["a += b;"]),
        ("product", "let a = b * c;", ["let a = b + c;"]),
        ("quotient", "let a = b / c % d;", ["let a = b % c % d;", "let a = b / c / d;"]),
        ("mask", "let a = b & 0xffu;", ["let a = b & 0x7fu;", "let a = b & 0x1ffu;", "let a = b;"]),
        ("bits", "let a = b ^ c;", ["let a = b | c;"]),
        ("bits", "a |= b;", ["a &= b;"]),
        ("shift", "let a = b << 2u;", ["let a = b >> 2u;", "let a = b << 3u;", "let a = b << 1u;"]),
        ("dropped_term", "let a = b - zero;", ["let a = b;"]),
        ("dropped_term", "let a = b * stride + c;", [
            "let a = b + c;", "let a = stride + c;", "let a = b * stride;", "let a = c;"]),
        ("dropped_term", "let a = b ^ flip;", ["let a = b;"]),
        ("arguments_swapped", "let a = f(b, c, c);", ["let a = f(c, b, c);"]),
        ("arguments_swapped", "let a = max(b, c);", []),
        ("arguments_swapped", "let a = clamp(b, c, d);", ["let a = clamp(b, d, c);"]),
        ("select_arms", "let a = select(0u, 1u, b);", ["let a = select(1u, 0u, b);"]),
        ("guard", "if (a > b) { return; }", ["if (false) { return; }", "if (true) { return; }"]),
        ("limit", "let a = min(b, c);", ["let a = max(b, c);", "let a = (b);", "let a = (c);"]),
        ("limit", "let a = clamp(b, c, d);", ["let a = max(b, c);", "let a = min(b, d);"]),
        ("unsigned", "let a = f32(i32(b));", ["let a = f32(u32(i32(b)));"]),
        ("unsigned", "let a = f32(u32(b));", []),
        ("unsigned", "let a = i32(b) > c;", ["let a = u32(i32(b)) > u32(c);"]),
        ("unsigned", "let a = max(vec2<i32>(b), c);", [
            "let a = vec2<i32>(max(vec2<u32>(vec2<i32>(b)), vec2<u32>(c)));"]),
        ("unsigned", "let a = dot4I8Packed(b, c);", ["let a = i32(dot4U8Packed(b, c));"]),
        ("barrier", "workgroupBarrier();", [""]),
        ("rounding", "let a = round(b);", [
            "let a = floor((b) + 0.5);", "let a = ceil((b) - 0.5);", "let a = sign(b) * floor(abs(b) + 0.5);",
            "let a = trunc(b);", "let a = floor(b);", "let a = ceil(b);"]),
        ("accumulator", "a += b;", ["a = b;"]),
        ("accumulator", "var a = vec4<i32>();", ["var a = vec4<i32>(1);"]),
        ("dropped_statement", "y[0] = 1u;", [""]),
        ("dropped_statement", "let a = 1u;", []),
        ("negation", "let a = !b;", ["let a = b;"]),
        ("negation", "let a = b - c;", []),
        ("logic", "let a = b && c;", ["let a = b || c;", "let a = b;", "let a = c;"]),
        ("component", "let a = b.x;", ["let a = b.y;"]),
        ("uniform_field", "let a = params.stride_height;", ["let a = params.stride_width;"]),
        ("index", "y[a + b] = 1u;", ["y[(a + b) + 1] = 1u;"]),
    ],
)  # fmt: skip
def test_a_kind_makes_these_faults(kind: str, statement: str, expected: list[str]) -> None:
    assert texts(statement, kind=kind) == expected


BARRIERS = """var<workgroup> tile: array<vec4<u32>, 64>;
fn main(@builtin(local_invocation_index) lane: u32) {
  tile[lane] = read(lane);
  workgroupBarrier();
  write(tile[lane ^ 1u]);
  workgroupBarrier();
}
"""


def plan_with(text: str) -> Plan:
    origins = tuple(Origin("copy.wgsl.jinja", number) for number in range(1, text.count("\n") + 2))
    one = PlannedPass("lab.test.Tiny:plain:copy", "copy.wgsl.jinja", Wgsl(text, "1", origins), "main", (), (1, 1, 1))
    return replace(plan_of(), passes=(one,))


def test_where_a_barrier_is_missing_invocations_are_late() -> None:
    """After each barrier and at the start, whichever is missing: that of the start finds the first, that after the
    first finds the second.
    """
    late = kinds.LATE.format(memory="tile")
    removed = [edit for name, _, edit in kinds.edits_of(BARRIERS) if name == "barrier"]
    assert len(removed) == 2
    places = [edit.start for edit in kinds.late_edits(BARRIERS)]
    assert places == [BARRIERS.index("{") + 1, *(edit.end for edit in removed)]
    plan = plan_with(BARRIERS)
    for line, (_, change) in zip((4, 6), of_kind([plan], "barrier"), strict=True):
        changed = change(plan)
        assert changed is not None
        text = changed.passes[0].wgsl.text
        assert text.count(late) == 3
        assert text.replace(late, "").splitlines() == [
            "  " if number == line else one for number, one in enumerate(BARRIERS.splitlines(), 1)
        ]


def test_other_faults_make_no_invocation_late() -> None:
    plan = plan_with(BARRIERS)
    changed = [change(plan) for fault, change in faults.of_plans([plan], "m") if fault.kind == "constant"]
    assert changed
    assert all("late" not in plan.passes[0].wgsl.text for plan in changed if plan)


def test_a_kernel_without_workgroup_memory_has_nobody_late() -> None:
    assert kinds.late_edits(main_of("workgroupBarrier();")) == ()


def test_every_kind_is_tested() -> None:
    marks = test_a_kind_makes_these_faults.pytestmark  # type: ignore[attr-defined]
    assert {row[0] for row in marks[0].args[1]} == set(kinds.KINDS)


def test_only_what_main_reaches_is_touched() -> None:
    dead = "fn dead() -> u32 { return 1u + 2u; }\nfn alive() -> u32 { return 3u; } // 4u\n"
    text = main_of("y[0] = alive() /* 5u */;", before=dead)
    assert {place for _, place, _ in kinds.edits_of(text)} == {"alive", "main"}
    touched = {text[edit.start : edit.end] for name, _, edit in kinds.edits_of(text) if name == "constant"}
    assert touched == {"3u", "0"}


def test_no_two_edits_are_the_same_and_none_changes_nothing() -> None:
    text = main_of("var sum = 0i;", "for (var i = 0u; i < params.count; i++) { sum += i32(y[i] & 3u) * -1i; }")
    edits = [edit for _, _, edit in kinds.edits_of(text)]
    assert len(edits) == len(set(edits)) > 15
    assert all(edit.applied(text) != text for edit in edits)


# --- faults


def plan_of(*statements: str, words: tuple[int, ...] = (5, 3, 2, 0), label: str = "lab.test.Tiny:plain:copy") -> Plan:
    text = main_of(*statements)
    origins = tuple(Origin("copy.wgsl.jinja", number) for number in range(1, text.count("\n") + 2))
    uniform = PlannedBuffer(
        "copy.params", "uniform", "uint32", (4,), "packed", 16, 0, None, words,
        ("count", "stride_height", "stride_width"),
    )  # fmt: skip
    buffers = tuple(
        PlannedBuffer(name, kind, "uint32", (4,), "packed", 16, 16, None)
        for name, kind in (("x", "input"), ("y", "output"))
    )
    bindings = (
        PlannedBinding(0, "x", "storage"),
        PlannedBinding(1, "y", "storage"),
        PlannedBinding(2, "copy.params", "uniform"),
    )
    digest = str(hash(text))
    item = PlannedPass(label, "copy.wgsl.jinja", Wgsl(text, digest, origins), "main", bindings, (2, 1, 1))
    output = PlannedOutput("y", "y", "uint32", (4,), "packed", 16)
    return Plan("lab.test.Tiny:plain", (), {}, (*buffers, uniform), (item,), (output,))


def of_kind(plans: list[Plan], kind: str) -> list[tuple[Fault, faults.Change]]:
    return [found for found in faults.of_plans(plans, "Tiny/manifest.json") if found[0].kind == kind]


def test_a_fault_is_made_in_every_text_that_has_its_line() -> None:
    line = "y[0] = 3u + y[1];"
    plans = [plan_of(line, "y[1] = 1u;"), plan_of(line, "y[1] = 2u;"), plan_of("y[2] = 0u;")]
    (fault, change), *_ = of_kind(plans, "sum_sign")
    assert (fault.template, fault.line, fault.place) == ("copy.wgsl.jinja", 8, "main")
    assert fault.key[3:] == ("y[0] = 3u + y[1];", "y[0] = 3u - y[1];")
    changed = [change(plan) for plan in plans]
    assert ["3u - y[1]" in plan.passes[0].wgsl.text if plan else None for plan in changed] == [True, True, None]
    assert changed[0].passes[0].wgsl.digest != plans[0].passes[0].wgsl.digest  # type: ignore[union-attr]


def test_a_plans_faults_concern_only_what_its_passes_read() -> None:
    plan = plan_of("y[0] = params.stride_height * params.stride_width;")
    off = of_kind([plan], "plan_field")
    assert [fault.after for fault, _ in off] == [
        "stride_height + 1", "stride_height - 1", "stride_width + 1", "stride_width - 1",
    ]  # fmt: skip
    assert [change(plan).buffer("copy.params").words for _, change in off][:2] == [(5, 4, 2, 0), (5, 2, 2, 0)]  # type: ignore[union-attr]
    [(fault, change)] = of_kind([plan], "plan_fields_swapped")
    assert fault.key[3:] == ("stride_height, stride_width", "stride_width, stride_height")
    assert change(plan).buffer("copy.params").words == (5, 2, 3, 0)  # type: ignore[union-attr]


def test_a_plans_fault_that_changes_nothing_is_none() -> None:
    same = plan_of("y[0] = params.stride_height * params.stride_width;", words=(5, 0, 0, 0))
    assert [change(same) for _, change in of_kind([same], "plan_fields_swapped")] == [None]
    assert [change(same) is None for _, change in of_kind([same], "plan_field")] == [False, True, False, True]


def test_bindings_and_workgroups_are_changed() -> None:
    plan = plan_of("y[0] = 1u;")
    [(_, swapped)] = of_kind([plan], "plan_bindings_swapped")
    assert [b.buffer for b in swapped(plan).passes[0].bindings] == ["y", "x", "copy.params"]  # type: ignore[union-attr]
    [(_, fewer)] = of_kind([plan], "plan_dispatch")
    assert fewer(plan).passes[0].workgroups == (1, 1, 1)  # type: ignore[union-attr]


# --- drawing


def host_of(plan: Plan, variant: str = "plain", values: tuple[int, ...] = (1, 2, 3, 4), reference: Any = None) -> Host:
    y = np.array(values, np.uint32)
    request = Request("lab.test.Tiny", {"x": "uint32"}, {"x": (4,)}, {})
    case = Case("lab.test.Tiny", "first", request, lambda: {"x": y}, lambda: ({"y": y}, "the test"))
    operator = Operator("lab.test.Tiny", Path("nowhere"), None)
    return Host("lab.test.Tiny", variant, (Trial(operator, case, variant, plan),))


def mutants_of(plan: Plan, variants: tuple[str, ...] = ("plain",)) -> dict[Fault, tuple[Mutant, ...]]:
    hosts = [host_of(plan, variant) for variant in variants]
    found = faults.of_plans([plan], "Tiny/manifest.json")
    return {fault: tuple(Mutant(fault, host, change) for host in hosts) for fault, change in found}


PLAN_LINE = "y[0] = (params.stride_height * 3u - y[1]) / params.count;"
PLAN = plan_of(PLAN_LINE, "if (y[0] > 4u && y[1] < 2u) { return; }")


def drawn(wanted: Wanted, seed: int, variants: tuple[str, ...] = ("plain",)) -> Iterator[Mutant]:
    draw = choosing.draw(mutants_of(PLAN, variants), wanted, seed)
    while (mutant := draw.next()) is not None:
        draw.compiled(mutant.fault)
        yield mutant


def test_a_seed_draws_the_same_and_another_seed_others() -> None:
    wanted = Wanted(12, 0, 0)
    first, again, other = ([mutant.fault for mutant in drawn(wanted, seed)] for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert len(first) == len(set(first)) == 12


def test_every_kind_and_template_gets_what_is_wanted() -> None:
    faults_drawn = [mutant.fault for mutant in drawn(Wanted(0, 4, 2), 1)]
    everything = list(mutants_of(PLAN))
    for kind in {fault.kind for fault in everything}:
        there = sum(fault.kind == kind for fault in everything)
        assert sum(fault.kind == kind for fault in faults_drawn) >= min(2, there)
    assert sum(fault.template == "Tiny/manifest.json" for fault in faults_drawn) >= 4


def test_a_draw_knows_how_many_it_will_be() -> None:
    wanted = Wanted(20, 8, 3)
    assert choosing.draw(mutants_of(PLAN), wanted, 1).expected() == len(list(drawn(wanted, 1)))


def test_what_does_not_compile_does_not_count() -> None:
    draw = choosing.draw(mutants_of(PLAN), Wanted(3, 0, 0), 1)
    refused = draw.next()
    taken = 0
    while (mutant := draw.next()) is not None:
        assert mutant is not refused
        draw.compiled(mutant.fault)
        taken += 1
    assert taken == draw.total == 3


def test_a_fault_comes_again_in_another_variant_only_after_all_others() -> None:
    many = Wanted(10_000, 0, 0)
    found = [mutant.fault for mutant in drawn(many, 1, ("plain", "other")) if mutant.fault.kind == "constant"]
    half = len(found) // 2
    assert len(set(found[:half])) == half
    assert set(found[:half]) == set(found[half:])


# --- judging


def court(answer: Callable[[Job], RunResult], known: Equivalents | None = None) -> Court:
    return Court(answer, lambda _: None, 1000, known or Equivalents({}))


def answers(status: Status = "ok", value: int = 1, text: str = "") -> RunResult:
    messages = (Message("error", text),) if text else ()
    return RunResult(status, outputs={"y": np.array([value, 2, 3, 4], np.uint32)}, messages=messages)


def judged(answer: RunResult, known: Equivalents | None = None, unchanged: RunResult | None = None) -> Any:
    """The outcome of a mutant that answers so."""
    fault, change = of_kind([PLAN], "quotient")[0]
    mutant = Mutant(fault, host_of(PLAN), change)
    is_mutant = lambda job: job.plan.passes[0].wgsl.text != PLAN.passes[0].wgsl.text  # noqa: E731
    return court(lambda job: answer if is_mutant(job) else unchanged or answers(), known).judge(mutant)


def test_a_mutant_is_caught_by_a_case_that_goes_wrong() -> None:
    outcome = judged(answers(value=9))
    assert (outcome.fate, outcome.by) == ("caught", "first:plain")
    assert "1 of 4 elements differ" in outcome.how


@pytest.mark.parametrize("status", ["timeout", "crash", "device_lost", "out_of_memory"])
def test_a_mutant_that_never_answers_is_caught(status: Status) -> None:
    assert judged(answers(status)).fate == "caught"


def test_a_mutant_that_answers_right_survives() -> None:
    assert judged(answers()).fate == "survived"


@pytest.mark.parametrize("status", ["compile_error", "validation_error"])
def test_a_mutant_that_does_not_compile_is_none(status: Status) -> None:
    outcome = judged(answers(status, text="no such thing"))
    assert (outcome.fate, outcome.how, outcome.compiled) == ("not compiled", "no such thing", False)


def test_a_case_that_the_kernel_itself_fails_catches_nothing() -> None:
    fault, change = of_kind([PLAN], "quotient")[0]
    judge = court(lambda job: answers(value=9))
    assert judge.judge(Mutant(fault, host_of(PLAN), change)).fate == "survived"
    assert list(judge.wrong) == ["lab.test.Tiny:first:plain"]


def test_pipelines_are_compiled_before_the_clock_runs() -> None:
    """Each text once, and all again in the browser that follows one that was lost."""
    prepared: list[str] = []
    results = iter([answers(), answers("timeout"), answers()])
    fault, change = of_kind([PLAN], "quotient")[0]
    judge = Court(lambda _: next(results), lambda plans: prepared.append(plans[0].label), 1000, Equivalents({}))
    assert judge.judge(Mutant(fault, host_of(PLAN), change)).fate == "survived"
    assert judge.judge(Mutant(fault, host_of(PLAN), change)).fate == "caught"
    assert len(prepared) == 2


def test_a_slow_compiler_is_given_time() -> None:
    deadlines = []

    def answer(job: Job) -> RunResult:
        deadlines.append(job.deadline_ms)
        slow = job.deadline_ms <= 1000
        return answers("timeout", text="no answer within 1000 ms while waiting for pipelines") if slow else answers()

    fault, change = of_kind([PLAN], "quotient")[0]
    assert court(answer).judge(Mutant(fault, host_of(PLAN), change)).fate == "survived"
    assert deadlines == [1000, 60_000]


def test_what_an_earlier_run_caught_is_not_run_again() -> None:
    fault, change = of_kind([PLAN], "quotient")[0]
    mutant = Mutant(fault, host_of(PLAN), change)
    record = {"fate": "caught", "by": "first:plain", "how": "differs", "runs": 3, "seconds": 1.5}
    judge = court(lambda _: pytest.fail("it ran"))
    judge.earlier = {identity_of(mutant): record}
    outcome = judge.judge(mutant)
    assert (outcome.fate, outcome.by, outcome.runs) == ("caught", "first:plain", 3)


def test_a_harness_error_is_no_verdict() -> None:
    with pytest.raises(LabError, match="could not run a mutant"):
        judged(answers("harness_error", text="oh"))


# --- equivalents

ARGUMENT = "The quotient is 0 either way, because the case says so."


def entry_for(fault: Fault, **changed: Any) -> dict[str, Any]:
    template, place, kind, before, after = fault.key
    whole = {"template": template, "place": place, "kind": kind, "before": before, "after": after}
    return {**whole, "argument": ARGUMENT, **changed}


def written(folder: Path, *entries: dict[str, Any]) -> Equivalents:
    (folder / equivalents.FILE).write_text(json.dumps({"equivalents": entries}))
    return equivalents.load([folder])


def survey_of(plan: Plan, complete: bool = True) -> Survey:
    return Survey(mutants_of(plan), (host_of(plan),), (), complete)


def test_a_survivor_that_is_argued_is_equivalent(tmp_path: Path) -> None:
    fault, _ = of_kind([PLAN], "quotient")[0]
    outcome = judged(answers(), written(tmp_path, entry_for(fault)))
    assert outcome.fate == "equivalent"
    assert outcome.entry.argument == ARGUMENT


def test_an_argument_that_a_case_refutes_is_found_out(tmp_path: Path) -> None:
    fault, _ = of_kind([PLAN], "quotient")[0]
    outcome = judged(answers(value=9), written(tmp_path, entry_for(fault)))
    assert outcome.fate == "caught"
    assert outcome.refuted


def test_an_argument_may_hold_in_some_variants_only(tmp_path: Path) -> None:
    fault, _ = of_kind([PLAN], "quotient")[0]
    assert judged(answers(), written(tmp_path, entry_for(fault, where=["*:*:other"]))).fate == "survived"
    assert (
        judged(answers(), written(tmp_path, entry_for(fault, where=["*:*:other", "Tiny:*:pl*"]))).fate == "equivalent"
    )


def test_an_argument_may_hold_for_real_matrices_only(tmp_path: Path) -> None:
    fault, change = of_kind([PLAN], "quotient")[0]
    known = written(tmp_path, entry_for(fault, matrices="real"))
    for emulated in (True, False):
        mutant = Mutant(fault, host_of(replace(PLAN, emulated=emulated)), change)
        assert bool(known.entry_for(mutant)) is not emulated


def test_an_argument_may_cover_all_that_happens_to_a_line(tmp_path: Path) -> None:
    known = written(tmp_path, entry_for(of_kind([PLAN], "quotient")[0][0], kind="*", after="*"))
    entries = {fault: known.entry_for(same[0]) for fault, same in mutants_of(PLAN).items()}
    assert {fault.before for fault, entry in entries.items() if entry} == {f"  {PLAN_LINE}"}
    assert all(entry for fault, entry in entries.items() if fault.before == f"  {PLAN_LINE}")


def test_an_entry_that_fits_no_mutant_is_stale(tmp_path: Path) -> None:
    fault, _ = of_kind([PLAN], "quotient")[0]
    known = written(tmp_path, entry_for(fault), entry_for(fault, before="gone"), entry_for(fault, template="unseen"))
    assert [entry.before for entry in known.stale(survey_of(PLAN))] == ["gone"]
    assert known.stale(survey_of(PLAN, complete=False)) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"argument": "short"}, "argument"), ({"kinds": "x"}, "kinds"), ({"before": None}, "before")],
)
def test_an_entry_is_read_strictly(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    fault, _ = of_kind([PLAN], "quotient")[0]
    with pytest.raises(LabError, match=said):
        written(tmp_path, {**entry_for(fault), **changed})


def test_an_entry_stands_once(tmp_path: Path) -> None:
    fault, _ = of_kind([PLAN], "quotient")[0]
    with pytest.raises(LabError, match="stands twice"):
        written(tmp_path, entry_for(fault), entry_for(fault))


def test_no_file_is_no_entry(tmp_path: Path) -> None:
    assert equivalents.load([tmp_path]).entries == {}


def test_the_checked_in_arguments_speak_of_templates_that_exist() -> None:
    found = [entry for same in equivalents.load([resources.shaders()]).entries.values() for entry in same]
    templates = {path.name for path in resources.shaders().glob("*/*.wgsl.jinja")}
    manifests = {f"{path.parent.name}/manifest.json" for path in resources.shaders().glob("*/manifest.json")}
    assert found
    assert {entry.template for entry in found} <= templates | manifests


# --- surveying


def test_the_same_wgsl_in_another_variant_is_tried_last(operator_from: Callable[..., Operator]) -> None:
    operator = operator_with_variants(operator_from)
    found = survey.survey([operator], ANY_DEVICE)
    [same] = [same for fault, same in found.mutants.items() if fault.kind == "bits"]
    assert [mutant.host.variant for mutant in same] == ["plain", "small"]
    assert [trial.query for trial in same[1].host.trials] == ["lab.test.Tiny:one:small"]
    assert [trial.query for trial in same[1].elsewhere] == [
        f"lab.test.Tiny:many{how}:plain" for how in ("", " (folded to 1)", " (folded to 2)")
    ]
    assert same[0].elsewhere == ()


def test_a_dispatch_by_count_is_also_tried_folded(operator_from: Callable[..., Operator]) -> None:
    [plain, _] = survey.survey([operator_with_variants(operator_from)], ANY_DEVICE).hosts
    found = {trial.name: trial.plan.passes[0].workgroups for trial in plain.trials}
    assert found == {
        "one": (1, 1, 1), "many": (5, 1, 1), "many (folded to 1)": (1, 5, 1), "many (folded to 2)": (2, 3, 1),
    }  # fmt: skip


def test_a_pattern_leaves_variants_out(operator_from: Callable[..., Operator]) -> None:
    found = survey.survey([operator_with_variants(operator_from)], ANY_DEVICE, "sm*")
    assert [host.variant for host in found.hosts] == ["small"]
    assert not found.complete
    with pytest.raises(LabError, match="no variant"):
        survey.survey([operator_with_variants(operator_from)], ANY_DEVICE, "nothing")


def operator_with_variants(operator_from: Callable[..., Operator]) -> Operator:
    """y = x in two variants of the same WGSL, of which the second takes one element only."""
    storage, write = {"type": "read-only-storage"}, {"type": "storage"}
    bindings = [{"name": "x", "arg": "x", "buffer": storage}, {"name": "y", "arg": "y", "buffer": write}]
    dispatch = {"threads": "numel(shapes.x)", "workgroupSize": 64}
    item = {"id": "copy", "shader": "copy.wgsl.jinja", "bindings": bindings, "dispatch": dispatch}
    packed = {"packing": {"*": "packed"}}
    manifest = {
        "domain": "lab.test", "name": "Tiny", "sinceVersion": 1,
        "inputs": [{"role": "x", "dtype": "T"}],
        "outputs": [{"role": "y", "dtype": "T", "rank": "ranks.x", "shape": "shapes.x"}],
        "typeConstraints": {"T": ["uint32"]},
        "variants": [
            {"id": "plain", "passes": [item], "x-lab": packed},
            {"id": "small", "when": ["numel(shapes.x) == 1"], "passes": [item], "x-lab": packed},
        ],
    }  # fmt: skip
    template = (
        "{{ env.wgsl.resourceDeclarations }}\n@compute @workgroup_size(64)\n"
        "fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n  y[id.x] = x[id.x] ^ 0u;\n}\n"
    )
    data = {"kind": "random", "generator": "lowbias32", "seed": 1, "min": 0, "max": 9}
    cases = [
        {"name": name, "inputs": {"x": {"dtype": "uint32", "shape": [size], "data": data}}}
        for name, size in (("one", 1), ("many", 300))
    ]
    test = json.dumps({"op": "lab.test.Tiny", "cases": cases})
    return operator_from(manifest, **{"copy.wgsl.jinja": template, "test.json": test})
