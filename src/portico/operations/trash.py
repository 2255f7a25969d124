"""`Trash`: what one actor can do with what was deleted or replaced."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import timedelta

import msgspec
import structlog

from portico.accounts.share_links import ShareLinks
from portico.drive.connection_pool import ConnectionPool
from portico.drive.drive import Drive, OnConflict
from portico.drive.trash import item_gone
from portico.model.errors import NotPossible, PorticoError
from portico.model.paths import Path, Place
from portico.model.rights import OVERWRITE, Right
from portico.model.versions import Version
from portico.operations.actors.actor import Standing
from portico.operations.actors.auditing import Change, ChangeResult
from portico.operations.actors.tree import Tree, tree_changed
from portico.operations.sharing.links import links_follow
from portico.runtime import clock
from portico.runtime.tasks import for_each
from portico.store.journal import Journal
from portico.store.trash import KEPT, REPLACED, Trashed, TrashRecords

_AT_ONCE = 1000
"""Rows that a sweep looks up at a time."""
_REMOVED_AT_ONCE = 4
"""Items of a connection."""
_SWEEP_TIME = timedelta(minutes=8)
"""How long a sweep goes on. The next one continues."""
_GRACE = timedelta(days=30)
"""How much longer content without a row is kept than other content: an administrator may still look for it."""

log = structlog.get_logger()


async def sweep_trash(records: TrashRecords, pool: ConnectionPool, keep: timedelta, *, at_once: int = _AT_ONCE) -> None:
    """Remove what has expired. A slow connection does not delay the others."""
    until = clock.uptime() + _SWEEP_TIME.total_seconds()
    names = await pool.names()
    await asyncio.gather(*(_sweep(records, pool, name, keep, until, at_once) for name in names))


async def _sweep(
    records: TrashRecords, pool: ConnectionPool, connection: str, keep: timedelta, until: float, at_once: int
) -> None:
    try:
        trash = (await pool.of_connection(connection)).trash
    except PorticoError as error:
        pool.not_swept(connection, "trash-not-swept", error)
        return
    failed = False

    async def remove(record: Trashed) -> None:
        nonlocal failed
        if clock.uptime() >= until:
            return
        try:
            await trash.purge(record)
        except NotPossible:
            pass  # a request is at it
        except PorticoError as error:  # the others can be removed; this one is tried again
            pool.not_swept(connection, "trash-not-swept", error)
            failed = True

    last: Trashed | None = None
    try:
        while clock.uptime() < until and (due := await records.due(connection, at_once, last)):
            last = due[-1]
            await for_each(remove, due, _REMOVED_AT_ONCE)
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
    """An actor sees all items deleted from the actor's own mounts, no matter who deleted them."""

    def __init__(self, journal: Journal, links: ShareLinks, tree: Tree) -> None:
        self._journal = journal
        self._links = links
        self._context = tree.actor.context
        self._tree = tree

    async def list(self, size: int, cursor: str | None = None) -> TrashPage:
        """The newest first. With several mounts, a page may be shorter than `size` before the last one."""
        drives = await self._tree.drives(Right.LIST)
        table = "" if self._tree.reach.is_simple else f"{self._tree.reach.digest}~"
        if cursor is not None and not cursor.startswith(table):
            raise tree_changed()
        cursor = None if cursor is None else cursor.removeprefix(table)
        records, following = await _page(drives, min(size, _PAGE), cursor)
        items = [_item(path, record) for record in records if (path := self._seen(drives, record)[1])]
        return TrashPage(items, following and f"{table}{following}")

    async def path_to_restore(self, trash_id: str) -> Path:
        """Where it was, for those who may restore it."""
        return (await self._find(trash_id, Right.UPLOAD, *OVERWRITE))[2]

    async def path_to_remove(self, trash_id: str) -> Path:
        """Where it was, for those who may remove it for good."""
        return (await self._find(trash_id, Right.DELETE))[2]

    async def restorable(self, ids: Collection[str]) -> set[str]:
        """Which of these items the actor may restore."""
        needed = Right.UPLOAD, *OVERWRITE
        if not ids or not any(mount.rights.issuperset(needed) for mount in self._tree.reach.mounts):
            return set()
        drives = await self._tree.drives(*needed)
        found = set()
        for record in (await drives[0].trash.find_all(ids)).values():
            _, path = self._seen(drives, record)
            if path and record.status == KEPT:
                with suppress(NotPossible):
                    self._tree.require_movable(path)
                    found.add(record.id)
        return found

    async def restore(self, trash_id: str, on_conflict: OnConflict = OnConflict.FAIL) -> ChangeResult:
        """Bring it back to where it was. Cancelled when the client hangs up."""
        needed = Right.UPLOAD, *OVERWRITE
        drive, record, path = await self._find(trash_id, *needed)
        async with Change(self._journal, self._context, "restore", path) as change:
            standing = Standing(self._tree.actor, path, *needed)
            restored: Path = await self._tree.cancellable(drive.restore(record, on_conflict, change=change), standing)
            change.line.target = str(restored)
            old, new = self._tree.place(path), self._tree.place(restored)
            if old and new:
                await links_follow(self._links.restored(record.id, old.path, new.path))
        return change.result(restored)

    async def remove(self, trash_id: str) -> None:
        """Remove it for good. Cancelled when the client hangs up; the sweep then removes the rest."""
        drive, record, path = await self._find(trash_id, Right.DELETE)
        standing = Standing(self._tree.actor, path, Right.DELETE)
        await self._tree.cancellable(self._remove(drive, record, path), standing)

    async def empty(self) -> int:
        """Remove all items that the actor may delete, for good, until the client hangs up; returns their number.

        What is being deleted or restored at the time stays, and so does a folder that held a mount's place.
        """
        drives = await self._tree.drives(Right.DELETE)
        standing = Standing(self._tree.actor, drives[0].point, Right.DELETE)
        for drive in drives[1:]:
            standing.also(drive.point, Right.DELETE)
        removed: int = await self._tree.cancellable(self._empty(drives), standing)
        return removed

    async def _empty(self, drives: Sequence[Drive]) -> int:
        removed, cursor = 0, None
        while True:
            records, cursor = await _page(drives, _PAGE, cursor)
            for record in records:
                drive, path = self._seen(drives, record)
                if path:
                    with suppress(NotPossible):
                        self._tree.require_movable(path)
                        await self._remove(drive, record, path)
                        removed += 1
            if cursor is None:
                return removed

    async def _remove(self, drive: Drive, record: Trashed, path: Path) -> None:
        async with Change(self._journal, self._context, "trash.remove", path) as change:
            was = Place(record.connection, Path.parse(record.path))
            change.concern(was, Place(record.connection, drive.trash.place_of(record.id)))
            change.before = Version(record.size or 0, record.is_folder)
            await change.begin()
            if await drive.trash.remove(record):
                change.kept.append(record)

    async def _find(self, trash_id: str, *needed: Right) -> tuple[Drive, Trashed, Path]:
        """An item with the drive that it is from, and where it was."""
        drives = await self._tree.drives(*needed)
        record = await drives[0].trash.get(trash_id, [drive.trash.origin for drive in drives])
        drive, path = self._seen(drives, record)
        if path is None:
            raise item_gone()
        self._tree.require_movable(path)
        return drive, record, path

    def _seen(self, drives: Sequence[Drive], record: Trashed) -> tuple[Drive, Path | None]:
        """An item's drive, and its path in the tree; None if another mount hides that path."""
        origin = Place(record.connection, Path.parse(record.path))
        held = [drive for drive in drives if drive.trash.origin.path_to(origin) is not None]
        for drive in sorted(held, key=lambda drive: -len(drive.root.segments)):
            path = drive.trash.path_of(record)
            if drive.has(path, is_folder=record.is_folder):
                return drive, path
        return drives[0], None


async def _page(drives: Sequence[Drive], size: int, cursor: str | None) -> tuple[list[Trashed], str | None]:
    return await drives[0].trash.page(size, cursor, [drive.trash.origin for drive in drives])


def _item(path: Path, record: Trashed) -> TrashedItem:
    return TrashedItem(
        id=record.id,
        path=path,
        is_folder=record.is_folder,
        size=record.size,
        reason=record.reason,
        user=record.user,
        deleted_at=record.deleted_at,
        expires_at=record.expires_at,
    )
