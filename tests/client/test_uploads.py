import hashlib
import io
import os
import re
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from portico.client import (
    AlreadyExists,
    Client,
    DigestMismatch,
    Forbidden,
    InvalidPath,
    InvalidRequest,
    IsAFolder,
    Receipt,
    SourceChanged,
    TransfersFailed,
    WrongDigest,
    WrongSize,
)
from portico.client.transfers import batches, multipart, sources

from ..gateways import Gateway
from ..servers.proxy import Altered, Call, FaultProxy
from .conftest import MakeClient, both_clients

LARGE = os.urandom(3 * 2**20 + 17)
"""Large enough for `Expect: 100-continue`."""


class Pipe(io.RawIOBase):
    """A stream that is not seekable."""

    def __init__(self, content: bytes) -> None:
        self._inner = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._inner.readinto(buffer)


def wound_on(content: bytes) -> io.BytesIO:
    stream = io.BytesIO(b"before" + content)
    stream.seek(6)
    return stream


@both_clients
@pytest.mark.parametrize("content", [b"", b"small", LARGE], ids=["empty", "small", "large"])
@pytest.mark.parametrize(
    "source",
    [bytes, bytearray, memoryview, io.BytesIO, wound_on, Pipe, lambda content: [content[:9], b"", content[9:]]],
)
def test_whatever_holds_bytes(client: Client, root: Path, source: Any, content: bytes) -> None:
    client.upload(source(content), "/new/folder/file.bin", verify=True)
    assert (root / "new" / "folder" / "file.bin").read_bytes() == content


def test_a_local_file_keeps_its_name_in_a_folder(client: Client, root: Path, tmp_path: Path) -> None:
    local = tmp_path / "report.csv"
    local.write_bytes(LARGE)
    client.upload(local, "/in/")
    client.upload(str(local), "/")
    client.upload(local, "/in/renamed.csv")
    for name in ("in/report.csv", "report.csv", "in/renamed.csv"):
        assert (root / name).read_bytes() == LARGE


def test_what_cannot_be_sent_is_said_before_anything_is(client: Client, root: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        client.upload(tmp_path / "none", "/none")
    with pytest.raises(ValueError, match="add a file name"):
        client.upload(b"", "/folder/")
    with pytest.raises(InvalidPath):
        client.upload(b"", "/a\x00b")
    with pytest.raises(InvalidRequest):
        client.upload(io.StringIO("text"), "/text")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="media type"):
        client.upload(b"", "/a", content_type="text/plain\r\nX: y")
    assert list(root.iterdir()) == []


def test_conflicts(client: Client, root: Path) -> None:
    client.upload(b"1", "/file.txt")
    with pytest.raises(AlreadyExists):
        client.upload(b"2", "/file.txt", on_conflict="fail")
    client.upload(b"3", "/file.txt", on_conflict="rename")
    assert {path.name: path.read_bytes() for path in root.iterdir()} == {"file.txt": b"1", "file (1).txt": b"3"}
    client.upload(b"4", "/file.txt", on_conflict="replace")
    assert (root / "file.txt").read_bytes() == b"4"


@both_clients
@pytest.mark.parametrize("size", [10, len(LARGE)], ids=["small", "large"])
def test_a_refusal_is_heard(make: MakeClient, gateway: Gateway, size: int) -> None:
    if "reader" not in gateway.command("user", "list"):
        gateway.command("user", "add", "reader", "--rights", "list", "--password-stdin", stdin="reader-password")
    client = make(username="reader", password="reader-password")
    for source in (LARGE[:size], Pipe(LARGE[:size])):
        with pytest.raises(Forbidden) as refused:
            client.upload(source, "/file")
        assert refused.value.code == "forbidden"


