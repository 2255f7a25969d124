"""Tokens: random and opaque, kept only as their SHA-256.

A sign-in opens a family, and every token that comes of it belongs to that family. Ending anything means to delete
the family: its tokens and tickets go with it, so nothing that exists can be ended but still usable.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from portico.accounts import moments
from portico.accounts.users import USER_COLUMNS, User, user_of
from portico.errors import NotSignedIn
from portico.joint import Joint
from portico.rights import format_rights
from portico.store.database import AnyRow, Database
from portico.store.tables import access_tokens, families, refresh_tokens, tickets, users

GRACE: Final = 60
"""Seconds that a refresh token still works after it was used: for a second tab, or an answer that got lost."""
CACHED: Final = 0.8
"""Seconds that a session is believed without asking the database."""

_JOINABLE = 0.2
"""Seconds that the answer to somebody else's question may be old; with `CACHED`, no more than one in all."""
_LONGEST = 256  # characters of anything presented as a token
_MOST_CACHED = 10_000


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
    """What is stored of a token or ticket; `NotSignedIn` for what cannot be one."""
    if len(token) > _LONGEST or not token.isascii():
        raise not_signed_in()
    return sha256(token.encode()).digest()


def session_of(row: AnyRow | None) -> Session | None:
    """The session in a row of `SESSION`, if it is one that may still be used."""
    if row is None or row.disabled or row.token_expires_at <= moments.now():
        return None
    return Session(user_of(row), row.family, moments.to_datetime(row.token_expires_at), row.token_digest)


def not_signed_in() -> NotSignedIn:
    return NotSignedIn("The token is unknown, expired or ended; sign in again.")


class TokenReused(NotSignedIn):
    """A refresh token came back long after it was replaced; all tokens of that sign-in were ended."""

    code = "token-reused"


class Tokens:
    def __init__(self, database: Database, *, token_lifetime: timedelta, refresh_lifetime: timedelta) -> None:
        self._database = database
        self._token_lifetime = token_lifetime
        self._refresh_lifetime = refresh_lifetime
        self._cache: dict[bytes, tuple[float, int, Session]] = {}
        self._asking: Joint[bytes, Session | None] = Joint(_JOINABLE)
        self._checking: Joint[int, bool] = Joint()
        self._generation = 0

    async def issue(self, user: User, *, within: AsyncConnection | None = None) -> TokenPair:
        """Open a session; `NotSignedIn` if the user was disabled, deleted or given a new password meanwhile."""
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
        """A new pair for an old refresh token. Its use long after it was replaced ends the whole family.

        `begin` is called with the user's name before anything changes, and may raise; never for an unknown token.
        """
        digest = digest_of(refresh_token)
        async with self._database.connect() as reading:  # a guess must not cost the write lock
            found = (await reading.execute(_REFRESHABLE, {"digest": digest})).first()
        if found is None or found.expires_at <= moments.now():
            raise not_signed_in()
        begin(found.name)
        async with self._database.begin() as transaction:
            pair = await self._rotate(transaction, digest, found)
        if pair is None:
            self.forget()
            raise TokenReused(not_signed_in().detail)
        return pair

    async def session(self, access_token: str) -> Session:
        """Whose token this is; `NotSignedIn` if it is unknown, expired or ended, or its user disabled."""
        digest = digest_of(access_token)
        cached = self._cache.get(digest)
        if cached is not None and moments.monotonic() < cached[0] and moments.now() < cached[1]:
            return cached[2]
        session = await self._asking.run(digest, lambda: self._ask(digest, self._generation))
        if session is None:
            raise not_signed_in()
        return session

    async def end(self, session: Session) -> None:
        """Log out: the token, everything of its family, and its tickets."""
        async with self._database.begin() as transaction:
            await transaction.execute(delete(families).where(families.c.id == session.family))
        self.forget()

    async def still_valid(self, user_id: int) -> bool:
        """Whether the user exists and is enabled at this very moment."""
        return await self._checking.run(user_id, lambda: self._check(user_id))

    async def sweep(self) -> None:
        """Delete what expired, tickets included."""
        now = moments.now()
        async with self._database.begin() as transaction:
            for table in (families, refresh_tokens, access_tokens, tickets):
                await transaction.execute(delete(table).where(table.c.expires_at <= now))

    def forget(self) -> None:
        """Believe nothing that was read before this moment."""
        self._generation += 1
        self._cache.clear()
        self._asking.close_all()

    async def _ask(self, digest: bytes, generation: int) -> Session | None:
        asked_at = moments.monotonic()
        async with self._database.connect() as reading:
            row = (await reading.execute(_BY_DIGEST, {"digest": digest})).first()
        session = session_of(row)
        if session is not None and row is not None and generation == self._generation:
            if len(self._cache) >= _MOST_CACHED:
                self._cache.clear()
            self._cache[digest] = (asked_at + CACHED, row.token_expires_at, session)
        return session

    async def _check(self, user_id: int) -> bool:
        async with self._database.connect() as reading:
            self._checking.close(user_id)  # who asks from now on must not be told what is read now
            return (await reading.execute(_ENABLED, {"id": user_id})).first() is not None

    async def _rotate(self, transaction: AsyncConnection, digest: bytes, found: AnyRow) -> TokenPair | None:
        """The new pair; or None if the family was ended, which the transaction then has to keep."""
        # Locked from the user down to the token, the order in which users are disabled and families end.
        user = await _locked(transaction, found.user_id)
        held = update(families).where(families.c.id == found.family).values(expires_at=self._family_end())
        if user is None or user.disabled or not (await transaction.execute(held)).rowcount:
            raise not_signed_in()
        token = (await transaction.execute(_REFRESHABLE, {"digest": digest})).first()
        if token is None:
            raise not_signed_in()
        now = moments.now()
        if token.replaced_at is None:
            used = update(refresh_tokens).where(refresh_tokens.c.digest == digest).values(replaced_at=now)
            await transaction.execute(used)
        elif now - token.replaced_at > GRACE * 1000:
            # Somebody holds a copy of this token, and nobody can tell who is who.
            await transaction.execute(delete(families).where(families.c.id == found.family))
            return None
        return await self._add_pair(transaction, user, found.family)

    async def _add_pair(self, transaction: AsyncConnection, user: User, family: str) -> TokenPair:
        access_token, refresh_token = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        for table, token, lifetime in (
            (access_tokens, access_token, self._token_lifetime),
            (refresh_tokens, refresh_token, self._refresh_lifetime),
        ):
            expires_at = moments.now() + _milliseconds(lifetime)
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
        return moments.now() + _milliseconds(max(self._token_lifetime, self._refresh_lifetime))


async def _locked(transaction: AsyncConnection, user_id: int) -> User | None:
    """The user as he is, and as he stays until this transaction ends."""
    query = select(*USER_COLUMNS).where(users.c.id == user_id).with_for_update(read=True)
    row = (await transaction.execute(query)).first()
    return None if row is None else user_of(row)


def _milliseconds(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)
