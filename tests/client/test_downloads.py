import io
import os
from pathlib import Path
from typing import Any

import pytest

from portico.client import (
    Changed,
    Client,
    ConnectionFailed,
    InvalidPath,
    IsAFolder,
    NotFound,
    NotPossible,
    TransfersFailed,
)
from portico.client.transfers import downloads, locked_file, partial_file
from portico.client.transfers.partial_file import PartialFile

from ..servers.proxy import Altered, Call, Cut, FaultProxy, Reply
from .conftest import MakeClient, both_clients

LARGE = os.urandom(2**20 + 17)


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "RANGE", 64 * 1024)


def is_download(call: Call) -> bool:
    return call.method == "GET" and "DOWNLOAD" in call.target


def ranges(proxy: FaultProxy) -> list[str]:
    return [call.headers.get("range", "") for call in proxy.calls if is_download(call)]


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@both_clients
@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 64 * 1024 + 1, len(LARGE)])
@pytest.mark.parametrize("resume", [False, True])
def test_to_a_file(client: Client, root: Path, tmp_path: Path, size: int, resume: bool) -> None:
    (root / "file").write_bytes(LARGE[:size])
    (tmp_path / "local").write_bytes(b"old")
    client.download("/file", tmp_path / "local", resume=resume)
    client.download("/file", tmp_path)
    assert (tmp_path / "local").read_bytes() == LARGE[:size]
    assert (tmp_path / "file").read_bytes() == LARGE[:size]
    assert left_in(tmp_path) == ["file", "local"]


@both_clients
@pytest.mark.parametrize("size", [0, 5, len(LARGE)])
def test_to_a_stream_and_to_memory(client: Client, root: Path, size: int) -> None:
    (root / "file").write_bytes(LARGE[:size])
    stream = io.BytesIO()
    client.download("/file", stream)
    assert stream.getvalue() == LARGE[:size]
    assert client.read("/file") == LARGE[:size]


@pytest.mark.parametrize(("start", "stop"), [(0, 3), (2, None), (2, 99), (9, None), (9, 12), (3, 3), (3, 1)])
def test_a_range_is_a_slice(client: Client, root: Path, start: int, stop: int | None) -> None:
    (root / "file").write_bytes(b"12345")
    assert client.read("/file", start, stop) == b"12345"[start:stop]
    with pytest.raises(ValueError, match="negative"):
        client.read("/file", -1)


def test_a_range_of_one_version(client: Client, root: Path) -> None:
    (root / "file").write_bytes(b"12345")
    etag = client.head("/file").etag
    assert client.read("/file", 1, 3, etag=etag) == b"23"
    (root / "file").write_bytes(b"1234567")
    with pytest.raises(Changed):
        client.read("/file", 1, 3, etag=etag)


def test_what_is_not_there_leaves_nothing_here(client: Client, root: Path, tmp_path: Path) -> None:
    (root / "folder").mkdir()
    with pytest.raises(NotFound):
        client.download("/nothing", tmp_path / "local")
    with pytest.raises(IsAFolder):
        client.download("/folder", tmp_path / "local")
    with pytest.raises(FileNotFoundError):
        client.download("/folder", tmp_path / "none" / "local")
    assert left_in(tmp_path) == []


def test_progress(client: Client, root: Path, tmp_path: Path) -> None:
    (root / "file").write_bytes(LARGE)
    calls: list[tuple[str, int, int | None]] = []
    client.download("/file", tmp_path / "local", progress=lambda *call: calls.append(call))
    assert calls[0] == ("/file", 0, None)
    assert calls[-1] == ("/file", len(LARGE), len(LARGE))
    calls.clear()
    client.download("/file", io.BytesIO(), progress=lambda *call: calls.append(call))
    assert calls[-1] == ("/file", len(LARGE), len(LARGE))


@both_clients
def test_a_broken_connection_is_continued(proxied: Client, proxy: FaultProxy, root: Path, tmp_path: Path) -> None:
    (root / "file").write_bytes(LARGE)
    proxy.on(is_download, Cut(1000), Cut(0), Cut(70_000))
    stream = io.BytesIO()
    proxied.download("/file", stream)
    assert stream.getvalue() == LARGE
    assert ranges(proxy) == ["", *(f"bytes={start}-{len(LARGE) - 1}" for start in (1000, 1000, 71_000))]
    proxy.on(is_download, Cut(1000), turns=5)
    proxied.download("/file", tmp_path / "local")
    assert (tmp_path / "local").read_bytes() == LARGE


@both_clients
def test_a_file_that_changes_on_the_way_is_not_mixed(
    proxied: Client, proxy: FaultProxy, root: Path, tmp_path: Path
) -> None:
    (root / "file").write_bytes(LARGE)

    def meddle(path: str, done: int, total: int | None) -> None:
        if done:
            (root / "file").write_bytes(LARGE[::-1])

    with pytest.raises(Changed):
        proxied.download("/file", tmp_path / "local", progress=meddle)
    assert left_in(tmp_path) == []