@both_clients
@pytest.mark.parametrize("change", [-5, +5])
def test_a_file_that_changes_while_it_is_sent_is_not_stored(
    client: Client, root: Path, tmp_path: Path, change: int
) -> None:
    local = tmp_path / "log"
    local.write_bytes(LARGE)
    (root / "log").write_bytes(b"old")

    def meddle(path: str, done: int, total: int | None) -> None:
        if done == 0:
            os.truncate(local, len(LARGE) + change)

    with pytest.raises(SourceChanged):
        client.upload(local, "/log", progress=meddle)
    assert (root / "log").read_bytes() == b"old"
    os.truncate(local, len(LARGE))
    with pytest.raises(TransfersFailed) as failed:
        client.upload_all([(local, "/log"), (b"1", "/one")], progress=meddle)
    assert [type(error) for error in failed.value.failures.values()] == [SourceChanged]
    assert (root / "one").read_bytes() == b"1"


@pytest.mark.parametrize("opened", [False, True], ids=["path", "stream"])
def test_a_file_that_is_rewritten_while_it_is_sent_is_not_stored(
    client: Client, root: Path, tmp_path: Path, opened: bool
) -> None:
    local = tmp_path / "table"
    local.write_bytes(LARGE)
    (root / "table").write_bytes(b"old")

    def meddle(path: str, done: int, total: int | None) -> None:
        if done == 256 * 1024:
            with open(local, "r+b") as file:
                file.write(LARGE[::-1])  # of the same size

    with pytest.raises(SourceChanged, match="changed during the upload"), open(local, "rb") as stream:
        client.upload(stream if opened else local, "/table", progress=meddle)
    assert (root / "table").read_bytes() == b"old"
    client.upload(local, "/table")
    assert (root / "table").read_bytes() == LARGE[::-1]


