"""Uploads, resumable or not: one request for a small file, otherwise a multipart upload."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

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
from portico.providers.contract.uploads import LoggedUpload
from portico.providers.multipart.parts import LOOKUP_FRACTION, MARK, MIB, Parts, UploadPart
from portico.providers.objects.part_store import PartLimits, PartStore, SentPart, UploadState
from portico.providers.objects.service import MTIME, as_seconds, name_of
from portico.providers.s3.errors import code_of, timed_out
from portico.providers.s3.listing import entry_of, require, response_time
from portico.providers.s3.service import Body, Service, checksum
from portico.providers.wire import transport
from portico.providers.wire.responses import Progress, etag_of, malformed_response

MAX_PARTS = 10_000
_SMALLEST_PART = 5 * MIB
_CLOUDFLARE = ".r2.cloudflarestorage.com"
_BEGINNING = timedelta(minutes=10)
"""How long after it was recorded an upload can begin."""
_ROUNDING = timedelta(seconds=2)
"""How much earlier it may seem to have begun: the service's dates have whole seconds."""
_ABORT_FRACTION = 3
"""Aborting an upload may take the timeout divided by this: the client may wait to learn that it failed."""
_SMALL = 64 * 1024
_MAX_ATTEMPTS = 5
_UNCERTAIN = (AlreadyExists, NotFound, ProviderFailed, ProviderTimeout, ProviderUnavailable)
"""Errors of a commit after which the object may exist, because the response was lost."""

log = structlog.get_logger()

Commit = Callable[[dict[str, str]], Awaitable[dict[str, Any]]]
"""Makes the object visible under this condition; returns the response."""


