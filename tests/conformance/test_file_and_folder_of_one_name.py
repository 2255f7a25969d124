"""An object store may hold a file `a` and a folder `a/`, and both can be reached.

Without a trailing slash, the path means the file; with one, or in a listing, the folder.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from portico.model.entries import Download, Entry, Page
from portico.model.errors import IsAFolder, NotAFolder, NotFound
from portico.model.paths import Path
from portico.providers.contract.provider import Provider
from portico.providers.contract.uploads import WriteOptions
from portico.providers.objects.service import ObjectService

from ..recorded_drive import RecordedDrive
from .actions import at, content, exists, names, pieces, put, tree
from .harness import KEY_STORES

pytestmark = pytest.mark.above_services


@pytest.fixture
async def file_and_folder(provider: Provider, drive: RecordedDrive, root: Path) -> None:
    assert isinstance(provider, ObjectService)
    for key, data in (("a", b"file"), ("a/b", b"in the folder")):
        await provider.store("/".join([*root.segments, key]), pieces(data), "text/plain", WriteOptions())


@pytest.mark.object_services
@pytest.mark.both_roots
@pytest.mark.usefixtures("file_and_folder")
async def test_each_is_found_by_how_it_is_written(provider: Provider, drive: RecordedDrive, root: Path) -> None:
    found = await provider.find_file(at("a").under(root))
    assert found
    assert found.size == 4
    assert not (await drive.stat(at("a"))).is_folder
    assert (await drive.stat(at("a/"))).is_folder
    assert await content(drive, "a") == b"file"
    assert await content(drive, "a/b") == b"in the folder"
    assert await names(drive, "a") == ["b"]
    with pytest.raises(NotAFolder):
        await drive.list_page(at("a"), 10, file_first=True)
    file, folder = await drive.read_or_list(at("a"), 10), await drive.read_or_list(at("a/"), 10)
    assert isinstance(file, Download)
    await file.chunks.aclose()
    assert isinstance(folder, Page)
    assert [entry.name for entry in folder.entries] == ["b"]


@pytest.mark.object_services
@pytest.mark.both_roots
@pytest.mark.usefixtures("file_and_folder")
async def test_each_is_removed_alone(drive: RecordedDrive) -> None:
    await drive.delete(at("a/"), recursive=True)
    assert await tree(drive) == {"/a": b"file"}
    await drive.delete(at("a/"))
    assert await tree(drive) == {}


@pytest.mark.object_services
@pytest.mark.usefixtures("file_and_folder")
async def test_the_file_goes_first_where_no_slash_is_written(drive: RecordedDrive) -> None:
    await drive.delete(at("a"), recursive=True)
    assert await tree(drive) == {"/a": None, "/a/b": b"in the folder"}


@pytest.mark.parametrize("how", ["copy", "move"])
@pytest.mark.object_services
@pytest.mark.usefixtures("file_and_folder")
async def test_each_is_copied_and_moved_alone(drive: RecordedDrive, how: str) -> None:
    transfer = drive.copy if how == "copy" else drive.move
    await transfer(at("a/"), at("folder"))
    assert await tree(drive, "folder") == {"/folder/b": b"in the folder"}
    assert await content(drive, "a") == b"file"
    await transfer(at("a"), at("file"))
    assert await content(drive, "file") == b"file"
    assert await exists(drive, "a") == (how == "copy")


@pytest.mark.object_services
@pytest.mark.usefixtures("file_and_folder")
async def test_the_folder_can_be_written_into(drive: RecordedDrive) -> None:
    await put(drive, "a/c", b"more")
    assert await names(drive, "a") == ["b", "c"]


async def test_a_slash_at_the_end_does_no_harm_where_there_is_one_only(drive: RecordedDrive) -> None:
    await put(drive, "file", b"file")
    await drive.make_folder(at("folder/"))
    assert not (await drive.stat(at("file/"))).is_folder
    assert (await drive.stat(at("folder"))).is_folder
    await drive.move(at("file/"), at("moved/"))
    assert await content(drive, "moved") == b"file"
    await drive.delete(at("moved/"))
    with pytest.raises(NotFound):
        await drive.stat(at("moved/"))


async def test_the_key_stores_are_known(request: pytest.FixtureRequest, provider: Provider) -> None:
    """Otherwise the tests of key stores would not run on a new one."""
    assert isinstance(provider, ObjectService) == (request.node.callspec.params["harness"] in KEY_STORES)


async def test_a_path_is_read_or_listed_by_what_it_is(drive: RecordedDrive) -> None:
    await put(drive, "file", b"file")
    await drive.make_folder(at("folder/empty"))
    for _ in range(2):
        download = await drive.read_or_list(at("file"), 10)
        assert isinstance(download, Download)
        assert (download.entry.name, b"".join([chunk async for chunk in download.chunks])) == ("file", b"file")
        for folder, inside in (("folder", ["empty"]), ("folder/empty", [])):
            page = await drive.read_or_list(at(folder), 10)
            assert isinstance(page, Page)
            assert [entry.name for entry in page.entries] == inside
        for missing in ("other", "folder/other"):
            with pytest.raises(NotFound):
                await drive.read_or_list(at(missing), 10)


@pytest.mark.object_services
async def test_a_folder_that_is_listed_again_is_not_looked_up_again(
    provider: Provider, drive: RecordedDrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing without `action` is what most scripts ask for: it costs one call, not two."""
    assert isinstance(provider, ObjectService)
    await put(drive, "folder/file", b"content")
    found: list[str] = []
    find = type(provider).find

    async def counted(self: ObjectService, key: str) -> Entry | None:
        found.append(key)
        return await find(self, key)

    monkeypatch.setattr(type(provider), "find", counted)
    for _ in range(3):
        assert [entry.name for entry in (await drive.list_page(at("folder"), 10, file_first=True)).entries] == ["file"]
    assert len(found) == 1


