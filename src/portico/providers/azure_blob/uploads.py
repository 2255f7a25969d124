"""Uploads: one request for what fits into a part, otherwise blocks and then their list, which makes the blob visible.

Blocks that are not in a list are invisible. The service drops them after a week; no request removes them earlier.
"""

from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from secrets import token_hex

from azure.core.exceptions import AzureError

from portico.model import timestamps
from portico.model.entries import UNKNOWN_TYPE, Entry
from portico.model.errors import already_exists, changed
from portico.providers.azure_blob.errors import is_taken, may_have_succeeded
from portico.providers.azure_blob.listing import FOLDER_MARK, entry_of, moment
from portico.providers.azure_blob.service import Container
from portico.providers.azure_common.errors import ServiceError, translated
from portico.providers.azure_common.service import Body, Response
from portico.providers.contract.uploads import KeptFile, over_kept
from portico.providers.multipart.memory import MemoryBudget
from portico.providers.multipart.parts import LOOKUP_FRACTION, Parts, UploadPart, part_sizes, split
from portico.providers.objects.service import MTIME, as_rfc3339, name_of
from portico.providers.wire.responses import malformed_response
from portico.providers.wire.transport import MAX_RESPONSE_BYTES

MAX_BLOCKS = 50_000
_BLOCK_LIST_BYTES, _BLOCK_BYTES = 64 * 1024, 256
"""The size of a block list: a fixed part, and for each block."""


class ObjectUpload:
    """The upload of one blob."""

    def __init__(
        self,
        container: Container,
        key: str,
        content_type: str,
        *,
        replace: bool,
        if_match: str | None = None,
        modified: datetime | None = None,
        kept: KeptFile | None = None,
    ) -> None:
        self._container = container
        self._url = container.blob_url(key)
        self._key = key
        self._name = name_of(key)
        self._content_type = content_type if _is_header(content_type) else UNKNOWN_TYPE
        self._replace = replace
        self._if_match = if_match
        self._modified = modified
        self._kept = kept
        self._mark = token_hex(8)
        self._over = condition(replace, if_match)
        self._begun: str | None = None
        """When the first block was stored, by the service's clock."""

    async def store(self, memory: MemoryBudget, chunks: AsyncIterator[bytes], at_most: int | None) -> Entry:
        async with split(memory, chunks, part_sizes(at_most, MAX_BLOCKS), at_most) as parts:
            if parts.first.last:
                return await self._keeping(partial(self._put, parts.first))
            blocks, size = await self._put_blocks(parts)
            return await self._keeping(partial(self._commit, blocks, size))

    async def _keeping(self, commit: Callable[[], Awaitable[Entry]]) -> Entry:
        if self._kept is None:
            return await commit()

        async def over(replace: bool, if_match: str | None) -> Entry:
            self._over = condition(replace, if_match)
            return await commit()

        return await over_kept(self._kept, self._name, self._if_match, over)

    # One request

    async def _put(self, part: UploadPart) -> Entry:
        # The service verifies and keeps the hash, which identifies our blob if the response is lost.
        digest = await part.md5()
        headers = self._headers() | {"x-ms-blob-type": "BlockBlob", "Content-MD5": digest}
        with translated(self._name):
            try:
                response = await self._container.send(
                    "PUT", self._url, None, headers, Body(part.chunks, part.size)
                )
            except (ServiceError, AzureError) as error:
                entry = await self._stored_despite_error(error, digest, part.size)
                if entry is None:
                    self._check_exists(error)
                    raise
                return entry
        return self._entry(response, part.size)

    async def _stored_despite_error(self, error: Exception, digest: str, size: int) -> Entry | None:
        if not may_have_succeeded(error):
            return None
        found = await self._look("HEAD", None)
        if found is None or found.headers.get("Content-MD5") != digest:
            return None
        return self._entry(found, size)

    # Blocks

    async def _put_blocks(self, parts: Parts) -> tuple[list[str], int]:
        sizes: list[int] = []

        async def send(part: UploadPart) -> str:
            block = self._block(part.number)
            with translated(self._name):
                response = await put_block(self._container, self._url, block, part)
            self._begun = self._begun or response.headers.get("Date")
            sizes.append(part.size)
            return block

        blocks = await parts.send(send)
        return blocks, sum(sizes)

    def _block(self, number: int) -> str:
        return block_id(self._mark, number)

    async def _commit(self, blocks: list[str], size: int) -> Entry:
        text = block_list(blocks)
        headers = self._headers() | {"Content-Type": "application/xml"}
        with translated(self._name):
            try:
                response = await self._container.send(
                    "PUT", self._url, {"comp": "blocklist"}, headers, Body([text], len(text))
                )
            except (ServiceError, AzureError) as error:
                entry = await self._committed_despite_error(error, blocks, size)
                if entry is None:
                    self._check_exists(error)
                    raise
                return entry
        return self._entry(response, size)

    async def _committed_despite_error(self, error: Exception, blocks: list[str], size: int) -> Entry | None:
        lost = isinstance(error, ServiceError) and error.code == "InvalidBlockList"
        if not (lost or may_have_succeeded(error)):
            return None
        found = await self._look("HEAD", None)
        if found is None:
            return None
        listed = await self._look(
            "GET",
            {"comp": "blocklist", "blocklisttype": "committed"},
            _BLOCK_LIST_BYTES + _BLOCK_BYTES * len(blocks),
        )
        if listed and blocks[0].encode() in listed.body and blocks[-1].encode() in listed.body:
            return self._entry(found, size)
        return self._superseded(found, size) if lost and self._is_newer(found) else None

    def _superseded(self, found: Response, size: int) -> Entry:
        """Another upload to this name was committed meanwhile, which made the service drop our blocks.

        Had ours been committed first, the other would have replaced it: the result is the same.
        """
        if not self._replace:
            raise already_exists(self._name)
        if self._if_match is not None:
            raise changed(self._name)
        written = timestamps.from_datetime(moment(found.headers["Last-Modified"]))
        return Entry(self._key, False, size, written, self._content_type)

    def _is_newer(self, found: Response) -> bool:
        begun, written = self._begun, found.headers.get("Last-Modified")
        # The service rounds to seconds, and sends the time of the response, not of the commit.
        try:
            return None not in (begun, written) and moment(written or "") >= moment(begun or "") - timedelta(
                seconds=1
            )
        except (ValueError, OverflowError):
            raise malformed_response("an invalid date") from None

    def _headers(self) -> dict[str, str]:
        headers = described(self._content_type, self._modified) | self._over
        if self._key.endswith("/"):
            headers[f"x-ms-meta-{FOLDER_MARK}"] = "true"
        return headers

    async def _look(
        self, method: str, query: dict[str, str] | None, at_most: int = MAX_RESPONSE_BYTES
    ) -> Response | None:
        within = self._container.timeout / LOOKUP_FRACTION
        try:
            return await self._container.send(method, self._url, query, at_most=at_most, within=within)
        except (ServiceError, AzureError):
            return None

    def _entry(self, response: Response, size: int) -> Entry:
        entry = entry_of(self._key, response.headers, size)
        entry.content_type = self._content_type
        if self._modified is not None:
            entry.last_modified = timestamps.from_datetime(self._modified)
        return entry

    def _check_exists(self, error: Exception) -> None:
        if "If-None-Match" in self._over and is_taken(error):
            raise already_exists(self._name) from error


