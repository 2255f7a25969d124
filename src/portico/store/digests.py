"""The digests of files that were computed while they were uploaded.

A digest holds as long as the file is the one that was hashed, by its etag. A file that was copied back from a backup has
another one: `operations.digest_adoption` verifies it. The row of a file that is deleted or moved matches no other file: a sweep
removes it, unless the next digest for its path overwrites it first.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

import structlog
from sqlalchemy import delete, literal_column, select, tuple_
from sqlalchemy.exc import SQLAlchemyError

from portico.model.entries import Entry
from portico.model.errors import PorticoError
from portico.store.database import SWEEP_WAIT, AnyRow, Database, upsert
from portico.store.tables import digests

_MAX_ETAG: Final = 1024
_UNUSED_SECONDS: Final = 1.0
_USED_SECONDS: Final = 600.0
_REPLACED = {
    column.name: literal_column(f"excluded.{column.name}", column.type)
    for column in digests.columns
    if not column.primary_key
}

log = structlog.get_logger()


class FileDigest(NamedTuple):
    sha256: bytes
    etag: str
    """Of the file that was hashed."""


class RecordedDigest(NamedTuple):
    key: bytes
    connection: str
    path: str
    """In the storage of the connection."""
    etag: str


class FileDigests:
    """A location is a text that names the storage and the path in it: the same for all who see the file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = upsert(database.dialect, digests, _REPLACED)
        self._collecting: _Batch | None = None
        self._writing: asyncio.Task[None] | None = None
        self._used: dict[str, tuple[bool, float]] = {}
        """Of each connection: whether it has digests, and until when that is believed."""

    async def is_used(self, connection: str) -> bool:
        """Whether files of the connection have digests. Asked at most once a second while there are none."""
        used, until = self._used.get(connection, (False, 0.0))
        if (now := time.monotonic()) < until:
            return used
        query = select(digests.c.location).where(digests.c.connection == connection).limit(1)
        used = await self._database.first(query) is not None
        self._used[connection] = used, now + (_USED_SECONDS if used else _UNUSED_SECONDS)
        return used

    async def record(self, connection: str, files: Iterable[tuple[str, Entry, bytes]]) -> None:
        """Remember the SHA-256 of files that were just stored, given with their locations.

        Those of concurrent uploads are written together. If the database fails, they are unknown.
        """
        rows = [
            self._row(connection, location, entry, digest)
            for location, entry, digest in files
            if entry.etag is not None and len(entry.etag) <= _MAX_ETAG
        ]
        if not rows:
            return
        self._used.pop(connection, None)
        if self._collecting is None:
            self._collecting = _Batch()
            self._collecting.written = asyncio.create_task(self._write(self._collecting, self._writing))
        batch = self._collecting
        batch.rows |= {row["location"]: row for row in rows}
        assert batch.written
        await asyncio.shield(batch.written)

    async def adopt(self, connection: str, location: str, entry: Entry, digest: bytes) -> None:
        """Bind a recorded digest to a file as it is now. Raises if the database fails."""
        await self._database.execute(self._insert, [self._row(connection, location, entry, digest)])

    def _row(self, connection: str, location: str, entry: Entry, digest: bytes) -> dict[str, Any]:
        return {
            "location": _key(connection, location),
            "connection": connection,
            "path": location.rpartition("\0")[2],
            "sha256": digest,
            "etag": entry.etag,
            "size": entry.size or 0,
        }

    async def find(self, connection: str, files: Mapping[str, Entry]) -> dict[str, FileDigest]:
        """The known digests of these files, given by location, with one query."""
        return await self._digests(connection, files, _is_of)

    async def outdated(self, connection: str, files: Mapping[str, Entry]) -> dict[str, FileDigest]:
        """The digests that were recorded for the locations of these files when they were others, by their etags."""
        return await self._digests(connection, files, lambda row, file: row.etag != file.etag)

    async def sample(self, most: int) -> list[RecordedDigest]:
        """Some of all digests, by chance: those that follow a random key."""
        start = secrets.token_bytes(32)
        query = select(digests).where(digests.c.path.is_not(None)).order_by(digests.c.location)
        rows = [*await self._database.fetch(query.where(digests.c.location >= start).limit(most))]
        if len(rows) < most:
            rows += await self._database.fetch(query.where(digests.c.location < start).limit(most - len(rows)))
        return [RecordedDigest(bytes(row.location), row.connection, row.path, row.etag) for row in rows]

    async def remove(self, gone: Iterable[RecordedDigest]) -> None:
        """Unless another digest was recorded for the path meanwhile."""
        if known := [(each.key, each.etag) for each in gone]:
            await self._database.execute(
                delete(digests).where(tuple_(digests.c.location, digests.c.etag).in_(known)), wait=SWEEP_WAIT
            )

    async def _digests(
        self, connection: str, files: Mapping[str, Entry], fits: Callable[[AnyRow, Entry], bool]
    ) -> dict[str, FileDigest]:
        keys = {_key(connection, location): location for location in files}
        if not keys:
            return {}
        rows = await self._database.fetch(select(digests).where(digests.c.location.in_(keys)))
        found = [(keys[bytes(row.location)], row) for row in rows]
        return {location: FileDigest(row.sha256, row.etag) for location, row in found if fits(row, files[location])}

    async def _write(self, batch: "_Batch", previous: asyncio.Task[None] | None) -> None:
        if previous:
            await asyncio.wait([previous])
        self._collecting, self._writing = None, batch.written
        rows = [batch.rows[key] for key in sorted(batch.rows)]  # in one order: nodes cannot block each other
        try:
            await self._database.execute(self._insert, rows)
        except (PorticoError, SQLAlchemyError) as error:
            log.warning("digests-not-recorded", files=len(rows), cause=getattr(error, "cause", None) or repr(error))


class _Batch:
    def __init__(self) -> None:
        self.rows: dict[bytes, dict[str, Any]] = {}
        self.written: asyncio.Task[None] | None = None


def _key(connection: str, location: str) -> bytes:
    return sha256(f"{connection}\0{location}".encode()).digest()


def _is_of(row: AnyRow, entry: Entry) -> bool:
    """Whether the file may be the one that was hashed. Some listings have no etag; then the caller has to compare it."""
    return bool(row.size == entry.size if entry.etag is None else row.etag == entry.etag)
