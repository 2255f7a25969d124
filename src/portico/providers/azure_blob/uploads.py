"""Uploads, resumable or not: one request for what fits into a part, otherwise blocks and then their list.

Blocks that are not in a list are invisible. They belong to a key: the service drops them after a week, or when another
upload to that key is committed. No request removes them earlier.
"""

from base64 import b64encode
from contextlib import suppress
from datetime import timedelta
from secrets import token_hex

from azure.core.exceptions import AzureError

from portico.model import timestamps
from portico.model.entries import UNKNOWN_TYPE, Entry
from portico.model.errors import PorticoError, already_exists, cannot_replace_folder, changed, not_found
from portico.providers.azure_blob.errors import is_taken
from portico.providers.azure_blob.listing import FOLDER_MARK, entry_of, moment
from portico.providers.azure_blob.service import Container
from portico.providers.azure_common.errors import ServiceError, may_have_succeeded, translated
from portico.providers.azure_common.service import Body, Response
from portico.providers.multipart.parts import LOOKUP_FRACTION, MIB, Parts, UploadPart
from portico.providers.objects.part_store import UPLOADS_PREFIX, PartLimits, PartStore, SentPart, UploadState
from portico.providers.objects.service import MTIME, as_rfc3339, name_of
from portico.providers.wire.responses import malformed_response

MAX_BLOCKS = 50_000
_MARK = "x-ms-meta-portico_upload"
"""The metadata that identifies the blob of an upload. A name with a dash, as on other services, is not allowed."""
_WORD = 16
"""Letters of the word in the name of a block."""
_SMALLEST_BLOCK = MIB
"""The service takes smaller blocks, but each one costs a line in the lists of the upload."""


