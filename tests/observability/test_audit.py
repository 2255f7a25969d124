import errno
import fcntl
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from portico.model.errors import Unavailable
from portico.observability.audit import AuditLine, AuditLog, open_audit


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().removesuffix("\n").split("\n")]


def line(action: str = "delete", **fields: Any) -> AuditLine:
    return AuditLine(action=action, **fields)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


def test_a_line_holds_what_is_known(file: Path) -> None:
    log = AuditLog(str(file))
    log.end(line(user="web", client="192.0.2.7", request_id="r", path="/a\n\u2028b", bytes=0, outcome="forbidden"))
    log.end(line("audit"))
    first, second = lines(file)
    assert first.pop("time").endswith("Z")
    assert list(first) == ["request_id", "user", "client", "action", "path", "bytes", "outcome"]
    assert (first["path"], first["bytes"], first["outcome"]) == ("/a\n\u2028b", 0, "forbidden")
    assert second.keys() == {"time", "action", "outcome"}
    assert file.stat().st_mode & 0o777 == 0o600
    log.close()


@pytest.mark.parametrize("rotate", [lambda file: file.rename(f"{file}.1"), lambda file: file.unlink()])
def test_a_file_that_was_rotated_is_opened_anew(file: Path, rotate: Callable[[Path], None]) -> None:
    log = AuditLog(str(file))
    log.end(line("first"))
    rotate(file)
    log.end(line("second"))
    log.end(line("third"))
    assert [each["action"] for each in lines(file)] == ["second", "third"]
    log.close()


def test_the_end_of_the_file_is_read_only_if_somebody_else_wrote_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    pread = os.pread

    def counted(*args: int) -> bytes:
        reads.append(args)
        return pread(*args)

    monkeypatch.setattr(os, "pread", counted)
    log, other = AuditLog(str(file)), AuditLog(str(file))
    for _ in range(3):
        log.end(line())
    assert not reads
    other.end(line())
    other.end(line())
    log.end(line())
    assert len(reads) == 2
    assert len(lines(file)) == 6
    log.close()
    other.close()


def test_rotation_leaks_no_descriptor(file: Path) -> None:
    log = AuditLog(str(file))
    log.end(line())
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        file.unlink()
        log.end(line())
    assert len(os.listdir("/proc/self/fd")) == before
    log.close()
    assert len(os.listdir("/proc/self/fd")) == before - 1


def test_lines_of_several_processes_do_not_mix(file: Path) -> None:
    children = []
    for number in range(3):
        child = os.fork()
        if not child:
            log = AuditLog(str(file))
            for _ in range(300):
                log.end(line(path="/" + str(number) * 5000))
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert len(lines(file)) == 900


def test_a_long_line_whose_write_is_under_way_is_not_torn(file: Path) -> None:
    """The file grows page by page while the other one writes. That one did not get a lock."""
    log = AuditLog(str(file))
    log.end(line("first"))
    with file.open("ab", buffering=0) as other:
        writing = threading.Thread(target=other.write, args=(b" " * 2**26 + b"{}\n",))
        writing.start()
        while file.stat().st_size < 2**26:
            log.end(line())
        writing.join()
    log.end(line("last"))
    assert b"\n\n" not in file.read_bytes()
    log.close()


@pytest.mark.parametrize("torn", [False, True])
def test_nobody_waits_for_a_lock_that_another_holds(file: Path, monkeypatch: pytest.MonkeyPatch, torn: bool) -> None:
    """The event loop writes the lines: as long as one waits, nobody is served."""
    blocking: list[object] = []
    flock = fcntl.flock

    def watched(descriptor: int, operation: int) -> None:
        if not operation & (fcntl.LOCK_NB | fcntl.LOCK_UN):
            blocking.append(operation)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", watched)
    monkeypatch.setattr(time, "sleep", blocking.append)
    log = AuditLog(str(file))
    log.end(line("first"))
    with file.open("ab") as other:
        other.write(b"half of a line" if torn else b"")
        other.flush()
        flock(other.fileno(), fcntl.LOCK_EX)
        log.end(line("second"))
    assert blocking == []
    log.end(line("third"))
    assert [json.loads(each)["action"] for each in file.read_text().splitlines() if each[0] == "{"] == [
        "first",
        *([] if torn else ["second"]),
        "third",
    ]
    log.close()


