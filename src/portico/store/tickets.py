"""Tickets of sessions and of guests. One is for a place in the storage, and ends with what it was issued to."""

from collections.abc import Callable
from typing import Final

import msgspec
from sqlalchemy import Column, ColumnElement, Table, insert, select, update
from sqlalchemy.exc import IntegrityError

from portico.store.database import AnyRow, Database
from portico.store.tables import access_tokens, guest_tickets, tickets

LIFETIME: Final = 60
"""Seconds. A ticket may be used any number of times: a player requests range after range."""


class Ticket(msgspec.Struct, frozen=True):
    path: str
    place: str | None
    """The connection and the path in it. A ticket of an older version has none."""
    is_folder: bool


class TicketRecords:
    def __init__(
        self,
        database: Database,
        table: Table,
        owner: Column[bytes],
        shared_by: Callable[[bytes], ColumnElement[bool]],
    ) -> None:
        """`owner`: what a ticket was issued to. `shared_by`: whether this one may renew it."""
        self._database = database
        self._table = table
        self._owner = owner
        self._shared_by = shared_by

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
            self._shared_by(owner),
        )
        renewed = statement.values({self._owner.name: owner, "expires_at": now + LIFETIME * 1000})
        return await self._database.execute(renewed, durable=False) > 0


def of_sessions(database: Database) -> TicketRecords:
    """A player goes on with the address that it has, also after the session has got another access token."""

    def shared_by(token: bytes) -> ColumnElement[bool]:
        family = select(access_tokens.c.family).where(access_tokens.c.digest == token).scalar_subquery()
        return tickets.c.token.in_(select(access_tokens.c.digest).where(access_tokens.c.family == family))

    return TicketRecords(database, tickets, tickets.c.token, shared_by)


def of_guests(database: Database) -> TicketRecords:
    owner = guest_tickets.c.guest
    return TicketRecords(database, guest_tickets, owner, lambda guest: owner == guest)


def ticket_of(row: AnyRow, now: int) -> Ticket | None:
    """The ticket in a row of its columns; None if it has expired."""
    return Ticket(row.path, row.place, row.is_folder) if row.ticket_expires_at > now else None
