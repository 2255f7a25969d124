"""The provider for a plain folder. Blocking work runs in threads; one request is one hop wherever it can be."""

import asyncio
import os
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import ParamSpec, TypeVar

from portico.entries import Download, Entry, Page
from portico.errors import Changed, InvalidCursor, NotAFolder, ProviderFailed, RangeNotSatisfiable
from portico.paths import Path
from portico.providers.base import Provider
from portico.providers.local import staging, trees
from portico.providers.local.descriptors import (
    OpenFile,
    entry_of,
    etag_of,
    found,
    is_folder,
    look,
    opened_folder,
    opened_parent,
    translated,
    visible,
)
from portico.providers.local.snapshots import Snapshot, Snapshots

P = ParamSpec("P")
T = TypeVar("T")

_BATCH = 2**20
"""Bytes gathered before a thread writes them, and read by a thread at a time."""


class LocalProvider(Provider):
    kind = "local"
    max_page_size = 5000
    max_file_size = 2**63 - 1

    def __init__(self, folder: str) -> None:
        self._top = os.path.abspath(os.path.expanduser(folder))
        self.identity = self._top
        self._snapshots = Snapshots()
        self._files = ThreadPoolExecutor(16, "local-files")
        # Reading a huge folder takes a second; it must not take the places of those who wait for a small one.
        self._scans = ThreadPoolExecutor(2, "local-scans")
        # Nor must whole trees that are copied, moved or removed, which may take minutes.
        self._trees = ThreadPoolExecutor(4, "local-trees")

    # Listing

    async def list_page(self, folder: Path, size: int, token: str | None) -> Page:
        position = _read_token(token)
        asked_ns = time.monotonic_ns()
        page = await self._hop(self._files, folder, self._page, folder, size, position, asked_ns, False)
        if page is None:
            page = await self._hop(self._scans, folder, self._page, folder, size, position, asked_ns, True)
        assert page is not None
        return page

    def _page(
        self, folder: Path, size: int, position: tuple[bool, str] | None, asked_ns: int, scan: bool
    ) -> Page | None:
        """The page, or None if that takes a scan of the folder and `scan` is false."""
        try:
            with opened_folder(self._top, folder) as descriptor:
                snapshot = self._snapshots.get(descriptor, asked_ns)
                if snapshot is None and scan:
                    snapshot = self._snapshots.take(descriptor)
                return _cut(snapshot, descriptor, size, position) if snapshot else None
        except NotADirectoryError:
            with found(self._top, folder):
                raise NotAFolder(f"'{folder.name}' is a file, not a folder.") from None

    # Files

    async def stat(self, path: Path) -> Entry:
        return await self._hop(self._files, path, self._stat, path)

    def _stat(self, path: Path) -> Entry:
        if path.is_root:
            with opened_folder(self._top, path) as descriptor:
                return entry_of(path.name, os.fstat(descriptor))
        with found(self._top, path) as (_, info):
            return entry_of(path.name, info, with_etag=True)

    async def read(
        self, path: Path, start: int = 0, stop: int | None = None, *, etag: str | None = None
    ) -> Download:
        return await self._hop(self._files, path, self._read, path, start, stop, etag)

    def _read(self, path: Path, start: int, stop: int | None, etag: str | None) -> Download:
        with opened_parent(self._top, path) as folder:
            file = OpenFile(folder, path)
        size = file.info.st_size
        if etag is not None and etag != etag_of(file.info):
            raise Changed(f"'{path.name}' has changed meanwhile; start the download again.")
        if start > size:
            raise RangeNotSatisfiable(f"'{path.name}' has only {size} bytes.", size=size)
        end = size if stop is None else min(stop, size)
        entry = entry_of(path.name, file.info, with_etag=True)
        return Download(entry, start, end, self._chunks(path, file, start, end))

    async def _chunks(self, path: Path, file: OpenFile, start: int, stop: int) -> AsyncGenerator[bytes]:
        while start < stop:
            chunk = await self._hop(self._files, path, file.read, min(_BATCH, stop - start), start)
            if not chunk:
                raise ProviderFailed(f"'{path.name}' became shorter while it was read.")
            start += len(chunk)
            yield chunk

    async def write(
        self,
        path: Path,
        chunks: AsyncIterator[bytes],
        content_type: str,
        *,
        replace: bool = True,
        at_most: int | None = None,
        otherwise: Iterator[Path] | None = None,
    ) -> Entry:
        staged = staging.StagedFile(self._top, path, replace=replace, otherwise=otherwise)
        running: asyncio.Future[None] | asyncio.Future[Entry] | None = None
        batch: list[bytes] = []
        held = 0
        try:
            async for chunk in chunks:
                batch.append(chunk)
                held += len(chunk)
                if held >= _BATCH:
                    if running:
                        await asyncio.shield(running)
                    # The disk takes this batch while the next one arrives.
                    running = asyncio.ensure_future(self._hop(self._files, path, staged.append, batch))
                    batch, held = [], 0
            if running:
                await asyncio.shield(running)
            running = finishing = asyncio.ensure_future(self._hop(self._files, path, _finish, staged, batch))
            return await asyncio.shield(finishing)
        except BaseException:
            await asyncio.shield(self._discard(path, staged, running))
            raise

    async def _discard(
        self,
        path: Path,
        staged: staging.StagedFile,
        running: asyncio.Future[None] | asyncio.Future[Entry] | None,
    ) -> None:
        if running:  # a thread is not stopped by a cancelled task: wait until it lets go of the file
            await asyncio.wait([running])
            running.exception()
        await self._hop(self._files, path, staged.discard)

    # Folders and trees

    async def make_folder(self, path: Path) -> None:
        await self._hop(self._files, path, self._make_folder, path)

    def _make_folder(self, path: Path) -> None:
        with opened_folder(self._top, path, make=True):
            return

    async def delete(self, path: Path, *, recursive: bool = False) -> None:
        pool = self._trees if recursive else self._files
        await self._hop(pool, path, self._delete, path, recursive)

    def _delete(self, path: Path, recursive: bool) -> None:
        with found(self._top, path) as (folder, info):
            if not is_folder(info):
                os.unlink(path.name, dir_fd=folder)
            elif recursive:
                staging.remove_tree(self._top, folder, path.name)
            else:
                os.rmdir(path.name, dir_fd=folder)
            os.fsync(folder)

    async def copy(self, source: Path, target: Path, *, replace: bool = True) -> None:
        await self._hop(self._trees, source, trees.copy, self._top, source, target, replace)

    async def move(self, source: Path, target: Path, *, replace: bool = True) -> None:
        await self._hop(self._trees, source, trees.move, self._top, source, target, replace)

    # Housekeeping

    async def sweep(self) -> int:
        return await self._hop(self._scans, Path(), staging.sweep, self._top)

    async def close(self) -> None:
        self._files.shutdown(wait=True)
        self._scans.shutdown(wait=True)
        self._trees.shutdown(wait=True)

    async def _hop(
        self, pool: ThreadPoolExecutor, path: Path, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run blocking work about `path` in a thread."""
        with translated(path):
            return await asyncio.get_running_loop().run_in_executor(pool, work, *args)


def _finish(staged: staging.StagedFile, batch: list[bytes]) -> Entry:
    staged.append(batch)
    return staged.commit()


def _cut(snapshot: Snapshot, descriptor: int, size: int, position: tuple[bool, str] | None) -> Page:
    """The `size` entries behind `position` that are still there."""
    in_files, name = position or (False, None)
    folders = () if in_files else ((False, other) for other in snapshot.folders.after(name))
    files = ((True, other) for other in snapshot.files.after(name if in_files else None))
    names = chain(folders, files)
    entries: list[Entry] = []
    last = (False, "")
    while len(entries) < size and (batch := list(islice(names, size - len(entries)))):
        for last in batch:
            info = look(descriptor, last[1])
            if info is not None and visible(info) and is_folder(info) != last[0]:
                entries.append(entry_of(last[1], info))
    more = next(names, None) is not None
    return Page(entries, _make_token(last) if more else None)


def _make_token(position: tuple[bool, str]) -> str:
    in_files, name = position
    return urlsafe_b64encode((b"f" if in_files else b"d") + name.encode()).rstrip(b"=").decode()


def _read_token(token: str | None) -> tuple[bool, str] | None:
    if token is None:
        return None
    try:
        text = urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    except ValueError:
        text = ""
    if text[:1] not in ("d", "f"):
        raise InvalidCursor("The cursor is not one of this folder's; start again without a cursor.")
    return text[0] == "f", text[1:]
