"""The standalone page in a real browser, from disk: what it finds, says and lets a person change."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from playwright.async_api import Page

from kernel_lab import cli, line
from kernel_lab.browsing.lab import Lab
from kernel_lab.debugging import saving
from kernel_lab.debugging.standalone import Sighting, standalone
from kernel_lab.errors import LabError
from kernel_lab.operators import dtypes, operator
from kernel_lab.operators.cases import Case
from kernel_lab.operators.dtypes import Array, DType
from kernel_lab.operators.operator import Operator
from kernel_lab.planning.plans import Plan
from kernel_lab.serving.frames import Job

SHIPPED = operator.load_all()
DONE = "#outcome.passed, #outcome.failed"
ENDS_MS = 30_000


@pytest.fixture
def looking(on_page: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """What `look(page)` gives of a page's text, once it has run; any error on it, and any request, fails."""

    def at(text: str, look: Callable[[Page], Any], width: int = 1280, before: str = "") -> Any:
        file = tmp_path / "page.html"
        file.write_text(text, "utf-8")

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
                if before:
                    await own.add_init_script(before)
                await own.goto(file.as_uri())
                await own.wait_for_selector(DONE, timeout=ENDS_MS)
                found = await look(own)
            finally:
                await own.close()
            assert errors == []
            assert requests == [file.as_uri()]
            return found

        return on_page(act)

    return at


@pytest.fixture
def saved(lab: Lab, copy_operator: Operator, copy_case: Callable[[str], Case]) -> Callable[..., str]:
    """The page of one variant of the copy operator."""
    return lambda variant, case="seven": saving.save(copy_operator, copy_case(case), variant, lab).text


def verdict(page: Page) -> Any:
    return page.inner_text("#verdict")


async def run_again(page: Page, button: str = "#again") -> str:
    """Runs and waits: `running` is over before the class comes back."""
    await page.click(button)
    await page.wait_for_selector(DONE, timeout=ENDS_MS)
    return await page.inner_text("#verdict")


def test_a_right_kernel_is_right(looking: Callable[..., Any], saved: Callable[..., str]) -> None:
    assert looking(saved("copy"), verdict) == "● Right: y equal to the bit."
    assert looking(saved("copy", "large"), verdict) == "● Right: y equal to the bit."
    assert looking(saved("copy", "nothing"), verdict) == "● Right: y equal to the bit."


def test_a_wrong_element_is_named_with_both_values(looking: Callable[..., Any], saved: Callable[..., str]) -> None:
    async def read(page: Page) -> tuple[str, str]:
        return await page.inner_text("#verdict"), await page.inner_text("#outputs tbody tr")

    told, row = looking(saved("off_by_one"), read)
    assert told == "✕ Wrong. y: 1 of 7 elements differ; first at [5]."
    assert row.split() == ["[5]", "67", "66", "0x00000043", "0x00000042"]


def test_poison_and_guards_are_as_in_the_harness(looking: Callable[..., Any], saved: Callable[..., str]) -> None:
    row = looking(saved("unwritten"), lambda page: page.inner_text("#outputs tbody tr"))
    assert row.split()[0::3] == ["[2]", "0xa5a5a5a5"]
    assert looking(saved("past_the_end"), verdict) == "✕ Wrong. a store went past the end of y."


def test_an_index_has_every_axis(looking: Callable[..., Any], saved: Callable[..., str]) -> None:
    row = looking(saved("off_by_one", "large"), lambda page: page.inner_text("#outputs tbody tr"))
    assert row.split()[0] == "[0,5]"


def test_a_compile_error_is_shown_at_its_line(looking: Callable[..., Any], saved: Callable[..., str]) -> None:
    async def read(page: Page) -> tuple[str, ...]:
        await page.click(".said button")
        chosen = await page.evaluate("getSelection().toString()")
        said = await page.inner_text(".said pre")
        return await page.inner_text("#verdict"), said, chosen, await page.inner_text(".code pre b")

    told, said, chosen, marked = looking(saved("type_error"), read)
    assert "does not compile" in told
    number, quoted = said.splitlines()[0].split(" | ")
    assert quoted.strip() == chosen.strip() == "let first_wrong: u32 = 1.5;"
    assert marked == f"✕ {number}"
    assert "^^^" in said


