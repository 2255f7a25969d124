"""Storing a blob: one request if it fits a part, else blocks and then their list. Nothing is seen before the end.

Blocks that no list names are invisible, cost nothing to readers, and are dropped by the service after a week; there
is no request that would remove them sooner.
"""

import asyncio
import hashlib
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import timedelta
from secrets import token_hex

from azure.core.exceptions import AzureError

from portico import timestamps
from portico.entries import UNKNOWN_TYPE, Entry
from portico.errors import already_exists
from portico.providers.answers import nonsense
from portico.providers.azure_blob.blobs import FOLDER_MARK, entry_of, moment
from portico.providers.azure_common import Answer, Body, Fault, Service, translated
from portico.providers.memory import Lease
from portico.providers.parts import UPLOADS, Part, cut, part_sizes, send_all
from portico.providers.transport import LARGEST_ANSWER

MOST_BLOCKS = 50_000
_INLINE = 256 * 1024
"""Up to so many bytes a hop to a thread costs more than the hash."""
_BRIEF = 3
"""The part of the deadline that a look takes at most after a commit whose answer was lost."""
_PAGE, _BLOCK = 64 * 1024, 256
"""Bytes of a list of blocks, and for each of them."""
EXISTS = ("BlobAlreadyExists", "ConditionNotMet", "TargetConditionNotMet")


