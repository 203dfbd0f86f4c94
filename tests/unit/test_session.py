"""A session: the next pair is planned while one runs, and no verdict is lost to what the next one meets."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernel_lab import line
from kernel_lab.browsing.browser import BrowserInfo
from kernel_lab.browsing.lab import NoAdapter, Ran
from kernel_lab.browsing.profiles import Profile
from kernel_lab.judging import journal
from kernel_lab.judging.journal import Journal
from kernel_lab.judging.verdicts import Verdict
from kernel_lab.operators.cases import Case
from kernel_lab.operators.operator import Operator
from kernel_lab.operators.requests import request_of
from kernel_lab.planning.facts import PACKING_FEATURE, DeviceFacts
from kernel_lab.runs import Pair
from kernel_lab.serving.frames import Job, RunResult
from kernel_lab.session import Session, repeated

FACTS = DeviceFacts(features=frozenset({PACKING_FEATURE}))
REFERENCE = "def reference(inputs, attrs):\n    return {'y': inputs['x'] + 1}\n"


class Lab:
    """Notes what is begun, waited for and cancelled. `gone_at`: the device that is asked for then is not there."""

    profile = Profile("p", Path("/chromium"))
    info = BrowserInfo("156", "/chromium", (), False, "agent", FACTS)

    def __init__(self, gone_at: int = 0, interrupted_at: int = 0) -> None:
        self.gone_at, self.interrupted_at = gone_at, interrupted_at
        self.asked = 0
        self.noted: list[str] = []

    @property
    def facts(self) -> DeviceFacts:
        self.asked += 1
        if self.asked == self.gone_at:
            raise NoAdapter("none is there any more.")
        return FACTS

    def begin(self, job: Job) -> "Running":
        number = sum(note.startswith("begun") for note in self.noted) + 1
        self.noted.append(f"begun {number}")
        return Running(self, number)


class Running:
    def __init__(self, lab: Lab, number: int) -> None:
        self.lab, self.number = lab, number

    def ran(self) -> Ran:
        if self.number == self.lab.interrupted_at:
            raise KeyboardInterrupt
        self.lab.noted.append(f"waited for {self.number}")
        return Ran(RunResult("ok", equal=frozenset({"y"})), self.lab.info, 1.0)

    def cancel(self) -> None:
        self.lab.noted.append(f"cancelled {self.number}")


@pytest.fixture
def tiny_pairs(operator_from: Callable[..., Operator], tiny_manifest: dict[str, Any]) -> list[Pair]:
    """Four pairs; the third is refused, so that nothing runs for it."""
    op = operator_from(tiny_manifest, **{"reference.py": REFERENCE})

    def pair(name: str, inputs: dict[str, Any], **more: Any) -> Pair:
        return Pair(op, Case(op.id, name, request_of(op.id, inputs, {}), lambda: inputs, **more))

    given = {"x": np.array([1, 2, 3], np.uint8)}
    refused = pair("refused", {"x": np.array([1], np.int16)}, refused="x")
    return [pair("one", given), pair("two", given), refused, pair("four", given)]


def names(log: Journal) -> list[str]:
    return [record["case"] for record in journal.load(log.path).results]


def test_the_next_pairs_are_begun_before_one_is_waited_for(tiny_pairs: list[Pair], tmp_path: Path) -> None:
    lab: Any = Lab()
    log = Journal(tmp_path, {"command": "run"})
    verdicts = list(Session(lab, log).judge_each(tiny_pairs))
    assert [verdict.outcome for verdict in verdicts] == ["passed"] * 4
    assert names(log) == ["one", "two", "refused", "four"]
    assert lab.noted == ["begun 1", "begun 2", "waited for 1", "begun 3", "waited for 2", "waited for 3"]


def test_nothing_is_planned_beside_a_run_whose_times_are_asked_for(tiny_pairs: list[Pair]) -> None:
    lab: Any = Lab()
    list(Session(lab, None, line.Options(timing=True)).judge_each(tiny_pairs[:2]))
    assert lab.noted == ["begun 1", "waited for 1", "begun 2", "waited for 2"]


def test_one_pair_alone_is_waited_for(tiny_pairs: list[Pair]) -> None:
    lab: Any = Lab()
    session = Session(lab, None)
    assert [session.judge(pair).outcome for pair in tiny_pairs[:2]] == ["passed"] * 2
    assert lab.noted == ["begun 1", "waited for 1", "begun 2", "waited for 2"]


def test_what_runs_has_its_verdict_though_the_next_one_meets_no_adapter(tiny_pairs: list[Pair], tmp_path: Path) -> None:
    log = Journal(tmp_path, {"command": "run"})
    given = []
    lab: Any = Lab(gone_at=4)  # asked twice a pair: for the trace, and for the plan
    with pytest.raises(NoAdapter):
        given.extend(Session(lab, log).judge_each(tiny_pairs))
    assert names(log) == ["one"]


def test_an_interrupt_cancels_what_was_begun_last_first(tiny_pairs: list[Pair], tmp_path: Path) -> None:
    log = Journal(tmp_path, {"command": "run"})
    lab: Any = Lab(interrupted_at=2)
    with pytest.raises(KeyboardInterrupt):
        list(Session(lab, log).judge_each([tiny_pairs[0], *tiny_pairs[:2], tiny_pairs[3]]))
    assert names(log) == ["one"]
    assert lab.noted[-2:] == ["cancelled 4", "cancelled 3"]


# --repeat: races show as outputs that change.


def judged(times: int, *verdicts: Verdict) -> tuple[Verdict, int]:
    """The verdict on a pair whose runs give these verdicts in turn, and how often it ran."""
    left = list(verdicts)
    verdict = repeated(left.pop(0), lambda: left.pop(0), times)
    return verdict, len(verdicts) - len(left)


def right(digest: str = "aa") -> Verdict:
    return Verdict("q", "passed", "equal", record={"outcome": "passed", "outputs": {"y": digest}})


WRONG = Verdict(
    "q", "failed", "y: 1 of 2 differs", "q\ny: 1 of 2 differs", {"outcome": "failed", "outputs": {"y": "bb"}}
)


def test_each_pair_runs_as_often_as_asked() -> None:
    assert judged(1, right(), WRONG)[1] == 1
    verdict, ran = judged(3, right(), right(), right(), WRONG)
    assert (verdict.outcome, verdict.record["runs"], ran) == ("passed", 3, 3)


def test_outputs_that_change_fail_and_the_report_says_which_run() -> None:
    verdict, ran = judged(9, right(), right(), WRONG, right())
    assert (verdict.outcome, ran) == ("failed", 3)
    assert verdict.summary == "run 3 of 9 differs from those before, which were right: y: 1 of 2 differs"
    assert verdict.report.startswith("q\ny: 1 of 2 differs")
    assert "a race?" in verdict.report
    assert verdict.record["outcome"] == "failed"
    assert verdict.record["run"] == "run 3 of 9"


def test_another_digest_fails_even_where_each_run_was_accepted() -> None:
    verdict, _ = judged(2, right("aa"), right("cc"))
    assert (verdict.outcome, verdict.record["run"]) == ("failed", "run 2 of 2")


@pytest.mark.parametrize("first", [WRONG, Verdict("q", "skipped", "no")])
def test_what_did_not_run_or_failed_is_not_repeated(first: Verdict) -> None:
    verdict, ran = judged(5, first, right())
    assert verdict is first
    assert ran == 1
