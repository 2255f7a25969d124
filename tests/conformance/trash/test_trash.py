"""What is deleted or replaced can be brought back, on every provider."""

import errno
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from portico.drive.cursors import CursorSeal
from portico.drive.drive import OnConflict
from portico.model.errors import AlreadyExists, FolderNotEmpty, InvalidPath, IsAFolder, NotFound, ProviderUnavailable
from portico.model.paths import TRASH, Path
from portico.providers.contract.provider import Provider
from portico.providers.objects.service import folder_key
from portico.providers.s3.service import Service
from portico.runtime.progress_counter import CURRENT, ProgressCounter

from ...recorded_drive import RecordedDrive
from ..actions import at, content, exists, names, noise, pieces, put, tree
from .actions import FILES, KEEP, JournaledRecords, newest, put_tree, trashed, with_trash


async def test_a_deleted_file_comes_back(drive: RecordedDrive) -> None:
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


async def test_a_deleted_folder_comes_back_with_all_it_held(drive: RecordedDrive) -> None:
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


async def test_what_is_replaced_comes_back(drive: RecordedDrive) -> None:
    first, second, third = noise(70_000, 1), noise(300_000, 2), noise(5, 3)
    assert not (await put(drive, "d/f.bin", first)).replaced
    assert drive.trashed == []
    assert (await put(drive, "d/f.bin", second)).replaced
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

    async def save(*, last: bool = False) -> None:
        pass

    async def chunks() -> AsyncIterator[bytes]:
        yield third

    await upload.append(chunks(), save)
    await drive.finish_upload(upload, at("d/f.bin"), None, save)
    assert await content(drive, "d/f.bin") == third
    await drive.restore(await newest(drive), OnConflict.REPLACE)
    assert await content(drive, "d/f.bin") == second


async def test_a_merge_keeps_what_it_replaces(drive: RecordedDrive) -> None:
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


async def test_what_a_merge_replaced_comes_back(drive: RecordedDrive) -> None:
    """Below the folder, or below another name."""
    await put(drive, "old/x.txt", b"old")
    await put(drive, "new/x.txt", b"new")
    for choice in (OnConflict.REPLACE, OnConflict.RENAME):
        await drive.copy(at("new"), at("old"), OnConflict.REPLACE)
        assert await content(drive, "old/x.txt") == b"new"
        restored = await drive.restore(await newest(drive), choice)
        assert await content(drive, f"{str(restored)[1:]}/x.txt") == b"old"
        assert await names(drive, str(restored)[1:]) == ["x.txt"]


async def test_what_a_restored_folder_replaces_is_kept(drive: RecordedDrive) -> None:
    await put(drive, "w/b/f", b"old")
    await drive.delete(at("w"), recursive=True)
    await put(drive, "w/b/f", b"since")
    await drive.restore(await newest(drive), OnConflict.REPLACE)
    assert await content(drive, "w/b/f") == b"old"
    await drive.restore(await newest(drive), OnConflict.REPLACE)
    assert await content(drive, "w/b/f") == b"since"


async def test_what_fails_leaves_the_trash_as_it_was(drive: RecordedDrive) -> None:
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
    drive: RecordedDrive, provider: Provider, records: JournaledRecords, monkeypatch: pytest.MonkeyPatch
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