def test_a_pipeline_that_the_device_refuses_is_told(looking: Callable[..., Any], saved: Callable[..., str]) -> None:
    assert looking(saved("swapped_access"), verdict).startswith("✕ validation error: ")
    assert looking(saved("fixed_size"), verdict).startswith("✕ validation error: ")


def test_edited_wgsl_turns_a_failure_right_and_back(looking: Callable[..., Any], saved: Callable[..., str]) -> None:
    async def edit(page: Page) -> list[str]:
        text = await page.input_value("textarea")
        assert "index == 5u" in text
        await page.fill("textarea", text.replace("index == 5u", "false"))
        right = await run_again(page, "button:has-text('Run this text')")
        report = await page.evaluate("document.getElementById('report').textContent")
        wrong = await run_again(page, "button:has-text('Restore')")
        return [right, wrong, await run_again(page), report]

    right, wrong, again, report = looking(saved("off_by_one"), edit)
    assert right == "● Right: y equal to the bit. (with edited WGSL)"
    assert wrong == again == "✕ Wrong. y: 1 of 7 elements differ; first at [5]."
    assert "not the WGSL that was saved" in report


def test_the_report_is_copied_or_selected(looking: Callable[..., Any], saved: Callable[..., str]) -> None:
    async def copy(page: Page) -> tuple[str, str, str]:
        await page.focus("#copy")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#copied:not(:empty)")
        how = await page.inner_text("#copied")
        selected = await page.evaluate("getSelection().toString()")
        return how, selected, await page.evaluate("document.getElementById('report').textContent")

    how, selected, report = looking(saved("off_by_one"), copy)
    assert how == "Copied." or selected.strip() == report.strip()
    for part in ("lab.test.Copy:seven:off_by_one", "[5] actual 67, expected 66", "adapter   ", "wgsl      "):
        assert part in report


def test_what_is_missing_is_said(
    looking: Callable[..., Any], planned: Callable[..., Plan], job: Callable[..., Job]
) -> None:
    seen = Sighting("q", "failed", "a browser", "an adapter")

    def page_of(plan: Plan) -> str:
        return standalone(plan, job().inputs, job().inputs | {"y": job().inputs["x"]}, seen)

    lacking = looking(page_of(replace(planned(), features=("no-such-feature",))), verdict)
    assert lacking == "✕ missing: This adapter lacks what the kernel needs: the feature no-such-feature."
    gone = "Object.defineProperty(navigator, 'gpu', { value: undefined })"
    assert "navigator.gpu is missing" in looking(page_of(planned()), verdict, before=gone)
    none = "GPU.prototype.requestAdapter = async () => null"
    assert "requestAdapter() gave null" in looking(page_of(planned()), verdict, before=none)
    (item,) = planned().passes
    wants = replace(item.wgsl, text="requires no_such_extension;\n" + item.wgsl.text)
    told = looking(page_of(replace(planned(), passes=(replace(item, wgsl=wants),))), verdict)
    assert told.endswith("the WGSL language feature no_such_extension.")


def test_a_limit_that_the_adapter_lacks_is_noted_and_the_kernel_runs(
    looking: Callable[..., Any], planned: Callable[..., Plan], job: Callable[..., Job]
) -> None:
    async def read(page: Page) -> tuple[str, str]:
        return await page.inner_text("#verdict"), await page.inner_text("#here")

    plan = replace(planned(), limits={**planned().limits, "maxBufferSize": 2**50, "maxNothing": 5})
    text = standalone(plan, job().inputs, {"y": job().inputs["x"]}, Sighting("q", "failed", "b", "a"))
    told, here = looking(text, read)
    assert told.startswith("● Right")
    assert f"the plan was made for {2**50}" in here


@pytest.mark.parametrize(
    ("query", "variant", "passes"),
    [
        ("ai.onnx.DequantizeLinear:int4_to_f16_blocked", None, 1),
        ("ai.onnx.DequantizeLinear:f16_overflow", None, 1),
        ("ai.onnx.ConvInteger:card_example", "im2col_spatial", 2),
    ],
)
def test_real_operators(lab: Lab, looking: Callable[..., Any], query: str, variant: str | None, passes: int) -> None:
    name, _, case_name = query.partition(":")
    case = next(case for case in SHIPPED[name].cases if case.name == case_name)
    saved = saving.save(SHIPPED[name], case, variant, lab)
    assert saved.verdict.passed

    async def read(page: Page) -> tuple[str, int]:
        return await page.inner_text("#verdict"), await page.locator("textarea").count()

    assert looking(saved.text, read) == ("● Right: y equal to the bit.", passes)


