"""Notes of uploads that the former release kept in the bucket. To be removed in the release after this one."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import structlog

from portico.model.entries import Entry
from portico.model.errors import NotFound
from portico.providers.objects.part_store import UPLOADS_PREFIX
from portico.providers.s3.errors import translated
from portico.providers.s3.service import Service
from portico.providers.s3.uploads import abort, abort_begun_at

FOLDER = UPLOADS_PREFIX
STALE = timedelta(hours=24)
_MAX_NOTE_BYTES = 16 * 1024

log = structlog.get_logger()


async def clear(service: Service, notes: list[Entry]) -> int:
    """Abort the uploads of stale notes, and remove the notes. Returns how many there were."""
    latest = datetime.now(UTC) - STALE
    stale = [note for note in notes if note.modified is None or note.modified < latest]
    for note in stale:
        await _clear(service, note)
    return len(stale)


async def _clear(service: Service, note: Entry) -> None:
    try:
        response = await service.call("get_object", Key=note.name)
        with translated(note.name, service.bucket):
            async with asyncio.timeout(service.timeout), response["Body"] as body:
                text = b""
                while piece := await body.read(_MAX_NOTE_BYTES - len(text)):
                    text += piece
        content = json.loads(text)
        key, upload_id = str(content["key"]), content["upload"]
    except NotFound:
        return  # another worker was faster
    except (ValueError, KeyError, TypeError):
        log.warning("upload-note-unreadable", note=note.name)
    else:
        if upload_id:
            await abort(service, key, str(upload_id))
        elif note.modified is not None:
            await abort_begun_at(service, key, [note.modified])
    await service.call("delete_object", Key=note.name)
