"""The provider for an Azure file share, which has folders of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import structlog

from portico.model.entries import Download, Entry, Page
from portico.model.errors import folder_not_empty, not_a_folder, not_found
from portico.model.paths import RESERVED_PREFIX, Path, name_flaw
from portico.providers.azure_common.credentials import credential_and_url
from portico.providers.azure_common.errors import ServiceError, translated
from portico.providers.azure_files import names, trees
from portico.providers.azure_files.downloads import open_file
from portico.providers.azure_files.listing import FolderListing
from portico.providers.azure_files.resumable import AzureFilesUpload, ShareState
from portico.providers.azure_files.service import MAX_PAGE_SIZE, Share
from portico.providers.azure_files.staging import RANGE_BYTES, StagedFile
from portico.providers.azure_files.targets import check_ancestors, check_file_target, make_folders
from portico.providers.contract.provider import TIMEOUT_SECONDS, Begin, Provider, TreeWalk
from portico.providers.contract.uploads import Ends, KeptFile, WriteOptions, over_seen
from portico.providers.folders.walk import FolderWalk, Position
from portico.providers.multipart.memory import MemoryBudget
from portico.providers.multipart.parts import split

log = structlog.get_logger()


_LISTED_AHEAD = 8
"""Folders that a walk lists at the same time."""


class AzureFilesProvider(Provider):
    kind = "azure-files"
    has_folders = True
    max_page_size = MAX_PAGE_SIZE
    max_file_size = 4 * 2**40

    def __init__(
        self, share: str, *, timeout: float = TIMEOUT_SECONDS, memory: MemoryBudget | None = None, **account: str
    ) -> None:
        """`account`: as `credential_and_url` takes it."""
        self._memory = memory or MemoryBudget()
        access = credential_and_url("file", **account)
        self._share = Share(access, share, timeout)
        self.identity = self._share.identity

    async def ignores_case(self) -> bool:
        return True

    def key(self, path: Path) -> tuple[str, ...]:
        return (self.kind, self.identity.rpartition("://")[2], *(name.casefold() for name in path.segments))

    # Reading

    async def list_page(self, folder: Path, size: int, token: str | None, *, file_first: bool = False) -> Page:
        with translated(folder.name, token):
            listing = await self._share.list(folder, size, token) if names.possible(folder) else None
            if listing is None:
                if await self._share.file(folder):
                    raise not_a_folder(folder.name)
                raise not_found(folder.name)
        return self._page(listing)

    def _page(self, listing: FolderListing) -> Page:
        return Page([entry for entry in listing.entries if _shown(entry.name)], listing.token)

    def walk(self, folder: Path, token: str | None = None) -> TreeWalk:
        return FolderWalk(folder, token, self._page_after, ahead=_LISTED_AHEAD)

    async def _page_after(self, folder: Path, position: Position, size: int) -> Page:
        """The service continues only where a page begins, so what is before the position is read once more."""
        page = await self.list_page(folder, size, position.token)
        page.entries.sort(key=_place)
        if position.name:
            page.entries = [entry for entry in page.entries if _place(entry) > position.name.casefold()]
        return page

    async def stat(self, path: Path) -> Entry:
        with translated(path.name):
            found = await self._share.find(path)
        if found is None:
            raise not_found(path.name)
        return found.entry

    async def find_file(self, path: Path) -> Entry | None:
        with translated(path.name):
            found = await self._share.file(path)
        return found.entry if found else None

    async def read(self, path: Path, start: int = 0, stop: int | None = None, *, etag: str | None = None) -> Download:
        return await open_file(self._share, path, start, stop, etag)

    async def read_or_list(self, path: Path, size: int) -> Download | Page:
        # A name without an extension is nearly always that of a folder, and never that of both.
        with translated(path.name):
            listing = await self._share.list(path, size, None) if names.possible(path) else None
        return self._page(listing) if listing else await self.read(path)

    # Writing

    async def write(
        self, path: Path, chunks: AsyncIterator[bytes], content_type: str, options: WriteOptions = WriteOptions()
    ) -> Entry:
        with translated(path.name):
            look = await check_file_target(
                self._share,
                path,
                replace=options.replace,
                ancestors_checked=options.ancestors_checked_at is not None,
                if_match=options.if_match,
            )
        kept = options.kept
        keeping: asyncio.Task[None] | None = None
        staged = StagedFile(self._share, content_type, options.at_most, mark=options.mark)

        async def commit(replace: bool, if_match: str | None) -> Entry:
            return await staged.commit(path, replace=replace, if_match=options.if_match, modified=options.modified)

        try:
            async with split(self._memory, chunks, lambda _: RANGE_BYTES, options.at_most) as parts:
                if kept and parts.first.last:  # all bytes have arrived
                    keeping = asyncio.create_task(kept.prepare(look))
                await staged.begin(parts.first)
                await parts.send(staged.send)
            if keeping:
                await keeping
            prepared = keeping is not None
            return await over_seen(kept, look, path.name, options.replace, options.if_match, commit, prepared=prepared)
        except BaseException:
            if keeping and not keeping.done():
                keeping.cancel()
                await asyncio.wait([keeping])
            await asyncio.shield(staged.discard())
            raise

    async def begin_upload(
        self, path: Path, content_type: str, options: WriteOptions = WriteOptions(), *, renamed: bool = False
    ) -> AzureFilesUpload:
        with translated(path.name):
            if renamed:
                names.check(path)
                await check_ancestors(self._share, path.parent)
            else:
                await check_file_target(self._share, path, replace=options.replace)
        state = ShareState(path.segments, content_type, options.replace, options.at_most, options.modified)
        return AzureFilesUpload(self._share, self._memory, state)

    async def resume_upload(
        self, state: bytes, *, known_offset: int | None = None, trusted: bool = True
    ) -> AzureFilesUpload:
        upload = AzureFilesUpload(self._share, self._memory, msgspec.json.decode(state, type=ShareState))
        await upload.check()
        return upload

    async def has_mark(self, path: Path, mark: str, size: int) -> bool:
        with translated(path.name):
            return await self._share.has_mark(path, mark, size)

    async def check_ancestors(self, folder: Path) -> None:
        names.check(folder)
        with translated(folder.name):
            await check_ancestors(self._share, folder)

    async def make_folder(self, path: Path, *, begin: Begin | None = None) -> None:
        names.check(path)
        with translated(path.name):
            if begin:
                file, folder = await asyncio.gather(self._share.file(path), self._share.folder(path))
                found = file or folder
                await begin(found.entry if found else None)
            await make_folders(self._share, path)

    async def delete(self, path: Path, *, recursive: bool = False) -> None:
        if not names.possible(path):
            raise not_found(path.name)
        with translated(path.name):
            if await self._share.delete_file(path):
                return
            try:
                there = await self._share.delete_folder(path)
            except ServiceError as error:
                if error.code != "DirectoryNotEmpty":
                    raise
                if not recursive:
                    raise folder_not_empty(path.name) from error
                await trees.remove(self._share, path)
                return
            if not there:
                raise not_found(path.name)

    async def copy(
        self,
        source: Path,
        target: Path,
        *,
        replace: bool = True,
        kept: KeptFile | None = None,
        ends: Ends | None = None,
    ) -> None:
        with translated(source.name):
            await trees.copy(self._share, source, target, replace=replace, kept=kept, ends=ends)

    async def move(
        self,
        source: Path,
        target: Path,
        *,
        replace: bool = True,
        kept: KeptFile | None = None,
        ends: Ends | None = None,
    ) -> None:
        with translated(source.name):
            await trees.move(self._share, source, target, replace=replace, kept=kept, ends=ends)

    @asynccontextmanager
    async def transferring(
        self, source: Path, target: Path, *, replace: bool, keeps: bool
    ) -> AsyncIterator[Ends | None]:
        with translated(source.name):
            ends = await trees.look_at_both(self._share, source, target, replace=replace)
        yield ends

    async def copy_to_trash(self, path: Path, place: Path, seen: Entry | None = None) -> None:
        with translated(path.name):
            await trees.copy_to_trash(self._share, path, place, seen)

    async def move_to_trash(self, path: Path, place: Path, seen: Entry | None = None) -> None:
        with translated(path.name):
            await trees.move_to_trash(self._share, path, place)

    async def sweep(self) -> int:
        with translated("staging"):
            return await trees.sweep(self._share)

    async def close(self) -> None:
        await self._share.close()


def _place(entry: Entry) -> str:
    """The share does not distinguish case."""
    return entry.name.casefold()


def _shown(name: str) -> bool:
    if names.shown(name):
        return True
    flaw = name_flaw(name)
    if flaw and not name.startswith(RESERVED_PREFIX):
        log.warning("left-out-of-listing", name=ascii(name), why=f"the name {flaw}")
    return False
