"""Known failures in a real browser: variants that are wrong on purpose, from the command line and from pytest."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.test_cli_run import COPY, Command, lab_command  # noqa: F401 - a fixture

KNOWN = """
[[known]]
query = "Copy:seven:off_by_one"
reason = "adds 1 to element 5, on purpose"
adapter = "*"

[[known]]
query = "Copy:seven:type_error"
reason = "does not compile, on purpose"

[[known]]
query = "Copy:seven"
reason = "nothing is wrong where this applies: nowhere"
browser = "chromium < 100"
"""
TESTS = """
from pathlib import Path

import pytest

from kernel_lab.operators import operator
from kernel_lab.pytest_plugin import settle
from kernel_lab.runs import Pair

OPERATOR = operator.load_all(Path(OPERATORS))["lab.test.Copy"]


@pytest.mark.parametrize("variant", ["copy", "off_by_one", "unwritten"])
def test_own_pair(variant, lab_judge):
    settle(lab_judge(Pair(OPERATOR, OPERATOR.cases[0], variant)))


def test_kernel(kernel_pair, lab_judge):
    settle(lab_judge(kernel_pair))
"""


def test_wrong_variants_may_be_known(lab_command: Command, tmp_path: Path) -> None:  # noqa: F811 - the fixture
    (tmp_path / "known.toml").write_text(KNOWN)
    pairs = [f"Copy:seven:{variant}" for variant in ("copy", "off_by_one", "type_error")]
    done = lab_command("run", *COPY, *pairs, "--known", "known.toml")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 passed, 2 known, 0 failed, 0 skipped"), done
    assert "y: 1 of 7 elements differ; first at [5] (known: adds 1 to element 5, on purpose)" in done.stdout
    (tmp_path / "known.toml").write_text(KNOWN.replace("100", "100000"))
    done = lab_command("run", *COPY, *pairs, "--known", "known.toml")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "0 passed, 2 known, 1 failed, 0 skipped"), done
    assert "unexpected pass: remove the line 'Copy:seven' of known.toml" in done.stdout


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_pytest_xfails_what_is_known_and_fails_on_what_is_stale(
    run_pytest: Callable[..., "subprocess.CompletedProcess[str]"], tmp_path: Path, workers: tuple[str, ...]
) -> None:
    """Lines about an operator that only a test has are not stale; one that names nothing is."""
    text = TESTS.replace("OPERATORS", repr(COPY[1]), 1)
    (tmp_path / "known.toml").write_text(KNOWN.replace("type_error", "unwritten"))
    words = ("--lab-query", "ConvInteger:card_example", "--lab-variants", "selected", "--lab-known", "known.toml")
    ended = run_pytest(text, *words, *workers)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2 passed, 2 xfailed" in ended.stdout
    assert "(known: adds 1 to element 5, on purpose)" in ended.stdout
    (tmp_path / "known.toml").write_text(KNOWN + KNOWN.replace("Copy:seven", "ConvInteger:card_example"))
    ended = run_pytest(text, *words, *workers)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "1 failed, 2 passed, 1 xfailed" in ended.stdout  # unwritten, which no line names now
    ended = run_pytest(text, *words, *workers, "--deselect", "test_sample.py::test_own_pair[unwritten]")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "2 passed, 1 xfailed" in ended.stdout.replace("1 deselected, ", "").replace(", 1 deselected", "")
    assert "no pair is named 'ConvInteger:card_example:off_by_one' any more" in ended.stdout
    assert "'Copy:seven" not in ended.stdout
