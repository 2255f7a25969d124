"""Share links with their owners, what is counted against their limits, and who did what with them."""

import builtins
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Text,
    and_,
    bindparam,
    case,
    delete,
    false,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from portico.model.errors import LimitReached, NotFound, TooManyRequests
from portico.model.paths import Path, Place
from portico.model.reach import Mount, Reach
from portico.model.rights import Right
from portico.runtime import clock
from portico.store.database import SWEEP_WAIT, AnyRow, Database, Statement, surplus, upsert
from portico.store.tables import guest_downloads, guests, share_accesses, share_links, uploads, users
from portico.store.uploads import ended
from portico.store.users import USER_COLUMNS, User, user_of

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

MAX_LINKS: Final = 1000
"""Links of one user that have not been ended; and those of one user that a list shows."""
MAX_ENDED: Final = 1000
"""Links of one user that were ended and that a sweep leaves."""
MAX_ACCESSES: Final = 10_000
"""Accesses of one link that a sweep leaves."""
SAME_DOWNLOAD: Final = timedelta(hours=1)
"""How long requests of one guest for the same file count as one download: a player or a continued download asks for range
after range."""
_REMEMBERED: Final = 20_000
"""Of those, how many this process remembers."""

_REMOVED = "-"
"""Instead of an id in the trash."""


class LinkKind(StrEnum):
    DOWNLOAD = "download"
    REQUEST = "request"
    """Upload only: a file request."""
    BOTH = "both"

    @property
    def rights(self) -> frozenset[Right]:
        return _RIGHTS[self]

    @property
    def purposes(self) -> frozenset[Right]:
        """Without any of these, the owner's link is good for nothing."""
        return self.rights - {Right.LIST}

    @property
    def takes_files(self) -> bool:
        return self is not LinkKind.DOWNLOAD


_RIGHTS = {
    LinkKind.DOWNLOAD: frozenset({Right.LIST, Right.DOWNLOAD}),
    LinkKind.REQUEST: frozenset({Right.UPLOAD}),
    LinkKind.BOTH: frozenset({Right.LIST, Right.DOWNLOAD, Right.UPLOAD}),
}


class ShareLink(msgspec.Struct, frozen=True):
    id: str
    user_id: int
    place: Place
    is_folder: bool
    kind: LinkKind
    has_password: bool
    title: str
    note: str
    types: tuple[str, ...]
    """Such as `.pdf` or `image/*`; without any, all types are taken."""
    ask_name: bool
    folder_per_sender: bool
    max_downloads: int | None
    downloads: int
    max_uploads: int | None
    uploads: int
    max_bytes: int | None
    bytes: int
    created_at: int
    expires_at: int | None
    ended_at: int | None
    trashed: str | None = None
    """Set if what it is for was deleted: the id in the trash, if it is there."""

    @property
    def is_used_up(self) -> bool:
        downloads = self.max_downloads is not None and self.downloads >= self.max_downloads
        uploads = (self.max_uploads is not None and self.uploads >= self.max_uploads) or (
            self.max_bytes is not None and self.bytes >= self.max_bytes
        )
        match self.kind:
            case LinkKind.DOWNLOAD:
                return downloads
            case LinkKind.REQUEST:
                return uploads
        return downloads and uploads


class OpenLink(msgspec.Struct, frozen=True):
    """A link that can be used now, with its owner as of now."""

    link: ShareLink
    owner: User
    password_hash: str | None

    @property
    def shared(self) -> tuple[Path, Mount] | None:
        """The shared place in the owner's tree, where the owner may still share it for the link's purpose."""
        for path, mount in self.owner.reach.paths_of(self.link.place):
            if path == mount.path and not self.link.is_folder:
                continue  # a mount is a folder
            if Right.SHARE in mount.rights and mount.rights & self.link.kind.purposes:
                return path, mount
        return None

    @property
    def limited_owner(self) -> User:
        """The owner, limited to what the link is for: its folder, or the folder of its file.

        Of the mounts in it, those that the owner may not share are hidden.
        """
        if self.shared is None:
            return self.owner.with_reach(Reach(()))
        path, _ = self.shared
        folder = path if self.link.is_folder else path.parent
        owner = self.owner.limited_to(folder, self.link.kind.rights | {Right.SHARE})
        return owner.with_reach(owner.reach.shared_for(self.link.kind.rights))


