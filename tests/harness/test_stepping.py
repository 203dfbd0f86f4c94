"""Stepping through one invocation on the debug page: what the interpreter leaves is what the GPU wrote, or the
construct that it does not know is named.

KERNEL_LAB_ALL_STEPS=1 steps through every case on every variant, not a small one of each kind: an hour.
"""

import os
import re
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from playwright.async_api import Page

from kernel_lab import line, resources
from kernel_lab.browsing.lab import Lab
from kernel_lab.debugging.desk import Desk
from kernel_lab.operators import operator
from kernel_lab.planning import selection
from kernel_lab.planning.scopes import Scope
from kernel_lab.serving import planner
from kernel_lab.serving.host import Host
from tests.harness.conftest import looks_at

OPERATORS = Path(__file__).parents[1] / "operators"
AXE = Path(__file__).parents[2] / "js_harness" / "node_modules" / "axe-core" / "axe.min.js"
HELPERS = Path(__file__).with_name("stepping.js").read_text()
PROGRAMS_FILE = Path(__file__).with_name("stepping.wgsl")
ALL_STEPS = bool(os.environ.get("KERNEL_LAB_ALL_STEPS"))
ENDED = "/^At the end/.test(document.querySelector('#step .at').textContent)"
STOPPED = "/^Not stepped/.test(document.querySelector('#step .at').textContent)"
Look = Callable[[Page], Awaitable[Any]]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Copies of the test operators and of our own, to be edited."""
    shutil.copytree(OPERATORS, tmp_path / "operators")
    return Path(shutil.copytree(resources.shaders(), tmp_path / "shaders")).parent


@pytest.fixture
def stepping(lab: Lab, on_page: Callable[..., Any], files: Path) -> Iterator[Callable[..., Any]]:
    """Looks at the debug page of the copied operators."""
    host = Host(
        planner.answer, desk=Desk({**operator.load_all(files / "shaders"), **operator.load_all(files / "operators")})
    )
    yield looks_at(host, on_page)
    host.close()


async def opened(page: Page, name: str, index: list[int]) -> None:
    """The panel of the invocation that wrote an element."""
    await page.evaluate(f"void lab.inspect('{name}', {index})")
    await page.wait_for_function(
        f"document.querySelector('#element h2')?.innerText === '{name}[{', '.join(map(str, index))}]'"
    )
    await page.click("#writers button:has-text('Step through it')")
    await page.wait_for_selector("#step tr[aria-current]")


async def rows(page: Page, table: str) -> list[list[str]]:
    """The cells of each of a table's rows."""
    found: list[list[str]] = await page.evaluate(
        "(table) => [...document.querySelectorAll(`${table} tbody tr`)]"
        ".map((row) => [...row.cells].map((cell) => cell.innerText))",
        table,
    )
    return found


@pytest.mark.parametrize(
    ("query", "name", "index", "stored"),
    [
        ("ConvInteger:groups:accumulate_spatial", "y", [0, 1, 1, 2], 1),
        ("DequantizeLinear:card_example", "y", [0], 4),
        ("QLinearConv:card_example", "y", [0, 0, 0, 0], 1),
    ],
)
def test_an_element_of_each_operator_ends_as_on_the_gpu(
    query: str, name: str, index: list[int], stored: int, stepping: Callable[..., Any]
) -> None:
    async def look(page: Page) -> tuple[Any, ...]:
        await opened(page, name, index)
        actual = await page.evaluate(f"lab.inspect('{name}', {index}).actual")
        writer = await page.inner_text("#writers code")
        await page.click("#step button:has-text('To the end')")
        await page.wait_for_function(ENDED)
        return actual, writer, await page.inner_text("#step"), await rows(page, "#step .sides > :last-child")

    actual, writer, text, words = stepping(query, look)
    assert "● The interpreter's value equals the GPU's in " in text
    assert len(words) == stored
    for buffer, _, value, bits, _, gpu, verdict in words:
        assert (buffer, gpu, verdict) == (name, bits, "equal")
        assert value
    assert writer
    assert query.startswith("QLinearConv") or actual in [row[2] for row in words]


