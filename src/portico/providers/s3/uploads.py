"""A file on its way in: one request if it is small, else parts that the service puts together at the end."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from secrets import token_hex
from typing import Any

import structlog

from portico import timestamps
from portico.entries import Entry
from portico.errors import (
    AlreadyExists,
    NotFound,
    PorticoError,
    ProviderFailed,
    ProviderTimeout,
    ProviderUnavailable,
    TooLarge,
    already_exists,
)
from portico.providers import transport
from portico.providers.answers import etag_of, nonsense, size_of
from portico.providers.memory import Lease
from portico.providers.parts import Part, send_all
from portico.providers.s3.bodies import Body, checksum
from portico.providers.s3.faults import code_of, silent
from portico.providers.s3.journal import Note, abort
from portico.providers.s3.service import Service

MOST_PARTS = 10_000
MARK = "portico-upload"
"""The name of the metadata by which an upload knows its own object again."""
_SMALL = 64 * 1024
_CONFLICTS = 5
_BRIEF = 3
"""The part of the deadline that a look takes at most after a commit whose answer was lost."""
_UNSURE = (AlreadyExists, NotFound, ProviderFailed, ProviderTimeout, ProviderUnavailable)
"""Errors of a commit after which the object may stand all the same, because its answer was lost."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Target:
    key: str
    content_type: str
    replace: bool
    metadata: dict[str, str] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: token_hex(16))

    @property
    def condition(self) -> dict[str, str]:
        return {} if self.replace else {"IfNoneMatch": "*"}

    @property
    def description(self) -> dict[str, Any]:
        return {"ContentType": self.content_type, "Metadata": {**self.metadata, MARK: self.mark}}


async def put(service: Service, target: Target, part: Part) -> Entry:
    """The whole file in one request."""
    sums = {"ChecksumCRC32": await checksum(part)} if service.is_amazon else {}

    async def commit() -> dict[str, Any]:
        return await _send(
            service, "put_object", part, Key=target.key, **target.description, **target.condition, **sums
        )

    return await _committed(service, target, commit, part.size)


async def put_parts(
    service: Service, target: Target, first: Part, rest: AsyncGenerator[Part], lease: Lease
) -> Entry:
    size = 0

    async def send(part: Part, upload_id: str) -> dict[str, Any]:
        nonlocal size
        if part.number > MOST_PARTS:
            raise TooLarge("The file is too large for this storage.")
        size += part.size
        number = {"PartNumber": part.number}
        sums = {"ChecksumCRC32": await checksum(part)} if service.is_amazon else {}
        answer = await _send(
            service, "upload_part", part, Key=target.key, UploadId=upload_id, **number, **sums
        )
        return {"ETag": expected(answer, "ETag"), **number, **sums}

    async def send_parts(upload_id: str) -> list[dict[str, Any]]:
        return await send_all(first, rest, lambda part: send(part, upload_id), lease)

    return await multipart(service, target, send_parts, lambda: size)


async def multipart(
    service: Service,
    target: Target,
    send_parts: Callable[[str], Awaitable[list[dict[str, Any]]]],
    size: Callable[[], int],
) -> Entry:
    """Begin, send, complete; whatever goes wrong on the way, nothing of it stays."""
    note = Note(service, target.key)
    await service.finish(note.begin())
    upload_id = await _begin(service, target, note)
    try:
        note.keep(upload_id)
        parts = await send_parts(upload_id)

        async def commit() -> dict[str, Any]:
            return await service.work(
                "complete_multipart_upload",
                Key=target.key,
                UploadId=upload_id,
                MultipartUpload={"Parts": parts},
                **target.condition,
            )

        entry = await _committed(service, target, commit, size())
    except BaseException:
        await service.finish(_give_up(service, target.key, upload_id, note))
        raise
    await service.finish(_forget(note))
    return entry


