"""The provider for a bucket of S3 or a service like it."""

import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from portico.entries import Download, Entry
from portico.errors import Changed, NotFound, PorticoError, RangeNotSatisfiable
from portico.providers.answers import nonsense
from portico.providers.base import TIMEOUT_SECONDS
from portico.providers.keys import Listing, Version
from portico.providers.objects import ObjectStore
from portico.providers.parts import UPLOADS, cut, most_bytes, part_sizes
from portico.providers.s3 import copies, journal, uploads
from portico.providers.s3.downloads import Content, NoContent
from portico.providers.s3.faults import code_of, error_for
from portico.providers.s3.listing import read_listing
from portico.providers.s3.service import RAW, Service
from portico.providers.s3.uploads import MOST_PARTS, Target, entry_of, expected
from portico.providers.tasks import each
from portico.providers.transport import page_bytes
from portico.providers.xml_pages import in_turn

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_LONGEST_ENTRY = 4096
"""Bytes of a listing: a key of 1,024, each written as three, and what else is said of it."""
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_OUTRUN = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey")
"""Codes of a conditional deletion that mean that the object was replaced or removed meanwhile."""


class S3Provider(ObjectStore):
    kind = "s3"
    max_page_size = 1000
    max_file_size = most_bytes(MOST_PARTS)

    def __init__(
        self,
        bucket: str,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        role_arn: str | None = None,
        profile: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        super().__init__()
        # Amazon's bucket names are unique in the world; those of other services at their address.
        self.identity = f"{endpoint_url.rstrip('/')}/{bucket}" if endpoint_url else bucket
        self._service = Service(
            bucket,
            region=region,
            endpoint_url=endpoint_url,
            access_key_id=access_key_id,
            secret_access_key=secret_access_key,
            role_arn=role_arn,
            profile=profile,
            timeout=timeout,
        )

    async def list_keys(self, prefix: str, size: int, token: str | None, *, flat: bool = False) -> Listing:
        answer = await self._service.call(
            "list_objects_v2",
            Prefix=prefix,
            MaxKeys=size,
            EncodingType="url",
            at_most=page_bytes(size, _LONGEST_ENTRY),
            **({} if flat else {"Delimiter": "/"}),
            **({"ContinuationToken": token} if token is not None else {}),
        )
        return await in_turn(read_listing, answer[RAW], token, size, flat)

    async def find(self, key: str) -> Entry | None:
        try:
            return entry_of(key, await self._service.call("head_object", Key=key))
        except NotFound:
            return None

    async def open(self, key: str, start: int, stop: int | None, etag: str | None) -> Download:
        if stop is not None and stop <= start:
            return await self._open_nothing(key, start, etag)
        ranged = start > 0 or stop is not None
        wanted = {"Range": f"bytes={start}-{'' if stop is None else stop - 1}"} if ranged else {}
        version = {"IfMatch": f'"{etag}"'} if etag is not None else {}
        try:
            answer = await self._service.call("get_object", Key=key, **wanted, **version)
        except RangeNotSatisfiable:
            return await self._open_nothing(key, start, etag)
        content = Content(answer["Body"], max(0, answer.get("ContentLength", 0)))
        try:
            return _download(key, answer, content, start if ranged else None)
        except PorticoError:
            await content.aclose()
            raise

    async def _open_nothing(self, key: str, start: int, etag: str | None) -> Download:
        """The end of an object, which the service knows no range for, or word that it is passed."""
        entry = entry_of(key, await self._service.call("head_object", Key=key))
        size = entry.size or 0
        name = key.rpartition("/")[2]
        if etag is not None and entry.etag != etag:
            raise Changed(f"'{name}' has changed meanwhile; start the download again.")
        if start > size:
            raise RangeNotSatisfiable(f"'{name}' has only {size} bytes.", size=size)
        return Download(entry, start, start, NoContent())

    async def store(
        self, key: str, chunks: AsyncIterator[bytes], content_type: str, *, replace: bool, at_most: int | None
    ) -> Entry:
        await self._service.open()
        target = Target(key, content_type, replace)
        sizes = part_sizes(at_most, MOST_PARTS)
        async with UPLOADS.lease() as lease, aclosing(cut(chunks, sizes, lease, at_most=at_most)) as parts:
            first = await anext(parts)
            if first.last:
                return await uploads.put(self._service, target, first)
            return await uploads.put_parts(self._service, target, first, parts, lease)

    async def duplicate(self, source: Version, target: str, *, replace: bool) -> None:
        await copies.copy(self._service, source, target, replace=replace)

    async def remove(self, keys: list[str]) -> None:
        together = [key for key in keys if not _NOT_IN_XML.search(key)]
        alone = [key for key in keys if _NOT_IN_XML.search(key)]
        if len(together) == 1:
            alone, together = alone + together, []
        for key in alone:
            await self._service.call("delete_object", Key=key)
        for start in range(0, len(together), self.max_page_size):
            await self._remove_together(together[start : start + self.max_page_size])

    async def _remove_together(self, keys: list[str]) -> None:
        await self._delete_objects([{"Key": key} for key in keys])

    async def remove_versions(self, versions: list[Version]) -> None:
        # Amazon looks at the version of each object of a batch. Not all others do, and some ignore the condition of a
        # single deletion as well: there we look ourselves, right before.
        await self._service.open()
        if not self._service.is_amazon:
            await each(self._remove_version, versions)
            return
        alone = [version for version in versions if _NOT_IN_XML.search(version.key)]
        together = [version for version in versions if not _NOT_IN_XML.search(version.key)]
        await each(self._remove_version, alone)
        for start in range(0, len(together), self.max_page_size):
            batch = together[start : start + self.max_page_size]
            await self._delete_objects(
                [{"Key": key, **({"ETag": f'"{etag}"'} if etag is not None else {})} for key, etag in batch]
            )

    async def _delete_objects(self, objects: list[dict[str, str]]) -> None:
        answer = await self._service.call("delete_objects", Delete={"Objects": objects, "Quiet": True})
        conditional = {thing["Key"] for thing in objects if "ETag" in thing}
        for error in answer.get("Errors", []):
            code, key = error.get("Code", ""), error.get("Key", "")
            if not (key in conditional and code in _OUTRUN):
                raise error_for(code, "DeleteObjects", key, self._service.bucket)

    async def _remove_version(self, version: Version) -> None:
        key, etag = version
        if etag is None:
            await self._service.call("delete_object", Key=key)
            return
        if not self._service.is_amazon:
            found = await self.find(key)
            if found is None or found.etag != etag:
                return
        try:
            await self._service.call("delete_object", Key=key, IfMatch=f'"{etag}"')
        except (Changed, NotFound):
            return
        except PorticoError as error:
            if code_of(error) != "NotImplemented":
                raise
            await self._service.call("delete_object", Key=key)

    async def sweep(self) -> int:
        swept = 0
        async for listing in self.pages(journal.FOLDER, flat=True):
            swept += await journal.clear(self._service, listing.objects)
        return swept

    async def close(self) -> None:
        await self._service.close()


def _download(key: str, answer: dict[str, Any], content: Content, asked: int | None) -> Download:
    """What was answered, if it is what was asked for; `asked` is where the range begins, if it was for one."""
    size: int = expected(answer, "ContentLength")
    if asked is None:
        return Download(entry_of(key, answer), 0, size, content)
    sent = _CONTENT_RANGE.fullmatch(answer.get("ContentRange", ""))
    if not sent or int(sent[1]) != asked or int(sent[2]) + 1 - asked != size:
        raise nonsense("another part of an object than was asked for")
    return Download(entry_of(key, answer, int(sent[3])), asked, asked + size, content)