def test_a_small_file_that_changes_while_it_is_read(
    client: Client, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = tmp_path / "table"
    local.write_bytes(b"old")
    stamps = iter([(1, 3, 1), (1, 3, 2)])
    monkeypatch.setattr(sources, "_version", lambda file: next(stamps))
    with pytest.raises(TransfersFailed) as failed:
        client.upload_all([(local, "/table"), (b"1", "/one")])
    assert [type(error) for error in failed.value.failures.values()] == [SourceChanged]
    assert [path.name for path in root.iterdir()] == ["one"]


def test_what_says_that_it_is_empty_and_is_not(client: Client, root: Path, tmp_path: Path) -> None:
    if not Path("/proc/version").exists():
        pytest.skip("there are no such files here")
    client.upload("/proc/version", "/version")
    client.upload_all([("/proc/version", "/many/"), (b"1", "/many/one")])
    for name in ("version", "many/version"):
        assert (root / name).read_bytes() == Path("/proc/version").read_bytes()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with ThreadPoolExecutor(1) as writer:
        written = writer.submit(fifo.write_bytes, LARGE)
        client.upload(fifo, "/piped")
        written.result()
    assert (root / "piped").read_bytes() == LARGE


def is_put(call: Call) -> bool:
    return call.method == "PUT"


@both_clients
def test_a_single_file_is_put(proxied: Client, proxy: FaultProxy, root: Path, tmp_path: Path) -> None:
    (tmp_path / "file.csv").write_bytes(b"12345")
    proxied.login()
    proxy.calls.clear()
    proxied.upload(b"1", "/a")
    proxied.upload(tmp_path / "file.csv", "/")
    proxied.upload(Pipe(LARGE), "/b", on_conflict="rename")
    proxied.upload_all([(b"1", "/c")])
    proxied.upload_all([(b"1", "/d"), (b"2", "/folder/e")])
    assert {call.method for call in proxy.calls} == {"PUT"}
    assert {call.path.rpartition("/")[2] for call in proxy.calls} == {"a", "file.csv", "b", "c", "d", "e"}
    assert (root / "b").read_bytes() == LARGE


@pytest.mark.parametrize("size", [5, 2**24 + 1], ids=["put", "parts"])
def test_the_entry_has_the_content_type(client: Client, size: int) -> None:
    for path, given, stored in (
        ("/a.csv", None, "text/csv"),
        ("/a.csv", "text/x-own", "text/csv"),  # a folder keeps none
        ("/a", None, "application/octet-stream"),
    ):
        entry = client.upload(bytes(size), path, content_type=given)
        assert entry is not None
        assert entry.content_type == client.stat(path).content_type == stored


def test_the_size_is_verified_if_no_digest_is_reported(proxied: Client, proxy: FaultProxy) -> None:
    def longer(body: bytes) -> bytes:
        return body.replace(b'"size":5', b'"size":6')

    def without_digests(body: bytes) -> bytes:
        return re.sub(rb'"digest":"[^"]*"', b'"exists":true', body)

    proxy.on(lambda call: "STAT" in call.target, Altered.body(longer))
    proxy.on(is_put, Altered.body(without_digests))
    with pytest.raises(WrongSize):
        proxied.upload(b"12345", "/file", verify=True)


HUGE = LARGE * 3
"""Too large to be hashed before it is sent."""


@both_clients
@pytest.mark.parametrize("content", [b"", b"12345", LARGE, HUGE], ids=["empty", "small", "large", "huge"])
def test_the_digest_is_verified(client: Client, root: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    for source in (content, tmp_path / "file", Pipe(content)):
        entry = client.upload(source, "/file", verify=True)
        assert entry is not None
        digest = b64encode(hashlib.sha256(content).digest()).decode()
        assert entry.digest == f"sha-256=:{digest}:"
    client.upload_all([(tmp_path / "file", "/a"), (tmp_path / "file", "/b")], verify=True)
    assert (root / "a").read_bytes() == (root / "b").read_bytes() == content


@pytest.mark.parametrize("content", [b"12345", HUGE], ids=["small", "huge"])
def test_a_wrong_digest(proxied: Client, proxy: FaultProxy, content: bytes) -> None:
    def other(body: bytes) -> bytes:
        return re.sub(rb'"digest":"[^"]*"', b'"digest":"sha-256=:%s=:"' % (b"A" * 43), body)

    proxy.on(is_put, Altered.body(other))
    with pytest.raises(WrongDigest):
        proxied.upload(content, "/file", verify=True)


def test_content_that_is_damaged_on_its_way_is_not_stored(
    client: Client, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "file").write_bytes(b"old")
    damaged = b64encode(b"\0" * 32).decode()
    monkeypatch.setattr(multipart, "digest_text", lambda _: f"sha-256=:{damaged}:")
    with pytest.raises(DigestMismatch):
        client.upload(b"12345", "/file", verify=True)
    with pytest.raises(TransfersFailed) as caught:
        client.upload_all([(b"1", "/file"), (b"2", "/other")], verify=True)
    assert isinstance(caught.value.failures["/file"], DigestMismatch)
    assert (root / "file").read_bytes() == b"old"
    assert not (root / "other").exists()


def test_only_files_up_to_a_size_are_verified(client: Client, tmp_path: Path) -> None:
    entries: dict[str, str | None] = {}

    def stored(receipt: Receipt) -> None:
        assert receipt.entry
        entries[receipt.path] = receipt.entry.digest

    items: list[tuple[bytes, str]] = [(b"x" * 2**20 * 2, "/a"), (b"x" * 2**20 * 3, "/b")]
    client.upload_all(items, verify=2**20 * 2, stored=stored)
    assert entries["/a"] is not None
    assert entries["/b"] is None


@both_clients
@pytest.mark.parametrize("size", [5, len(LARGE)])
def test_times_are_kept_on_request(client: Client, root: Path, tmp_path: Path, size: int) -> None:
    local = tmp_path / "file"
    local.write_bytes(b"x" * size)
    os.utime(local, ns=(0, 1_000_000_000_123_456_789))
    client.upload(local, "/a", times=True)
    client.upload_all([(local, "/b"), (local, "/c")], times=True)
    client.upload(local, "/d")
    client.upload(b"x", "/e", times=True)
    for name in "abc":
        assert (root / name).stat().st_mtime_ns == 1_000_000_000_123_456_000
    assert min((root / name).stat().st_mtime for name in "de") > 1_600_000_000
    os.utime(local, (0, -5))
    client.upload(local, "/a", times=True)  # a time that the gateway does not take
    assert (root / "a").stat().st_mtime > 1_600_000_000


def test_progress(client: Client, tmp_path: Path) -> None:
    calls: list[tuple[str, int, int | None]] = []
    client.upload(LARGE, "/large", progress=lambda *call: calls.append(call))
    assert calls[0] == ("/large", 0, len(LARGE))
    assert calls[-1] == ("/large", len(LARGE), len(LARGE))
    assert [done for _, done, _ in calls] == sorted(done for _, done, _ in calls)
    calls.clear()
    client.upload(Pipe(LARGE), "/piped", progress=lambda *call: calls.append(call))
    assert [calls[0], calls[-1]] == [("/piped", 0, None), ("/piped", len(LARGE), len(LARGE))]
    calls.clear()
    client.upload_all([(b"1", "/a"), (b"22", "/b"), (b"", "/c")], progress=lambda *call: calls.append(call))
    assert sorted(calls) == [("/a", 1, 1), ("/b", 2, 2), ("/c", 0, 0)]


@both_clients
def test_many_files_share_requests(proxied: Client, proxy: FaultProxy, root: Path, tmp_path: Path) -> None:
    items: list[tuple[Any, str]] = []
    for number in range(250):
        local = tmp_path / f"{number}.txt"
        local.write_bytes(str(number).encode())
        items.append((local, f"/many/{number % 2}/"))
    items.append((LARGE, "/many/0/large"))
    proxied.upload_all(iter(items))
    assert (root / "many" / "0" / "large").read_bytes() == LARGE
    for number in range(250):
        assert (root / "many" / str(number % 2) / f"{number}.txt").read_bytes() == str(number).encode()
    assert len(proxy.calls) == 9  # twice three times 32 files, and 29, and the large one


def test_one_bad_file_does_not_hold_up_the_others(client: Client, root: Path, tmp_path: Path) -> None:
    (root / "taken").mkdir()
    items: list[tuple[Any, str]] = [(b"%d" % number, f"/{number}") for number in range(20)]
    items.insert(5, (b"", "/taken"))
    items.insert(9, (tmp_path / "missing", "/missing"))
    items.insert(12, (b"", "/a\\b"))
    items.insert(15, (tmp_path, "/a-folder"))
    with pytest.raises(TransfersFailed) as failed:
        client.upload_all(items)
    kinds = {path: type(error) for path, error in failed.value.failures.items()}
    assert kinds == {
        "/taken": IsAFolder,
        "/missing": FileNotFoundError,
        "/a\\b": InvalidPath,
        "/a-folder": IsADirectoryError,
    }
    assert all((root / str(number)).read_bytes() == b"%d" % number for number in range(20))


@both_clients
def test_what_would_meet_all_others_ends_it(make: MakeClient, gateway: Gateway) -> None:
    if "reader" not in gateway.command("user", "list"):
        gateway.command("user", "add", "reader", "--rights", "list", "--password-stdin", stdin="reader-password")
    client = make(username="reader", password="reader-password")
    with pytest.raises(Forbidden):
        client.upload_all((b"", f"/{number}/file") for number in range(1000))


def test_the_same_name_twice_goes_in_two_requests(client: Client, root: Path) -> None:
    client.upload_all([(b"1", "/same"), (b"2", "/same")])
    assert (root / "same").read_bytes() in (b"1", b"2")


def test_batches_are_bounded() -> None:
    items = [(b"x" * batches.SMALL, f"/{number}") for number in range(20)]
    assert [len(batch) for batch in batches.batches(items, {})] == [8, 8, 4]
    spread = [(b"", f"/{number}/file") for number in range(100)]
    assert len(list(batches.batches(spread, {}))) == 100
