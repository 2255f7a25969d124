import pytest

from portico.drive.drive import OnConflict
from portico.model.errors import (
    AlreadyExists,
    FolderNotEmpty,
    IsAFolder,
    NotAFolder,
    NotFound,
    NotPossible,
    PorticoError,
)
from portico.runtime import progress_counter

from ..recorded_drive import RecordedDrive
from .actions import at, content, exists, names, put, tree

pytestmark = pytest.mark.above_services

TRANSFERS = ["copy", "move"]


async def transfer(drive: RecordedDrive, how: str, source: str, target: str, choice: OnConflict | None = None) -> str:
    method = drive.copy if how == "copy" else drive.move
    return str(await method(at(source), at(target), choice))


@pytest.fixture
async def before(drive: RecordedDrive) -> dict[str, bytes | None]:
    """`/a` with files at two levels and an empty folder, and a file and a folder beside it."""
    await put(drive, "a/1", b"a1")
    await put(drive, "a/b/2", b"ab2")
    await drive.make_folder(at("a/empty"))
    await put(drive, "file", b"file")
    await put(drive, "other/1", b"other1")
    await put(drive, "other/3", b"other3")
    return {
        "/a": None,
        "/a/1": b"a1",
        "/a/b": None,
        "/a/b/2": b"ab2",
        "/a/empty": None,
        "/file": b"file",
        "/other": None,
        "/other/1": b"other1",
        "/other/3": b"other3",
    }


# Folders


@pytest.mark.both_roots
async def test_make_folder(drive: RecordedDrive) -> None:
    await drive.make_folder(at("a/b/c"))
    await drive.make_folder(at("a/b/c"))
    await drive.make_folder(at("a"))
    await drive.make_folder(at("/"))
    assert await tree(drive) == {"/a": None, "/a/b": None, "/a/b/c": None}
    assert (await drive.stat(at("a/b"))).is_folder


async def test_a_folder_cannot_be_made_of_a_file(drive: RecordedDrive) -> None:
    await put(drive, "file", b"kept")
    for path in ("file", "file/below", "file/below/deeper"):
        with pytest.raises(NotAFolder):
            await drive.make_folder(at(path))
    assert await tree(drive) == {"/file": b"kept"}


# Removal


@pytest.mark.both_roots
async def test_delete_a_file(drive: RecordedDrive) -> None:
    await put(drive, "a/1", b"1")
    await put(drive, "a/2", b"2")
    await drive.delete(at("a/1"))
    assert await tree(drive) == {"/a": None, "/a/2": b"2"}
    await drive.delete(at("a/2"), recursive=True)
    assert not await exists(drive, "a/2")


async def test_delete_an_empty_folder(drive: RecordedDrive) -> None:
    for recursive in (False, True):
        await drive.make_folder(at("a/b"))
        await drive.delete(at("a/b"), recursive=recursive)
        assert not await exists(drive, "a/b")


async def test_a_folder_with_content_goes_only_as_a_whole(
    drive: RecordedDrive, before: dict[str, bytes | None]
) -> None:
    with pytest.raises(FolderNotEmpty):
        await drive.delete(at("a"))
    assert await tree(drive) == before
    await drive.delete(at("a"), recursive=True)
    assert await tree(drive) == {path: data for path, data in before.items() if not under(path, "/a")}
    with pytest.raises(NotFound):
        await drive.list_page(at("a/b"), 10)


async def test_delete_what_is_not_there(drive: RecordedDrive, before: dict[str, bytes | None]) -> None:
    for path in ("missing", "a/missing", "missing/1", "file/below", "fil", "othe"):
        for recursive in (False, True):
            with pytest.raises(NotFound):
                await drive.delete(at(path), recursive=recursive)
    assert await tree(drive) == before


@pytest.mark.drive_alone
@pytest.mark.both_roots
async def test_the_root_cannot_be_deleted(drive: RecordedDrive) -> None:
    await put(drive, "file", b"kept")
    for recursive in (False, True):
        with pytest.raises(NotPossible):
            await drive.delete(at("/"), recursive=recursive)
    assert await content(drive, "file") == b"kept"


# Copies and moves


