"""Multipart uploads that have not ended: finding and aborting them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from portico.errors import NotFound
from portico.providers.progress import Progress
from portico.providers.s3.service import Service

_BEGINNING = timedelta(minutes=10)
"""How long after it was recorded an upload can begin."""
_ROUNDING = timedelta(seconds=2)
"""How much earlier it may seem to have begun: the service's dates have whole seconds."""
_ABORT_FRACTION = 3
"""Aborting an upload may take the timeout divided by this: the client may wait to learn that it failed."""


async def abort(service: Service, key: str, upload_id: str) -> None:
    with suppress(NotFound):
        within = service.timeout / _ABORT_FRACTION
        await service.call("abort_multipart_upload", within=within, Key=key, UploadId=upload_id)


async def abort_begun_at(service: Service, key: str, moments: Sequence[datetime], *, but: str = "") -> None:
    """Abort uploads of the key that began right after one of these moments, by the service's clock, except one.

    Their process died before it recorded the id.
    """
    begun = [
        upload["UploadId"]
        async for upload in _uploads(service, key)
        if upload.get("Key") == key
        and upload.keys() >= {"UploadId", "Initiated"}
        and any(-_ROUNDING <= upload["Initiated"] - moment <= _BEGINNING for moment in moments)
    ]
    for upload_id in begun:
        if upload_id != but:
            await abort(service, key, upload_id)


async def _uploads(service: Service, prefix: str) -> AsyncIterator[dict[str, Any]]:
    """The unfinished uploads of all keys with the prefix."""
    markers: dict[str, str] = {}
    progress = Progress()
    while True:
        response = await service.call("list_multipart_uploads", Prefix=prefix, MaxUploads=250, **markers)
        found: list[dict[str, Any]] = response.get("Uploads", [])
        goes_on = bool(response.get("IsTruncated"))
        markers = {
            "KeyMarker": response.get("NextKeyMarker", ""),
            "UploadIdMarker": response.get("NextUploadIdMarker", ""),
        }
        progress.page([upload.get("UploadId", "") for upload in found], str(markers) if goes_on else None)
        for upload in found:
            yield upload
        if not goes_on:
            return
