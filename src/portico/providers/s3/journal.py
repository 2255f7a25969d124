"""The journal of multipart uploads, by which abandoned ones are found.

An entry is an object in the bucket. It exists from before the upload begins until it has ended, and is renewed while
the upload runs. An entry that was not renewed for a day belongs to a process that has died.
"""

import asyncio
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from secrets import token_hex

import structlog

from portico.entries import Entry
from portico.errors import NotFound, PorticoError
from portico.paths import RESERVED_PREFIX
from portico.providers.s3.errors import translated
from portico.providers.s3.service import Service
from portico.providers.s3.unfinished import abort, abort_begun_at

FOLDER = f"{RESERVED_PREFIX}uploads/"
STALE = timedelta(hours=24)
_RENEWAL_SECONDS = 3600.0
_MAX_ENTRY_BYTES = 16 * 1024

log = structlog.get_logger()


class JournalEntry:
    def __init__(self, service: Service, key: str) -> None:
        self._service = service
        self._key = key
        self._entry_key = f"{FOLDER}{token_hex(16)}"
        self._ended = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Write the entry before the upload begins, so that no upload is ever unrecorded."""
        await self._write(None)

    def keep(self, upload_id: str) -> None:
        """Record the id of the upload, and renew the entry while it runs."""
        self._renewing = asyncio.ensure_future(self._renew(upload_id))

    async def end(self) -> None:
        await self.leave()
        await self._service.call("delete_object", Key=self._entry_key)

    async def leave(self) -> None:
        """Stop renewing, and leave the upload to the sweep."""
        self._ended.set()
        if self._renewing:
            await asyncio.wait([self._renewing])

    async def _renew(self, upload_id: str) -> None:
        while not self._ended.is_set():
            try:
                await self._write(upload_id)
            except PorticoError as error:
                log.warning("upload-note-not-renewed", code=error.code, cause=error.cause)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _RENEWAL_SECONDS)

    async def _write(self, upload_id: str | None) -> None:
        text = json.dumps({"key": self._key, "upload": upload_id})
        await self._service.call(
            "put_object", Key=self._entry_key, Body=text.encode(), ContentType="application/json"
        )


async def clear(service: Service, records: list[Entry]) -> int:
    """Abort the uploads of stale entries, and remove the entries. Returns how many there were."""
    latest = datetime.now(UTC) - STALE
    stale = [record for record in records if record.modified is None or record.modified < latest]
    for record in stale:
        await _clear(service, record)
    return len(stale)


async def _clear(service: Service, record: Entry) -> None:
    try:
        response = await service.call("get_object", Key=record.name)
        with translated(record.name, service.bucket):
            async with asyncio.timeout(service.timeout), response["Body"] as body:
                text = b""
                while piece := await body.read(_MAX_ENTRY_BYTES - len(text)):
                    text += piece
        content = json.loads(text)
        key, upload_id = str(content["key"]), content["upload"]
    except NotFound:
        return  # another worker was faster
    except (ValueError, KeyError, TypeError):
        log.warning("upload-note-unreadable", note=record.name)
    else:
        if upload_id:
            await abort(service, key, str(upload_id))
        elif record.modified is not None:
            await abort_begun_at(service, key, record.modified)
    await service.call("delete_object", Key=record.name)
