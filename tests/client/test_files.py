import io
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from portico.client import (
    AlreadyExists,
    Client,
    ClientError,
    FolderNotEmpty,
    InvalidPath,
    IsAFolder,
    NotAFolder,
    NotFound,
    NotPossible,
)

from .conftest import both_clients

ODD = [
    "plain.txt",
    "with space.txt",
    "100%.txt",
    "a%22b.txt",
    "a%0Ab.txt",
    'quo"te.txt',
    "q?u#e&r+y=.txt",
    "Grüße 文件 🙂.txt",
    "semi;colon.txt",
    "'single'.txt",
    "%2e%2e",
]


@pytest.mark.parametrize("name", ODD)
def test_odd_names_come_back_as_they_went(client: Client, root: Path, name: str) -> None:
    client.upload(name.encode(), f"/odd & ends/{name}")
    assert [entry.name for entry in client.list("/odd & ends")] == [name]
    assert (root / "odd & ends" / name).read_bytes() == name.encode()
    assert client.stat(f"/odd & ends/{name}").name == name
    assert client.read(f"/odd & ends/{name}") == name.encode()
    client.move(f"/odd & ends/{name}", f"/{name}")
    client.delete(f"/{name}")
    assert [entry.name for entry in client.list()] == ["odd & ends"]


@pytest.mark.parametrize("path", ["/a/../b", "/a//b", "/.", "/a\\b", "/a\nb", "//", "/\udcff"])
def test_paths_that_cannot_be_are_refused_here(client: Client, path: str) -> None:
    with pytest.raises(InvalidPath) as refused:
        client.stat(path)
    assert refused.value.status is None


@both_clients
def test_a_listing_pages_by_itself(client: Client, root: Path) -> None:
    for number in range(7):
        (root / f"file-{number}").write_bytes(b"x" * number)
    (root / "folder").mkdir()
    entries = list(client.list(size=2))
    assert [entry.name for entry in entries] == ["folder", *(f"file-{number}" for number in range(7))]
    folder, _, second, *_ = entries
    assert (folder.is_folder, folder.path, folder.content_type) == (True, "/folder", "folder")
    assert (second.is_folder, second.path, second.size) == (False, "/file-1", 1)
    assert second.modified is not None
    assert abs(second.modified - datetime.now(UTC)) < timedelta(hours=1)


@both_clients
def test_a_search_pages_by_itself(client: Client, root: Path) -> None:
    (root / "a" / "b").mkdir(parents=True)
    for place in ("a/Report.pdf", "a/b/report.txt", "other"):
        (root / place).write_bytes(b"1234")
    assert {entry.path for entry in client.search(name="report")} == {"/a/Report.pdf", "/a/b/report.txt"}
    assert {entry.path for entry in client.search("/a", name="*.pdf")} == {"/a/Report.pdf"}
    assert list(client.search(name="report", match_case=True, min_size=5)) == []
    yesterday = datetime.now(UTC) - timedelta(days=1)
    assert {entry.name for entry in client.search(type="file", modified_after=yesterday, max_size=4)} == {
        "Report.pdf",
        "report.txt",
        "other",
    }
    assert list(client.search(modified_before=yesterday)) == []
    with pytest.raises(NotFound):
        list(client.search("/missing"))


@both_clients
def test_an_archive_of_a_folder_and_of_a_selection(client: Client, root: Path, tmp_path: Path) -> None:
    for place in ("docs/a.txt", "docs/in/b.txt", "other.txt"):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(place)
    file, seen = tmp_path / "docs.zip", []
    client.download_zip("/docs", file, progress=lambda *facts: seen.append(facts))
    with zipfile.ZipFile(file) as archive:
        assert archive.read("docs/in/b.txt") == b"docs/in/b.txt"
    assert seen[-1][1:] == (file.stat().st_size, file.stat().st_size)
    stream = io.BytesIO()
    client.download_zip("/", stream, paths=["other.txt", "docs/in"])
    with zipfile.ZipFile(stream) as archive:
        assert sorted(archive.namelist()) == ["docs/in/", "docs/in/b.txt", "other.txt"]
    with pytest.raises(NotFound):
        client.download_zip("/missing", tmp_path / "missing.zip")
    assert [each.name for each in tmp_path.iterdir() if "missing" in each.name] == []