def test_a_wrong_second_pass_shows_its_sums(lab: Lab, looking: Callable[..., Any]) -> None:
    """Both passes run in one submit, the second on what the first wrote: spoiling the first spoils the output."""
    conv = SHIPPED["ai.onnx.ConvInteger"]
    case = next(case for case in conv.cases if case.name == "card_example")

    async def spoil(page: Page) -> str:
        area = page.locator("textarea").first
        text = await area.input_value()
        start = text.index("{", text.index("fn main("))
        await area.fill(text[: start + 1] + " if (true) { return; } " + text[start + 1 :])
        return await run_again(page, "button:has-text('Run this text') >> nth=0")

    assert looking(saving.save(conv, case, "im2col_spatial", lab).text, spoil).startswith("✕ Wrong. y: ")


READ = """({ words, dtype, count }) => Array.from({ length: count }, (_, flat) => {
  const code = codeAt(words, flat, dtype, "packed");
  const value = valueOf(code, dtype);
  return [code, Object.is(value, -0) ? "-0" : String(value)];
})"""


def some_of(dtype: DType) -> Array:
    """All codes of up to 8 bits, and a spread of the others."""
    count = 2 ** min(dtype.bits, 12)
    step = (2**dtype.bits - 1) // (count - 1)
    codes = np.arange(count, dtype=np.uint64) * step + np.arange(count, dtype=np.uint64) % min(step, 7)
    kept = np.minimum(codes, 2**dtype.bits - 1).astype({8: "u1", 16: "u2", 32: "u4"}[max(8, dtype.bits)])
    return dtypes.from_codes(kept, dtype, (count,))


def test_every_dtype_is_read_as_numpy_reads_it(looking: Callable[..., Any], saved: Callable[..., str]) -> None:
    """As codes out of packed words, and as numbers, with the sign of 0."""
    arrays = {name: some_of(dtype) for name, dtype in dtypes.DTYPES.items()}

    async def read(page: Page) -> Any:
        return {
            name: await page.evaluate(
                READ, {"words": np.frombuffer(dtypes.pack(a), np.uint32).tolist(), "dtype": name, "count": a.size}
            )
            for name, a in arrays.items()
        }

    for name, found in looking(saved("copy"), read).items():
        assert [code for code, _ in found] == dtypes.raw_codes(arrays[name]).tolist(), name
        with np.errstate(invalid="ignore"):
            right = arrays[name].astype(np.float64)
        values = np.array([float(text.replace("Infinity", "inf")) for _, text in found])
        assert np.array_equal(values, right, equal_nan=True), name
        real = ~np.isnan(right)
        assert np.array_equal(np.signbit(values[real]), np.signbit(right[real])), name


def test_floats_are_shown_in_few_digits(looking: Callable[..., Any], saved: Callable[..., str]) -> None:
    halves = np.array([0.1, -0.0, np.inf, 65504], np.float16).view(np.uint16).tolist()
    script = "(codes) => codes.map((code) => shown(code, 'float16'))"
    found = looking(saved("copy"), lambda page: page.evaluate(script, halves))
    assert np.array(found, np.float16).view(np.uint16).tolist() == halves
    assert found[1] == "-0"
    assert ml_dtypes.finfo(np.float16).max == float(found[3])


@pytest.mark.parametrize("variant", ["off_by_one", "type_error"])
def test_nothing_sticks_out_of_a_phone(looking: Callable[..., Any], saved: Callable[..., str], variant: str) -> None:
    wide = "document.documentElement.scrollWidth"
    assert looking(saved(variant), lambda page: page.evaluate(wide), width=390) == 390


def test_what_has_no_plan_has_no_page(lab: Lab, copy_operator: Operator, copy_case: Callable[[str], Case]) -> None:
    for case, variant, sentence in (
        ("seven", "undeclared", "NOBODY_DEFINED_THIS"),
        ("wrong_dtype", None, "refused"),
    ):
        with pytest.raises(LabError, match=sentence):
            saving.save(copy_operator, copy_case(case), variant, lab, line.Options())


def test_the_verb_writes_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "case.html"
    words = ["kernel-lab", "save", "ConvInteger:card_example:im2col_spatial", "--out", str(out)]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code in (0, None)
    assert out.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert f"page     {out}" in capsys.readouterr().out
