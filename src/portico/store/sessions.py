"""Sessions with their tokens. A session is a family of tokens; deleting its row ends them, and their tickets."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from sqlalchemy import bindparam, delete, insert, select, update

from portico.runtime import clock
from portico.store.batched_lookups import BatchedLookups
from portico.store.database import SWEEP_WAIT, AnyRow, Database, Statement
from portico.store.encrypted_columns import Confidential
from portico.store.tables import access_tokens, families, refresh_tokens, tickets, users
from portico.store.users import USER_COLUMNS, User, user_of

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

GRACE_SECONDS: Final = 60
"""How long a used refresh token still works, in seconds: for a second tab, or a response that got lost."""


Digests: TypeAlias = tuple[bytes, bytes]
"""Of an access token and a refresh token."""


class Session(Confidential, msgspec.Struct, frozen=True):
    user: User
    family: str
    expires_at: datetime
    digest: bytes
    """Of the access token."""


class OpenSession(msgspec.Struct, frozen=True):
    id: str
    device: str | None
    """The `User-Agent`, or what else a client calls itself."""
    address: str | None
    """Of the last refresh."""
    created_at: datetime
    used_at: datetime
    """When it was begun, or refreshed last."""


SESSION = (
    select(
        *USER_COLUMNS,
        families.c.id.label("family"),
        access_tokens.c.digest.label("token_digest"),
        access_tokens.c.expires_at.label("token_expires_at"),
    )
    .select_from(access_tokens)
    .join(families, access_tokens.c.family == families.c.id)
    .join(users, families.c.user_id == users.c.id)
)
_REFRESHABLE = (
    select(*USER_COLUMNS, refresh_tokens.c.family, refresh_tokens.c.expires_at, refresh_tokens.c.replaced_at)
    .select_from(users)
    .join(families, families.c.user_id == users.c.id)
    .join(refresh_tokens, refresh_tokens.c.family == families.c.id)
    .where(refresh_tokens.c.digest == bindparam("digest"))
)
# Locked from the user down to the family, as when a user is disabled.
_LOCKED = _REFRESHABLE.with_for_update(of=[users, families], key_share=True)
_USERS = select(*USER_COLUMNS)


class SessionRecords:
    def __init__(self, database: Database, access_lifetime: timedelta, refresh_lifetime: timedelta) -> None:
        self._database = database
        self._lifetimes = clock.milliseconds(access_lifetime), clock.milliseconds(refresh_lifetime)
        self._lookups = BatchedLookups(database, SESSION, access_tokens.c.digest)
        self._users = BatchedLookups(database, _USERS, users.c.id)

    async def begin(
        self, family: str, user: User, digests: Digests, along: Sequence[Statement], device: str, address: str
    ) -> User | None:
        """Start a session, a new `family`, with these tokens; None if the user may not act any more, or got a new password in the meantime."""

        async def store(transaction: "AsyncConnection") -> User | None:
            query = select(*USER_COLUMNS).where(users.c.id == user.id).with_for_update(read=True)
            row, now = (await transaction.execute(query)).first(), self._database.now()
            if row is None or not (found := user_of(row)).may_act(now):
                return None
            if found.password_changed_at != user.password_changed_at:
                return None
            begun = insert(families).values(
                id=family,
                user_id=user.id,
                expires_at=now + max(self._lifetimes),
                created_at=now,
                used_at=now,
                device=device[:256] or None,
                address=address[:64] or None,
            )
            await self._store(transaction, begun, *self._tokens(family, digests), *along)
            return found

        return await self._database.transact(store)

    async def find(self, token: bytes) -> tuple[Session, int] | None:
        """The session of an access token, and when that or the account expires; None if it has, or the user is disabled."""
        row = await self._lookups.first(token)
        session = session_of(row, self._database.now())
        if session is None or row is None:
            return None
        end = session.user.expires_at
        return session, row.token_expires_at if end is None else min(row.token_expires_at, clock.from_datetime(end))

    async def refreshable(self, token: bytes) -> User | None:
        row = await self._database.first(_REFRESHABLE, {"digest": token})
        return None if row is None or row.expires_at <= self._database.now() else user_of(row)

    async def rotate(self, token: bytes, digests: Digests, address: str) -> tuple[User | None, bool]:
        """Replace a refresh token. If that was done long ago, the session ends instead: then the second value is true."""

        async def store(transaction: "AsyncConnection") -> tuple[User | None, bool]:
            row, now = (await transaction.execute(_LOCKED, {"digest": token})).first(), self._database.now()
            if row is None or not (user := user_of(row)).may_act(now):
                return None, False
            own = families.c.id == row.family
            if row.replaced_at is not None and now - row.replaced_at > GRACE_SECONDS * 1000:
                # The token was copied, and there is no telling which client is the owner.
                await transaction.execute(delete(families).where(own))
                return None, True
            used_now: dict[str, int | str] = {"expires_at": now + max(self._lifetimes), "used_at": now}
            if address:
                used_now["address"] = address[:64]
            first_use = refresh_tokens.c.digest == token, refresh_tokens.c.replaced_at.is_(None)
            await self._store(
                transaction,
                update(families).where(own).values(used_now),
                update(refresh_tokens).where(*first_use).values(replaced_at=now),
                *self._tokens(row.family, digests),
            )
            return user, False

        return await self._database.transact(store)

    async def user(self, user_id: int) -> User | None:
        """The user as of now, who may be disabled; None if there is none any more."""
        row = await self._users.first(user_id)
        return None if row is None else user_of(row)

    async def all(self, user: User) -> list[OpenSession]:
        query = select(families).where(families.c.user_id == user.id, families.c.expires_at > self._database.now())
        rows = await self._database.fetch(query.order_by(families.c.used_at.desc()))
        return [
            OpenSession(
                row.id, row.device, row.address, clock.to_datetime(row.created_at), clock.to_datetime(row.used_at)
            )
            for row in rows
        ]

    async def end(self, user: User, family: str) -> bool:
        own = families.c.user_id == user.id, families.c.id == family
        return await self._database.execute(delete(families).where(*own)) > 0

    async def end_others(self, session: Session) -> None:
        others = families.c.user_id == session.user.id, families.c.id != session.family
        await self._database.execute(delete(families).where(*others))

    async def sweep(self) -> None:
        now = self._database.now()
        for table in (families, refresh_tokens, access_tokens, tickets):
            await self._database.execute(delete(table).where(table.c.expires_at <= now), wait=SWEEP_WAIT)

    async def _store(self, transaction: "AsyncConnection", *statements: Statement) -> None:
        async with self._database.batch(transaction):
            for statement in statements:
                await transaction.execute(statement)

    def _tokens(self, family: str, digests: Digests) -> Iterator[Statement]:
        new = zip((access_tokens, refresh_tokens), digests, self._lifetimes, strict=True)
        for table, digest, lifetime in new:
            expires_at = self._database.now() + lifetime
            yield insert(table).values(digest=digest, family=family, expires_at=expires_at)


def session_of(row: AnyRow | None, now: int) -> Session | None:
    """The session in a row of `SESSION`; None if it has ended by `now`."""
    if row is None or row.token_expires_at <= now or not (user := user_of(row)).may_act(now):
        return None
    return Session(user, row.family, clock.to_datetime(row.token_expires_at), row.token_digest)
