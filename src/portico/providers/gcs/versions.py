"""Versions of a bucket: a deleted object stays under its generation. Restoring copies it inside the service."""

from collections.abc import AsyncIterator

import msgspec

from portico.providers.gcs.copies import copy_object
from portico.providers.gcs.errors import translated
from portico.providers.gcs.responses import decode
from portico.providers.gcs.service import Request, Service
from portico.providers.gcs.uploads import ObjectUpload, insert
from portico.providers.keys import KeyStore, Version
from portico.providers.object_versions import Current, ObjectVersions
from portico.providers.parts import UploadPart


class _Versioning(msgspec.Struct):
    enabled: bool = False


class _Bucket(msgspec.Struct):
    versioning: _Versioning = msgspec.field(default_factory=_Versioning)


_BUCKETS = msgspec.json.Decoder(_Bucket)


class GcsVersions(ObjectVersions):
    def __init__(self, store: KeyStore, service: Service) -> None:
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

    async def write(self, key: str, content: bytes) -> None:
        upload = ObjectUpload(key, "application/json", replace=True)
        await insert(self._service, upload, UploadPart(1, [content], len(content), last=True))

    async def copy(self, key: str, version: str, target: str, *, replace: bool) -> None:
        await copy_object(self._service, Version(key, None), target, replace=replace, generation=version)
