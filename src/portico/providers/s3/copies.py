"""Copying an object within the service."""

import asyncio
from secrets import token_hex
from typing import Any

from portico.model.errors import AlreadyExists, Changed, NotFound, PorticoError, already_exists, changed, not_found
from portico.providers.multipart.parts import MARK, MIB
from portico.providers.objects.part_store import SentPart, UploadState
from portico.providers.objects.service import Version, name_of
from portico.providers.s3.errors import code_of
from portico.providers.s3.listing import require
from portico.providers.s3.service import Service
from portico.providers.s3.uploads import MAX_PARTS, S3Upload, sent
from portico.runtime.tasks import first_error

_ONE_CALL = 5 * 1024 * MIB
"""The largest object that the service copies in one request."""
_PART = 512 * MIB
_CONCURRENCY = 4


async def copy(
    service: Service,
    source: Version,
    target: str,
    *,
    replace: bool,
    version_id: str | None = None,
    if_match: str | None = None,
    looked: bool = False,
) -> None:
    """As `ObjectService.duplicate`. With a version id, that version is copied, even if it is not the current one.

    Unless it has `looked`, the gateway compares the version of the target right before. A service that honors the
    condition compares it once more itself.
    """
    origin = {"Key": source.key} if version_id is None else {"Key": source.key, "VersionId": version_id}
    honored = (await service.honored()).copy_over
    over = Version(target, if_match)
    if (if_match is not None or not replace) and not (looked and honored):
        await _check_target(service, over, replace)
    try:
        await _copy_at_once(service, source, origin, over, replace, honored=honored)
    except PorticoError as error:
        if code_of(error) not in ("InvalidRequest", "EntityTooLarge"):
            raise
        described = await service.call("head_object", **origin)
        if require(described, "ContentLength") <= _ONE_CALL:
            raise
        if not _is_version(described, source):
            raise changed(name_of(source.key)) from error
        await _copy_in_parts(service, origin, over, replace, described)


async def _check_target(service: Service, target: Version, replace: bool) -> None:
    """`AlreadyExists` unless it is this version, or, without `replace`, nothing."""
    found = await service.head(target.key)
    expected = found is not None and _is_version(found, target)
    if (found is not None) if not replace else not expected:
        raise already_exists(name_of(target.key))


async def _copy_at_once(
    service: Service, source: Version, origin: dict[str, str], over: Version, replace: bool, *, honored: bool
) -> None:
    target = over.key
    parameters: dict[str, Any] = {"Key": target, "CopySource": {"Bucket": service.bucket, **origin}}
    version = {} if source.etag is None else {"CopySourceIfMatch": f'"{source.etag}"'}
    condition: dict[str, Any] = {} if replace else {"IfNoneMatch": "*"}
    if over.etag is not None and honored:
        condition = {"IfMatch": f'"{over.etag}"'}
    try:
        await service.work("copy_object", **parameters, **version, **condition)
    except NotFound as error:
        if "IfMatch" in condition and not await service.head(target):
            raise already_exists(name_of(target)) from error
        raise not_found(name_of(source.key)) from error
    except PorticoError as error:
        if isinstance(error, AlreadyExists):  # a condition failed, and the response does not say which
            found = await service.head(source.key, version_id=origin.get("VersionId"))
            if found and not _is_version(found, source):
                raise changed(name_of(source.key)) from error
            if found and await _is_copy(service, found, target):
                return  # by our first attempt, whose response was lost
        if not await _condition_is_unsupported(service, error, over, replace=replace):
            raise
        # We have checked ourselves; this service offers no more.
        await service.work("copy_object", **parameters)


async def _condition_is_unsupported(service: Service, error: PorticoError, over: Version, *, replace: bool) -> bool:
    """Some services have no conditional copy, apply the condition to the source, or compare with another etag than they
    show."""
    if code_of(error) == "NotImplemented":
        return True
    if not isinstance(error, AlreadyExists) or service.is_amazon:
        return False
    if replace and over.etag is None:
        return True
    found = await service.head(over.key)
    return (found is not None and _is_version(found, over)) if replace else found is None


async def _copy_in_parts(
    service: Service, origin: dict[str, str], over: Version, replace: bool, described: dict[str, Any]
) -> None:
    target = over.key
    size: int = described["ContentLength"]
    step = max(_PART, -(-size // MAX_PARTS))
    slots = asyncio.Semaphore(_CONCURRENCY)
    copy_source = {"Bucket": service.bucket, **origin}

    async def send(number: int) -> SentPart:
        start = (number - 1) * step
        stop = min(start + step, size)
        async with slots:
            response = await service.work(
                "upload_part_copy",
                Key=target,
                UploadId=state.session,
                PartNumber=number,
                CopySource=copy_source,
                CopySourceIfMatch=described["ETag"],
                CopySourceRange=f"bytes={start}-{stop - 1}",
            )
        result: dict[str, str] = require(response, "CopyPartResult")
        return SentPart(number, stop - start, sent(require(result, "ETag"), result))

    async def send_parts() -> list[SentPart]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(send(number + 1)) for number in range(-(-size // step))]
        if over.etag is not None and not service.is_amazon:  # it took long since it was compared
            await _check_target(service, over, replace)
        return [task.result() for task in tasks]

    metadata: dict[str, str] = described.get("Metadata", {})
    content_type = described.get("ContentType", "binary/octet-stream")
    # The copy keeps the mark, as it does when it is made by one request.
    mark = metadata.get(MARK) or token_hex(16)
    if_match = over.etag if service.is_amazon else None
    state = UploadState(mark, target, content_type, replace, renamed=False, size=size, modified=None)
    upload = S3Upload(service, state, metadata)
    upload.if_match = if_match
    try:
        await upload.multipart(send_parts)
    except* PorticoError as errors:
        error = first_error(errors)
        if if_match is not None and isinstance(error, Changed):
            raise already_exists(name_of(target)) from errors
        raise error from errors


async def _is_copy(service: Service, source: dict[str, Any], target: str) -> bool:
    copied = await service.head(target)
    if copied is None:
        return False
    return all(source.get(name) == copied.get(name) for name in ("ContentLength", "ETag", "Metadata"))


def _is_version(described: dict[str, Any], version: Version) -> bool:
    return version.etag is None or str(described.get("ETag", "")).strip('"') == version.etag
