"""The debug page in a real browser: what it shows of a case, and that edits show at once."""

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from playwright.async_api import ConsoleMessage, Page

from kernel_lab.operators import operator

OPERATORS = Path(__file__).parents[1] / "operators"
AXE = Path(__file__).parents[2] / "js_harness" / "node_modules" / "axe-core" / "axe.min.js"
STORE = "y[index] = spoiled(index, x[index]);"


async def verdict(page: Page) -> str:
    return await page.inner_text("#verdict")


def test_a_right_case_says_so_and_who_ran_it(looking: Callable[..., Any]) -> None:
    told = looking("ConvInteger:groups", verdict)
    assert told.startswith("● equal to the bit (")
    assert ", as selected; " in told


def test_a_wrong_element_is_shown_with_all_that_is_known_of_it(looking: Callable[..., Any]) -> None:
    async def look(page: Page) -> tuple[str, str, str]:
        await page.wait_for_selector("#element:not([hidden])")
        return await verdict(page), await page.inner_text("#element"), await page.inner_text("#tensor tr.failed")

    told, shown, row = looking("Copy:seven:off_by_one", look)
    assert told.startswith("✕ y: 1 of 7 elements differ (off_by_one, forced; ")
    assert "y[5]" in shown
    assert "actual 67 (0x00000043), expected 66 (0x00000042)" in shown
    assert row.split() == ["[5]", "67", "66", "0x00000043", "0x00000042"]


def test_a_sum_is_spelled_out_and_its_window_laid_out(looking: Callable[..., Any]) -> None:
    async def look(page: Page) -> tuple[Any, ...]:
        index = [0, 0, 0, 0]
        told = await page.evaluate(f"lab.inspect('y', {index})")
        await page.wait_for_selector("#element h3")
        windows = await page.locator("#element table.window").count()
        padding = await page.locator("#element td.padding").count()
        terms = await page.locator("#element .wide tbody tr").count()
        return told, windows, padding, terms, await page.inner_text("#element .then")

    told, windows, padding, terms, then = looking("ConvInteger:groups:accumulate_spatial", look)
    case = next(case for case in operator.named("ConvInteger").cases if case.name == "groups")
    assert told["actual"] == told["expected"]
    assert f"= {told['expected']}" in then
    assert windows == case.inputs["w"].shape[1]
    assert terms == case.inputs["w"][0].size
    assert padding > 0, "the first output reads the padding"


def test_who_wrote_an_element_and_what_its_probes_saw(looking: Callable[..., Any], files: Path) -> None:
    template = files / "lab.test.Copy" / "copy.wgsl.jinja"
    probe = '{{ probe("before", "x[index]", "u32") }}'
    template.write_text(template.read_text().replace(f"  {STORE}", f"  {probe}\n  {STORE}"))

    async def look(page: Page) -> tuple[str, str]:
        await page.wait_for_selector("#writers .writer")
        writer = await page.inner_text("#writers")
        await page.click("#writers button:has-text('probes')")
        return writer, await page.inner_text("#writers .probes tbody tr")

    writer, probed = looking("Copy:seven:off_by_one", look)
    line = template.read_text().splitlines().index(f"  {STORE}") + 1
    assert "pass copy: workgroup [0, 0, 0], invocation 5 of it, global id [5, 0, 0]" in writer
    assert f"copy.wgsl.jinja:{line}" in writer
    assert probed.split() == ["0", "before", "u32", "66", f"copy.wgsl.jinja:{line - 1}"]


def test_each_line_of_wgsl_stands_beside_its_template_s(looking: Callable[..., Any]) -> None:
    async def look(page: Page) -> list[list[str]]:
        rows = "[...document.querySelectorAll('#wgsl tbody tr')]"
        found: list[list[str]] = await page.evaluate(f"{rows}.map((row) => [...row.cells].map((c) => c.innerText))")
        return found

    rows = looking("Copy:seven:copy", look)
    template = (OPERATORS / "lab.test.Copy" / "copy.wgsl.jinja").read_text().splitlines()
    (origin, number, code) = next(row for row in rows if STORE in row[2])
    assert origin == f"copy.wgsl.jinja:{template.index('  ' + STORE) + 1}"
    assert rows[int(number) - 1][2] == code
    assert {row[0].partition(":")[0] for row in rows} == {"copy.wgsl.jinja", "spoil.wgsl.jinja"}


