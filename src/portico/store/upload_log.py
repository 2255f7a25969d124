"""Uploads that one request sends to a service in parts, so that a sweep finds those whose process died.

The row exists from before the upload begins until it has ended, and is renewed every hour meanwhile. Once it has
expired, `Uploads` finds and claims it, as one of a resumable upload.
"""

import asyncio
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import structlog
from sqlalchemy import delete, insert, update

from portico.model.errors import PorticoError
from portico.store.database import Database
from portico.store.encrypted_columns import Sealed
from portico.store.heartbeats import Renewals
from portico.store.tables import uploads

PLAIN: Final = "plain"
"""The kind of these uploads."""
LIFETIME: Final = timedelta(hours=24)
"""How long the row of a process that died is kept before its upload is abandoned."""
RENEWAL: Final = timedelta(hours=1)
_MILLISECOND: Final = timedelta(milliseconds=1)

log = structlog.get_logger()


class LoggedUpload:
    def __init__(
        self, database: Database, sealed: Sealed, renewals: Renewals["LoggedUpload"], upload_id: str
    ) -> None:
        self.id = upload_id
        self._database = database
        self._sealed = sealed
        self._unwritten: bytes | None = None
        self._writing: asyncio.Task[None] | None = None
        self._renewals = renewals
        renewals.add(self)

    def update(self, state: bytes) -> None:
        self._unwritten = state
        self.write()

    def write(self) -> None:
        """Write the last state, unless that is done or under way."""
        if self._unwritten is not None and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write())

    async def end(self) -> None:
        await self.leave()
        await self._database.execute(delete(uploads).where(uploads.c.id == self.id))

    async def leave(self) -> None:
        await self._renewals.remove(self)
        if self._writing:
            await asyncio.wait([self._writing])

    async def _write(self) -> None:
        while (state := self._unwritten) is not None:
            values = {**_leased(self._database.now()), "state": self._sealed.seal(state, self.id)}
            try:
                await self._database.execute(update(uploads).where(uploads.c.id == self.id).values(values))
            except PorticoError as error:  # tried again when the row is renewed
                log.warning("upload-record-not-written", code=error.code, cause=error.cause)
                return
            if self._unwritten is state:
                self._unwritten = None


class ConnectionLog:
    """The uploads of one connection."""

    def __init__(
        self,
        database: Database,
        sealed: Sealed,
        renewals: Renewals[LoggedUpload],
        owner: str,
        connection: str,
    ) -> None:
        self._database = database
        self._sealed = sealed
        self._renewals = renewals
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
        return LoggedUpload(self._database, self._sealed, self._renewals, upload_id)


class UploadLogs:
    def __init__(self, database: Database, sealed: Sealed, node: str, renewal: timedelta = RENEWAL) -> None:
        self._database = database
        self._sealed = sealed
        self._owner = f"{node[:64]}/{secrets.token_hex(8)}"
        self._renewals = Renewals("upload-record", renewal, self._renew)

    def of(self, connection: str) -> ConnectionLog:
        return ConnectionLog(self._database, self._sealed, self._renewals, self._owner, connection)

    async def _renew(self, held: Sequence[LoggedUpload]) -> list[LoggedUpload]:
        for upload in held:
            upload.write()
        mine = uploads.c.id.in_([upload.id for upload in held])
        statement = update(uploads).where(mine).values(_leased(self._database.now()))
        kept = {row.id for row in await self._database.write(statement.returning(uploads.c.id))}
        return [upload for upload in held if upload.id in kept]


def _leased(now: int) -> dict[str, object]:
    return {"owned_until": now + 2 * RENEWAL // _MILLISECOND, "expires_at": now + LIFETIME // _MILLISECOND}
