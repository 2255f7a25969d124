"""Sessions, and the access and refresh tokens that open them.

Tokens are random and opaque, and stored only as SHA-256. A sign-in creates a family, and every token that comes of it
belongs to that family. A session ends by deleting its family: tokens and tickets go with it, so no ended token can
still be usable.
"""

import builtins
import secrets
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from sqlalchemy import Executable, bindparam, delete, insert, select, update

from portico.accounts.credentials import CredentialCache, digest_of
from portico.model.errors import NotFound, NotSignedIn
from portico.model.rights import format_rights
from portico.runtime import clock
from portico.runtime.tasks import SingleFlight
from portico.store.batched_lookups import BatchedLookups
from portico.store.database import SWEEP_WAIT, AnyRow, Database
from portico.store.tables import access_tokens, families, refresh_tokens, tickets, users
from portico.store.users import USER_COLUMNS, User, user_of

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

GRACE_SECONDS: Final = 60
"""How long a used refresh token still works, in seconds: for a second tab, or a response that got lost."""


class Session(msgspec.Struct, frozen=True):
    user: User
    family: str
    expires_at: datetime
    token_digest: bytes

    def __repr__(self) -> str:
        return "Session(…)"


class OpenSession(msgspec.Struct, frozen=True):
    """A sign-in that has not ended, as its user is shown it. What is not known was begun by an older version."""

    id: str
    device: str | None
    """The `User-Agent`, or what else a client calls itself."""
    address: str | None
    """Of the last refresh."""
    created_at: datetime | None
    used_at: datetime | None
    """When it was begun, or refreshed last."""


class TokenPair(msgspec.Struct, frozen=True):
    access_token: str
    refresh_token: str
    expires_in: int
    scope: str
    user: User
    refresh_expires_in: int

    def __repr__(self) -> str:
        return "TokenPair(…)"


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
    select(
        *USER_COLUMNS,
        refresh_tokens.c.family,
        refresh_tokens.c.expires_at,
        refresh_tokens.c.replaced_at,
    )
    .select_from(users)
    .join(families, families.c.user_id == users.c.id)
    .join(refresh_tokens, refresh_tokens.c.family == families.c.id)
    .where(refresh_tokens.c.digest == bindparam("digest"))
)
# Locked from the user down to the family, as when a user is disabled.
_LOCKED = _REFRESHABLE.with_for_update(of=[users, families], key_share=True)
_ENABLED = select(*USER_COLUMNS).where(users.c.disabled.is_(False))


def session_of(row: AnyRow | None, now: int) -> Session | None:
    """The session in a row of `SESSION`; None if it has ended by `now`."""
    if row is None or row.disabled or row.token_expires_at <= now:
        return None
    return Session(user_of(row), row.family, clock.to_datetime(row.token_expires_at), row.token_digest)


def not_signed_in() -> NotSignedIn:
    return NotSignedIn("The token is unknown, expired or ended; sign in again.")


class TokenReused(NotSignedIn):
    """A refresh token was used long after it was replaced; all tokens of that sign-in were ended."""

    code = "token-reused"