@pytest.mark.object_services
@pytest.mark.parametrize("first", ["file", "folder"])
@pytest.mark.parametrize("maker", ["write", "mkdir", "copy", "resumable"])
async def test_two_at_once_make_no_file_and_folder_of_one_name(
    provider: Provider, drive: RecordedDrive, first: str, maker: str
) -> None:
    """Both have looked before either is stored; the one that is stored first wins."""
    await put(drive, "source", b"content")
    looked, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"slow"
        looked.set()
        await go_on.wait()

    async def store(path: str) -> None:
        if maker == "copy":
            await drive.copy(at("source"), at(path))
        elif maker == "resumable":
            upload = await drive.begin_upload(at(path), "text/plain", size=1)
            await upload.append(pieces(b"x"), no_save, at_most=1)
            await drive.finish_upload(upload, at(path), None, no_save)
        elif maker == "mkdir" and first == "file":
            await drive.make_folder(at("a"))
        else:
            await put(drive, path, b"quick")

    slow_path, quick_path = ("a", "a/b") if first == "file" else ("a/b", "a")
    waiting = asyncio.create_task(drive.write(at(slow_path), slow(), "text/plain"))
    await looked.wait()
    await store(quick_path)
    go_on.set()
    with pytest.raises((IsAFolder, NotAFolder)):
        await waiting
    made = [entry for entry in (await drive.list_page(at("/"), 10)).entries if entry.name == "a"]
    assert [entry.is_folder for entry in made] == [first == "file"]
    await drive.delete(at("a/"), recursive=True)
    await put(drive, slow_path, b"again")


async def no_save(*, last: bool = False) -> None:
    pass


@pytest.mark.object_services
@pytest.mark.parametrize("before", ["checked", "written"])
async def test_a_folder_that_became_a_file_takes_no_file(drive: RecordedDrive, before: str) -> None:
    """A form stores several files in a folder that was checked once, some time ago."""
    if before == "checked":
        await drive.check_target(at("a"))
    else:
        await put(drive, "a/b", b"content")
        await drive.delete(at("a"), recursive=True)
    await put(drive, "a", b"file")
    with pytest.raises(NotAFolder):
        await put(drive, "a/c", b"content")
    assert await tree(drive) == {"/a": b"file"}


@pytest.mark.object_services
async def test_a_folder_is_checked_once_for_several_files(
    provider: Any, drive: RecordedDrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[Path] = []
    check_ancestors = provider.check_ancestors

    async def spy(folder: Path) -> None:
        checked.append(folder)
        await check_ancestors(folder)

    monkeypatch.setattr(provider, "check_ancestors", spy)
    await drive.check_target(at("a"))
    for path in ("a/b", "a/c"):
        await provider.write(at("other"), pieces(b"by another request"), "text/plain")
        await put(drive, path, b"content")
    assert len([folder for folder in checked if folder.name == "a"]) == 1


@pytest.mark.object_services
async def test_a_copied_folder_is_not_made_below_a_file_that_was_stored_in_the_meantime(
    provider: Any, drive: RecordedDrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(drive, "source/x", b"content")
    is_folder = provider._is_folder

    async def after_an_upload(path: Path) -> bool:
        found: bool = await is_folder(path)
        if path.name == "source":
            monkeypatch.undo()
            await put(drive, "a", b"file")
        return found

    monkeypatch.setattr(provider, "_is_folder", after_an_upload)
    with pytest.raises(NotAFolder):
        await drive.copy(at("source"), at("a/b"))
    assert await tree(drive) == {"/a": b"file", "/source": None, "/source/x": b"content"}


@pytest.mark.object_services
async def test_an_upload_that_fails_keeps_no_name_from_others(drive: RecordedDrive) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x"
        await put(drive, "other", b"meanwhile")
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await drive.write(at("a"), broken(), "text/plain")
    await put(drive, "a/b", b"content")