def test_a_line_that_is_being_written_is_not_taken_for_a_torn_one(file: Path) -> None:
    with file.open("ab") as other:
        fcntl.flock(other.fileno(), fcntl.LOCK_SH)
        other.write(b"half of a line that is being writ")
        other.flush()
        log = AuditLog(str(file))
        log.end(line("meanwhile"))  # the kernel would put it behind the whole line
    assert "being writ{" in file.read_text()
    log.end(line("after"))
    assert json.loads(file.read_text().splitlines()[-1])["action"] == "after"
    log.close()


def unusable(tmp_path: Path) -> list[Path]:
    os.mkfifo(tmp_path / "pipe")
    return [tmp_path / "none" / "audit.log", tmp_path, tmp_path / "pipe", Path("/dev/full")]


def test_where_it_is_not_required_a_lost_line_is_counted(tmp_path: Path) -> None:
    for file in unusable(tmp_path):
        lost: list[int] = []
        log = AuditLog(str(file), on_loss=lambda why, count, lost=lost: lost.append(count))  # type: ignore[misc]
        log.check()
        log.begin(line())
        log.record(line())
        log.end(line())
        assert lost == [1, 2], file
        log.close()


def test_where_it_is_required_nothing_begins_without_a_line(tmp_path: Path) -> None:
    for file in unusable(tmp_path):
        log = AuditLog(str(file), required=True)
        for attempt in (log.check, lambda log=log: log.begin(line()), lambda log=log: log.record(line())):
            with pytest.raises(Unavailable, match="audit log"):
                attempt()
        log.end(line())  # what has happened, has happened


def test_where_it_is_required_a_change_has_two_lines(file: Path) -> None:
    log = AuditLog(str(file), required=True)
    log.check()
    log.begin(change := line())
    log.end(change)
    assert [each["outcome"] for each in lines(file)] == ["begun", "done"]
    log.close()


def test_a_full_disk_is_recorded_when_there_is_room_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(str(file), required=True)
    log.record(line("before"))
    write = os.write

    def cut(descriptor: int, text: bytes) -> int:
        return write(descriptor, text[:10])

    def full(descriptor: int, text: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    for fault in (cut, full, full):
        monkeypatch.setattr(os, "write", fault)
        with pytest.raises(Unavailable) as caught:
            log.record(line("lost"))
        assert caught.value.retry_after
    monkeypatch.undo()
    log.check()
    log.record(line("after"))
    text = file.read_text().splitlines()
    assert [json.loads(each)["action"] for each in (text[0], *text[2:])] == ["before", "audit", "after"]
    assert json.loads(text[2])["lost"] == 3
    assert len(text[1]) == 10  # the torn one, on a line of its own

    monkeypatch.setattr(os, "write", cut)
    log.end(line("torn"))
    monkeypatch.undo()
    file.unlink()
    log.end(line("anew"))
    assert [each["action"] for each in lines(file)] == ["audit", "anew"]
    log.close()


def test_off_and_standard_output(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    off = open_audit(None, required=True)
    off.check()
    off.record(line())
    open_audit("stdout", required=False).record(line("served"))
    open_audit("stdout", required=False, command=True).record(line("commanded"))
    captured = capfd.readouterr()
    assert json.loads(captured.out)["action"] == "served"
    assert json.loads(captured.err)["action"] == "commanded"


def test_a_line_that_another_had_no_room_for_is_ended_first(file: Path) -> None:
    file.write_bytes(b'{"time":"2026')
    log = AuditLog(str(file))
    log.end(line("move"))
    torn, whole = file.read_text().splitlines()
    assert torn == '{"time":"2026'
    assert json.loads(whole)["action"] == "move"
    log.close()


def write_many(log: AuditLog) -> None:
    for _ in range(10_000):
        log.begin(line(path="/" + "a" * 200))


def test_a_stream_that_nobody_reads_holds_up_nobody() -> None:
    reading, writing = os.pipe()
    log = AuditLog(writing, required=True)
    with pytest.raises(Unavailable):
        write_many(log)
    os.read(reading, 2**20)
    log.begin(line())
    os.close(reading)
    os.close(writing)


def test_a_line_torn_by_another_process_spoils_no_other(file: Path) -> None:
    log = AuditLog(str(file))
    log.end(line("first"))
    with open(file, "ab") as other:
        other.write(b'{"time":"20')
    log.end(line("second"))
    first, torn, second = file.read_text().splitlines()
    assert torn == '{"time":"20'
    assert [json.loads(text)["action"] for text in (first, second)] == ["first", "second"]