def test_the_console_leads_to_the_template(looking: Callable[..., Any], files: Path) -> None:
    """DevTools opens what the source map says of the frame that a message comes from."""
    template = files / "lab.test.Copy" / "copy.wgsl.jinja"
    template.write_text(template.read_text().replace(STORE, "y[index] = nobody_declared_this;"))

    async def look(page: Page) -> tuple[Any, ...]:
        said: list[ConsoleMessage] = []
        page.on("console", lambda message: said.append(message))
        await page.click("#run")
        await page.wait_for_function("lab.runs === 2")
        message = next(one for one in said if one.type == "error")
        session = await page.context.new_cdp_session(page)
        scripts: list[dict[str, Any]] = []
        session.on("Debugger.scriptParsed", lambda script: scripts.append(script))
        await session.send("Debugger.enable")
        row = await page.inner_text("#wgsl tr.failed .origin")
        return message.text, message.location, scripts, row

    text, location, scripts, row = looking("Copy:seven:copy", look, quiet=False)
    assert "lab.test.Copy:copy:copy, line " in text
    assert "nobody_declared_this" in text
    script = next(one for one in scripts if one["url"] == location["url"])
    encoded = script["sourceMapURL"].removeprefix("data:application/json;base64,")
    source, line = at_line(json.loads(base64.b64decode(encoded)), location["lineNumber"])
    assert f"{source}:{line}" == row
    assert source == template.name
    assert "nobody_declared_this" in template.read_text().splitlines()[line - 1]


def test_a_template_that_never_worked_says_why(looking: Callable[..., Any]) -> None:
    async def look(page: Page) -> tuple[str, str]:
        return await verdict(page), await page.inner_text("#problem")

    told, problem = looking("Copy:seven:undeclared", look, quiet=False)
    assert told == "✕ see below"
    assert re.search(r"copy\.wgsl\.jinja:\d+: 'NOBODY_DEFINED_THIS' is undefined", problem)


def at_line(source_map: dict[str, Any], line: int) -> tuple[str, int]:
    """The source and its line (from 1) behind a generated line (from 0), by the map's own rules."""
    digits = {
        letter: value for value, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    }
    source = source_line = 0
    for segment in source_map["mappings"].split(";")[: line + 1]:
        numbers, value, shift = [], 0, 0
        for letter in segment:
            value |= (digits[letter] & 31) << shift
            shift += 5
            if not digits[letter] & 32:
                numbers.append(-(value >> 1) if value & 1 else value >> 1)
                value = shift = 0
        if numbers:
            source, source_line = source + numbers[1], source_line + numbers[2]
    return source_map["sources"][source], source_line + 1


def test_an_edited_template_runs_again_and_keeps_the_element(looking: Callable[..., Any], files: Path) -> None:
    template = files / "lab.test.Copy" / "copy.wgsl.jinja"
    text = template.read_text()

    async def look(page: Page) -> tuple[Any, ...]:
        await page.evaluate("lab.inspect('y', [2])")
        template.write_text(text.replace(STORE, "y[index] = x[index] + 1u;"))
        await page.wait_for_function("/7 of 7 elements differ/.test(document.getElementById('verdict').textContent)")
        await page.wait_for_function("/actual 1 /.test(document.getElementById('element').innerText)")
        chosen = await page.inner_text("#element h2")
        template.write_text(text.replace(STORE, "{{ nothing_of_that_name }}"))
        await page.wait_for_selector("#problem:not([hidden])")
        problem, greyed = await page.inner_text("#problem"), await page.evaluate("document.body.className")
        kept = await page.inner_text("#element h2")
        template.write_text(text)
        await page.wait_for_function("/equal to the bit/.test(document.getElementById('verdict').textContent)")
        return chosen, problem, greyed, kept, await page.evaluate("document.body.className")

    chosen, problem, greyed, kept, mended = looking("Copy:seven:copy", look, quiet=False)
    assert chosen == kept == "y[2]"
    line = text.splitlines().index("  " + STORE) + 1
    assert f"copy.wgsl.jinja:{line}: 'nothing_of_that_name' is undefined" in problem
    assert "stale" in greyed
    assert "stale" not in mended


def test_edited_wgsl_runs_and_shows_what_it_replaces(looking: Callable[..., Any]) -> None:
    async def look(page: Page) -> tuple[str, str, str]:
        await page.click("#wgsl button:has-text('Edit')")
        text = await page.input_value("#wgsl textarea")
        wrong = "return value + select(0u, 1u, index == 5u);"
        assert wrong in text
        await page.fill("#wgsl textarea", text.replace(wrong, "return value;"))
        await page.click("#wgsl button:has-text('Run this text')")
        await page.wait_for_function("/equal to the bit/.test(document.getElementById('verdict').textContent)")
        shown = await page.inner_text("#wgsl .difference")
        await page.click("#wgsl button:has-text('Back')")
        await page.wait_for_function("/1 of 7/.test(document.getElementById('verdict').textContent)")
        return shown, wrong, await verdict(page)

    shown, wrong, _ = looking("Copy:seven:off_by_one", look)
    removed, added = shown.strip().splitlines()
    assert re.fullmatch(rf"- spoil\.wgsl\.jinja:\d+ +{re.escape(wrong)}", removed)
    assert added == "+   return value;"


