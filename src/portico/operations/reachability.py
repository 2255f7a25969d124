"""Who reaches what: why a user sees a path as they do, and every user, key and link that reaches a place in a storage.

Both ask the code that requests use: the user's `Reach`, the `Tree` with its spelling rule, and the `ConnectionPool`.
"""

import time
from collections.abc import AsyncIterator, Iterable

import msgspec

from portico.accounts.share_links import SharePolicy, usable
from portico.drive.connection_pool import ConnectionPool
from portico.model.entries import Entry
from portico.model.errors import PorticoError
from portico.model.paths import Path, Place
from portico.model.reach import Mount
from portico.model.rights import Right
from portico.operations.actors.actor import Actor, Watches
from portico.operations.actors.cancellation import CancellableWork
from portico.operations.actors.request_context import Admission, RequestContext
from portico.operations.actors.tree import Tree, Trees
from portico.store.api_keys import ApiKey
from portico.store.share_links import OpenLink, ShareLink
from portico.store.users import User

Key = tuple[str, ...]


class Explanation(msgspec.Struct, frozen=True):
    """What a user has at a path."""

    user: User
    path: Path
    """In the mount table's spelling. Storage that ignores case may spell it differently."""
    mount: Mount | None
    """The mount that the path belongs to, which may have no rights; None if no mount leads there."""
    place: Place | None
    """Where the path is kept."""
    is_virtual: bool
    """Whether it is a folder that only holds mounts."""
    inner: tuple[Mount, ...]
    """The mounts below the path."""
    entry: Entry | None = None
    """What the storage has there."""
    failure: PorticoError | None = None
    """Why the storage did not answer."""


class Reached(msgspec.Struct, frozen=True):
    """A place in a storage, as one user, key or link reaches it."""

    owner: User
    path: Path
    """In the tree of the user, the key or the link's guests."""
    mount: Mount
    rest: Path = Path()
    """The only part of the place that is reached, if it is not all of it."""
    key: ApiKey | None = None
    link: ShareLink | None = None


class Reachability:
    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._trees = Trees(pool, Admission(), Watches(), CancellableWork())
        self._keys: dict[Place, Key] = {}

    def _tree(self, user: User) -> Tree:
        async def same() -> User:
            return user

        return Tree(self._trees, Actor(user, RequestContext("", ""), time.monotonic(), same))

    async def explain(self, user: User, path: Path) -> Explanation:
        tree = self._tree(user)
        try:
            path = await tree.spelled(path)
        except PorticoError as error:
            return Explanation(user, path, None, None, is_virtual=False, inner=(), failure=error)
        mount, reach = user.reach.deepest(path), user.reach
        found = Explanation(user, path, mount, reach.place_of(path), reach.is_virtual(path), tuple(reach.below(path)))
        if mount is None:
            return found
        try:
            drive, path = await tree.at(path, admitted=False)
            entry = await drive.find(path)
        except PorticoError as error:
            return msgspec.structs.replace(found, failure=error)
        return msgspec.structs.replace(found, entry=entry)

    async def who(
        self,
        place: Place,
        users: Iterable[User],
        keys: Iterable[tuple[User, ApiKey, User]],
        links: Iterable[OpenLink],
        policy: SharePolicy,
        now: int,
    ) -> AsyncIterator[Reached]:
        """Every user, key and link with a right at a place, or at something in it.

        `keys`: each with its owner, and with the owner as limited by the key.
        """
        for user in users:
            async for path, mount, rest in self._in_tree(user, place):
                yield Reached(user, path, mount, rest)
        for owner, key, limited in keys:
            async for path, mount, rest in self._in_tree(limited, place):
                yield Reached(owner, path, mount, rest, key)
        for found in links:
            if usable(found, policy, now) is None or found.link.trashed:
                continue
            only = None if found.link.is_folder else Path((found.link.place.path.name,))
            async for path, mount, rest in self._in_tree(found.limited_owner, place, only):
                yield Reached(found.owner, path, mount, rest, link=found.link)

    async def _in_tree(
        self, user: User, place: Place, only: Path | None = None
    ) -> AsyncIterator[tuple[Path, Mount, Path]]:
        """Where a tree has a place, or parts of it. `only`: the one file of the tree that is reached."""
        tree, wanted = self._tree(user), await self._key(place)
        for mount in user.reach.mounts:
            if not mount.rights:
                continue
            point = mount.path
            begins = await self._key(mount.place)
            if only is not None:
                point = only
                begins = await self._key(mount.place_of(only))
            if begins[: len(wanted)] == wanted:  # the place holds the mount
                if await self._leads(tree, point, mount):
                    yield point, mount, Path(_names(begins, len(wanted), mount.place.path))
            elif wanted[: len(begins)] == begins and only is None:
                path = Path(_names(wanted, len(begins), place.path)).under(mount.path)
                if await self._leads(tree, path, mount):
                    yield path, mount, Path()

    async def _leads(self, tree: Tree, path: Path, mount: Mount) -> bool:
        """Whether no other mount hides this one at a path."""
        try:
            path = await tree.spelled(path)
        except PorticoError:  # the storage does not say whether it ignores case
            pass
        return tree.reach.at(path) == mount

    async def _key(self, place: Place) -> Key:
        """The same for all connections that lead there."""
        if place not in self._keys:
            try:
                self._keys[place] = await self._pool.key(place)
            except PorticoError:  # it cannot be opened here: then only the connection itself leads there
                self._keys[place] = ("", place.connection, *place.path.segments)
        return self._keys[place]


def _names(key: Key, start: int, path: Path) -> tuple[str, ...]:
    """The names in a key from `start` on, in the path's spelling."""
    names = key[start:]
    known = path.segments[max(0, len(path.segments) - len(names)) :]
    return (*names[: len(names) - len(known)], *known)


def may_share(found: Explanation, policy: SharePolicy) -> str | None:
    """Why the user cannot share the path, as a sentence; None if they can."""
    if found.mount is None or Right.SHARE not in found.mount.rights:
        return "The right 'share' is missing."
    if not policy.enabled:
        return "Sharing is turned off: see share.enabled."
    if not policy.allows(found.path):
        return "share.paths doesn't allow it."
    return None
