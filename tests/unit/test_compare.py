"""`kernel-lab compare`: each kind of change between two small journals, what a gate stops, and what is refused."""

import copy
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kernel_lab import cli
from kernel_lab.judging.changes import Noise, changes, run_of
from kernel_lab.judging.contrasts import browsers
from kernel_lab.judging.journal import FILE, Journal, Kept, load

Json = dict[str, Any]
HEADER: Json = {
    "command": "run",
    "browser": {"version": "156.0", "executable": "/chromium", "flags": ["--a", "--b"], "environment": {}},
    "adapter": {
        "description": "a GPU, driver 1",
        "info": {"vendor": "v", "device": "d", "type": "discrete GPU", "driver": "1"},
        "features": ["shader-f16", "subgroups"],
        "language_features": ["packed"],
        "limits": {"maxBufferSize": 100, "maxBindGroups": 4},
        "masked": [],
    },
    "machine": {"system": "Linux", "python": "3.11"},
}


def record(case: str = "c", variant: str = "plain", outcome: str = "passed", **more: Any) -> Json:
    names = {"operator": "lab.Op", "case": case, "variant": variant}
    query = f"lab.Op:{case}:{variant}" if variant else f"lab.Op:{case}"
    found = {"type": "result", "query": query, **names, "outcome": outcome, "summary": "equal"}
    found["selected"] = bool(variant)
    if outcome == "passed" and variant:
        timings = {"compile_ms": 50.0, "gpu_ms": 10.0}
        found |= {"emulated": False, "outputs": {"y": "aa"}, "wgsl": {"p": variant}, "timings": timings, "messages": []}
    return found | more


def header(**changed: Any) -> Json:
    """HEADER with some of the browser's, adapter's or adapter info's values changed."""
    made = copy.deepcopy(HEADER)
    for part in (made["browser"], made["adapter"], made["adapter"]["info"], made["machine"]):
        part.update({key: value for key, value in changed.items() if key in part})
    return made


@pytest.fixture
def run_folder(tmp_path: Path) -> Callable[..., str]:
    """Writes a journal of these records; the folder's path."""

    def write(name: str, *records: Json, head: Json = HEADER) -> str:
        log = Journal(tmp_path / name, head)
        for one in records:
            log.append(one)
        log.close()
        return str(tmp_path / name)

    return write


def told(old: list[Json], new: list[Json], head: Json = HEADER, noise: Noise | None = None) -> list[tuple[str, ...]]:
    """The changes as (kind, query without its operator, text), and the cause where there is one."""
    runs = [run_of(name, [Kept(Path(name), h, tuple(r))]) for name, h, r in (("o", HEADER, old), ("n", head, new))]
    rows = [(c.kind, c.query.removeprefix("lab.Op:"), c.told, c.cause) for c in changes(*runs, noise or Noise()).found]
    return [row if row[3] else row[:3] for row in rows]


# Results.

SAME = record("same")


def test_nothing_changed() -> None:
    assert told([SAME, record("x", "", "passed")], [SAME, record("x", "", "passed")]) == []


@pytest.mark.parametrize("was", ["passed", "skipped"])
def test_newly_failing(was: str) -> None:
    wrong = record(outcome="failed", summary="y: 1 of 3 elements differ")
    assert told([SAME, record(outcome=was)], [SAME, wrong]) == [
        ("failing", "c:plain", f"{was} → failed: y: 1 of 3 elements differ")
    ]
    assert told([SAME, wrong], [SAME, wrong]) == []


def test_a_new_pair_that_fails_is_newly_failing_and_one_that_passes_is_newly_run() -> None:
    found = told([SAME], [SAME, record("a", outcome="failed", summary="crash"), record("b")])
    assert found == [("failing", "a:plain", "not run → failed: crash"), ("added", "b:plain", "passed")]


@pytest.mark.parametrize("was", ["failed", "skipped"])
def test_newly_passing(was: str) -> None:
    assert told([SAME, record(outcome=was)], [SAME, record()]) == [("passing", "c:plain", f"{was} → passed")]


def test_no_longer_run() -> None:
    assert told([SAME, record()], [SAME]) == [("gone", "c:plain", "passed before")]


OFFER = "; this adapter offers: a, b."


