from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from portico.model.entries import FOLDER_TYPE, Entry
from portico.model.errors import NotAFolder, NotFound
from portico.providers.contract.provider import Provider

from ..recorded_drive import RecordedDrive
from .actions import at, names, put, walk
from .harness import Harness

FOLDERS = ["B", "a", "a.b", "zz", "Ω"]
FILES = ["A.txt", "a-c", "a0", "b.txt", "c (1).txt", "é", "ｚ", "😀"]


def listing_order(entries: list[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (not entry.is_folder, entry.name))


@pytest.fixture
async def mixed(drive: RecordedDrive) -> None:
    """A folder `f` of files and folders, beside others whose names begin alike."""
    for name in reversed(FOLDERS):
        await put(drive, f"f/{name}/inside")
    for name in reversed(FILES):
        await put(drive, f"f/{name}", b"1234")
    for path in ("f0", "f.txt", "ff/inside", "e"):
        await put(drive, path)


@pytest.mark.usefixtures("mixed")
async def test_a_walk_shows_every_entry_once_and_pages_are_ordered(drive: RecordedDrive, harness: Harness) -> None:
    for size in (1, 2, 3, 1000):
        pages = await walk(drive, "f", size)
        for page in pages:
            assert len(page) <= size
            assert page == listing_order(page)
        entries = [entry for page in pages for entry in page]
        assert sorted(entry.name for entry in entries if entry.is_folder) == FOLDERS
        assert sorted(entry.name for entry in entries if not entry.is_folder) == FILES
        if harness.whole_order:
            assert entries == listing_order(entries)


@pytest.mark.usefixtures("mixed")
async def test_a_size_beyond_the_maximum_is_clamped(
    drive: RecordedDrive, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(await names(drive, "f", provider.max_page_size)) == len(FOLDERS + FILES)
    assert len(await names(drive, "f", 10 * provider.max_page_size)) == len(FOLDERS + FILES)
    monkeypatch.setattr(type(provider), "max_page_size", 2)
    pages = await walk(drive, "f", 10**9)
    assert max(map(len, pages)) <= 2
    assert sum(map(len, pages)) == len(FOLDERS + FILES)


async def test_entries_say_what_they_are(drive: RecordedDrive) -> None:
    before = datetime.now(UTC) - timedelta(minutes=5)
    await put(drive, "f/report.pdf", b"12345")
    await drive.make_folder(at("f/sub"))
    ((folder, file),) = await walk(drive, "f")
    assert (folder.name, folder.is_folder, folder.content_type) == ("sub", True, FOLDER_TYPE)
    assert (file.name, file.is_folder, file.size) == ("report.pdf", False, 5)
    assert file.modified is not None
    assert file.modified.utcoffset() == timedelta(0)
    assert before < file.modified < datetime.now(UTC) + timedelta(minutes=5)
    for entry in (folder, file):
        known = await drive.stat(at(f"f/{entry.name}"))
        assert (known.name, known.is_folder, known.size) == (entry.name, entry.is_folder, entry.size)


@pytest.mark.both_roots
async def test_the_root_exists_while_it_holds_nothing(drive: RecordedDrive) -> None:
    assert await walk(drive) == [[]]
    entry = await drive.stat(at("/"))
    assert (entry.name, entry.is_folder, entry.content_type) == ("/", True, FOLDER_TYPE)


@pytest.mark.both_roots
async def test_the_root_is_listed(drive: RecordedDrive) -> None:
    await put(drive, "file")
    await put(drive, "folder/inside")
    assert await names(drive) == ["folder", "file"]


async def test_an_empty_folder_is_listed(drive: RecordedDrive) -> None:
    await drive.make_folder(at("empty"))
    assert await walk(drive, "empty") == [[]]
    assert await names(drive) == ["empty"]


@pytest.mark.both_roots
async def test_a_missing_folder_is_not_found(drive: RecordedDrive) -> None:
    await put(drive, "file")
    await put(drive, "folder/inside")
    for path in ("missing", "folder/missing", "file/below", "fil", "folde"):
        with pytest.raises(NotFound):
            await drive.list_page(at(path), 10)
        with pytest.raises(NotFound):
            await drive.stat(at(path))


async def test_a_file_is_not_a_folder(drive: RecordedDrive) -> None:
    await put(drive, "folder/file")
    with pytest.raises(NotAFolder):
        await drive.list_page(at("folder/file"), 10)


async def test_unchanged_entries_are_listed_once_while_others_come_and_go(drive: RecordedDrive) -> None:
    steady = [f"f/{number:02}" for number in range(0, 12, 2)] + [f"f/{number:02}/x" for number in (30, 40)]
    fleeting = [f"f/{number:02}" for number in range(1, 12, 2)]
    for path in steady + fleeting:
        await put(drive, path)
    seen: Counter[str] = Counter()
    cursor = None
    coming = iter([*(f"f/{number:02}-new" for number in range(11, -1, -1)), *("f/25/x", "f/45/x")])
    while True:
        page = await drive.list_page(at("f"), 2, cursor)
        seen.update(entry.name for entry in page.entries)
        cursor = page.token
        if cursor is None:
            break
        for path in islice(coming, 1):
            await put(drive, path)
        if fleeting:
            await drive.delete(at(fleeting.pop()))
    assert {at(path).segments[1] for path in steady} <= seen.keys()
    assert set(seen.values()) == {1}


async def test_a_walk_goes_on_when_the_entry_it_stopped_at_is_gone(drive: RecordedDrive) -> None:
    for name in "abcdef":
        await put(drive, f"f/{name}")
    page = await drive.list_page(at("f"), 2)
    seen = [entry.name for entry in page.entries]
    for name in seen:
        await drive.delete(at(f"f/{name}"))
    while page.token is not None:
        page = await drive.list_page(at("f"), 2, page.token)
        seen += [entry.name for entry in page.entries]
    assert sorted(seen) == list("abcdef")
