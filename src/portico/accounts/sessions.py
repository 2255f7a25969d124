"""Sessions, and the access and refresh tokens that open them.

Tokens are random and opaque, and stored only as SHA-256. A sign-in creates a family, and every token that comes of it
belongs to that family. A session ends by deleting its family: tokens and tickets go with it, so no ended token can
still be usable.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import msgspec

from portico.accounts.credentials import CredentialCache, digest_of
from portico.model.errors import NotFound, NotSignedIn
from portico.model.paths import Path
from portico.model.rights import format_rights
from portico.runtime.tasks import SingleFlight
from portico.store.database import Database, Statement
from portico.store.sessions import Digests, Session, SessionRecords
from portico.store.tickets import LIFETIME, SessionTickets, Ticket
from portico.store.users import User


class TokenPair(msgspec.Struct, frozen=True):
    access_token: str
    refresh_token: str
    expires_in: int
    scope: str
    user: User
    refresh_expires_in: int

    def __repr__(self) -> str:
        return "TokenPair(…)"


def not_signed_in() -> NotSignedIn:
    return NotSignedIn("The token is unknown, has expired or was ended. Sign in again.")


class TokenReused(NotSignedIn):
    """A refresh token was used long after it was replaced; all tokens of that sign-in were ended."""

    code = "token-reused"


class Sessions:
    """Issues and checks sessions."""

    def __init__(self, database: Database, *, token_lifetime: timedelta, refresh_lifetime: timedelta) -> None:
        self._records = SessionRecords(database, token_lifetime, refresh_lifetime)
        self._token_lifetime = token_lifetime
        self._refresh_lifetime = refresh_lifetime
        self._cache: CredentialCache[Session] = CredentialCache(lambda digest: self._records.find(digest), database.now)
        self._checks: SingleFlight[int, User | None] = SingleFlight()
        self.list = self._records.all
        self.sweep = self._records.sweep

    async def issue(
        self, user: User, *, along: Sequence[Statement] = (), device: str = "", address: str = ""
    ) -> TokenPair:
        """Start a session; `NotSignedIn` if the user was disabled or deleted, or got a new password meanwhile.

        The statements in `along` are part of the same transaction. `device` and `address` are shown to the user.
        """
        tokens = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        current = await self._records.begin(user, _digests(tokens), along, device, address)
        if current is None:
            raise not_signed_in()
        return self._pair(tokens, current)

    async def refresh(
        self, refresh_token: str, *, begin: Callable[[str], Awaitable[object]] | None = None, address: str = ""
    ) -> TokenPair:
        """Exchange a refresh token for a new pair. If it was replaced long ago, the whole family is ended.

        `begin` is called with the user's name before anything changes, and may raise; not for an unknown token.
        """
        digest = digest_of(refresh_token)
        # A guess must not take the write lock.
        if (found := await self._records.refreshable(digest)) is None:
            raise not_signed_in()
        if begin:
            await begin(found.name)
        tokens = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        user, was_reused = await self._records.rotate(digest, _digests(tokens), address)
        if was_reused:
            self.forget()
            raise TokenReused(not_signed_in().detail)
        if user is None:
            raise not_signed_in()
        return self._pair(tokens, user)

    async def session(self, access_token: str) -> Session:
        """The session of an access token; `NotSignedIn` if it is unknown, expired or ended, or its user disabled."""
        session = await self._cache.get(digest_of(access_token))
        if session is None:
            raise not_signed_in()
        return session

    async def end(self, session: Session) -> None:
        """Log out: delete the family with its tokens and tickets."""
        await self._records.end(session.user, session.family)
        self.forget()

    async def end_one(self, user: User, session_id: str) -> None:
        """End a session of this user; `NotFound` if there is none."""
        if not await self._records.end(user, session_id):
            raise NotFound("This session doesn't exist; it may have ended already.")
        self.forget()

    async def end_others(self, session: Session) -> None:
        """End all sessions of the user except this one."""
        await self._records.end_others(session)
        self.forget()

    async def current_user(self, user_id: int) -> User | None:
        """The user as of now, without a cache; None if the user is disabled or deleted."""
        return await self._checks.run(user_id, lambda: self._check(user_id))

    def forget(self) -> None:
        """Clear the cache, and do not share queries that are under way."""
        self._cache.forget()

    async def _check(self, user_id: int) -> User | None:
        self._checks.forget(user_id)  # later callers need a newer answer
        return await self._records.enabled_user(user_id)

    def _pair(self, tokens: tuple[str, str], user: User) -> TokenPair:
        return TokenPair(
            *tokens,
            expires_in=int(self._token_lifetime.total_seconds()),
            scope=format_rights(user.rights),
            user=user,
            refresh_expires_in=int(self._refresh_lifetime.total_seconds()),
        )


def _digests(tokens: tuple[str, str]) -> Digests:
    return digest_of(tokens[0]), digest_of(tokens[1])


def ticket_for(user: User, path: Path, *, is_folder: bool) -> Ticket:
    """A ticket for what this user has at the path."""
    return Ticket(str(path), str(user.root.below(path)), is_folder)


def opens(ticket: Ticket, user: User, path: Path) -> bool:
    """Whether a ticket is for what this user has at the path now."""
    return ticket.place == ticket_for(user, path, is_folder=ticket.is_folder).place


def ticket_refused() -> NotSignedIn:
    return NotSignedIn("The ticket is unknown, has expired or is for another path. Request a new one.")


class Tickets:
    """A browser that follows a link cannot send a token, so it uses a ticket for one file or folder.

    A ticket is for a place in the storage: it opens nothing else if its path leads elsewhere.
    """

    LIFETIME = LIFETIME

    def __init__(self, database: Database) -> None:
        self._records = SessionTickets(database)

    async def issue(self, session: Session, path: Path, *, is_folder: bool) -> str:
        ticket = secrets.token_urlsafe(32)
        new = ticket_for(session.user, path, is_folder=is_folder)
        if not await self._records.add(digest_of(ticket), session.token_digest, new):
            raise not_signed_in()
        return ticket

    async def renew(self, session: Session, ticket: str, path: Path, *, is_folder: bool) -> bool:
        """Give a ticket of the same sign-in another lifetime; False if there is none for this file or folder."""
        same = ticket_for(session.user, path, is_folder=is_folder)
        return await self._records.renew(digest_of(ticket), session.token_digest, same)

    async def redeem(self, ticket: str, path: Path) -> tuple[Session, bool]:
        """The session of a ticket for this path, and whether that is a folder.

        A ticket ends with its access token at the latest.
        """
        found = await self._records.find(digest_of(ticket))
        if found is None or not opens(found[1], found[0].user, path):
            raise ticket_refused()
        return found[0], found[1].is_folder
