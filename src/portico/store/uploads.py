"""Resumable uploads: a row for each, and one request at a time that writes.

A newer request for the same upload takes over: it asks the owner, in whatever process on whatever node that is, to make
way, and waits until it has, or has died. Every save of the owner is conditional on its fence, so that an owner that was
given up for dead can no longer save.

Claims and progress do not wait for the disk. After a power failure nobody owns anything, and a client that asks
learns how much of its file is left.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from enum import StrEnum
from functools import cache
from typing import Any, Final

import msgspec
from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Executable,
    Update,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
    true,
    update,
)

from portico.model.errors import PorticoError, Unavailable, UploadTakenOver
from portico.runtime import clock
from portico.runtime.processes import has_ended
from portico.store.database import AnyRow, Database, inserting, new_row
from portico.store.encrypted_columns import Sealed
from portico.store.ownership import Owned, Ownership, is_free, is_mine
from portico.store.tables import share_links, uploads, users

RESUMABLE: Final = "resumable"
HIDDEN: Final = "hidden"
"""The kind of an upload that one request needs while it runs: nobody else can continue it."""
OPEN: Final = "open"
FINISHED: Final = "finished"
PART: Final = "part"
"""A partial upload that is complete, and not joined yet."""

LIFETIME: Final = timedelta(seconds=10)
"""How long an upload has an owner that vanished, if nobody can see that it has."""
RENEWAL: Final = timedelta(seconds=2)
"""How often owners renew, and see whether they are to make way."""
BYTES_EACH: Final = 1024
"""A limit of so many uploads is also one of so many times these bytes, which their paths and metadata take."""
_POLL_SECONDS: Final = 0.05
_MAX_WAIT_SECONDS: Final = 25.0

# Built once: building one takes as long as running it.
_IS_OWNED = is_mine(uploads)
_OFFSET = (
    update(uploads)
    .where(_IS_OWNED)
    .values(offset=bindparam("new_offset"), expires_at=uploads.c.expires_at + bindparam("longer"))
)
_STATE: dict[str, Any] = {"state": bindparam("new_state")}
_FREE: dict[str, Any] = {"owner": None, "owned_until": 0}
_PROGRESS = {
    (with_state, last): _OFFSET.values((_STATE if with_state else {}) | (_FREE if last else {})).returning(
        uploads.c.wanted
    )
    for with_state in (False, True)
    for last in (False, True)
}
_RELEASE = update(uploads).where(_IS_OWNED).values(_FREE)
_CLAIM = (
    update(uploads)
    .where(
        uploads.c.id == bindparam("upload_id"),
        or_(bindparam("any_user", type_=Boolean), uploads.c.user_id == bindparam("user")),
        or_(uploads.c.owner.is_(None), is_free(uploads)),
    )
    .values(owner=bindparam("new_owner"), owned_until=bindparam("until"), wanted=False)
    .returning(*uploads.c)
)


class Scope(StrEnum):
    """Whose unfinished uploads are limited together."""

    USER = "user"
    """Without those of guests."""
    LINK = "link"
    ADDRESS = "address"
    """Those of a link from one address."""


_UNFINISHED = and_(uploads.c.kind == RESUMABLE, uploads.c.status != FINISHED, uploads.c.expires_at > bindparam("now"))
_COUNTED = {
    Scope.USER: and_(_UNFINISHED, uploads.c.user_id == bindparam("counted_user"), uploads.c.link.is_(None)),
    Scope.LINK: and_(_UNFINISHED, uploads.c.link == bindparam("counted_link")),
    Scope.ADDRESS: and_(
        _UNFINISHED, uploads.c.link == bindparam("counted_link"), uploads.c.address == bindparam("counted_address")
    ),
}
_BYTES = func.coalesce(func.sum(func.length(uploads.c.details) + func.length(uploads.c.path)), 0)


def _has_room(scope: Scope) -> ColumnElement[bool]:
    most = bindparam(f"most_of_{scope}", type_=BigInteger)
    query = select(and_(func.count() < most, most * BYTES_EACH > _BYTES)).select_from(uploads)
    return query.where(_COUNTED[scope]).scalar_subquery().is_(true())


@cache
def _adding(*scopes: Scope) -> Executable:
    """A row, unless one of the limits is reached."""
    return inserting(uploads, *map(_has_room, scopes))


class UploadRecord(msgspec.Struct, frozen=True):
    id: str
    user_id: int | None
    connection: str
    status: str
    path: str
    size: int | None
    offset: int
    details: bytes
    state: bytes | None
    created_at: int
    expires_at: int
    kind: str = RESUMABLE
    link: str | None = None
    address: str | None = None
    """Of a guest, as `network_of` has it."""


class UploadClaim(Owned):
    _rows: "Uploads"

    def __init__(self, rows: "Uploads", claim: Mapping[str, Any], record: UploadRecord) -> None:
        super().__init__(rows, record.id, claim)
        self.record = record
        """As it was saved last: whoever abandons the upload needs the state that it has reached."""
        self.interrupt: Callable[[], None] | None = None
        """Called when the owner must make way: it ends a wait for the client."""
        self._yields_to: PorticoError | None = None
        self._released = False

    def renewed(self, row: AnyRow | None, until: int) -> None:
        # It is renewed also while it makes way: what it has begun, such as storing the file, must not be done by two at once.
        if row is None or row.wanted:
            self.yield_to()

    @property
    def has_expired(self) -> bool:
        """Whether it may be removed: a hidden one as soon as its request is gone."""
        return self.record.kind == HIDDEN or self.record.expires_at <= self._rows.database.now()

    async def save(self, **values: Any) -> None:
        """Change the row; `UploadTakenOver` if it is no longer this owner's."""
        sealed = dict(values)
        if state := values.get("state"):
            sealed["state"] = self._rows.seal.seal(state, self.record.id)
        statement = update(uploads).where(_IS_OWNED).values(sealed).returning(uploads.c.wanted)
        self._look(await self._rows.database.write(statement, self.me))
        if details := values.get("details"):
            values["details"] = details.encode()
        self.record = msgspec.structs.replace(self.record, **values)

    async def progress(self, offset: int, state: bytes, *, last: bool = False) -> None:
        """As `save`; with `last`, the upload is let go of at the same time. With its first bytes, it lives longer."""
        longer = 0 if self.record.offset else max(0, self.record.created_at + self._rows.kept - self.record.expires_at)
        values = {**self.me, "new_offset": offset, "longer": longer if offset else 0}
        if with_state := state != self.record.state:  # most requests do not change it
            values["new_state"] = self._rows.seal.seal(state, self.record.id)
        self._look(await self._rows.database.write(_PROGRESS[with_state, last], values, durable=False))
        expires_at = self.record.expires_at + values["longer"]
        self.record = msgspec.structs.replace(self.record, offset=offset, state=state, expires_at=expires_at)
        self._released = self._released or last

    def _look(self, rows: Sequence[AnyRow]) -> None:
        if not rows:
            self.yield_to()
            raise UploadTakenOver
        if rows[0].wanted:
            self.yield_to()

    def check(self) -> None:
        """`UploadTakenOver` if another request wants the upload; `Unavailable` if the gateway stops."""
        if self._yields_to:
            raise self._yields_to

    def yield_to(self, reason: PorticoError | None = None) -> None:
        """End what waits for the client, because another request wants the upload or the gateway stops."""
        self._yields_to = self._yields_to or reason or UploadTakenOver()
        if self.interrupt:
            self.interrupt()

    async def release(self) -> None:
        await self.let_go()
        if not self._released:
            with suppress(PorticoError):  # then it expires
                await self._rows.database.execute(_RELEASE, self.me, durable=False)

    async def remove(self) -> None:
        """The upload has ended, and nothing is left of it."""
        await self._rows.database.execute(delete(uploads).where(_IS_OWNED), self.me)


