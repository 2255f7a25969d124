"""Resumable uploads: a row for each, and one request at a time that writes.

A newer request for the same upload takes over: it asks the owner, in whatever process on whatever node that is, to make
way, and waits until it has, or has died. Every save of the owner is conditional on its fence, so that an owner that was
given up for dead can no longer save.

Claims and progress do not wait for the disk. After a power failure nobody owns anything, and a client that asks
learns how much of its file is left.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Final

import msgspec
from sqlalchemy import Boolean, and_, bindparam, delete, func, insert, or_, select, update

from portico import processes
from portico.errors import PorticoError, Unavailable, UploadTakenOver
from portico.processes import ProcessState
from portico.store.database import AnyRow, Database
from portico.store.prepared import Prepared
from portico.store.renewals import Renewals
from portico.store.sealed import Sealed
from portico.store.tables import uploads, users

RESUMABLE: Final = "resumable"
OPEN: Final = "open"
FINISHED: Final = "finished"
PART: Final = "part"
"""A partial upload that is complete, and not joined yet."""

_MILLISECOND = timedelta(milliseconds=1)
LIFETIME: Final = timedelta(seconds=10)
"""How long an upload has an owner that vanished, if nobody can see that it has."""
RENEWAL: Final = timedelta(seconds=2)
"""How often owners renew, and see whether they are to make way."""
_POLL_SECONDS: Final = 0.05
_MAX_WAIT_SECONDS: Final = 25.0

# Built once: building one takes as long as running it.
_IS_OWNED = and_(uploads.c.id == bindparam("upload_id"), uploads.c.fence == bindparam("known_fence"))
_OFFSET = update(uploads).where(_IS_OWNED).values(offset=bindparam("new_offset"))
_STATE: dict[str, Any] = {"state": bindparam("new_state")}
_FREE: dict[str, Any] = {"owner": None, "owned_until": 0}
_PROGRESS = {
    (with_state, last): Prepared(
        _OFFSET.values((_STATE if with_state else {}) | (_FREE if last else {})).returning(uploads.c.wanted)
    )
    for with_state in (False, True)
    for last in (False, True)
}
_RELEASE = Prepared(update(uploads).where(_IS_OWNED).values(_FREE))
_CLAIM = Prepared(
    update(uploads)
    .where(
        uploads.c.id == bindparam("upload_id"),
        or_(bindparam("any_user", type_=Boolean), uploads.c.user_id == bindparam("user")),
        or_(
            uploads.c.owner.is_(None),
            uploads.c.owned_until <= bindparam("now"),
            uploads.c.fence == bindparam("dead_fence"),
        ),
    )
    .values(
        owner=bindparam("new_owner"),
        fence=uploads.c.fence + 1,
        owned_until=bindparam("until"),
        wanted=False,
    )
    .returning(*uploads.c)
)


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


class Claim:
    """The right to write one upload. It is renewed until it is released or taken over."""

    def __init__(
        self, database: Database, seal: Sealed, renewals: Renewals["Claim"], record: UploadRecord, row: AnyRow
    ) -> None:
        self.record = record
        self.owner: str = row.owner
        """Of this claim alone."""
        self.interrupt: Callable[[], None] | None = None
        """Called when the owner must make way: it ends a wait for the client."""
        self._makes_way_for: PorticoError | None = None
        self._database = database
        self._seal = seal
        self._mine = {"upload_id": record.id, "known_fence": row.fence}
        self._released = False
        self._state = record.state
        """What was saved last: most requests do not change it."""
        # Also while it makes way: what it has begun, such as storing the file, must not be done by two at once.
        self._renewals = renewals
        renewals.add(self)

    @property
    def has_expired(self) -> bool:
        """Whether it may be removed."""
        return self.record.expires_at <= self._database.now()

    async def save(self, **values: Any) -> None:
        """Change the row; `UploadTakenOver` if it is no longer this owner's."""
        state: bytes | None = values.get("state")
        if state:
            values["state"] = self._seal.seal(state, self.record.id)
        statement = update(uploads).where(_IS_OWNED).values(values).returning(uploads.c.wanted)
        self._look(await self._database.write(statement, self._mine))
        self._state = state or self._state

    async def progress(self, offset: int, state: bytes, *, last: bool = False) -> None:
        """As `save`; with `last`, the upload is let go of at the same time."""
        values = {**self._mine, "new_offset": offset}
        if with_state := state != self._state:
            values["new_state"] = self._seal.seal(state, self.record.id)
        self._look(await self._database.write(_PROGRESS[with_state, last], values, durable=False))
        self._state = state
        self._released = self._released or last

    def _look(self, rows: Sequence[AnyRow]) -> None:
        if not rows:
            self.make_way()
            raise UploadTakenOver
        if rows[0].wanted:
            self.make_way()

    def check(self) -> None:
        """`UploadTakenOver` if another request wants the upload; `Unavailable` if the gateway stops."""
        if self._makes_way_for:
            raise self._makes_way_for

    def make_way(self, reason: PorticoError | None = None) -> None:
        """End what waits for the client, because another request wants the upload or the gateway stops."""
        self._makes_way_for = self._makes_way_for or reason or UploadTakenOver()
        if self.interrupt:
            self.interrupt()

    async def release(self) -> None:
        await self._renewals.remove(self)
        if not self._released:
            with suppress(PorticoError):  # then it expires
                await self._database.execute(_RELEASE, self._mine, durable=False)

    async def remove(self) -> None:
        """The upload has ended, and nothing is left of it."""
        await self._database.execute(delete(uploads).where(_IS_OWNED), self._mine)


