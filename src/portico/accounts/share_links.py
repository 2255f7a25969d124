"""Share links: by them, people without an account reach a file or a folder of a user's tree.

The address of a link is random, and stored only as a SHA-256. What a guest may do is never more than what the owner may do
at that moment: every look at a link is a look at its owner, too.
"""

import builtins
import secrets
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec
from sqlalchemy import ColumnElement, Text, and_, case, delete, func, insert, literal, or_, select, update

from portico.accounts.credentials import digest_of
from portico.accounts.link_usage import Access, LinkUsage
from portico.model.errors import NotFound, TooManyRequests
from portico.model.paths import Path
from portico.model.rights import Right
from portico.runtime import clock
from portico.store.database import SWEEP_WAIT, AnyRow, Database
from portico.store.tables import guests, share_links, uploads, users
from portico.store.uploads import ended
from portico.store.users import USER_COLUMNS, User, user_of

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

MAX_LINKS: Final = 1000
"""Links of one user that have not been ended; and those of one user that a list shows."""
MAX_ENDED: Final = 1000
"""Links of one user that were ended and that a sweep leaves."""

_TOKEN_BYTES = 24
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


class SharePolicy(msgspec.Struct, frozen=True):
    """What the administrator allows."""

    enabled: bool = True
    max_lifetime: timedelta | None = None
    require_password: bool = False
    paths: tuple[Path, ...] = ()
    """What may be shared, as users see it; without any, everything."""

    def allows(self, path: Path) -> bool:
        return not self.paths or any(allowed.holds(path) for allowed in self.paths)


class ShareLink(msgspec.Struct, frozen=True):
    id: str
    user_id: int
    connection: str
    path: str
    """From the root of the connection."""
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
        """Whether nothing can be done with it any more."""
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

    def path_for(self, user: User) -> Path | None:
        """The path as this user sees it; None if it is out of the user's sight."""
        root, path = Path.parse(user.root), Path.parse(self.path)
        if user.connection != self.connection or not root.holds(path):
            return None
        return Path(path.segments[len(root.segments) :])


class OpenLink(msgspec.Struct, frozen=True):
    """A link that can be used now, with its owner as of now."""

    link: ShareLink
    owner: User
    password_hash: str | None

    @property
    def limited_owner(self) -> User:
        """The owner, limited to what the link is for: its folder, or the folder of its file."""
        path = Path.parse(self.link.path)
        root = path if self.link.is_folder else path.parent
        return msgspec.structs.replace(
            self.owner, root=str(root), rights=self.owner.rights & self.link.kind.rights
        )


LINK_COLUMNS = tuple(
    column.label(f"link_{column.name}") for column in share_links.c if column.name != "digest"
)
_OPEN = select(*LINK_COLUMNS, *USER_COLUMNS).join(users, users.c.id == share_links.c.user_id)


def link_of(row: AnyRow) -> ShareLink:
    """The link in a row that holds `LINK_COLUMNS`."""
    found: dict[str, Any] = {
        name.removeprefix("link_"): value
        for name, value in row._mapping.items()
        if str(name).startswith("link_")
    }
    found["has_password"] = found.pop("password_hash") is not None
    found["kind"] = LinkKind(found["kind"])
    found["types"] = tuple(found["types"].split())
    return ShareLink(**found)


def open_link_of(row: AnyRow | None, policy: SharePolicy, now: int) -> OpenLink | None:
    """The link and its owner, if it can be used now; from a row of `LINK_COLUMNS` and `USER_COLUMNS`."""
    if row is None or not policy.enabled:
        return None
    link, owner = link_of(row), user_of(row)
    path = link.path_for(owner)
    if (
        link.ended_at is not None
        or ((end := end_of(link, policy)) is not None and end <= now)
        or owner.disabled
        or Right.SHARE not in owner.rights
        or not owner.rights & link.kind.purposes
        or path is None
        or not policy.allows(path)
    ):
        return None
    return OpenLink(link, owner, row.link_password_hash)


def end_of(link: ShareLink, policy: SharePolicy) -> int | None:
    """When the link ends by itself."""
    if policy.max_lifetime is None:
        return link.expires_at
    longest = link.created_at + clock.milliseconds(policy.max_lifetime)
    return longest if link.expires_at is None else min(longest, link.expires_at)


def no_such_link() -> NotFound:
    """The same for an unknown link, one that has ended, and one whose owner may not share any more."""
    return NotFound("There is no such link, or it has ended; ask for a new one where you got it.")


