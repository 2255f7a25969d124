"""Reading and writing open files, and what happens to them on errors."""

import gzip
import os
import pickle
from pathlib import Path
from typing import Any

import fsspec
import pytest

from portico.client import Changed
from portico.filesystem import PorticoFileSystem

from ..gateways import Gateway


def read_only(gateway: Gateway, rights: str) -> PorticoFileSystem:
    """The same files, for a user who may do less."""
    name = rights.replace(",", "-")
    gateway.command(
        *("user", "add", name, "--root", "/web", "--rights", rights, "--password-stdin"), stdin="correct horse battery"
    )
    return PorticoFileSystem(gateway.url, username=name, password="correct horse battery")


def test_a_file_is_stored_when_it_is_closed(fs: PorticoFileSystem, root: Path) -> None:
    with fs.open("/new/folder/file.bin", "wb") as file:
        file.write(b"one")
        file.flush()
        assert not (root / "new").exists()
        file.write(b"two")
    assert (root / "new/folder/file.bin").read_bytes() == b"onetwo"


def test_a_large_file_is_kept_on_disk_until_then(fs: PorticoFileSystem, root: Path) -> None:
    block = os.urandom(2**20)
    with fs.open("/large.bin", "wb") as file:
        for _ in range(12):
            file.write(block)
        assert file._content._rolled
    assert (root / "large.bin").read_bytes() == block * 12


@pytest.mark.parametrize("mode", ["wb", "w", "xb"])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_an_error_stores_nothing(fs: PorticoFileSystem, root: Path, mode: str, compression: str | None) -> None:
    file = fs.open("/half.txt", mode, compression=compression)
    file.write(b"half" if "b" in mode else "half")
    with pytest.raises(ZeroDivisionError), file:
        raise ZeroDivisionError
    assert file.closed
    assert list(root.iterdir()) == []


def test_a_file_that_nobody_closes_is_not_stored(fs: PorticoFileSystem, root: Path) -> None:
    file = fs.open("/forgotten.txt", "wb")
    file.write(b"half")
    with pytest.warns(ResourceWarning, match="not stored"):
        del file
    assert list(root.iterdir()) == []


def test_text_and_compression(fs: PorticoFileSystem, root: Path) -> None:
    with fs.open("/text.txt.gz", "wt", compression="infer", encoding="utf-8", newline="\n") as file:
        file.write("grüezi\n")
    assert gzip.decompress((root / "text.txt.gz").read_bytes()).decode() == "grüezi\n"
    with fs.open("/text.txt.gz", "rt", compression="gzip", encoding="utf-8") as file:
        assert file.read() == "grüezi\n"


def test_several_files_are_stored_at_the_end_of_a_transaction(fs: PorticoFileSystem, root: Path) -> None:
    with fs.transaction:
        fs.pipe_file("/one", b"1")
        with fs.open("/two", "wb") as file:
            file.write(b"2")
        assert list(root.iterdir()) == []
    assert {entry.name: entry.read_bytes() for entry in root.iterdir()} == {"one": b"1", "two": b"2"}
    assert fs.ls("/", detail=False) == ["/one", "/two"]


