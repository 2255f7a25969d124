"""Guests: those who have opened a share link. A guest has a token, as a user who has signed in, but for the link only."""

import secrets
from datetime import timedelta
from typing import Final

import msgspec

from portico.accounts.credentials import GUEST_PREFIX, CredentialCache, digest_of
from portico.accounts.passwords import Passwords
from portico.accounts.sessions import Tickets, ticket_refused
from portico.accounts.share_links import ShareLinks, no_such_link, usable
from portico.accounts.throttle import Throttle, Treatment, attempt_of, network_of, too_many_attempts
from portico.model.errors import NotSignedIn, TooManyRequests, WrongPassword, target_gone
from portico.model.paths import Path
from portico.runtime import clock
from portico.store.database import Database
from portico.store.guests import Guest, GuestRecords, GuestTickets
from portico.store.share_links import LinkAccess, OpenLink
from portico.store.users import User

MAX_LIFETIME: Final = timedelta(days=30)
"""How long a guest's token is valid at most, however many uploads are begun with it."""


class Guests:
    def __init__(self, database: Database, links: ShareLinks, passwords: Passwords, throttle: Throttle) -> None:
        self._database = database
        self._links = links
        self._passwords = passwords
        self._throttle = throttle
        self._records = GuestRecords(database)
        self.tickets = Tickets(GuestTickets(database), link_ended, GUEST_PREFIX)
        self.sweep = self._records.sweep
        self.count_unknown = throttle.credential_failed
        self._cache: CredentialCache[Guest] = CredentialCache(self._query, database.now)
        self.forget = self._cache.forget

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
        access = LinkAccess(self._database.now(), "", address, "wrong-password", "", None)
        await self._links.note(found.link.id, access)
        raise WrongPassword("The password is wrong. Check it, or ask the person who sent you the link.")

    async def add(self, found: OpenLink, name: str, address: str, folder: str | None) -> str | None:
        """The token of a new guest; None if another guest has taken the folder."""
        token = _new_token(self._database.now())
        network = network_of(address)[:64]
        if await self._records.add(found.link.id, digest_of(token), name, address, network, folder):
            return token
        if folder is None:  # the link is gone
            raise no_such_link()
        return None

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
        known = await self._records.find(guest.digest)
        found = usable(known and known[0].open, self._links.policy, self._database.now())
        if found and found.link.trashed:
            raise target_gone()
        return None if found is None else msgspec.structs.replace(guest, open=found).user

    async def keep(self, guest: Guest, until: int) -> None:
        """Let the token be valid until then, as far as the link can be used: the guest may go on with an upload.

        Without a limit, a guest who begins an upload now and then would stay for ever.
        """
        until = min(until, guest.opened_at + clock.milliseconds(MAX_LIFETIME))
        await self._records.keep(guest.digest, until)

    async def redeem(self, ticket: str, path: Path) -> tuple[Guest, bool]:
        """The guest with a ticket for this path, and whether that is a folder."""
        guest, is_folder = await self.tickets.redeem(ticket, path)
        # The link may have followed its file to another name, and another file may have taken the former one.
        if not self._is_usable(guest) or guest.only_file not in (None, path):
            raise ticket_refused()
        return guest, is_folder

    async def _query(self, digest: bytes) -> tuple[Guest, int] | None:
        found = await self._records.find(digest)
        if found is None or found[1] <= self._database.now() or not self._is_usable(found[0]):
            return None
        return found

    def _is_usable(self, guest: Guest) -> bool:
        return usable(guest.open, self._links.policy, self._database.now()) is not None


def _new_token(now: int) -> str:
    """With the time in it, in seconds. Nobody can change that: the digest would be another one."""
    return f"{GUEST_PREFIX}{now // 1000:08x}{secrets.token_urlsafe(26)}"


def _issued_at(token: str) -> int:
    """0 for an older token, which has no time in it."""
    try:
        return int(token[len(GUEST_PREFIX) :][:8], 16) * 1000
    except ValueError:
        return 0


def link_ended() -> NotSignedIn:
    return NotSignedIn("Your access has expired, or the link has ended. Open the link again.")
