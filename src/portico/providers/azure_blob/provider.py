"""The provider for a container of Azure Blob Storage."""

import asyncio
import re
from collections.abc import AsyncIterator

from azure.storage.blob.aio import BlobServiceClient

from portico.entries import Download, Entry
from portico.errors import (
    Changed,
    FolderNotEmpty,
    IsAFolder,
    NotFound,
    ProviderFailed,
    ProviderRefused,
    RangeNotSatisfiable,
    already_exists,
)
from portico.paths import Path
from portico.providers.answers import nonsense, size_of
from portico.providers.azure_blob import tokens
from portico.providers.azure_blob.blobs import entry_of, read_page
from portico.providers.azure_blob.copies import copy_blob
from portico.providers.azure_blob.downloads import BlobChunks
from portico.providers.azure_blob.uploads import EXISTS, MOST_BLOCKS, Upload
from portico.providers.azure_common import Fault, Service, Stream, credential_and_url, translated
from portico.providers.base import TIMEOUT_SECONDS
from portico.providers.keys import Listing, Version, key_of
from portico.providers.objects import ObjectStore
from portico.providers.parts import most_bytes
from portico.providers.tasks import each
from portico.providers.transport import TooLargeAnswer, page_bytes
from portico.providers.xml_pages import in_turn

_VERSION = "2021-12-02"
"""The service's version that our requests are worded for."""
_CONTAINER = re.compile(r"\$web|(?=.{3,63}$)[a-z0-9](?:-?[a-z0-9])*")
_LONGEST_KEY = 1024
_MOST_SEGMENTS = 254
_LONGEST_ENTRY = 12 * 1024
"""Bytes of a listing: a name, its properties, and metadata of up to 8 KiB."""
_ALWAYS_FIT = 1000
"""Entries of which a page is never too large, however much metadata they have."""
_MISSING = ("", "BlobNotFound", "ResourceNotFound")


