"""Uploads that one request sends to a service in parts, so that a sweep finds those whose process died.

The row exists from before the upload begins until it has ended, and is renewed every hour meanwhile.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog
from sqlalchemy import and_, delete, insert, select, update

from portico.errors import PorticoError
from portico.store.database import Database
from portico.store.sealed import Sealed, Unsealable
from portico.store.tables import uploads

PLAIN: Final = "plain"
"""The kind of these uploads."""
LIFETIME: Final = timedelta(hours=24)
"""How long the row of a process that died is kept before its upload is abandoned."""
_RENEWAL: Final = timedelta(hours=1)
_RETRY: Final = timedelta(minutes=1)
_MILLISECOND: Final = timedelta(milliseconds=1)

log = structlog.get_logger()


class LoggedUpload:
    def __init__(self, database: Database, sealed: Sealed, upload_id: str) -> None:
        self._database = database
        self._sealed = sealed
        self._id = upload_id
        self._state: bytes | None = None
        self._wanted = asyncio.Event()
        """Set when the row has to be written before it is time to renew it."""
        self._ended = False
        self._renewing = asyncio.create_task(self._renew())

    def update(self, state: bytes) -> None:
        self._state = state
        self._wanted.set()

    async def end(self) -> None:
        await self.leave()
        await self._database.execute(delete(uploads).where(uploads.c.id == self._id))

    async def leave(self) -> None:
        self._ended = True
        self._wanted.set()
        await asyncio.wait([self._renewing])

    async def _renew(self) -> None:
        pause = _RENEWAL
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), pause.total_seconds())
            self._wanted.clear()
            if self._ended:
                return
            try:
                await self._write()
                pause = _RENEWAL
            except PorticoError as error:
                pause = _RETRY
                log.warning("upload-record-not-renewed", code=error.code, cause=error.cause)

    async def _write(self) -> None:
        now = self._database.now()
        values: dict[str, object] = _leased(now)
        state = self._state
        if state is not None:
            values["state"] = self._sealed.seal(state, self._id)
        await self._database.execute(update(uploads).where(uploads.c.id == self._id).values(values))
        if self._state is state:
            self._state = None


class ConnectionLog:
    """The uploads of one connection."""

    def __init__(self, database: Database, sealed: Sealed, owner: str, connection: str) -> None:
        self._database = database
        self._sealed = sealed
        self._owner = owner
        self._connection = connection

    async def begin(self, path: str, state: bytes) -> LoggedUpload:
        now = self._database.now()
        upload_id = secrets.token_hex(16)
        row = {
            "id": upload_id,
            "connection": self._connection,
            "kind": PLAIN,
            "status": "open",
            "path": path,
            "offset": 0,
            "details": "{}",
            "state": self._sealed.seal(state, upload_id),
            "owner": self._owner,
            "fence": 0,
            "created_at": now,
            **_leased(now),
        }
        await self._database.execute(insert(uploads).values(row))
        return LoggedUpload(self._database, self._sealed, upload_id)


@dataclass(frozen=True, slots=True)
class ExpiredUpload:
    id: str
    state: bytes
    expires_at: int


class UploadLogs:
    def __init__(self, database: Database, sealed: Sealed, node: str) -> None:
        self._database = database
        self._sealed = sealed
        self._owner = f"{node[:64]}/{secrets.token_hex(8)}"

    def of(self, connection: str) -> ConnectionLog:
        return ConnectionLog(self._database, self._sealed, self._owner, connection)

    async def expired(self, connection: str) -> AsyncIterator[ExpiredUpload]:
        """Uploads whose process died a day ago or earlier."""
        mine = and_(
            uploads.c.kind == PLAIN,
            uploads.c.connection == connection,
            uploads.c.expires_at <= self._database.now(),
        )
        columns = uploads.c.id, uploads.c.state, uploads.c.expires_at
        for row in await self._database.fetch(select(*columns).where(mine)):
            try:
                state = self._sealed.open(row.state or b"", row.id)
            except Unsealable as error:
                log.warning("upload-record-unreadable", connection=connection, cause=error.cause)
                await self.remove(ExpiredUpload(row.id, b"", row.expires_at))
                continue
            yield ExpiredUpload(row.id, state, row.expires_at)

    async def remove(self, upload: ExpiredUpload) -> None:
        """Remove the row, unless it was renewed."""
        same = and_(uploads.c.id == upload.id, uploads.c.expires_at == upload.expires_at)
        await self._database.execute(delete(uploads).where(same))


def _leased(now: int) -> dict[str, object]:
    return {"owned_until": now + 2 * _RENEWAL // _MILLISECOND, "expires_at": now + LIFETIME // _MILLISECOND}
