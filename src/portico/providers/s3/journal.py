"""Which multipart uploads are ours, so that those that nobody ends are found.

A note lies in the bucket from before an upload is begun until it has ended. Whoever keeps the upload alive renews it;
one that was not renewed for a day belongs to a process that is gone.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Any

import structlog

from portico.entries import Entry
from portico.errors import NotFound, PorticoError
from portico.paths import RESERVED_PREFIX
from portico.providers.progress import Progress
from portico.providers.s3.faults import translated
from portico.providers.s3.service import Service

FOLDER = f"{RESERVED_PREFIX}uploads/"
STALE = timedelta(hours=24)
_RENEWAL_SECONDS = 3600.0
_BEGINNING = timedelta(minutes=10)
"""Within which an upload is begun after its note was written."""

_LONGEST_NOTE = 16 * 1024
_BRIEF = 3
"""The part of the deadline that it takes at most to abort an upload: somebody may wait to hear that it failed."""

log = structlog.get_logger()


class Note:
    def __init__(self, service: Service, key: str) -> None:
        self._service = service
        self._key = key
        self._place = f"{FOLDER}{token_hex(16)}"
        self._ended = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Before the upload is begun: at no moment is there one that nobody knows of."""
        await self._write(None)

    def keep(self, upload_id: str) -> None:
        """Say which upload it is, now and as long as it goes on."""
        self._renewing = asyncio.ensure_future(self._renew(upload_id))

    async def end(self) -> None:
        await self.leave()
        await self._service.call("delete_object", Key=self._place)

    async def leave(self) -> None:
        """Stop renewing: the sweep will see to the upload."""
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
            "put_object", Key=self._place, Body=text.encode(), ContentType="application/json"
        )


async def clear(service: Service, notes: list[Entry]) -> int:
    """Abort the uploads of stale notes, remove the notes; how many there were."""
    latest = datetime.now(UTC) - STALE
    stale = [note for note in notes if note.modified is None or note.modified < latest]
    for note in stale:
        await _clear(service, note)
    return len(stale)


async def _clear(service: Service, note: Entry) -> None:
    try:
        answer = await service.call("get_object", Key=note.name)
        with translated(note.name, service.bucket):
            async with asyncio.timeout(service.timeout), answer["Body"] as body:
                text = b""
                while piece := await body.read(_LONGEST_NOTE - len(text)):
                    text += piece
        content = json.loads(text)
        key, upload_id = str(content["key"]), content["upload"]
    except NotFound:
        return  # another worker was quicker
    except (ValueError, KeyError, TypeError):
        log.warning("upload-note-unreadable", note=note.name)
    else:
        uploads = [upload_id] if upload_id else await _begun_with(service, key, note)
        for upload in uploads:
            await abort(service, key, str(upload))
    await service.call("delete_object", Key=note.name)


async def _begun_with(service: Service, key: str, note: Entry) -> list[str]:
    """Uploads of the key that were begun right after the note was written, by one who died before saying more."""
    return [
        upload["UploadId"]
        async for upload in _uploads(service, key)
        if upload.get("Key") == key
        and upload.keys() >= {"UploadId", "Initiated"}
        and note.modified is not None
        and -timedelta(seconds=1) <= upload["Initiated"] - note.modified <= _BEGINNING
    ]


async def _uploads(service: Service, prefix: str) -> AsyncIterator[dict[str, Any]]:
    """The unfinished uploads of all keys that begin so."""
    place: dict[str, str] = {}
    progress = Progress()
    while True:
        answer = await service.call("list_multipart_uploads", Prefix=prefix, MaxUploads=250, **place)
        found: list[dict[str, Any]] = answer.get("Uploads", [])
        goes_on = bool(answer.get("IsTruncated"))
        place = {
            "KeyMarker": answer.get("NextKeyMarker", ""),
            "UploadIdMarker": answer.get("NextUploadIdMarker", ""),
        }
        progress.page([upload.get("UploadId", "") for upload in found], str(place) if goes_on else None)
        for upload in found:
            yield upload
        if not goes_on:
            return


async def abort(service: Service, key: str, upload_id: str) -> None:
    with suppress(NotFound):
        within = service.timeout / _BRIEF
        await service.call("abort_multipart_upload", within=within, Key=key, UploadId=upload_id)