class Upload:
    """One blob on its way in."""

    def __init__(self, service: Service, url: str, key: str, content_type: str, *, replace: bool) -> None:
        self._service = service
        self._url = url
        self._key = key
        self._name = key.rstrip("/").rpartition("/")[2]
        self._content_type = content_type if _is_header(content_type) else UNKNOWN_TYPE
        self._replace = replace
        self._mark = token_hex(8)
        self._begun: str | None = None
        """The service's clock at the first block."""

    async def store(self, chunks: AsyncIterator[bytes], at_most: int | None) -> Entry:
        sizes = part_sizes(at_most, MOST_BLOCKS)
        async with UPLOADS.lease() as lease, aclosing(cut(chunks, sizes, lease, at_most=at_most)) as parts:
            first = await anext(parts)
            if first.last:
                return await self._put(first)
            return await self._put_blocks(first, parts, lease)

    # One request

    async def _put(self, part: Part) -> Entry:
        # The service checks the hash, and keeps it: by it we know our blob again if the answer is lost.
        digest = await _md5(part)
        headers = self._headers() | {"x-ms-blob-type": "BlockBlob", "Content-MD5": digest}
        with translated(self._name):
            try:
                answer = await self._service.send(
                    "PUT", self._url, None, headers, Body(part.chunks, part.size)
                )
            except (Fault, AzureError) as error:
                entry = await self._stored_after_all(error, digest, part.size)
                if entry is None:
                    self._check_exists(error)
                    raise
                return entry
        return self._entry(answer, part.size)

    async def _stored_after_all(self, error: Exception, digest: str, size: int) -> Entry | None:
        if not _may_have_worked(error):
            return None
        found = await self._look("HEAD", None)
        if found is None or found.headers.get("Content-MD5") != digest:
            return None
        return self._entry(found, size)

    # Blocks

    async def _put_blocks(self, first: Part, rest: AsyncIterator[Part], lease: Lease) -> Entry:
        sizes: list[int] = []

        async def put_block(part: Part) -> str:
            block = self._block(part.number)
            query = {"comp": "block", "blockid": block}
            with translated(self._name):
                answer = await self._service.send("PUT", self._url, query, None, Body(part.chunks, part.size))
            self._begun = self._begun or answer.headers.get("Date")
            sizes.append(part.size)
            return block

        blocks = await send_all(first, rest, put_block, lease)
        return await self._commit(blocks, sum(sizes))

    def _block(self, number: int) -> str:
        # All of a blob's blocks must have names of one length, and no two uploads may share one.
        return b64encode(f"portico-{self._mark}-{number:05}".encode()).decode()

    async def _commit(self, blocks: list[str], size: int) -> Entry:
        names = "".join([f"<Latest>{block}</Latest>" for block in blocks])
        text = f'<?xml version="1.0" encoding="utf-8"?><BlockList>{names}</BlockList>'.encode()
        headers = self._headers() | {"Content-Type": "application/xml"}
        with translated(self._name):
            try:
                answer = await self._service.send(
                    "PUT", self._url, {"comp": "blocklist"}, headers, Body([text], len(text))
                )
            except (Fault, AzureError) as error:
                entry = await self._committed_after_all(error, blocks, size)
                if entry is None:
                    self._check_exists(error)
                    raise
                return entry
        return self._entry(answer, size)

    async def _committed_after_all(self, error: Exception, blocks: list[str], size: int) -> Entry | None:
        lost = isinstance(error, Fault) and error.code == "InvalidBlockList"
        if not (lost or _may_have_worked(error)):
            return None
        found = await self._look("HEAD", None)
        if found is None:
            return None
        listed = await self._look(
            "GET", {"comp": "blocklist", "blocklisttype": "committed"}, _PAGE + _BLOCK * len(blocks)
        )
        if listed and blocks[0].encode() in listed.body and blocks[-1].encode() in listed.body:
            return self._entry(found, size)
        return self._superseded(found, size) if lost and self._is_newer(found) else None

    def _superseded(self, found: Answer, size: int) -> Entry:
        """Another writer of this name came to its end while we were sending, which made the service drop our blocks.

        Had we been quicker, its content would have replaced ours; so it is as if it just had.
        """
        if not self._replace:
            raise already_exists(self._name)
        changed = timestamps.from_datetime(moment(found.headers["Last-Modified"]))
        return Entry(self._key, False, size, changed, self._content_type)

    def _is_newer(self, found: Answer) -> bool:
        begun, changed = self._begun, found.headers.get("Last-Modified")
        # The service tells whole seconds, and the time of its answer, not of its deed.
        try:
            return None not in (begun, changed) and moment(changed or "") >= moment(begun or "") - timedelta(
                seconds=1
            )
        except (ValueError, OverflowError):
            raise nonsense("a date that no calendar has") from None

    # Both

    def _headers(self) -> dict[str, str]:
        headers = {"x-ms-blob-content-type": self._content_type}
        if not self._replace:
            headers["If-None-Match"] = "*"
        if self._key.endswith("/"):
            headers[f"x-ms-meta-{FOLDER_MARK}"] = "true"
        return headers

    async def _look(
        self, method: str, query: dict[str, str] | None, at_most: int = LARGEST_ANSWER
    ) -> Answer | None:
        # Not for as long again: whoever waits has waited already.
        within = self._service.timeout / _BRIEF
        try:
            return await self._service.send(method, self._url, query, at_most=at_most, within=within)
        except (Fault, AzureError):
            return None

    def _entry(self, answer: Answer, size: int) -> Entry:
        entry = entry_of(self._key, answer.headers, size)
        entry.content_type = self._content_type
        return entry

    def _check_exists(self, error: Exception) -> None:
        if not self._replace and isinstance(error, Fault) and error.code in EXISTS:
            raise already_exists(self._name) from error


def _may_have_worked(error: Exception) -> bool:
    """Whether the request may have been carried out although we were told otherwise, or nothing at all."""
    return not isinstance(error, Fault) or error.repeated or error.status >= 500


async def _md5(part: Part) -> str:
    if part.size <= _INLINE:
        return _hash(part)
    return await asyncio.to_thread(_hash, part)


def _hash(part: Part) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for chunk in part.chunks:
        digest.update(chunk)
    return b64encode(digest.digest()).decode()


def _is_header(text: str) -> bool:
    return text.isascii() and text.isprintable() and bool(text.strip())
