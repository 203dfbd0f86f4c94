"""The HTML report in a real browser, from disk: what it shows, by mouse and by keyboard, wide and narrow."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Page

from kernel_lab import line, runs, session
from kernel_lab.browsing.lab import Lab
from kernel_lab.judging import journal
from kernel_lab.judging.journal import Journal
from kernel_lab.operators.operator import Operator
from kernel_lab.queries import parse
from kernel_lab.reporting import writing
from kernel_lab.reporting.report import Part

QUERIES = ("Copy:seven:copy", "Copy:seven:off_by_one", "Copy:seven:undeclared", "Copy:seven:twin")


@pytest.fixture(scope="module")
def address(lab: Lab, copy_operator: Operator, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a real run with failures on one browser, a better run on another, and none on a third."""
    folder = tmp_path_factory.mktemp("report")
    parts = []
    for name, queries in (("first", QUERIES), ("second", QUERIES[::3])):
        log = Journal(folder / name, {"command": "run", **runs.describe(lab.info)})
        pairs = list(runs.pairs([copy_operator], [parse(text) for text in queries], every_variant=True))
        session.perform(pairs, lab, log, line.Options())
        log.close()
        parts.append(Part(name, (journal.load(log.path),)))
    writing.write(folder, [*parts, Part("third", (), "it did not start")])
    return (folder / writing.PAGE_FILE).as_uri()


@pytest.fixture
def looking(lab: Lab, on_page: Callable[..., Any], address: str) -> Callable[..., Any]:
    """What `look(page)` gives of the report, opened in a window of its own; any error on it fails."""

    def at(look: Callable[[Page], Any], width: int = 1280) -> Any:
        async def act(page: Page) -> Any:
            browser = page.context.browser
            assert browser is not None
            own = await browser.new_page(viewport={"width": width, "height": 900})
            errors: list[str] = []
            requests: list[str] = []
            own.on("pageerror", lambda error: errors.append(str(error)))
            own.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
            own.on("request", lambda request: requests.append(request.url))
            try:
                await own.goto(address)
                found = await look(own)
            finally:
                await own.close()
            assert errors == []
            assert requests == [address]
            return found

        return on_page(act)

    return at


async def rows(page: Page) -> list[list[str]]:
    texts: list[list[str]] = await page.evaluate(
        "() => [...document.querySelectorAll('#grid tbody tr:not(.group)')]"
        ".map((row) => [...row.children].map((cell) => cell.innerText.trim()))"
    )
    return texts


def test_the_grid_shows_every_variant_by_browser(looking: Callable[..., Any]) -> None:
    assert sorted(looking(rows)) == [
        ["copy", "● 1", "● 1", "·"],
        ["off_by_one", "✕ 1", "·", "·"],
        ["twin", "● 1", "● 1", "·"],
        ["undeclared", "✕ 1", "·", "·"],
    ]


def test_a_browser_that_ran_nothing_says_why(looking: Callable[..., Any]) -> None:
    told = looking(lambda page: page.inner_text("#browsers li:nth-child(3)"))
    assert "it did not start" in told
    assert "Nothing ran here: that is a failure." in told


def test_filters_leave_what_fits(looking: Callable[..., Any]) -> None:
    async def filtered(page: Page) -> tuple[Any, ...]:
        await page.check("input[value=failed]")
        failed = [row[0] for row in await rows(page)]
        await page.fill("#find", "OFF_by")
        found = [row[0] for row in await rows(page)]
        await page.fill("#find", "no such thing")
        return sorted(failed), found, await page.inner_text("#shown")

    assert looking(filtered) == (["off_by_one", "undeclared"], ["off_by_one"], "Nothing fits these filters.")


def test_a_cell_opens_the_failure_by_keyboard(looking: Callable[..., Any]) -> None:
    async def opened(page: Page) -> tuple[Any, ...]:
        await page.check("input[value=failed]")
        await page.focus("tr:has-text('off_by_one') td button")
        await page.keyboard.press("Enter")
        report = await page.inner_text("#detail pre")
        coloured = await page.evaluate("""() => {
          const canvas = document.querySelector("#detail canvas");
          const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          return [canvas.width, [...pixels].filter((value, index) => index % 4 === 3 && value > 0).length];
        }""")
        return report, coloured, await page.evaluate("document.activeElement.id")

    report, (width, wrong), focused = looking(opened)
    assert "elements differ" in report
    assert width == 7
    assert 1 <= wrong <= 7
    assert focused == "detail"


@pytest.mark.parametrize("width", [390, 1280])
def test_a_failure_says_the_command_that_opens_the_debug_page(looking: Callable[..., Any], width: int) -> None:
    """In full, above its report, to be copied."""

    async def opened(page: Page) -> tuple[Any, ...]:
        await page.click("tr:has-text('off_by_one') td button")
        line = page.locator("#detail .command").first
        command = line.locator("code")
        clipped = await command.evaluate("(code) => code.getClientRects()[0].right > innerWidth")
        await line.locator("button").click()
        await line.locator("[role=status]:not(:empty)").wait_for()
        told = await line.locator("[role=status]").inner_text()
        selected = await page.evaluate("getSelection().toString()")
        return await line.inner_text(), clipped, told, selected, await page.inner_text("#detail pre")

    line, clipped, told, selected, report = looking(opened, width)
    command = "kernel-lab debug lab.test.Copy:seven:off_by_one"
    assert line.startswith(f"Look at it on the debug page: {command}")
    assert f"look      {command}" in report
    assert not clipped
    assert told == "Copied." or selected == command


def test_a_case_shows_what_selection_said_of_every_variant(looking: Callable[..., Any]) -> None:
    async def opened(page: Page) -> str:
        await page.click("tr:has-text('twin') td button")
        await page.click("#detail summary:has-text('seven')")
        await page.click("#detail summary:has-text('selection')")
        return await page.inner_text("#detail .trace")

    told = looking(opened)
    assert "twin accepted" in told
    assert "wants_f16 no: needs the feature 'shader-f16'; this adapter offers: " in told


def test_the_other_views_are_tabs_for_the_arrow_keys(looking: Callable[..., Any]) -> None:
    async def walked(page: Page) -> tuple[Any, ...]:
        await page.focus("#tab-results")
        await page.keyboard.press("ArrowRight")
        features = await page.inner_text("#features")
        await page.keyboard.press("ArrowRight")
        points = await page.locator("#times svg[role=img] title").count()
        return features, points, await page.get_attribute("#tab-times", "aria-selected")

    features, points, chosen = looking(walked)
    assert "timestamp-query" in features
    assert "packed_4x8_integer_dot_product" in features
    assert points >= 2
    assert chosen == "true"


@pytest.mark.parametrize("view", ["results", "features", "times"])
def test_nothing_sticks_out_at_the_width_of_a_phone(looking: Callable[..., Any], view: str) -> None:
    async def measured(page: Page) -> Any:
        await page.click(f"#tab-{view}")
        if view == "results":
            await page.click("td.has-failed button")
        return await page.evaluate("document.documentElement.scrollWidth")

    assert looking(measured, width=390) == 390
