"""Intermediates on the debug page: compared with the reference's values, so that they tell which pass is wrong."""

from collections.abc import Callable
from typing import Any

from playwright.async_api import Page

CASE = "QLinearConv:uint8_int8_int8:accumulate_spatial"


async def marks(page: Page) -> dict[str, str]:
    names = await page.locator("#tensor-names button").all_inner_texts()
    return {name: note for name, _, note in (text.partition(" ") for text in names)}


async def seed(page: Page, run_pass: str, right: str, wrong: str) -> None:
    """Edits the WGSL of a pass, and runs it."""
    await page.click(f"#pass-names button:has-text('{run_pass}')")
    await page.click("#wgsl button:has-text('Edit')")
    text = await page.input_value("#wgsl textarea")
    assert right in text
    await page.fill("#wgsl textarea", text.replace(right, wrong))
    await page.click("#wgsl button:has-text('Run this text')")
    await page.wait_for_function("lab.runs === 2")


async def inspected(page: Page, name: str, index: list[int]) -> str:
    await page.evaluate(f"lab.inspect('{name}', {index})")
    title = f"{name}[{', '.join(map(str, index))}]"
    await page.wait_for_function(f"document.querySelector('#element h2')?.innerText === '{title}'")
    await page.wait_for_selector("#writers > *")
    return await page.inner_text("#element")


def test_a_fault_in_the_first_pass_shows_on_what_it_leaves(looking: Callable[..., Any]) -> None:
    async def look(page: Page) -> tuple[Any, ...]:
        before = await marks(page), await page.inner_text("#blame")
        await seed(
            page, "accumulate", "sums[element] = u32(sum);", "sums[element] = u32(sum) + 5000u * (element & 1u);"
        )
        after = await marks(page), await page.inner_text("#blame")
        boxes = await page.locator("#plan .box[aria-label^='✕']").all_text_contents()
        await page.click("#tensor-names button:has-text('sums')")
        said = await page.inner_text("#tensor p")
        await page.click("#tensor tr.failed button")
        await page.wait_for_function("/^sums/.test(document.querySelector('#element h2').innerText)")
        return *before, *after, boxes, said, await page.inner_text("#element")

    right, nothing, found, blame, boxes, said, told = looking(CASE, look)
    assert (right["multiplier"], right["sums"], right["y"], nothing) == ("●", "●", "●", "")
    assert (found["multiplier"], found["sums"]) == ("●", "✕ 45")
    assert found["y"].startswith("✕ ")
    assert blame == "The first pass with a wrong result is 2. accumulate (sums)"
    assert {text.split()[1] for text in boxes} == {"sums", "y"}
    assert said == "sums: intermediate, int32 [1, 6, 3, 5]; 45 of 90 elements differ; expected is the reference's sums"
    assert "sums[0, 0, 0, 1]" in told
    expected = int(told.partition("expected ")[2].split()[0])
    assert f"actual {expected + 5000} " in told
    assert f"= {expected}" in told, "the sum is spelled out"


def test_a_fault_in_the_second_pass_does_not(looking: Callable[..., Any]) -> None:
    async def look(page: Page) -> tuple[Any, ...]:
        await seed(page, "requantize", "y[word] = ", "y[word] = 1u + ")
        return await marks(page), await page.inner_text("#blame"), await page.inner_text("#verdict")

    found, blame, verdict = looking(CASE, look)
    assert (found["multiplier"], found["sums"]) == ("●", "●")
    assert found["y"].startswith("✕ ")
    assert verdict.startswith("✕ y: ")
    assert "sums" not in verdict, "the verdict is about outputs"
    wanted = (
        "The first pass with a wrong result is 3. requantize (y); it reads sums, multiplier, as the reference has it"
    )
    assert blame == wanted


