"""The provider for a container of Azure Blob Storage."""

import asyncio
import re
from contextlib import suppress

from portico.model.entries import Download, Entry
from portico.model.errors import Changed, FolderNotEmpty, cannot_replace_folder, changed
from portico.model.paths import Path
from portico.providers.azure_blob import listing as page_tokens
from portico.providers.azure_blob.copies import copy_blob
from portico.providers.azure_blob.downloads import open_blob
from portico.providers.azure_blob.service import MAX_PAGE_SIZE, Container
from portico.providers.azure_blob.uploads import MAX_BLOCKS, BlobUpload
from portico.providers.azure_blob.versions import BlobVersions
from portico.providers.azure_common.credentials import credential_and_url, invalid_option
from portico.providers.azure_common.errors import translated
from portico.providers.contract.provider import TIMEOUT_SECONDS
from portico.providers.multipart.memory import MemoryBudget
from portico.providers.multipart.parts import max_file_bytes
from portico.providers.objects.part_store import UploadState
from portico.providers.objects.service import KeyPage, Version, key_of, name_of
from portico.providers.objects.versions import VersionedStore
from portico.runtime.tasks import for_each

_CONTAINER = re.compile(r"\$web|(?=.{3,63}$)[a-z0-9](?:-?[a-z0-9])*")
_MAX_KEY = 1024
_MAX_SEGMENTS = 254
_ATTEMPTS = 4
"""How often the removal of a marker that keeps being replaced is tried."""


class AzureBlobProvider(VersionedStore):
    kind = "azure-blob"
    max_page_size = MAX_PAGE_SIZE
    max_file_size = max_file_bytes(MAX_BLOCKS)
    removal_passes = 4
    looks_to_replace = True

    def __init__(
        self, container: str, *, timeout: float = TIMEOUT_SECONDS, memory: MemoryBudget | None = None, **account: str
    ) -> None:
        """`account`: as `credential_and_url` takes it."""
        super().__init__(memory)
        access = credential_and_url("blob", **account)
        if not _CONTAINER.fullmatch(container):
            raise invalid_option("the option container is not a valid name: 3 to 63 of a-z, 0-9 and single dashes")
        self.identity = f"{access.url.partition('://')[2]}/{container}"
        self._service = Container(access, container, timeout)
        self.versions = BlobVersions(self, self._service)

    async def close(self) -> None:
        await self._service.close()

    # Reading

    async def list_keys(self, prefix: str, size: int, token: str | None, *, flat: bool = False) -> KeyPage:
        with translated(name_of(prefix) or "/", token):
            listing, marked, last = await self._service.list(prefix, size, token, flat=flat)
        if not flat:
            await self._add_marked(listing, marked)
            _drop_repeated(listing, last)
        return listing

    async def _add_marked(self, listing: KeyPage, marked: list[str]) -> None:
        """Show each marked folder once: one with content is also a prefix of this page or a later one."""
        end = max([*(entry.name for entry in listing.objects), *listing.prefixes], default="") if marked else ""
        for folder in marked:
            comes_later = listing.token is not None and folder > end and await self.holds_keys(folder)
            if folder not in listing.prefixes and not comes_later:
                listing.prefixes.append(folder)

    async def peek(self, prefix: str, size: int) -> KeyPage:
        return await self.list_keys(prefix, size, None, flat=True)  # a flat listing also shows empty folders

    async def find(self, key: str) -> Entry | None:
        with translated(name_of(key)):
            return await self._service.find(key)

    async def open(self, key: str, start: int, stop: int | None, etag: str | None) -> Download:
        return await open_blob(self._service, key, start, stop, etag)

    # Writing

    def part_store(self, state: UploadState) -> BlobUpload:
        return BlobUpload(self._service, state)

    async def duplicate(
        self, source: Version, target: str, *, replace: bool, if_match: str | None = None, looked: bool = False
    ) -> None:
        if source.key.endswith("/"):
            await self.mark(target)
            return
        await copy_blob(self._service, source, target, replace=replace, if_match=if_match)

    # Removal

    async def remove(self, keys: list[str]) -> None:
        await for_each(self._delete, [key for key in keys if not key.endswith("/")])
        await self._remove_folders([key for key in keys if key.endswith("/")])

    async def remove_versions(self, versions: list[Version]) -> list[Version]:
        newer = await super().remove_versions([one for one in versions if not one.key.endswith("/")])
        await self._remove_folders([one.key for one in versions if one.key.endswith("/")])
        return newer

    async def remove_version(self, version: Version) -> None:
        await self._delete(version.key, version.etag)

    async def _remove_folders(self, folders: list[str]) -> None:
        # With a hierarchical namespace, a folder can only be removed after the folders in it.
        for depth in sorted({folder.count("/") for folder in folders}, reverse=True):
            await for_each(self._remove_folder, [folder for folder in folders if folder.count("/") == depth])

    async def _remove_folder(self, folder: str) -> None:
        """Remove a folder's marker, `name/` or `name`, unless the folder still holds something."""
        with suppress(FolderNotEmpty):  # it has new content
            if await self._delete(folder):
                return
            for _ in range(_ATTEMPTS):
                entry = await self.find(folder[:-1])
                if not (entry and entry.is_folder):
                    return
                with suppress(Changed):
                    await self._delete(folder[:-1], entry.etag)
                    return
            raise changed(name_of(folder))

    async def _delete(self, key: str, etag: str | None = None) -> bool:
        with translated(name_of(key)):
            return await self._service.delete(key, etag)

    # Names

    async def _check_no_folder(self, path: Path) -> None:
        _, marked = await asyncio.gather(super()._check_no_folder(path), self.find(key_of(path)))
        if marked and marked.is_folder:
            raise cannot_replace_folder(path.name)

    def fits(self, key: str) -> bool:
        return len(key.encode("utf-16-le")) // 2 <= _MAX_KEY and key.count("/") < _MAX_SEGMENTS

    @property
    def key_limit(self) -> str:
        return (
            f"Paths in this storage can have at most {_MAX_KEY} characters and {_MAX_SEGMENTS} "
            "levels, and folder paths one fewer of each. Choose a shorter path."
        )


def _drop_repeated(listing: KeyPage, last: str) -> None:
    """Drop the folder that ended the previous page: the service may repeat it at the start of the next one."""
    if last:
        listing.prefixes = [folder for folder in listing.prefixes if page_tokens.hash_of(folder) != last]
    if listing.token is not None:
        ending = page_tokens.hash_of(max(listing.prefixes)) if listing.prefixes else last
        listing.token = page_tokens.join(listing.token, ending)