class Uploads(Ownership[UploadClaim]):
    def __init__(
        self,
        database: Database,
        seal: Sealed,
        node: str,
        *,
        kept: timedelta = timedelta(),
        lifetime: timedelta = LIFETIME,
        renewal: timedelta = RENEWAL,
    ) -> None:
        """`kept`: how long an upload lives from its creation on, once some of it has arrived."""
        super().__init__(
            database, uploads, "upload-claim", node, lifetime=lifetime, renewal=renewal, returning=[uploads.c.wanted]
        )
        self.seal = seal
        self.kept = clock.milliseconds(kept)
        self._claims: dict[str, UploadClaim] = {}
        self._stopping = False

    async def add(self, record: UploadRecord, limits: Mapping[Scope, int] | None = None) -> Scope | None:
        """Add a row. If one of the limits leaves no room, which limit that is; exact across workers and nodes."""
        limits = limits or {}
        now = self.database.now()
        row = msgspec.structs.asdict(record) | {
            "details": record.details.decode(),
            "state": self.seal.seal(record.state, record.id) if record.state else None,
            # Until its request has claimed it, a hidden one must not seem to have lost its owner.
            **(self.renewed_values() if record.kind == HIDDEN else _FREE),
            "owner": None,
            "wanted": False,
        }
        counted = {
            "now": now,
            "counted_user": record.user_id,
            "counted_link": record.link,
            "counted_address": record.address,
            **{f"most_of_{scope}": most for scope, most in limits.items()},
        }
        if record.link is None:
            counted_for = select(users.c.id).where(users.c.id == record.user_id)
        else:
            counted_for = select(share_links.c.id).where(share_links.c.id == record.link)
        if await self.database.write_in_turn(counted_for, _adding(*limits), new_row(uploads, row) | counted):
            return None
        for scope in limits:
            found = await self.database.first(select(_has_room(scope).label("room")), counted)
            if found is None or not found.room:
                return scope
        return next(iter(limits))  # there is room again

    async def end_with_links(self) -> None:
        """End the unfinished uploads of links that cannot be used any more."""
        now = self.database.now()
        usable = select(share_links.c.id).where(
            share_links.c.ended_at.is_(None), or_(share_links.c.expires_at.is_(None), share_links.c.expires_at > now)
        )
        theirs = and_(uploads.c.link.is_not(None), uploads.c.link.not_in(usable), uploads.c.expires_at > now)
        await self.database.execute(ended(theirs))

    async def get(self, upload_id: str) -> UploadRecord | None:
        row = await self._row(upload_id)
        return self._record(row) if row else None

    async def expired(self, limit: int = 1000) -> list[tuple[str, str]]:
        """The connections and ids of uploads of any kind that may be removed, and that no request is writing."""
        now = self.database.now()
        query = select(uploads.c.connection, uploads.c.id, uploads.c.owner, uploads.c.owned_until)
        query = query.where(or_(uploads.c.expires_at <= now, uploads.c.kind == HIDDEN))
        rows = await self.database.fetch(query.order_by(uploads.c.expires_at).limit(limit))
        return [(row.connection, row.id) for row in rows if self.is_over(row)]

    async def drop(self, upload_id: str) -> None:
        await self.database.execute(delete(uploads).where(uploads.c.id == upload_id))

    def stop(self) -> None:
        """End the requests that send uploads: their clients go on with another worker or node."""
        self._stopping = True
        for claim in self._claims.values():
            claim.yield_to(_stopping())

    @asynccontextmanager
    async def claimed(self, upload_id: str, user_id: int | None = None) -> AsyncGenerator[UploadClaim | None]:
        """The upload for this request alone until the context ends; None if there is none.

        Without a user, any upload can be claimed, also one that a single request sends; those have no user.
        """
        claim = await self._claim(upload_id, user_id)
        if claim is None:
            yield None
            return
        self._claims[upload_id] = claim
        if self._stopping:  # it was claimed meanwhile
            claim.yield_to(_stopping())
        try:
            yield claim
        finally:
            if self._claims.get(upload_id) is claim:
                del self._claims[upload_id]
            await claim.release()

    async def _claim(self, upload_id: str, user_id: int | None) -> UploadClaim | None:
        deadline = asyncio.get_running_loop().time() + _MAX_WAIT_SECONDS
        former: AnyRow | None = None
        while True:
            if (claim := await self._try_claim(upload_id, user_id, former)) is not None:
                return claim
            row = await self._row(upload_id)
            if row is None or user_id not in (None, row.user_id):
                return None
            if former is None or row.owner != former.owner:
                await self._want(row)
            former = row
            if asyncio.get_running_loop().time() > deadline:
                raise Unavailable("Another request is still writing this upload. Try again.", retry_after=2)
            await asyncio.sleep(_POLL_SECONDS)

    async def _try_claim(self, upload_id: str, user_id: int | None, former: AnyRow | None) -> UploadClaim | None:
        """Take the upload if it has no owner, or one that has died."""
        claim = self.new_claim()
        values = {
            "upload_id": upload_id,
            "any_user": user_id is None,
            "user": user_id,
            "now": self.database.now(),
            "dead": former.owner if former is not None and has_ended(former.owner) else None,
            "new_owner": claim["owner"],
            "until": claim["owned_until"],
        }
        rows = await self.database.write(_CLAIM, values, durable=False)
        return UploadClaim(self, claim, self._record(rows[0])) if rows else None

    async def _want(self, row: AnyRow) -> None:
        if claim := self._claims.get(row.id):  # in this process it need not be noticed first
            claim.yield_to()
        mine = and_(uploads.c.id == row.id, uploads.c.owner == row.owner)
        await self.database.execute(update(uploads).where(mine).values(wanted=True), durable=False)

    async def _row(self, upload_id: str) -> AnyRow | None:
        return await self.database.first(select(uploads).where(uploads.c.id == upload_id))

    def _record(self, row: AnyRow) -> UploadRecord:
        state = self.seal.open(row.state, row.id) if row.state else None
        values = {name: getattr(row, name) for name in UploadRecord.__struct_fields__}
        return UploadRecord(**values | {"details": row.details.encode(), "state": state})


