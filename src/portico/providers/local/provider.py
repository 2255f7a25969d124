"""The provider for a plain folder. Blocking work runs in threads; one request is one hop wherever it can be."""

import asyncio
import os
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import structlog

from portico.entries import Download, Entry, Page
from portico.errors import (
    Changed,
    InvalidCursor,
    NotAFolder,
    PorticoError,
    ProviderFailed,
    ProviderUnavailable,
    RangeNotSatisfiable,
    Unavailable,
)
from portico.paths import Path
from portico.providers import folder
from portico.providers.base import Provider
from portico.providers.local import staging, trees
from portico.providers.local.descriptors import (
    OpenFile,
    entries_of,
    entry_of,
    etag_of,
    found,
    is_folder,
    opened_folder,
    opened_parent,
    opened_way,
    translated,
)
from portico.providers.local.gathering import GATHERING
from portico.providers.local.recent import RecentPages
from portico.providers.local.snapshots import Snapshot, Snapshots
from portico.providers.local.stops import Stop, Stopped
from portico.providers.local.threads import Threads
from portico.providers.local.turns import Turns

T = TypeVar("T")

log = structlog.get_logger()

_SMALL_FILE = 64 * 2**20
"""Bytes. A copy of up to that many does not wait behind the copies of whole trees."""
_READ = 2**20
"""Bytes that a thread reads at a time."""
_MOST_CHUNKS = 4096
"""That are gathered: each costs some memory of its own, however small it is."""


