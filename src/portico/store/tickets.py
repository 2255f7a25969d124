"""Tickets of sessions and of guests. One is for a place in the storage, and ends with what it was issued to."""

from typing import Final, Generic, TypeVar

import msgspec
from sqlalchemy import Column, ColumnElement, Table, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from portico.store.database import AnyRow, Database
from portico.store.sessions import SESSION, Session, session_of
from portico.store.tables import access_tokens, tickets

LIFETIME: Final = 60
"""Seconds. A ticket may be used any number of times: a player requests range after range."""


class Ticket(msgspec.Struct, frozen=True):
    path: str
    place: str
    """The connection and the path in it."""
    is_folder: bool


Owner = TypeVar("Owner")

_BY_TICKET: Final = (
    SESSION.add_columns(
        tickets.c.path, tickets.c.place, tickets.c.is_folder, tickets.c.expires_at.label("ticket_expires_at")
    )
    .join(tickets, tickets.c.token == access_tokens.c.digest)
    .where(tickets.c.digest == bindparam("digest"))
)


class TicketRecords(Generic[Owner]):
    _table: Table
    _owner: Column[bytes]

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, digest: bytes) -> tuple[Owner, Ticket] | None:
        raise NotImplementedError

    def _renewable_by(self, owner: bytes) -> ColumnElement[bool]:
        return self._owner == owner

    async def add(self, digest: bytes, owner: bytes, ticket: Ticket) -> bool:
        """Whether the owner still exists."""
        row = {"digest": digest, self._owner.name: owner, **msgspec.structs.asdict(ticket)}
        statement = insert(self._table).values({**row, "expires_at": self._database.now() + LIFETIME * 1000})
        try:
            await self._database.execute(statement, durable=False)
        except IntegrityError:
            return False
        return True

    async def renew(self, digest: bytes, owner: bytes, ticket: Ticket) -> bool:
        """Give a ticket another lifetime; False if the owner has none for this file or folder."""
        columns, now = self._table.c, self._database.now()
        statement = update(self._table).where(
            columns.digest == digest,
            columns.place == ticket.place,
            columns.is_folder == ticket.is_folder,
            columns.expires_at > now,
            self._renewable_by(owner),
        )
        renewed = statement.values({self._owner.name: owner, "expires_at": now + LIFETIME * 1000})
        return await self._database.execute(renewed, durable=False) > 0


class SessionTickets(TicketRecords[Session]):
    _table, _owner = tickets, tickets.c.token

    async def find(self, digest: bytes) -> tuple[Session, Ticket] | None:
        row, now = await self._database.first(_BY_TICKET, {"digest": digest}), self._database.now()
        session, ticket = session_of(row, now), ticket_of(row, now)
        return (session, ticket) if session and ticket else None

    def _renewable_by(self, token: bytes) -> ColumnElement[bool]:
        # A player goes on with the address that it has, also after the session has got another access token.
        family = select(access_tokens.c.family).where(access_tokens.c.digest == token).scalar_subquery()
        return self._owner.in_(select(access_tokens.c.digest).where(access_tokens.c.family == family))


def ticket_of(row: AnyRow | None, now: int) -> Ticket | None:
    """The ticket in a row of a ticket's columns; None if it has expired."""
    if row is None or row.ticket_expires_at <= now:
        return None
    return Ticket(row.path, row.place, row.is_folder)
