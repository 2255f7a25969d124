"""Each operation returns what it has put into the trash itself, whatever else its actor does at the time."""

import asyncio
from typing import Any

import pytest

from portico.model.errors import StorageFull
from portico.operations.files.files import OnConflict
from portico.operations.sharing.links import LinkKind, LinkOptions
from portico.operations.uploads.access import NewUpload
from portico.providers.local.provider import LocalProvider

from .test_scope import sharer, signed_in
from .test_second_front_end import Installation, at, chunks, installation

__all__ = ["installation", "sharer"]

NAMES = ("a", "b", "c")


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is moved to the trash before all of them are about to be."""
    genuine, barrier = LocalProvider.move_to_trash, asyncio.Barrier(len(NAMES))

    async def moved(*arguments: Any) -> None:
        await barrier.wait()
        await genuine(*arguments)
        await barrier.wait()

    monkeypatch.setattr(LocalProvider, "move_to_trash", moved)


@pytest.mark.usefixtures("sharer", "together")
async def test_concurrent_changes_of_one_actor_return_their_own(installation: Installation) -> None:
    for name in NAMES:
        (installation.files / name).write_bytes(b"content")
    user = await signed_in(installation)
    async with user.request() as operations:
        for name in NAMES:
            await operations.shares.add(at(f"/{name}"), LinkKind.DOWNLOAD, LinkOptions())
        done = await asyncio.gather(*(operations.files.delete(at(f"/{name}")) for name in NAMES))
        items = {item.id: item.path for item in (await operations.trash.list(10)).items}
        assert [[items[each] for each in result.trash_ids] for result in done] == [[at(f"/{name}")] for name in NAMES]
        # Each link has followed its own file.
        (kept,) = done[0].trash_ids
        restored = await operations.trash.restore(kept, OnConflict.RENAME)
        assert (restored.path, restored.trash_ids) == (at("/a"), ())
        opened = {str(link.path): link.link.trashed for link in await operations.shares.list()}
    assert opened["/a"] is None
    assert [opened["/b"], opened["/c"]] == [*done[1].trash_ids, *done[2].trash_ids]


async def test_uploads_return_what_they_replaced(installation: Installation) -> None:
    for name in NAMES:
        (installation.files / name).write_bytes(b"old")
    user = await signed_in(installation)
    async with user.request() as operations:
        async with operations.files.upload(at("/")) as first, operations.files.upload(at("/")) as second:
            await asyncio.gather(first.store("a", chunks(b"new")), second.store("b", chunks(b"new")))
            await first.store("new", chunks(b"new"))
        begun = await operations.uploads.create(NewUpload(at("/c"), 3))
        ended = await operations.uploads.append(begun.id, 0, chunks(b"new"))
        items = {item.path: item.id for item in (await operations.trash.list(10)).items}
        asked_again = await operations.uploads.status(begun.id)
    assert list(first.trash_ids) == [items[at("/a")]]
    assert list(second.trash_ids) == [items[at("/b")]]
    assert (list(begun.trash_ids), list(ended.trash_ids)) == ([], [items[at("/c")]])
    assert list(asked_again.trash_ids) == []


async def test_an_error_has_what_was_put_into_the_trash_before(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = LocalProvider.move_to_trash

    async def full(*arguments: Any) -> None:
        await genuine(*arguments)
        raise StorageFull("The storage is full.")

    monkeypatch.setattr(LocalProvider, "move_to_trash", full)
    (installation.files / "a").write_bytes(b"content")
    user = await signed_in(installation)
    async with user.request() as operations:
        with pytest.raises(StorageFull) as caught:
            await operations.files.delete(at("/a"))
        (item,) = (await operations.trash.list(10)).items
    assert list(caught.value.trash_ids) == [item.id]