class LocalProvider(Provider):
    kind = "local"
    max_page_size = 5000
    max_file_size = 2**63 - 1

    def __init__(self, folder: str) -> None:
        self._top = os.path.abspath(os.path.expanduser(folder))
        self.identity = self._top
        self._snapshots = Snapshots(self.max_page_size)
        self._recent = RecentPages()
        self._pages = Turns()
        self._arranging: set[asyncio.Task[None]] = set()
        # Each kind of work has threads of its own, so that the quick ones never queue behind the slow ones: hundreds of
        # uploads wait for the disk, and a page of a small folder must not wait with them.
        self._looks = Threads(8, "local-looks")
        self._reads = Threads(8, "local-reads")
        self._writes = Threads(16, "local-writes")
        # Reading a huge folder takes a second.
        self._scans = Threads(2, "local-scans")
        # A folder is made, a file renamed or removed in no time, as long as nothing else is in the way.
        self._changes = Threads(4, "local-changes")
        # To copy, merge or remove a whole tree may take minutes; removing frees space, and must not wait for copies.
        self._trees = Threads(4, "local-trees")
        self._removals = Threads(4, "local-removals")
        self._stops: set[Stop] = set()

    # Listing

    async def list_page(
        self, folder: Path, size: int, token: str | None, *, file_first: bool = False
    ) -> Page:
        position = _read_token(token)
        asked_ns = time.monotonic_ns()
        async with self._pages.turn():
            known = await self._hop(self._looks, folder, self._known_page, folder, size, position, asked_ns)
        if known is not None:
            return known
        page, snapshot = await self._hop(
            self._scans, folder, self._new_page, folder, size, position, asked_ns
        )
        if snapshot.is_large:
            self._arrange(snapshot)
        return page

    def _known_page(
        self, folder: Path, size: int, position: tuple[bool, str] | None, asked_ns: int
    ) -> Page | None:
        """The page, if the folder needs no scan for it."""
        with self._listed(folder) as descriptor:
            snapshot = self._snapshots.get(descriptor, asked_ns)
            return self._page(snapshot, descriptor, size, position) if snapshot else None

    def _new_page(
        self, folder: Path, size: int, position: tuple[bool, str] | None, asked_ns: int
    ) -> tuple[Page, Snapshot]:
        with self._listed(folder) as descriptor:
            # Whoever waited for the same scan need not scan again.
            snapshot = self._snapshots.get(descriptor, asked_ns) or self._snapshots.take(descriptor)
            return self._page(snapshot, descriptor, size, position), snapshot

    def _page(
        self, snapshot: Snapshot, descriptor: int, size: int, position: tuple[bool, str] | None
    ) -> Page:
        place = (snapshot, size, position)
        page = self._recent.get(place)
        if page is None:
            page = _cut(snapshot, descriptor, size, position)
            self._recent.keep(place, page)
        return page

    @contextmanager
    def _listed(self, folder: Path) -> Iterator[int]:
        try:
            with opened_folder(self._top, folder) as descriptor:
                yield descriptor
        except NotADirectoryError:
            with found(self._top, folder):
                raise NotAFolder(f"'{folder.name}' is a file, not a folder.") from None

    def _arrange(self, snapshot: Snapshot) -> None:
        """Make ready for the next page while the first one is on its way."""
        task = asyncio.create_task(self._scans.run(snapshot.arrange))
        self._arranging.add(task)
        task.add_done_callback(self._arranging.discard)

    # Files

    async def stat(self, path: Path) -> Entry:
        return await self._hop(self._looks, path, self._stat, path)

    def _stat(self, path: Path) -> Entry:
        if path.is_root:
            with opened_folder(self._top, path) as descriptor:
                return entry_of(path.name, os.fstat(descriptor))
        with found(self._top, path) as (_, info):
            return entry_of(path.name, info, with_etag=True)

    async def read(
        self, path: Path, start: int = 0, stop: int | None = None, *, etag: str | None = None
    ) -> Download:
        return await self._hop(self._looks, path, self._read, path, start, stop, etag)

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
            chunk = await self._hop(self._reads, path, file.read, min(_READ, stop - start), start)
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
        way_checked: bool = False,
    ) -> Entry:
        staged = staging.StagedFile(self._top, path, replace=replace, otherwise=otherwise)
        running: asyncio.Future[Any] | None = None
        batch: list[bytes] = []
        held = 0
        with GATHERING.upload():
            try:
                async for chunk in chunks:
                    batch.append(chunk)
                    held += len(chunk)
                    if held >= GATHERING.enough or len(batch) >= _MOST_CHUNKS:
                        if running:
                            await self._landed(path, running)
                        # The disk takes this batch while the next one arrives.
                        running = self._writes.start(staged.append, batch)
                        batch, held = [], 0
                if running:
                    await self._landed(path, running)
                running = self._writes.start(_finish, staged, batch)
                entry: Entry = await self._landed(path, running)
                return entry
            except BaseException:
                await asyncio.shield(self._discard(path, staged, running))
                raise
            finally:
                running = None  # it holds the error that holds this frame

    async def _landed(self, path: Path, running: asyncio.Future[T]) -> T:
        """What a thread has done; it goes on even if whoever waits for it is cancelled."""
        try:
            with translated(path):
                return await asyncio.shield(running)
        finally:
            del running  # as above

    async def _discard(
        self, path: Path, staged: staging.StagedFile, running: asyncio.Future[Any] | None
    ) -> None:
        if running:  # a thread is not stopped by a cancelled task: wait until it lets go of the file
            await asyncio.wait([running])
            running.exception()
        try:
            await self._hop(self._writes, path, staged.discard)
        except PorticoError as error:  # what is being handled says more
            log.warning("upload-not-discarded", code=error.code, cause=error.cause, left_to="sweep")

    # Folders and trees

    async def check_way(self, folder: Path) -> None:
        await self._hop(self._looks, folder, self._check_way, folder)

    def _check_way(self, folder: Path) -> None:
        with opened_way(self._top, folder):
            return

    async def make_folder(self, path: Path) -> None:
        await self._change(path, self._make_folder, path)

    def _make_folder(self, path: Path) -> None:
        with opened_folder(self._top, path, make=True):
            return

    async def delete(self, path: Path, *, recursive: bool = False) -> None:
        taken_away, called_off = await self._change(path, self._delete, path, recursive)
        if (
            taken_away and not called_off
        ):  # what is left of it when this is called off goes with the next sweep
            await self._long(path, staging.remove_staged, self._top, taken_away, pool=self._removals)

    def _delete(self, path: Path, recursive: bool) -> str | None:
        """Remove it; for a folder with its content, the name under which that is staged."""
        with found(self._top, path) as (folder, info):
            if is_folder(info) and recursive:
                return staging.take_away(self._top, folder, path.name)
            if is_folder(info):
                os.rmdir(path.name, dir_fd=folder)
            else:
                os.unlink(path.name, dir_fd=folder)
            os.fsync(folder)
        return None

    async def copy(self, source: Path, target: Path, *, replace: bool = True) -> None:
        is_small = await self._hop(self._looks, source, self._is_small_file, source)
        pool = self._writes if is_small else self._trees
        await self._long(source, trees.copy, self._top, source, target, replace, pool=pool)

    def _is_small_file(self, path: Path) -> bool:
        with found(self._top, path) as (_, info):
            return not is_folder(info) and info.st_size <= _SMALL_FILE

    async def move(self, source: Path, target: Path, *, replace: bool = True) -> None:
        renamed, called_off = await self._change(source, trees.rename, self._top, source, target, replace)
        if not renamed:
            if called_off:
                raise asyncio.CancelledError
            await self._long(source, trees.merge, self._top, source, target, pool=self._trees)

    # Housekeeping

    async def check(self, *, writable: bool) -> None:
        await self._hop(self._looks, Path(), self._check, writable)

    def _check(self, writable: bool) -> None:
        if reason := folder.flaw(self._top, writable=writable):
            raise ProviderUnavailable(
                "The storage folder of this connection cannot be used; tell the administrator.",
                retry_after=30,
                cause=f"the connection's folder {self._top} {reason}",
            )

    async def sweep(self) -> int:
        return await self._long(Path(), staging.sweep, self._top, pool=self._removals)

    async def close(self) -> None:
        for stop in self._stops:
            stop.call()
        for threads in (
            self._looks,
            self._reads,
            self._writes,
            self._scans,
            self._changes,
            self._trees,
            self._removals,
        ):
            await asyncio.to_thread(threads.close)

    async def _long(self, path: Path, work: Callable[..., T], *args: Any, pool: Threads) -> T:
        """Run blocking work that may take long: `work` gets a `Stop`, which is called when this is cancelled."""
        stop = Stop()
        self._stops.add(stop)
        running = pool.start(work, stop, *args)
        running.add_done_callback(_seen)
        try:
            with translated(path):
                return await asyncio.shield(running)
        except Stopped:
            raise Unavailable(
                "The gateway was stopped meanwhile; look at what was done, and ask again.", retry_after=5
            ) from None
        except asyncio.CancelledError:
            stop.call()
            if stop.begun:  # the thread lets go of its files first
                await asyncio.wait([running])
            raise
        finally:
            self._stops.discard(stop)
            del running  # it holds the error that holds this frame

    async def _change(self, path: Path, work: Callable[..., T], *args: Any) -> tuple[T, bool]:
        """Run work that changes something in no time; what it returns, and whether this was cancelled meanwhile.

        A thread that has begun is waited for and what it did counts: a cancellation means that nothing was done.
        """
        stop = Stop()
        running = self._changes.start(_unless_stopped, stop, work, *args)
        running.add_done_callback(_seen)
        try:
            with translated(path):
                try:
                    return await asyncio.shield(running), False
                except asyncio.CancelledError:
                    stop.call()
                    if not stop.begun:
                        raise
                    await asyncio.wait([running])
                    if isinstance(running.exception(), Stopped):
                        raise
                    return running.result(), True
        finally:
            del running  # as above

    async def _hop(self, pool: Threads, path: Path, work: Callable[..., T], *args: Any) -> T:
        """Run blocking work about `path` in a thread."""
        with translated(path):
            return await pool.run(work, *args)


def _seen(done: asyncio.Future[Any]) -> None:
    """Nobody may be waiting for the error any more."""
    if not done.cancelled():
        done.exception()


def _unless_stopped(stop: Stop, work: Callable[..., T], *args: Any) -> T:
    stop.check()
    return work(*args)


def _finish(staged: staging.StagedFile, batch: list[bytes]) -> Entry:
    staged.append(batch)
    return staged.commit()


def _cut(snapshot: Snapshot, descriptor: int, size: int, position: tuple[bool, str] | None) -> Page:
    """The `size` entries behind `position` that are still there."""
    from_files, behind = position or (False, None)
    entries: list[Entry] = []
    last = (False, "")
    for in_files, names in ((False, snapshot.folders), (True, snapshot.files))[from_files:]:
        more = bool(names)
        while more and len(entries) < size:
            chosen, more = names.after(behind, size - len(entries))
            if chosen:
                entries += entries_of(descriptor, chosen, folders=not in_files)
                last = (in_files, behind := chosen[-1])
        if more:
            return Page(entries, _make_token(last))
        behind = None
    return Page(entries)


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
