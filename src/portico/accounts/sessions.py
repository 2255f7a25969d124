"""Sessions, and the access and refresh tokens that open them.

Tokens are random and opaque, and stored only as SHA-256. A sign-in creates a family, and every token that comes of it
belongs to that family. A session ends by deleting its family: tokens and tickets go with it, so no ended token can
still be usable.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Generic, TypeVar

import msgspec

from portico.accounts.credentials import CredentialCache, digest_of
from portico.model.errors import AddressNotAllowed, NotFound, NotSignedIn
from portico.model.paths import Path
from portico.model.rights import ALL_RIGHTS, format_rights
from portico.store.database import Database, Statement
from portico.store.encrypted_columns import Confidential
from portico.store.guests import Guest
from portico.store.sessions import Digests, Session, SessionRecords
from portico.store.tickets import Ticket, TicketRecords
from portico.store.users import User


class TokenPair(Confidential, msgspec.Struct, frozen=True):
    access_token: str
    refresh_token: str
    expires_in: int
    scope: str
    user: User
    refresh_expires_in: int
    session: str = ""
    """The id of a session that was started."""


def not_signed_in() -> NotSignedIn:
    return NotSignedIn("The token is unknown, has expired or was ended. Sign in again.")


def check_address(user: User, address: str) -> None:
    """`AddressNotAllowed` if the user may not act from there."""
    if not user.admits(address):
        raise AddressNotAllowed("Your account can't be used from your address. Ask your administrator to allow it.")


class TokenReused(NotSignedIn, code="token-reused"):
    """A refresh token was used long after it was replaced; all tokens of that sign-in were ended."""


class Sessions:
    def __init__(self, database: Database, *, token_lifetime: timedelta, refresh_lifetime: timedelta) -> None:
        self._records = SessionRecords(database, token_lifetime, refresh_lifetime)
        self._now = database.now
        self._token_lifetime = token_lifetime
        self._refresh_lifetime = refresh_lifetime
        self._cache: CredentialCache[Session] = CredentialCache(self._records.find, database.now)
        self.forget = self._cache.forget
        self.list = self._records.all
        self.sweep = self._records.sweep

    async def issue(
        self, user: User, *, along: Sequence[Statement] = (), device: str = "", address: str = ""
    ) -> TokenPair:
        """Start a session; `NotSignedIn` if the user may not act any more, or got a new password meanwhile.

        The statements in `along` are part of the same transaction. `device` and `address` are shown to the user.
        """
        family = secrets.token_hex(16)
        pair = await self._pair(lambda digests: self._records.begin(family, user, digests, along, device, address))
        return msgspec.structs.replace(pair, session=family)

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
        check_address(found, address)
        if begin:
            await begin(found.name)

        async def rotated(digests: Digests) -> User | None:
            user, was_reused = await self._records.rotate(digest, digests, address)
            if was_reused:
                self.forget()
                raise TokenReused(not_signed_in().detail)
            return user

        return await self._pair(rotated)

    async def current_user(self, user_id: int) -> User | None:
        """The user as of now, without a cache; None if the user is disabled or deleted, `NotSignedIn` if expired."""
        user = await self._records.user(user_id)
        if user is None or user.disabled:
            return None
        if user.has_expired(self._now()):
            raise NotSignedIn("Your account has expired. Ask your administrator to extend it.")
        return user

    async def session(self, access_token: str) -> Session:
        """The session of an access token; `NotSignedIn` if it is unknown, expired or ended, or its user may not act."""
        session = await self._cache.get(digest_of(access_token))
        if session is None:
            raise not_signed_in()
        return session

    async def end(self, session: Session) -> None:
        await self._records.end(session.user, session.family)
        self.forget()

    async def end_one(self, user: User, session_id: str) -> None:
        if not await self._records.end(user, session_id):
            raise NotFound("This session doesn't exist; it may have ended already.")
        self.forget()

    async def end_others(self, session: Session) -> None:
        await self._records.end_others(session)
        self.forget()

    async def _pair(self, store: Callable[[Digests], Awaitable[User | None]]) -> TokenPair:
        """New tokens, for the user with whom `store` has stored their digests."""
        tokens = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        user = await store((digest_of(tokens[0]), digest_of(tokens[1])))
        if user is None:
            raise not_signed_in()
        return TokenPair(
            *tokens,
            expires_in=int(self._token_lifetime.total_seconds()),
            scope=format_rights(user.rights),
            user=user,
            refresh_expires_in=int(self._refresh_lifetime.total_seconds()),
        )


Owner = TypeVar("Owner", bound=Session | Guest)


class Tickets(Generic[Owner]):
    """A browser that follows a link cannot send a token, so it uses a ticket for one file or folder.

    A ticket is for a place in the storage: it opens nothing else if its path leads elsewhere.
    """

    def __init__(self, records: TicketRecords[Owner], ended: Callable[[], NotSignedIn], prefix: str = "") -> None:
        """`ended`: the error for an owner who is gone."""
        self._records = records
        self._ended = ended
        self._prefix = prefix

    async def issue(self, owner: Owner, path: Path, *, is_folder: bool) -> str:
        ticket = self._prefix + secrets.token_urlsafe(32)
        new = _ticket_for(owner.user, path, is_folder=is_folder)
        if not await self._records.add(digest_of(ticket), owner.digest, new):
            raise self._ended()
        return ticket

    async def renew(self, owner: Owner, ticket: str, path: Path, *, is_folder: bool) -> bool:
        """Give a ticket of the same sign-in or guest another lifetime; False if there is none for this file or folder."""
        same = _ticket_for(owner.user, path, is_folder=is_folder)
        return await self._records.renew(digest_of(ticket), owner.digest, same)

    async def redeem(self, ticket: str, path: Path) -> tuple[Owner, bool]:
        """The owner of a ticket for this path, and whether that is a folder.

        A ticket ends with its access token at the latest.
        """
        found = await self._records.find(digest_of(ticket))
        if found is None or found[1].place != _ticket_for(found[0].user, path, is_folder=True).place:
            raise ticket_refused()
        return found[0], found[1].is_folder


def _ticket_for(user: User, path: Path, *, is_folder: bool) -> Ticket:
    # A virtual folder has no place, but the mounts in it have.
    place = user.reach.place_of(path) or user.reach.limited_to(path, ALL_RIGHTS)
    return Ticket(str(path), str(place), is_folder)


def ticket_refused() -> NotSignedIn:
    return NotSignedIn("The ticket is unknown, has expired or is for another path. Request a new one.")