class BlobUpload(PartStore):
    begins = False
    limits = PartLimits(max_number=MAX_BLOCKS, smallest=_SMALLEST_BLOCK)

    def __init__(self, container: Container, state: UploadState) -> None:
        self._container = container
        self._state = state
        self._url = container.blob_url(state.goal)
        self._name = name_of(state.key)
        self._writer = token_hex(_WORD // 4)
        """Part of the names of its blocks: a late block of another writer never replaces one of them."""
        self._begun: str | None = None
        """When the first block of an upload that is not resumable was stored, by the service's clock."""

    async def put_parts(self, parts: Parts) -> Entry:
        # The service would keep the blocks of a refused upload at this visible name for a week.
        if not self._state.replaces_goal:
            with translated(self._name):
                if await self._container.head(self._state.goal) is not None:
                    raise already_exists(self._name)

        async def send(part: UploadPart) -> SentPart:
            response = await self._put_block(part)
            self._begun = self._begun or response.headers.get("Date")
            return SentPart(part.number, part.size, self._writer)

        sent = await parts.send(send)
        return await self._commit(sent, sum(part.size for part in sent))

    async def begin(self) -> str:
        return ""

    async def send(self, part: UploadPart) -> str:
        await self._put_block(part)
        return self._writer

    async def _put_block(self, part: UploadPart) -> Response:
        """The service verifies the block by its MD5."""
        query = {"comp": "block", "blockid": self._block(self._writer, part.number)}
        digest = {"Content-MD5": await part.md5()}
        with translated(self._name):
            return await self._container.send("PUT", self._url, query, digest, Body(part.chunks, part.size))

    def _block(self, writer: str, number: int) -> str:
        """The name of a block. All those of a blob must have the same length, and two uploads must not share one."""
        return b64encode(f"portico-{self._state.id[: _WORD // 2]}{writer}-{number:05}".encode()).decode()

    async def commit(self, parts: list[SentPart], last: UploadPart, size: int) -> Entry:
        return await self._commit(parts, size)

    async def _commit(self, parts: list[SentPart], size: int) -> Entry:
        blocks = "".join([f"<Latest>{self._block(part.result, part.number)}</Latest>" for part in parts])
        text = f'<?xml version="1.0" encoding="utf-8"?><BlockList>{blocks}</BlockList>'.encode()
        headers = {"Content-Type": "application/xml"}
        return await self._keeping({"comp": "blocklist"}, headers, Body([text], len(text)), size)

    async def put(self, whole: UploadPart) -> Entry:
        headers = {"x-ms-blob-type": "BlockBlob", "Content-MD5": await whole.md5()}
        return await self._keeping(None, headers, Body(whole.chunks, whole.size), whole.size)

    async def _keeping(self, query: dict[str, str] | None, headers: dict[str, str], body: Body, size: int) -> Entry:
        state = self._state
        common = _described(state.content_type) | {_MARK: state.id} | headers
        if state.modified is not None:
            common[f"x-ms-meta-{MTIME}"] = as_rfc3339(state.modified)
        if state.goal.endswith("/"):
            common[f"x-ms-meta-{FOLDER_MARK}"] = "true"

        async def make(replace: bool, if_match: str | None) -> Entry:
            condition = {} if replace else {"If-None-Match": "*"}
            if if_match is not None:
                condition = {"If-Match": f'"{if_match}"'}
            return await self._make(query, common | condition, body, size)

        return await self.replacing(self._name, state.replaces_goal, make)

    async def _make(self, query: dict[str, str] | None, headers: dict[str, str], body: Body, size: int) -> Entry:
        """Make the blob visible. If the response was lost, its mark shows whether it is there."""
        state = self._state
        with translated(self._name):
            try:
                response = await self._container.send("PUT", self._url, query, headers, body)
            except (ServiceError, AzureError) as error:
                dropped = isinstance(error, ServiceError) and error.code == "InvalidBlockList"
                if dropped or may_have_succeeded(error):
                    with suppress(PorticoError):  # then it cannot be known now
                        if entry := await self.own(state.goal, size, self._container.timeout / LOOKUP_FRACTION):
                            return entry
                if dropped:
                    return await self._superseded(error, size)
                if is_taken(error) and "If-None-Match" in headers:
                    found = None if state.goal.endswith("/") else await self._container.find(state.goal)
                    taken = cannot_replace_folder if found and found.is_folder else already_exists
                    raise taken(self._name) from error
                raise
        entry = entry_of(state.goal, response.headers, size)
        entry.content_type = headers["x-ms-blob-content-type"]
        if state.modified is not None:
            entry.last_modified = timestamps.from_datetime(state.modified)
        return entry

    async def _superseded(self, error: Exception, size: int) -> Entry:
        """The service has dropped blocks, usually because another upload to this name was committed.

        Had ours been committed first, the other one would have replaced it: the result is the same. A resumable upload
        is gone.
        """
        state = self._state
        found = await self._container.head(state.goal)
        if found and not state.replaces_goal:
            raise already_exists(self._name) from error
        if self._begun is None:
            raise not_found(self._name, cause="the service has dropped blocks of the upload") from error
        if found is None or not _is_newer(found.get("Last-Modified", ""), self._begun):
            raise error
        if self.if_match is not None:
            raise changed(self._name) from error
        written = timestamps.from_datetime(moment(found["Last-Modified"]))
        return Entry(state.goal, False, size, written, state.content_type)  # its etag is not known

    async def own(self, key: str, size: int, within: float | None = None) -> Entry | None:
        with translated(self._name):
            entry = await self._container.find(key, (_MARK, self._state.id), within)
        return entry if entry and entry.size == size else None

    async def abort(self) -> None:
        """Make the service drop the blocks, which it does when a blob is written there.

        Only at a hidden key: elsewhere users would see that blob. There the service drops blocks after a week, or when
        the next file of that name is stored.
        """
        state = self._state
        if not state.goal.startswith(UPLOADS_PREFIX) or state.next_number == 1:
            return
        with translated(self._name):
            if state.committing and await self._container.find(state.goal):
                return  # it was committed, which drops the other blocks as well
            headers = {"x-ms-blob-type": "BlockBlob"}
            await self._container.send("PUT", self._url, None, headers, Body([], 0))
            await self._container.delete(state.goal)


def _described(content_type: str) -> dict[str, str]:
    is_header = content_type.isascii() and content_type.isprintable() and content_type.strip()
    return {"x-ms-blob-content-type": content_type if is_header else UNKNOWN_TYPE}


def _is_newer(written: str, begun: str) -> bool:
    # The service rounds to seconds, and sends the time of the response, not of the commit.
    try:
        return bool(written) and moment(written) >= moment(begun) - timedelta(seconds=1)
    except (ValueError, OverflowError):
        raise malformed_response("an invalid date") from None
