"""Nothing is lost when a process dies, or its caller goes away, in the middle of a delete or a restore."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from portico.drive.cursors import CursorSeal
from portico.drive.drive import OnConflict
from portico.model.errors import NotFound, NotPossible, ProviderUnavailable, service_unavailable
from portico.model.paths import Path
from portico.observability.audit import UNKNOWN
from portico.providers.contract.provider import DoesNotFitInTrash, Provider
from portico.store import begun_rows
from portico.store.trash import DELETED

from ...recorded_drive import RecordedDrive, recordings_in
from ..actions import at, content, pieces, put, tree
from .actions import JournaledRecords, newest, put_tree, trashed, with_trash


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.above_services
async def test_nothing_is_lost_when_the_process_dies(
    harness: Any,
    provider: Provider,
    root: Path,
    seal: CursorSeal,
    records: JournaledRecords,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before each call that changes something, so after the one before it."""
    monkeypatch.setattr(begun_rows, "has_ended", lambda _: True)
    for number in range(1, 10):
        drive = with_trash(provider, root, seal, records)
        for path in ("work/f", "work/b/g", "single"):
            await put(drive, path, path.encode())
        dying = harness.open()
        died = await _dies(with_trash(dying, root, seal, records), dying, number)
        await dying.close()
        for left in await records.journal.left_open():
            kept = [record for record, _ in await drive.trash.left_by(left, left.place.path, DELETED)]
            await records.journal.settle(left, UNKNOWN, kept=kept)
        for found in await trashed(drive):
            await drive.restore(found, OnConflict.REPLACE)
        for path in ("work/f", "work/b/g", "single"):
            assert await content(drive, path) == path.encode(), f"killed before change {number}"
        if not died:
            return
    pytest.fail("it never came to its end")


async def _dies(drive: RecordedDrive, provider: Any, number: int) -> bool:
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
    drive: RecordedDrive, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_tree(drive, "w")
    before = await tree(drive)
    for name, change in (("move_to_trash", "delete"), ("restore", "restore")):
        work = getattr(provider, name)
        done = asyncio.Event()

        async def hangs(*arguments: Any, work: Any = work, done: asyncio.Event = done, **options: Any) -> None:
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
    drive: RecordedDrive, provider: Provider, monkeypatch: pytest.MonkeyPatch, folder: bool
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
    # A provider that keeps the file when it commits the new one has not come to that.
    keeps_later = provider.keeps_at_commit and not folder
    assert [found.status for found in await trashed(drive)] == ([] if keeps_later else ["kept"])


async def test_one_restore_or_removal_at_a_time(
    drive: RecordedDrive,
    provider: Provider,
    root: Path,
    seal: CursorSeal,
    records: JournaledRecords,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = with_trash(provider, root, seal, records)
    await put_tree(drive, "w")
    before = await tree(drive)

    async def refused() -> None:
        found = await newest(other)
        for _ in range(2):
            with pytest.raises(NotPossible, match="being restored"):
                await other.restore(found, OnConflict.RENAME)
            with pytest.raises(NotPossible, match="being restored"):
                await other.trash.purge(found)

    await drive.delete(at("w"), recursive=True)
    restore, begun, go_on = provider.restore, asyncio.Event(), asyncio.Event()

    async def waits(*arguments: Any, **options: Any) -> None:
        begun.set()
        await go_on.wait()
        await restore(*arguments, **options)

    monkeypatch.setattr(provider, "restore", waits)
    running = asyncio.create_task(drive.restore(await newest(drive)))
    await begun.wait()
    await refused()
    go_on.set()
    await running
    assert await tree(drive) == before
    assert await trashed(drive) == []


@pytest.mark.above_services
@pytest.mark.parametrize("why", [NotFound, DoesNotFitInTrash])
async def test_a_replacement_that_kept_nothing_is_prepared_once_more(
    drive: RecordedDrive,
    provider: Any,
    records: JournaledRecords,
    monkeypatch: pytest.MonkeyPatch,
    why: type[Exception],
) -> None:
    monkeypatch.setattr(provider, "keeps_at_commit", False)
    path = at("f").under(drive.root)
    await put(drive, "f", b"1")
    keep = provider.copy_to_trash

    async def fails(*_: Any) -> None:
        if why is NotFound:
            await provider.delete(path)
        raise why("gone")

    change = recordings_in(records.journal)()
    change.concern(drive.place(at("f")))
    async with drive.trash.replacement(path, change) as replacement:
        provider.copy_to_trash = fails
        await replacement.prepare()
        provider.copy_to_trash = keep
        await drive._provider.write(path, pieces(b"2"), "text/plain")
        await replacement.prepare()
    await change.settle("done")
    assert len(await trashed(drive)) == 1


@pytest.mark.above_services
async def test_a_replacement_whose_place_cannot_be_cleared_is_settled_later(
    drive: RecordedDrive, provider: Any, records: JournaledRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "keeps_at_commit", False)
    await put(drive, "f", b"1")

    async def fails(_: Path) -> None:
        raise service_unavailable("down", 1)

    change = recordings_in(records.journal)()
    change.concern(drive.place(at("f")))

    async def prepare_twice() -> None:
        async with drive.trash.replacement(at("f").under(drive.root), change) as replacement:
            await replacement.prepare()
            monkeypatch.setattr(provider, "purge", fails)
            await replacement.prepare()

    with pytest.raises(ProviderUnavailable):
        await prepare_twice()
    await change.settle("provider-unavailable")
    assert await trashed(drive) == []