def test_lab_is_for_the_console(looking: Callable[..., Any]) -> None:
    async def look(page: Page) -> tuple[Any, ...]:
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        await page.evaluate("lab.help()")
        told = await page.evaluate("lab.run('Copy:seven:twin')")
        label = await page.evaluate("lab.plan.label")
        names = await page.evaluate("lab.buffers.map(({ layout }) => layout.name)")
        native = await page.evaluate(
            "[GPU, GPUAdapter, GPUDevice, GPUQueue].every(({ prototype }) => Object.getOwnPropertyNames(prototype)"
            ".map((name) => Object.getOwnPropertyDescriptor(prototype, name)).every(({ value, get }) => "
            "typeof (value ?? get) !== 'function' || /\\[native code\\]/.test((value ?? get).toString())))"
        )
        return said, told, label, names, native

    said, told, label, names, native = looking("Copy:seven:copy", look)
    for entry in ("lab.run(query)", "lab.plan", "lab.buffers", "lab.inspect(name, index)", "lab.help()"):
        assert entry in said[0]
    assert told.startswith("● equal")
    assert label == "lab.test.Copy:twin"
    assert {"x", "y"} <= set(names)
    assert native, "WebGPU Inspector patches these prototypes, so nobody else may"


def test_a_hidden_feature_changes_the_selection(looking: Callable[..., Any]) -> None:
    async def look(page: Page) -> tuple[str, str]:
        await page.click("#trace summary")
        before = await page.inner_text("#trace")
        await page.click("#mask summary")
        await page.check("#features input[value=subgroups]")
        await page.wait_for_function("lab.runs === 2")
        await page.click("#trace summary")
        return before, await page.inner_text("#trace")

    before, after = looking("ConvInteger:groups", look)
    offered = [re.search(r"^matrix_i8_im2col no: needs the feature .*", told, re.M) for told in (before, after)]
    assert [told is not None and ", subgroups," in told[0] for told in offered] == [True, False]


def test_a_case_is_saved_as_one_file_that_shows_the_same(looking: Callable[..., Any], tmp_path: Path) -> None:
    async def look(page: Page) -> tuple[str, str]:
        async with page.expect_download() as started:
            await page.click("#save")
        download = await started.value
        await download.save_as(tmp_path / "case.html")
        browser = page.context.browser
        assert browser is not None
        own = await browser.new_page()
        await own.goto((tmp_path / "case.html").as_uri())
        await own.wait_for_function("/1 of 7/.test(document.body.innerText)")
        text = await own.inner_text("body")
        await own.close()
        return download.suggested_filename, text

    name, text = looking("Copy:seven:off_by_one", look)
    assert name == "seven-off_by_one.html"
    assert "lab.test.Copy:seven:off_by_one" in text


def test_a_refusal_is_told(looking: Callable[..., Any]) -> None:
    assert looking("Copy:wrong_dtype", verdict).startswith("refused: x: got dtype int8")


def test_it_goes_by_keyboard(looking: Callable[..., Any]) -> None:
    async def look(page: Page) -> tuple[str, str]:
        await page.focus("#tensor canvas")
        for key in ("ArrowLeft", "ArrowLeft", "Enter"):
            await page.keyboard.press(key)
        await page.wait_for_function("document.querySelector('#element h2').innerText === 'y[3]'")
        await page.focus("#plan g[role=button]")
        await page.keyboard.press("Enter")
        return await page.inner_text("#element h2"), await page.inner_text("#tensor p")

    chosen, buffer = looking("Copy:seven:off_by_one", look)
    assert chosen == "y[3]"
    assert buffer.startswith("x: input, uint32 [7]")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_is_accessible_and_fits(
    width: int, scheme: str, looking: Callable[..., Any], lacking: Callable[[str], NoReturn]
) -> None:
    if not AXE.is_file():
        lacking(f"{AXE} is missing: run `npm ci` in {AXE.parents[2]}.")

    async def look(page: Page) -> tuple[Any, int]:
        await page.add_script_tag(path=str(AXE))
        found = await page.evaluate(
            "axe.run().then(({ violations }) => violations.map((one) => [one.id, one.nodes.map((n) => n.html)]))"
        )
        return found, await page.evaluate("document.documentElement.scrollWidth")

    violations, wide = looking("ConvInteger:groups:accumulate_spatial", look, width, scheme)
    assert violations == []
    assert wide <= width
