"""`Tree`: what one actor sees as one tree, and in which drive each of its paths is."""

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from portico.drive.connection_pool import ConnectionPool
from portico.drive.drive import Drive
from portico.drive.mount_table import folder_entry
from portico.drive.walk import DriveWalk
from portico.model.entries import Chunks, Entry
from portico.model.errors import Forbidden, InvalidCursor, IsAFolder, NotAFolder, NotFound, NotPossible, target_gone
from portico.model.paths import Path, Place
from portico.model.reach import Mount, Reach
from portico.model.rights import Right, missing_word
from portico.operations.actors.actor import Actor, Scope, Standing, Watch, WatchedChunks, Watches
from portico.operations.actors.cancellation import CancellableWork
from portico.operations.actors.request_context import Admission
from portico.store.share_links import OpenLink

_CURSOR = re.compile("(?P<table>[0-9a-f]+)~(?P<number>[0-9]{1,3})~(?P<before>[0-9]{1,15})~(?P<rest>.*)", re.DOTALL)


class Trees(msgspec.Struct, frozen=True):
    pool: ConnectionPool
    admission: Admission
    watches: Watches
    long_work: CancellableWork


class Tree:
    """Made for one request. Whatever is done with files begins here, so a scope, a lost right or a link that has ended
    cannot be forgotten."""

    def __init__(self, shared: Trees, actor: Actor) -> None:
        self._shared = shared
        self.actor = actor
        self.reach = actor.user.reach
        self._is_shared = False

    async def at(
        self, path: Path, scope: Scope | None = None, *, admitted: bool = True, looks: bool = True
    ) -> tuple[Drive, Path]:
        """The drive that a path is in, for one operation, and the path as the mount table spells it.

        `scope`: all that is done is to download this one thing. If `admitted`, the request takes a slot among those that
        wait for the connection; `Unavailable` if there are too many. Without `looks`, the caller uses `finding`.
        """
        self.actor.require_scope(scope)
        if not self.reach.is_simple:
            path = await self.spelled(path)
        mount = self.reach.at(path)
        if mount is None:
            return self._shared.pool.virtual(self.actor.user), path
        self._enter(mount, admitted)
        if not self._is_shared and (looks or not mount.path.is_root):  # a mount below the shared folder proves nothing
            await self.require_shared()
        drive = await self._shared.pool.of(self.actor.user, mount)
        drive.right_missing = self.actor.right_missing
        return drive, path

    def _enter(self, mount: Mount, admitted: bool) -> None:
        actor, context, connection = self.actor, self.actor.context, mount.place.connection
        context.connection = connection
        if admitted and context.slot is None:
            context.slot = self._shared.admission.enter(connection, actor.share)

    async def drive(self, mount: Mount | None) -> Drive:
        """The drive of a mount, or of the virtual folders, for an actor who has been checked already."""
        if mount is None:
            return self._shared.pool.virtual(self.actor.user)
        self._enter(mount, admitted=True)
        drive = await self._shared.pool.of(self.actor.user, mount)
        drive.right_missing = self.actor.right_missing
        return drive

    async def drives(self, *needed: Right) -> list[Drive]:
        """The drives of all mounts that give these rights, for operations without a path; `Forbidden` if there are none."""
        mounts = self.mounts(*needed)
        await self.require_shared()
        return [await self.drive(mount) for mount in mounts]

    def mounts(self, *needed: Right) -> list[Mount]:
        """The mounts that give these rights; `Forbidden` if there are none, or the actor may only download one thing."""
        self.actor.require_unrestricted()
        if found := [mount for mount in self.reach.mounts if mount.rights.issuperset(needed)]:
            return found
        missing = next((right for right in needed if right not in self.reach.rights), needed[0])
        raise Forbidden(self.actor.right_missing.format(missing_word(missing, self.reach.rights)))

    async def spelled(self, path: Path) -> Path:
        """To a storage that ignores case, a path that differs from a mount point only in case is that mount point."""
        while (other := self.reach.spelled(path)) and await self._shared.pool.ignores_case(other[1]):
            path = other[0]
        return path

    def require_movable(self, path: Path) -> None:
        """`NotPossible` for a mount point, and for a folder that contains one: it is in more than one place."""
        if self.reach.is_simple:
            return
        if path.is_root:
            raise NotPossible("The root folder can't be moved, copied or deleted; use the items in it.")
        at, mount = self.reach.at(path), next(self.reach.below(path), None)
        if at and at.path == path:
            raise NotPossible(
                f"'{path}' is a separate folder. You can't rename, move, copy or delete it; use the items in it."
            )
        if mount:
            what = f"the separate folder '{mount.path}'" if mount.rights else "a folder that isn't yours"
            raise NotPossible(
                f"'{path}' contains {what}. You can't rename, move, copy or delete it as a whole; use the items in it."
            )

    async def require_shared(self) -> None:
        """`TargetGone` if the actor is a guest, and the shared file or folder no longer exists."""
        if self.actor.guest:
            await require_target(self._shared.pool, self.actor.guest.open)
        self._is_shared = True

    @asynccontextmanager
    async def finding(self) -> AsyncIterator[None]:
        """Around what finds something in the place that a guest's link shares. It proves that the place exists, which is
        looked for only if nothing is found."""
        if self.actor.guest and self.actor.guest.open.link.trashed:
            raise target_gone()
        try:
            yield
        except (Forbidden, IsAFolder, NotAFolder, NotFound):
            await self.require_shared()
            raise
        self._is_shared = True

    def place(self, path: Path) -> Place | None:
        """Where a path is kept; None for a virtual folder."""
        return self.reach.place_of(path)

    def walk(
        self, drive: Drive, folder: Path, cursor: str | None = None, *needed: Right, reads_ahead: bool = False
    ) -> "Walk":
        """Everything below a folder of the drive, including the mounts there that give `list` and the rights `needed`.

        With a cursor, the walk continues where an earlier one stopped. `reads_ahead`: as `Drive.walk`.
        """
        if inner := self.inner(folder, Right.LIST, *needed):
            return TreeWalk(self, drive, folder, inner, cursor, reads_ahead=reads_ahead)
        return drive.walk(folder, cursor, reads_ahead=reads_ahead)

    def inner(self, folder: Path, *needed: Right) -> list[Mount]:
        """The mounts below a folder that give these rights."""
        return [mount for mount in self.reach.below(folder) if mount.rights.issuperset(needed)]

    # What the actor has under way

    def looking(self, entries: int) -> AbstractAsyncContextManager[None]:
        return self._shared.admission.looking(self.actor.context.connection or "", self.actor.share, entries)

    def searching(self) -> AbstractAsyncContextManager[None]:
        return self._shared.admission.searching(self.actor.share)

    def walking(self) -> AbstractAsyncContextManager[None]:
        return self._shared.admission.walking(self.actor.share)

    def watch(self, standing: Standing) -> Watch:
        return self._shared.watches.add(standing)

    def watched(self, chunks: Chunks, standing: Standing) -> Chunks:
        """The chunks, which end with an error soon after the actor has lost the right to them."""
        return WatchedChunks(chunks, self._shared.watches, standing)

    async def cancellable(self, work: Coroutine[Any, Any, Any], standing: Standing, *, by_client: bool = True) -> Any:
        """The result of `work`, which ends when the client hangs up, or the actor loses what the work needs."""
        gone = self.actor.context.client_gone() if by_client else asyncio.Event().wait()
        return await self._shared.long_work.run(work, gone, self.watch(standing).lost())

    async def check_commit(self, standing: Standing) -> None:
        """Raises, right before a file is committed, if the actor may not store it any more."""
        await standing.check()
        await self.require_shared()


