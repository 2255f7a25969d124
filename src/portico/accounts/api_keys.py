"""API keys: programs act with them for a user, without a sign-in.

A key is `pk_`, 30 random characters, and a checksum of those, so that a scanner recognizes a leaked key without asking
anybody. Only its SHA-256 is stored. What a key may do is checked at each use against what its owner may do then.
"""

import asyncio
import math
import re
import secrets
import string
from contextlib import suppress
from datetime import datetime
from typing import Any
from zlib import crc32

import msgspec

from portico.accounts.credentials import KEY_LENGTH, KEY_PREFIX, CredentialCache, digest_of
from portico.accounts.limits import MAX_RANGES
from portico.accounts.names import name_key
from portico.model.errors import AddressNotAllowed, InvalidRequest, NotFound, NotSignedIn, PorticoError
from portico.model.paths import Path
from portico.model.rights import Right, format_rights, held
from portico.runtime import clock
from portico.store.api_keys import USE_NOTED_SECONDS, ApiKey, KeyRecords, KeyUse
from portico.store.database import Database
from portico.store.encrypted_columns import Confidential
from portico.store.reach import Network
from portico.store.users import User, within

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_CHECKSUM = 6
_RANDOM = KEY_LENGTH - len(KEY_PREFIX) - _CHECKSUM
_KEY = re.compile(rf"{KEY_PREFIX}[0-9A-Za-z]{{{_RANDOM + _CHECKSUM}}}")
_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,64}")
_MAX_NOTED = 10_000


class KeyScope(msgspec.Struct, frozen=True):
    """What a key is for. It never gives more than its owner has."""

    name: str
    rights: frozenset[Right] | None = None
    """None: all that the owner has when the key is made."""
    folder: Path = msgspec.field(default_factory=Path)
    """Of the owner's tree. It is the root of all paths of the key."""
    addresses: tuple[Network, ...] = ()
    """From which the key may be used; none means from anywhere."""
    expires_at: datetime | None = None


class NewKey(Confidential, msgspec.Struct, frozen=True):
    key: ApiKey
    text: str
    """The key itself. It is known only now."""


def new_text() -> str:
    random = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))
    return KEY_PREFIX + random + _checksum(random)


def is_key(text: str) -> bool:
    """Whether this is a key by its form and checksum, which anybody can verify."""
    if not _KEY.fullmatch(text):
        return False
    random = text[len(KEY_PREFIX) : -_CHECKSUM]
    return text.endswith(_checksum(random))


class UnknownKey(NotSignedIn):
    """The key was never made, has expired, or was ended; or its owner is disabled or has expired."""