def test_a_bug_is_seen_where_it_happens(stepping: Callable[..., Any], files: Path) -> None:
    """The wrong zero point of docs/debugging.md: the variable holds 0 and not 50 on the line that makes it."""
    template = files / "shaders" / "ai.onnx.ConvInteger" / "conv-int-accumulate-spatial.wgsl.jinja"
    template = template if template.is_file() else files / "shaders" / "_shared" / template.name
    text = template.read_text()
    right, wrong = "byte_of(x_zero_point[0], 0u)", "byte_of(x_zero_point[0], 1u)"
    assert text.count(right) == 1
    template.write_text(text.replace(right, wrong))
    made = text[: text.index(right)].count("\n") + 1

    async def look(page: Page) -> tuple[Any, ...]:
        await opened(page, "y", [0, 0, 0, 0])
        lines = await rows(page, "#step .lines")
        at = next(int(number) for _, origin, number, _ in lines if origin == f"{template.name}:{made}")
        await page.fill("#step input", str(at))
        await page.keyboard.press("Enter")
        await page.wait_for_function(f"document.querySelector('#step tr[aria-current]').cells[2].innerText === '{at}'")
        status = await page.inner_text("#step .at")
        await page.click("#step button:has-text('Over')")
        await page.wait_for_function("[...document.querySelectorAll('#step th')].some((c) => c.innerText === 'x_zero')")
        return status, await rows(page, "#step .sides > :first-child"), lines[at - 1][3]

    status, variables, code = stepping("ConvInteger:groups:accumulate_spatial", look)
    assert f"({template.name}:{made}), in main." in status
    assert wrong in code
    assert ["x_zero", "u32", "0", "● changed"] in variables
    case = next(case for case in operator.named("ConvInteger").cases if case.name == "groups")
    assert case.inputs["x_zero_point"].item() != 0


def test_it_goes_by_keyboard_and_patches_nothing(stepping: Callable[..., Any]) -> None:
    async def look(page: Page) -> list[Any]:
        say = await page.evaluate("console.error.toString()")
        await page.evaluate("void lab.inspect('y', [5])")
        await page.wait_for_selector("#writers button")
        await page.focus("#writers button:has-text('Step through it')")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#step tr[aria-current]")
        seen: list[Any] = [await page.evaluate("document.activeElement.id")]
        for key in ("s", "s", "s", "u", "e", "r"):
            before = await page.inner_text("#step .at")
            await page.keyboard.press(key)
            await page.wait_for_function(
                "(before) => document.querySelector('#step .at').textContent !== before", arg=before
            )
            seen.append(await page.inner_text("#step .at"))
        native = await page.evaluate(
            "[GPU, GPUAdapter, GPUDevice, GPUQueue].every(({ prototype }) => Object.getOwnPropertyNames(prototype)"
            ".map((name) => Object.getOwnPropertyDescriptor(prototype, name)).every(({ value, get }) => "
            "typeof (value ?? get) !== 'function' || /\\[native code\\]/.test((value ?? get).toString())))"
        )
        return [*seen, native and say == await page.evaluate("console.error.toString()")]

    focused, *steps, native = stepping("Copy:seven:off_by_one", look)
    assert focused == "step"
    numbers = [int(step.split(":")[0].removeprefix("Step ")) for step in steps if step.startswith("Step")]
    assert numbers == [1, 2, 3, 4, 0]
    inside = [step for step in steps if "in spoiled, called by main." in step]
    assert len(inside) == 1
    assert "spoil.wgsl.jinja:" in inside[0]
    assert "in main." in steps[3]
    assert steps[4] == "At the end, after 5 steps."
    assert native


def test_any_invocation_can_be_chosen_and_an_outside_one_is_refused(stepping: Callable[..., Any]) -> None:
    async def look(page: Page) -> tuple[str, str, str]:
        form = "#wgsl form"
        await page.fill(f"{form} input >> nth=3", "6")
        await page.click(f"{form} button")
        await page.wait_for_selector("#step tr[aria-current]")
        title = await page.inner_text("#step h2")
        stepped = await page.evaluate(
            "lab.step('copy', [0, 0, 0], 2)"
            ".then(async (it) => [await it.toEnd(), it.stores[0].at, it.stores[0].text].join())"
        )
        await page.evaluate("lab.step('copy', [0, 0, 0], 64)")
        return title, stepped, await page.inner_text("#step .at")

    title, stepped, refused = stepping("Copy:seven:copy", look)
    assert title == "Step through: pass copy, workgroup [0, 0, 0], invocation 6"
    assert stepped.startswith("done,2,")
    assert refused == "a workgroup has 64 invocations, 0 to 63."