class AzureBlobProvider(ObjectStore):
    kind = "azure-blob"
    max_page_size = 5000
    max_file_size = most_bytes(MOST_BLOCKS)
    removal_passes = 4

    def __init__(
        self,
        container: str,
        account_url: str | None = None,
        connection_string: str | None = None,
        account_key: str | None = None,
        sas_token: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        super().__init__()
        access = credential_and_url(
            "blob",
            account_url=account_url,
            connection_string=connection_string,
            account_key=account_key,
            sas_token=sas_token,
        )
        if not _CONTAINER.fullmatch(container):
            raise ProviderRefused(
                "The storage of this account is not set up correctly; tell the administrator.",
                cause="no container can be called so: 3 to 63 of a-z, 0-9 and single dashes",
            )
        self.identity = f"{access.url.partition('://')[2]}/{container}"
        self._container = container
        self._service = Service(access, BlobServiceClient, _VERSION, timeout=timeout)

    async def close(self) -> None:
        await self._service.close()

    # Looking

    async def list_keys(self, prefix: str, size: int, token: str | None, *, flat: bool = False) -> Listing:
        # The metadata tells which zero-byte blobs are folders; asking for it costs a listing a few per cent.
        query = {"restype": "container", "comp": "list", "include": "metadata"}
        query["maxresults"] = str(min(size, self.max_page_size))
        if prefix:
            query["prefix"] = prefix
        if not flat:
            query["delimiter"] = "/"
        marker, last = tokens.split(token) if token is not None and not flat else (token, "")
        if marker is not None:
            query["marker"] = marker
        with translated(prefix.rstrip("/").rpartition("/")[2] or "/", token):
            try:
                answer = await self._service.send(
                    "GET",
                    self._service.url(self._container),
                    query,
                    at_most=page_bytes(size, _LONGEST_ENTRY),
                )
            except TooLargeAnswer:
                if size <= _ALWAYS_FIT:
                    raise
                return await self.list_keys(prefix, _ALWAYS_FIT, token, flat=flat)
        listing, marked = await in_turn(read_page, answer.body, size, flat)
        if marker is not None and listing.token == marker:
            raise nonsense("the marker that it was asked with as the next one: the listing would never end")
        if not flat:
            await self._add_marked(listing, marked)
            _drop_repeated(listing, last)
        return listing

    async def _add_marked(self, listing: Listing, marked: list[str]) -> None:
        """Show each folder that a blob marks once: its content, if it has any, is a prefix of this page or a later one."""
        end = (
            max([*(entry.name for entry in listing.objects), *listing.prefixes], default="") if marked else ""
        )
        for folder in marked:
            comes_later = listing.token is not None and folder > end and await self.holds_keys(folder)
            if folder not in listing.prefixes and not comes_later:
                listing.prefixes.append(folder)

    async def peek(self, prefix: str, size: int) -> Listing:
        return await self.list_keys(prefix, size, None, flat=True)  # which shows all that is kept here

    async def find(self, key: str) -> Entry | None:
        with translated(_name(key)):
            try:
                answer = await self._service.send("HEAD", self._url(key))
            except Fault as fault:
                if fault.status == 404 and fault.code in _MISSING:
                    return None
                raise
        return entry_of(key, answer.headers)

    # Content

    async def open(self, key: str, start: int, stop: int | None, etag: str | None) -> Download:
        name = _name(key)
        if start == stop:
            return await self._open_nothing(key, start, etag)
        with translated(name):
            try:
                stream = await self._stream(key, start, stop, etag)
            except Fault as fault:
                if fault.status == 416:
                    return await self._open_nothing(key, start, etag)
                raise
        size = _whole_size(stream)
        try:
            entry = entry_of(key, stream.headers, size)
        except ProviderFailed:
            stream.close()
            raise
        if entry.is_folder:
            stream.close()
            raise IsAFolder(f"'{name}' is a folder.")
        end = size if stop is None else min(stop, size)

        async def reopen(at: int) -> Stream:
            return await self._stream(key, at, end, entry.etag)

        return Download(entry, start, end, BlobChunks(name, stream, start, end, reopen))

    async def _stream(self, key: str, start: int, stop: int | None, etag: str | None) -> Stream:
        headers = {}
        if start or stop is not None:
            headers["x-ms-range"] = f"bytes={start}-{'' if stop is None else stop - 1}"
        if etag is not None:
            headers["If-Match"] = f'"{etag}"'
        return await self._service.stream(self._url(key), None, headers)

    async def _open_nothing(self, key: str, start: int, etag: str | None) -> Download:
        """An empty range, which the service cannot be asked for, or one that begins behind the end."""
        entry = await self.find(key)
        if entry is None:
            raise NotFound(f"There is no '{_name(key)}'.")
        if entry.is_folder:
            raise IsAFolder(f"'{_name(key)}' is a folder.")
        if etag is not None and etag != entry.etag:
            raise Changed(f"'{_name(key)}' has changed meanwhile; start the download again.")
        if start > (entry.size or 0):
            raise RangeNotSatisfiable(f"'{_name(key)}' has only {entry.size} bytes.", size=entry.size or 0)

        async def reopen(at: int) -> Stream:
            return await self._stream(key, at, None, entry.etag)

        return Download(entry, start, start, BlobChunks(_name(key), None, start, start, reopen))

    async def store(
        self, key: str, chunks: AsyncIterator[bytes], content_type: str, *, replace: bool, at_most: int | None
    ) -> Entry:
        upload = Upload(self._service, self._url(key), key, content_type, replace=replace)
        return await upload.store(chunks, at_most)

    async def duplicate(self, source: Version, target: str, *, replace: bool) -> None:
        if source.key.endswith("/"):
            await self.mark(target)
            return
        with translated(_name(source.key)):
            try:
                await copy_blob(
                    self._service,
                    self._url(source.key),
                    self._url(target),
                    etag=source.etag,
                    replace=replace,
                )
            except Fault as fault:
                if not replace and fault.code in EXISTS:
                    raise already_exists(_name(target)) from fault
                raise

    # Removal

    async def remove(self, keys: list[str]) -> None:
        await self.remove_versions([Version(key, None) for key in keys])

    async def remove_versions(self, versions: list[Version]) -> None:
        await each(self._remove_blob, [version for version in versions if not version.key.endswith("/")])
        folders = [version.key for version in versions if version.key.endswith("/")]
        # With a hierarchical namespace a folder goes only after those inside it.
        for depth in sorted({folder.count("/") for folder in folders}, reverse=True):
            await each(self._remove_folder, [folder for folder in folders if folder.count("/") == depth])

    async def _remove_folder(self, folder: str) -> None:
        """Remove a folder's marker, `name/` or `name`; a folder that still holds something is left."""
        try:
            if not await self._remove_if_there(folder):
                entry = await self.find(folder[:-1])
                if entry and entry.is_folder:
                    await self._remove_if_there(folder[:-1], entry.etag)
        except (FolderNotEmpty, Changed):
            pass

    async def _remove_blob(self, version: Version) -> None:
        try:
            await self._remove_if_there(version.key, version.etag)
        except Changed:
            pass  # a newer one, which stays

    async def _remove_if_there(self, key: str, etag: str | None = None) -> bool:
        headers = {"x-ms-delete-snapshots": "include"}
        if etag is not None:
            headers["If-Match"] = f'"{etag}"'
        with translated(_name(key)):
            try:
                await self._service.send("DELETE", self._url(key), None, headers)
            except Fault as fault:
                if fault.status == 404 and fault.code in _MISSING:
                    return fault.repeated
                raise
        return True

    # Names

    async def _check_no_folder(self, path: Path) -> None:
        _, marked = await asyncio.gather(super()._check_no_folder(path), self.find(key_of(path)))
        if marked and marked.is_folder:
            raise IsAFolder(f"'{path.name}' is a folder; a file cannot take its place.")

    def fits(self, key: str) -> bool:
        return len(key.encode("utf-16-le")) // 2 <= _LONGEST_KEY and key.count("/") < _MOST_SEGMENTS

    @property
    def key_limit(self) -> str:
        return (
            f"A whole path may have {_LONGEST_KEY} characters and {_MOST_SEGMENTS} levels in this storage, "
            "that of a folder one less of both."
        )

    def _url(self, key: str) -> str:
        return self._service.url(self._container, key)


def _drop_repeated(listing: Listing, last: str) -> None:
    """Drop the folder that ended the page before: the service may begin the next page with it once more."""
    if last:
        listing.prefixes = [folder for folder in listing.prefixes if tokens.hash_of(folder) != last]
    if listing.token is not None:
        ending = tokens.hash_of(max(listing.prefixes)) if listing.prefixes else last
        listing.token = tokens.join(listing.token, ending)


def _name(key: str) -> str:
    return key.rstrip("/").rpartition("/")[2]


def _whole_size(stream: Stream) -> int:
    """The size of the blob, whichever range of it was asked for."""
    text = stream.headers.get("Content-Range", "").rpartition("/")[2] or stream.headers.get(
        "Content-Length", ""
    )
    try:
        return size_of(text)
    except ProviderFailed:
        stream.close()
        raise
