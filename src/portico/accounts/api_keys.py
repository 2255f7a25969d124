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
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import msgspec
from sqlalchemy import delete, func, insert, or_, select, update

from portico.accounts.credentials import KEY_LENGTH, KEY_PREFIX, CredentialCache, digest_of
from portico.accounts.names import name_key
from portico.model.errors import (
    AddressNotAllowed,
    InvalidRequest,
    NotFound,
    NotSignedIn,
    PorticoError,
    TooManyRequests,
)
from portico.model.paths import Path
from portico.model.rights import Right, format_rights, parse_rights
from portico.runtime import clock
from portico.runtime.tasks import SingleFlight
from portico.store.batched_lookups import BatchedLookups
from portico.store.database import SWEEP_WAIT, AnyRow, Database
from portico.store.tables import api_keys, users
from portico.store.users import USER_COLUMNS, User, user_of

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

MAX_KEYS: Final = 100
"""Keys of one user."""
MAX_RANGES: Final = 32
"""Address ranges of one key."""
USE_NOTED_SECONDS: Final = 60
"""How often the last use of a key is written, at most."""
KEPT_DAYS: Final = 30
"""How long an expired key is still shown."""

Network = IPv4Network | IPv6Network

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


class ApiKey(msgspec.Struct, frozen=True):
    id: str
    name: str
    rights: frozenset[Right]
    folder: Path
    addresses: tuple[Network, ...]
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None
    """To the minute."""
    used_from: str | None


class NewKey(msgspec.Struct, frozen=True):
    key: ApiKey
    text: str
    """The key itself. It is known only now."""

    def __repr__(self) -> str:
        return "NewKey(…)"


class KeyUse(msgspec.Struct, frozen=True):
    key: ApiKey
    owner: User
    user: User
    """The owner, limited to what the key gives."""
    digest: bytes

    def __repr__(self) -> str:
        return "KeyUse(…)"


_KEY_COLUMNS = (
    api_keys.c.id.label("key_id"),
    api_keys.c.name.label("key_name"),
    api_keys.c.rights.label("key_rights"),
    api_keys.c.folder,
    api_keys.c.addresses,
    api_keys.c.created_at.label("key_created_at"),
    api_keys.c.expires_at.label("key_expires_at"),
    api_keys.c.used_at,
    api_keys.c.used_from,
)
_WITH_OWNER = (
    select(*USER_COLUMNS, *_KEY_COLUMNS).select_from(api_keys).join(users, api_keys.c.user_id == users.c.id)
)


def new_text() -> str:
    """A new random key."""
    random = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))
    return KEY_PREFIX + random + _checksum(random)


def is_key(text: str) -> bool:
    """Whether this is a key by its form and checksum, which anybody can verify."""
    if not _KEY.fullmatch(text):
        return False
    random = text[len(KEY_PREFIX) : -_CHECKSUM]
    return text.endswith(_checksum(random))


def parse_network(text: str) -> Network:
    """An address or a range; `InvalidRequest` if it is neither."""
    try:
        return ip_network(text)
    except ValueError:
        raise InvalidRequest(
            f"{text[:64]!r} is not an address or range like 192.0.2.7, 10.0.0.0/8 or fd00::/8."
        ) from None


class UnknownKey(NotSignedIn):
    """The key was never made, has expired, or was ended; or its owner is disabled."""


