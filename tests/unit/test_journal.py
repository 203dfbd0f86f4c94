"""The journal: one record a line, on its way to the disk at once, readable after any end."""

import errno
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder with a journal of one result, and nothing in it may be written; root, who may, is nobody meanwhile."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = Journal(folder, {})
        log.append(_result("a", "passed"))
        log.close()
        log.path.chmod(0o444)
        folder.chmod(0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        yield folder
        os.seteuid(user)
        folder.chmod(0o755)


def test_a_read_only_folder_is_a_sentence_and_keeps_what_it_has(read_only: Path) -> None:
    for folder in (read_only, read_only / "new"):
        with pytest.raises(
            LabError, match=r"cannot be written: Permission denied\. Choose another folder with --report"
        ):
            Journal(folder, {})
    with pytest.raises(LabError, match=r"cannot be written: Permission denied\. Make it writable\.$"):
        Journal(read_only, None)
    assert len(list(journal.read(read_only / journal.FILE))) == 2


class _Full:
    """The file of a journal on a disk that takes `free` bytes more."""

    def __init__(self, file: Any, free: int) -> None:
        self._file, self.free = file, free

    def write(self, data: bytes) -> int:
        if not self.free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = self._file.write(data[: self.free])
        self.free -= taken
        return int(taken)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.mark.parametrize("free", [0, 1, 20])
def test_a_full_disk_is_a_sentence_and_loses_nothing_that_was_known(tmp_path: Path, free: int) -> None:
    log = Journal(tmp_path, {})
    log.append(_result("a", "passed"))
    whole = log.path.read_bytes()
    full: Any = _Full(log._file, free)
    log._file = full
    with pytest.raises(LabError, match=r"cannot be written any more: No space left on device\. It holds all that was"):
        log.append(_result("b", "passed"))
    assert log.path.read_bytes() == whole
    full.free = 1_000  # somebody made room
    log.append(_result("c", "passed"))
    log.close()
    assert [record.get("query") for record in journal.read(log.path)] == [None, "a", "c"]


def test_a_device_that_is_full_is_a_sentence_and_closes(tmp_path: Path) -> None:
    log = Journal(tmp_path, {})
    log._file.close()
    log._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115 - the journal closes it
    with pytest.raises(LabError, match=r"cannot be written any more: No space left on device\."):
        log.append(_result("a", "passed"))
    log.close()


# Reading.


@pytest.mark.parametrize("damage", [b"\n", b'{"type":"re\n', b"3\n", b"\xff\xfe\n", b"\0\0\0\n", b'{"a":1}{"b":2}\n'])
def test_a_line_that_is_no_record_is_reported_with_file_and_line(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / journal.FILE
    record = json.dumps(_result("o:c", "failed")).encode() + b"\n"
    for lines in ([record, damage, record], [record, damage]):
        path.write_bytes(b"".join(lines))
        for reading in (lambda: list(journal.read(path)), lambda: journal.last_failed(path)):
            with pytest.raises(LabError, match=rf"^{re.escape(str(path))}:2: this line is no record\."):
                reading()


@pytest.mark.parametrize("tail", [b"", b'{"type":"re', '{"a":"ä'.encode()[:-1], b"\0" * 9])
def test_a_journal_goes_on_behind_its_last_whole_line(tmp_path: Path, tail: bytes) -> None:
    log = Journal(tmp_path, {})
    log.append(_result("a", "passed"))
    log.close()
    log.path.write_bytes(log.path.read_bytes() + tail)
    _go_on(tmp_path)


def test_a_last_record_that_lacks_only_its_end_of_line_stays(tmp_path: Path) -> None:
    log = Journal(tmp_path, {})
    log.append(_result("a", "passed"))
    log.close()
    log.path.write_bytes(log.path.read_bytes()[:-1])
    _go_on(tmp_path)


def _go_on(folder: Path) -> None:
    log = Journal(folder, None)
    log.append(_result("b", "passed"))
    log.close()
    assert [record.get("query") for record in journal.read(log.path)] == [None, "a", "b"]


def test_what_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"^the journal .* cannot be read: Is a directory\.$"):
        list(journal.read(tmp_path))


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