@pytest.mark.both_roots
@pytest.mark.parametrize("how", TRANSFERS)
async def test_a_file_to_a_new_place(drive: RecordedDrive, before: dict[str, bytes | None], how: str) -> None:
    expected = dict(before)
    for source, target, made in (
        ("file", "a/new", []),
        ("a/new", "new", []),
        ("new", "made/on/the/way", ["/made", "/made/on", "/made/on/the"]),
    ):
        assert await transfer(drive, how, source, target) == f"/{target}"
        expected |= dict.fromkeys(made) | {f"/{target}": b"file"}
        if how == "move":
            del expected[f"/{source}"]
        assert await tree(drive) == expected


@pytest.mark.both_roots
@pytest.mark.parametrize("how", TRANSFERS)
async def test_a_folder_to_a_new_place(drive: RecordedDrive, before: dict[str, bytes | None], how: str) -> None:
    expected = dict(before)
    for source, target, made in (
        ("a", "new", []),
        ("new", "other/new", []),
        ("other/new", "made/on/the/way", ["/made", "/made/on", "/made/on/the"]),
    ):
        assert await transfer(drive, how, source, target) == f"/{target}"
        expected = {path: data for path, data in expected.items() if kept(path, how, f"/{source}")}
        expected |= {f"/{target}{path[2:]}": data for path, data in before.items() if under(path, "/a")}
        expected |= dict.fromkeys(made)
        assert await tree(drive) == expected


@pytest.mark.parametrize("how", TRANSFERS)
async def test_a_file_replaces_a_file(drive: RecordedDrive, before: dict[str, bytes | None], how: str) -> None:
    assert await transfer(drive, how, "file", "a/b/2", OnConflict.REPLACE) == "/a/b/2"
    expected = before | {"/a/b/2": b"file"}
    assert await tree(drive) == {path: data for path, data in expected.items() if kept(path, how, "/file")}


@pytest.mark.parametrize("how", TRANSFERS)
async def test_a_folder_is_merged_into_a_folder(
    drive: RecordedDrive, before: dict[str, bytes | None], how: str
) -> None:
    assert await transfer(drive, how, "a", "other") == "/other"
    expected = before | {"/other/1": b"a1", "/other/b": None, "/other/b/2": b"ab2", "/other/empty": None}
    assert await tree(drive) == {path: data for path, data in expected.items() if kept(path, how, "/a")}


async def test_what_exists_may_be_kept(drive: RecordedDrive, before: dict[str, bytes | None]) -> None:
    refusals: list[tuple[str, str, type[PorticoError]]] = [
        ("a", "other", AlreadyExists),
        ("a", "other/1", AlreadyExists),
        ("file", "other", IsAFolder),
        ("file", "other/1", AlreadyExists),
    ]
    for how in TRANSFERS:
        for source, target, error in refusals:
            with pytest.raises(error):
                await transfer(drive, how, source, target, OnConflict.FAIL)
    assert await tree(drive) == before


@pytest.mark.parametrize("how", TRANSFERS)
async def test_both_are_kept_by_another_name(drive: RecordedDrive, before: dict[str, bytes | None], how: str) -> None:
    await put(drive, "file (1)", b"one")
    assert await transfer(drive, how, "other/3", "file", OnConflict.RENAME) == "/file (2)"
    assert await transfer(drive, how, "a", "other", OnConflict.RENAME) == "/other (1)"
    assert await content(drive, "file") == b"file"
    assert await content(drive, "file (2)") == b"other3"
    assert await content(drive, "other/1") == b"other1"
    assert await content(drive, "other (1)/b/2") == b"ab2"


async def test_a_copy_beside_itself_takes_another_name(drive: RecordedDrive, before: dict[str, bytes | None]) -> None:
    assert await transfer(drive, "copy", "a", "a", OnConflict.RENAME) == "/a (1)"
    assert await tree(drive, "a (1)") == {
        f"/a (1){path[2:]}": data for path, data in before.items() if under(path, "/a") and path != "/a"
    }


async def test_a_file_and_a_folder_never_replace_each_other(
    drive: RecordedDrive, before: dict[str, bytes | None]
) -> None:
    for how in TRANSFERS:
        with pytest.raises(IsAFolder):
            await transfer(drive, how, "file", "a")
        with pytest.raises(AlreadyExists):
            await transfer(drive, how, "a", "file")
    assert await tree(drive) == before