class ApiKeys:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._lookups = BatchedLookups(database, _WITH_OWNER, api_keys.c.digest)
        self._cache: CredentialCache[KeyUse] = CredentialCache(self._query, database.now)
        self._checks: SingleFlight[bytes, User | None] = SingleFlight()
        self._noted_until: dict[str, float] = {}
        """When the next use of a key is to be written, by the monotonic clock."""
        self._notes: set[asyncio.Task[None]] = set()

    async def add(self, user: User, scope: KeyScope) -> NewKey:
        """Make a key; `InvalidRequest` if it were to have a right that the user has not."""
        if not _NAME.fullmatch(name := scope.name.strip()) or _KEY.search(name):
            raise InvalidRequest("A key needs a name of 1 to 64 characters that says what it is for.")
        if len(scope.addresses) > MAX_RANGES:
            raise InvalidRequest(f"A key can have up to {MAX_RANGES} address ranges.")
        if scope.rights is not None and not scope.rights:
            raise InvalidRequest(f"A key needs at least one right: some of {', '.join(Right)}.")
        now = self._database.now()
        expires_at = None if scope.expires_at is None else math.floor(scope.expires_at.timestamp() * 1000)
        if expires_at is not None and expires_at <= now:
            raise InvalidRequest("A key must expire in the future, or never.")
        text, key_id = new_text(), secrets.token_hex(8)
        values: dict[str, Any] = {
            "id": key_id,
            "digest": digest_of(text),
            "user_id": user.id,
            "name": name,
            "folder": str(scope.folder),
            "addresses": " ".join(map(str, scope.addresses)),
            "created_at": now,
            "expires_at": expires_at,
        }

        async def store(transaction: "AsyncConnection") -> ApiKey:
            # Locked, so that the count holds.
            query = select(*USER_COLUMNS).where(users.c.id == user.id).with_for_update()
            row = (await transaction.execute(query)).first()
            if row is None or row.disabled:
                raise _unknown()
            owner = user_of(row)
            rights = owner.rights if scope.rights is None else scope.rights
            if missing := rights - owner.rights:
                raise InvalidRequest(
                    f"A key cannot have rights that its owner has not: {format_rights(missing)}."
                )
            count = select(func.count()).select_from(api_keys).where(api_keys.c.user_id == user.id)
            if (await transaction.execute(count)).scalar_one() >= MAX_KEYS:
                raise TooManyRequests(
                    f"A user can have {MAX_KEYS} keys; end one of them first.", retry_after=60
                )
            stored = insert(api_keys).values({**values, "rights": format_rights(rights)})
            return _key_of((await transaction.execute(stored.returning(*_KEY_COLUMNS))).one())

        return NewKey(await self._database.transact(store), text)

    async def list(self, user: User) -> list[ApiKey]:
        """The user's keys, newest first; expired ones too, for a while."""
        query = select(*_KEY_COLUMNS).where(api_keys.c.user_id == user.id)
        rows = await self._database.fetch(query.order_by(api_keys.c.created_at.desc(), api_keys.c.id))
        return [_key_of(row) for row in rows]

    async def get(self, user: User, key_id: str) -> ApiKey:
        query = select(*_KEY_COLUMNS).where(api_keys.c.user_id == user.id, api_keys.c.id == key_id)
        row = await self._database.first(query)
        if row is None:
            raise _no_key()
        return _key_of(row)

    async def end(self, user: User, key_id: str) -> None:
        """End a key of this user, here at once and elsewhere within a second; `NotFound` if there is none."""
        own = api_keys.c.user_id == user.id, api_keys.c.id == key_id
        if not await self._database.execute(delete(api_keys).where(*own)):
            raise _no_key()
        self.forget()

    async def use(self, text: str, address: str, username: str = "") -> KeyUse:
        """What a key gives now. `UnknownKey` if it is none, `AddressNotAllowed` if it may not be used from there.

        `username`: of whom the client says that it acts for, if it says so.
        """
        if not is_key(text):
            raise NotSignedIn("The key is malformed; copy all of it, from pk_ to its last character.")
        use = await self._cache.get(digest_of(text))
        if use is None or (username and name_key(username) != name_key(use.owner.name)):
            raise _unknown()
        if use.key.addresses and not _within(address, use.key.addresses):
            raise AddressNotAllowed("This key may not be used from your address; its owner can change that.")
        if clock.monotonic() >= self._noted_until.get(use.key.id, 0.0):
            self._note(use.key.id, address)
        return use

    async def current_user(self, digest: bytes) -> User | None:
        """The owner, limited to what the key gives now, without a cache; None if the key was ended.

        `NotSignedIn` if the owner's account was disabled.
        """
        return await self._checks.run(digest, lambda: self._check(digest))

    async def sweep(self) -> None:
        """Remove keys that expired long ago."""
        before = self._database.now() - KEPT_DAYS * 86_400_000
        await self._database.execute(delete(api_keys).where(api_keys.c.expires_at <= before), wait=SWEEP_WAIT)

    def forget(self) -> None:
        self._cache.forget()

    async def close(self) -> None:
        """Wait for what is being noted."""
        if self._notes:
            await asyncio.wait(self._notes)

    async def _query(self, digest: bytes) -> tuple[KeyUse, int] | None:
        return self._found(digest, await self._lookups.first(digest))

    def _found(self, digest: bytes, row: AnyRow | None) -> tuple[KeyUse, int] | None:
        if not self._is_open(row):
            return None
        assert row is not None
        key, owner = _key_of(row), user_of(row)
        use = KeyUse(key, owner, owner.limited_to(key.folder, key.rights), digest)
        return use, row.key_expires_at or 2**62

    async def _check(self, digest: bytes) -> User | None:
        self._checks.forget(digest)  # later callers need a newer answer
        row = await self._lookups.first(digest)
        if row is not None and row.disabled:
            raise NotSignedIn("The account of the key's owner was disabled; ask your administrator.")
        found = self._found(digest, row)
        return found[0].user if found else None

    def _is_open(self, row: AnyRow | None) -> bool:
        if row is None or row.disabled:
            return False
        return row.key_expires_at is None or row.key_expires_at > self._database.now()

    def _note(self, key_id: str, address: str) -> None:
        """Write when and from where the key was used, while the request goes on."""
        if len(self._noted_until) >= _MAX_NOTED:
            self._noted_until.clear()
        self._noted_until[key_id] = clock.monotonic() + USE_NOTED_SECONDS
        now = self._database.now()
        due = or_(api_keys.c.used_at.is_(None), api_keys.c.used_at <= now - USE_NOTED_SECONDS * 1000)
        statement = (
            update(api_keys).where(api_keys.c.id == key_id, due).values(used_at=now, used_from=address[:64])
        )

        async def write() -> None:
            with suppress(PorticoError):  # the next minute has another chance
                await self._database.execute(statement)

        task = asyncio.create_task(write())
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)


def _key_of(row: AnyRow) -> ApiKey:
    return ApiKey(
        id=row.key_id,
        name=row.key_name,
        rights=parse_rights(row.key_rights),
        folder=Path.parse(row.folder),
        addresses=tuple(ip_network(each) for each in row.addresses.split()),
        created_at=clock.to_datetime(row.key_created_at),
        expires_at=None if row.key_expires_at is None else clock.to_datetime(row.key_expires_at),
        used_at=None if row.used_at is None else clock.to_datetime(row.used_at),
        used_from=row.used_from,
    )


def _within(address: str, networks: tuple[Network, ...]) -> bool:
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return any(parsed in network for network in networks)


def _checksum(random: str) -> str:
    """The CRC-32 of the random characters, as six digits to the base of 62."""
    number, digits = crc32(random.encode()), ""
    for _ in range(_CHECKSUM):
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits


def _unknown() -> UnknownKey:
    return UnknownKey("The key is unknown, expired or ended, or its owner is disabled; ask for a new one.")


def _no_key() -> NotFound:
    return NotFound("There is no such key.")