class LinkAccess(msgspec.Struct, frozen=True):
    at: int
    name: str
    address: str
    action: str
    path: str
    bytes: int | None


LINK_COLUMNS = tuple(column.label(f"link_{column.name}") for column in share_links.c if column.name != "digest")
# With parameters: to build it anew would cost more than to run it.
_EXIST = (
    select(share_links.c.id)
    .where(
        share_links.c.connection == bindparam("connection"),
        or_(
            share_links.c.path == bindparam("path"),
            func.substr(share_links.c.path, 1, bindparam("length")) == bindparam("above"),
        ),
    )
    .limit(1)
)
_OPEN = select(*LINK_COLUMNS, *USER_COLUMNS).join(users, users.c.id == share_links.c.user_id)


def link_of(row: AnyRow) -> ShareLink:
    found: dict[str, Any] = {
        name.removeprefix("link_"): value for name, value in row._mapping.items() if str(name).startswith("link_")
    }
    found["place"] = Place(found.pop("connection"), Path.parse(found.pop("path")))
    found["has_password"] = found.pop("password_hash") is not None
    found["kind"] = LinkKind(found["kind"])
    found["types"] = tuple(found["types"].split())
    return ShareLink(**found)


def open_link_of(row: AnyRow) -> OpenLink:
    return OpenLink(link_of(row), user_of(row), row.link_password_hash)