def test_a_transaction_that_fails_stores_nothing(fs: PorticoFileSystem, root: Path) -> None:
    def fail() -> None:
        with fs.transaction:
            fs.pipe_file("/one", b"1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(root.iterdir()) == []


def test_what_is_there_is_not_replaced_if_that_is_asked_for(fs: PorticoFileSystem, root: Path) -> None:
    file = fs.open("/taken", "xb")
    (root / "taken").write_bytes(b"first")  # after the look, so that only the gateway can say no
    file.write(b"second")
    with pytest.raises(FileExistsError):
        file.close()
    with pytest.raises(FileExistsError):
        fs.put_file(__file__, "/taken", mode="create")
    assert (root / "taken").read_bytes() == b"first"


def test_files_cannot_be_appended_to(fs: PorticoFileSystem, root: Path) -> None:
    with pytest.raises(NotImplementedError, match="whole files"):
        fs.open("/file", "ab")


def test_a_file_that_changes_while_it_is_read_is_an_error(fs: PorticoFileSystem, root: Path) -> None:
    (root / "log").write_bytes(b"a" * 100)
    with fs.open("/log", block_size=10) as file:
        assert file.read(10) == b"a" * 10
        (root / "log").write_bytes(b"b" * 100)
        with pytest.raises(OSError, match=r"\[Errno 116\]") as caught:
            file.read(50)
    assert isinstance(caught.value.__cause__, Changed)


def test_an_open_file_can_be_pickled(fs: PorticoFileSystem, root: Path) -> None:
    (root / "file").write_bytes(b"0123456789")
    with fs.open("/file") as file:
        file.seek(4)
        with pickle.loads(pickle.dumps(file)) as copy:
            assert copy.read() == b"456789"
            assert copy._etag == file._etag


def test_contents_and_ranges(fs: PorticoFileSystem, root: Path) -> None:
    (root / "file").write_bytes(b"0123456789")
    (root / "other").write_bytes(b"abc")
    assert fs.cat_file("/file", 2, 5) == b"234"
    assert fs.cat_file("/file", -3) == b"789"
    assert fs.cat_file("/file", 1, -8) == b"1"
    assert fs.cat(["/file", "/other"]) == {"/file": b"0123456789", "/other": b"abc"}
    assert fs.cat("/oth*") == {"/other": b"abc"}
    assert fs.cat_ranges(["/file", "/other"], [1, 0], [3, 2]) == [b"12", b"ab"]
    assert fs.cat_ranges(["/file"], 8, 99) == [b"89"]
    found = fs.cat_ranges(["/file", "/missing"], 0, 1)
    assert found[0] == b"0"
    assert isinstance(found[1], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["/file", "/missing"], 0, 1, on_error="raise")
    assert fs.cat(["/file", "/missing"], on_error="omit") == {"/file": b"0123456789"}


def test_copies_to_and_from_this_machine_tell_how_far_they_are(
    fs: PorticoFileSystem, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "local").write_bytes(b"x" * 70_000)
    callback = fsspec.callbacks.Callback()
    fs.put_file(tmp_path / "local", "/there", callback=callback)
    assert (callback.size, callback.value) == (70_000, 70_000)
    callback = fsspec.callbacks.Callback()
    fs.get_file("/there", tmp_path / "new" / "back", callback=callback)
    assert (callback.size, callback.value) == (70_000, 70_000)
    assert (tmp_path / "new" / "back").read_bytes() == b"x" * 70_000


def test_a_user_who_may_only_store_can_store(gateway: Gateway, root: Path, tmp_path: Path) -> None:
    fs = read_only(gateway, "upload")
    (tmp_path / "local").write_bytes(b"local")
    fs.put(str(tmp_path / "local"), "/in/")
    fs.pipe("/in/piped", b"piped")
    with fs.open("/in/written", "xb") as file:
        file.write(b"written")
    assert sorted(entry.name for entry in (root / "in").iterdir()) == ["local", "piped", "written"]
    with pytest.raises(PermissionError):
        fs.exists("/in")
    with pytest.raises(PermissionError):
        fs.find("/in")
    with pytest.raises(PermissionError):
        fs.cat_file("/in/piped")
    with pytest.raises(FileExistsError):
        fs.pipe("/in/piped", b"again")
    assert (root / "in/piped").read_bytes() == b"piped"


def test_a_user_who_may_only_read_can_read(gateway: Gateway, root: Path) -> None:
    fs = read_only(gateway, "download")
    (root / "file").write_bytes(b"0123456789")
    with fs.open("/file") as file:
        assert file.read() == b"0123456789"
    with pytest.raises(PermissionError), fs.open("/new", "wb") as file:
        file.write(b"no")


def test_files_of_a_table_library(fs: PorticoFileSystem, root: Path, options: dict[str, Any]) -> None:
    import pandas

    table = pandas.DataFrame({"n": range(5), "text": list("abcde")})
    table.to_csv("portico:///t.csv", index=False, storage_options=options)
    assert pandas.read_csv("portico:///t.csv", storage_options=options).equals(table)
    table.to_parquet("portico:///t.parquet", storage_options=options)
    assert pandas.read_parquet("portico:///t.parquet", storage_options=options).equals(table)
    assert sorted(entry.name for entry in root.iterdir()) == ["t.csv", "t.parquet"]