def condition(replace: bool, if_match: str | None) -> dict[str, str]:
    """The header that lets a write replace nothing, or only one version."""
    if if_match is not None:
        return {"If-Match": f'"{if_match}"'}
    return {} if replace else {"If-None-Match": "*"}


async def put_block(container: Container, url: str, block: str, part: UploadPart) -> Response:
    """Store a block, which the service verifies by its MD5."""
    query = {"comp": "block", "blockid": block}
    digest = {"Content-MD5": await part.md5()}
    return await container.send("PUT", url, query, digest, Body(part.chunks, part.size))


def block_id(mark: str, number: int) -> str:
    """The name of a block. All those of a blob must have the same length, and two uploads must not share one."""
    return b64encode(f"portico-{mark}-{number:05}".encode()).decode()


def block_list(blocks: list[str]) -> bytes:
    names = "".join([f"<Latest>{block}</Latest>" for block in blocks])
    return f'<?xml version="1.0" encoding="utf-8"?><BlockList>{names}</BlockList>'.encode()


def described(content_type: str, modified: datetime | None) -> dict[str, str]:
    """The headers that describe a new blob."""
    headers = {"x-ms-blob-content-type": content_type if _is_header(content_type) else UNKNOWN_TYPE}
    if modified is not None:
        headers[f"x-ms-meta-{MTIME}"] = as_rfc3339(modified)
    return headers


def _is_header(text: str) -> bool:
    return text.isascii() and text.isprintable() and bool(text.strip())