def test_a_long_loop_ends_at_its_bound_and_goes_on(stepping: Callable[..., Any]) -> None:
    async def look(page: Page) -> str:
        await opened(page, "y", [1])
        await page.click("#step button:has-text('To the end')")
        await page.wait_for_function("/bound of commands/.test(document.querySelector('#step .at').textContent)")
        return await page.inner_text("#step .at")

    assert "There is more: the step ended at its bound of commands." in stepping("Copy:seven:slow", look)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_panel_is_accessible_and_fits(
    width: int, scheme: str, stepping: Callable[..., Any], lacking: Callable[[str], NoReturn]
) -> None:
    if not AXE.is_file():
        lacking(f"{AXE} is missing: run `npm ci` in {AXE.parents[2]}.")

    async def look(page: Page) -> tuple[Any, int]:
        await opened(page, "y", [0, 0, 0, 0])
        await page.click("#step button:has-text('Step')")
        await page.wait_for_selector("#step .sides tr.warned")
        await page.add_script_tag(path=str(AXE))
        found = await page.evaluate(
            "axe.run('#step').then(({ violations }) => violations.map((one) => [one.id, one.nodes.map((n) => n.html)]))"
        )
        return found, await page.evaluate("document.documentElement.scrollWidth")

    violations, wide = stepping("ConvInteger:groups:accumulate_spatial", look, width, scheme)
    assert violations == []
    assert wide <= width


# What it computes.

PROGRAMS = {
    name: tuple(part.split("//--\n"))
    for name, part in re.findall(r"^//== (.*)\n((?:(?!//==).*\n?)*)", PROGRAMS_FILE.read_text(), re.M)
}
"""What stands at module scope and what an invocation does, by name."""


def test_programs_end_as_on_the_gpu(stepping: Callable[..., Any]) -> None:
    """Each of the seven invocations, for programs that the library alone, or a careless reading of WGSL, gets wrong."""

    async def look(page: Page) -> Any:
        await page.evaluate(HELPERS)
        return [
            [name, await page.evaluate("(program) => stepping.program(program)", [*program])]
            for name, program in PROGRAMS.items()
        ]

    for name, found in stepping("Copy:seven:copy", look):
        assert found == {"status": "ok", "same": 7, "different": 0}, f"{name}: {found}"


CONSTRUCTS = [
    ("y[0] = u32(1.0 / f32(index));", "f32 /, whose last bits WGSL leaves open"),
    ("y[0] = subgroupAdd(index);", "subgroupAdd()"),
    ("while (index < 1u) { }", "the statement while"),
    ("loop { break; }", "the statement loop"),
    ("y[0] = u32(f16(index));", "f16"),
    ("y[0] = x[index + 4000000u];", "index 4000003 of array<u32> with "),
    ("var few: array<u32, 4>; y[0] = few[index + 1u];", "index 4 of array<u32, 4>: out of bounds"),
    ("y[0] = u32(exp(f32(index)));", "exp()"),
    ("y[0] = u32(fma(2.0, f32(index), 1.0));", "fma()"),
    ("y[0] = u32(0x1p3);", "the hexadecimal float 0x1p3"),
    ("y[0] = workgroupUniformLoad(&shared_word);", "workgroupUniformLoad()"),
    ("y[0] = bitcast<u32>(f32(16777214u + index));", "f32 of an integer that it cannot hold"),
    ("y[0] = u32(-1.5 - f32(index));", "u32 of -4.5, beyond its range"),
    ("y[0] = u32(max(0.0, -0.0 * f32(index)));", "max of 0 and -0, which WGSL leaves open"),
    ("let m = mat2x2<f32>();", "the type mat2x2"),
    ("y[0] = bitcast<u32>(pack2x16float(vec2<f32>(1.0)));", "pack2x16float()"),
    ("if (index == 3u) { workgroupBarrier(); }", "a barrier that not all of the workgroup reach"),
    ("if (params.count > 1u) { workgroupBarrier(); } y[0] = x[9000u];", "index 9000 of array<u32> with "),
    ("switch (index) { default: { } } workgroupBarrier();", "workgroupBarrier() in a place where"),
    ("let broken = (1u;", "what wgsl_reflect's parser cannot read"),
]


