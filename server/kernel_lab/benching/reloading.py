"""How long it takes the debug page from a file saved to its redrawing: a template, a manifest, a reference.

In: a Lab. Out: milliseconds by kind of file, the waits for the page's next look included. Nothing is judged here.
"""

import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.async_api import Page

from kernel_lab import resources
from kernel_lab.browsing.lab import Lab
from kernel_lab.debugging.desk import Desk
from kernel_lab.operators import operator
from kernel_lab.serving import planner
from kernel_lab.serving.host import Host

OPERATOR, QUERY = "ai.onnx.ConvInteger", "ai.onnx.ConvInteger:groups:accumulate_spatial"
FILES = {
    "template": "_shared/conv-int-accumulate-spatial.wgsl.jinja",
    "manifest": f"{OPERATOR}/manifest.json",
    "reference": f"{OPERATOR}/reference.py",
}
BETWEEN_SECONDS = 0.03


def measure(lab: Lab, rounds: int) -> dict[str, dict[str, float]]:
    """Median and longest of so many saves of each file."""
    assert lab.facts
    taken: dict[str, list[float]] = {kind: [] for kind in FILES}
    with tempfile.TemporaryDirectory() as folder:
        shaders = Path(shutil.copytree(resources.shaders(), Path(folder) / "shaders"))
        host = Host(planner.answer, desk=Desk(operator.load_all(shaders)))
        address = f"{host.address}/debug?query={QUERY}&token={host.hub.token}"
        try:
            page = lab.host.call(_opened(lab.browser.page, address))
            for number in range(rounds):
                for kind, name in FILES.items():
                    time.sleep(BETWEEN_SECONDS * number)  # at another moment between two looks of the page
                    taken[kind].append(_saved(lab, page, shaders / name))
            lab.host.call(page.close())
        finally:
            host.close()
    return {kind: {"median": statistics.median(ms), "max": max(ms)} for kind, ms in taken.items()}


async def _opened(lab_page: Page, address: str) -> Page:
    """The debug page in a window of its own, with an element chosen."""
    browser = lab_page.context.browser
    assert browser is not None
    page = await browser.new_page()
    await page.goto(address)
    await page.wait_for_function("globalThis.lab?.runs === 1")
    await page.evaluate("lab.inspect('y', [0, 0, 0, 0])")
    return page


def _saved(lab: Lab, page: Page, file: Path) -> float:
    """Saves the file with a blank line more, and waits until its run has drawn the chosen element."""
    text = file.read_text("utf-8")
    runs = lab.host.call(page.evaluate("document.getElementById('element').replaceChildren(), lab.runs"))
    drawn = "(runs) => lab.runs > runs && document.querySelector('#element h2')?.textContent === 'y[0, 0, 0, 0]'"
    started = time.perf_counter()
    file.write_text(f"{text}\n", "utf-8")
    lab.host.call(page.wait_for_function(drawn, arg=runs))
    return 1e3 * (time.perf_counter() - started)


def lines(report: dict[str, Any]) -> list[str]:
    """The report for a person."""
    return [
        f"a saved {kind:<10} is redrawn in {ms['median']:.0f} ms, at most {ms['max']:.0f} ms"
        for kind, ms in report.items()
    ]
