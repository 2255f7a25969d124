"""What is deleted or replaced can be brought back, on every provider; and nothing is lost when a process dies midway."""

import asyncio
import pathlib
import shutil
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from portico.cursors import CursorSeal
from portico.drive import Drive, OnConflict
from portico.drive_trash import DriveTrash
from portico.errors import (
    AlreadyExists,
    FolderNotEmpty,
    InvalidPath,
    IsAFolder,
    NotFound,
    NotPossible,
    ProviderUnavailable,
)
from portico.paths import Path
from portico.providers.base import Provider
from portico.providers.gcs.service import Request
from portico.providers.keys import folder_key, key_of
from portico.rights import DEFAULT_RIGHTS
from portico.store.database import Database
from portico.store.leases import Leases
from portico.store.schema import migrate
from portico.store.tables import connections
from portico.store.trash import Trashed, TrashRecords
from portico.tally import CURRENT, Tally

from .actions import at, content, exists, names, noise, put, tree

KEEP = timedelta(days=30)
FILES = {"a.txt": b"a", "b/c.txt": b"c" * 70_000, "b/empty": b"", "b/d/e ö.txt": b"e"}


@pytest.fixture(scope="session")
def migrated_trash(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    file = tmp_path_factory.mktemp("trash") / "portico.db"
    migrate(f"sqlite:///{file}")
    return file


@pytest.fixture
async def records(migrated_trash: pathlib.Path, tmp_path: pathlib.Path) -> AsyncIterator[TrashRecords]:
    shutil.copy(migrated_trash, tmp_path / "trash.db")
    database = Database(f"sqlite:///{tmp_path / 'trash.db'}")
    row = {"name": "c", "kind": "local", "options": "{}", "revision": 1}
    await database.execute(insert(connections), row)
    yield TrashRecords(database)
    await database.close()


@pytest.fixture
def drive(provider: Provider, root: Path, seal: CursorSeal, records: TrashRecords) -> Drive:
    return with_trash(provider, root, seal, records)


def with_trash(provider: Provider, root: Path, seal: CursorSeal, records: TrashRecords) -> Drive:
    """As another request has it."""

    def trash() -> DriveTrash:
        leases = Leases(records._database, "node")
        return DriveTrash(provider, records, leases, "c", prefix=Path(), root=root, user="alice", keep=KEEP)

    return Drive(provider, root, DEFAULT_RIGHTS, seal, trash=trash)


async def trashed(drive: Drive) -> list[Trashed]:
    return (await drive.trash.page(100))[0]


async def newest(drive: Drive) -> Trashed:
    return (await trashed(drive))[0]


async def put_tree(drive: Drive, folder: str) -> None:
    for path, data in FILES.items():
        await put(drive, f"{folder}/{path}", data)


async def test_a_deleted_file_comes_back(drive: Drive) -> None:
    data = noise(200_000)
    await put(drive, "docs/report.pdf", data)
    await put(drive, "docs/other", b"other")
    await drive.delete(at("docs/report.pdf"))
    assert not await exists(drive, "docs/report.pdf")
    (found,) = await trashed(drive)
    assert drive.trashed == [found.id]
    assert (found.is_folder, found.size, found.reason) == (False, 200_000, "deleted")
    assert str(drive.trash.path_of(found)) == "/docs/report.pdf"
    assert await drive.restore(found) == at("docs/report.pdf")
    assert await content(drive, "docs/report.pdf") == data
    assert await trashed(drive) == []
    with pytest.raises(NotFound):
        await drive.trash.get(found.id)


async def test_a_deleted_folder_comes_back_with_all_it_held(drive: Drive) -> None:
    await put_tree(drive, "x/tree")
    await drive.make_folder(at("x/tree/nothing"))
    await put(drive, "x/stays", b"stays")
    before = await tree(drive, "x")
    with pytest.raises(FolderNotEmpty):
        await drive.delete(at("x/tree"))
    await drive.delete(at("x/tree"), recursive=True)
    assert await names(drive, "x") == ["stays"]
    assert await names(drive) == ["x"], "the trash is not listed"
    await put(drive, "x/tree", b"the name is free at once")
    found = await newest(drive)
    with pytest.raises(AlreadyExists):
        await drive.restore(found)
    assert await drive.restore(found, OnConflict.RENAME) == at("x/tree (1)")
    await drive.delete(at("x/tree"))
    await drive.move(at("x/tree (1)"), at("x/tree"))
    assert await tree(drive, "x") == before


async def test_what_is_replaced_comes_back(drive: Drive) -> None:
    first, second, third = noise(70_000, 1), noise(300_000, 2), noise(5, 3)
    await put(drive, "d/f.bin", first)
    assert drive.trashed == []
    await put(drive, "d/f.bin", second)
    found = await newest(drive)
    assert (found.reason, found.size, drive.trashed) == ("replaced", 70_000, [found.id])
    with pytest.raises(AlreadyExists):
        await drive.restore(found)
    assert await content(drive, "d/f.bin") == second
    await drive.restore(found, OnConflict.REPLACE)
    assert await content(drive, "d/f.bin") == first
    await drive.restore(await newest(drive), OnConflict.REPLACE)
    assert await content(drive, "d/f.bin") == second, "what the undo replaced was kept, too"
    # By a copy, a move and a resumable upload.
    for change in (drive.copy, drive.move):
        await put(drive, "d/other", third)
        await change(at("d/other"), at("d/f.bin"))
        assert await content(drive, "d/f.bin") == third
        await drive.restore(await newest(drive), OnConflict.REPLACE)
        assert await content(drive, "d/f.bin") == second
    upload = await drive.begin_upload(at("d/f.bin"), "text/plain", size=5)

    async def save() -> None:
        pass

    async def chunks() -> AsyncIterator[bytes]:
        yield third

    await upload.append(chunks(), save)
    await drive.finish_upload(upload, at("d/f.bin"), None, save)
    assert await content(drive, "d/f.bin") == third
    await drive.restore(await newest(drive), OnConflict.REPLACE)
    assert await content(drive, "d/f.bin") == second


async def test_a_merge_keeps_what_it_replaces(drive: Drive) -> None:
    await put_tree(drive, "old")
    await put(drive, "new/a.txt", b"another a")
    await put(drive, "new/b/d/e ö.txt", b"another e")
    await put(drive, "new/b/more", b"more")
    before = await tree(drive, "old")
    await drive.move(at("new"), at("old"))
    assert await content(drive, "old/a.txt") == b"another a"
    await drive.restore(await newest(drive), OnConflict.REPLACE)
    await drive.delete(at("old/b/more"))
    assert await tree(drive, "old") == before


async def test_what_a_merge_replaced_comes_back(drive: Drive) -> None:
    """Below the folder, or below another name."""
    await put(drive, "old/x.txt", b"old")
    await put(drive, "new/x.txt", b"new")
    for choice in (OnConflict.REPLACE, OnConflict.RENAME):
        await drive.copy(at("new"), at("old"), OnConflict.REPLACE)
        assert await content(drive, "old/x.txt") == b"new"
        restored = await drive.restore(await newest(drive), choice)
        assert await content(drive, f"{str(restored)[1:]}/x.txt") == b"old"
        assert await names(drive, str(restored)[1:]) == ["x.txt"]


async def test_what_a_restored_folder_replaces_is_kept(drive: Drive) -> None:
    await put(drive, "w/b/f", b"old")
    await drive.delete(at("w"), recursive=True)
    await put(drive, "w/b/f", b"since")
    await drive.restore(await newest(drive), OnConflict.REPLACE)
    assert await content(drive, "w/b/f") == b"old"
    await drive.restore(await newest(drive), OnConflict.REPLACE)
    assert await content(drive, "w/b/f") == b"since"


async def test_what_fails_leaves_the_trash_as_it_was(drive: Drive) -> None:
    seen = await put(drive, "f", b"old")

    async def broken() -> AsyncIterator[bytes]:
        yield b"new"
        raise ProviderUnavailable("no")

    with pytest.raises(ProviderUnavailable):
        await drive.write(at("f"), broken(), "text/plain")
    with pytest.raises(NotFound):
        await drive.copy(at("missing"), at("f"))
    with pytest.raises(NotFound):
        await drive.delete(at("missing"))
    assert await content(drive, "f") == b"old"
    assert await trashed(drive) == []
    assert await names(drive) == ["f"]
    assert seen.size == 3


async def test_what_is_removed_or_expired_is_gone(
    drive: Drive, provider: Provider, records: TrashRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_tree(drive, "w")
    await put(drive, "v", b"v")
    await drive.delete(at("w"), recursive=True)
    await drive.delete(at("v"))
    places = [drive.trash.place_of(found.id) for found in await trashed(drive)]
    for found in await trashed(drive):
        assert await drive.trash.purge(found)
    assert await trashed(drive) == []
    for place in places:
        with pytest.raises(NotFound):
            await provider.stat(place)
    await put(drive, "u", b"u")
    await drive.delete(at("u"), permanent=True)
    assert not await exists(drive, "u")
    assert await trashed(drive) == []
    # Content whose row was lost is removed after a long time.
    await put(drive, "t", b"t")
    await drive.delete(at("t"))
    (lost,) = await trashed(drive)
    await records.remove(lost.id)
    assert await drive.trash.purge_unknown(KEEP) == 0
    later = records.now() + (2 * KEEP) // timedelta(milliseconds=1)
    monkeypatch.setattr(records, "now", lambda: later)
    assert await drive.trash.purge_unknown(KEEP) == 1
    with pytest.raises(NotFound):
        await provider.stat(drive.trash.place_of(lost.id))


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.above_services
async def test_nothing_is_lost_when_the_process_dies(
    harness: Any, provider: Provider, root: Path, seal: CursorSeal, records: TrashRecords
) -> None:
    """Before each call that changes something, so after the one before it."""
    for number in range(1, 10):
        drive = with_trash(provider, root, seal, records)
        for path in ("work/f", "work/b/g", "single"):
            await put(drive, path, path.encode())
        dying = harness.open()
        died = await _dies(with_trash(dying, root, seal, records), dying, number)
        await dying.close()
        for found in await trashed(drive):
            await drive.trash.settle_interrupted(found)
        for found in await trashed(drive):
            await drive.restore(found, OnConflict.REPLACE)
        for path in ("work/f", "work/b/g", "single"):
            assert await content(drive, path) == path.encode(), f"killed before change {number}"
        if not died:
            return
    pytest.fail("it never came to its end")


async def _dies(drive: Drive, provider: Any, number: int) -> bool:
    """Delete a folder and a file until the given change; whether it came to that."""
    changes = 0

    def dying(change: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*arguments: Any, **options: Any) -> Any:
            nonlocal changes
            changes += 1
            if changes == number:
                raise Killed
            return await change(*arguments, **options)

        return call

    for name in ("duplicate", "remove_versions", "remove", "mark"):
        if hasattr(provider, name):
            setattr(provider, name, dying(getattr(provider, name)))
    if not hasattr(provider, "duplicate"):
        provider.move_to_trash = dying(provider.move_to_trash)
    try:
        await drive.delete(at("work"), recursive=True)
        await drive.delete(at("single"))
    except Killed:
        return True
    return False


async def test_a_cancelled_delete_and_restore_are_settled(
    drive: Drive, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_tree(drive, "w")
    before = await tree(drive)
    for name, change in (("move_to_trash", "delete"), ("restore", "restore")):
        work = getattr(provider, name)
        done = asyncio.Event()

        async def hangs(
            *arguments: Any, work: Any = work, done: asyncio.Event = done, **options: Any
        ) -> None:
            if work.__name__ == "move_to_trash":
                await work(*arguments, **options)
            done.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(provider, name, hangs)
        if change == "delete":
            running: asyncio.Task[Any] = asyncio.create_task(drive.delete(at("w"), recursive=True))
        else:
            running = asyncio.create_task(drive.restore(await newest(drive)))
        await done.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        monkeypatch.setattr(provider, name, work)
        assert (await newest(drive)).status == "kept"
    await drive.restore(await newest(drive))
    assert await tree(drive) == before
    assert await trashed(drive) == []


@pytest.mark.parametrize("folder", [False, True])
async def test_a_cancelled_replacement_is_settled(
    drive: Drive, provider: Provider, monkeypatch: pytest.MonkeyPatch, folder: bool
) -> None:
    for name in ("old", "new"):
        await put(drive, f"{name}/f" if folder else name, name.encode())
    moving = asyncio.Event()

    async def hangs(*_: Any, **__: Any) -> None:
        moving.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(provider, "move", hangs)
    running = asyncio.create_task(drive.move(at("new"), at("old")))
    await moving.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [found.status for found in await trashed(drive)] == ["kept"]


async def test_one_restore_or_removal_at_a_time(
    drive: Drive, provider: Provider, root: Path, seal: CursorSeal, records: TrashRecords
) -> None:
    """And none while it is still being deleted."""
    other = with_trash(provider, root, seal, records)
    await put_tree(drive, "w")
    before = await tree(drive)

    async def refused(sentence: str) -> None:
        found = await newest(other)
        for _ in range(2):
            with pytest.raises(NotPossible, match=sentence):
                await other.restore(found, OnConflict.RENAME)
            with pytest.raises(NotPossible, match=sentence):
                await other.trash.purge(found)

    for name, sentence in (("move_to_trash", "still being deleted"), ("restore", "being restored")):
        work, begun, go_on = getattr(provider, name), asyncio.Event(), asyncio.Event()

        async def waits(
            *arguments: Any,
            work: Any = work,
            begun: asyncio.Event = begun,
            go_on: asyncio.Event = go_on,
            **options: Any,
        ) -> None:
            begun.set()
            await go_on.wait()
            await work(*arguments, **options)

        setattr(provider, name, waits)
        if name == "restore":
            running: asyncio.Task[Any] = asyncio.create_task(drive.restore(await newest(drive)))
        else:
            running = asyncio.create_task(drive.delete(at("w"), recursive=True))
        await begun.wait()
        await refused(sentence)
        go_on.set()
        await running
        setattr(provider, name, work)
    assert await tree(drive) == before
    assert await trashed(drive) == []


async def test_others_see_only_what_was_below_their_root(
    drive: Drive, provider: Provider, root: Path, seal: CursorSeal, records: TrashRecords
) -> None:
    await put(drive, "al/f", b"1")
    await put(drive, "alice/f", b"2")
    for path in ("al/f", "alice/f"):
        await drive.delete(at(path))
    below = with_trash(provider, at("al").under(root), seal, records)
    (found,) = await trashed(below)
    assert str(below.trash.path_of(found)) == "/f"
    other = next(item for item in await trashed(drive) if item.id != found.id)
    with pytest.raises(NotFound):
        await below.trash.get(other.id)
    pages = [await drive.trash.page(1)]
    pages.append(await drive.trash.page(1, pages[0][1]))
    assert [len(items) for items, _ in pages] == [1, 1]
    assert pages[1][1] is None


@pytest.mark.versions
async def test_a_versioned_bucket_copies_nothing(
    drive: Drive, provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Amazon S3, a restore does not either."""
    await put_tree(drive, "w")
    await put(drive, "f", b"f")
    before = await tree(drive)
    copied: list[str] = []
    copy = provider.versions.copy

    async def spy(key: str, *arguments: Any, **options: Any) -> None:
        copied.append(key)
        await copy(key, *arguments, **options)

    monkeypatch.setattr(provider.versions, "copy", spy)
    monkeypatch.setattr(provider, "duplicate", spy)
    await drive.delete(at("w"), recursive=True)
    await drive.delete(at("f"))
    await put(drive, "g", b"1")
    await put(drive, "g", b"2")
    await drive.delete(at("g"))
    assert copied == []
    for found in (await trashed(drive))[2:]:
        await drive.restore(found)
    assert len(copied) == (0 if provider.kind == "s3" else len(FILES) + 1)
    monkeypatch.undo()
    assert await tree(drive) == before


@pytest.mark.key_stores
async def test_a_delete_counts_its_files(drive: Drive) -> None:
    await put_tree(drive, "w")
    await put(drive, "f", b"f")
    tally = Tally()
    CURRENT.set(tally)
    await drive.delete(at("w"), recursive=True)
    assert (tally.entries, tally.size) == (len(FILES), sum(map(len, FILES.values())))
    await drive.delete(at("f"))
    assert tally.entries == len(FILES) + 1


@pytest.mark.versions
async def test_a_restored_version_replaces_nothing_that_was_stored_meanwhile(
    drive: Drive, provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(drive, "f", b"old")
    await drive.delete(at("f"))
    await put(drive, "f", b"since")
    await drive.delete(at("f"), permanent=True)
    find = provider.find

    async def find_then_store(key: str) -> Any:
        found = await find(key)
        if key.endswith("f") and "~" not in key:
            monkeypatch.undo()
            await put(drive, "f", b"new")
        return found

    monkeypatch.setattr(provider, "find", find_then_store)
    with pytest.raises(AlreadyExists):
        await drive.restore(await newest(drive))
    assert await content(drive, "f") == b"new"


async def remove_version(provider: Any, key: str, version: str) -> None:
    """As the lifecycle of the store does."""
    service = provider._service
    if provider.kind == "s3":
        await service.call("delete_object", Key=key, VersionId=version)
    elif provider.kind == "gcs":
        await service.call(Request("DELETE", service.object_url(key), {"generation": version}))
    else:
        await service.send("DELETE", service.blob_url(key), {"versionid": version})


@pytest.mark.versions
async def test_a_missing_version_does_not_keep_back_the_others(
    drive: Drive, provider: Any, root: Path
) -> None:
    await put_tree(drive, "w")
    key = key_of(at("w/b/c.txt").under(root))
    version = (await provider.versions.find(key)).version
    await drive.delete(at("w"), recursive=True)
    await remove_version(provider, key, version)
    found = await newest(drive)
    for choice in (OnConflict.FAIL, OnConflict.REPLACE):
        with pytest.raises(NotFound, match=r"1 of 4 files .* 'c.txt'. 3 files .* Remove it from the trash"):
            await drive.restore(found, choice)
        for path, data in FILES.items():
            if path != "b/c.txt":
                assert await content(drive, f"w/{path}") == data
        assert found.id in [item.id for item in await trashed(drive)]
    assert not await exists(drive, "w/b/c.txt")
    assert await drive.trash.purge(found)
    # A file.
    key = key_of(at("w/a.txt").under(root))
    version = (await provider.versions.find(key)).version
    await drive.delete(at("w/a.txt"))
    await remove_version(provider, key, version)
    with pytest.raises(NotFound, match=r"The content of 'a.txt' is no longer in the storage\.$"):
        await drive.restore(await newest(drive))
    assert await drive.trash.purge(await newest(drive))


@pytest.mark.versions
async def test_what_a_merge_replaced_may_be_gone_in_part(drive: Drive, provider: Any, root: Path) -> None:
    for name in ("a", "b/c"):
        await put(drive, f"old/{name}", b"old")
        await put(drive, f"new/{name}", b"new")
    key = key_of(at("old/a").under(root))
    version = (await provider.versions.find(key)).version
    await drive.copy(at("new"), at("old"), OnConflict.REPLACE)
    await remove_version(provider, key, version)
    with pytest.raises(NotFound, match="1 of 2 files"):
        await drive.restore(await newest(drive), OnConflict.REPLACE)
    assert await content(drive, "old/a") == b"new"
    assert await content(drive, "old/b/c") == b"old"


async def test_a_restored_merge_replaces_nothing_unasked(drive: Drive) -> None:
    await put(drive, "old/x", b"old")
    await put(drive, "new/x", b"new")
    await drive.copy(at("new"), at("old"), OnConflict.REPLACE)
    with pytest.raises(AlreadyExists):
        await drive.restore(await newest(drive), OnConflict.FAIL)
    assert await content(drive, "old/x") == b"new"


@pytest.mark.key_stores
async def test_a_restore_mixes_no_file_with_a_folder(drive: Drive) -> None:
    for merged in (False, True):
        for was, now, error in (("w/a", "w/a/b", IsAFolder), ("w/a/b", "w/a", AlreadyExists)):
            await put(drive, was, b"was")
            if merged:
                await put(drive, was.replace("w", "v", 1), b"merged")
                await drive.copy(at("v"), at("w"), OnConflict.REPLACE)
                found = await newest(drive)
                await drive.delete(at("w"), recursive=True, permanent=True)
                await drive.delete(at("v"), recursive=True, permanent=True)
            else:
                await drive.delete(at("w"), recursive=True)
                found = await newest(drive)
            await put(drive, now, b"now")
            with pytest.raises(error):
                await drive.restore(found, OnConflict.REPLACE)
            assert await content(drive, now) == b"now"
            assert not await exists(drive, was) or was == "w/a"
            await drive.delete(at("w"), recursive=True, permanent=True)


@pytest.mark.key_stores
async def test_a_restore_lists_the_item_once(
    drive: Drive, provider: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_tree(drive, "w")
    before = await tree(drive)
    await drive.delete(at("w"), recursive=True)
    place = drive.trash.place_of((await newest(drive)).id)
    listed = []
    pages = provider.pages

    def spy(prefix: str, *, flat: bool) -> Any:
        listed.append(prefix)
        return pages(prefix, flat=flat)

    monkeypatch.setattr(provider, "pages", spy)
    await provider.restore(place, at("w").under(root))
    assert listed.count(folder_key(place)) == 1
    assert await tree(drive) == before


@pytest.mark.key_stores
async def test_a_path_may_be_too_long_below_another_name(
    drive: Drive, provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_tree(drive, "w")
    await drive.delete(at("w"), recursive=True)
    await put(drive, "w/a.txt", b"since")
    monkeypatch.setattr(provider, "fits", lambda key: "w (1)/b" not in key)
    with pytest.raises(InvalidPath, match="under its own name"):
        await drive.restore(await newest(drive), OnConflict.RENAME)
    monkeypatch.undo()
    await drive.restore(await newest(drive), OnConflict.REPLACE)
    assert await content(drive, "w/b/d/e ö.txt") == b"e"