@pytest.mark.parametrize("how", TRANSFERS)
async def test_a_merge_keeps_its_source_where_a_file_meets_a_folder(drive: RecordedDrive, how: str) -> None:
    await put(drive, "a/x", b"a file")
    await put(drive, "b/x/inside", b"in a folder")
    before = await tree(drive)
    with pytest.raises(IsAFolder):
        await transfer(drive, how, "a", "b")
    assert await tree(drive) == before
    with pytest.raises(AlreadyExists):
        await transfer(drive, how, "b", "a")
    assert await tree(drive) == before


@pytest.mark.usefixtures("before")
async def test_a_source_that_is_not_there(drive: RecordedDrive) -> None:
    for how in TRANSFERS:
        for source in ("missing", "a/missing", "missing/1", "file/below", "othe"):
            with pytest.raises(NotFound):
                await transfer(drive, how, source, "new/place")
        for choice in OnConflict:
            with pytest.raises(NotFound):
                await transfer(drive, how, "missing", "new/place", choice)
    assert not await exists(drive, "new")


async def test_a_file_on_the_way_of_the_target(drive: RecordedDrive, before: dict[str, bytes | None]) -> None:
    for how in TRANSFERS:
        for source in ("a", "other/1"):
            with pytest.raises(NotAFolder):
                await transfer(drive, how, source, "file/below")
    assert await tree(drive) == before


@pytest.mark.drive_alone
@pytest.mark.both_roots
@pytest.mark.parametrize("how", TRANSFERS)
async def test_nothing_goes_into_itself_or_onto_what_holds_it(
    drive: RecordedDrive, before: dict[str, bytes | None], how: str
) -> None:
    for source, target in (
        *(("a", "a"), ("file", "file"), ("a", "a/b"), ("a", "a/new"), ("a", "a/b/new/c"), ("a/b", "a")),
        *(("a", "/"), ("file", "/"), ("/", "new"), ("/", "/")),
    ):
        for choice in (None, OnConflict.REPLACE, OnConflict.FAIL):
            with pytest.raises(NotPossible):
                await transfer(drive, how, source, target, choice)
        assert await tree(drive) == before


@pytest.mark.drive_alone
@pytest.mark.parametrize("how", TRANSFERS)
async def test_a_folder_never_swallows_its_own_source(drive: RecordedDrive, how: str) -> None:
    await put(drive, "a/a/a/file", b"precious")
    before = await tree(drive)
    with pytest.raises(NotPossible):
        await transfer(drive, how, "a/a", "a")
    assert await tree(drive) == before


@pytest.mark.parametrize("how", TRANSFERS)
async def test_names_that_begin_alike_are_not_inside_each_other(drive: RecordedDrive, how: str) -> None:
    await put(drive, "a/1", b"1")
    await transfer(drive, how, "a", "ab")
    await transfer(drive, how, "ab", "a.b/c")
    assert await names(drive, "a.b/c") == ["1"]
    assert await exists(drive, "a/1") == (how == "copy")


async def test_a_merge_that_failed_carries_on(drive: RecordedDrive) -> None:
    await put(drive, "a/1", b"1")
    await put(drive, "a/x", b"x")
    await put(drive, "b/x/in", b"the way")
    with pytest.raises(IsAFolder):
        await drive.move(at("a"), at("b"))
    await drive.delete(at("b/x"), recursive=True)
    await drive.move(at("a"), at("b"))
    assert await tree(drive) == {"/b": None, "/b/1": b"1", "/b/x": b"x"}


def under(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def kept(path: str, how: str, source: str) -> bool:
    return how == "copy" or not under(path, source)


async def test_an_empty_folder_goes_alone(drive: RecordedDrive) -> None:
    await drive.make_folder(at("empty"))
    await drive.delete(at("empty"))
    with pytest.raises(NotFound):
        await drive.stat(at("empty"))


@pytest.mark.usefixtures("before")
async def test_files_are_counted_for_those_who_watch(drive: RecordedDrive) -> None:
    counted = progress_counter.ProgressCounter()
    progress_counter.CURRENT.set(counted)
    await drive.copy(at("a"), at("copy"))
    assert (counted.entries, counted.size) == (2, 5)
    await drive.copy(at("file"), at("copied"))
    assert (counted.entries, counted.size) == (3, 9)
    await drive.delete(at("copy"), recursive=True)
    assert counted.entries == 5
    await drive.move(at("a"), at("other"))
    assert counted.entries >= 7, "folders that move as a whole count as well"
