"""The three bugs of docs/debugging.md, each found on the debug page as the guide says: element, window, template line.

KERNEL_LAB_PICTURES=1 takes the guide's pictures anew.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page

from kernel_lab import resources
from kernel_lab.browsing.lab import Lab
from kernel_lab.debugging.desk import Desk
from kernel_lab.operators import operator
from kernel_lab.serving import planner
from kernel_lab.serving.host import Host

PICTURES = Path(__file__).parents[2] / "docs" / "debugging"
KERNEL, WINDOW = "conv-int-accumulate-spatial.wgsl.jinja", "convolution-window.wgsl.jinja"
QUERY = "ConvInteger:groups:accumulate_spatial"
TERM = "sum += x_centred * w_centred;"


@dataclass(frozen=True)
class Bug:
    """A line of a template, what stands there instead, and the probes that show it."""

    name: str
    file: str
    right: str
    wrong: str
    above: str
    probes: tuple[str, ...]


BUGS = (
    Bug(
        "zero-point", KERNEL, "byte_of(x_zero_point[0], 0u)", "byte_of(x_zero_point[0], 1u)", TERM,
        ('{{ probe("x_zero", "x_zero", "u32") }}', '{{ probe("x", "x_centred", "i32") }}'),
    ),
    Bug(
        "pads", WINDOW, "vec3<u32>(params.pad_depth, params.pad_height, params.pad_width)",
        "vec3<u32>(params.pad_depth, params.pad_width, params.pad_height)", "var sum = 0i;",
        ('{{ probe("origin", "window.origin", "vec3i") }}',),
    ),
    Bug(
        "tail", KERNEL, "k < params.channels_per_group;", "k + 1u < params.channels_per_group || k == 0u;", TERM,
        ('{{ probe("k", "k", "u32") }}', '{{ probe("x", "x_centred", "i32") }}'),
    ),
)  # fmt: skip


@pytest.fixture
def shaders(tmp_path: Path) -> Path:
    """A copy of the operators, to be broken."""
    return Path(shutil.copytree(resources.shaders(), tmp_path / "shaders"))


@pytest.fixture
def on_debug_page(lab: Lab, on_page: Callable[..., Any], shaders: Path) -> Iterator[Callable[..., Any]]:
    host = Host(planner.answer, desk=Desk(operator.load_all(shaders)))

    def at(look: Callable[[Page], Any]) -> Any:
        async def act(page: Page) -> Any:
            browser = page.context.browser
            assert browser is not None
            own = await browser.new_page(viewport={"width": 1280, "height": 900})
            try:
                await own.goto(f"{host.address}/debug?query={QUERY}&token={host.hub.token}")
                return await look(own)
            finally:
                await own.close()

        return on_page(act)

    yield at
    host.close()


def change(file: Path, old: str, new: str) -> int:
    """Replaces what stands there once; its line."""
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    return text[: text.index(old)].count("\n") + 1


async def probed(page: Page) -> list[list[str]]:
    await page.click("#writers button:has-text('probes')")
    await page.wait_for_selector("#writers .probes")
    rows = "[...document.querySelectorAll('#writers .probes tbody tr')]"
    found: list[list[str]] = await page.evaluate(f"{rows}.map((row) => [...row.cells].map((cell) => cell.innerText))")
    return found


async def terms(page: Page) -> list[list[str]]:
    rows = "[...document.querySelectorAll('#element .wide tbody tr')]"
    found: list[list[str]] = await page.evaluate(f"{rows}.map((row) => [...row.cells].map((cell) => cell.innerText))")
    return found


async def unclear(page: Page, width: int) -> list[str]:
    """What a person in a window of that width would miss, of the page as it is now with all that was opened on it."""
    await page.set_viewport_size({"width": width, "height": 900})
    wide = await page.evaluate("document.scrollingElement.scrollWidth")
    code = await page.locator("#wgsl code").first.bounding_box()
    assert code is not None
    found = {"the page scrolls sideways": wide > width, "the WGSL is out of sight": code["x"] > width / 2}
    return [missed for missed, here in found.items() if here]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_is_found_on_the_page(bug: Bug, on_debug_page: Callable[..., Any], shaders: Path) -> None:
    shared = shaders / "_shared"
    line = change(shared / bug.file, bug.right, bug.wrong)

    async def look(page: Page) -> tuple[Any, ...]:
        await page.wait_for_selector("#writers .writer")
        told, element = await page.inner_text("#verdict"), await page.inner_text("#element h2")
        writer, spelled = await page.inner_text("#writers"), await terms(page)
        lines = "\n".join(bug.probes)
        change(shared / KERNEL, bug.above, f"{lines}\n{bug.above}")  # the page notices, and keeps the element
        await page.wait_for_selector("#writers button:has-text('probes')")
        assert await page.inner_text("#element h2") == element
        seen = await probed(page)
        missed = {width: await unclear(page, width) for width in (390, 1280)}
        if os.environ.get("KERNEL_LAB_PICTURES"):
            await page.locator("#element").screenshot(path=PICTURES / f"{bug.name}.png")
        shown = await page.evaluate(
            "(text) => [...document.querySelectorAll('#wgsl tr')]"
            ".filter((row) => row.cells[2]?.innerText.includes(text)).map((row) => row.cells[0].innerText)",
            bug.wrong,
        )
        change(shared / bug.file, bug.wrong, bug.right)
        await page.wait_for_function("/equal to the bit/.test(document.getElementById('verdict').textContent)")
        return told, element, writer, spelled, seen, shown, missed

    told, element, writer, spelled, seen, shown, missed = on_debug_page(look)
    assert missed == {390: [], 1280: []}
    assert told.startswith("✕ y: ")
    assert element.startswith("y[")
    assert "pass accumulate: workgroup [" in writer
    assert [place.partition(":")[0] for place in shown] == [bug.file]
    assert shown == [f"{bug.file}:{line}"], "all three stand above the probes"
    inside = [row for row in spelled if row[0] != "padding"]
    values = {name: [row[3] for row in seen if row[1] == name] for name in {row[1] for row in seen}}
    if bug.name == "zero-point":  # the term has x less its zero point, the kernel x itself
        assert set(values["x_zero"]) == {"0"}
        assert values["x"] != sorted(row[2] for row in inside)
        assert sorted(values["x"], key=int) == sorted((row[1] for row in inside), key=int)
    elif bug.name == "pads":  # the window begins elsewhere than its first tap says
        case = next(case for case in operator.named("ConvInteger").cases if case.name == "groups")
        top, left = case.request.attrs["pads"][:2]
        assert top != left
        assert values["origin"] != [f"(0, {-top}, {-left})"]
    else:  # taps of the last channel are missing
        assert set(values["k"]) == {"0"}
        assert len(values["k"]) < len(inside)