class Uploads:
    def __init__(
        self,
        database: Database,
        seal: Sealed,
        node: str,
        *,
        lifetime: timedelta = LIFETIME,
        renewal: timedelta = RENEWAL,
    ) -> None:
        self._database = database
        self._seal = seal
        self._node = node[:40]
        self._lifetime = lifetime
        self._claims: dict[str, Claim] = {}
        self._stopping = False
        self._renewals = Renewals("upload-claim", renewal, self._renew)

    async def add(self, record: UploadRecord, kind: str = RESUMABLE) -> None:
        await self._database.execute(
            insert(uploads).values(
                id=record.id,
                user_id=record.user_id,
                connection=record.connection,
                kind=kind,
                status=record.status,
                path=record.path,
                size=record.size,
                offset=record.offset,
                details=record.details.decode(),
                state=self._seal.seal(record.state, record.id) if record.state else None,
                created_at=record.created_at,
                expires_at=record.expires_at,
            )
        )

    async def open_by(self, user_id: int, *, details_with: str = "") -> int:
        """How many uploads of the user have not ended, or wait to be joined; those with such details only."""
        mine = and_(
            uploads.c.user_id == user_id, uploads.c.status.in_((OPEN, PART)), uploads.c.kind == RESUMABLE
        )
        query = select(func.count().label("number")).where(mine)
        if details_with:
            query = query.where(uploads.c.details.contains(details_with, autoescape=True))
        row = await self._database.first(query)
        return int(row.number) if row else 0

    async def get(self, upload_id: str) -> UploadRecord | None:
        row = await self._row(upload_id)
        return self._record(row) if row else None

    async def expired(self, limit: int = 1000) -> list[tuple[str, str]]:
        """The connections and ids of uploads of any kind that may be removed."""
        query = select(uploads.c.connection, uploads.c.id).where(uploads.c.expires_at <= self._database.now())
        query = query.order_by(uploads.c.expires_at).limit(limit)
        return [(row.connection, row.id) for row in await self._database.fetch(query)]

    async def drop(self, upload_id: str) -> None:
        """Forget an upload, no matter who owns it."""
        await self._database.execute(delete(uploads).where(uploads.c.id == upload_id))

    def stop(self) -> None:
        """End the requests that send uploads: their clients go on with another worker or node."""
        self._stopping = True
        for claim in self._claims.values():
            claim.make_way(_stopping())

    @asynccontextmanager
    async def claimed(self, upload_id: str, user_id: int | None = None) -> AsyncGenerator[Claim | None]:
        """The upload for this request alone until the context ends; None if there is none.

        Without a user, any upload can be claimed, also one that a single request sends; those have no user.
        """
        claim = await self._claim(upload_id, user_id)
        if claim is None:
            yield None
            return
        self._claims[upload_id] = claim
        if self._stopping:  # it was claimed meanwhile
            claim.make_way(_stopping())
        try:
            yield claim
        finally:
            if self._claims.get(upload_id) is claim:
                del self._claims[upload_id]
            await claim.release()

    async def _claim(self, upload_id: str, user_id: int | None) -> Claim | None:
        deadline = asyncio.get_running_loop().time() + _MAX_WAIT_SECONDS
        former: AnyRow | None = None
        while True:
            if (claim := await self._try_claim(upload_id, user_id, former)) is not None:
                return claim
            row = await self._row(upload_id)
            if row is None or user_id not in (None, row.user_id):
                return None
            if former is None or row.fence != former.fence:
                await self._want(row)
            former = row
            if asyncio.get_running_loop().time() > deadline:
                raise Unavailable("Another request still writes this upload; try again.", retry_after=2)
            await asyncio.sleep(_POLL_SECONDS)

    async def _try_claim(self, upload_id: str, user_id: int | None, former: AnyRow | None) -> Claim | None:
        """Take the upload if it has no owner, or one that has died."""
        now = self._database.now()
        is_dead = former is not None and former.owner and _has_died(former.owner)
        values = {
            "upload_id": upload_id,
            "any_user": user_id is None,
            "user": user_id,
            "now": now,
            "dead_fence": former.fence if former is not None and is_dead else -1,
            "new_owner": f"{processes.name_of(os.getpid())}-{secrets.token_hex(8)}@{self._node}",
            "until": now + self._lifetime // _MILLISECOND,
        }
        rows = await self._database.write(_CLAIM, values, durable=False)
        if not rows:
            return None
        return Claim(self._database, self._seal, self._renewals, self._record(rows[0]), rows[0])

    async def _renew(self, claims: Sequence[Claim]) -> list[Claim]:
        mine = and_(
            uploads.c.id.in_([claim.record.id for claim in claims]),
            uploads.c.owner.in_([claim.owner for claim in claims]),
        )
        end = self._database.now() + self._lifetime // _MILLISECOND
        statement = update(uploads).where(mine).values(owned_until=end)
        rows = await self._database.write(
            statement.returning(uploads.c.owner, uploads.c.wanted), durable=False
        )
        wanted = {row.owner: row.wanted for row in rows}
        for claim in claims:
            if wanted.get(claim.owner, True):  # or it is lost
                claim.make_way()
        return [claim for claim in claims if claim.owner in wanted]

    async def _want(self, row: AnyRow) -> None:
        if claim := self._claims.get(row.id):  # in this process it need not be noticed first
            claim.make_way()
        mine = and_(uploads.c.id == row.id, uploads.c.fence == row.fence)
        await self._database.execute(update(uploads).where(mine).values(wanted=True), durable=False)

    async def _row(self, upload_id: str) -> AnyRow | None:
        return await self._database.first(select(uploads).where(uploads.c.id == upload_id))

    def _record(self, row: AnyRow) -> UploadRecord:
        return UploadRecord(
            row.id,
            row.user_id,
            row.connection,
            row.status,
            row.path,
            row.size,
            row.offset,
            row.details.encode(),
            self._seal.open(row.state, row.id) if row.state else None,
            row.created_at,
            row.expires_at,
        )