@pytest.mark.parametrize(
    ("reason", "changed", "cause"),
    [
        (f"needs the feature 'shader-f16'{OFFER}", {"features": ["subgroups"]}, "shader-f16 vanished"),
        (f"needs the WGSL language feature 'packed'{OFFER}", {"language_features": []}, "packed vanished"),
        (f"needs the feature 'shader-f16'{OFFER}", {"masked": ["shader-f16"]}, "shader-f16 is masked"),
        (f"needs the feature 'other'{OFFER}", {}, "needs other, which neither browser has"),
        (f"needs subgroup matrices f16→f32{OFFER}", {}, "needs subgroup matrices f16→f32"),
    ],
)
def test_newly_skipped_names_what_went(reason: str, changed: Json, cause: str) -> None:
    found = told([SAME, record()], [SAME, record(outcome="skipped", summary=reason)], header(**changed))
    assert found == [("skipped", "c:plain", "passed → skipped", cause)]


def test_another_variant_is_selected_where_every_variant_ran() -> None:
    old = [record(variant="fast"), record(variant="plain", selected=False)]
    new = [record(variant="fast", selected=False), record(variant="plain")]
    assert told(old, new) == [("selection", "c", "fast → plain")]


def test_another_selection_says_why_the_one_before_was_passed_over(run_folder: Callable[..., str]) -> None:
    def decided(reason: str) -> Json:
        decisions = [["plain", "accepted", ""], ["fast", "requires" if reason else "accepted", reason]]
        return {"type": "decisions", "operator": "lab.Op", "case": "c", "decisions": decisions}

    old = run_of("o", [load(Path(run_folder("o", record(variant="fast")), FILE))])
    for reason, told in (("needs the feature 'f'.", "needs the feature 'f'."), ("", "comes later now")):
        new = run_folder(f"n{reason}", decided(reason), record(variant="plain"))
        (change,) = changes(old, run_of("n", [load(Path(new, FILE))])).found
        assert (change.kind, change.told) == ("selection", f"fast → plain: fast {told}")


def test_a_selected_run_is_one_pair_a_case_whatever_was_selected() -> None:
    """The other variant is neither gone nor new; that it fails is a failure of the case."""
    fast, plain = record(variant="fast"), record(variant="plain")
    assert told([fast], [plain]) == [("selection", "c", "fast → plain")]
    assert told([fast], [record(variant="plain", outcome="failed", summary="crash")]) == [
        ("failing", "c:plain", "passed → failed: crash"),
        ("selection", "c", "fast → plain"),
    ]
    assert told([fast], [record(variant="", outcome="failed", summary="no variant")]) == [
        ("failing", "c", "passed → failed: no variant"),
        ("selection", "c", "fast → none"),
    ]


def test_a_selected_variant_that_is_gone_while_the_other_had_run_too() -> None:
    old = [record(variant="fast"), record(variant="plain", selected=False)]
    assert told(old, [record(variant="plain")]) == [
        ("gone", "c:fast", "passed before"),
        ("selection", "c", "fast → plain"),
    ]


def test_other_outputs_though_both_passed() -> None:
    other = {"outputs": {"y": "b" * 64, "z": "cc"}}
    assert told([record(outputs={"y": "a" * 64, "z": "cc"})], [record(**other)]) == [
        ("digests", "c:plain", f"y {'a' * 12} → {'b' * 12}")
    ]
    wrong = record(outcome="failed", summary="y differs", **other)
    assert told([record(), SAME], [wrong, SAME]) == [("failing", "c:plain", "passed → failed: y differs")]


def test_messages_that_appeared_and_none_that_went() -> None:
    old, new = record(messages=["warning: old", "warning: both"]), record(messages=["warning: both", "warning: new"])
    assert told([old], [new]) == [("messages", "c:plain", "warning: new")]


def test_emulated_and_real() -> None:
    assert told([record()], [record(emulated=True)]) == [("emulated", "c:plain", "real → emulated")]
    assert told([record(emulated=True)], [record()]) == [("emulated", "c:plain", "emulated → real")]


def test_of_a_pair_that_is_kept_twice_the_worst_counts() -> None:
    wrong = record(outcome="failed", summary="race")
    for new in ([wrong, record()], [record(), wrong]):
        assert told([record()], new) == [("failing", "c:plain", "passed → failed: race")]


# Times.


