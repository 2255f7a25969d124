"""Requests to one container, one method each.

They raise `ServiceError` or the SDK's errors, so call them inside `translated`.
"""

from collections.abc import Mapping

from azure.storage.blob.aio import BlobServiceClient

from portico.model.entries import Entry
from portico.providers.azure_blob import listing as page_tokens
from portico.providers.azure_blob.errors import is_absent
from portico.providers.azure_blob.listing import entry_of, read_page
from portico.providers.azure_common.credentials import AzureAccess
from portico.providers.azure_common.errors import ServiceError
from portico.providers.azure_common.service import Service, Stream
from portico.providers.objects.service import KeyPage
from portico.providers.wire.ranges import range_header
from portico.providers.wire.responses import malformed_response
from portico.providers.wire.transport import ResponseTooLarge, page_bytes
from portico.providers.wire.xml_listing import run_parser

MAX_PAGE_SIZE = 5000
_API_VERSION = "2021-12-02"
MAX_ENTRY_BYTES = 12 * 1024
"""Bytes of one entry in a listing: a name, its properties, and metadata of up to 8 KiB."""
_SAFE_PAGE_SIZE = 1000
"""A page of this many entries is never too large, whatever metadata they have."""


class Container(Service):
    def __init__(self, access: AzureAccess, name: str, timeout: float) -> None:
        super().__init__(access, BlobServiceClient, _API_VERSION, timeout=timeout)
        self._name = name

    @property
    def address(self) -> str:
        return self.url(self._name)

    def blob_url(self, key: str) -> str:
        return self.url(self._name, key)

    async def list(self, prefix: str, size: int, token: str | None, *, flat: bool) -> tuple[KeyPage, list[str], str]:
        """A page, the folders that blobs in it mark, and the hash of the folder that ended the page before."""
        # The metadata tells which zero-byte blobs are folders. It adds a few per cent to the cost of a listing.
        query = {"restype": "container", "comp": "list", "include": "metadata"}
        query["maxresults"] = str(min(size, MAX_PAGE_SIZE))
        if prefix:
            query["prefix"] = prefix
        if not flat:
            query["delimiter"] = "/"
        marker, last = page_tokens.split(token) if token is not None and not flat else (token, "")
        if marker is not None:
            query["marker"] = marker
        try:
            response = await self.send("GET", self.url(self._name), query, at_most=page_bytes(size, MAX_ENTRY_BYTES))
        except ResponseTooLarge:
            if size <= _SAFE_PAGE_SIZE:
                raise
            return await self.list(prefix, _SAFE_PAGE_SIZE, token, flat=flat)
        listing, marked = await run_parser(read_page, response.body, size, flat)
        if marker is not None and listing.token == marker:
            raise malformed_response("the marker of the request as the next one: the listing would never end")
        return listing, marked, last

    async def head(self, key: str, within: float | None = None) -> Mapping[str, str] | None:
        try:
            return (await self.send("HEAD", self.blob_url(key), within=within)).headers
        except ServiceError as error:
            if is_absent(error):
                return None
            raise

    async def find(self, key: str, mark: tuple[str, str] | None = None, within: float | None = None) -> Entry | None:
        """The blob; with `mark`, a header and its value, only if it has that."""
        headers = await self.head(key, within)
        if headers is None or (mark and headers.get(mark[0]) != mark[1]):
            return None
        return entry_of(key, headers)

    async def read(self, key: str, start: int, stop: int | None, etag: str | None) -> Stream:
        headers = range_header(start, stop, "x-ms-range")
        if etag is not None:
            headers["If-Match"] = f'"{etag}"'
        return await self.stream(self.blob_url(key), None, headers)

    async def delete(self, key: str, etag: str | None = None) -> bool:
        """Whether the blob existed, also if an attempt whose response was lost removed it."""
        headers = {"x-ms-delete-snapshots": "include"}
        if etag is not None:
            headers["If-Match"] = f'"{etag}"'
        try:
            await self.send("DELETE", self.blob_url(key), None, headers)
        except ServiceError as error:
            if is_absent(error):
                return error.repeated
            raise
        return True
