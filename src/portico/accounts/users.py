"""Web Users: who may sign in, where their tree is, and what they may do; and invitations to set a password.

An invitation is a link, so that nobody types somebody else's password. Its token is stored as SHA-256 only. A user has one
at most; it ends when it is used, after a week, when a new one is made, and when the user is disabled or deleted.
"""

import secrets
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from portico.accounts.connections import stored_name
from portico.accounts.credentials import digest_of
from portico.accounts.groups import group_key
from portico.accounts.limits import UNSET, Unset, limits
from portico.accounts.mounts import checked_folder, checked_rule
from portico.accounts.names import check_name, name_key
from portico.accounts.passwords import Passwords, check_password, check_uncommon
from portico.accounts.throttle import address_digest, name_digest
from portico.model.errors import NotFound, NotPossible
from portico.model.paths import Path
from portico.model.reach import MountRule
from portico.model.rights import DEFAULT_RIGHTS, Right
from portico.runtime import clock
from portico.store.database import Database
from portico.store.encrypted_columns import Confidential
from portico.store.mounts import NoMount, Owner, unknown_user
from portico.store.reach import Network
from portico.store.users import User, UserRecord, UserRecords, taken

INVITATION_LIFETIME: Final = timedelta(days=7)


class Users:
    """Names are compared without case. Running gateways see changes when their cached sessions expire."""

    def __init__(self, database: Database, passwords: Passwords) -> None:
        self._database = database
        self._passwords = passwords
        self._records = UserRecords(database)
        self.list = self._records.all
        self.records = self._records.records
        """As `list`, each user as an administrator made them."""

    async def check_new(self, name: str) -> None:
        name = check_name(name, "user")
        if (await self._records.find(name_key(name)))[0]:
            raise taken(name)

    async def add(
        self,
        name: str,
        password: str | None,
        *,
        connection: str = "local",
        root: str | None = None,
        rights: Iterable[Right] = DEFAULT_RIGHTS,
        mounts: Iterable[MountRule] | None = None,
        expires_at: datetime | None = None,
        addresses: Collection[Network] = (),
        groups: Iterable[str] = (),
    ) -> User:
        """Without a password, the user cannot sign in before one is set: see `Invitations`.

        `mounts` are instead of the one at `/` that `connection`, `root` and `rights` describe. The user joins `groups`.
        """
        name = check_name(name, "user")
        if mounts is None:
            mounts = [MountRule(Path(), connection, f"/{name}" if root is None else root, frozenset(rights))]
        rules = [checked_rule(rule) for rule in mounts]
        now = self._database.now()
        values: dict[str, Any] = {
            "name": name,
            "name_key": name_key(name),
            "disabled": False,
            "created_at": now,
            "password_changed_at": now,
            "password_hash": "" if password is None else await self._passwords.hash(password),
            **limits(expires_at, addresses),
        }
        return await self._records.add(values, rules, [group_key(group) for group in groups])

    async def get(self, name: str) -> User:
        user, _ = await self._records.find(name_key(name))
        return _known(user, name)

    async def record(self, name: str) -> UserRecord:
        if (key := name_key(name)) and (found := await self._records.records(key)):
            return found[0]
        raise unknown_user(name)

    async def change(
        self,
        name: str,
        *,
        connection: str | None = None,
        root: str | None = None,
        rights: Iterable[Right] | None = None,
        disabled: bool | None = None,
        expires_at: datetime | Unset | None = UNSET,
        addresses: Collection[Network] | Unset = UNSET,
    ) -> User:
        """Change the given values. A disabled user is signed out everywhere.

        `connection`, `root` and `rights` are of the mount at `/`; `NotPossible` if the user has none.
        """
        values: dict[str, Any] = limits(expires_at, addresses)
        changes_reach = bool(values)
        if disabled is not None:
            values["disabled"] = disabled
        mount: dict[str, Any] = {}
        if connection is not None:
            mount["connection"] = stored_name(connection)
        if root is not None:
            mount["folder"] = checked_folder(root)
        if rights is not None:
            mount["rights"] = frozenset(rights)
        if not mount and not changes_reach:  # disabling waits for no other change
            changed = await self._records.change(name_key(name), values, sign_out=bool(disabled))
            return _known(changed, name)
        owner = Owner(name, name_key(name))
        try:
            changed = await self._records.change_reach(owner, values, mount, sign_out=bool(disabled))
        except NoMount:
            raise NotPossible(
                f"The user '{name}' has no mount at /; change the mounts with 'portico mount add' and 'portico mount set'."
            ) from None
        return _known(changed, name)

    async def set_password(self, name: str, password: str) -> None:
        """Set the password, sign the user out everywhere, and clear their failed sign-ins."""
        check_password(password)
        await self.get(name)  # before hashing, which is slow
        hashed = await self._passwords.hash(password)
        values = {"password_hash": hashed, "password_changed_at": self._database.now()}
        changed = self._records.change(name_key(name), values, sign_out=True, attempts=name_digest(name))
        _known(await changed, name)

    async def unlock(self, name: str, *, address: str | None = None) -> None:
        """Clear the failed sign-ins of the user, and those of an address if one is given."""
        await self.get(name)
        await self._records.unlock(name_digest(name), None if address is None else address_digest(address))

    async def delete(self, name: str) -> None:
        if not await self._records.delete(name_key(name), name_digest(name)):
            raise unknown_user(name)


class Invitation(Confidential, msgspec.Struct, frozen=True):
    user: User
    expires_at: datetime
    token: str


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
        expires_at = self._database.now() + clock.milliseconds(INVITATION_LIFETIME)
        user = await self._records.invite(name_key(name), digest_of(token), expires_at)
        if user is None:
            raise unknown_user(name)
        if user.disabled:
            raise NotPossible(f"The user '{user.name}' is disabled; enable the user first.")
        if user.has_expired(self._database.now()):
            raise NotPossible(f"The account of '{user.name}' has expired; extend it first.")
        return Invitation(user, clock.to_datetime(expires_at), token)

    async def find(self, token: str) -> Invitation:
        if (found := await self._records.invited(digest_of(token))) is None:
            raise _unknown_invitation()
        return Invitation(found[0], clock.to_datetime(found[1]), token)

    async def accept(self, token: str, password: str) -> User:
        """Set the password, sign the user out everywhere, and end the invitation."""
        user = (await self.find(token)).user
        check_password(password)
        check_uncommon(password, user.name)
        hashed = await self._passwords.hash(password)
        accepted = await self._records.accept(digest_of(token), user, hashed, name_digest(user.name))
        if accepted is None:
            raise _unknown_invitation()
        return accepted


def _known(user: User | None, name: str) -> User:
    if user is None:
        raise unknown_user(name)
    return user


def _unknown_invitation() -> UnknownInvitation:
    return UnknownInvitation(
        "This invitation has been used or replaced, or has expired. Ask your administrator for a new one."
    )
