"""Tickets: a browser that follows a link cannot send a token, so it uses a ticket for one file or folder.

A ticket is for a place in the storage: it opens nothing else if its path leads elsewhere meanwhile.
"""

import secrets

from portico.accounts.credentials import digest_of
from portico.accounts.sessions import not_signed_in
from portico.model.errors import NotSignedIn
from portico.model.paths import Path
from portico.store.database import Database
from portico.store.sessions import Session, SessionRecords
from portico.store.tickets import LIFETIME, Ticket, of_sessions
from portico.store.users import User


def ticket_for(user: User, path: Path, *, is_folder: bool) -> Ticket:
    """A ticket for what this user has at the path."""
    place = f"{user.connection}{path.under(Path.parse(user.root))}"
    return Ticket(str(path), place, is_folder)


def opens(ticket: Ticket, user: User, path: Path) -> bool:
    """Whether a ticket is for what this user has at the path now."""
    return ticket.place == ticket_for(user, path, is_folder=ticket.is_folder).place


def ticket_refused() -> NotSignedIn:
    return NotSignedIn("The ticket is unknown, expired or for another path; ask for a new one.")


class Tickets:
    LIFETIME = LIFETIME

    def __init__(self, database: Database) -> None:
        self._records = of_sessions(database)
        self._sessions = SessionRecords(database)

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
        found = await self._sessions.by_ticket(digest_of(ticket))
        if found is None or not opens(found[1], found[0].user, path):
            raise ticket_refused()
        return found[0], found[1].is_folder
