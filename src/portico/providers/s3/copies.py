"""Copies inside of the service."""

import asyncio
from typing import Any

from portico.errors import AlreadyExists, Changed, NotFound, PorticoError, already_exists
from portico.providers.keys import Version
from portico.providers.parts import MIB
from portico.providers.s3.faults import code_of
from portico.providers.s3.service import Service
from portico.providers.s3.uploads import MARK, MOST_PARTS, Target, expected, multipart

_ONE_CALL = 5 * 1024 * MIB
"""The largest object that the service copies in one call."""
_PART = 512 * MIB
_AT_ONCE = 4


async def copy(service: Service, source: Version, target: str, *, replace: bool) -> None:
    """As `KeyStore.duplicate`."""
    if not replace and await _found(service, target):
        raise _taken(target)
    try:
        await _copy_at_once(service, source, target, replace)
    except PorticoError as error:
        if code_of(error) not in ("InvalidRequest", "EntityTooLarge"):
            raise
        described = await service.call("head_object", Key=source.key)
        if expected(described, "ContentLength") <= _ONE_CALL:
            raise
        if not _is_version(described, source):
            raise _changed(source.key) from error
        await _copy_in_parts(service, source.key, target, replace, described)


async def _copy_at_once(service: Service, source: Version, target: str, replace: bool) -> None:
    parameters: dict[str, Any] = {"Key": target, "CopySource": {"Bucket": service.bucket, "Key": source.key}}
    version = {} if source.etag is None else {"CopySourceIfMatch": f'"{source.etag}"'}
    condition: dict[str, Any] = {} if replace else {"IfNoneMatch": "*"}
    try:
        await service.work("copy_object", **parameters, **version, **condition)
    except NotFound as error:
        raise NotFound(f"There is no '{source.key.rpartition('/')[2]}'.") from error
    except PorticoError as error:
        if isinstance(error, AlreadyExists):  # a condition failed, and it is not said which
            found = await _found(service, source.key)
            if found and not _is_version(found, source):
                raise _changed(source.key) from error
            if await _is_copy(service, source.key, target):
                return  # our own first attempt, whose answer was lost
        if not await _condition_is_unknown(service, error, target, replace=replace):
            raise
        # We have looked ourselves, and with this service that is all that can be done.
        await service.work("copy_object", **parameters)


async def _condition_is_unknown(service: Service, error: PorticoError, target: str, *, replace: bool) -> bool:
    """Some services have no conditional copy, or take the condition for one about the source."""
    if code_of(error) == "NotImplemented":
        return True
    if not isinstance(error, AlreadyExists) or service.is_amazon:
        return False
    return replace or not await _found(service, target)


async def _copy_in_parts(
    service: Service, source: str, target: str, replace: bool, described: dict[str, Any]
) -> None:
    size: int = described["ContentLength"]
    step = max(_PART, -(-size // MOST_PARTS))
    places = asyncio.Semaphore(_AT_ONCE)
    origin = {"Bucket": service.bucket, "Key": source}

    async def send(upload_id: str, number: int) -> dict[str, Any]:
        start = (number - 1) * step
        async with places:
            answer = await service.work(
                "upload_part_copy",
                Key=target,
                UploadId=upload_id,
                PartNumber=number,
                CopySource=origin,
                CopySourceIfMatch=described["ETag"],
                CopySourceRange=f"bytes={start}-{min(start + step, size) - 1}",
            )
        result: dict[str, str] = expected(answer, "CopyPartResult")
        sums = {name: value for name, value in result.items() if name == "ChecksumCRC32"}
        return {"ETag": expected(result, "ETag"), "PartNumber": number, **sums}

    async def send_parts(upload_id: str) -> list[dict[str, Any]]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(send(upload_id, number + 1)) for number in range(-(-size // step))]
        return [task.result() for task in tasks]

    metadata = {name: value for name, value in described.get("Metadata", {}).items() if name != MARK}
    goal = Target(target, described.get("ContentType", "binary/octet-stream"), replace, metadata)
    try:
        await multipart(service, goal, send_parts, lambda: size)
    except* PorticoError as errors:
        raise _first(errors) from errors


def _first(errors: BaseExceptionGroup[PorticoError]) -> PorticoError:
    error = errors.exceptions[0]
    return error if isinstance(error, PorticoError) else _first(error)


async def _found(service: Service, key: str) -> dict[str, Any] | None:
    try:
        return await service.call("head_object", Key=key)
    except NotFound:
        return None


async def _is_copy(service: Service, source: str, target: str) -> bool:
    one, other = await _found(service, source), await _found(service, target)
    if one is None or other is None:
        return False
    return all(one.get(name) == other.get(name) for name in ("ContentLength", "ETag", "Metadata"))


def _is_version(described: dict[str, Any], version: Version) -> bool:
    return version.etag is None or str(described.get("ETag", "")).strip('"') == version.etag


def _changed(key: str) -> Changed:
    return Changed(f"'{key.rpartition('/')[2]}' has changed meanwhile; start again.")


def _taken(key: str) -> AlreadyExists:
    return already_exists(key.rpartition("/")[2])