def test_what_is_not_stepped_through_is_named_with_its_line(stepping: Callable[..., Any]) -> None:
    async def look(page: Page) -> Any:
        await page.evaluate(HELPERS)
        told = [await page.evaluate("(code) => stepping.refusal(code, '')", code) for code, _ in CONSTRUCTS]
        heads = ["enable f16;", "override wide = 4u;", "struct S { @size(16) a: u32 }\nvar<private> s: S;"]
        return told, [await page.evaluate("(head) => stepping.refusal('y[0] = 1u;', head)", head) for head in heads]

    told, heads = stepping("Copy:seven:copy", look)
    for (code, construct), found in zip(CONSTRUCTS, told, strict=True):
        assert found["message"].startswith(construct), f"{code}: {found}"
        assert found["text"].strip() == code, f"{code}: {found}"
    assert [found["message"] for found in heads] == ["enable f16", "override", "@size or @align of S.a"]
    assert [found["line"] for found in heads] == [1, 1, 1]


def test_the_page_names_the_construct_and_its_template_line(stepping: Callable[..., Any], files: Path) -> None:
    template = files / "operators" / "lab.test.Copy" / "copy.wgsl.jinja"
    store = "y[index] = spoiled(index, x[index]);"
    template.write_text(template.read_text().replace(store, "y[index] = u32(exp2(f32(x[index] % 4u)));"))

    async def look(page: Page) -> tuple[str, str]:
        await opened(page, "y", [1])
        await page.click("#step button:has-text('To the end')")
        await page.wait_for_function(STOPPED)
        return await page.inner_text("#step .at"), await page.inner_text("#step tr[aria-current]")

    status, row = stepping("Copy:seven:copy", look)
    line_number = next(n for n, text in enumerate(template.read_text().splitlines(), 1) if "exp2(" in text)
    assert status.startswith("Not stepped through: exp2(), line ")
    assert status.endswith(f"({template.name}:{line_number}). What the GPU wrote stands.")
    assert row.startswith("✕")


# All that we have.


def pairs(lab: Lab) -> list[str]:
    """The smallest case for each set of templates that an operator's variants here consist of; with
    KERNEL_LAB_ALL_STEPS every case on every variant.
    """
    found: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    for op in operator.load_all().values():
        for case in op.cases:
            scope = line.check(op, case)
            size = sum(array.size for array in case.inputs.values())
            if not isinstance(scope, Scope) or not all(array.size for array in case.inputs.values()):
                continue
            decisions = line.decide(scope, lab.facts)
            for variant in op.manifest.variants:
                if selection.forced(decisions, variant.id).can_run:
                    query = f"{op.id}:{case.name}:{variant.id}"
                    templates = [query] if ALL_STEPS else sorted({item.template for item in variant.passes})
                    found.setdefault((op.id, *templates), []).append((size, query))
    return [min(queries)[1] for queries in found.values()]


def test_every_variant_ends_as_on_the_gpu_or_is_named(stepping: Callable[..., Any], lab: Lab) -> None:
    """Two invocations of each pass. A pair ends with the same bytes or a construct named, never in silence."""

    async def look(page: Page) -> Any:
        await page.evaluate(HELPERS)
        return {query: await page.evaluate("(query) => stepping.survey(query)", query) for query in pairs(lab)}

    found = stepping("Copy:seven:copy", look)
    different = {query: told for query, told in found.items() if told["different"]}
    assert different == {}
    counts = Counter(told["status"] for told in found.values())
    named = {query: told["why"] for query, told in found.items() if told["status"] == "named"}
    print(f"{len(found)} pairs: {dict(counts)}; {sum(told['same'] for told in found.values())} words; named: {named}")
    assert set(counts) <= {"same", "named", "nothing"}
    assert counts["same"] + counts["nothing"] + len(named) == len(found)
    assert named == {} or "subgroup_matrix" in str(named) or "f16" in str(named)


def test_invocations_beside_the_last_line_read_nothing_beyond_a_binding(stepping: Callable[..., Any]) -> None:
    """Whole tiles have lines that the operand has not: their zero points were read, and thrown away."""
    query = "com.microsoft.QLinearConv:bias_per_channel:portable_f32_im2col_nchw_bias_row"

    async def look(page: Page) -> Any:
        await page.evaluate(HELPERS)
        return await page.evaluate("(query) => stepping.survey(query, true)", query)

    told = stepping("Copy:seven:copy", look)
    assert (told["status"], told["why"], told["different"]) == ("same", "", 0)
