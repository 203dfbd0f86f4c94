"""The journal: one record a line, on its way to the disk at once, readable after any end."""

import json
import os
from pathlib import Path

import pytest

from kernel_lab.errors import LabError
from kernel_lab.judging import journal
from kernel_lab.judging.journal import Journal


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNEL_LAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _result(query: str, outcome: str) -> dict[str, str]:
    return {"type": "result", "query": query, "outcome": outcome}


def test_records_come_back_in_order_behind_the_run_s(tmp_path: Path) -> None:
    log = Journal(tmp_path / "new" / "folder", {"browser": "156"})
    log.append({"type": "result", "text": "line\nbreak, “quotes”"})
    assert list(journal.read(log.path)) == [
        {"type": "run", "format": journal.FORMAT, "browser": "156"},
        {"type": "result", "text": "line\nbreak, “quotes”"},
    ]
    log.close()


def test_a_record_is_in_the_file_before_the_journal_is_closed(tmp_path: Path) -> None:
    log = Journal(tmp_path, {})
    log.append(_result("a:b", "passed"))
    assert len((tmp_path / journal.FILE).read_text().splitlines()) == 2
    log.close()


@pytest.mark.parametrize("kept", range(1, 40))
def test_a_last_line_cut_anywhere_is_left_out(tmp_path: Path, kept: int) -> None:
    whole = json.dumps({"type": "run"}) + "\n" + json.dumps(_result("o:cäse", "failed")) + "\n"
    path = tmp_path / journal.FILE
    path.write_bytes(whole.encode()[: len('{"type": "run"}\n') + kept])
    assert list(journal.read(path)) == [{"type": "run"}]
    assert journal.last_failed(path) == []


@pytest.mark.parametrize("how", ["a file in the way", "a folder in the way"])
def test_what_cannot_be_written_is_a_sentence(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "run"
    if how == "a file in the way":
        folder.write_text("")
    else:
        (folder / journal.FILE).mkdir(parents=True)
    with pytest.raises(
        LabError, match=r"^the journal .*run.* cannot be written: .+\. Choose another folder with --report\.$"
    ):
        Journal(folder, {})


def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    log = Journal(tmp_path, {})
    log._file.close()
    log._file = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115
    with pytest.raises(LabError, match=r"cannot be written any more: No space left on device\."):
        log.append(_result("a", "passed"))


def test_cache_folder_is_the_environment_s_or_the_user_s(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert journal.runs_folder() == cache / "runs"
    assert journal.new_run_folder().parent == cache / "runs"
    monkeypatch.delenv("KERNEL_LAB_CACHE")
    assert journal.cache_folder().name == "kernel-lab"
    monkeypatch.setenv("KERNEL_LAB_CACHE", "")
    assert journal.cache_folder().name == "kernel-lab"


def test_last_failed_reads_the_newest_run(cache: Path) -> None:
    for number, (name, query) in enumerate([("b", "op:old"), ("a", "op:new")]):
        log = Journal(journal.runs_folder() / name, {"command": "run"})
        for record in (_result(query, "failed"), _result("op:fine", "passed"), _result("op:none", "skipped")):
            log.append(record)
        log.close()
        os.utime(log.path, (1_000 + number, 1_000 + number))
    assert journal.last_failed() == ["op:new"]


def test_last_failed_passes_over_what_other_verbs_wrote(cache: Path) -> None:
    """`kernel-lab onnx` keeps a journal too; its cases are not the built-in ones."""
    for number, command in enumerate(["run", "onnx"]):
        log = Journal(journal.runs_folder() / command, {"command": command})
        log.append(_result(f"op:{command}", "failed"))
        log.close()
        os.utime(log.path, (1_000 + number, 1_000 + number))
    assert journal.last_failed() == ["op:run"]


def test_last_failed_without_a_run_says_so(cache: Path) -> None:
    with pytest.raises(LabError, match=r"there is no earlier run in .*runs: run once without --last-failed\."):
        journal.last_failed()