async def unfinished(database: Database) -> Sequence[AnyRow]:
    """The uploads that have not ended, the oldest first, with the names of their users."""
    columns = (uploads.c.id, uploads.c.connection, uploads.c.path, uploads.c.size, uploads.c.offset)
    times = (uploads.c.created_at, uploads.c.expires_at, uploads.c.owned_until)
    joined = uploads.outerjoin(users, users.c.id == uploads.c.user_id)
    mine = and_(uploads.c.status == OPEN, uploads.c.kind == RESUMABLE, uploads.c.expires_at > database.now())
    query = select(*columns, *times, users.c.name.label("user")).select_from(joined).where(mine)
    return await database.fetch(query.order_by(uploads.c.created_at, uploads.c.id))


async def count_unfinished(database: Database) -> int:
    mine = and_(uploads.c.status == OPEN, uploads.c.kind == RESUMABLE, uploads.c.expires_at > database.now())
    row = await database.first(select(func.count().label("number")).where(mine))
    return int(row.number) if row else 0


async def end(database: Database, upload_id: str) -> bool:
    """End an upload: no request can go on with it, and the next sweep removes it. False if there is none."""
    mine = and_(
        uploads.c.id == upload_id,
        uploads.c.kind == RESUMABLE,
        uploads.c.status == OPEN,
        uploads.c.expires_at > database.now(),
    )
    return await database.execute(update(uploads).where(mine).values(expires_at=0, wanted=True)) > 0


def _stopping() -> Unavailable:
    return Unavailable("The gateway is stopping; go on with the upload.", retry_after=1)


def _has_died(owner: str) -> bool:
    return processes.state_of(owner) is ProcessState.ENDED
