"""Masks on the debug page: what `kernel-lab run` may hide of an adapter, in its words; kept in the page's address."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Page

from kernel_lab.browsing import declared

AXE = Path(__file__).parents[2] / "js_harness" / "node_modules" / "axe-core" / "axe.min.js"
CASE = "QLinearConv:uint8_int8_int8"
LIMIT = "maxStorageBuffersPerShaderStage"


@pytest.fixture
def poor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile that starts from another, each with masks of its own."""
    file = tmp_path / declared.FILE
    file.write_text(
        '[profiles.plain]\nbrowser = "default"\nmask = ["packed_4x8_integer_dot_product"]\n'
        '[profiles.poor]\nbrowser = "plain"\nlimits = ["maxBufferSize=70000"]\nsubgroups = "4"\n'
    )
    monkeypatch.setenv(declared.VARIABLE, str(file))


async def state(page: Page) -> dict[str, Any]:
    limit = f"lab.plan.device.limits.{LIMIT}"
    return {
        "asked": parse_qs(urlsplit(page.url).query),
        "masked": await page.inner_text("#masked"),
        "summary": await page.inner_text("#mask > summary"),
        "limit": await page.evaluate(limit),
        "variant": (await page.inner_text("#verdict")).partition("(")[2].partition(",")[0],
    }


def test_a_lower_limit_changes_selection_and_device_and_outlives_a_reload(looking: Callable[..., Any]) -> None:
    async def look(page: Page) -> tuple[Any, ...]:
        before = await state(page)
        await page.click("#mask > summary")
        await page.fill(f"#limits input[name={LIMIT}]", "8")
        await page.keyboard.press("Tab")
        await page.wait_for_function("lab.runs === 2")
        after = await state(page)
        await page.reload()
        await page.wait_for_function("lab.runs === 1")
        again = await state(page)
        return before, after, again, await page.input_value(f"#limits input[name={LIMIT}]")

    before, after, again, kept = looking(CASE, look)
    assert (before["summary"], before["masked"]) == ("masks: none", "")
    assert before["limit"] > 8
    assert before["variant"] != after["variant"], "the selected one binds more buffers than that"
    assert after["limit"] == 8
    assert after["masked"] == f"masked: {LIMIT} 8"
    assert after["summary"] == f"masks: {LIMIT} 8"
    assert after["asked"] == {"query": ["com.microsoft.QLinearConv:uint8_int8_int8"], "limit": [f"{LIMIT}=8"]}
    assert again == after
    assert kept == "8"


@pytest.mark.usefixtures("poor")
def test_a_profile_s_masks_are_hidden_and_more(looking: Callable[..., Any]) -> None:
    async def look(page: Page) -> tuple[Any, ...]:
        await page.click("#mask > summary")
        options = await page.locator("#profile option").all_inner_texts()
        await page.select_option("#profile", "poor")
        await page.wait_for_function("lab.runs === 2")
        await page.check("#emulate")
        await page.wait_for_function("lab.runs === 3")
        return options, await state(page)

    options, found = looking(f"{CASE}:accumulate_spatial", look)
    masks = "--mask packed_4x8_integer_dot_product --limit maxBufferSize=70000 --subgroups 4-4"
    assert options == ["none", "plain: --mask packed_4x8_integer_dot_product", f"poor: {masks}"]
    assert found["asked"]["profile"] == ["poor"]
    assert found["asked"]["emulate_matrices"] == ["1"]
    told = ["packed_4x8_integer_dot_product", "maxBufferSize 70,000", "subgroups 4 to 4 (the adapter's: 4 to 4)"]
    assert found["masked"] == f"masked: {'; '.join([*told, 'subgroup matrices, which plain WGSL stands in for'])}"


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("limit=maxBufferSize=much", "limit: got 'maxBufferSize=much', wanted maxBufferSize=NUMBER."),
        ("subgroups=4-5", "subgroups: got '4-5', wanted LOW-HIGH, such as 4-128"),
        ("mask=shader-f61", "mask: 'shader-f61' is no feature; did you mean 'shader-f16'?"),
        ("profile=nobody", "profile 'nobody' is not declared in kernel-lab.toml (declared: none)."),
    ],
)
def test_what_cannot_be_masked_is_one_sentence_and_stays_to_be_mended(
    asked: str, sentence: str, looking: Callable[..., Any]
) -> None:
    async def look(page: Page) -> tuple[str, str, str]:
        problem = await page.inner_text("#problem pre")
        url = page.url
        await page.click("#mask > summary")
        await page.evaluate(
            "document.querySelectorAll('#masks input[type=text]').forEach((field) => (field.value = ''));"
            "document.querySelectorAll('#masks :checked:is(input)').forEach((box) => (box.checked = false));"
            "document.getElementById('profile').value = ''"
        )
        await page.click("#run")
        await page.wait_for_function("lab.runs === 1")
        return problem, url, await page.inner_text("#verdict")

    problem, url, mended = looking(f"{CASE}:accumulate_spatial&{asked}", look, quiet=False)
    assert problem.startswith(sentence)
    assert asked.split("=")[0] in parse_qs(urlsplit(url).query)
    assert mended.startswith("● equal to the bit")


def test_hidden_timestamps_time_nothing(looking: Callable[..., Any]) -> None:
    async def look(page: Page) -> list[str]:
        await page.check("#timing")
        await page.wait_for_function("lab.runs === 2")
        timed = await page.inner_text("#verdict")
        await page.click("#mask > summary")
        await page.check("#masks input[value=timestamp-query]")
        await page.wait_for_function("lab.runs === 3")
        return [timed, await page.inner_text("#verdict")]

    timed, hidden = looking(f"{CASE}:accumulate_spatial", look)
    assert "; passes " in timed
    assert "; passes " not in hidden


@pytest.mark.usefixtures("poor")
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_masks_and_intermediates_are_accessible_and_fit(
    width: int, scheme: str, looking: Callable[..., Any], lacking: Callable[[str], NoReturn]
) -> None:
    if not AXE.is_file():
        lacking(f"{AXE} is missing: run `npm ci` in {AXE.parents[2]}.")

    async def look(page: Page) -> tuple[Any, int]:
        await page.click("#mask > summary")
        await page.click("#masks details summary")
        await page.click("#tensor-names button:has-text('lines')")
        await page.click("#tensor .controls button:has-text('difference')")
        await page.click("#tensor td button")
        await page.wait_for_selector("#writers h3")
        await page.add_script_tag(path=str(AXE))
        found = await page.evaluate(
            "axe.run({ exclude: [['#wgsl']] })"
            ".then(({ violations }) => violations.map((one) => [one.id, one.nodes.map((n) => n.html)]))"
        )
        return found, await page.evaluate("document.documentElement.scrollWidth")

    asked = f"{CASE}:nchw2d_columns_x4&profile=poor&limit={LIMIT}=10&mask=shader-f16"
    violations, wide = looking(asked, look, width, scheme)
    assert violations == []
    assert wide <= width
