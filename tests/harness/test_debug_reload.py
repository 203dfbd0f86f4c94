"""A saved template, manifest or reference: one question within 300 ms of the page's own time, one specimen, one run,
on the same page, with the same element. How long all that takes is for `kernel-lab bench --harness` to say.
"""

import datetime
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page

from kernel_lab.debugging.desk import Desk
from kernel_lab.operators import operator
from kernel_lab.serving import planner
from kernel_lab.serving.host import Host

OPERATORS = Path(__file__).parents[1] / "operators"
WATCH_MS = 300


@dataclass(frozen=True)
class Save:
    """What is saved instead of what, and what the page says then; of the chosen element, y[2], too."""

    file: str
    right: str
    wrong: str
    verdict: str
    element: str


SAVES = (
    Save("copy.wgsl.jinja", "= spoiled(index, x[index]);", "= x[index] + 1u;", "7 of 7", "actual 1 (0x00000001)"),
    Save("manifest.json", "\"'{way}'\"", "\"'off_by_one'\"", "1 of 7", "0, as expected"),
    Save("reference.py", 'inputs["x"].copy()', 'inputs["x"] + 3', "7 of 7", "expected 3 (0x00000003)"),
)


async def own_requests_end(page: Page) -> None:
    """Waits: one that is under way might be answered of the files as they are afterwards. They are answered in turn."""
    await page.evaluate("fetch('/debug/stamp/lab.test.Copy').then((answer) => answer.text())")


@pytest.mark.parametrize("save", [*SAVES, replace(SAVES[-1], file="../../trusted.py")], ids=lambda save: save.file)
def test_a_saved_file_is_one_question_and_one_run(save: Save, on_page: Callable[..., Any], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(OPERATORS, tmp_path / "operators")) / "lab.test.Copy"
    file = (folder / save.file).resolve()
    reference = folder / "reference.py"
    if not file.exists():  # as --reference names one that lies elsewhere
        reference = reference.rename(file)
    text = file.read_text()
    assert text.count(save.right) == 1
    host = Host(planner.answer, desk=Desk(operator.load_packages([folder.parent], reference)))
    asked: list[str] = []

    async def look(page: Page) -> None:
        await page.clock.install()
        await page.goto(f"{host.address}/debug?query=Copy:seven:copy&token={host.hub.token}")
        await page.wait_for_function("lab.runs === 1")
        await page.evaluate("() => { lab.inspect('y', [2]); globalThis.samePage = true; }")
        await page.wait_for_selector("#writers .writer")
        await page.clock.pause_at(datetime.datetime.now() + datetime.timedelta(seconds=20))  # before any deadline
        await own_requests_end(page)
        page.on("request", lambda request: asked.append(request.url.partition("/debug/")[2].partition("/")[0]))
        file.write_text(text.replace(save.right, save.wrong))
        await page.clock.run_for(WATCH_MS)
        await page.wait_for_function("lab.runs === 2")
        await page.wait_for_function(
            "(text) => document.getElementById('element').innerText.includes(text)", arg=save.element
        )
        assert f"y: {save.verdict} elements differ" in await page.inner_text("#verdict")
        assert await page.inner_text("#element h2") == "y[2]"
        await page.clock.run_for(10 * WATCH_MS)
        await own_requests_end(page)
        assert await page.evaluate("[globalThis.samePage, lab.runs]") == [True, 2]

    async def in_a_window(page: Page) -> None:
        browser = page.context.browser
        assert browser is not None
        own = await browser.new_page()
        try:
            await look(own)
        finally:
            await own.close()

    try:
        on_page(in_a_window)
    finally:
        host.close()
    assert asked.count("specimen") == 1, asked
    assert asked[:2] == ["stamp", "specimen"]
    assert asked.count("stamp") == 1 + 10 + 1, "each 300 ms, and the last is this test's own"