async def unfinished(database: Database) -> Sequence[AnyRow]:
    """The uploads that have not ended, the oldest first, with the names of their users."""
    columns = (uploads.c.id, uploads.c.connection, uploads.c.path, uploads.c.size, uploads.c.offset)
    times = (uploads.c.created_at, uploads.c.expires_at, uploads.c.owned_until)
    joined = uploads.outerjoin(users, users.c.id == uploads.c.user_id)
    query = select(*columns, *times, users.c.name.label("user")).select_from(joined).where(_open(database))
    return await database.fetch(query.order_by(uploads.c.created_at, uploads.c.id))


async def count_unfinished(database: Database) -> int:
    [row] = await database.fetch(select(func.count().label("number")).where(_open(database)))
    return int(row.number)


def _open(database: Database) -> ColumnElement[bool]:
    return and_(uploads.c.status == OPEN, uploads.c.kind == RESUMABLE, uploads.c.expires_at > database.now())


async def end(database: Database, upload_id: str) -> bool:
    """End an upload: no request can go on with it, and the next sweep removes it. False if there is none."""
    return await database.execute(ended(and_(uploads.c.id == upload_id, _open(database)))) > 0


def ended(which: ColumnElement[bool]) -> Update:
    """Ends unfinished uploads: the requests that send them make way, and the next sweep removes them."""
    unfinished = and_(which, uploads.c.kind == RESUMABLE, uploads.c.status != FINISHED)
    return update(uploads).where(unfinished).values(expires_at=0, wanted=True)


def _stopping() -> Unavailable:
    return Unavailable("The gateway is stopping. Continue the upload in a moment.", retry_after=1)
