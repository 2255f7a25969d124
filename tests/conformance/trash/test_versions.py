"""Stores that keep versions of their own: a delete copies nothing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from portico.drive.drive import OnConflict
from portico.model.errors import AlreadyExists, IsAFolder, NotAFolder, NotFound
from portico.model.paths import Path
from portico.providers.gcs.service import Request
from portico.providers.objects.service import key_of

from ...recorded_drive import RecordedDrive
from ..actions import at, content, exists, put, tree
from .actions import FILES, newest, put_tree, trashed


@pytest.mark.versions
async def test_a_versioned_bucket_copies_nothing(
    drive: RecordedDrive, provider: Any, monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.versions
@pytest.mark.parametrize(("deleted", "slow"), [("a", "a/b"), ("a/b", "a")])
async def test_a_restore_makes_no_file_and_folder_of_one_name(drive: RecordedDrive, deleted: str, slow: str) -> None:
    await put(drive, deleted, b"deleted")
    await drive.delete(at("a"), recursive=True)
    before = await tree(drive)
    looked, go_on = asyncio.Event(), asyncio.Event()

    async def content() -> AsyncIterator[bytes]:
        yield b"slow"
        looked.set()
        await go_on.wait()

    waiting = asyncio.create_task(drive.write(at(slow), content(), "text/plain"))
    await looked.wait()
    await drive.restore(await newest(drive))
    restored = await tree(drive)
    go_on.set()
    with pytest.raises((IsAFolder, NotAFolder)):
        await waiting
    assert before != restored == await tree(drive)


@pytest.mark.versions
async def test_a_restored_version_replaces_nothing_that_was_stored_meanwhile(
    drive: RecordedDrive, provider: Any, monkeypatch: pytest.MonkeyPatch
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
async def test_a_missing_version_does_not_keep_back_the_others(drive: RecordedDrive, provider: Any, root: Path) -> None:
    await put_tree(drive, "w")
    key = key_of(at("w/b/c.txt").under(root))
    version = (await provider.versions.find(key)).version
    await drive.delete(at("w"), recursive=True)
    await remove_version(provider, key, version)
    found = await newest(drive)
    for choice in (OnConflict.FAIL, OnConflict.REPLACE):
        with pytest.raises(NotFound, match=r"1 of 4 files .* 'c.txt'. 3 files .* remove it from the trash"):
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
    with pytest.raises(
        NotFound, match=r"The content of 'a.txt' is no longer in the storage, so it can't be restored\.$"
    ):
        await drive.restore(await newest(drive))
    assert await drive.trash.purge(await newest(drive))


@pytest.mark.versions
async def test_what_a_merge_replaced_may_be_gone_in_part(drive: RecordedDrive, provider: Any, root: Path) -> None:
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