class S3Upload(PartStore):
    def __init__(self, service: Service, state: UploadState, metadata: dict[str, str] | None = None) -> None:
        """`metadata`: more of it than the state says."""
        self._service = service
        self._state = state
        self._metadata = metadata or {}
        host = urlsplit(service.endpoint_url or "").hostname or ""
        self.limits = PartLimits(MAX_PARTS, smallest=_SMALLEST_PART, equal=host.endswith(_CLOUDFLARE))

    @property
    def _name(self) -> str:
        return name_of(self._state.key)

    @property
    def _description(self) -> dict[str, Any]:
        state = self._state
        times = {MTIME: as_seconds(state.modified)} if state.modified else {}
        metadata = {**self._metadata, **times, MARK: state.id}
        return {"Key": state.goal, "ContentType": state.content_type, "Metadata": metadata}

    async def _sums(self, part: UploadPart) -> dict[str, str]:
        await self._service.open()
        return {"ChecksumCRC32": await checksum(part)} if self._service.is_amazon else {}

    async def put(self, whole: UploadPart) -> Entry:
        sums = await self._sums(whole)

        async def commit(condition: dict[str, str]) -> dict[str, Any]:
            return await _send(self._service, "put_object", whole, **self._description, **condition, **sums)

        return await self._committed(commit, whole.size, relies=(await self._service.honored()).put)

    async def begin(self) -> str:
        await self._service.open()
        sums = {"ChecksumAlgorithm": "CRC32"} if self._service.is_amazon else {}
        response = await self._service.call("create_multipart_upload", **self._description, **sums)
        return str(require(response, "UploadId"))

    async def send(self, part: UploadPart) -> str:
        if part.number > MAX_PARTS:
            raise TooLarge("The file is too large for this storage. Upload a smaller file.")
        sums, state = await self._sums(part), self._state
        place = {"Key": state.goal, "UploadId": state.session, "PartNumber": part.number}
        response = await _send(self._service, "upload_part", part, **place, **sums)
        return sent(require(response, "ETag"), sums)

    async def commit(self, parts: list[SentPart], last: UploadPart, size: int) -> Entry:
        return await self._complete(parts, size)

    async def _complete(self, parts: list[SentPart], size: int) -> Entry:
        await self._service.open()
        place = {"Key": self._state.goal, "UploadId": self._state.session}
        upload = {"Parts": [_described(part) for part in parts]}

        async def commit(condition: dict[str, str]) -> dict[str, Any]:
            return await self._service.work("complete_multipart_upload", **place, MultipartUpload=upload, **condition)

        return await self._committed(commit, size, relies=self._service.is_amazon)  # no other was tried with this

    async def put_parts(self, parts: Parts) -> Entry:
        async def send(part: UploadPart) -> SentPart:
            return SentPart(part.number, part.size, await self.send(part))

        return await self.multipart(lambda: parts.send(send))

    async def multipart(self, send_parts: Callable[[], Awaitable[list[SentPart]]]) -> Entry:
        """Begin, send and complete a multipart upload; abort it on any error."""
        record = await self._begin_shielded()
        try:
            parts = await send_parts()
            entry = await self._complete(parts, sum(part.size for part in parts))
        except BaseException as error:
            await self._service.finish(self._give_up(record))
            if isinstance(error, NotFound):
                raise malformed_response("an error about a missing upload") from error
            raise
        await self._service.finish(_forget(record))
        return entry

    async def _begin_shielded(self) -> LoggedUpload:
        task = asyncio.ensure_future(self._begin_recorded())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:

            async def undo() -> None:
                await asyncio.wait([task])
                if not task.exception():
                    await self._give_up(task.result())

            await self._service.finish(undo())
            raise

    async def _begin_recorded(self) -> LoggedUpload:
        """Begin; the record is made before: no upload is ever unrecorded."""
        state = self._state
        state.intents = [await self._service.now()]
        record = await self._service.upload_log.begin(state.key, state.encode())
        try:
            state.session = await self.begin()
        except (ProviderTimeout, ProviderUnavailable):  # it may have begun
            await record.leave()
            raise
        except BaseException:
            await _forget(record)
            raise
        state.intents = []
        record.update(state.encode())
        return record

    async def _give_up(self, record: LoggedUpload) -> None:
        try:
            await self.abort()
        except PorticoError as error:
            log.warning("upload-not-aborted", code=error.code, cause=error.cause, left_to="sweep")
            await record.leave()
        else:
            await _forget(record)

    async def _committed(self, commit: Commit, size: int, *, relies: bool) -> Entry:
        """`relies`: on the service's conditions, as far as a look has confirmed what they say."""
        replaces = self._state.replaces_goal
        if not relies:
            self.look = None

        async def over(replace: bool, if_match: str | None) -> Entry:
            if not relies:
                replace, if_match = replaces, self.if_match
            if (if_match is not None or not replace) and not self._service.is_amazon:
                await self._check_condition(if_match, looked=relies)
            return await self._committed_once(commit, size, replace, if_match)

        return await self.replacing(self._name, replaces, over)

    async def _committed_once(self, commit: Commit, size: int, replace: bool, if_match: str | None) -> Entry:
        """Commit; after an uncertain error, look up whether it succeeded."""
        state = self._state
        condition = {"IfMatch": f'"{if_match}"'} if if_match is not None else {} if replace else {"IfNoneMatch": "*"}
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
                with suppress(PorticoError):  # then it cannot be known now
                    if entry := await self.own(state.goal, size, self._service.timeout / LOOKUP_FRACTION):
                        return entry
                gone = isinstance(error, AlreadyExists | NotFound) and code_of(error) != "NoSuchUpload"
                if if_match is not None and gone and not self._service.is_amazon and await self._etag() == if_match:
                    condition = {}  # this service compares with another etag than it shows
                    continue
                if if_match is not None and gone:  # or of another version
                    raise changed(self._name) from error
                raise
            etag = etag_of(require(response, "ETag"))
            stored = from_datetime(state.modified) if state.modified else response_time(response)
            return Entry(state.goal, False, size, stored, state.content_type, etag)
        raise AssertionError

    async def _check_condition(self, if_match: str | None, *, looked: bool) -> None:
        """Not every service honors the condition; with those that do not, checking first leaves only a race.

        `looked`: rely on a look that was made a moment ago.
        """
        if looked and self.kept:
            etag = self.kept.etag
        elif looked and self.look and self.look.holds:
            etag = self.look.entry.etag if self.look.entry else None
        else:
            etag = await self._etag()
        if if_match is not None and etag != if_match:
            raise changed(self._name)
        if if_match is None and etag is not None:
            raise already_exists(self._name)

    async def _etag(self) -> str | None:
        """Of what is there now; None if nothing is."""
        found = await self._service.head(self._state.goal)
        return etag_of(require(found, "ETag")) if found else None

    async def own(self, key: str, size: int, within: float = 0) -> Entry | None:
        found = await self._service.head(key, within=within)
        if not found or found.get("Metadata", {}).get(MARK) != self._state.id or found.get("ContentLength") != size:
            return None
        return entry_of(key, found)

    async def abort(self) -> None:
        await self._abort(self._state.session)

    async def _abort(self, upload_id: str) -> None:
        with suppress(NotFound):
            within = self._service.timeout / _ABORT_FRACTION
            await self._service.call("abort_multipart_upload", within=within, Key=self._state.goal, UploadId=upload_id)

    async def now(self) -> datetime:
        return await self._service.now()

    async def abort_lost(self) -> None:
        """Abort uploads of the key that began right after an intent: their process died before it recorded the id."""
        state = self._state
        begun = [
            upload["UploadId"]
            async for upload in self._uploads()
            if upload.get("Key") == state.goal
            and upload.keys() >= {"UploadId", "Initiated"}
            and any(-_ROUNDING <= upload["Initiated"] - moment <= _BEGINNING for moment in state.intents)
        ]
        for upload_id in begun:
            if upload_id != state.session:
                await self._abort(upload_id)

    async def _uploads(self) -> AsyncIterator[dict[str, Any]]:
        """The unfinished uploads of all keys that begin with this one."""
        place: dict[str, Any] = {"Prefix": self._state.goal, "MaxUploads": 250}
        progress = Progress()
        while True:
            response = await self._service.call("list_multipart_uploads", **place)
            found: list[dict[str, Any]] = response.get("Uploads", [])
            goes_on = bool(response.get("IsTruncated"))
            place |= {name: response.get(f"Next{name}", "") for name in ("KeyMarker", "UploadIdMarker")}
            progress.page([upload.get("UploadId", "") for upload in found], str(place) if goes_on else None)
            for upload in found:
                yield upload
            if not goes_on:
                return


def sent(etag: str, sums: dict[str, Any]) -> str:
    """What `S3Upload.commit` needs to know of a part, as text."""
    return f"{etag} {sums.get('ChecksumCRC32', '')}"


def _described(part: SentPart) -> dict[str, Any]:
    etag, _, checksum = part.result.partition(" ")
    return {"PartNumber": part.number, "ETag": etag, **({"ChecksumCRC32": checksum} if checksum else {})}


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
