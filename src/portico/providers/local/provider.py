"""The provider for a plain folder. Blocking work runs in threads, with one hand-over per request where possible."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from portico.model.entries import Download, Entry, Page
from portico.model.errors import NotAFolder, NotFound, service_unavailable
from portico.model.paths import Path
from portico.providers.contract.provider import Begin, Provider, TreeWalk
from portico.providers.contract.uploads import Ends, KeptFile, WriteOptions
from portico.providers.folders import volume_id
from portico.providers.folders.volume_id import access_problem
from portico.providers.folders.walk import FolderWalk
from portico.providers.local import staging, trees
from portico.providers.local.confined_fs import (
    Volume,
    entry_of,
    found,
    has_mark,
    is_folder,
    opened_deepest,
    opened_folder,
    unusable,
)
from portico.providers.local.downloads import SMALL, open_download, read_small
from portico.providers.local.listing import FolderListing
from portico.providers.local.resumable import LocalState, LocalUpload
from portico.providers.local.threads import Threads
from portico.providers.local.uploads import CopyNeeded, StagedFile, WriteBuffers, upload

_SMALL_FILE = 64 * 2**20
"""Bytes. Copying a file up to this size does not wait for copies of whole trees."""
_ATTEMPTS = 4
"""How often a file is copied to the trash that keeps being replaced."""

T = TypeVar("T")


class LocalProvider(Provider):
    kind = "local"
    has_folders = True
    renames_at_commit = True
    keeps_at_commit = True
    reports_arrival = True
    small_file = SMALL
    max_page_size = 5000
    max_file_size = 2**63 - 1

    def __init__(self, folder: str) -> None:
        self._top = Volume(os.path.abspath(os.path.expanduser(folder)))
        self.identity = self._top.path
        self._threads = Threads()
        self._listing = FolderListing(self._threads, self._top, self.max_page_size)
        self._buffers = WriteBuffers()

    async def ignores_case(self) -> bool:
        return await self._threads.run(self._threads.metadata, Path(), self._top.ignores_case)

    def key(self, path: Path) -> tuple[str, ...]:
        # The folders of two connections may lie within each other.
        return (self.kind, *os.path.realpath(self._top.path).split(os.sep), *path.segments)

    async def list_page(self, folder: Path, size: int, token: str | None, *, file_first: bool = False) -> Page:
        return await self._listing.page(folder, size, token)

    def walk(self, folder: Path, token: str | None = None) -> TreeWalk:
        return FolderWalk(folder, token, self._listing.page_after)

    async def stat(self, path: Path) -> Entry:
        return await self._threads.run(self._threads.metadata, path, self._stat, path)

    def _stat(self, path: Path) -> Entry:
        if path.is_root:
            with opened_folder(self._top, path) as descriptor:
                return entry_of(path.name, os.fstat(descriptor))
        with found(self._top, path) as (_, info):
            return entry_of(path.name, info, with_etag=True)

    async def read(self, path: Path, start: int = 0, stop: int | None = None, *, etag: str | None = None) -> Download:
        return await open_download(self._threads, self._top, path, start, stop, etag)

    async def read_small(
        self, paths: Sequence[Path], checksum: Callable[[bytes], int]
    ) -> list[tuple[bytes, int] | None]:
        return await self._threads.run(self._threads.reads, Path(), read_small, self._top, paths, checksum)

    async def write(
        self, path: Path, chunks: AsyncIterator[bytes], content_type: str, options: WriteOptions = WriteOptions()
    ) -> Entry:
        staged = StagedFile(
            self._top,
            path,
            replace=options.replace,
            alternatives=options.alternatives,
            if_match=options.if_match,
            modified=options.modified,
            mark=options.mark,
            kept=options.kept,
        )
        return await upload(self._threads, self._buffers, path, chunks, staged)

    async def begin_upload(
        self, path: Path, content_type: str, options: WriteOptions = WriteOptions(), *, renamed: bool = False
    ) -> LocalUpload:
        state = LocalState(staging.resumable_name(), path.segments, options.replace, options.modified)
        resumable = LocalUpload(self._threads, self._buffers, self._top, state)
        await resumable.check_target(renamed=renamed)
        return resumable

    async def resume_upload(
        self, state: bytes, *, known_offset: int | None = None, trusted: bool = True
    ) -> LocalUpload:
        saved = msgspec.json.decode(state, type=LocalState)
        resumable = LocalUpload(self._threads, self._buffers, self._top, saved, known_offset or 0)
        if known_offset is None:
            resumable.offset = await resumable.size()
        elif not trusted:  # another program may have appended to the file
            resumable.offset = min(known_offset, await resumable.size())
        return resumable

    async def has_mark(self, path: Path, mark: str, size: int) -> bool:
        return await self._threads.run(self._threads.metadata, path, self._has_mark, path, mark, size)

    def _has_mark(self, path: Path, mark: str, size: int) -> bool:
        with suppress(NotFound, FileNotFoundError), found(self._top, path) as (_, info):
            return not is_folder(info) and info.st_size == size and has_mark(info, mark)
        return False

    async def check_ancestors(self, folder: Path) -> None:
        await self._threads.run(self._threads.metadata, folder, self._check_ancestors, folder)

    def _check_ancestors(self, folder: Path) -> None:
        with opened_deepest(self._top, folder):
            return

    async def make_folder(self, path: Path, *, begin: Begin | None = None) -> int | None:
        missing = None
        if begin:
            there, missing = await self._threads.run(self._threads.metadata, path, self._look, path)
            await begin(there)
        await self._threads.run_change(path, self._make_folder, path)
        return missing

    def _look(self, path: Path) -> tuple[Entry | None, int]:
        """What is at a path, and how many folders above it are missing."""
        with suppress(NotADirectoryError), opened_deepest(self._top, path) as (folder, depth):
            missing = len(path.segments) - depth
            if not missing:
                return entry_of(path.name, os.fstat(folder)), 0
            return None, missing - 1
        with suppress(NotFound, NotAFolder):
            return self._stat(path), 0
        return None, 0

    def _make_folder(self, path: Path) -> None:
        with opened_folder(self._top, path, make=True):
            return

    async def delete(self, path: Path, *, recursive: bool = False) -> None:
        staged, cancelled = await self._threads.run_change(path, trees.delete, self._top, path, recursive)
        if staged and not cancelled:  # after a cancellation, the next sweep removes it
            await self._threads.run_long(self._threads.removals, path, staging.remove_staged, self._top, staged)

    async def copy(
        self,
        source: Path,
        target: Path,
        *,
        replace: bool = True,
        kept: KeptFile | None = None,
        ends: Ends | None = None,
    ) -> Entry | None:
        threads = self._threads

        async def copy() -> Entry | None:
            arguments = source, trees.copy, self._top, source, target, replace, kept
            with suppress(trees.TakesLong):
                return await threads.run_long(threads.writes, *arguments, _SMALL_FILE)
            return await threads.run_long(threads.trees, *arguments)

        return await self._keeping(target, kept, copy)

    async def move(
        self,
        source: Path,
        target: Path,
        *,
        replace: bool = True,
        kept: KeptFile | None = None,
        ends: Ends | None = None,
    ) -> Entry | None:
        async def rename() -> tuple[Entry | None, bool]:
            return await self._threads.run_change(source, trees.rename, self._top, source, target, replace, kept)

        arrived, cancelled = await self._keeping(target, kept, rename)
        if arrived is None:
            if cancelled:
                raise asyncio.CancelledError
            await self._threads.run_long(self._threads.trees, source, trees.merge, self._top, source, target)
        return arrived

    async def _keeping(self, target: Path, kept: KeptFile | None, change: Callable[[], Awaitable[T]]) -> T:
        """The result of a change, before which the file that it replaces is copied if it cannot be linked."""
        for _ in range(_ATTEMPTS):
            try:
                return await change()
            except CopyNeeded:
                assert kept
                assert kept.place
            with suppress(NotFound):  # then nothing is replaced
                etag = (await self.stat(target)).etag
                await self.copy(target, kept.place)
                kept.copied = etag  # if it is another version by now, the change notices
        raise service_unavailable(f"{target} was replaced again and again", 1)

    async def move_to_trash(self, path: Path, place: Path, seen: Entry | None = None) -> None:
        await self._threads.run_change(path, trees.move_to_trash, self._top, path, place)

    async def copy_to_trash(self, path: Path, place: Path, seen: Entry | None = None) -> None:
        linked, cancelled = await self._threads.run_change(path, trees.link, self._top, path, place)
        if not linked:
            if cancelled:
                raise asyncio.CancelledError
            await self.copy(path, place)

    async def check(self, *, writable: bool) -> None:
        await self._threads.run(self._threads.metadata, Path(), self._check, writable)

    def _check(self, writable: bool) -> None:
        if problem := access_problem(self._top.path, writable=writable):
            raise unusable(self._top.path, problem)
        os.close(self._top.open())

    async def space(self) -> tuple[int, int]:
        usage = await self._threads.run(self._threads.metadata, Path(), shutil.disk_usage, self._top.path)
        return usage.total, usage.free

    async def volume_id(self) -> str | None:
        return await self._threads.run(self._threads.metadata, Path(), self._volume_id)

    def _volume_id(self) -> str | None:
        try:
            return volume_id.read_or_make(self._top.path)
        except volume_id.Damaged as error:
            raise unusable(self._top.path, str(error)) from error

    def expect_volume(self, expected_id: str | None) -> None:
        self._top.expect(expected_id)

    async def sweep(self) -> int:
        return await self._threads.run_long(self._threads.removals, Path(), staging.sweep, self._top)

    async def close(self) -> None:
        await self._threads.close()
