"""Tickets: a browser that follows a link cannot send a token, so it uses a ticket for one file or folder.

A ticket is for a place in the storage: it opens nothing else if its path leads elsewhere meanwhile.
"""

import secrets

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from portico.accounts.credentials import digest_of
from portico.accounts.sessions import SESSION, Session, not_signed_in, session_of
from portico.model.errors import NotSignedIn
from portico.model.paths import Path
from portico.store.database import AnyRow, Database
from portico.store.tables import access_tokens, tickets
from portico.store.users import User

_TICKET = (
    SESSION.add_columns(tickets.c.place, tickets.c.is_folder, tickets.c.expires_at.label("ticket_expires_at"))
    .join(tickets, tickets.c.token == access_tokens.c.digest)
    .where(tickets.c.digest == bindparam("digest"))
)


def place_of(user: User, path: Path) -> str:
    """A path of this user as a place in the storage."""
    return f"{user.connection}{path.under(Path.parse(user.root))}"


def opens(row: AnyRow, user: User, path: Path, now: int) -> bool:
    """Whether the ticket in a row is for what this user has at the path now."""
    # One of an older version has no place.
    return bool(row.place == place_of(user, path) and row.ticket_expires_at > now)


def ticket_refused() -> NotSignedIn:
    return NotSignedIn("The ticket is unknown, expired or for another path; ask for a new one.")


class Tickets:
    LIFETIME = 60
    """Seconds. A ticket may be used any number of times: a player requests range after range."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def issue(self, session: Session, path: Path, *, is_folder: bool) -> str:
        ticket = secrets.token_urlsafe(32)
        try:
            await self._database.execute(
                insert(tickets).values(
                    digest=digest_of(ticket),
                    token=session.token_digest,
                    path=str(path),
                    place=place_of(session.user, path),
                    is_folder=is_folder,
                    expires_at=self._database.now() + self.LIFETIME * 1000,
                ),
                durable=False,
            )
        except IntegrityError:  # the session ended meanwhile
            raise not_signed_in() from None
        return ticket

    async def renew(self, session: Session, ticket: str, path: Path, *, is_folder: bool) -> bool:
        """Give a ticket of the same sign-in another lifetime; False if there is none for this file or folder.

        A player goes on with the address that it has, also after the session has got another access token.
        """
        of_this_sign_in = select(access_tokens.c.digest).where(access_tokens.c.family == session.family)
        now = self._database.now()
        try:
            renewed = await self._database.execute(
                update(tickets)
                .where(
                    tickets.c.digest == digest_of(ticket),
                    tickets.c.place == place_of(session.user, path),
                    tickets.c.is_folder == is_folder,
                    tickets.c.token.in_(of_this_sign_in),
                    tickets.c.expires_at > now,
                )
                .values(token=session.token_digest, expires_at=now + self.LIFETIME * 1000)
            )
        except IntegrityError:  # the session ended meanwhile
            raise not_signed_in() from None
        return renewed > 0

    async def redeem(self, ticket: str, path: Path) -> tuple[Session, bool]:
        """The session of a ticket for this path, and whether that is a folder.

        A ticket ends with its access token at the latest.
        """
        digest = digest_of(ticket)
        row = await self._database.first(_TICKET, {"digest": digest})
        session = session_of(row, now := self._database.now())
        if session is None or row is None or not opens(row, session.user, path, now):
            raise ticket_refused()
        return session, row.is_folder