async def test_others_see_only_what_was_below_their_root(
    drive: RecordedDrive, provider: Provider, root: Path, seal: CursorSeal, records: JournaledRecords
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


@pytest.mark.object_services
async def test_a_delete_counts_its_files(drive: RecordedDrive) -> None:
    await put_tree(drive, "w")
    await put(drive, "f", b"f")
    counter = ProgressCounter()
    CURRENT.set(counter)
    await drive.delete(at("w"), recursive=True)
    assert (counter.entries, counter.size) == (len(FILES), sum(map(len, FILES.values())))
    await drive.delete(at("f"))
    assert counter.entries == len(FILES) + 1


async def test_a_restored_merge_replaces_nothing_unasked(drive: RecordedDrive) -> None:
    await put(drive, "old/x", b"old")
    await put(drive, "new/x", b"new")
    await drive.copy(at("new"), at("old"), OnConflict.REPLACE)
    with pytest.raises(AlreadyExists):
        await drive.restore(await newest(drive), OnConflict.FAIL)
    assert await content(drive, "old/x") == b"new"


@pytest.mark.object_services
async def test_a_restore_mixes_no_file_with_a_folder(drive: RecordedDrive) -> None:
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


@pytest.mark.object_services
async def test_a_restore_lists_the_item_once(
    drive: RecordedDrive, provider: Any, root: Path, monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.object_services
async def test_a_path_may_be_too_long_below_another_name(
    drive: RecordedDrive, provider: Any, monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.object_services
@pytest.mark.parametrize("how", ["copy", "move", "restore"])
async def test_merge_that_cannot_keep_a_file_replaces_nothing(
    drive: RecordedDrive, provider: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    for name in ("a", "b", "long"):
        await put(drive, f"old/{name}", b"old")
        await put(drive, f"new/{name}", b"new")
    if how == "restore":
        await drive.delete(at("old"), recursive=True)
        await drive.move(at("new"), at("old"))
    before, in_trash = await tree(drive), await trashed(drive)
    monkeypatch.setattr(provider, "fits", lambda key: not (TRASH in key and key.endswith("/long")))
    change = drive.restore(in_trash[0], OnConflict.REPLACE) if in_trash else None
    change = change or (drive.copy if how == "copy" else drive.move)(at("new"), at("old"), OnConflict.REPLACE)
    with pytest.raises(InvalidPath, match="'long' is too long for the trash, so nothing was replaced"):
        await change
    monkeypatch.undo()
    assert await tree(drive) == before
    assert await trashed(drive) == in_trash


@pytest.mark.parametrize("existing", [True, False], ids=["replaces", "free"])
@pytest.mark.parametrize("how", ["copy", "move"])
async def test_upload_just_before_a_transfer_replaces_it_is_kept(
    drive: RecordedDrive,
    provider: Any,
    root: Path,
    seal: CursorSeal,
    records: JournaledRecords,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    existing: bool,
) -> None:
    if existing:
        await put(drive, "target", b"old")
    await put(drive, "source", b"transferred")
    transfer = getattr(provider, how)

    async def after_an_upload(source: Path, target: Path, **options: Any) -> None:
        if target == at("target").under(root):  # and not in the trash
            await put(with_trash(provider, root, seal, records), "target", b"uploaded")
        await transfer(source, target, **options)

    monkeypatch.setattr(provider, how, after_an_upload)
    await getattr(drive, how)(at("source"), at("target"))
    assert await content(drive, "target") == b"transferred"
    assert await exists(drive, "source") is (how == "copy")
    kept = [await drive.restore(item, OnConflict.RENAME) for item in await trashed(drive)]
    assert sorted([await content(drive, path) for path in kept]) == [b"old", b"uploaded"][not existing :]


@pytest.mark.parametrize("how", ["copy", "move"])
async def test_transfer_keeps_the_replaced_file_without_hard_links(
    drive: RecordedDrive, provider: Provider, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if not provider.keeps_at_commit:
        pytest.skip("it links nothing")

    def link(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, "no links")

    await put(drive, "target", b"old")
    await put(drive, "source", b"new")
    monkeypatch.setattr(os, "link", link)
    await getattr(drive, how)(at("source"), at("target"))
    assert await content(drive, "target") == b"new"
    kept = await newest(drive)
    assert drive.trashed == [kept.id]
    await drive.restore(kept, OnConflict.REPLACE)
    assert await content(drive, "target") == b"old"


@pytest.mark.object_services
@pytest.mark.parametrize("existing", [True, False], ids=["replaces", "free"])
@pytest.mark.parametrize("how", ["write", "resumable"])
async def test_upload_keeps_what_was_moved_to_its_target_just_before_its_commit(
    drive: RecordedDrive,
    provider: Any,
    root: Path,
    seal: CursorSeal,
    records: JournaledRecords,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    existing: bool,
) -> None:
    if existing:
        await put(drive, "target", b"old")
    await put(drive, "source", b"moved")
    monkeypatch.setattr(Service, "is_amazon", True)  # others compare nothing
    last_look = "copy_to_trash" if existing else "find_file"
    look = getattr(provider, last_look)
    moved = False

    async def before_a_move(path: Path, *more: Any) -> Any:
        nonlocal moved
        found = await look(path, *more)
        if path == at("target").under(root) and not moved:
            moved = True
            await with_trash(provider, root, seal, records).move(at("source"), at("target"))
        return found

    monkeypatch.setattr(provider, last_look, before_a_move)
    if how == "write":
        await put(drive, "target", b"uploaded")
    else:

        async def save(*, last: bool = False) -> None:
            pass

        # If the size is known, the commit is a request of its own. Moto ignores the condition of that one.
        size = 8 if existing and provider.kind != "s3" else None
        upload = await drive.begin_upload(at("target"), "text/plain", size=size)
        await upload.append(pieces(b"uploaded"), save)
        await drive.finish_upload(upload, at("target"), None, save)
    assert moved
    assert await content(drive, "target") == b"uploaded"
    kept = [await drive.restore(item, OnConflict.RENAME) for item in await trashed(drive)]
    assert sorted([await content(drive, path) for path in kept]) == [b"moved", b"old"][: 1 + existing]
