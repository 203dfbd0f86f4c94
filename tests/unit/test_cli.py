"""The command line without a browser: what is printed, exit codes, one sentence on stderr, JSON that parses."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kernel_lab import cli
from kernel_lab.cli import bench, explain, mutate, onnx_verb, run
from kernel_lab.operators import operator

SHIPPED = operator.load_all()
CASE = "ai.onnx.ConvInteger:valid"


class Said(NamedTuple):
    code: int
    out: str
    err: str


Tell = Callable[..., Said]


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Tell:
    """Runs `kernel-lab` with these words, a cache of its own, and no browser to be had."""

    def no_browser(*_: object) -> None:
        pytest.fail("a browser was asked for")

    for verb in (bench, explain, mutate, onnx_verb, run):
        if hasattr(verb, "Lab"):
            monkeypatch.setattr(verb, "Lab", no_browser)
    monkeypatch.setenv("KERNEL_LAB_CACHE", str(tmp_path / "cache"))

    def run_it(*words: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["kernel-lab", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return Said(int(ended.value.code or 0), out, err)

    return run_it


# list


def test_list_names_every_operator_variant_and_case(tell: Tell) -> None:
    said = tell("list")
    assert (said.code, said.err) == (0, "")
    for op in SHIPPED.values():
        assert op.id in said.out
        for name in (*(variant.id for variant in op.manifest.variants), *(case.name for case in op.cases)):
            assert re.search(rf"^{re.escape(name)}\b", said.out, re.M), name


def test_list_as_json(tell: Tell) -> None:
    said = tell("list", "ConvInteger:valid", "--json")
    assert said.code == 0
    (entry,) = json.loads(said.out)
    assert entry["operator"] == "ai.onnx.ConvInteger"
    assert [case["query"] for case in entry["cases"]] == [CASE]
    assert {variant["id"]: variant["cases"] for variant in entry["variants"]}["accumulate_spatial"] == 1


def test_list_of_a_variant_shows_that_one_alone(tell: Tell) -> None:
    (entry,) = json.loads(tell("list", "ConvInteger:*:accumulate_*", "--json").out)
    assert [variant["id"] for variant in entry["variants"]] == ["accumulate_spatial"]
    assert len(entry["cases"]) == len(SHIPPED["ai.onnx.ConvInteger"].cases)


# explain


def test_explain_says_which_variant_and_why_not_the_others(tell: Tell) -> None:
    said = tell("explain", CASE, "--any-device")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0].startswith(f"{CASE}  ")
    assert len([line for line in lines if line.startswith("→ ")]) == 1
    for variant in SHIPPED["ai.onnx.ConvInteger"].manifest.variants:
        assert any(line[2:].startswith(f"{variant.id} ") for line in lines)
    assert all(re.search(r"  (Accepted\.|Accepted, but|Only when|No: )", line) for line in lines[2:])


def test_explain_follows_a_variant_down_to_its_wgsl(tell: Tell) -> None:
    said = tell("explain", f"{CASE}:accumulate_spatial", "--any-device")
    titles = ["request (", "derived values", "decision: accumulate_spatial", "buffers", "passes", "WGSL of "]
    places = [said.out.index(f"\n{title}") for title in titles]
    assert places == sorted(places)
    assert "conv-int-accumulate-spatial.wgsl.jinja:1 " in said.out


def test_explain_as_json(tell: Tell) -> None:
    found = json.loads(tell("explain", CASE, "--any-device", "--json").out)
    assert found["query"] == CASE
    accepted = {row["variant"] for row in found["decisions"] if row["stage"] == "accepted"}
    assert found["selected"] in accepted


def test_explain_of_a_refusal_gives_its_sentence(tell: Tell) -> None:
    query = "ai.onnx.ConvInteger:refused_x_rank"
    said = tell("explain", query, "--any-device")
    assert said.code == 0
    assert said.out.startswith(f"{query} is refused: x: got rank 2, but")
    assert json.loads(tell("explain", query, "--any-device", "--json").out)["refused"].startswith("x: got rank 2")


# render


def test_render_prints_the_wgsl_of_every_pass(tell: Tell) -> None:
    said = tell("render", "QLinearConv:valid:accumulate_spatial")
    assert (said.code, said.err) == (0, "")
    heads = re.findall(r"^// (com\.microsoft\.QLinearConv:\S+)  \S+\.wgsl\.jinja  [0-9a-f]{16}$", said.out, re.M)
    assert [head.rpartition(":")[2] for head in heads] == ["multiplier", "accumulate", "requantize"]
    assert said.out.count("fn main(") == 3
    assert not re.search(r"\{[{%#]", said.out)


def test_render_with_origins(tell: Tell) -> None:
    said = tell("render", f"{CASE}:accumulate_spatial", "--origins")
    assert re.search(r"^conv-int-accumulate-spatial\.wgsl\.jinja:\d+ +\| fn main\($", said.out, re.M)


def test_render_as_json_is_what_is_printed(tell: Tell) -> None:
    (item,) = json.loads(tell("render", f"{CASE}:accumulate_spatial", "--json").out)
    assert item["label"] == "ai.onnx.ConvInteger:accumulate_spatial:accumulate"
    assert len(item["origins"]) == len(item["wgsl"].split("\n"))
    printed = tell("render", f"{CASE}:accumulate_spatial").out
    assert printed.partition("\n")[2].rstrip("\n") == item["wgsl"].rstrip("\n")


def test_render_of_an_empty_output_says_that_nothing_is_dispatched(tell: Tell) -> None:
    said = tell("render", "QLinearConv:no_batch")
    assert (said.code, said.out) == (0, "")
    assert said.err == "Nothing to render: every output is empty, so nothing is dispatched.\n"


# cache


def test_cache_path_and_clear(tell: Tell, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert tell("cache", "path") == (0, f"{cache}\n", "")
    (cache / "runs" / "one").mkdir(parents=True)
    (cache / "runs" / "one" / "journal.jsonl").write_bytes(b"x" * 2_500_000)
    (cache / "lavapipe").mkdir()
    (cache / "lavapipe" / "driver").write_bytes(b"x" * 1_000_000)
    runs = cache / "runs"
    said = tell("cache", "clear")
    assert (said.code, said.out) == (0, f"deleted 2.5 MB in {runs}\n")
    assert not runs.exists()
    assert tell("cache", "clear").out == f"deleted 0.0 MB in {runs}\n"
    assert tell("cache", "clear", "--all").out == f"deleted 1.0 MB in {cache}\n"
    assert not cache.exists()


# What goes wrong: exit code 2 and one sentence.


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("list nosuch", "nothing fits nosuch"),
        ("list ConvInteger:nosuch", "nothing fits ConvInteger:nosuch"),
        ("list ConvInteger:*:nosuch", "nothing fits ConvInteger:*:nosuch"),
        ("list a:b:c:d", "query 'a:b:c:d': got 4 parts"),
        ("list --package nosuch", "--package nosuch: holds no manifest.json"),
        ("explain ConvInteger", "ConvInteger names "),
        ("explain ConvInteger:nosuch", "no case fits ConvInteger:nosuch"),
        ("explain ConvInteger:valid:nosuch", "ai.onnx.ConvInteger has no variant 'nosuch'"),
        ("explain ConvInteger:valid --browser nosuch", "browser 'nosuch' is unknown"),
        ("render ConvInteger:refused_x_rank", "ai.onnx.ConvInteger:refused_x_rank is refused: x: got rank 2"),
        ("render ConvInteger:valid:nosuch", "ai.onnx.ConvInteger has no variant 'nosuch'"),
        ("render a:b:c:d", "query 'a:b:c:d': got 4 parts"),
        ("run nosuch", "no case fits nosuch"),
        ("run a:b:c:d", "query 'a:b:c:d': got 4 parts"),
        ("run --variants some", "--variants: got 'some', allowed are selected and all."),
        ("run --reference x.py", "--reference belongs to --package"),
        ("run --last-failed", "there is no earlier run in "),
        ("run --limit x", "limit: unknown name 'x'"),
        ("bench --preset nosuch", "--preset: got 'nosuch', allowed are smoke, standard, large."),
        ("mutate nosuch", "no operator fits 'nosuch'"),
        ("onnx nosuch.onnx", "nosuch.onnx: there is no such file or folder."),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_exit_code_2(tell: Tell, words: str, sentence: str) -> None:
    said = tell(*words.split())
    assert said.code == 2
    assert said.out == ""
    assert re.fullmatch(rf"kernel-lab: {re.escape(sentence)}[^\n]*\n", said.err)


@pytest.mark.parametrize(
    "words", ["nosuch", "list --nosuch", "explain", "render", "onnx", "cache nosuch", "run --deadline x"]
)
def test_what_is_no_command_is_exit_code_2_with_usage(tell: Tell, words: str) -> None:
    said = tell(*words.split())
    assert said.code == 2
    assert "Usage: kernel-lab" in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize("verb", ["", "list", "explain", "render", "run", "onnx", "bench", "cache", "serve", "doctor"])
def test_every_verb_explains_itself(tell: Tell, verb: str) -> None:
    said = tell(*verb.split(), "--help")
    assert said.code == 0
    assert "Usage: kernel-lab" in said.out


def test_a_broken_manifest_is_one_sentence(tell: Tell, operator_from: Callable[..., Any]) -> None:
    op = operator_from({"domain": "lab.test"})
    said = tell("list", "--package", str(op.folder))
    assert said.code == 2
    assert said.err == "kernel-lab: lab.test.Tiny/manifest.json: name: Field required; 4 more.\n"