def test_without_a_version_only_one_answer_is_trusted(
    proxied: Client, proxy: FaultProxy, root: Path, tmp_path: Path
) -> None:
    (root / "file").write_bytes(LARGE)

    def nameless(reply: Reply) -> Reply:
        headers = {name: value for name, value in reply.headers.items() if name.lower() != "etag"}
        return Reply(reply.status, headers, reply.body)

    proxy.on(is_download, Altered(nameless), turns=9)
    proxied.download("/file", tmp_path / "local", resume=True)
    assert (tmp_path / "local").read_bytes() == LARGE
    assert ranges(proxy) == ["bytes=0-65535", ""]


def interrupted(client: Client, proxy: FaultProxy, folder: Path) -> None:
    """Interrupt a download after two and a half ranges."""
    proxy.on(lambda call: call.headers.get("range", "").endswith("-196607"), Cut(40_000), Cut(0))
    with pytest.raises(ConnectionFailed):
        client.download("/file", folder / "local", resume=True)
    assert left_in(folder) == [".local.portico-part"]
    proxy.calls.clear()


@both_clients
def test_an_interrupted_download_is_carried_on(make: MakeClient, proxy: FaultProxy, root: Path, tmp_path: Path) -> None:
    (root / "file").write_bytes(LARGE)
    # One connection, so that the ranges come one after the other.
    client = make(f"http://127.0.0.1:{proxy.port}", attempts=2, connections=1)
    interrupted(client, proxy, tmp_path)
    done: list[int] = []
    client.download("/file", tmp_path / "local", resume=True, progress=lambda _, count, __: done.append(count))
    assert (tmp_path / "local").read_bytes() == LARGE
    assert left_in(tmp_path) == ["local"]
    assert ranges(proxy)[0] == f"bytes={131072 + 40_000}-{131072 + 40_000 + 65535}"
    assert done[0] == 131072 + 40_000
    assert done[-1] == len(LARGE)


def test_what_has_changed_since_is_begun_again(make: MakeClient, proxy: FaultProxy, root: Path, tmp_path: Path) -> None:
    (root / "file").write_bytes(LARGE)
    client = make(f"http://127.0.0.1:{proxy.port}", attempts=2, connections=1)
    interrupted(client, proxy, tmp_path)
    (root / "file").write_bytes(LARGE[::-1])
    client.download("/file", tmp_path / "local", resume=True)
    assert (tmp_path / "local").read_bytes() == LARGE[::-1]
    assert left_in(tmp_path) == ["local"]


@pytest.mark.parametrize("rubbish", [b"", b"x" * 100, b"\nportico-part 1 00000900", b"[]\nportico-part 1 00000002"])
def test_a_part_that_makes_no_sense_is_begun_again(client: Client, root: Path, tmp_path: Path, rubbish: bytes) -> None:
    (root / "file").write_bytes(LARGE)
    (tmp_path / ".local.portico-part").write_bytes(rubbish)
    client.download("/file", tmp_path / "local", resume=True)
    assert (tmp_path / "local").read_bytes() == LARGE
    assert left_in(tmp_path) == ["local"]


def test_two_programs_do_not_share_a_part(client: Client, root: Path, tmp_path: Path) -> None:
    (root / "file").write_bytes(LARGE)
    other = PartialFile(str(tmp_path / "local"), keep=True)
    with pytest.raises(NotPossible, match="Another program"):
        client.download("/file", tmp_path / "local", resume=True)
    client.download("/file", tmp_path / "local")
    other.close()
    assert left_in(tmp_path) == ["local"]