@both_clients
def test_a_walk_can_be_led(client: Client, root: Path) -> None:
    for place in ("a/b/c", "skipped/inner", "z"):
        (root / "top" / place).mkdir(parents=True)
    (root / "top" / "a" / "file").touch()
    seen = {}
    for folder, folders, files in client.walk("top/"):
        seen[folder] = [entry.name for entry in files]
        folders[:] = [entry for entry in folders if entry.name != "skipped"]
    assert seen == {"/top": [], "/top/a": ["file"], "/top/a/b": [], "/top/a/b/c": [], "/top/z": []}
    assert list(seen) == sorted(seen)


@both_clients
def test_stat_and_head(client: Client, root: Path) -> None:
    (root / "file.csv").write_bytes(b"12345")
    entry, head = client.stat("file.csv"), client.head("/file.csv")
    assert (entry.size, entry.content_type, entry.etag) == (5, "text/csv", None)
    assert (head.size, head.content_type, head.name) == (5, "text/csv", "file.csv")
    assert head.etag
    assert head.modified == entry.modified
    assert client.stat("/").is_folder
    client.make_folder("/folder")
    with pytest.raises(IsAFolder):
        client.head("/folder")
    with pytest.raises(NotFound, match="'/none' not found") as missing:
        client.head("/none")
    assert missing.value.request_id


@both_clients
def test_make_copy_move_delete(client: Client, root: Path) -> None:
    client.make_folder("/a/b")
    client.make_folder("/a/b")
    client.upload(b"1", "/a/b/one")
    client.copy("/a", "/copy")
    client.move("/copy/b/one", "/copy/uno")
    assert (root / "copy" / "uno").read_bytes() == b"1"
    assert (root / "a" / "b" / "one").read_bytes() == b"1"
    with pytest.raises(AlreadyExists):
        client.copy("/a/b/one", "/copy/uno", on_conflict="fail")
    client.copy("/a/b/one", "/copy/uno", on_conflict="rename")
    assert {entry.name for entry in client.list("/copy")} == {"b", "uno", "uno (1)"}
    with pytest.raises(FolderNotEmpty):
        client.delete("/copy")
    client.delete("/copy", recursive=True)
    assert not (root / "copy").exists()


def test_errors_are_typed_and_can_be_looked_up(client: Client, root: Path) -> None:
    (root / "file").touch()
    with pytest.raises(NotFound) as missing:
        client.stat("/nothing")
    error = missing.value
    assert (error.code, error.status) == ("not-found", 404)
    assert error.detail in str(error)
    assert error.request_id is not None
    assert error.request_id in str(error)
    with pytest.raises(NotAFolder):
        list(client.list("/file"))
    with pytest.raises(NotFound):
        list(client.list("/nothing"))
    with pytest.raises(NotPossible):
        client.delete("/", recursive=True)
    with pytest.raises(ClientError):
        client.download("/", root.parent / "nowhere")


@both_clients
def test_what_is_deleted_comes_back(client: Client, root: Path) -> None:
    client.empty_trash()
    client.upload(b"old", "/t/f")
    trash_id = client.delete("/t", recursive=True)
    assert trash_id
    (item,) = list(client.trash())
    assert (item.id, item.path, item.is_folder, item.reason) == (trash_id, "/t", True, "deleted")
    assert item.deleted_at < item.expires_at
    assert client.restore(trash_id) == "/t"
    assert (root / "t/f").read_bytes() == b"old"
    with pytest.raises(NotFound):
        client.restore(trash_id)
    client.upload(b"new", "/t/f", on_conflict="replace")
    (item,) = list(client.trash())
    with pytest.raises(AlreadyExists):
        client.restore(item.id)
    client.restore(item.id, on_conflict="replace")
    assert (root / "t/f").read_bytes() == b"old"
    client.remove_trashed(next(iter(client.trash())).id)
    assert client.delete("/t", recursive=True, permanent=True) is None
    assert list(client.trash()) == []
