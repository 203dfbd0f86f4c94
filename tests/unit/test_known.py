"""Known failures: what a line may say, where it applies, and what becomes of what it names."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernel_lab import cli, runs
from kernel_lab.browsing.browser import BrowserInfo
from kernel_lab.cli import run as run_verb
from kernel_lab.errors import LabError
from kernel_lab.judging import changes, journal, known
from kernel_lab.judging.journal import FILE, Kept
from kernel_lab.judging.known import Entry, Known
from kernel_lab.judging.verdicts import Outcome, Verdict
from kernel_lab.operators import operator
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.queries import parse
from tests.unit.test_resume import COPY, OPERATORS, Lab, Said

REASON = "this variant is wrong on purpose"
WRONG = f'[[known]]\nquery = "Copy:seven:off_by_one"\nreason = "{REASON}"\n'


@pytest.fixture
def known_file(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, name: str = "known.toml") -> Path:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return write


# A file.


def test_a_file_may_say_everything_and_is_the_same_as_json(known_file: Callable[..., Path]) -> None:
    toml = f"""{WRONG}
        browser = "chromium >= 150, < 154"
        adapter = "*llvmpipe*"
        features = ["shader-f16"]
        lacks = ["subgroups"]"""
    line: dict[str, object] = {"query": "Copy:seven:off_by_one", "reason": REASON, "browser": "chromium >= 150, < 154"}
    line |= {"adapter": "*llvmpipe*", "features": ["shader-f16"], "lacks": ["subgroups"]}
    found = known.load(known_file(toml))
    assert found.entries == known.load(known_file(json.dumps({"known": [line]}), "known.json")).entries
    assert len(found.entries) == 1
    assert known.load(None) == Known()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (WRONG + "why = 'x'", "known.0.why: Extra inputs are not permitted (found: 'x')."),
        ("[[unknown]]\nquery = 'a'", "known: Field required"),
        ("", "known: Field required"),
        (WRONG.replace("Copy:seven", "Copy:seven:eight"), "known.0.query: query 'Copy:seven:eight:off_by_one': got 4"),
        (WRONG.replace("Copy:seven:off_by_one", "*:*"), "known.0.query: a query that names everything"),
        (WRONG.replace(REASON, "it fails"), "known.0.reason: String should have at least 20 characters (found: 'it f"),
        (WRONG.replace(REASON, " " * 30), "known.0.reason: String should have at least 20 characters"),
        (WRONG.replace("reason", "#"), "known.0.reason: Field required"),
        (WRONG + "browser = 'chromium < new'", "known.0.browser: a range is written as 'chromium >= 150, < 154'"),
        (WRONG + "browser = ''", "known.0.browser: String should have at least 1 character"),
        (WRONG + "features = 'shader-f16'", "known.0.features: Input should be a valid tuple"),
        (WRONG + "features = ['a', 'b']\nlacks = ['b']", "known.0: b is in features and in lacks"),
        (WRONG + WRONG, "this line stands twice: 'Copy:seven:off_by_one', under the same conditions."),
        (WRONG + WRONG.replace(REASON, "another reason, as long"), "this line stands twice: 'Copy:seven:off_by_one'"),
        (WRONG + "=", "is not TOML: Invalid"),
    ],
)
def test_a_line_that_is_wrong_is_a_sentence(known_file: Callable[..., Path], text: str, sentence: str) -> None:
    path = known_file(text)
    with pytest.raises(LabError) as error:
        known.load(path)
    assert str(error.value).startswith(f"{path}: {sentence}")


def test_a_file_that_cannot_be_read_is_a_sentence(known_file: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(LabError, match="known failures cannot be read: No such file"):
        known.load(tmp_path / "none.toml")
    with pytest.raises(LabError, match="is not JSON: Expecting value: line 1"):
        known.load(known_file("", "known.json"))
    (tmp_path / "known.toml").write_bytes(b"\xff")
    with pytest.raises(LabError, match=r"known.toml: is not UTF-8 text."):
        known.load(tmp_path / "known.toml")


def test_two_lines_on_the_same_pairs_may_have_other_conditions(known_file: Callable[..., Path]) -> None:
    assert len(known.load(known_file(WRONG + WRONG + "lacks = ['subgroups']")).entries) == 2


# Where a line applies.

LLVMPIPE = {"vendor": "google", "architecture": "swiftshader", "description": "llvmpipe (LLVM 19)", "driver": "Mesa 26"}


def _info(version: str = "156.0.8078.108", profile: str = "debian-156-lavapipe") -> BrowserInfo:
    facts = DeviceFacts(frozenset({"shader-f16"}), frozenset({"packed_4x8_integer_dot_product"}), info=LLVMPIPE)
    return BrowserInfo(version, "/chromium", (), False, "agent", facts, profile=profile)


@pytest.mark.parametrize(
    ("condition", "applies"),
    [
        ({}, True),
        ({"browser": "debian-*-lavapipe"}, True),
        ({"browser": "lavapipe"}, False),
        ({"browser": "chromium < 156"}, False),
        ({"browser": "chromium <= 156"}, True),
        ({"browser": "chromium == 156"}, True),
        ({"browser": "chromium > 156"}, False),
        ({"browser": "chromium >= 156"}, True),
        ({"browser": "chromium >= 150, < 154"}, False),
        ({"browser": "chromium >= 150, < 157"}, True),
        ({"adapter": "*llvmpipe*"}, True),
        ({"adapter": "*swiftshader*"}, False),  # what it claims to be
        ({"adapter": "*google*"}, False),  # likewise
        ({"features": ["shader-f16", "packed_4x8_integer_dot_product"]}, True),
        ({"features": ["shader-f16", "subgroups"]}, False),
        ({"lacks": ["subgroups"]}, True),
        ({"lacks": ["subgroups", "packed_4x8_integer_dot_product"]}, False),
        ({"browser": "chromium >= 156", "lacks": ["shader-f16"]}, False),
    ],
)
def test_a_line_applies_where_all_its_conditions_hold(condition: dict[str, Any], applies: bool) -> None:
    entry = Entry.model_validate({"query": "Copy", "reason": REASON, **condition}, strict=False)
    assert len(Known("known.toml", (entry,)).there(_info()).entries) == applies


# What becomes of a verdict, and of a line.


def _known(*queries: str) -> Known:
    return Known("known.toml", tuple(Entry(query=query, reason=REASON) for query in queries))


def _verdict(outcome: Outcome, query: str = "lab.test.Copy:seven:off_by_one") -> Verdict:
    names = dict(zip(("operator", "case", "variant"), query.split(":"), strict=True))
    record = {"type": "result", "query": query, **names, "outcome": outcome, "summary": "crash"}
    return Verdict(query, outcome, "crash", "report", record)


@pytest.mark.parametrize("outcome", ["passed", "failed", "skipped"])
def test_a_pair_that_no_line_names_is_judged_as_it_was(outcome: Outcome) -> None:
    verdict = _verdict(outcome)
    assert _known("Copy:seven:copy", "Copy:nothing", "Other").judged(verdict) is verdict


def test_a_failure_that_a_line_names_is_known_and_nothing_of_it_is_lost() -> None:
    verdict = _known("Copy:seven").judged(_verdict("failed"))
    assert (verdict.outcome, verdict.summary) == ("known", f"crash (known: {REASON})")
    assert verdict.record["outcome"] == "known"
    assert verdict.record["reason"] == REASON
    assert str(runs.counts([verdict])) == "0 passed, 1 known, 0 failed, 0 skipped"


def test_a_pass_that_a_line_names_fails() -> None:
    verdict = _known("Copy:seven").judged(_verdict("passed"))
    assert verdict.outcome == verdict.record["outcome"] == "failed"
    assert verdict.summary == "unexpected pass: remove the line 'Copy:seven' of known.toml, or narrow it"
    assert REASON in verdict.report


def test_a_skip_that_a_line_names_stays_one() -> None:
    verdict = _verdict("skipped")
    assert _known("Copy:seven").judged(verdict) is verdict


@pytest.mark.parametrize(
    ("line", "asked", "stale"),
    [
        ("Copy:gone", "*", True),
        ("Copy:gone", "Copy", True),
        ("Copy:gone", "Copy:seven", False),  # says nothing about other cases
        ("Copy:gone*", "Copy:gone*:copy", False),  # nor about other variants
        ("Copy:gone*", "Copy:g*", True),
        ("Copy:gone:copy", "lab.test.Copy", False),  # another domain may have a Copy
        ("lab.test.Copy:gone:copy", "Copy", True),
        ("Cpy:seven", "*", True),
        ("Cpy:seven", "Copy", False),
        ("Copy:seven:gone", "Copy", True),
        ("Copy:seven:off_by_one", "Copy", False),  # there, though another variant is selected
        ("Copy:s*:off_by_one", "*", False),
        ("Copy:wrong_dtype", "*", False),  # a refusal has no variant
        ("Copy:wrong_dtype:copy", "*", True),
    ],
)
def test_a_line_is_stale_if_the_run_covers_it_and_nothing_has_its_name(line: str, asked: str, stale: bool) -> None:
    operators = operator.load_all(OPERATORS).values()
    assert [entry.query for entry in runs.stale(_known(line), operators, [parse(asked)])] == [line] * stale


def test_a_line_that_named_a_judged_pair_is_not_stale() -> None:
    """Tests may judge pairs of operators that the run itself does not have."""
    judged = [_verdict("skipped", "own.Copy:gone:copy")]
    assert runs.stale(_known("Copy:gone"), [], [parse("*")], judged) == []


@pytest.mark.parametrize(
    ("wide", "narrow", "covered"),
    [("a:?", "a:b", True), ("a:?", "a:*", False), ("a:[bc]", "a:[bc]", True), ("a:b", "a:*", False), ("*", "*", True)],
)
def test_a_query_covers_what_can_only_be_part_of_it(wide: str, narrow: str, covered: bool) -> None:
    assert known.covers(parse(wide), parse(narrow)) is covered


# A run.

Run = Callable[..., Said]


@pytest.fixture
def lab_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """`kernel-lab run` in a lab where off_by_one crashes and all else is right."""
    monkeypatch.setenv("KERNEL_LAB_CACHE", str(tmp_path / "cache"))

    def run(*words: str, lab: Lab | None = None) -> Said:
        monkeypatch.setattr(run_verb, "Lab", lambda _: lab or Lab())
        monkeypatch.setattr(sys, "argv", ["kernel-lab", "run", *COPY, *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return Said(int(ended.value.code or 0), *capsys.readouterr())

    return run


TWO = ("Copy:seven:off_by_one", "Copy:seven:copy")


def test_a_run_counts_known_failures_apart(lab_run: Run, known_file: Callable[..., Path], tmp_path: Path) -> None:
    said = lab_run(*TWO, "--known", str(known_file(WRONG)), "--report", str(tmp_path / "r"))
    assert (said.code, said.out.splitlines()[-1]) == (0, "1 passed, 1 known, 0 failed, 0 skipped")
    assert f"known  lab.test.Copy:seven:off_by_one  crash (known: {REASON})" in said.out
    kept = {record["variant"]: record for record in journal.load(tmp_path / "r" / FILE).results}["off_by_one"]
    assert (kept["outcome"], kept["reason"], kept["status"]) == ("known", REASON, "crash")
    assert lab_run(*TWO).code == 1


def test_known_failures_alone_are_a_run(lab_run: Run, known_file: Callable[..., Path]) -> None:
    said = lab_run(TWO[0], "--known", str(known_file(WRONG)))
    assert (said.code, said.out.splitlines()[-1]) == (0, "0 passed, 1 known, 0 failed, 0 skipped")


def test_an_unexpected_pass_fails_the_run_and_is_among_the_last_failed(
    lab_run: Run, known_file: Callable[..., Path]
) -> None:
    path = str(known_file(WRONG + WRONG.replace("off_by_one", "copy")))
    said = lab_run(*TWO, "--known", path)
    assert (said.code, said.out.splitlines()[-1]) == (1, "0 passed, 1 known, 1 failed, 0 skipped")
    assert f"unexpected pass: remove the line 'Copy:seven:copy' of {path}" in said.out
    assert f"--known {path} --last-failed" in said.out
    again = lab_run("--known", path, "--last-failed")
    assert (again.code, again.out.splitlines()[-1]) == (1, "0 passed, 1 failed, 0 skipped")


def test_a_stale_line_fails_the_run_that_covers_it(
    lab_run: Run, known_file: Callable[..., Path], tmp_path: Path
) -> None:
    path = str(known_file(WRONG + WRONG.replace("seven", "gone")))
    assert lab_run(*TWO, "--known", path).code == 0
    said = lab_run("Copy:gone", "Copy:seven", "--known", path, "--report", str(tmp_path / "r"))
    assert (said.code, said.out.splitlines()[-1]) == (1, "1 passed, 0 failed, 0 skipped, 1 stale")
    assert f"failed  stale: {path}: no pair is named 'Copy:gone:off_by_one' any more: remove the line" in said.out
    assert [r["query"] for r in journal.read(tmp_path / "r" / FILE) if r["type"] == "stale"] == ["Copy:gone:off_by_one"]


def test_a_line_that_does_not_apply_changes_nothing(lab_run: Run, known_file: Callable[..., Path]) -> None:
    elsewhere = "browser = 'chromium < 100'\n"
    path = known_file(WRONG + elsewhere + WRONG.replace("seven", "gone") + elsewhere)
    said = lab_run("Copy:gone", *TWO, "--known", str(path))
    assert (said.code, said.out.splitlines()[-1]) == (1, "1 passed, 1 failed, 0 skipped")


def test_a_run_that_goes_on_keeps_what_was_known(lab_run: Run, known_file: Callable[..., Path], tmp_path: Path) -> None:
    words = ("Copy:seven:off_by_one", "Copy:nothing:copy", "--known", str(known_file(WRONG)))
    cut = lab_run(*words, "--report", str(tmp_path / "r"), lab=Lab(ends_at=2))
    assert f"--known {tmp_path / 'known.toml'}" in cut.err.replace("\n", "")
    lab = Lab()
    said = lab_run(*words, "--resume", str(tmp_path / "r"), lab=lab)
    assert (said.code, said.out.splitlines()[-1]) == (0, "1 passed, 1 known, 0 failed, 0 skipped")
    assert len(lab.jobs) == 1


def test_a_mistake_in_the_file_ends_the_run_before_a_browser_starts(
    lab_run: Run, known_file: Callable[..., Path]
) -> None:
    none: Any = "no lab"
    said = lab_run(*TWO, "--known", str(known_file("known = 3")), lab=none)
    assert (said.code, said.out) == (2, "")
    assert said.err.endswith("known: Input should be a valid list (found: 3).\n")


# Two runs.


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ("known", "known", []),
        ("known", "failed", ["failing"]),
        ("failed", "known", ["known"]),
        ("passed", "known", ["failing"]),
        ("known", "passed", ["passing"]),
        ("known", "skipped", ["skipped"]),
    ],
)
def test_compare_knows_known_failures(before: Outcome, after: Outcome, kinds: list[str]) -> None:
    def run(outcome: Outcome) -> changes.Run:
        return changes.run_of(outcome, [Kept(Path(FILE), {}, (_verdict(outcome).record, others))])

    others = _verdict("passed", "lab.test.Copy:seven:copy").record
    found = changes.changes(run(before), run(after))
    assert [change.kind for change in found.found] == kinds
    assert run("known").count == {"passed": 1, "known": 1, "failed": 0, "skipped": 0}
    assert "known" not in run("passed").count
