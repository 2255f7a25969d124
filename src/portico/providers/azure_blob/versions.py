"""Versions of an account: a deleted blob stays as a version. Restoring copies it inside the account."""

from collections.abc import AsyncIterator

from portico.model.errors import ProviderUnavailable
from portico.model.paths import RESERVED_PREFIX
from portico.providers.azure_blob.copies import copy_blob
from portico.providers.azure_blob.listing import VERSION_ID, entry_of, read_versions
from portico.providers.azure_blob.service import MAX_ENTRY_BYTES, Container
from portico.providers.azure_common.errors import translated
from portico.providers.azure_common.service import Body
from portico.providers.objects.service import ObjectService, Version, name_of
from portico.providers.objects.versions import Current, ObjectVersions
from portico.providers.wire.responses import Progress
from portico.providers.wire.transport import page_bytes
from portico.providers.wire.xml_listing import run_parser

_PROBE = f"{RESERVED_PREFIX}versions"
_PAGE = 1000


class BlobVersions(ObjectVersions):
    trusted_seconds = 60.0  # every note that is written shows it again

    def __init__(self, store: ObjectService, container: Container) -> None:
        super().__init__(store)
        self._container = container

    async def _are_kept(self, prefix: str) -> bool:
        """The properties of an account can be read by few; the response to a write shows it, too."""
        with translated("/"):
            probe = f"{prefix}{_PROBE}"
            kept = await self._put(probe, b"")
            await self._container.delete(probe)
            if kept:  # and may they be listed?
                await self._list(prefix, 1, None)
        return kept

    async def _put(self, key: str, content: bytes) -> bool:
        """Store a blob; whether the service has made a version of it."""
        headers = {"x-ms-blob-type": "BlockBlob"}
        body = Body([content], len(content))
        response = await self._container.send("PUT", self._container.blob_url(key), None, headers, body)
        return VERSION_ID in response.headers

    async def pages(self, prefix: str) -> AsyncIterator[list[Current]]:
        token = None
        progress = Progress()
        while True:
            with translated(name_of(prefix)):
                found, last, token = await self._list(prefix, _PAGE, token)
            progress.page([last] if last else [], token)  # a page may have only older versions
            yield [now for now in found if now.entry.name.startswith(prefix)]
            if token is None:
                return

    async def _list(self, prefix: str, size: int, marker: str | None) -> tuple[list[Current], str, str | None]:
        """As `read_versions`."""
        query = {"restype": "container", "comp": "list", "include": "versions,metadata"}
        query |= {"maxresults": str(size), "prefix": prefix}
        if marker is not None:
            query["marker"] = marker
        most = page_bytes(size, MAX_ENTRY_BYTES)
        response = await self._container.send("GET", self._container.address, query, at_most=most)
        return await run_parser(read_versions, response.body, size)

    async def find(self, key: str) -> Current | None:
        with translated(name_of(key)):
            headers = await self._container.head(key)
        if headers is None:
            return None
        return Current(entry_of(key, headers), headers.get(VERSION_ID))

    async def write(self, key: str, content: bytes) -> None:
        with translated(name_of(key)):
            kept = await self._put(key, content)
        if not kept:  # since the last look
            self.forget()
            raise ProviderUnavailable("The storage no longer keeps versions. Try again.")

    async def copy(self, key: str, version: str, target: str, *, replace: bool) -> None:
        await copy_blob(self._container, Version(key, None), target, replace=replace, version_id=version)
