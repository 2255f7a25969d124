"""Guests: those who have opened a share link. A guest has a token, as a user who has signed in, but for the link only."""

import secrets
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec
from sqlalchemy import bindparam, case, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from portico.accounts.credentials import GUEST_PREFIX, CredentialCache, digest_of
from portico.accounts.link_usage import Access
from portico.accounts.passwords import Passwords
from portico.accounts.share_links import (
    LINK_COLUMNS,
    LinkKind,
    OpenLink,
    ShareLink,
    ShareLinks,
    no_such_link,
    open_link_of,
)
from portico.accounts.throttle import Throttle, Treatment, attempt_of, network_of, too_many_attempts
from portico.accounts.tickets import Tickets, opens, place_of, ticket_refused
from portico.model.errors import NotSignedIn, TooManyRequests, WrongPassword, target_gone
from portico.model.paths import Path
from portico.runtime import clock
from portico.store.batched_lookups import BatchedLookups
from portico.store.database import SWEEP_WAIT, AnyRow, Database
from portico.store.tables import guest_tickets, guests, share_accesses, share_links, users
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
MAX_LIFETIME: Final = timedelta(days=30)
"""How long a guest's token is valid at most, however many uploads are begun with it."""
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
        guest_tickets.c.place,
        guest_tickets.c.is_folder,
        guest_tickets.c.expires_at.label("ticket_expires_at"),
    )
    .join(guest_tickets, guest_tickets.c.guest == guests.c.digest)
    .where(guest_tickets.c.digest == bindparam("digest"))
)


class Guest(msgspec.Struct, frozen=True):
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
        return msgspec.structs.replace(owner, root=str(Path.parse(owner.root).child(self.folder)))

    @property
    def only_file(self) -> Path | None:
        """The only thing that may be downloaded, if the link is not for a folder."""
        return None if self.link.is_folder else Path((Path.parse(self.link.path).name,))

    @property
    def root(self) -> Path:
        """The guest's root, from the root of the connection."""
        return Path.parse(self.user.root)

    def __repr__(self) -> str:
        return "Guest(…)"


