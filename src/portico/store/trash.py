"""What was deleted or replaced, and can be brought back: one row for each, which `journal` adds. The content is in the storage."""

import re
from collections.abc import Collection
from random import getrandbits
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, and_, case, delete, false, func, or_, select, update

from portico.model.errors import InvalidCursor
from portico.model.paths import Place
from portico.store.database import Database, record_of
from portico.store.tables import trash

DELETED: Final = "deleted"
REPLACED: Final = "replaced"

KEPT: Final = "kept"
RESTORING: Final = "restoring"
HELD: Final = "held"
"""It was removed for good, and can be brought back by a rewind only."""
REMOVING: Final = "removing"
_HIDDEN: Final = (HELD, REMOVING)

_CURSOR: Final = re.compile("[0-9]{1,15}-[0-9a-f]{24}")
_ID: Final = re.compile("[0-9a-f]{24}")
_TIME_DIGITS: Final = 12
_DAY: Final = 24 * 3600 * 1000
_IDS_AT_ONCE: Final = 500


class Trashed(msgspec.Struct):
    id: str
    connection: str
    path: str
    """In the bucket, container, share or folder of the connection."""
    is_folder: bool
    size: int | None
    reason: str
    status: str
    user: str | None
    deleted_at: int
    expires_at: int


class TrashRecords:
    def __init__(self, database: Database) -> None:
        self._database = database

    def now(self) -> int:
        return self._database.now()

    async def find(self, origins: Collection[Place], trash_id: str) -> Trashed | None:
        """A row of what was below one of the origins."""
        if not _ID.fullmatch(trash_id):
            return None
        query = select(trash).where(trash.c.id == trash_id, trash.c.status.not_in(_HIDDEN), _below(origins))
        row = await self._database.first(query)
        return record_of(Trashed, row) if row else None

    async def find_all(self, ids: Collection[str]) -> dict[str, Trashed]:
        """Also what is held."""
        found = {}
        wanted = sorted(ids)
        for start in range(0, len(wanted), _IDS_AT_ONCE):
            some = wanted[start : start + _IDS_AT_ONCE]
            query = select(trash).where(trash.c.id.in_(some), trash.c.status != REMOVING)
            found.update({row.id: record_of(Trashed, row) for row in await self._database.fetch(query)})
        return found

    async def page(
        self, origins: Collection[Place], size: int, cursor: str | None = None
    ) -> tuple[list[Trashed], str | None]:
        """What was below one of the origins, the newest first, and the cursor of the next page."""
        query = select(trash).where(trash.c.status.not_in(_HIDDEN))
        if cursor is not None:
            if not _CURSOR.fullmatch(cursor):
                raise InvalidCursor("The cursor doesn't belong to the trash. Start again without a cursor.")
            time, _, last = cursor.partition("-")
            # The first condition is for the index.
            before = or_(trash.c.deleted_at < int(time), trash.c.id < last)
            query = query.where(trash.c.deleted_at <= int(time), before)
        query = query.order_by(trash.c.deleted_at.desc(), trash.c.id.desc()).limit(size + 1)
        rows: list[Trashed] = []
        for connection in {origin.connection for origin in origins}:  # each by itself: the index begins with it
            mine = [origin for origin in origins if origin.connection == connection]
            there = query.where(trash.c.connection == connection, _below(mine))
            rows += [record_of(Trashed, row) for row in await self._database.fetch(there)]
        rows.sort(key=lambda record: (record.deleted_at, record.id), reverse=True)
        if len(rows) <= size:
            return rows, None
        last_one = rows[size - 1]
        return rows[:size], f"{last_one.deleted_at}-{last_one.id}"

    async def claim(self, record: Trashed, status: str, *, expires_at: int | None = None) -> bool:
        """Mark a row as being restored, removed or held; False if it is being removed, gone, or held since it was read.

        What is being restored does not expire meanwhile. What is being removed is due at once, in case that is interrupted.
        """
        statement = update(trash).where(trash.c.id == record.id, trash.c.status.in_((record.status, RESTORING)))
        values: dict[str, Any] = {"status": status}
        if expires_at is not None:
            values["expires_at"] = expires_at
        elif status == REMOVING:
            now = self.now()
            values["expires_at"] = case((trash.c.expires_at > now, now), else_=trash.c.expires_at)
        elif status == RESTORING:
            soon = self.now() + _DAY
            values["expires_at"] = case((trash.c.expires_at < soon, soon), else_=trash.c.expires_at)
        return bool(await self._database.execute(statement.values(values)))

    async def release(self, record: Trashed) -> None:
        """It was not restored, or not all of it."""
        statement = update(trash).where(trash.c.id == record.id, trash.c.status == RESTORING)
        status = HELD if record.status == HELD else KEPT
        await self._database.execute(statement.values(status=status))

    async def held(self, connection: str | None, user: str | None, limit: int) -> list[Trashed]:
        """The newest first."""
        there = and_(_held(connection, user), trash.c.expires_at > self.now())
        query = select(trash).where(there).order_by(trash.c.deleted_at.desc(), trash.c.id).limit(limit)
        return [record_of(Trashed, row) for row in await self._database.fetch(query)]

    async def purge_held(self, connection: str | None, user: str | None) -> int:
        """Have the next sweep remove it; returns how much there is."""
        return await self._database.execute(update(trash).where(_held(connection, user)).values(expires_at=self.now()))

    async def remove(self, trash_id: str) -> None:
        await self._database.execute(delete(trash).where(trash.c.id == trash_id))

    async def due(self, connection: str, limit: int, after: Trashed | None = None) -> list[Trashed]:
        """Those of a connection to be removed, those that are due for the longest time first: expired ones, and those whose removal
        was interrupted. `after`: the last one of the page before."""
        query = select(trash).where(trash.c.connection == connection, trash.c.expires_at <= self.now())
        if after is not None:
            later = or_(trash.c.expires_at > after.expires_at, trash.c.id > after.id)
            query = query.where(trash.c.expires_at >= after.expires_at, later)
        query = query.order_by(trash.c.expires_at, trash.c.id).limit(limit)
        return [record_of(Trashed, row) for row in await self._database.fetch(query)]

    async def unknown(self, ids: Collection[str], older_than: int) -> list[str]:
        """Which of these names are ids from before a time that have no row."""
        old = {name for name in ids if _ID.fullmatch(name) and time_of(name) < older_than}
        if not old:
            return []
        rows = await self._database.fetch(select(trash.c.id).where(trash.c.id.in_(sorted(old))))
        return sorted(old - {row.id for row in rows})


