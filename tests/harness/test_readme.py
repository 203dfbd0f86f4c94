"""README and CONTRIBUTING as written: every command is understood, the quick ones and the Python example run.

The two commands at README's head, and what takes minutes, run in .ci/run or in tests of their own.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from kernel_lab import cli

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / name).read_text("utf-8") for name in ("README.md", "CONTRIBUTING.md")}
PLACEHOLDERS = {"OPERATOR:CASE": "ConvInteger:groups", "VARIANT": "accumulate_spatial", "NAME": "default"}
QUICK = ("list", "explain", "doctor", "browsers list", "cache path")
LATER = ("list --coverage",)
"""Fails unless every variant has run somewhere before: .ci/run ends with it."""


def commands() -> list[str]:
    """Every `kernel-lab …` in a block of shell, without its comment, or with arguments between backquotes."""
    found = []
    for page in PAGES.values():
        for block in re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S):
            found += re.findall(r"^kernel-lab (.+?)(?:\s+#.*)?$", block, re.M)
        found += re.findall(r"`kernel-lab (\w+ [^`]+)`", page)
    return list(dict.fromkeys(text.strip() for text in found))


def words_of(text: str) -> list[str]:
    for placeholder, value in PLACEHOLDERS.items():
        text = text.replace(placeholder, value)
    return shlex.split(text.replace("OPERATOR", "ConvInteger"))


def test_there_are_commands() -> None:
    assert len(commands()) >= 15


@pytest.mark.parametrize("text", commands())
def test_command_is_understood(text: str) -> None:
    group = typer.main.get_command(cli.app)
    context = group.make_context("kernel-lab", words_of(text), resilient_parsing=False)
    while hasattr(group, "resolve_command"):
        name, group, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        assert group is not None, f"there is no verb {name}"
        context = group.make_context(name, rest, parent=context)


@pytest.mark.parametrize("text", [text for text in commands() if text.startswith(QUICK) and text not in LATER])
def test_quick_command_runs(text: str) -> None:
    done = _run([sys.executable, "-m", "kernel_lab", *words_of(text)])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


def test_the_python_example_runs() -> None:
    (example,) = re.findall(r"```python\n(import numpy.+?)```", PAGES["README.md"], re.S)
    done = _run([sys.executable, "-c", example])
    assert done.returncode == 0, done.stderr


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60)