class Guests:
    def __init__(
        self, database: Database, links: ShareLinks, passwords: Passwords, throttle: Throttle
    ) -> None:
        self._database = database
        self._links = links
        self._passwords = passwords
        self._throttle = throttle
        self._lookups = BatchedLookups(database, _GUEST, guests.c.digest)
        self._cache: CredentialCache[Guest] = CredentialCache(self._query, database.now)

    # Opening a link

    async def check_password(self, found: OpenLink | None, password: str, address: str) -> OpenLink:
        """The link, if the password is right or none is needed; throttled as sign-ins are.

        `NotFound` for a link that there is not, in the same time.
        """
        if found is not None and found.password_hash is None:
            return found
        if found is None and not password:
            await self.count_unknown(address)
            raise no_such_link()
        # No user name begins like this.
        attempt = attempt_of(f"/s/{found.link.id if found else ''}", address)
        try:
            if await self._throttle.check(attempt) is Treatment.DELAYED:
                await self._throttle.wait(attempt)
        except TooManyRequests as error:
            raise too_many_attempts(error.retry_after or 1) from None
        hashed = found.password_hash if found else None
        if await self._passwords.verify(hashed, password, attempt) and found:
            await self._database.execute(self._throttle.success(attempt))
            return found
        await self._throttle.failed(attempt)
        if found is None:
            raise no_such_link()
        access = Access(self._database.now(), "", address, "wrong-password", "", None)
        await self._links.usage.note(found.link.id, access)
        raise WrongPassword("The password of this link is wrong.")

    async def count_unknown(self, address: str) -> None:
        """Count a link that there is not; `TooManyRequests` if there were too many from that address."""
        await self._throttle.credential_failed(address)

    async def add(self, found: OpenLink, name: str, address: str, folder: str | None) -> str | None:
        """The token of a new guest; None if another guest has taken the folder."""
        now, network = self._database.now(), network_of(address)[:64]
        token = _new_token(now)
        row = {
            "digest": digest_of(token),
            "link": found.link.id,
            "name": name,
            "address": network,
            "folder": folder,
            "folder_key": None if folder is None else folder.casefold(),
            "expires_at": now + clock.milliseconds(LIFETIME),
        }
        visit = {"link": found.link.id, "at": now, "name": name, "address": address[:64], "action": "open"}

        async def store(transaction: "AsyncConnection") -> None:
            # Locked, so that the count holds.
            link = select(share_links.c.id).where(share_links.c.id == found.link.id)
            await transaction.execute(link.with_for_update(key_share=True))
            # Those of the last day, and all: who is kept for an upload does not keep others out so soon. Another request
            # may have read the clock later, and have been quicker.
            recent = case((guests.c.expires_at <= now + clock.milliseconds(LIFETIME + _LATER), 1))
            living = select(func.count(recent), func.count()).where(
                guests.c.link == found.link.id, guests.c.expires_at > now
            )

            async def is_full(query: "Select[int, int]", most: int) -> bool:
                of_last_day, together = (await transaction.execute(query)).one()
                return of_last_day >= most or together >= most * KEPT_FACTOR

            # Of one address first: otherwise anybody with the link could keep all others out.
            if await is_full(living.where(guests.c.address == network), MAX_OF_ADDRESS):
                raise TooManyRequests(
                    "This link was opened too often from your address; try again later.", retry_after=60
                )
            if await is_full(living, MAX_GUESTS):
                raise TooManyRequests(
                    "Too many people have opened this link; try again later.", retry_after=60
                )
            await transaction.execute(insert(guests).values(row))
            await transaction.execute(insert(share_accesses).values(visit | {"path": "", "bytes": None}))

        try:
            await self._database.transact(store)
        except IntegrityError:
            if folder is None:  # the link is gone
                raise no_such_link() from None
            return None
        return token

    # Using it

    async def guest(self, token: str) -> Guest:
        """The guest with this token; `NotSignedIn` if it is unknown or expired, or the link cannot be used any more."""
        if (guest := await self._cache.get(digest_of(token))) is None:
            raise link_ended()
        return msgspec.structs.replace(guest, opened_at=_issued_at(token))

    async def current_user(self, guest: Guest) -> User | None:
        """The owner, limited to what the guest may have now, without a cache; None if the link has ended.

        A guest whose token has expired may still finish what began before. `TargetGone` if it was deleted.
        """
        row = await self._lookups.first(guest.digest)
        found = open_link_of(row, self._links.policy, self._database.now())
        if found and found.link.trashed:
            raise target_gone()
        return None if found is None else msgspec.structs.replace(guest, open=found).user

    async def keep(self, guest: Guest, until: int) -> None:
        """Let the token be valid until then, as far as the link can be used: the guest may go on with an upload.

        Without a limit, a guest who begins an upload now and then would stay for ever.
        """
        until = min(until, guest.opened_at + clock.milliseconds(MAX_LIFETIME))
        mine = guests.c.digest == guest.digest, guests.c.expires_at < until
        await self._database.execute(update(guests).where(*mine).values(expires_at=until))

    async def issue_ticket(self, guest: Guest, path: Path, *, is_folder: bool) -> str:
        ticket = GUEST_PREFIX + secrets.token_urlsafe(32)
        expires_at = self._database.now() + Tickets.LIFETIME * 1000
        try:
            await self._database.execute(
                insert(guest_tickets).values(
                    digest=digest_of(ticket),
                    guest=guest.digest,
                    path=str(path),
                    place=place_of(guest.user, path),
                    is_folder=is_folder,
                    expires_at=expires_at,
                ),
                durable=False,
            )
        except IntegrityError:
            raise link_ended() from None
        return ticket

    async def renew_ticket(self, guest: Guest, ticket: str, path: Path, *, is_folder: bool) -> bool:
        """Give a ticket of the same guest another lifetime, as `Tickets.renew`."""
        now = self._database.now()
        renewed = await self._database.execute(
            update(guest_tickets)
            .where(
                guest_tickets.c.digest == digest_of(ticket),
                guest_tickets.c.guest == guest.digest,
                guest_tickets.c.place == place_of(guest.user, path),
                guest_tickets.c.is_folder == is_folder,
                guest_tickets.c.expires_at > now,
            )
            .values(expires_at=now + Tickets.LIFETIME * 1000),
            durable=False,
        )
        return renewed > 0

    async def redeem(self, ticket: str, path: Path) -> tuple[Guest, bool]:
        """The guest with a ticket for this path, and whether that is a folder."""
        row = await self._database.first(_BY_TICKET, {"digest": digest_of(ticket)})
        guest = self._guest_of(row)
        if guest is None or row is None or not opens(row, guest.user, path, self._database.now()):
            raise ticket_refused()
        # The link may have followed its file to another name, and another file may have taken the former one.
        if guest.only_file not in (None, path):
            raise ticket_refused()
        return guest, row.is_folder

    def forget(self) -> None:
        """Clear the cache, and do not share queries that are under way."""
        self._cache.forget()

    async def sweep(self) -> None:
        now = self._database.now()
        for table, until in ((guest_tickets, now), (guests, now - clock.milliseconds(KEPT))):
            await self._database.execute(delete(table).where(table.c.expires_at <= until), wait=SWEEP_WAIT)

    async def _query(self, digest: bytes) -> tuple[Guest, int] | None:
        row = await self._lookups.first(digest)
        guest = self._guest_of(row)
        return (guest, row.guest_expires_at) if guest and row else None

    def _guest_of(self, row: AnyRow | None) -> Guest | None:
        now = self._database.now()
        found = open_link_of(row, self._links.policy, now)
        if found is None or row is None or row.guest_expires_at <= now:
            return None
        return Guest(
            row.guest_digest,
            row.guest_name,
            row.guest_folder,
            clock.to_datetime(row.guest_expires_at),
            found,
        )


def _new_token(now: int) -> str:
    """With the time in it, in seconds. Nobody can change that: the digest would be another one."""
    return f"{GUEST_PREFIX}{now // 1000:08x}{secrets.token_urlsafe(26)}"


def _issued_at(token: str) -> int:
    try:
        return int(token[len(GUEST_PREFIX) :][:8], 16) * 1000
    except ValueError:  # of an older gateway
        return 0


def link_ended() -> NotSignedIn:
    return NotSignedIn("The link has ended, or it was opened too long ago; open it again.")