def test_a_fault_in_the_last_of_two_that_may_write_y_is_its_own(looking: Callable[..., Any]) -> None:
    async def look(page: Page) -> tuple[Any, ...]:
        await seed(page, "join", "y[word] = packed;", "y[word] = packed + 1u;")
        return await marks(page), await page.inner_text("#blame")

    found, blame = looking("QLinearConv:uint8_int8_int8:nchw2d_columns_x4", look)
    assert (found["weights"], found["lines"]) == ("●", "●")
    wanted = "The first pass with a wrong result is 4. join (y); it reads lines, as the reference has it; "
    assert blame == f"{wanted}y may be written by 3. columns, too"


def test_an_element_says_what_of_the_reference_lies_there(looking: Callable[..., Any]) -> None:
    async def look(page: Page) -> tuple[str, ...]:
        seen = [await inspected(page, "columns", index) for index in ([0, 1, 14, 11], [0, 0, 0, 12])]
        await page.click("#tensor-names button:has-text('lines')")
        note = await page.inner_text("#tensor p")
        return *seen, note, await inspected(page, "lines", [0, 14]), await inspected(page, "lines", [0, 15])

    tap, padding, note, read, unread = looking("QLinearConv:uint8_int8_int8:dp4a_im2col_nchw_bias", look)
    assert "The reference's windows[n 0, g 1, o 14, c 1, k 5]." in tap
    assert "Padding: no element of the reference's windows lies here." in padding
    assert "Who wrote it" in tap
    assert "as expected" in padding, "padding that passes read is compared"
    assert note.endswith("expected is the reference's y; padding of which no pass makes use is not compared")
    assert "as expected" in read
    assert "Padding of which no pass makes use: it is not compared." in unread
    assert "expected" not in unread


def test_what_the_reference_does_not_know_is_shown_without_a_comparison(looking: Callable[..., Any]) -> None:
    async def look(page: Page) -> tuple[Any, ...]:
        await page.click("#tensor-names button:has-text('absent.B')")
        said = await page.inner_text("#tensor p")
        return await marks(page), said, await inspected(page, "absent.B", [0])

    found, said, told = looking("QLinearConv:nchw_im2col_per_tensor:accumulate_spatial", look)
    assert found["absent.B"] == "intermediate"
    assert said == "absent.B: intermediate, uint32 [1]; the reference has no value for it"
    assert "0 (0x00000000)" in told
    assert "No pass writes it" in told
    assert "The reference has no value for it." in told


def test_intermediates_go_by_keyboard(looking: Callable[..., Any]) -> None:
    async def look(page: Page) -> str:
        await page.focus("#plan .box[aria-label*='sums']")
        await page.keyboard.press("Enter")
        await page.focus("#tensor canvas")
        for key in ("ArrowRight", "ArrowDown", "Enter"):
            await page.keyboard.press(key)
        await page.wait_for_function("document.querySelector('#element h2')?.innerText === 'sums[0, 0, 1, 1]'")
        return await page.inner_text("#element")

    assert "The reference's sums[0, 0, 1, 1]." in looking(CASE, look)


def test_a_nan_is_a_nan(looking: Callable[..., Any]) -> None:
    """As for outputs: what a NaN carries beside being one is not compared."""

    async def look(page: Page) -> tuple[Any, ...]:
        store = "multiplier[channel] = (quotient & F32_SIGN) | clamped;"
        other = "multiplier[channel] = ((quotient & F32_SIGN) | clamped) + select(0u, 1u, clamped > F32_INFINITY);"
        await seed(page, "multiplier", store, other)
        shown = "lab.buffers.find(({ layout }) => layout.name === 'multiplier')"
        same = await page.evaluate(f"{shown}.actual.every((byte, at) => byte === {shown}.expected[at])")
        return await marks(page), same, await page.inner_text("#verdict")

    found, same, verdict = looking("QLinearConv:infinite_multipliers_bias_per_channel:accumulate_spatial", look)
    assert (found["multiplier"], same) == ("●", False)
    assert verdict.startswith("● equal to the bit")