def timed(case: str = "c", variant: str = "plain", **ms: float) -> Json:
    return record(case, variant, timings={"compile_ms": 50.0, "gpu_ms": 10.0, **ms})


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (10.0, 25.0, "gpu_ms 10.0 ms → 25.0 ms (×2.5)"),
        (0.0, 6.0, "gpu_ms < 0.1 ms → 6.0 ms (×60)"),
        (0.09999999776482582, 6.0, "gpu_ms 0.1 ms → 6.0 ms (×60)"),  # one step of the clock, as it comes
        (10.0, 14.9, ""),  # below the amount and the factor
        (1.0, 5.9, ""),  # below the amount
        (10.0, 19.9, ""),  # below the factor
        (0.0, 0.09, ""),
    ],
)
def test_a_time_changed_beyond_both_a_factor_and_an_amount(old: float, new: float, text: str) -> None:
    for before, after, kind in ((old, new, "slower"), (new, old, "faster")):
        found = told([timed(gpu_ms=before)], [timed(gpu_ms=after)])
        assert [row[0] for row in found] == ([kind] if text else [])
        if kind == "slower" and text:
            assert found == [("slower", "c:plain", text)]


def test_factor_and_amount_can_be_chosen() -> None:
    old, new = [timed(gpu_ms=10.0)], [timed(gpu_ms=14.0)]
    assert told(old, new, noise=Noise(1.3, 3.0)) == [("slower", "c:plain", "gpu_ms 10.0 ms → 14.0 ms (×1.4)")]
    assert told(old, new, noise=Noise(1.5, 3.0)) == told(old, new, noise=Noise(1.3, 5.0)) == []


def test_where_all_results_scatter_widely_none_stands_out() -> None:
    """What is slower by 5 on a quiet machine is; on one where half of the results differ by 2, it is noise."""
    quiet = [10.0] * 9
    wild = [10.0 * 2 ** (i % 3 - 1) for i in range(9)]
    for others, seen in ((quiet, ["slower"]), (wild, [])):
        old = [timed(f"c{i}", gpu_ms=10.0) for i in range(10)]
        new = [timed(f"c{i}", gpu_ms=ms) for i, ms in enumerate([*others, 50.0])]
        assert [row[0] for row in told(old, new)] == seen


def test_compilation_is_compared_where_both_runs_compiled() -> None:
    """The second case finds the WGSL of the first compiled: 0 ms there and 500 ms in a run without the first is no
    change of the browser's."""
    first, second = timed("a"), timed("b", compile_ms=0.0)
    alone = timed("b", compile_ms=500.0)
    assert told([first, second], [alone]) == [("gone", "a:plain", "passed before")]
    assert told([alone, first], [timed("b", compile_ms=5.0), first])[0][0] == "faster"


def test_times_of_two_adapters_are_not_compared() -> None:
    old, new = [timed(gpu_ms=10.0)], [timed(gpu_ms=100.0)]
    assert told(old, new, header(device="other")) == []
    assert told(old, new, header(driver="2"))[0][0] == "slower"


# Between the browsers.


@pytest.mark.parametrize(
    ("changed", "what", "text"),
    [
        ({"version": "157.0"}, "version", "156.0 → 157.0"),
        ({"flags": ["--b", "--c"]}, "flags", "lost --a; gained --c"),
        ({"environment": {"VK": "x"}}, "environment", "gained VK=x"),
        ({"driver": "2"}, "driver", "1 → 2"),
        ({"device": "e"}, "adapter's device", "d → e"),
        ({"features": ["subgroups", "new"]}, "features", "lost shader-f16; gained new"),
        ({"language_features": []}, "language features", "lost packed"),
        ({"limits": {"maxBufferSize": 50, "maxBindGroups": 4}}, "limit maxBufferSize", "100 → 50"),
        ({"limits": {"maxBufferSize": 100}}, "limit maxBindGroups", "4 → none"),
        ({"masked": ["m"]}, "masked", "gained m"),
    ],
)
def test_what_differs_between_the_browsers(changed: Json, what: str, text: str) -> None:
    (contrast,) = browsers(HEADER, header(**changed))
    assert (contrast.what, str(contrast)) == (what, text)


def test_the_same_browser_on_another_machine_is_no_other_browser() -> None:
    assert browsers(HEADER, header(executable="/other", system="Other", python="3.12")) == ()


