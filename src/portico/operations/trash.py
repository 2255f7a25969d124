"""`Trash`: what one actor can do with what was deleted or replaced."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import msgspec
import structlog

from portico.accounts.share_links import ShareLinks
from portico.drive.connection_pool import ConnectionPool
from portico.drive.drive import Drive, OnConflict
from portico.model.errors import NotPossible, PorticoError
from portico.model.paths import Path
from portico.model.rights import OVERWRITE, Right
from portico.observability.audit import AuditTrail
from portico.operations.actors.auditing import Change, ChangeResult
from portico.operations.actors.tree import Tree
from portico.operations.sharing.links import links_follow
from portico.store.trash import REPLACED, Trashed, TrashRecords

_AT_ONCE = 1000
"""Rows in one sweep. The next one goes on."""
_GRACE = timedelta(days=30)
"""How much longer content without a row is kept than other content: an administrator may still look for it."""

log = structlog.get_logger()


async def sweep_trash(records: TrashRecords, pool: ConnectionPool, keep: timedelta) -> None:
    """Remove what has expired, and note what processes that died have put into the trash.

    A slow connection does not delay the others.
    """
    due: dict[str, list[Trashed]] = {name: [] for name in await pool.names()}
    for record in await records.due(_AT_ONCE):
        due.setdefault(record.connection, []).append(record)
    interrupted: dict[str, list[Trashed]] = {}
    for record in await records.interrupted(_AT_ONCE):
        interrupted.setdefault(record.connection, []).append(record)
    await asyncio.gather(*(_sweep(pool, name, found, interrupted.get(name, []), keep) for name, found in due.items()))


async def _sweep(
    pool: ConnectionPool, connection: str, due: list[Trashed], interrupted: list[Trashed], keep: timedelta
) -> None:
    try:
        trash = (await pool.of_connection(connection)).trash
    except PorticoError as error:
        pool.not_swept(connection, "trash-not-swept", error)
        return
    failed = False
    for works, records in ((trash.purge, due), (trash.settle_interrupted, interrupted)):
        for record in records:
            try:
                await works(record)
            except NotPossible:
                pass  # a request is at it
            except PorticoError as error:  # the others can be removed; this one is tried again
                pool.not_swept(connection, "trash-not-swept", error)
                failed = True
    try:
        if unknown := await trash.purge_unknown(keep + _GRACE):
            log.warning("trash-without-rows-removed", connection=connection, removed=unknown)
    except PorticoError as error:
        pool.not_swept(connection, "trash-not-swept", error)
        failed = True
    if not failed:
        pool.swept(connection, "trash-not-swept")


__all__ = ["REPLACED", "Trash", "TrashPage", "TrashedItem"]

_PAGE = 1000


class TrashedItem(msgspec.Struct, frozen=True):
    id: str
    path: Path
    """Where it was."""
    is_folder: bool
    size: int | None
    reason: str
    user: str | None
    """Who deleted or replaced it."""
    deleted_at: int
    expires_at: int
    """Milliseconds since the epoch."""


class TrashPage(msgspec.Struct, frozen=True):
    items: list[TrashedItem]
    cursor: str | None


class Trash:
    """An actor sees what was below the actor's own root, no matter who deleted it."""

    def __init__(self, audit: AuditTrail, links: ShareLinks, tree: Tree) -> None:
        self._audit = audit
        self._links = links
        self._context = tree.actor.context
        self._tree = tree

    async def list(self, size: int, cursor: str | None = None) -> TrashPage:
        """The newest first."""
        drive = await self._tree.whole()
        drive.require(Right.LIST)
        records, following = await drive.trash.page(min(size, _PAGE), cursor)
        return TrashPage([_item(drive, record) for record in records], following)

    async def path_to_restore(self, trash_id: str) -> Path:
        """Where it was, for those who may restore it."""
        return await self._path_of(trash_id, Right.UPLOAD, *OVERWRITE)

    async def path_to_remove(self, trash_id: str) -> Path:
        """Where it was, for those who may remove it for good."""
        return await self._path_of(trash_id, Right.DELETE)

    async def _path_of(self, trash_id: str, *rights: Right) -> Path:
        drive = await self._tree.whole()
        drive.require(*rights)
        return drive.trash.path_of(await drive.trash.get(trash_id))

    async def restore(self, trash_id: str, on_conflict: OnConflict = OnConflict.FAIL) -> ChangeResult:
        """Bring it back to where it was. Cancelled when the client hangs up."""
        drive = await self._tree.whole()
        drive.require(Right.UPLOAD, *OVERWRITE)
        record = await drive.trash.get(trash_id)
        path = drive.trash.path_of(record)
        async with Change(self._audit, self._context, "restore", path, trash_ids=drive.trashed) as change:
            await change.begin()
            restored: Path = await self._tree.cancellable(drive.restore(record, on_conflict), Right.UPLOAD, *OVERWRITE)
            change.line.target = str(restored)
            (_, old), (_, new) = self._tree.place(path), self._tree.place(restored)
            await links_follow(self._links.restored(record.id, old, new))
        return change.result(restored)

    async def remove(self, trash_id: str) -> None:
        """Remove it for good. Cancelled when the client hangs up; the sweep then removes the rest."""
        drive = await self._tree.whole()
        drive.require(Right.DELETE)
        record = await drive.trash.get(trash_id)
        await self._tree.cancellable(self._remove(drive, record), Right.DELETE)

    async def empty(self) -> int:
        """Remove everything for good, until the client hangs up; returns how many items there were.

        What is being deleted or restored at the time stays.
        """
        drive = await self._tree.whole()
        drive.require(Right.DELETE)
        removed: int = await self._tree.cancellable(self._empty(drive), Right.DELETE)
        return removed

    async def _empty(self, drive: Drive) -> int:
        removed, cursor = 0, None
        while True:
            records, cursor = await drive.trash.page(_PAGE, cursor)
            for record in records:
                with suppress(NotPossible):  # it is being deleted or restored
                    await self._remove(drive, record)
                    removed += 1
            if cursor is None:
                return removed

    async def _remove(self, drive: Drive, record: Trashed) -> None:
        path = drive.trash.path_of(record)
        async with Change(self._audit, self._context, "trash.remove", path) as change:
            await change.begin()
            await drive.trash.purge(record)


def _item(drive: Drive, record: Trashed) -> TrashedItem:
    return TrashedItem(
        id=record.id,
        path=drive.trash.path_of(record),
        is_folder=record.is_folder,
        size=record.size,
        reason=record.reason,
        user=record.user,
        deleted_at=record.deleted_at,
        expires_at=record.expires_at,
    )