class LinkRecords:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._counted: dict[bytes, int] = {}
        """Downloads that the database has counted, and when: each is asked for once an hour."""

    # The owner's

    async def insert(self, row: Mapping[str, Any]) -> ShareLink:
        async def store(transaction: "AsyncConnection") -> ShareLink:
            # Locked, so that the count holds.
            await transaction.execute(select(users.c.id).where(users.c.id == row["user_id"]).with_for_update())
            mine = select(func.count()).where(share_links.c.user_id == row["user_id"], share_links.c.ended_at.is_(None))
            if (await transaction.execute(mine)).scalar_one() >= MAX_LINKS:
                raise TooManyRequests(
                    f"You can have at most {MAX_LINKS} links; end some of them first.", retry_after=60
                )
            stored = insert(share_links).values(row).returning(*LINK_COLUMNS)
            return link_of((await transaction.execute(stored)).one())

        return await self._database.transact(store)

    async def list(self, user: User) -> builtins.list[ShareLink]:
        """The user's links within the user's reach, the newest first; of those that were ended, as many as there is room for."""
        reached = or_(false(), *(_within(mount.place) for mount in user.reach.mounts))
        query = select(*LINK_COLUMNS).where(share_links.c.user_id == user.id, reached)
        query = query.order_by(share_links.c.ended_at.is_not(None), share_links.c.created_at.desc(), share_links.c.id)
        links = [link_of(row) for row in await self._database.fetch(query.limit(MAX_LINKS))]
        links = [link for link in links if user.reach.path_of(link.place)]
        return sorted(links, key=lambda link: (-link.created_at, link.id))

    async def get(self, user: User, link_id: str) -> ShareLink:
        query = select(*LINK_COLUMNS).where(share_links.c.id == link_id, share_links.c.user_id == user.id)
        row = await self._database.first(query)
        if row is None or user.reach.path_of((link := link_of(row)).place) is None:
            raise NotFound("You have no link with this id. List your links to find it.")
        return link

    async def change(self, user: User, link_id: str, values: Mapping[str, Any]) -> ShareLink:
        """Change columns of a link that has not ended. With another password or address, its guests have to open it again."""
        await self.get(user, link_id)
        mine = share_links.c.id == link_id, share_links.c.user_id == user.id, share_links.c.ended_at.is_(None)
        statement = update(share_links).where(*mine).values(dict(values)).returning(*LINK_COLUMNS)

        async def store(transaction: "AsyncConnection") -> ShareLink:
            row = (await transaction.execute(statement)).first()
            if row is None:
                raise NotFound("The link has ended. Create a new one.")
            without_guests = values.get("password_hash") or "digest" in values
            if without_guests:
                await transaction.execute(delete(guests).where(guests.c.link == link_id))
            if without_guests or "ended_at" in values:
                await transaction.execute(ended(uploads.c.link == link_id))
            return link_of(row)

        return await self._database.transact(store)

    async def end(self, user: User, link_id: str) -> None:
        await self.change(user, link_id, {"ended_at": self._database.now()})

    async def accesses(
        self, user: User, link_id: str, size: int, before: int | None = None
    ) -> builtins.list[tuple[int, LinkAccess]]:
        """What was done with a link, the newest first, each with its number; those `before` a number."""
        await self.get(user, link_id)
        query = select(share_accesses).where(share_accesses.c.link == link_id)
        if before is not None:
            query = query.where(share_accesses.c.id < before)
        rows = await self._database.fetch(query.order_by(share_accesses.c.id.desc()).limit(size))
        return [(row.id, LinkAccess(row.at, row.name, row.address, row.action, row.path, row.bytes)) for row in rows]

    # The guests'

    async def open(self) -> builtins.list[OpenLink]:
        """All links that have not been ended."""
        query = _OPEN.where(share_links.c.ended_at.is_(None)).order_by(users.c.name_key, share_links.c.created_at)
        return [open_link_of(row) for row in await self._database.fetch(query)]

    async def by_digest(self, digest: bytes) -> OpenLink | None:
        row = await self._database.first(_OPEN.where(share_links.c.digest == digest))
        return None if row is None else open_link_of(row)

    # The gateway's

    async def exist(self, place: Place) -> bool:
        """Whether there are links to this place, or below it."""
        path = str(place.path)
        above = f"{path.rstrip('/')}/"
        values = {"connection": place.connection, "path": path, "length": len(above), "above": above}
        return await self._database.first(_EXIST, values) is not None

    async def moved(self, source: Place, target: Place, *, is_folder: bool) -> None:
        """Links follow what was moved."""
        await self._database.execute(
            update(share_links)
            .where(_to(source, is_folder), share_links.c.trashed.is_(None))
            .values(connection=target.connection, path=_moved_path(source.path, target.path))
        )

    async def deleted(self, place: Place, *, is_folder: bool, trash_id: str | None) -> None:
        """What these links are for was deleted: nothing else that gets its name is shared."""
        await self._database.execute(
            update(share_links)
            .where(_to(place, is_folder), share_links.c.trashed.is_(None))
            .values(trashed=trash_id or _REMOVED)
        )

    async def restored(self, trash_id: str, source: Path, target: Path) -> None:
        """It is back: at `target`, if it was at `source`."""
        await self._database.execute(
            update(share_links)
            .where(share_links.c.trashed == trash_id)
            .values(trashed=None, path=_moved_path(source, target))
        )

    async def sweep(self, keep: timedelta | None) -> None:
        """Remove old accesses, and links that have long ended; `keep` None: none of them for their age."""
        old = None if keep is None else self._database.now() - clock.milliseconds(keep)
        if old is not None:
            past = or_(share_links.c.ended_at <= old, share_links.c.expires_at <= old)
            for remove in (delete(share_links).where(past), delete(share_accesses).where(share_accesses.c.at <= old)):
                await self._database.execute(remove, wait=SWEEP_WAIT)
        links, accesses = share_links.c, share_accesses.c
        for remove in (
            surplus(
                links.id, per=links.user_id, newest=links.ended_at, most=MAX_ENDED, where=links.ended_at.is_not(None)
            ),
            surplus(accesses.id, per=accesses.link, newest=accesses.id, most=MAX_ACCESSES),
        ):
            await self._database.execute(remove, wait=SWEEP_WAIT)

    # What is counted

    async def count_download(self, link_id: str, guest: bytes, file: str, access: LinkAccess) -> None:
        """Count a download, unless the guest has begun it before; `LimitReached` if there were enough of them."""
        now = self._database.now()
        key = sha256(guest + file.encode()).digest()
        since = now - clock.milliseconds(SAME_DOWNLOAD)
        if self._counted.get(key, 0) > since:
            return
        mine = guest_downloads.c.digest == key
        found = await self._database.first(select(guest_downloads.c.at).where(mine, guest_downloads.c.at > since))
        if found:
            self._remember(key, found.at)
            return

        async def count(transaction: "AsyncConnection") -> None:
            # Of requests of the same guest at the same time, one inserts the row; the others wait for it.
            noted = (
                upsert(self._database.dialect, guest_downloads, {"at": now}, where=guest_downloads.c.at <= since)
                .values(digest=key, guest=guest, at=now)
                .returning(guest_downloads.c.at)
            )
            if (await transaction.execute(noted)).first() is None:
                return
            left = or_(share_links.c.max_downloads.is_(None), share_links.c.downloads < share_links.c.max_downloads)
            counted = (
                update(share_links)
                .where(share_links.c.id == link_id, share_links.c.ended_at.is_(None), left)
                .values(downloads=share_links.c.downloads + 1)
                .returning(share_links.c.id)
            )
            if (await transaction.execute(counted)).first() is None:
                raise LimitReached(
                    "This link has reached its download limit. Ask the person who sent it to you for a new one."
                )
            await transaction.execute(noted_access(link_id, access))

        await self._database.transact(count)
        self._remember(key, now)

    def _remember(self, download: bytes, at: int) -> None:
        if len(self._counted) >= _REMEMBERED:
            del self._counted[next(iter(self._counted))]
        self._counted[download] = at

    async def reserve_upload(self, link_id: str, size: int) -> None:
        """Count a file that is about to be stored; `LimitReached` if the link takes no more."""
        statement = (
            update(share_links)
            .where(
                share_links.c.id == link_id,
                share_links.c.ended_at.is_(None),
                or_(share_links.c.max_uploads.is_(None), share_links.c.uploads < share_links.c.max_uploads),
                or_(share_links.c.max_bytes.is_(None), share_links.c.bytes + size <= share_links.c.max_bytes),
            )
            .values(uploads=share_links.c.uploads + 1, bytes=share_links.c.bytes + size)
        )
        if not await self._database.execute(statement):
            raise takes_no_more()

    async def give_back(self, link_id: str, size: int) -> None:
        """The file was not stored after all."""
        await self._database.execute(
            update(share_links)
            .where(share_links.c.id == link_id)
            .values(uploads=share_links.c.uploads - 1, bytes=share_links.c.bytes - size)
        )

    async def note(self, link_id: str, access: LinkAccess) -> None:
        await self._database.execute(noted_access(link_id, access))