class Sessions:
    """Issues and checks sessions."""

    def __init__(self, database: Database, *, token_lifetime: timedelta, refresh_lifetime: timedelta) -> None:
        self._database = database
        self._token_lifetime = token_lifetime
        self._refresh_lifetime = refresh_lifetime
        self._cache: CredentialCache[Session] = CredentialCache(
            lambda digest: self._query(digest), database.now
        )
        self._checks: SingleFlight[int, User | None] = SingleFlight()
        self._lookups = BatchedLookups(database, SESSION, access_tokens.c.digest)
        self._enabled = BatchedLookups(database, _ENABLED, users.c.id)

    async def issue(
        self, user: User, *, along: Sequence[Executable] = (), device: str = "", address: str = ""
    ) -> TokenPair:
        """Start a session; `NotSignedIn` if the user was disabled or deleted, or got a new password meanwhile.

        The statements in `along` are part of the same transaction. `device` and `address` are shown to the user.
        """
        return await self._database.transact(partial(self._issue, user, along, device, address))

    async def refresh(
        self,
        refresh_token: str,
        *,
        begin: Callable[[str], Awaitable[object]] | None = None,
        address: str = "",
    ) -> TokenPair:
        """Exchange a refresh token for a new pair. If it was replaced long ago, the whole family is ended.

        `begin` is called with the user's name before anything changes, and may raise; not for an unknown token.
        """
        digest = digest_of(refresh_token)
        # A guess must not take the write lock.
        found = await self._database.first(_REFRESHABLE, {"digest": digest})
        if found is None or found.expires_at <= self._database.now():
            raise not_signed_in()
        if begin:
            await begin(found.name)
        pair = await self._database.transact(partial(self._rotate, digest, address))
        if pair is None:
            self.forget()
            raise TokenReused(not_signed_in().detail)
        return pair

    async def session(self, access_token: str) -> Session:
        """The session of an access token; `NotSignedIn` if it is unknown, expired or ended, or its user disabled."""
        session = await self._cache.get(digest_of(access_token))
        if session is None:
            raise not_signed_in()
        return session

    async def end(self, session: Session) -> None:
        """Log out: delete the family with its tokens and tickets."""
        await self._database.execute(delete(families).where(families.c.id == session.family))
        self.forget()

    async def list(self, user: User) -> builtins.list[OpenSession]:
        """The user's sessions, the one that was used last first."""
        query = select(families).where(
            families.c.user_id == user.id, families.c.expires_at > self._database.now()
        )
        rows = await self._database.fetch(query)
        rows = sorted(rows, key=lambda row: row.used_at or 0, reverse=True)
        return [
            OpenSession(row.id, row.device, row.address, _moment(row.created_at), _moment(row.used_at))
            for row in rows
        ]

    async def end_one(self, user: User, session_id: str) -> None:
        """End a session of this user; `NotFound` if there is none."""
        own = families.c.user_id == user.id, families.c.id == session_id
        if not await self._database.execute(delete(families).where(*own)):
            raise NotFound("There is no such session; it may have ended already.")
        self.forget()

    async def end_others(self, session: Session) -> None:
        """End all sessions of the user except this one."""
        others = families.c.user_id == session.user.id, families.c.id != session.family
        await self._database.execute(delete(families).where(*others))
        self.forget()

    async def current_user(self, user_id: int) -> User | None:
        """The user as of now, without a cache; None if the user is disabled or deleted."""
        return await self._checks.run(user_id, lambda: self._check(user_id))

    async def sweep(self) -> None:
        """Delete what has expired, tickets included."""
        now = self._database.now()
        for table in (families, refresh_tokens, access_tokens, tickets):
            await self._database.execute(delete(table).where(table.c.expires_at <= now), wait=SWEEP_WAIT)

    def forget(self) -> None:
        """Clear the cache, and do not share queries that are under way."""
        self._cache.forget()

    async def _query(self, digest: bytes) -> tuple[Session, int] | None:
        row = await self._lookups.first(digest)
        session = session_of(row, self._database.now())
        return (session, row.token_expires_at) if session and row else None

    async def _check(self, user_id: int) -> User | None:
        self._checks.forget(user_id)  # later callers need a newer answer
        row = await self._enabled.first(user_id)
        return None if row is None else user_of(row)

    async def _issue(
        self,
        user: User,
        along: Sequence[Executable],
        device: str,
        address: str,
        transaction: "AsyncConnection",
    ) -> TokenPair:
        query = select(*USER_COLUMNS).where(users.c.id == user.id).with_for_update(read=True)
        row = (await transaction.execute(query)).first()
        if row is None or row.disabled or user_of(row).password_changed_at != user.password_changed_at:
            raise not_signed_in()
        family = secrets.token_hex(16)
        begun = insert(families).values(
            id=family,
            user_id=user.id,
            expires_at=self._family_end(),
            created_at=self._database.now(),
            used_at=self._database.now(),
            device=device[:256] or None,
            address=address[:64] or None,
        )
        return await self._add_pair(transaction, user_of(row), family, begun, *along)

    async def _rotate(self, digest: bytes, address: str, transaction: "AsyncConnection") -> TokenPair | None:
        """The new pair; None if the family was ended, which the transaction has to commit."""
        token = (await transaction.execute(_LOCKED, {"digest": digest})).first()
        if token is None or token.disabled:
            raise not_signed_in()
        now = self._database.now()
        if token.replaced_at is not None and now - token.replaced_at > GRACE_SECONDS * 1000:
            # The token was copied, and there is no telling which client is the owner.
            await transaction.execute(delete(families).where(families.c.id == token.family))
            return None
        used_now: dict[str, int | str] = {"expires_at": self._family_end(), "used_at": now}
        if address:
            used_now["address"] = address[:64]
        prolonged = update(families).where(families.c.id == token.family).values(used_now)
        first_use = refresh_tokens.c.digest == digest, refresh_tokens.c.replaced_at.is_(None)
        used = update(refresh_tokens).where(*first_use).values(replaced_at=now)
        return await self._add_pair(transaction, user_of(token), token.family, prolonged, used)

    async def _add_pair(
        self, transaction: "AsyncConnection", user: User, family: str, *before: Executable
    ) -> TokenPair:
        access_token, refresh_token = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        statements = list(before)
        for table, token, lifetime in (
            (access_tokens, access_token, self._token_lifetime),
            (refresh_tokens, refresh_token, self._refresh_lifetime),
        ):
            expires_at = self._database.now() + clock.milliseconds(lifetime)
            statements.append(
                insert(table).values(digest=digest_of(token), family=family, expires_at=expires_at)
            )
        async with self._database.batch(transaction):
            for statement in statements:
                await transaction.execute(statement)
        return TokenPair(
            access_token,
            refresh_token,
            expires_in=int(self._token_lifetime.total_seconds()),
            scope=format_rights(user.rights),
            user=user,
            refresh_expires_in=int(self._refresh_lifetime.total_seconds()),
        )

    def _family_end(self) -> int:
        return self._database.now() + clock.milliseconds(max(self._token_lifetime, self._refresh_lifetime))


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else clock.to_datetime(milliseconds)
