"""`Tree`: what one actor sees as one tree, and in which drive each of its paths is."""

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from portico.drive.connection_pool import ConnectionPool
from portico.drive.drive import Drive
from portico.model.entries import Chunks
from portico.model.errors import target_gone
from portico.model.paths import Path, Place
from portico.model.rights import Right
from portico.operations.actors.actor import Actor, Scope, Standing, Watch, WatchedChunks, Watches
from portico.operations.actors.cancellation import CancellableWork
from portico.operations.actors.request_context import Admission
from portico.store.share_links import OpenLink


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
        self._is_shared = False
        actor.context.connection = actor.user.root.connection

    async def at(self, path: Path, scope: Scope | None = None, *, admitted: bool = True) -> tuple[Drive, Path]:
        """The drive that a path is in, for one operation, and the path within it.

        `scope`: all that is done is to download this one thing. If `admitted`, the request takes a slot among those that
        wait for the connection; `Unavailable` if there are too many.
        """
        actor, context = self.actor, self.actor.context
        actor.require_scope(scope)
        if admitted and context.slot is None:
            context.slot = self._shared.admission.enter(actor.user.root.connection, actor.share)
        if not self._is_shared:
            await self.require_shared()
            self._is_shared = True
        drive = await self._shared.pool.of(actor.user)
        drive.right_missing = actor.right_missing
        return drive, path

    async def whole(self, *, admitted: bool = True) -> Drive:
        """The only drive of the tree, for what is not about a path: the trash, an upload by its id."""
        return (await self.at(Path(), admitted=admitted))[0]

    async def require_shared(self) -> None:
        """`TargetGone` if the actor is a guest, and what was shared does not exist any more."""
        if self.actor.guest:
            await require_target(self._shared.pool, self.actor.guest.open)

    def place(self, path: Path) -> Place:
        return self.actor.user.root.below(path)

    # What the actor has under way

    def looking(self, entries: int) -> AbstractAsyncContextManager[None]:
        return self._shared.admission.looking(self.actor.user.root.connection, self.actor.share, entries)

    def searching(self) -> AbstractAsyncContextManager[None]:
        return self._shared.admission.searching(self.actor.share)

    def watch(self, standing: Standing) -> Watch:
        return self._shared.watches.add(standing)

    def watched(self, chunks: Chunks, *needed: Right) -> Chunks:
        """The chunks, which end with an error soon after the actor has lost the right to them."""
        return WatchedChunks(chunks, self._shared.watches, Standing(self.actor, *needed))

    async def cancellable(self, work: Coroutine[Any, Any, Any], *needed: Right, by_client: bool = True) -> Any:
        """The result of `work`, which ends when the client hangs up, or the actor loses one of these rights."""
        gone = self.actor.context.client_gone() if by_client else asyncio.Event().wait()
        return await self._shared.long_work.run(work, gone, self.watch(Standing(self.actor, *needed)).lost())

    async def check_commit(self, standing: Standing) -> None:
        """Raises, right before a file is committed, if the actor may not store it any more."""
        await standing.check()
        await self.require_shared()


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
