"""API keys, with their owners."""

from collections.abc import Callable, Mapping
from datetime import datetime
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Final

import msgspec
from sqlalchemy import delete, func, insert, or_, select, update

from portico.model.errors import TooManyRequests
from portico.model.paths import Path
from portico.model.rights import Right, format_rights, parse_rights
from portico.runtime import clock
from portico.store.batched_lookups import BatchedLookups
from portico.store.database import SWEEP_WAIT, AnyRow, Database
from portico.store.encrypted_columns import Confidential
from portico.store.reach import Network
from portico.store.tables import api_keys, users
from portico.store.users import USER_COLUMNS, User, user_of

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

MAX_KEYS: Final = 100
"""Keys of one user."""
USE_NOTED_SECONDS: Final = 60
"""How often the last use of a key is written, at most."""
KEPT_DAYS: Final = 30
"""How long an expired key is still shown."""


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


class KeyUse(Confidential, msgspec.Struct, frozen=True):
    key: ApiKey
    owner: User
    user: User
    """The owner, limited to what the key gives."""
    digest: bytes


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
_WITH_OWNER = select(*USER_COLUMNS, *_KEY_COLUMNS).select_from(api_keys).join(users, api_keys.c.user_id == users.c.id)


class KeyRecords:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._lookups = BatchedLookups(database, _WITH_OWNER, api_keys.c.digest)

    async def add(
        self, user_id: int, values: Mapping[str, Any], rights_of: Callable[[User], frozenset[Right]]
    ) -> ApiKey | None:
        """Add a key with the rights that its owner can give it now; None if the owner may not act."""

        async def store(transaction: "AsyncConnection") -> ApiKey | None:
            # Locked, so that the count holds.
            query = select(*USER_COLUMNS).where(users.c.id == user_id).with_for_update()
            row = (await transaction.execute(query)).first()
            if row is None or not (owner := user_of(row)).may_act(self._database.now()):
                return None
            rights = format_rights(rights_of(owner))
            count = select(func.count()).select_from(api_keys).where(api_keys.c.user_id == user_id)
            if (await transaction.execute(count)).scalar_one() >= MAX_KEYS:
                raise TooManyRequests(
                    f"A user can have at most {MAX_KEYS} keys; end one of them first.", retry_after=60
                )
            stored = insert(api_keys).values({**values, "user_id": user_id, "rights": rights})
            return _key_of((await transaction.execute(stored.returning(*_KEY_COLUMNS))).one())

        return await self._database.transact(store)

    async def all(self, user: User) -> list[ApiKey]:
        """The user's keys, newest first; expired ones too, for a while."""
        query = select(*_KEY_COLUMNS).where(api_keys.c.user_id == user.id)
        rows = await self._database.fetch(query.order_by(api_keys.c.created_at.desc(), api_keys.c.id))
        return [_key_of(row) for row in rows]

    async def usable(self) -> list[tuple[User, ApiKey, User]]:
        """All keys that have not expired, each with its owner, and with the owner as limited by the key."""
        now = self._database.now()
        living = or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > now)
        query = _WITH_OWNER.where(living).order_by(users.c.name_key, api_keys.c.created_at, api_keys.c.id)
        found = [(user_of(row), _key_of(row)) for row in await self._database.fetch(query)]
        return [(owner, key, _limited(owner, key)) for owner, key in found]

    async def get(self, user: User, key_id: str) -> ApiKey | None:
        query = select(*_KEY_COLUMNS).where(api_keys.c.user_id == user.id, api_keys.c.id == key_id)
        row = await self._database.first(query)
        return None if row is None else _key_of(row)

    async def end(self, user: User, key_id: str) -> bool:
        own = api_keys.c.user_id == user.id, api_keys.c.id == key_id
        return await self._database.execute(delete(api_keys).where(*own)) > 0

    async def find(self, digest: bytes) -> tuple[KeyUse, int] | None:
        """What a key gives, and when it expires, unless it has; the owner may be disabled, or expired."""
        row = await self._lookups.first(digest)
        if row is None or (row.key_expires_at is not None and row.key_expires_at <= self._database.now()):
            return None
        key, owner = _key_of(row), user_of(row)
        use = KeyUse(key, owner, _limited(owner, key), digest)
        return use, row.key_expires_at or 2**62

    async def note_use(self, key_id: str, address: str) -> None:
        now = self._database.now()
        due = or_(api_keys.c.used_at.is_(None), api_keys.c.used_at <= now - USE_NOTED_SECONDS * 1000)
        statement = update(api_keys).where(api_keys.c.id == key_id, due).values(used_at=now, used_from=address[:64])
        await self._database.execute(statement)

    async def sweep(self) -> None:
        before = self._database.now() - KEPT_DAYS * 86_400_000
        await self._database.execute(delete(api_keys).where(api_keys.c.expires_at <= before), wait=SWEEP_WAIT)


def _limited(owner: User, key: ApiKey) -> User:
    return owner.limited_to(key.folder, key.rights)


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
