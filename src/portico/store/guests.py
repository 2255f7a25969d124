"""Guests: those who have opened a share link, with its owner as of now."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec
from sqlalchemy import bindparam, case, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from portico.model.errors import TooManyRequests
from portico.model.paths import Path
from portico.runtime import clock
from portico.store.batched_lookups import BatchedLookups
from portico.store.database import SWEEP_WAIT, AnyRow, Database
from portico.store.encrypted_columns import Confidential
from portico.store.share_links import (
    LINK_COLUMNS,
    LinkAccess,
    LinkKind,
    OpenLink,
    ShareLink,
    noted_access,
    open_link_of,
)
from portico.store.tables import guest_tickets, guests, share_links, users
from portico.store.tickets import Ticket, TicketRecords, ticket_of
from portico.store.users import USER_COLUMNS, User

if TYPE_CHECKING:
    from sqlalchemy import Select
    from sqlalchemy.ext.asyncio import AsyncConnection

LIFETIME: Final = timedelta(hours=24)
"""How long a guest's token is valid, unless the link ends before, or the guest has begun an upload that lives longer."""
MAX_GUESTS: Final = 10_000
"""Of one link at a time, without those whose token is valid for more than another day because of an upload."""
MAX_OF_ADDRESS: Final = 200
"""As `MAX_GUESTS`, from one address as `network_of` has it."""
KEPT_FACTOR: Final = 5
"""How many times as many there may be with those who are kept for an upload."""
KEPT: Final = timedelta(days=1)
"""How long an expired guest is kept, for an upload that began before the end."""

_LATER: Final = timedelta(hours=1)
"""How much later a guest may have opened the link by the clock of another request or node."""

_GUEST = (
    select(
        guests.c.digest.label("guest_digest"),
        guests.c.name.label("guest_name"),
        guests.c.folder.label("guest_folder"),
        guests.c.expires_at.label("guest_expires_at"),
        *LINK_COLUMNS,
        *USER_COLUMNS,
    )
    .select_from(guests)
    .join(share_links, share_links.c.id == guests.c.link)
    .join(users, users.c.id == share_links.c.user_id)
)
_BY_TICKET = (
    _GUEST.add_columns(
        guest_tickets.c.path,
        guest_tickets.c.place,
        guest_tickets.c.is_folder,
        guest_tickets.c.expires_at.label("ticket_expires_at"),
    )
    .join(guest_tickets, guest_tickets.c.guest == guests.c.digest)
    .where(guest_tickets.c.digest == bindparam("digest"))
)


class Guest(Confidential, msgspec.Struct, frozen=True):
    digest: bytes
    name: str
    """As the guest gave it; empty if it was not asked for."""
    folder: str | None
    """The sender's own folder, within the link's."""
    expires_at: datetime
    open: OpenLink
    opened_at: int = 0
    """When the token was issued; 0 if the guest was found by a ticket."""

    @property
    def link(self) -> ShareLink:
        return self.open.link

    @property
    def id(self) -> str:
        return self.digest.hex()[:32]

    @property
    def is_upload_only(self) -> bool:
        """Whether the guest must not learn what others have stored."""
        return self.link.kind is LinkKind.REQUEST

    @property
    def user(self) -> User:
        """The owner, with no more than the guest may have."""
        owner = self.open.limited_owner
        if self.folder is None:
            return owner
        return owner.limited_to(Path().child(self.folder), owner.rights)

    @property
    def only_file(self) -> Path | None:
        """The only thing that may be downloaded, if the link is not for a folder."""
        return None if self.link.is_folder else Path((self.link.place.path.name,))


class GuestRecords:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._lookups = BatchedLookups(database, _GUEST, guests.c.digest)

    async def add(self, link_id: str, digest: bytes, name: str, address: str, network: str, folder: str | None) -> bool:
        """Add a guest who opens a link now; False if the link is gone, or another guest has taken the folder.

        `network` is what counts as one address.
        """
        now = self._database.now()
        row = {
            "digest": digest,
            "link": link_id,
            "name": name,
            "address": network,
            "folder": folder,
            "folder_key": None if folder is None else folder.casefold(),
            "expires_at": now + clock.milliseconds(LIFETIME),
        }

        async def store(transaction: "AsyncConnection") -> None:
            # Locked, so that the count holds.
            link = select(share_links.c.id).where(share_links.c.id == link_id)
            await transaction.execute(link.with_for_update(key_share=True))
            # Those of the last day, and all: who is kept for an upload does not keep others out so soon. Another request
            # may have read the clock later, and have been quicker.
            recent = case((guests.c.expires_at <= now + clock.milliseconds(LIFETIME + _LATER), 1))
            living = select(func.count(recent), func.count()).where(guests.c.link == link_id, guests.c.expires_at > now)

            async def is_full(query: "Select[int, int]", most: int) -> bool:
                of_last_day, together = (await transaction.execute(query)).one()
                return of_last_day >= most or together >= most * KEPT_FACTOR

            # Of one address first: otherwise anybody with the link could keep all others out.
            if await is_full(living.where(guests.c.address == network), MAX_OF_ADDRESS):
                raise TooManyRequests(
                    "This link was opened too many times from your address. Try again later.", retry_after=60
                )
            if await is_full(living, MAX_GUESTS):
                raise TooManyRequests("Too many people have opened this link. Try again later.", retry_after=60)
            await transaction.execute(insert(guests).values(row))
            await transaction.execute(noted_access(link_id, LinkAccess(now, name, address, "open", "", None)))

        try:
            await self._database.transact(store)
        except IntegrityError:
            return False
        return True

    async def find(self, digest: bytes) -> tuple[Guest, int] | None:
        """The guest, expired or not, and when that was or will be."""
        row = await self._lookups.first(digest)
        return None if row is None else (_guest_of(row), row.guest_expires_at)

    async def keep(self, digest: bytes, until: int) -> None:
        mine = guests.c.digest == digest, guests.c.expires_at < until
        await self._database.execute(update(guests).where(*mine).values(expires_at=until))

    async def sweep(self) -> None:
        now = self._database.now()
        for table, until in ((guest_tickets, now), (guests, now - clock.milliseconds(KEPT))):
            await self._database.execute(delete(table).where(table.c.expires_at <= until), wait=SWEEP_WAIT)


class GuestTickets(TicketRecords[Guest]):
    _table, _owner = guest_tickets, guest_tickets.c.guest

    async def find(self, digest: bytes) -> tuple[Guest, Ticket] | None:
        row, now = await self._database.first(_BY_TICKET, {"digest": digest}), self._database.now()
        ticket = ticket_of(row, now)
        return (_guest_of(row), ticket) if row and ticket and row.guest_expires_at > now else None


def _guest_of(row: AnyRow) -> Guest:
    return Guest(
        row.guest_digest, row.guest_name, row.guest_folder, clock.to_datetime(row.guest_expires_at), open_link_of(row)
    )