class ShareLinks:
    def __init__(self, database: Database, policy: SharePolicy) -> None:
        self._database = database
        self.policy = policy
        self.usage = LinkUsage(database)

    # The owner's

    async def add(self, user: User, path: Path, values: Mapping[str, Any]) -> tuple[ShareLink, str]:
        """A new link to a path of the user, and its token. `values` are columns."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        row = {
            "id": secrets.token_hex(8),
            "user_id": user.id,
            "connection": user.connection,
            "digest": digest_of(token),
            "path": str(path.under(Path.parse(user.root))),
            "downloads": 0,
            "uploads": 0,
            "bytes": 0,
            "created_at": self._database.now(),
            **values,
        }

        async def store(transaction: "AsyncConnection") -> ShareLink:
            # Locked, so that the count holds.
            await transaction.execute(select(users.c.id).where(users.c.id == user.id).with_for_update())
            mine = select(func.count()).where(
                share_links.c.user_id == user.id, share_links.c.ended_at.is_(None)
            )
            if (await transaction.execute(mine)).scalar_one() >= MAX_LINKS:
                raise TooManyRequests(f"You have {MAX_LINKS} links; end some of them first.", retry_after=60)
            stored = insert(share_links).values(row).returning(*LINK_COLUMNS)
            return link_of((await transaction.execute(stored)).one())

        return await self._database.transact(store), token

    async def list(self, user: User) -> builtins.list[ShareLink]:
        """The user's links within the user's root, the newest first; of those that were ended, as many as there is room for."""
        query = select(*LINK_COLUMNS).where(
            share_links.c.user_id == user.id, share_links.c.connection == user.connection
        )
        root = Path.parse(user.root)
        if not root.is_root:
            query = query.where(_within(str(root)))
        query = query.order_by(
            share_links.c.ended_at.is_not(None), share_links.c.created_at.desc(), share_links.c.id
        )
        links = [link_of(row) for row in await self._database.fetch(query.limit(MAX_LINKS))]
        return sorted(links, key=lambda link: (-link.created_at, link.id))

    async def get(self, user: User, link_id: str) -> ShareLink:
        query = select(*LINK_COLUMNS).where(share_links.c.id == link_id, share_links.c.user_id == user.id)
        row = await self._database.first(query)
        if row is None or (link := link_of(row)).path_for(user) is None:
            raise NotFound("You have no such link; list your links.")
        return link

    async def change(self, user: User, link_id: str, values: Mapping[str, Any]) -> ShareLink:
        """Change columns of a link that has not ended. With another password or address, its guests have to open it again."""
        await self.get(user, link_id)
        mine = share_links.c.id == link_id, share_links.c.user_id == user.id, share_links.c.ended_at.is_(None)
        statement = update(share_links).where(*mine).values(dict(values)).returning(*LINK_COLUMNS)

        async def store(transaction: "AsyncConnection") -> ShareLink:
            row = (await transaction.execute(statement)).first()
            if row is None:
                raise NotFound("The link has ended; make a new one.")
            without_guests = values.get("password_hash") or "digest" in values
            if without_guests:
                await transaction.execute(delete(guests).where(guests.c.link == link_id))
            if without_guests or "ended_at" in values:
                await transaction.execute(ended(uploads.c.link == link_id))
            return link_of(row)

        return await self._database.transact(store)

    async def renew(self, user: User, link_id: str) -> tuple[ShareLink, str]:
        """Give the link another address. Those who know the former one, and its guests, can do nothing with it any more."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        return await self.change(user, link_id, {"digest": digest_of(token)}), token

    async def end(self, user: User, link_id: str) -> None:
        await self.change(user, link_id, {"ended_at": self._database.now()})

    async def accesses(
        self, user: User, link_id: str, size: int, before: int | None = None
    ) -> builtins.list[tuple[int, Access]]:
        """What was done with a link, the newest first, each with its number; those `before` a number."""
        await self.get(user, link_id)
        return await self.usage.accesses(link_id, size, before)

    # The guests'

    async def find(self, token: str) -> OpenLink | None:
        """The link with this token, if it can be used now."""
        row = await self._database.first(_OPEN.where(share_links.c.digest == digest_of(token)))
        return open_link_of(row, self.policy, self._database.now())

    # The gateway's

    async def exist(self, connection: str, path: Path) -> bool:
        """Whether there are links to this path, or below it."""
        query = select(share_links.c.id).where(share_links.c.connection == connection, _within(str(path)))
        return await self._database.first(query.limit(1)) is not None

    async def moved(self, connection: str, source: Path, target: Path, *, is_folder: bool) -> None:
        """Links follow what was moved within a connection."""
        await self._database.execute(
            update(share_links)
            .where(_to(connection, source, is_folder), share_links.c.trashed.is_(None))
            .values(path=_moved_path(source, target))
        )

    async def deleted(self, connection: str, path: Path, *, is_folder: bool, trash_id: str | None) -> None:
        """What these links are for was deleted: nothing else that gets its name is shared."""
        await self._database.execute(
            update(share_links)
            .where(_to(connection, path, is_folder), share_links.c.trashed.is_(None))
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
            ended = or_(
                share_links.c.ended_at <= old,
                and_(share_links.c.expires_at.is_not(None), share_links.c.expires_at <= old),
            )
            await self._database.execute(delete(share_links).where(ended), wait=SWEEP_WAIT)
        number = func.row_number().over(
            partition_by=share_links.c.user_id, order_by=share_links.c.ended_at.desc()
        )
        numbered = (
            select(share_links.c.id, number.label("number"))
            .where(share_links.c.ended_at.is_not(None))
            .subquery()
        )
        surplus = select(numbered.c.id).where(numbered.c.number > MAX_ENDED)
        await self._database.execute(
            delete(share_links).where(share_links.c.id.in_(surplus)), wait=SWEEP_WAIT
        )
        await self.usage.sweep(old)


def _to(connection: str, path: Path, is_folder: bool) -> ColumnElement[bool]:
    """Whether a link is for the file, or the folder or something in it: of two with one name, not for the other."""
    same = and_(share_links.c.path == str(path), share_links.c.is_folder == is_folder)
    wanted = or_(same, and_(share_links.c.path != str(path), _within(str(path)))) if is_folder else same
    return and_(share_links.c.connection == connection, wanted)


def _moved_path(source: Path, target: Path) -> ColumnElement[str]:
    old, new = str(source), str(target)
    rest = func.substr(share_links.c.path, len(old) + 1, type_=Text)
    return case((share_links.c.path == old, new), else_=literal(new, Text) + rest)


def _within(path: str) -> ColumnElement[bool]:
    """Whether a link is for this path of its connection, or for something below it."""
    below = func.substr(share_links.c.path, 1, len(path) + 1) == f"{path}/"
    return or_(share_links.c.path == path, below)
