"""Sessions, and the access and refresh tokens that open them.

Tokens are random and opaque, and stored only as SHA-256. A sign-in creates a family, and every token that comes of it
belongs to that family. A session ends by deleting its family: tokens and tickets go with it, so no ended token can
still be usable.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from portico.accounts import clock
from portico.accounts.users import USER_COLUMNS, User, user_of
from portico.errors import NotSignedIn
from portico.rights import format_rights
from portico.single_flight import SingleFlight
from portico.store.database import AnyRow, Database
from portico.store.tables import access_tokens, families, refresh_tokens, tickets, users

GRACE_SECONDS: Final = 60
"""How long a used refresh token still works, in seconds: for a second tab, or a response that got lost."""
CACHED_SECONDS: Final = 0.8
"""How long a session is cached, in seconds."""

_SHARED_SECONDS = 0.2
"""How long a query may be shared, in seconds; with `CACHED_SECONDS`, no answer is older than one second."""
_MAX_LENGTH = 256  # of anything sent as a token
_MAX_CACHED = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    user: User
    family: str = field(repr=False)
    expires_at: datetime
    token_digest: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenPair:
    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    expires_in: int
    scope: str
    user: User


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

_BY_DIGEST = SESSION.where(access_tokens.c.digest == bindparam("digest"))
_REFRESHABLE = (
    select(refresh_tokens, families.c.user_id, users.c.name)
    .join(families, refresh_tokens.c.family == families.c.id)
    .join(users, families.c.user_id == users.c.id)
    .where(refresh_tokens.c.digest == bindparam("digest"))
)
_ENABLED = select(users.c.id).where(users.c.id == bindparam("id"), users.c.disabled.is_(False))


def digest_of(token: str) -> bytes:
    """What is stored of a token or ticket; `NotSignedIn` if it cannot be one."""
    if len(token) > _MAX_LENGTH or not token.isascii():
        raise not_signed_in()
    return sha256(token.encode()).digest()


def session_of(row: AnyRow | None) -> Session | None:
    """The session in a row of `SESSION`; None if it has ended."""
    if row is None or row.disabled or row.token_expires_at <= clock.now():
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
        self._cache: dict[bytes, tuple[float, int, Session]] = {}
        self._queries: SingleFlight[bytes, Session | None] = SingleFlight(_SHARED_SECONDS)
        self._checks: SingleFlight[int, bool] = SingleFlight()
        self._generation = 0

    async def issue(self, user: User, *, within: AsyncConnection | None = None) -> TokenPair:
        """Start a session; `NotSignedIn` if the user was disabled or deleted, or got a new password meanwhile."""
        async with self._database.begin(within) as transaction:
            current = await _locked(transaction, user.id)
            if current is None or current.disabled or current.password_changed_at != user.password_changed_at:
                raise not_signed_in()
            family = secrets.token_hex(16)
            await transaction.execute(
                insert(families).values(id=family, user_id=user.id, expires_at=self._family_end())
            )
            return await self._add_pair(transaction, current, family)

    async def refresh(
        self, refresh_token: str, *, begin: Callable[[str], object] = lambda _: None
    ) -> TokenPair:
        """Exchange a refresh token for a new pair. If it was replaced long ago, the whole family is ended.

        `begin` is called with the user's name before anything changes, and may raise; not for an unknown token.
        """
        digest = digest_of(refresh_token)
        async with self._database.connect() as reading:  # a guess must not take the write lock
            found = (await reading.execute(_REFRESHABLE, {"digest": digest})).first()
        if found is None or found.expires_at <= clock.now():
            raise not_signed_in()
        begin(found.name)
        async with self._database.begin() as transaction:
            pair = await self._rotate(transaction, digest, found)
        if pair is None:
            self.forget()
            raise TokenReused(not_signed_in().detail)
        return pair

    async def session(self, access_token: str) -> Session:
        """The session of an access token; `NotSignedIn` if it is unknown, expired or ended, or its user disabled."""
        digest = digest_of(access_token)
        cached = self._cache.get(digest)
        if cached is not None and clock.monotonic() < cached[0] and clock.now() < cached[1]:
            return cached[2]
        session = await self._queries.run(digest, lambda: self._query(digest, self._generation))
        if session is None:
            raise not_signed_in()
        return session

    async def end(self, session: Session) -> None:
        """Log out: delete the family with its tokens and tickets."""
        async with self._database.begin() as transaction:
            await transaction.execute(delete(families).where(families.c.id == session.family))
        self.forget()

    async def is_enabled(self, user_id: int) -> bool:
        """Whether the user exists and is enabled now, without a cache."""
        return await self._checks.run(user_id, lambda: self._check(user_id))

    async def sweep(self) -> None:
        """Delete what has expired, tickets included."""
        now = clock.now()
        async with self._database.begin() as transaction:
            for table in (families, refresh_tokens, access_tokens, tickets):
                await transaction.execute(delete(table).where(table.c.expires_at <= now))

    def forget(self) -> None:
        """Clear the cache, and do not share queries that are under way."""
        self._generation += 1
        self._cache.clear()
        self._queries.forget_all()

    async def _query(self, digest: bytes, generation: int) -> Session | None:
        queried_at = clock.monotonic()
        async with self._database.connect() as reading:
            row = (await reading.execute(_BY_DIGEST, {"digest": digest})).first()
        session = session_of(row)
        if session is not None and row is not None and generation == self._generation:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            self._cache[digest] = (queried_at + CACHED_SECONDS, row.token_expires_at, session)
        return session

    async def _check(self, user_id: int) -> bool:
        async with self._database.connect() as reading:
            self._checks.forget(user_id)  # later callers need a newer answer
            return (await reading.execute(_ENABLED, {"id": user_id})).first() is not None

    async def _rotate(self, transaction: AsyncConnection, digest: bytes, found: AnyRow) -> TokenPair | None:
        """The new pair; None if the family was ended, which the transaction has to commit."""
        # Locked from the user down to the token, as when a user is disabled or a family ended.
        user = await _locked(transaction, found.user_id)
        held = update(families).where(families.c.id == found.family).values(expires_at=self._family_end())
        if user is None or user.disabled or not (await transaction.execute(held)).rowcount:
            raise not_signed_in()
        token = (await transaction.execute(_REFRESHABLE, {"digest": digest})).first()
        if token is None:
            raise not_signed_in()
        now = clock.now()
        if token.replaced_at is None:
            used = update(refresh_tokens).where(refresh_tokens.c.digest == digest).values(replaced_at=now)
            await transaction.execute(used)
        elif now - token.replaced_at > GRACE_SECONDS * 1000:
            # The token was copied, and there is no telling which client is the owner.
            await transaction.execute(delete(families).where(families.c.id == found.family))
            return None
        return await self._add_pair(transaction, user, found.family)

    async def _add_pair(self, transaction: AsyncConnection, user: User, family: str) -> TokenPair:
        access_token, refresh_token = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        for table, token, lifetime in (
            (access_tokens, access_token, self._token_lifetime),
            (refresh_tokens, refresh_token, self._refresh_lifetime),
        ):
            expires_at = clock.now() + _milliseconds(lifetime)
            await transaction.execute(
                insert(table).values(digest=digest_of(token), family=family, expires_at=expires_at)
            )
        return TokenPair(
            access_token,
            refresh_token,
            expires_in=int(self._token_lifetime.total_seconds()),
            scope=format_rights(user.rights),
            user=user,
        )

    def _family_end(self) -> int:
        return clock.now() + _milliseconds(max(self._token_lifetime, self._refresh_lifetime))


async def _locked(transaction: AsyncConnection, user_id: int) -> User | None:
    """The user, locked until the transaction ends."""
    query = select(*USER_COLUMNS).where(users.c.id == user_id).with_for_update(read=True)
    row = (await transaction.execute(query)).first()
    return None if row is None else user_of(row)


def _milliseconds(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)
