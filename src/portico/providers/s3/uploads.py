"""Uploads: one request for a small file, otherwise a multipart upload."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Any

import structlog

from portico.model.entries import Entry
from portico.model.errors import (
    AlreadyExists,
    NotFound,
    PorticoError,
    ProviderFailed,
    ProviderTimeout,
    ProviderUnavailable,
    TooLarge,
    already_exists,
    changed,
)
from portico.model.timestamps import from_datetime
from portico.providers.contract.uploads import KeptFile, LoggedUpload, over_kept
from portico.providers.multipart.parts import LOOKUP_FRACTION, MARK, Parts, UploadPart
from portico.providers.objects.part_store import UploadState
from portico.providers.objects.service import MTIME, as_seconds, name_of
from portico.providers.s3.errors import code_of, timed_out
from portico.providers.s3.listing import entry_of, require, response_time
from portico.providers.s3.service import Body, Service, checksum
from portico.providers.wire import transport
from portico.providers.wire.responses import Progress, etag_of, malformed_response

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


MAX_PARTS = 10_000
_SMALL = 64 * 1024
_MAX_ATTEMPTS = 5
_UNCERTAIN = (AlreadyExists, NotFound, ProviderFailed, ProviderTimeout, ProviderUnavailable)
"""Errors of a commit after which the object may exist, because the response was lost."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Target:
    key: str
    content_type: str
    replace: bool
    modified: datetime | None = None
    if_match: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: token_hex(16))

    @property
    def condition(self) -> dict[str, str]:
        if self.if_match is not None:
            return {"IfMatch": f'"{self.if_match}"'}
        return {} if self.replace else {"IfNoneMatch": "*"}

    @property
    def description(self) -> dict[str, Any]:
        times = {MTIME: as_seconds(self.modified)} if self.modified else {}
        return {"ContentType": self.content_type, "Metadata": {**self.metadata, **times, MARK: self.mark}}


async def put(service: Service, target: Target, part: UploadPart, kept: KeptFile | None = None) -> Entry:
    """The whole file in one request."""
    sums = {"ChecksumCRC32": await checksum(part)} if service.is_amazon else {}

    async def commit(condition: dict[str, str]) -> dict[str, Any]:
        return await _send(service, "put_object", part, Key=target.key, **target.description, **condition, **sums)

    return await _committed(service, target, commit, part.size, kept)


async def put_parts(service: Service, target: Target, parts: Parts, kept: KeptFile | None = None) -> Entry:
    """A multipart upload."""
    size = 0

    async def send(part: UploadPart, upload_id: str) -> dict[str, Any]:
        nonlocal size
        if part.number > MAX_PARTS:
            raise TooLarge("The file is too large for this storage. Upload a smaller file.")
        size += part.size
        return await send_part(service, target.key, upload_id, part)

    async def send_parts(upload_id: str) -> list[dict[str, Any]]:
        return await parts.send(lambda part: send(part, upload_id))

    return await multipart(service, target, send_parts, lambda: size, kept)


async def send_part(service: Service, key: str, upload_id: str, part: UploadPart) -> dict[str, Any]:
    """Send one part; returns what `complete` has to say about it."""
    number = {"PartNumber": part.number}
    sums = {"ChecksumCRC32": await checksum(part)} if service.is_amazon else {}
    response = await _send(service, "upload_part", part, Key=key, UploadId=upload_id, **number, **sums)
    return {"ETag": require(response, "ETag"), **number, **sums}


async def begin(service: Service, target: Target) -> str:
    """Begin a multipart upload; returns its id."""
    sums = {"ChecksumAlgorithm": "CRC32"} if service.is_amazon else {}
    response = await service.call("create_multipart_upload", Key=target.key, **target.description, **sums)
    return str(require(response, "UploadId"))


async def complete(
    service: Service,
    target: Target,
    upload_id: str,
    parts: list[dict[str, Any]],
    size: int,
    kept: KeptFile | None = None,
) -> Entry:
    """Make the object of the parts."""

    async def commit(condition: dict[str, str]) -> dict[str, Any]:
        return await service.work(
            "complete_multipart_upload",
            Key=target.key,
            UploadId=upload_id,
            MultipartUpload={"Parts": parts},
            **condition,
        )

    return await _committed(service, target, commit, size, kept)


async def multipart(
    service: Service,
    target: Target,
    send_parts: Callable[[str], Awaitable[list[dict[str, Any]]]],
    size: Callable[[], int],
    kept: KeptFile | None = None,
) -> Entry:
    """Begin, send and complete a multipart upload; abort it on any error."""
    record, upload_id = await _begin(service, target)
    try:
        entry = await complete(service, target, upload_id, await send_parts(upload_id), size(), kept)
    except NotFound as error:
        await service.finish(_give_up(service, target.key, upload_id, record))
        raise malformed_response("an error about a missing upload") from error
    except BaseException:
        await service.finish(_give_up(service, target.key, upload_id, record))
        raise
    await service.finish(_forget(record))
    return entry


