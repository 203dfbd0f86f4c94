"""A saved case shows in other versions of Chromium, from disk, what it showed where it was saved."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.async_api import Page

from kernel_lab import resources
from kernel_lab.browsing.lab import Lab
from kernel_lab.browsing.profiles import resolve
from kernel_lab.debugging import saving
from kernel_lab.operators import operator
from kernel_lab.operators.operator import Operator
from tests.harness.conftest import PATIENCE_SECONDS

pytestmark = pytest.mark.xdist_group("versions")

SEEDED = ("byte_of(x_zero_point[0], 0u)", "byte_of(x_zero_point[0], 1u)")
Told = tuple[str, list[list[str]]]


@pytest.fixture
def broken(tmp_path: Path) -> Operator:
    """ConvInteger, one of whose templates reads a zero point from the byte beside it."""
    shaders = Path(shutil.copytree(resources.shaders(), tmp_path / "shaders"))
    template = shaders / "_shared" / "conv-int-accumulate-spatial.wgsl.jinja"
    text = template.read_text()
    assert text.count(SEEDED[0]) == 1
    template.write_text(text.replace(*SEEDED))
    return operator.load_all(shaders)["ai.onnx.ConvInteger"]


def shown(lab: Lab, file: Path) -> Told:
    """What the page says of the whole and of each wrong element: index, actual and expected value, and their bits."""

    async def look(page: Page) -> Told:
        browser = page.context.browser
        assert browser is not None
        own = await browser.new_page()
        try:
            await own.goto(file.as_uri())
            await own.wait_for_selector("#outcome.passed, #outcome.failed", timeout=1000 * PATIENCE_SECONDS)
            rows = "[...document.querySelectorAll('#outputs tbody tr')]"
            cells = await own.evaluate(f"{rows}.map((row) => [...row.cells].map((cell) => cell.textContent))")
            return await own.inner_text("#verdict"), cells
        finally:
            await own.close()

    assert lab.facts
    return lab.host.call(asyncio.wait_for(look(lab.browser.page), PATIENCE_SECONDS))


@pytest.fixture(scope="module")
def labs(lab: Lab, versions: list[str]) -> Iterator[list[Lab]]:
    """This Chromium, the oldest, and one between."""
    with ExitStack() as stack:
        others = [stack.enter_context(Lab(resolve(f"{name}-swiftshader"))) for name in versions[:2]]
        labs = [lab, *others]
        assert len({one.info.version for one in labs}) == 3, versions
        yield labs


@pytest.fixture
def everywhere(labs: list[Lab], tmp_path: Path) -> Callable[[Operator], list[Told]]:
    """What ConvInteger:groups, saved here, shows here and elsewhere."""

    def look(conv: Operator) -> list[Told]:
        file = tmp_path / "case.html"
        case = next(case for case in conv.cases if case.name == "groups")
        file.write_text(saving.save(conv, case, "accumulate_spatial", labs[0]).text, "utf-8")
        return [shown(lab, file) for lab in labs]

    return look


def test_a_failure_is_the_same_in_other_versions(
    everywhere: Callable[[Operator], list[Told]], broken: Operator
) -> None:
    here, *others = everywhere(broken)
    verdict, rows = here
    assert verdict == "✕ Wrong. y: 120 of 120 elements differ; first at [0,0,0,0]."
    assert len(rows) > 1
    assert all(row[1] != row[2] and row[3] != row[4] for row in rows)
    assert others == [here, here]


def test_what_is_right_here_is_right_in_other_versions(everywhere: Callable[[Operator], list[Told]]) -> None:
    told = everywhere(operator.load_all()["ai.onnx.ConvInteger"])
    assert {verdict for verdict, _ in told} == {"● Right: y equal to the bit."}, told