class ApiKeys:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._records = KeyRecords(database)
        self.list = self._records.all
        self.usable = self._records.usable
        self.sweep = self._records.sweep
        self._cache: CredentialCache[KeyUse] = CredentialCache(self._query, database.now)
        self.forget = self._cache.forget
        self._noted_until: dict[str, float] = {}
        """When the next use of a key is to be written, by the monotonic clock."""
        self._notes: set[asyncio.Task[None]] = set()

    async def add(self, user: User, scope: KeyScope) -> NewKey:
        """Make a key; `InvalidRequest` if it were to have a right that the user has not."""
        if not _NAME.fullmatch(name := scope.name.strip()) or _KEY.search(name):
            raise InvalidRequest(
                "A key's name must have 1 to 64 characters; give it one that says what the key is for."
            )
        if len(scope.addresses) > MAX_RANGES:
            raise InvalidRequest(f"A key can have at most {MAX_RANGES} address ranges.")
        if scope.rights is not None and not scope.rights:
            raise InvalidRequest(f"A key needs at least one of these rights: {', '.join(Right)}.")
        now = self._database.now()
        expires_at = None if scope.expires_at is None else math.floor(scope.expires_at.timestamp() * 1000)
        if expires_at is not None and expires_at <= now:
            raise InvalidRequest(
                "The key would already have expired; choose a later time, or none for a key that never expires."
            )
        text, key_id = new_text(), secrets.token_hex(8)
        values: dict[str, Any] = {
            "id": key_id,
            "digest": digest_of(text),
            "name": name,
            "folder": str(scope.folder),
            "addresses": " ".join(map(str, scope.addresses)),
            "created_at": now,
            "expires_at": expires_at,
        }

        def rights_of(owner: User) -> frozenset[Right]:
            rights = owner.rights if scope.rights is None else held(scope.rights)
            if missing := rights - owner.rights:
                raise InvalidRequest(f"A key can't have rights its owner doesn't have: {format_rights(missing)}.")
            return rights

        key = await self._records.add(user.id, values, rights_of)
        if key is None:
            raise _unknown()
        return NewKey(key, text)

    async def get(self, user: User, key_id: str) -> ApiKey:
        if (key := await self._records.get(user, key_id)) is None:
            raise _no_key()
        return key

    async def end(self, user: User, key_id: str) -> None:
        """End a key of this user, here at once and elsewhere within a second; `NotFound` if there is none."""
        if not await self._records.end(user, key_id):
            raise _no_key()
        self.forget()

    async def use(self, text: str, address: str, username: str = "") -> KeyUse:
        """What a key gives now. `UnknownKey` if it is none, `AddressNotAllowed` if it may not be used from there.

        `username`: of whom the client says that it acts for, if it says so.
        """
        if not is_key(text):
            raise NotSignedIn("The key is malformed; copy the whole key, starting with pk_.")
        use = await self._cache.get(digest_of(text))
        if use is None or (username and name_key(username) != name_key(use.owner.name)):
            raise _unknown()
        if use.key.addresses and not within(address, use.key.addresses):
            raise AddressNotAllowed("This key can't be used from your address. Ask its owner to allow it.")
        if not use.owner.admits(address):
            raise AddressNotAllowed("The account of the key's owner can't be used from your address.")
        if clock.monotonic() >= self._noted_until.get(use.key.id, 0.0):
            self._note(use.key.id, address)
        return use

    async def current_user(self, digest: bytes) -> User | None:
        """The owner, limited to what the key gives now, without a cache; None if the key was ended.

        `NotSignedIn` if the owner's account was disabled, or has expired.
        """
        if (found := await self._records.find(digest)) is None:
            return None
        if found[0].owner.disabled:
            raise NotSignedIn("The account of the key's owner is disabled. Ask your administrator.")
        if found[0].owner.has_expired(self._database.now()):
            raise NotSignedIn("The account of the key's owner has expired. Ask your administrator to extend it.")
        return found[0].user

    async def close(self) -> None:
        """Wait for what is being noted."""
        if self._notes:
            await asyncio.wait(self._notes)

    async def _query(self, digest: bytes) -> tuple[KeyUse, int] | None:
        found = await self._records.find(digest)
        if found is None or not found[0].owner.may_act(self._database.now()):
            return None
        use, until = found
        return use, until if use.owner.expires_at is None else min(until, clock.from_datetime(use.owner.expires_at))

    def _note(self, key_id: str, address: str) -> None:
        if len(self._noted_until) >= _MAX_NOTED:
            self._noted_until.clear()
        self._noted_until[key_id] = clock.monotonic() + USE_NOTED_SECONDS

        async def write() -> None:
            with suppress(PorticoError):  # the next minute has another chance
                await self._records.note_use(key_id, address)

        task = asyncio.create_task(write())
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)


def _checksum(random: str) -> str:
    """The CRC-32 of the random characters, as six digits to the base of 62."""
    number, digits = crc32(random.encode()), ""
    for _ in range(_CHECKSUM):
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits


def _unknown() -> UnknownKey:
    return UnknownKey("The key is unknown, has expired or was ended, or its owner is disabled. Ask for a new key.")


def _no_key() -> NotFound:
    return NotFound("This key doesn't exist. List your keys to find its id.")
