"""Uploads that one request sends to a service in parts, so that a sweep finds those whose process died.

The row exists from before the upload begins until it has ended, and is renewed every hour meanwhile. Once it has
expired, `Uploads` finds and claims it, as one of a resumable upload.
"""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import structlog
from sqlalchemy import delete, insert

from portico.model.errors import PorticoError
from portico.runtime import clock
from portico.store.database import Database
from portico.store.encrypted_columns import Sealed
from portico.store.ownership import Owned, Ownership
from portico.store.tables import uploads

PLAIN: Final = "plain"
"""The kind of these uploads."""
LIFETIME: Final = timedelta(hours=24)
"""How long the row of a process that died is kept before its upload is abandoned."""
RENEWAL: Final = timedelta(hours=1)

log = structlog.get_logger()


class LoggedUpload(Owned):
    _rows: "UploadLogs"

    def __init__(self, rows: "UploadLogs", upload_id: str, claim: Mapping[str, Any]) -> None:
        super().__init__(rows, upload_id, claim)
        self._unwritten: bytes | None = None
        self._writing: asyncio.Task[None] | None = None

    def update(self, state: bytes) -> None:
        self._unwritten = state
        self.write()

    def write(self) -> None:
        """Write the last state, unless that is done or under way."""
        if self._unwritten is not None and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write())

    async def end(self) -> None:
        await self.leave()
        # Even if it was given up for dead: nothing is left to abandon.
        await self._rows.database.execute(delete(uploads).where(uploads.c.id == self.key))

    async def leave(self) -> None:
        await self.let_go()
        if self._writing:
            await asyncio.wait([self._writing])

    async def _write(self) -> None:
        while (state := self._unwritten) is not None:
            try:
                await self.change(**self._rows.renewed_values(), state=self._rows.seal(state, self.key))
            except PorticoError as error:  # tried again when the row is renewed
                log.warning("upload-record-not-written", code=error.code, cause=error.cause)
                return
            if self._unwritten is state:
                self._unwritten = None


class ConnectionLog:
    def __init__(self, rows: "UploadLogs", connection: str) -> None:
        self._rows = rows
        self._connection = connection

    async def begin(self, path: str, state: bytes) -> LoggedUpload:
        upload_id = secrets.token_hex(16)
        claim = self._rows.new_claim()
        row = {
            "id": upload_id,
            "connection": self._connection,
            "kind": PLAIN,
            "status": "open",
            "path": path,
            "offset": 0,
            "details": "{}",
            "state": self._rows.seal(state, upload_id),
            "created_at": self._rows.database.now(),
            **self._rows.renewed_values(),
            **claim,
        }
        await self._rows.database.execute(insert(uploads).values(row))
        return LoggedUpload(self._rows, upload_id, claim)


class UploadLogs(Ownership[LoggedUpload]):
    def __init__(self, database: Database, sealed: Sealed, node: str, renewal: timedelta = RENEWAL) -> None:
        super().__init__(database, uploads, "upload-record", node, lifetime=2 * RENEWAL, renewal=renewal)
        self.seal = sealed.seal

    def of(self, connection: str) -> ConnectionLog:
        return ConnectionLog(self, connection)

    async def renew(self, held: Sequence[LoggedUpload]) -> Sequence[LoggedUpload]:
        for upload in held:
            upload.write()
        return await super().renew(held)

    def renewed_values(self) -> dict[str, Any]:
        return {**super().renewed_values(), "expires_at": self.database.now() + clock.milliseconds(LIFETIME)}