class TreeWalk:
    """As `DriveWalk`, through several mounts: first what is in the folder's own, then the mounts below it, each of which
    is found itself before what is in it. Folders that lead to mounts are found even if the storage has none; they are the
    first in their mount. A cursor ends with the mount table that it was made for."""

    def __init__(
        self, tree: Tree, drive: Drive, folder: Path, inner: list[Mount], cursor: str | None, *, reads_ahead: bool
    ) -> None:
        self._tree = tree
        self._reads_ahead = reads_ahead
        self._inner = inner
        self._table = tree.reach.digest
        self._leading = _leading(tree.reach, folder, inner)
        self._begins = cursor is None
        self._at = 0
        """0 is the folder itself, 1 the first mount below it."""
        self._before = 0
        """Entries in the mounts before this one."""
        self._cursor: str | None = None
        self._walk: DriveWalk | None = None
        if cursor is None:
            self._walk = drive.walk(folder, reads_ahead=reads_ahead)
            return
        parts = _CURSOR.fullmatch(cursor)
        if parts is None or parts["table"] != self._table or int(parts["number"]) > len(inner):
            raise tree_changed()
        self._at, self._before, self._cursor = int(parts["number"]), int(parts["before"]), parts["rest"] or None
        if self._at == 0:
            self._walk = drive.walk(folder, self._cursor, reads_ahead=reads_ahead)

    async def page(self, size: int) -> list[tuple[Path, Entry]]:
        walk, found = self._walk, []
        if walk is None or (walk.ended and not self._begins):
            if walk is not None:
                self._before, self._at, self._cursor = self.passed, self._at + 1, None
            mount = self._inner[self._at - 1]
            drive = await self._tree.drive(mount)
            walk = self._walk = drive.walk(mount.path, self._cursor, reads_ahead=self._reads_ahead)
            if self._cursor is None:
                found = [mount.path, *self._leading[self._at]]
        elif self._begins:
            found = self._leading[0]
        self._begins = False
        stored = [] if walk.ended or (self._at and found) else await walk.page(size)
        self._before += len(found)
        return [
            *((path, folder_entry(path)) for path in found),
            *(each for each in stored if each[0] not in self._leading[self._at]),
        ]

    async def close(self) -> None:
        if self._walk:
            await self._walk.close()

    @property
    def passed(self) -> int:
        return self._before + (self._walk.passed if self._walk else 0)

    @property
    def ended(self) -> bool:
        return self._at == len(self._inner) and self._walk is not None and self._walk.ended

    @property
    def can_pause(self) -> bool:
        return self._walk is None or self._walk.can_pause

    @property
    def cursor(self) -> str | None:
        if self.ended:
            return None
        at, inner = self._at, self._cursor
        before = self._before
        if self._walk is not None and (inner := self._walk.cursor) is None:
            at, before = at + 1, self.passed
        return f"{self._table}~{at}~{before}~{inner or ''}"