def takes_no_more() -> LimitReached:
    return LimitReached(
        "This link has reached its limit for files or bytes. Ask the person who sent it to you for a new one."
    )


def noted_access(link_id: str, access: LinkAccess) -> Statement:
    return insert(share_accesses).values(
        link=link_id,
        at=access.at,
        name=access.name,
        address=access.address[:64],
        action=access.action,
        path=access.path,
        bytes=access.bytes,
    )


def _to(place: Place, is_folder: bool) -> ColumnElement[bool]:
    """Whether a link is for the file, or the folder or something in it: of two with one name, not for the other."""
    links, path = share_links.c, str(place.path)
    same = and_(links.connection == place.connection, links.path == path, links.is_folder == is_folder)
    return or_(same, and_(links.path != path, _within(place))) if is_folder else same


def _moved_path(source: Path, target: Path) -> ColumnElement[str]:
    old, new = str(source), str(target)
    rest = func.substr(share_links.c.path, len(old) + 1, type_=Text)
    return case((share_links.c.path == old, new), else_=literal(new, Text) + rest)


def _within(place: Place) -> ColumnElement[bool]:
    """Whether a link is for this place, or for something below it."""
    mine, path = share_links.c.connection == place.connection, str(place.path)
    if place.path.is_root:
        return mine
    below = func.substr(share_links.c.path, 1, len(path) + 1) == f"{path}/"
    return and_(mine, or_(share_links.c.path == path, below))