async def _begin(service: Service, target: Target, note: Note) -> str:
    """The new upload's id. If there is none, the note goes too, unless there may be an upload without an answer."""
    sums = {"ChecksumAlgorithm": "CRC32"} if service.is_amazon else {}

    async def begin() -> str:
        try:
            answer = await service.call(
                "create_multipart_upload", Key=target.key, **target.description, **sums
            )
        except (ProviderTimeout, ProviderUnavailable):
            raise
        except PorticoError:
            await _forget(note)
            raise
        return str(expected(answer, "UploadId"))

    task = asyncio.ensure_future(begin())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:

        async def undo() -> None:
            await asyncio.wait([task])
            if not task.exception():
                await _give_up(service, target.key, task.result(), note)

        await service.finish(undo())
        raise


async def _give_up(service: Service, key: str, upload_id: str, note: Note) -> None:
    try:
        await abort(service, key, upload_id)
    except PorticoError as error:
        log.warning("upload-not-aborted", code=error.code, cause=error.cause, left_to="sweep")
        await note.leave()
    else:
        await _forget(note)


async def _forget(note: Note) -> None:
    try:
        await note.end()
    except PorticoError as error:
        log.warning("upload-note-not-removed", code=error.code, cause=error.cause, left_to="sweep")


async def _send(service: Service, operation: str, part: Part, **parameters: Any) -> dict[str, Any]:
    """Send a part; as long as the service keeps taking bytes, it may take its time."""
    if part.size <= _SMALL:
        return await service.call(operation, Body=b"".join(part.chunks), **parameters)
    try:
        async with asyncio.timeout(service.timeout) as watch:
            body = Body(part, lambda: transport.extend(watch, service.timeout))
            return await service.call(operation, within=None, Body=body, **parameters)
    except TimeoutError as error:
        raise silent(f"the service stopped taking bytes ({operation})") from error


async def _committed(
    service: Service, target: Target, commit: Callable[[], Awaitable[dict[str, Any]]], size: int
) -> Entry:
    """Commit, and if that seems to have failed, look before saying so."""
    if not target.replace and not service.is_amazon and await _found(service, target.key):
        # Not every service heeds the condition; looking first leaves only a race to those that do not.
        raise already_exists(target.key.rpartition("/")[2])
    for attempt in range(_CONFLICTS):
        try:
            answer = await commit()
        except _UNSURE as error:
            if (
                code_of(error) in ("ConditionalRequestConflict", "OperationAborted")
                and attempt < _CONFLICTS - 1
            ):
                await asyncio.sleep(random.uniform(0.1, 0.5) * 2**attempt)  # noqa: S311
                continue
            if entry := await _own(service, target, size):
                return entry
            if isinstance(error, NotFound):
                raise nonsense("word of an upload that is gone") from error
            raise
        etag = etag_of(expected(answer, "ETag"))
        return Entry(target.key, False, size, _moment(answer), target.content_type, etag)
    raise AssertionError


async def _own(service: Service, target: Target, size: int) -> Entry | None:
    """The object at the target, if it is the one that this upload has made."""
    try:
        # Not for as long again: whoever waits has waited already.
        found = await _found(service, target.key, within=service.timeout / _BRIEF)
    except PorticoError:
        return None
    if not found or found.get("Metadata", {}).get(MARK) != target.mark or found.get("ContentLength") != size:
        return None
    return entry_of(target.key, found)


async def _found(service: Service, key: str, within: float = 0) -> dict[str, Any] | None:
    try:
        return await service.call("head_object", within=within, Key=key)
    except NotFound:
        return None


def entry_of(key: str, answer: dict[str, Any], size: int | None = None) -> Entry:
    try:
        modified = timestamps.from_datetime(expected(answer, "LastModified"))
    except ValueError:
        raise nonsense("an object with a date that no calendar has") from None
    return Entry(
        key,
        False,
        size_of(str(expected(answer, "ContentLength") if size is None else size)),
        modified,
        answer.get("ContentType") or "binary/octet-stream",
        etag_of(expected(answer, "ETag")),
    )


def expected(answer: dict[str, Any], name: str) -> Any:
    """A field that every such answer has."""
    if name not in answer:
        raise nonsense(f"an answer without {name}")
    return answer[name]


def _moment(answer: dict[str, Any]) -> str:
    """When the service says that it answered."""
    try:
        moment = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
    except (KeyError, ValueError):
        moment = datetime.now(UTC)
    return timestamps.from_datetime(moment)