def new_id(now: int) -> str:
    """It begins with the time, so that the age of content whose row was lost is known."""
    return f"{now:0{_TIME_DIGITS}x}{getrandbits(48):012x}"


def next_id(trash_id: str) -> str:
    """The id of what the same change puts into the trash after this."""
    number = int(trash_id[_TIME_DIGITS:], 16) + 1
    return f"{trash_id[:_TIME_DIGITS]}{number % 16**_TIME_DIGITS:0{_TIME_DIGITS}x}"


def time_of(trash_id: str) -> int:
    return int(trash_id[:_TIME_DIGITS], 16)


def _held(connection: str | None, user: str | None) -> ColumnElement[bool]:
    wanted = [trash.c.status == HELD]
    if connection is not None:
        wanted.append(trash.c.connection == connection)
    if user is not None:
        wanted.append(func.lower(trash.c.user) == user.lower())
    return and_(*wanted)


def _below(origins: Collection[Place]) -> ColumnElement[bool]:
    return or_(false(), *map(_is_below, origins))


def _is_below(origin: Place) -> ColumnElement[bool]:
    mine = trash.c.connection == origin.connection
    if origin.path.is_root:
        return mine
    # Not LIKE, for which a path would have to be escaped, and not a range, which depends on the collation.
    above = f"{origin.path}/"
    return and_(mine, func.substr(trash.c.path, 1, len(above)) == above)
