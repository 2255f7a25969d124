"""The provider for a bucket of Amazon S3 or of a compatible service."""

import math
import re
import time
from typing import Any
from urllib.parse import urlsplit

from portico.model.entries import Download, Entry
from portico.model.errors import NotFound, PorticoError, changed
from portico.model.paths import Path
from portico.providers.multipart.memory import MemoryBudget
from portico.providers.multipart.parts import max_file_bytes
from portico.providers.objects.part_store import UploadState
from portico.providers.objects.service import KeyPage, Version, name_of
from portico.providers.objects.versions import VersionedStore
from portico.providers.s3 import copies, downloads
from portico.providers.s3.conditions import LOOK_SECONDS
from portico.providers.s3.errors import code_of, error_for
from portico.providers.s3.listing import entry_of, read_listing
from portico.providers.s3.service import RAW, Service
from portico.providers.s3.uploads import MAX_PARTS, S3Upload
from portico.providers.s3.versions import S3Versions
from portico.providers.wire.transport import page_bytes
from portico.providers.wire.xml_listing import run_parser
from portico.runtime.tasks import for_each

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_AMAZON = re.compile(r"(.+\.)?amazonaws\.com(\.cn)?", re.IGNORECASE)
_MAX_ENTRY_BYTES = 4096
"""Bytes of one entry in a listing: a key of 1,024 bytes, each percent-encoded as three, and its properties."""
_SUPERSEDED = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey")
"""Error codes of a conditional delete by which the object may have been replaced or removed in the meantime."""


class S3Provider(VersionedStore):
    kind = "s3"
    max_page_size = 1000
    max_file_size = max_file_bytes(MAX_PARTS)

    def __init__(
        self, bucket: str, *, endpoint_url: str | None = None, memory: MemoryBudget | None = None, **options: Any
    ) -> None:
        """`options`: as `Service` takes them."""
        super().__init__(memory)
        # Amazon's bucket names are globally unique; those of other services only at their endpoint.
        self.identity = f"{endpoint_url.rstrip('/')}/{bucket}" if endpoint_url else bucket
        self._service = Service(bucket, endpoint_url=endpoint_url, **options)
        self.versions = S3Versions(self, self._service)

    def key(self, path: Path) -> tuple[str, ...]:
        if _AMAZON.fullmatch(urlsplit(self.identity).hostname or ""):
            return (self.kind, self.identity.rpartition("/")[2], *path.segments)
        return super().key(path)

    async def list_keys(self, prefix: str, size: int, token: str | None, *, flat: bool = False) -> KeyPage:
        response = await self._service.call(
            "list_objects_v2",
            Prefix=prefix,
            MaxKeys=size,
            EncodingType="url",
            at_most=page_bytes(size, _MAX_ENTRY_BYTES),
            **({} if flat else {"Delimiter": "/"}),
            **({"ContinuationToken": token} if token is not None else {}),
        )
        return await run_parser(read_listing, response[RAW], token, size, flat)

    async def look_lasts(self) -> float:
        honored = await self._service.honored()
        return math.inf if self._service.is_amazon else LOOK_SECONDS if honored.put else 0

    async def find(self, key: str) -> Entry | None:
        found = await self._service.head(key)
        return entry_of(key, found) if found else None

    async def open(self, key: str, start: int, stop: int | None, etag: str | None) -> Download:
        return await downloads.open_object(self._service, key, start, stop, etag)

    def part_store(self, state: UploadState) -> S3Upload:
        return S3Upload(self._service, state)

    async def duplicate(
        self, source: Version, target: str, *, replace: bool, if_match: str | None = None, looked: bool = False
    ) -> None:
        await copies.copy(self._service, source, target, replace=replace, if_match=if_match, looked=looked)

    async def remove(self, keys: list[str]) -> None:
        alone = keys if len(keys) == 1 else [key for key in keys if _NOT_IN_XML.search(key)]
        await for_each(self.remove_version, [Version(key, None) for key in alone])
        if len(keys) > 1:
            await self._remove_in_batches([Version(key, None) for key in keys])

    async def remove_versions(self, versions: list[Version]) -> list[Version]:
        # Amazon checks the version of each object of a batch. Other services may not, and some ignore the condition of
        # a single delete, too: for these we check right before.
        await self._service.open()
        if self._service.is_amazon:
            alone = [version for version in versions if _NOT_IN_XML.search(version.key)]
            versions = alone + await self._remove_in_batches(versions)
        return await super().remove_versions(versions)

    async def _remove_in_batches(self, versions: list[Version]) -> list[Version]:
        """Remove versions, except keys that XML cannot express, together. Returns those with another version by now."""
        refused: list[Version] = []
        together = [version for version in versions if not _NOT_IN_XML.search(version.key)]
        conditional = {version.key: version for version in together if version.etag is not None}
        objects = [{"Key": key, **({"ETag": f'"{etag}"'} if etag is not None else {})} for key, etag, _ in together]
        for start in range(0, len(objects), self.max_page_size):
            batch = {"Objects": objects[start : start + self.max_page_size], "Quiet": True}
            response = await self._service.call("delete_objects", Delete=batch)
            for error in response.get("Errors", []):
                code, key = error.get("Code", ""), error.get("Key", "")
                if not (key in conditional and code in _SUPERSEDED):
                    raise error_for(code, "DeleteObjects", key, self._service.bucket)
                refused.append(conditional[key])
        return refused

    async def remove_version(self, version: Version) -> None:
        key, etag, copied_at = version
        if etag is None:
            await self._service.call("delete_object", Key=key)
            return
        honored = await self._service.honored()
        relies = honored.delete and honored.copy_from and time.monotonic() - copied_at < LOOK_SECONDS
        if not (self._service.is_amazon or relies):
            found = await self.find(key)
            if found is None:
                return
            if found.etag != etag:
                raise changed(name_of(key))
        try:
            await self._service.call("delete_object", Key=key, IfMatch=f'"{etag}"')
        except NotFound:
            return
        except PorticoError as error:
            if code_of(error) != "NotImplemented":
                raise
            await self._service.call("delete_object", Key=key)

    async def close(self) -> None:
        await self._service.close()