async def _begin(service: Service, target: Target) -> tuple[LoggedUpload, str]:
    """A new upload, and its record, which was made before: no upload is ever unrecorded."""
    task = asyncio.ensure_future(_begin_recorded(service, target))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:

        async def undo() -> None:
            await asyncio.wait([task])
            if not task.exception():
                record, upload_id = task.result()
                await _give_up(service, target.key, upload_id, record)

        await service.finish(undo())
        raise


async def _begin_recorded(service: Service, target: Target) -> tuple[LoggedUpload, str]:
    state = UploadState(
        target.mark, target.key, target.content_type, target.replace, renamed=False, size=None, modified=None
    )
    state.intents = [await service.now()]
    record = await service.upload_log.begin(target.key, state.encode())
    try:
        upload_id = await begin(service, target)
    except (ProviderTimeout, ProviderUnavailable):  # it may have begun
        await record.leave()
        raise
    except BaseException:
        await _forget(record)
        raise
    state.session, state.intents = upload_id, []
    record.update(state.encode())
    return record, upload_id


async def _give_up(service: Service, key: str, upload_id: str, record: LoggedUpload) -> None:
    try:
        await abort(service, key, upload_id)
    except PorticoError as error:
        log.warning("upload-not-aborted", code=error.code, cause=error.cause, left_to="sweep")
        await record.leave()
    else:
        await _forget(record)


async def _forget(record: LoggedUpload) -> None:
    try:
        await record.end()
    except PorticoError as error:
        log.warning("upload-record-not-removed", code=error.code, cause=error.cause, left_to="sweep")


async def _send(service: Service, operation: str, part: UploadPart, **parameters: Any) -> dict[str, Any]:
    """Send a part. The timeout restarts while the service keeps accepting bytes."""
    if part.size <= _SMALL:
        return await service.call(operation, Body=b"".join(part.chunks), **parameters)
    try:
        async with asyncio.timeout(service.timeout) as watch:
            body = Body(part, lambda: transport.extend(watch, service.timeout))
            return await service.call(operation, within=None, Body=body, **parameters)
    except TimeoutError as error:
        raise timed_out(f"the service stopped accepting bytes ({operation})") from error


async def _committed(
    service: Service,
    target: Target,
    commit: Callable[[dict[str, str]], Awaitable[dict[str, Any]]],
    size: int,
    kept: KeptFile | None = None,
) -> Entry:
    async def over(replace_file: bool, if_match: str | None) -> Entry:
        # Other services may ignore a condition, or compare with another etag than they show.
        meant = replace(target, replace=replace_file, if_match=if_match) if service.is_amazon else target
        return await _committed_once(service, meant, commit, size)

    return await over_kept(kept, name_of(target.key), target.replace, target.if_match, over)


async def _committed_once(
    service: Service, target: Target, commit: Callable[[dict[str, str]], Awaitable[dict[str, Any]]], size: int
) -> Entry:
    """Commit; after an uncertain error, look up whether it succeeded."""
    await _check_condition(service, target)
    condition = target.condition
    for attempt in range(_MAX_ATTEMPTS):
        try:
            response = await commit(condition)
        except _UNCERTAIN as error:
            if condition and code_of(error) == "NotImplemented":
                condition = {}  # we have checked ourselves; this service offers no more
                continue
            if code_of(error) in ("ConditionalRequestConflict", "OperationAborted") and attempt < _MAX_ATTEMPTS - 1:
                await asyncio.sleep(random.uniform(0.1, 0.5) * 2**attempt)  # noqa: S311
                continue
            if entry := await own(service, target.key, target.mark, size):
                return entry
            if target.if_match is not None and _is_unmet(error):
                raise changed(name_of(target.key)) from error
            raise
        etag = etag_of(require(response, "ETag"))
        stored = from_datetime(target.modified) if target.modified else response_time(response)
        return Entry(target.key, False, size, stored, target.content_type, etag)
    raise AssertionError


async def _check_condition(service: Service, target: Target) -> None:
    """Not every service honors the condition; with those that do not, checking first leaves only a race."""
    if service.is_amazon or not target.condition:
        return
    found = await service.head(target.key)
    if target.if_match is None:
        if found:
            raise already_exists(name_of(target.key))
    elif not found or etag_of(found.get("ETag")) != target.if_match:
        raise changed(name_of(target.key))


def _is_unmet(error: PorticoError) -> bool:
    """Whether the object has another version, or is gone. A lost upload is something else."""
    return isinstance(error, AlreadyExists | NotFound) and code_of(error) != "NoSuchUpload"


async def own(service: Service, key: str, mark: str, size: int) -> Entry | None:
    """The object at the key, if the upload with this mark made it; None if that cannot be known now."""
    try:
        found = await service.head(key, within=service.timeout / LOOKUP_FRACTION)
    except PorticoError:
        return None
    return entry_of(key, found) if found and is_marked(found, mark, size) else None


def is_marked(found: dict[str, Any], mark: str, size: int) -> bool:
    return found.get("Metadata", {}).get(MARK) == mark and found.get("ContentLength") == size