# The command.


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Said]:
    monkeypatch.setenv("KERNEL_LAB_CACHE", str(tmp_path))

    def run(*words: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["kernel-lab", "compare", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return Said(int(ended.value.code or 0), *capsys.readouterr())

    return run


Compare = Callable[..., Said]
RunFolder = Callable[..., str]
SKIP = record("f16", outcome="skipped", summary=f"needs the feature 'shader-f16'{OFFER}")


@pytest.fixture
def two(run_folder: RunFolder) -> tuple[str, str]:
    """Two runs with a change of every kind."""
    old = [
        *(record("a|b"), record("f16"), record("gone"), record("fast", "x"), record("emulated"), record("digest")),
        *(record("said"), timed("slow"), record("fixed", outcome="failed"), timed("fast_now", gpu_ms=90.0), SAME),
        record("known", outcome="failed"),
    ]
    new = [
        *(record("a|b", outcome="failed", summary="y: <b>|c"), SKIP, record("fast", "y")),
        *(record("emulated", emulated=True), record("digest", outputs={"y": "bb"})),
        *(record("said", messages=["warning: one\ntwo"]), timed("slow", gpu_ms=99.0), record("fixed")),
        *(timed("fast_now"), SAME, record("added"), record("known", outcome="known")),
    ]
    return run_folder("old", *old), run_folder("new", *new, head=header(version="157.0", features=["subgroups"]))


WORDS = (
    "1 newly failing, 1 newly skipped, 1 no longer run, 1 another variant selected, 1 emulated in one run only, "
    "1 passed with other outputs, 1 new messages, 1 slower, 1 newly known to fail, 1 newly passing, 1 newly run, "
    "1 faster"
)


def test_the_terminal_shows_every_change(compare: Compare, two: tuple[str, str]) -> None:
    said = compare(*two)
    assert (said.code, said.err) == (1, "")
    *_, gate, last = said.out.splitlines()
    assert (gate, last) == ("gate     failing, skipped, gone: 3 changes", WORDS)
    assert re.search(r"^newly skipped, shader-f16 vanished: 1\n  lab\.Op:f16:plain  passed → skipped$", said.out, re.M)
    assert re.search(r"^Between them\n  version +156\.0 → 157\.0\n  features +lost shader-f16$", said.out, re.M)
    assert "warning: one …" in said.out
    assert "steps of 0.1 ms" in said.out


def test_nothing_changed_prints_so(compare: Compare, run_folder: RunFolder) -> None:
    said = compare(run_folder("old", SAME), run_folder("new", SAME))
    assert said.code == 0
    assert said.out.splitlines()[-2:] == ["gate     failing, skipped, gone: no change", "Nothing changed in 1 result"]
    assert "Between them" not in said.out


def test_a_kind_of_which_there_are_many_is_cut_on_a_terminal(compare: Compare, run_folder: RunFolder) -> None:
    old = run_folder("old", SAME, *(record(f"c{i}") for i in range(30)))
    said = compare(old, run_folder("new", SAME))
    assert "no longer run: 30" in said.out
    assert said.out.count("passed before") == 10
    assert "… and 20 more; --json has all" in said.out


def test_markdown_is_a_comment(compare: Compare, two: tuple[str, str]) -> None:
    said = compare(*two, "--markdown")
    assert said.code == 1
    rows = said.out.splitlines()
    assert rows[0] == f"### kernel-lab: {WORDS}"
    assert rows[2] == "Gate: failing, skipped, gone; 3 at the gate."
    assert "| browser | Chromium 156.0 | Chromium 157.0 |" in rows
    assert said.out.count("<details>") == said.out.count("</details>") == 1 + 12 + 1
    assert "<details><summary>1 newly skipped: shader-f16 vanished</summary>" in rows
    assert r"| `lab.Op:a\|b:plain` | passed → failed: y: &lt;b>\|c |" in rows
    for row in (row for row in rows if row.startswith("|")):
        assert len(re.findall(r"(?<!\\)\|", row)) in (3, 4), row


def test_a_cause_with_an_underscore_is_text_in_a_summary_and_in_a_table(
    compare: Compare, run_folder: RunFolder
) -> None:
    """A summary is HTML, where Markdown's backslash would be seen."""
    skip = record(outcome="skipped", summary="needs the WGSL language feature 'packed_4x8'; no.")
    new = run_folder("new", SAME, skip, head=header(masked=["packed_4x8"]))
    said = compare(run_folder("old", SAME, record()), new, "--markdown")
    assert "<details><summary>1 newly skipped: packed_4x8 is masked</summary>" in said.out
    assert r"| masked | gained packed\_4x8 |" in said.out


def test_json_has_everything(compare: Compare, two: tuple[str, str]) -> None:
    said = compare(*two, "--json", "--gate", "times")
    assert said.code == 1
    found = json.loads(said.out)
    assert len(found["changes"]) == sum(found["counts"].values()) == 12
    assert set(found["counts"].values()) == {1}
    assert (found["gate"], found["at_the_gate"], found["resolution_ms"]) == (["times"], 1, 0.1)
    assert found["browsers"][0] == {
        "what": "version", "lost": ["156.0"], "gained": ["157.0"], "single": True, "told": "156.0 → 157.0",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("failing", record(), record(outcome="failed")),
        ("skipped", record(), record(outcome="skipped")),
        ("gone", record(), record("other", selected=False)),
        ("selection", record(variant="a"), record(variant="b")),
        ("emulated", record(), record(emulated=True)),
        ("digests", record(), record(outputs={"y": "bb"})),
        ("messages", record(), record(messages=["warning: x"])),
        ("times", timed(), timed(gpu_ms=99.0)),
    ],
)
def test_only_what_is_gated_ends_with_1(
    compare: Compare, run_folder: RunFolder, kind: str, old: Json, new: Json
) -> None:
    folders = run_folder("old", SAME, old), run_folder("new", SAME, new)
    kinds = ["failing", "skipped", "gone", "selection", "emulated", "digests", "messages", "times"]
    assert compare(*folders, "--gate", kind).code == 1
    assert compare(*folders, "--gate", ",".join(other for other in kinds if other != kind)).code == 0
    assert compare(*folders, "--gate", "none").code == 0
    assert compare(*folders).code == (kind in ("failing", "skipped", "gone"))


def test_runs_are_named_by_folder_by_file_or_by_their_name_in_the_cache(
    compare: Compare, run_folder: RunFolder, tmp_path: Path
) -> None:
    folder = run_folder("runs/20260101-000000-1", SAME)
    for name in (folder, f"{folder}/{FILE}", "20260101-000000-1"):
        assert compare(name, folder).code == 0


def test_a_run_of_several_workers_is_one(compare: Compare, run_folder: RunFolder, tmp_path: Path) -> None:
    run_folder("workers/gw0", SAME)
    run_folder("workers/gw1", record())
    assert compare(str(tmp_path / "workers"), run_folder("one", SAME, record())).out.endswith("in 2 results\n")


def _damage(folder: str, line: bytes) -> None:
    path = Path(folder) / FILE
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:1], line, *lines[1:]]))