def test_a_finished_file_is_nobodys_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another download that starts during the rename must not take the finished file for a partial one."""
    first = PartialFile(str(tmp_path / "local"), keep=True)
    (tmp_path / ".local.portico-part").write_bytes(b"whole")
    first.size, first.etag = 5, '"1"'
    replace, is_locked = os.replace, locked_file._is_locked

    def while_replacing(source: str, target: str) -> None:
        with pytest.raises(NotPossible, match="Another program"):
            PartialFile(str(tmp_path / "local"), keep=True)
        replace(source, target)

    def late(descriptor: int) -> bool:
        monkeypatch.setattr(locked_file, "_is_locked", is_locked)
        monkeypatch.setattr(os, "replace", while_replacing)
        first.commit()
        return is_locked(descriptor)

    monkeypatch.setattr(locked_file, "_is_locked", late)
    second = PartialFile(str(tmp_path / "local"), keep=True)
    assert first.closed
    assert (tmp_path / "local").read_bytes() == b"whole"
    second.close()
    assert left_in(tmp_path) == ["local"]


class Sparing(io.RawIOBase):
    """A raw stream that writes at most 1000 bytes at once."""

    def __init__(self, *, blocked: bool = False) -> None:
        self.content = b""
        self._blocked = blocked

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int | None:
        taken = bytes(memoryview(piece)[:1000])
        self.content += taken
        return None if self._blocked else len(taken)


def test_a_stream_that_takes_less_than_it_is_given(client: Client, root: Path) -> None:
    (root / "file").write_bytes(LARGE)
    stream = Sparing()
    client.download("/file", stream)  # type: ignore[arg-type]
    assert stream.content == LARGE
    with pytest.raises(BlockingIOError):
        client.download("/file", Sparing(blocked=True))  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, len(LARGE)])
def test_that_of_an_entry_gets_its_time(client: Client, root: Path, tmp_path: Path, size: int) -> None:
    (root / "file").write_bytes(LARGE[:size])
    moment = 1_700_000_013_300_000_000  # 0.3 has no exact place among floats
    os.utime(root / "file", ns=(moment, moment))
    entry = client.stat("/file")
    client.download(entry, tmp_path / "one")
    client.download_all([(entry, tmp_path / "two"), ("/file", tmp_path / "now")])
    assert entry.modified is not None
    for name in ("one", "two"):
        assert (tmp_path / name).stat().st_mtime_ns == moment
    assert (tmp_path / "now").stat().st_mtime > 1_700_000_014
    stream = io.BytesIO()
    client.download(entry, stream)
    assert stream.getvalue() == LARGE[:size]


@pytest.mark.parametrize("name", ["n" * 255, "\u540d" * 85])
@pytest.mark.parametrize("resume", [False, True])
def test_a_name_as_long_as_can_be(client: Client, root: Path, tmp_path: Path, name: str, resume: bool) -> None:
    (root / "file").write_bytes(LARGE)
    client.download("/file", tmp_path / name, resume=resume)
    assert left_in(tmp_path) == [name]


def test_long_names_do_not_share_a_part() -> None:
    one, other = (partial_file._temporary_name("n" * 254 + last, "") for last in "ab")
    assert one != other
    assert len(one) == len(other) == 255
    assert one.endswith(".portico-part")


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o444])
def test_the_mode_of_what_is_replaced_stays(client: Client, root: Path, tmp_path: Path, mode: int) -> None:
    (root / "file").write_bytes(LARGE)
    (tmp_path / "local").touch(mode)
    (tmp_path / "local").chmod(mode)
    client.download("/file", tmp_path / "local")
    assert (tmp_path / "local").stat().st_mode & 0o777 == mode
    assert (tmp_path / "local").read_bytes() == LARGE


def test_what_is_no_file_is_not_replaced(client: Client, root: Path, tmp_path: Path) -> None:
    (root / "file").write_bytes(LARGE)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    for name in ("fifo", "link"):
        with pytest.raises(NotPossible, match="pass the stream"):
            client.download("/file", tmp_path / name)
    assert left_in(tmp_path) == ["fifo", "link"]


def test_a_link_is_replaced_and_not_followed(client: Client, root: Path, tmp_path: Path) -> None:
    (root / "file").write_bytes(LARGE)
    (tmp_path / "real").write_bytes(b"real")
    (tmp_path / "link").symlink_to("real")
    client.download("/file", tmp_path / "link")
    assert (tmp_path / "real").read_bytes() == b"real"
    assert (tmp_path / "link").read_bytes() == LARGE


def test_a_folder_is_made(client: Client, root: Path, tmp_path: Path) -> None:
    (root / "file").write_bytes(LARGE)
    client.download("/file", f"{tmp_path}/new/")
    client.download_all([("/file", f"{tmp_path}/newer/and/deeper/")])
    assert (tmp_path / "new" / "file").read_bytes() == LARGE
    assert (tmp_path / "newer" / "and" / "deeper" / "file").read_bytes() == LARGE
    (tmp_path / "taken").touch()
    with pytest.raises(TransfersFailed) as failed:
        client.download_all([("/file", f"{tmp_path}/taken/"), ("/a\\b", tmp_path), ("/file", tmp_path / "x")])
    assert {path: type(error) for path, error in failed.value.failures.items()} == {
        "/file": FileExistsError,
        "/a\\b": InvalidPath,
    }
    assert (tmp_path / "x").exists()


@both_clients
def test_many_files(client: Client, root: Path, tmp_path: Path) -> None:
    for number in range(30):
        (root / str(number)).write_bytes(LARGE[: number * 5000])
    (root / "folder").mkdir()
    items = [(f"/{number}", tmp_path / f"local-{number}") for number in range(30)]
    client.download_all(items)
    for number in range(30):
        assert (tmp_path / f"local-{number}").read_bytes() == LARGE[: number * 5000]
    with pytest.raises(TransfersFailed) as failed:
        client.download_all([("/none", tmp_path), *items, ("/folder", tmp_path / "x")])
    assert {path: type(error) for path, error in failed.value.failures.items()} == {
        "/none": NotFound,
        "/folder": IsAFolder,
    }
    assert len(left_in(tmp_path)) == 30


def test_gaps() -> None:
    part = PartialFile.__new__(PartialFile)
    part._done, part.size = [(10, 20), (0, 5), (20, 30)], 50
    assert list(part.gaps(8)) == [(5, 10), (30, 38), (38, 46), (46, 50)]
    part._done = []
    assert list(part.gaps(100)) == [(0, 50)]
    part._done = [(0, 50)]
    assert list(part.gaps(100)) == []
