"""Walks through everything below a folder, interrupted anywhere."""

from collections import Counter

import pytest

from portico.model.entries import Entry
from portico.model.errors import InvalidCursor, NotAFolder, NotFound
from portico.model.paths import Path

from ..recorded_drive import RecordedDrive
from .actions import at, put

pytestmark = pytest.mark.above_services

TREE = {
    "f/a/1.txt": b"1",
    "f/a/deep/er/x": b"12",
    "f/a/deep/er/y": b"123",
    "f/a-b": b"between 'a' and 'a/' in the order of keys",
    "f/a.txt": b"1",
    "f/b/2.txt": b"1",
    "f/z": b"",
    "f/Ω/é 😀": b"1",
}
FOLDERS = {"f/a", "f/a/deep", "f/a/deep/er", "f/b", "f/empty", "f/Ω"}
OTHERS = ("ff/inside", "f0", "e")


@pytest.fixture
async def tree(drive: RecordedDrive) -> None:
    for path, content in TREE.items():
        await put(drive, path, content)
    for path in OTHERS:
        await put(drive, path)
    await drive.make_folder(at("f/empty"))
    await drive.make_folder(at("f/a"))  # marked, although it has content


async def walked(drive: RecordedDrive, folder: str, size: int, *, afresh: bool) -> list[tuple[Path, Entry]]:
    """All entries; `afresh`: every page by another request. Otherwise folders may be listed ahead."""
    found = []
    walk = drive.walk(at(folder), reads_ahead=not afresh)
    while True:
        page = await walk.page(size)
        found += page
        assert walk.passed == len(found)
        if walk.ended:
            assert walk.cursor is None
            return found
        if afresh:
            walk = drive.walk(at(folder), walk.cursor)


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("afresh", [True, False])
async def test_every_entry_once_and_folders_before_their_content(drive: RecordedDrive, afresh: bool) -> None:
    for size in (1, 2, 5, 1000) if afresh else (3,):
        found = await walked(drive, "f", size, afresh=afresh)
        paths = [str(path)[1:] for path, _ in found]
        assert Counter(paths) == Counter([*TREE, *FOLDERS])
        assert {path for path, (_, entry) in zip(paths, found, strict=True) if entry.is_folder} == FOLDERS
        for path in paths:
            parent = path.rpartition("/")[0]
            assert parent == "f" or paths.index(parent) < paths.index(path)
        for path, (place, entry) in zip(paths, found, strict=True):
            assert entry.name == place.name
            if not entry.is_folder:
                assert entry.size == len(TREE[path])
                assert entry.last_modified


@pytest.mark.both_roots
@pytest.mark.usefixtures("tree")
async def test_the_root(drive: RecordedDrive) -> None:
    paths = {str(path)[1:] for path, _ in await walked(drive, "", 3, afresh=True)}
    assert paths == {*TREE, *FOLDERS, *OTHERS, "f", "ff"}


async def test_an_empty_root(drive: RecordedDrive) -> None:
    assert await walked(drive, "", 3, afresh=False) == []


@pytest.mark.usefixtures("tree")
async def test_what_is_no_folder(drive: RecordedDrive) -> None:
    assert await walked(drive, "f/empty", 3, afresh=False) == []
    with pytest.raises(NotFound):
        await drive.walk(at("missing")).page(3)
    with pytest.raises(NotAFolder):
        await drive.walk(at("f/z")).page(3)


@pytest.mark.usefixtures("tree")
async def test_entries_that_come_and_go_do_not_disturb_the_others(drive: RecordedDrive) -> None:
    walk = drive.walk(at("f"))
    seen = [str(path)[1:] for path, _ in await walk.page(2)]
    step = 0
    while not walk.ended:
        await put(drive, f"f/0 new {step}")
        await put(drive, f"f/a/0 new {step}")
        if step:
            await drive.delete(at(f"f/0 new {step - 1}"))
        walk = drive.walk(at("f"), walk.cursor)
        seen += [str(path)[1:] for path, _ in await walk.page(2)]
        step += 1
    kept = [path for path in seen if "new" not in path]
    assert Counter(kept) == Counter([*TREE, *FOLDERS])


@pytest.mark.usefixtures("tree")
async def test_a_cursor_is_for_its_folder_and_its_walk(drive: RecordedDrive) -> None:
    walk = drive.walk(at("f"))
    await walk.page(1)
    cursor = walk.cursor
    assert cursor
    for folder, altered in (("f/a", cursor), ("f", f"1{cursor}"), ("f", cursor[:-1])):
        with pytest.raises(InvalidCursor):
            drive.walk(at(folder), altered)
    with pytest.raises(InvalidCursor):
        await drive.list_page(at("f"), 1, cursor)


@pytest.mark.usefixtures("tree")
async def test_a_walk_goes_on_with_smaller_pages(drive: RecordedDrive) -> None:
    for first in (3, 7, 9, 11):
        walk = drive.walk(at("f"))
        found = await walk.page(first)
        while not walk.ended:
            walk = drive.walk(at("f"), walk.cursor)
            found += await walk.page(1)
        assert Counter(str(path) for path, _ in found) == Counter(f"/{path}" for path in (*TREE, *FOLDERS))
