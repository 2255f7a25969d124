"""Invitations: a link with which a user sets a password once, so that nobody types somebody else's password.

The link's token is stored as SHA-256 only. A user has one invitation at most; it ends when it is used, after a week, when
a new one is made, and when the user is disabled or deleted.
"""

import secrets
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec
from sqlalchemy import delete, select, update

from portico.accounts.credentials import digest_of
from portico.accounts.names import name_key
from portico.accounts.passwords import Passwords, check_password, check_uncommon
from portico.accounts.throttle import clear_failures
from portico.accounts.users import USER_COLUMNS, User, user_of
from portico.model.errors import NotFound, NotPossible
from portico.runtime import clock
from portico.store.database import SWEEP_WAIT, AnyRow, Database, upsert
from portico.store.tables import families, invitations, users

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

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

    async def make(self, name: str) -> Invitation:
        """An invitation for this user, which replaces an earlier one. The token is known only now."""
        token = secrets.token_urlsafe(32)
        expires_at = self._database.now() + clock.milliseconds(LIFETIME)
        values = {"digest": digest_of(token), "expires_at": expires_at}

        async def store(transaction: "AsyncConnection") -> User:
            query = select(*USER_COLUMNS).where(users.c.name_key == name_key(name)).with_for_update(read=True)
            row = (await transaction.execute(query)).first()
            if row is None:
                raise NotFound(f"There is no user {name[:64]!r}; 'portico user list' shows all users.")
            if row.disabled:
                raise NotPossible(f"The user {row.name} is disabled; enable the user first.")
            statement = upsert(self._database.dialect, invitations, values)
            await transaction.execute(statement.values(user_id=row.id, **values))
            return user_of(row)

        return Invitation(await self._database.transact(store), clock.to_datetime(expires_at), token)

    async def find(self, token: str) -> Invitation:
        """The invitation of this token; `UnknownInvitation`."""
        row = await self._row(token)
        return Invitation(user_of(row), clock.to_datetime(row.invited_until), token)

    async def accept(self, token: str, password: str) -> User:
        """Set the password, sign the user out everywhere, and end the invitation."""
        row = await self._row(token)
        check_password(password)
        check_uncommon(password, row.name)
        hashed = await self._passwords.hash(password)
        now = self._database.now()

        async def apply(transaction: "AsyncConnection") -> User:
            # Of several who accept it, only one finds it.
            used = delete(invitations).where(invitations.c.digest == digest_of(token))
            if not (await transaction.execute(used)).rowcount:
                raise _unknown()
            changed = (
                update(users)
                .where(users.c.id == row.id, users.c.disabled.is_(False))
                .values(password_hash=hashed, password_changed_at=now)
                .returning(*USER_COLUMNS)
            )
            user = (await transaction.execute(changed)).first()
            if user is None:
                raise _unknown()
            await transaction.execute(delete(families).where(families.c.user_id == row.id))
            await clear_failures(transaction, row.name)
            return user_of(user)

        return await self._database.transact(apply)

    async def sweep(self) -> None:
        expired = delete(invitations).where(invitations.c.expires_at <= self._database.now())
        await self._database.execute(expired, wait=SWEEP_WAIT)

    async def _row(self, token: str) -> AnyRow:
        query = (
            select(*USER_COLUMNS, invitations.c.expires_at.label("invited_until"))
            .join(users, invitations.c.user_id == users.c.id)
            .where(invitations.c.digest == digest_of(token))
        )
        row = await self._database.first(query)
        if row is None or row.disabled or row.invited_until <= self._database.now():
            raise _unknown()
        return row


def _unknown() -> UnknownInvitation:
    return UnknownInvitation(
        "This invitation was used, replaced or has expired; ask the administrator for a new one."
    )
