"""Versions of a bucket: a deleted object stays under its generation. Restoring copies it inside the service."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote

import msgspec

from portico.model.errors import already_exists, changed
from portico.providers.gcs.errors import FAILURES, ServiceError, translated
from portico.providers.gcs.responses import REWRITE_FIELDS, REWRITES, decode
from portico.providers.gcs.service import Backoff, Request, Service
from portico.providers.objects.service import ObjectService, Version, name_of
from portico.providers.objects.versions import Current, ObjectVersions
from portico.providers.wire.responses import malformed_response

_MAX_IDLE_STEPS = 16
"""Responses in a row by which a copy may not have made progress."""


async def copy_object(
    service: Service,
    source: Version,
    target: str,
    *,
    replace: bool,
    generation: str | None = None,
    if_match: str | None = None,
) -> None:
    """As `ObjectService.duplicate`. With a generation, that one is copied, even if it is not the current one."""
    url = f"{service.object_url(source.key)}/rewriteTo/b/{service.bucket}/o/{quote(target, safe='')}"
    params: dict[str, str | None] = {
        "fields": REWRITE_FIELDS,
        "ifGenerationMatch": if_match if replace else "0",
        "ifSourceGenerationMatch": source.etag,
        "sourceGeneration": generation,
    }
    backoff = Backoff()
    in_doubt = False
    rewritten = idle = 0
    with translated(name_of(source.key)):
        while True:
            try:
                response = decode(REWRITES, (await service.once(Request("POST", url, params))).body)
            except FAILURES as error:
                if isinstance(error, ServiceError) and error.status == 412:
                    now = await service.find(source.key)
                    if now and source.etag not in (None, str(now.generation)):
                        raise changed(name_of(source.key)) from None
                    if in_doubt and await _is_copy(service, source.key, generation, target):
                        return
                    raise already_exists(name_of(target)) from None
                await backoff.after(error)
                in_doubt = True
                continue
            if response.done:
                return
            if response.rewrite_token is None:
                raise malformed_response("an unfinished copy without a token to continue it")
            idle = 0 if response.total_bytes_rewritten > rewritten else idle + 1
            if idle >= _MAX_IDLE_STEPS:
                raise malformed_response("an unfinished copy without progress, again and again")
            rewritten = response.total_bytes_rewritten
            params["rewriteToken"] = response.rewrite_token
            backoff = Backoff()


async def _is_copy(service: Service, source: str, generation: str | None, target: str) -> bool:
    """Whether two objects hold the same bytes."""
    first, second = await asyncio.gather(service.find(source, generation=generation), service.find(target))
    if first is None or second is None or first.crc32c is None:
        return False
    return (first.size, first.crc32c) == (second.size, second.crc32c)


class _Versioning(msgspec.Struct):
    enabled: bool = False


class _Bucket(msgspec.Struct):
    versioning: _Versioning = msgspec.field(default_factory=_Versioning)


_BUCKETS = msgspec.json.Decoder(_Bucket)


class GcsVersions(ObjectVersions):
    def __init__(self, store: ObjectService, service: Service) -> None:
        super().__init__(store)
        self._service = service

    async def _are_kept(self, prefix: str) -> bool:
        request = Request("GET", self._service.bucket_url, {"fields": "versioning"})
        with translated("/"):
            response = await self._service.call(request)
        return decode(_BUCKETS, response.body).versioning.enabled

    async def pages(self, prefix: str) -> AsyncIterator[list[Current]]:
        async for listing in self._store.pages(prefix, flat=True):
            yield [Current(entry, entry.etag) for entry in listing.objects]

    async def find(self, key: str) -> Current | None:
        found = await self._store.find(key)
        return Current(found, found.etag) if found else None

    def note_may_follow(self, version: str) -> bool:
        return True

    async def copy(self, key: str, version: str, target: str, *, replace: bool) -> None:
        await copy_object(self._service, Version(key, None), target, replace=replace, generation=version)
