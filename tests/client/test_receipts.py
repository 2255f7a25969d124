"""Receipts: the name under which a file was stored."""

import re
from pathlib import Path

import pytest

from portico.client import Client, Receipt, Uploadable

from ..servers.proxy import Altered, FaultProxy, Reply
from .conftest import MakeClient
from .faults import is_upload

ODD = "ünïcode % 100 (1)#?.txt"


def test_the_name_that_a_renamed_file_got(client: Client, root: Path) -> None:
    (root / ODD).write_bytes(b"old")
    entry = client.upload(b"new", f"/{ODD}", on_conflict="rename")
    assert entry is not None
    assert entry.path == f"/{entry.name}" != f"/{ODD}"
    assert (root / entry.name).read_bytes() == b"new"
    assert (entry.size, entry.last_modified) == (3, client.stat(entry.path).last_modified)


def test_receipts_of_many_files(client: Client, root: Path, tmp_path: Path) -> None:
    (root / "b").write_bytes(b"old")
    (tmp_path / "b").write_bytes(b"from a file")
    receipts: list[Receipt] = []
    items: list[tuple[Uploadable, str]] = [
        (b"1", "/a"),
        (str(tmp_path / "b"), "/b"),
        (b"x" * 2_000_000, "/c"),
        (b"", "/d/e"),
    ]
    client.upload_all(items, on_conflict="rename", stored=receipts.append)
    names = {receipt.path: receipt.entry and receipt.entry.path for receipt in receipts}
    assert names == {"/a": "/a", "/b": "/b (1)", "/c": "/c", "/d/e": "/d/e"}
    client.upload_all(items, stored=receipts.append)  # several in one request
    for receipt in receipts[4:]:
        assert receipt.entry is not None
        assert receipt.entry.path == receipt.path
        assert receipt.entry.last_modified == client.stat(receipt.path).last_modified
    local = {receipt.path: receipt.local for receipt in receipts}
    assert local == {"/a": None, "/b": str(tmp_path / "b"), "/c": None, "/d/e": None}


@pytest.fixture
def through(make: MakeClient, proxy: FaultProxy) -> Client:
    client = make(f"http://127.0.0.1:{proxy.port}")
    client.login()
    return client


STRANGE = [
    Reply(204),
    Reply(200, {}, b""),
    Reply(200, {}, b"[]"),
    Reply(200, {}, b'{"content": []}'),
    Reply(200, {}, b'{"content": [{"name": 1}]}'),
    Reply(200, {}, b'{"content": [{"name": "..", "absolutePath": "/../x", "type": "REGULAR", "contentType": ""}]}'),
    Reply(204, {"Content-Location": "https://elsewhere/file"}),
    Reply(204, {"Content-Location": "/backend/1.0.0/filesystem/a/../b"}),
    Reply(204, {"Content-Location": "/backend/1.0.0/filesystem/%ff"}),
]


@pytest.mark.parametrize("answer", STRANGE)
def test_a_gateway_that_does_not_say_it(through: Client, proxy: FaultProxy, answer: Reply) -> None:
    proxy.on(is_upload, Altered(lambda _: answer), turns=3)
    assert through.upload(b"1", "/file", on_conflict="rename", verify=True) is None
    entry = through.upload(b"1", "/file")
    assert entry is not None
    assert (entry.path, entry.size, entry.last_modified) == ("/file", 1, None)
    receipts: list[Receipt] = []
    through.upload_all([(b"1", "/file")], on_conflict="rename", stored=receipts.append)
    assert [(receipt.path, receipt.entry) for receipt in receipts] == [("/file", None)]


def test_a_gateway_that_says_it_in_a_header(through: Client, proxy: FaultProxy) -> None:
    place = {"Content-Location": "/backend/1.0.0/filesystem/a/b%20%281%29%25"}
    proxy.on(is_upload, Altered(lambda _: Reply(204, place)))
    entry = through.upload(b"1", "/a/b", on_conflict="rename")
    assert entry is not None
    assert (entry.name, entry.path) == ("b (1)%", "/a/b (1)%")


def test_verifying_looks_at_the_name_that_the_file_got(through: Client, root: Path, proxy: FaultProxy) -> None:
    (root / "file").write_bytes(b"longer")
    proxy.on(is_upload, Altered.body(_without_digest))
    through.upload(b"1", "/file", on_conflict="rename", verify=True)
    assert proxy.calls[-1].path == "/backend/1.0.0/filesystem/file (1)"


def _without_digest(body: bytes) -> bytes:
    return re.sub(rb'"digest":"[^"]*"', b'"exists":true', body)


def test_a_signed_receipt(client: Client, root: Path, tmp_path: Path) -> None:
    entry = client.upload(b"1", "/file", receipt=True)
    assert entry is not None
    assert entry.receipt is not None
    assert entry.receipt.count(".") == 2
    assert (entry.etag, entry.last_modified) == (client.head("/file").etag, client.stat("/file").last_modified)
    without = client.upload(b"2", "/file")
    assert without is not None
    assert (without.receipt, without.etag) == (None, client.head("/file").etag)
    assert without.last_modified == client.stat("/file").last_modified
