"""A headed Chromium, as `--headed` and `debug` start it, computes the same; a virtual display is its screen."""

from collections.abc import Callable

import pytest

from kernel_lab import line
from kernel_lab.browsing.lab import Lab
from kernel_lab.browsing.profiles import resolve
from kernel_lab.errors import LabError
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator


def test_headed_chromium_computes_the_same(
    display: str,
    full_chromium: str,
    monkeypatch: pytest.MonkeyPatch,
    copy_operator: Operator,
    copy_case: Callable[[str], Case],
) -> None:
    monkeypatch.setenv("DISPLAY", display)
    with Lab(resolve(full_chromium, headed=True)) as lab:
        assert lab.info.headed
        assert "Headless" not in lab.info.user_agent
        for case in ("seven", "large"):
            verdict = line.follow(copy_operator, copy_case(case), lab, "copy")
            assert verdict.passed, verdict.report
        assert line.follow(copy_operator, copy_case("seven"), lab, "off_by_one").outcome == "failed"
        assert lab.restarts == 0


def test_headed_without_a_display_is_a_sentence(full_chromium: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with Lab(resolve(full_chromium, headed=True)) as lab, pytest.raises(LabError) as raised:
        _ = lab.info
    sentence = str(raised.value)
    assert sentence.startswith(f"{full_chromium} could not be started: ")
    assert "XServer" in sentence or "DISPLAY" in sentence
    assert "\n" not in sentence