def _leading(reach: Reach, folder: Path, inner: list[Mount]) -> list[list[Path]]:
    """The folders that lead to mounts below a folder: those in its own mount, then those in each of the mounts. What is in a
    mount that may not be listed is not found."""
    points = {mount.path.segments: number for number, mount in enumerate(inner, 1)}
    found: list[list[Path]] = [[] for _ in range(len(inner) + 1)]
    leading = {point[:end] for point in points for end in range(len(folder.segments) + 1, len(point))}
    for segments in sorted(leading - points.keys()):
        if (mount := reach.at(Path(segments))) and Right.LIST not in mount.rights:
            continue
        above = next((points[segments[:end]] for end in range(len(segments), 0, -1) if segments[:end] in points), 0)
        found[above].append(Path(segments))
    return found


def tree_changed() -> InvalidCursor:
    return InvalidCursor("Your folders were changed in the meantime. Start again without a cursor.")


Walk = DriveWalk | TreeWalk


async def require_target(pool: ConnectionPool, found: OpenLink) -> None:
    """`TargetGone` if there is no such file or folder, it was deleted since, or it has become the other."""
    if found.link.trashed:
        raise target_gone()
    drive = await pool.of(found.limited_owner)
    if found.link.is_folder:
        entry = await drive.find_root()
    else:
        entry = await drive.find(Path((found.link.place.path.name,)))
    if entry is None or entry.is_folder != found.link.is_folder:
        raise target_gone()
