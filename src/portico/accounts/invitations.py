"""Invitations: a link with which a user sets a password once, so that nobody types somebody else's password.

The link's token is stored as SHA-256 only. A user has one invitation at most; it ends when it is used, after a week, when
a new one is made, and when the user is disabled or deleted.
"""

import secrets
from datetime import datetime, timedelta
from typing import Final

import msgspec

from portico.accounts.credentials import digest_of
from portico.accounts.names import name_key
from portico.accounts.passwords import Passwords, check_password, check_uncommon
from portico.accounts.throttle import name_digest
from portico.accounts.users import unknown_user
from portico.model.errors import NotFound, NotPossible
from portico.runtime import clock
from portico.store.database import Database
from portico.store.users import User, UserRecords

LIFETIME: Final = timedelta(days=7)


class Invitation(msgspec.Struct, frozen=True):
    user: User
    expires_at: datetime
    token: str

    def __repr__(self) -> str:
        return "Invitation(…)"


class UnknownInvitation(NotFound):
    """It was never made, has expired, or was used or replaced."""


class Invitations:
    def __init__(self, database: Database, passwords: Passwords) -> None:
        self._database = database
        self._passwords = passwords
        self._records = UserRecords(database)
        self.sweep = self._records.sweep_invitations

    async def make(self, name: str) -> Invitation:
        """An invitation for this user, which replaces an earlier one. The token is known only now."""
        token = secrets.token_urlsafe(32)
        expires_at = self._database.now() + clock.milliseconds(LIFETIME)
        user = await self._records.invite(name_key(name), digest_of(token), expires_at)
        if user is None:
            raise unknown_user(name)
        if user.disabled:
            raise NotPossible(f"The user {user.name} is disabled; enable the user first.")
        return Invitation(user, clock.to_datetime(expires_at), token)

    async def find(self, token: str) -> Invitation:
        """The invitation of this token; `UnknownInvitation`."""
        if (found := await self._records.invited(digest_of(token))) is None:
            raise _unknown()
        return Invitation(found[0], clock.to_datetime(found[1]), token)

    async def accept(self, token: str, password: str) -> User:
        """Set the password, sign the user out everywhere, and end the invitation."""
        user = (await self.find(token)).user
        check_password(password)
        check_uncommon(password, user.name)
        hashed = await self._passwords.hash(password)
        accepted = await self._records.accept(digest_of(token), user, hashed, name_digest(user.name))
        if accepted is None:
            raise _unknown()
        return accepted


def _unknown() -> UnknownInvitation:
    return UnknownInvitation(
        "This invitation was used, replaced or has expired; ask the administrator for a new one."
    )
