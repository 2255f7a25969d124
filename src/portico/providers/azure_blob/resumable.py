"""Resumable uploads: blocks, which the service keeps for a week, and then their list.

Blocks belong to a key. If another upload to that key is committed meanwhile, the service drops them, and this upload is
gone.
"""

from secrets import token_hex

from azure.core.exceptions import AzureError

from portico.model import timestamps
from portico.model.entries import UNKNOWN_TYPE, Entry
from portico.model.errors import already_exists, not_found
from portico.providers.azure_blob.errors import is_taken, may_have_succeeded
from portico.providers.azure_blob.listing import entry_of
from portico.providers.azure_blob.service import Container
from portico.providers.azure_blob.uploads import (
    MAX_BLOCKS,
    block_id,
    block_list,
    condition,
    described,
    put_block,
)
from portico.providers.azure_common.errors import ServiceError, translated
from portico.providers.azure_common.service import Body
from portico.providers.contract.uploads import over_kept
from portico.providers.multipart.parts import MIB, UploadPart
from portico.providers.objects.part_store import UPLOADS_PREFIX, PartLimits, PartStore, SentPart, UploadState
from portico.providers.objects.service import name_of

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

    async def begin(self) -> str:
        return ""

    async def send(self, part: UploadPart) -> str:
        with translated(self._name):
            await put_block(self._container, self._url, self._block(self._writer, part.number), part)
        return self._writer

    def _block(self, writer: str, number: int) -> str:
        return block_id(self._state.id[: _WORD // 2] + writer, number)

    async def commit(self, parts: list[SentPart], last: UploadPart, size: int) -> Entry:
        text = block_list([self._block(part.result, part.number) for part in parts])
        headers = {"Content-Type": "application/xml"}
        return await self._keeping({"comp": "blocklist"}, headers, Body([text], len(text)), size)

    async def put(self, whole: UploadPart) -> Entry:
        headers = {"x-ms-blob-type": "BlockBlob", "Content-MD5": await whole.md5()}
        return await self._keeping(None, headers, Body(whole.chunks, whole.size), whole.size)

    async def _keeping(
        self, query: dict[str, str] | None, headers: dict[str, str], body: Body, size: int
    ) -> Entry:
        state = self._state
        common = described(state.content_type, state.modified) | {_MARK: state.id} | headers

        async def make(replace: bool, if_match: str | None) -> Entry:
            return await self._make(query, common | condition(replace, if_match), body, size)

        if self.kept is None:
            return await make(state.replaces_goal, None)
        return await over_kept(self.kept, self._name, None, make)

    async def _make(
        self, query: dict[str, str] | None, headers: dict[str, str], body: Body, size: int
    ) -> Entry:
        """Make the blob visible. If the response was lost, its mark shows whether it is there."""
        state = self._state
        with translated(self._name):
            try:
                response = await self._container.send("PUT", self._url, query, headers, body)
            except (ServiceError, AzureError) as error:
                dropped = isinstance(error, ServiceError) and error.code == "InvalidBlockList"
                if (dropped or may_have_succeeded(error)) and (entry := await self.own(state.goal, size)):
                    return entry
                if dropped and not state.replaces_goal and await self._container.find(state.goal):
                    raise already_exists(self._name) from error
                if dropped:
                    raise not_found(
                        self._name, cause="the service has dropped blocks of the upload"
                    ) from error
                if is_taken(error) and "If-None-Match" in headers:
                    raise already_exists(self._name) from error
                raise
        entry = entry_of(state.goal, response.headers, size)
        entry.content_type = headers["x-ms-blob-content-type"]
        if state.modified is not None:
            entry.last_modified = timestamps.from_datetime(state.modified)
        return entry

    async def put_hidden(self, key: str, part: UploadPart) -> None:
        headers = described(UNKNOWN_TYPE, None) | {
            "x-ms-blob-type": "BlockBlob",
            "Content-MD5": await part.md5(),
        }
        with translated(self._name):
            await self._container.send(
                "PUT", self._container.blob_url(key), None, headers, Body(part.chunks, part.size)
            )

    async def own(self, key: str, size: int) -> Entry | None:
        with translated(self._name):
            entry = await self._container.find(key, (_MARK, self._state.id))
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