@pytest.mark.parametrize(
    ("records", "line", "sentence"),
    [
        ([], b"", r"new: nothing ran in it \(0 skipped\), so it cannot be compared\."),
        ([SKIP], b"", r"new: nothing ran in it \(1 skipped\), so it cannot be compared\."),
        ([record("other")], b"", r"old and .*new have no result in common, so there is nothing to compare\."),
        (
            [SAME],
            b'{"type":"result","query":"cu\n',
            rf"new/{FILE}:2: this line is no record\.",
        ),
        (
            [SAME],
            b'{"type":"result","query":"q"}\n',
            rf"new/{FILE}:2: this result lacks case, operator, outcome, summary, ",
        ),
    ],
)
def test_what_cannot_be_compared_is_a_sentence(
    compare: Compare, run_folder: RunFolder, records: list[Json], line: bytes, sentence: str
) -> None:
    old, new = run_folder("old", SAME), run_folder("new", *records)
    _damage(new, line)
    said = compare(old, new)
    assert (said.code, said.out) == (2, "")
    assert re.fullmatch(rf"kernel-lab: [^\n]*{sentence}[^\n]*\n", said.err)
    if "common" not in sentence:
        assert compare(new, old).code == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("nosuch old", f"nosuch: there is no {FILE}; give a report folder"),
        ("old old --gate x,failing", "--gate: got 'x', allowed are failing, skipped"),
        ("old old --gate none,failing", "--gate: got 'none', allowed are"),
        ("old old --gate ,", "--gate: got ',', allowed are"),
        ("old old --json --markdown", "--markdown and --json: only one"),
        ("old text", "text: is no journal"),
        ("old empty", "empty: is no journal: it has no whole line."),
        ("old other", "other: is no journal of format 1"),
    ],
)
def test_bad_input_is_a_sentence(
    compare: Compare, run_folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run_folder("old", SAME)
    (tmp_path / "text").write_text("text")
    (tmp_path / "empty").write_text("")
    (tmp_path / "other").write_text('{"type":"run","format":9}\n')
    said = compare(*words.split())
    assert (said.code, said.out) == (2, "")
    assert re.fullmatch(rf"kernel-lab: {re.escape(sentence)}[^\n]*\n", said.err)
