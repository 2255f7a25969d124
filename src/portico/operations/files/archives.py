"""`Archive`: a folder, or some files and folders of it, as one ZIP that is made while it is sent."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import aclosing
from sys import getsizeof
from zlib import crc32

import msgspec

from portico.drive.drive import Drive
from portico.model.entries import Chunks, Download, Entry
from portico.model.errors import Changed, TooLarge, TooManyRequests, not_found
from portico.model.paths import Path
from portico.model.rights import Right
from portico.operations.actors.actor import Standing
from portico.operations.actors.tree import Tree
from portico.operations.files.zip_format import ZipSize, ZipWriter
from portico.runtime.fair_turns import Keys

_PLANNED = 10_000
"""Entries that are looked at before the first byte is sent. If these are all, the size of the archive is announced."""
_PLANNED_BYTES = 12 * 2**20
"""As `_PLANNED`, in memory."""
_ITEM_BYTES = 600
"""What an entry takes in memory in addition to its path."""
_POINTER_BYTES = 8
_PAGE = 1000
_OPENED_AHEAD = 4
"""Files that are opened while an earlier one is sent: many small ones would wait for the storage each."""
_BATCH_BYTES = 2**19
_BATCH_ENTRIES = 256


class ArchiveLimits(msgspec.Struct, frozen=True):
    entries: int
    size: int
    """Bytes; 0 is no limit."""


AT_ONCE = (8, 32)
"""Archives of one actor that are made at the same time, and of all guests of one link."""
MEMORY = 128 * 2**20
"""Bytes that all archives of a worker may take: entries that wait for their turn, and the directories at their ends."""
MEMORY_OF = (MEMORY // 2, MEMORY // 2)
"""As `AT_ONCE`, in bytes."""
BASE = 2**19
"""Bytes that every archive takes to pack its directory, and to send it."""


class ArchiveMemory:
    """The archives that this worker makes, by actor, in number and in bytes."""

    def __init__(self) -> None:
        self._archives: Counter[Hashable] = Counter()
        self._bytes: Counter[Hashable] = Counter()
        self._total = 0

    def begin(self, share: Keys) -> "ArchiveHold":
        """`TooManyRequests` if the actor has too many archives already."""
        if any(self._archives[key] >= most for key, most in zip(share, AT_ONCE, strict=False)):
            raise _too_many()
        self._archives.update(share)
        lease = ArchiveHold(self, share)
        try:
            lease.hold(0)
        except TooManyRequests:
            lease.release()
            raise
        return lease

    def grow(self, share: Keys, more: int) -> None:
        """When all of it is taken, an actor with less than a fair share still gets some."""
        if more > 0:
            first = self._bytes[share[0]]
            too_much = any(self._bytes[key] + more > most for key, most in zip(share, MEMORY_OF, strict=False))
            if too_much or (self._total + more > MEMORY and first + more > MEMORY // max(1, len(self._archives))):
                raise _too_many()
        self._total += more
        for key in share:
            self._bytes[key] += more

    def end(self, share: Keys) -> None:
        for key in share:
            self._archives[key] -= 1
            if not self._archives[key]:
                del self._archives[key], self._bytes[key]


class ArchiveHold:
    def __init__(self, memory: ArchiveMemory, share: Keys) -> None:
        self._memory: ArchiveMemory | None = memory
        self._share = share
        self._held = 0

    def hold(self, size: int) -> None:
        """From now on so many bytes beyond the base; `TooManyRequests` if the actor's archives take too many."""
        assert self._memory
        self._memory.grow(self._share, BASE + size - self._held)
        self._held = BASE + size

    def release(self) -> None:
        if self._memory:
            self._memory.grow(self._share, -self._held)
            self._memory.end(self._share)
            self._memory = None


def _too_many() -> TooManyRequests:
    return TooManyRequests(
        "Too many of your ZIP downloads are being prepared. Wait until one is done, or choose fewer files.",
        retry_after=5,
    )


class _Item(msgspec.Struct, frozen=True):
    path: Path
    entry: Entry
    cost: int
    """Bytes of memory."""


def _cost(path: Path) -> int:
    """Bytes of memory that an entry takes until it is sent. Its path may share nothing with those of others."""
    return _ITEM_BYTES + _POINTER_BYTES * len(path.segments) + sum(map(getsizeof, path.segments))


class _Batch(msgspec.Struct):
    """Folders and small files of one drive, which are read together, or one other file."""

    drive: Drive
    items: list[_Item]
    is_small: bool
    size: int = 0
    reading: "asyncio.Task[Download | _Contents] | None" = None

    def takes(self, drive: Drive, item: _Item) -> bool:
        size = self.size + (item.entry.size or 0)
        return drive is self.drive and self.is_small and size <= _BATCH_BYTES and len(self.items) < _BATCH_ENTRIES


_Contents = list[tuple[bytes, int] | None]
"""With their checksums; None for folders, and for files that are to be read by themselves."""


class Archive:
    def __init__(
        self,
        tree: Tree,
        drive: Drive,
        folder: Path,
        chosen: Sequence[Path],
        limits: ArchiveLimits,
        memory: ArchiveHold,
        *,
        is_folder: bool | None = None,
        begin: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """`chosen`: paths below `folder`; without any, all of it. `memory` is released with the archive.

        `is_folder`: what `folder` has to be, if only one of the two may be read. `begin` is called before the first byte.
        """
        self._tree = tree
        self._drives = {tree.reach.at(folder): drive}
        self._folder = folder
        self._chosen = _outermost(chosen) or [folder]
        self._base = folder if chosen else folder.parent
        self._limits = limits
        self._is_folder = is_folder
        self._begin = begin
        self._items = self._found()
        self._memory = memory
        self._planned: list[_Item] = []
        self._planned_bytes = 0
        self._page_bytes = 0
        """Of entries that the walk has found, and that are not looked at yet."""
        self.size: int | None = None
        """Bytes, if it can be known before the archive is made."""

    @property
    def name(self) -> str:
        top = self._chosen[0] if len(self._chosen) == 1 else self._folder
        return "files.zip" if top.is_root else f"{top.name}.zip"

    async def plan(self) -> None:
        """Look at what will be in it, as far as that is not too much. Raises what can be known before it is sent."""
        size = ZipSize()
        async for item in self._items:
            self._planned.append(item)
            self._planned_bytes += item.cost
            self._memory.hold(self._planned_bytes + self._page_bytes)
            timed = item.entry.last_modified is not None
            if item.entry.is_folder:
                size.add_folder(self._name(item), timed=timed)
            else:
                size.add_file(self._name(item), item.entry.size or 0, timed=timed)
            if len(self._planned) == _PLANNED or self._planned_bytes >= _PLANNED_BYTES:
                return
        self.size = size.total

    def chunks(self) -> Chunks:
        standing = Standing(self._tree.actor, self._folder, Right.DOWNLOAD, Right.LIST)
        for top in self._chosen:
            standing.also(top, Right.DOWNLOAD)
            for mount in self._tree.inner(top, Right.DOWNLOAD, Right.LIST):
                standing.also(mount.path, Right.DOWNLOAD, Right.LIST)
        return self._tree.watched(self._made(), standing)

    async def _drive(self, path: Path) -> Drive:
        mount = self._tree.reach.at(path)
        if mount not in self._drives:
            self._drives[mount] = await self._tree.drive(mount)
        return self._drives[mount]

    async def _made(self) -> AsyncGenerator[bytes]:
        """The archive. An error in the middle of it must reach the client: without its end it is not valid."""
        try:
            if self._begin:
                await self._begin()
            async with aclosing(self._chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            await self.close()

    async def _chunks(self) -> AsyncGenerator[bytes]:
        writer = ZipWriter()
        async with aclosing(self._opened()) as opened:
            async for batch in opened:
                self._memory.hold(self._planned_bytes + self._page_bytes + writer.held)
                found = await _result(batch.reading) if batch.reading else []
                if isinstance(found, Download):
                    async for chunk in self._file(writer, batch.items[0], found):
                        yield chunk
                    continue
                pieces: list[bytes] = []
                for item, content in zip(batch.items, found, strict=True):
                    if item.entry.is_folder:
                        pieces.append(writer.folder(self._name(item), item.entry.modified))
                    elif content:
                        self._require_size(item, len(content[0]))
                        pieces += writer.file(self._name(item), *content, item.entry.modified)
                    else:
                        yield b"".join(pieces)
                        pieces.clear()
                        async for chunk in self._file(writer, item, await batch.drive.read(item.path)):
                            yield chunk
                if pieces:
                    yield b"".join(pieces)
        for piece in writer.finish():
            yield piece

    async def _file(self, writer: ZipWriter, item: _Item, download: Download) -> AsyncGenerator[bytes]:
        try:
            self._require_size(item, download.stop)
            # A listing may have the time of the upload instead of the file's own.
            modified = download.entry.modified or item.entry.modified
            yield writer.begin(self._name(item), download.stop, modified)
            async for chunk in download.chunks:
                writer.feed(chunk)
                yield chunk
            yield writer.end()
        finally:
            await download.chunks.aclose()

    def _require_size(self, item: _Item, size: int) -> None:
        if self.size is not None and size != item.entry.size:
            raise Changed(f"'{item.path}' changed during the download. Download the ZIP again.")

    def _name(self, item: _Item) -> str:
        """In the archive."""
        return "/".join(item.path.segments[len(self._base.segments) :])

    async def close(self) -> None:
        """To be called if `chunks` is never read."""
        await self._items.aclose()
        self._planned.clear()
        self._memory.release()

    async def _opened(self) -> AsyncGenerator[_Batch]:
        """Everything in order, with what is read, or about to be."""
        waiting: deque[_Batch] = deque()
        try:
            async for batch in self._batches():
                batch.reading = asyncio.create_task(_read(batch))
                waiting.append(batch)
                if len(waiting) > (1 if batch.is_small else _OPENED_AHEAD):
                    yield waiting.popleft()
            while waiting:
                yield waiting.popleft()
        finally:
            await _discard([batch.reading for batch in waiting if batch.reading])

    async def _batches(self) -> AsyncIterator[_Batch]:
        batch: _Batch | None = None
        async for item in self._all():
            drive = await self._drive(item.path)
            is_small = item.entry.is_folder or (item.entry.size or 0) < drive.small_file
            if batch and is_small and batch.takes(drive, item):
                batch.items.append(item)
                batch.size += item.entry.size or 0
                continue
            if batch:
                yield batch
            batch = _Batch(drive, [item], is_small, item.entry.size or 0)
            if not is_small:
                yield batch
                batch = None
        if batch:
            yield batch

    async def _all(self) -> AsyncIterator[_Item]:
        self._planned.reverse()
        while self._planned:
            item = self._planned.pop()
            self._planned_bytes -= item.cost
            yield item
        async for item in self._items:
            yield item

    async def _found(self) -> AsyncGenerator[_Item]:
        entries = size = 0
        for top in self._chosen:
            async for path, entry in self._below(top):
                entries += 1
                size += entry.size or 0
                if entries > self._limits.entries:
                    raise TooLarge(f"A ZIP can contain at most {self._limits.entries} files and folders. Choose fewer.")
                if self._limits.size and size > self._limits.size:
                    raise TooLarge(f"A ZIP can contain at most {self._limits.size} bytes. Choose fewer files.")
                yield _Item(path, entry, _cost(path))

    async def _below(self, top: Path) -> AsyncIterator[tuple[Path, Entry]]:
        """The entry itself, unless it is the root, and everything below it."""
        drive = await self._drive(top)
        entry = await drive.stat_for_download(top)
        if top == self._folder and self._is_folder not in (None, entry.is_folder):
            raise not_found(top.name)
        if not top.is_root:
            yield top, entry
        if entry.is_folder:
            walk = self._tree.walk(drive, top, None, Right.DOWNLOAD)
            while not walk.ended:
                async with self._tree.looking(_PAGE):
                    page = deque(await walk.page(_PAGE))
                self._page_bytes = sum(_cost(path) for path, _ in page)
                while page:
                    path, entry = page.popleft()
                    self._page_bytes -= _cost(path)
                    yield path, entry


def _outermost(paths: Sequence[Path]) -> list[Path]:
    """Without what another path holds: no entry is in an archive twice."""
    ordered = sorted(set(paths), key=lambda path: path.segments)
    kept = ordered[:1]
    for path in ordered[1:]:
        if not kept[-1].holds(path):
            kept.append(path)
    return kept


async def _read(batch: _Batch) -> Download | _Contents:
    if not batch.is_small:
        return await batch.drive.read(batch.items[0].path)
    paths = [item.path for item in batch.items if not item.entry.is_folder]
    contents = iter(await batch.drive.read_small(paths, crc32) if paths else ())
    return [None if item.entry.is_folder else next(contents) for item in batch.items]


async def _result(opening: "asyncio.Task[Download | _Contents]") -> Download | _Contents:
    try:
        return await opening
    except asyncio.CancelledError:
        await _discard([opening])  # it may have been opened in the same moment
        raise


async def _discard(opening: "list[asyncio.Task[Download | _Contents]]") -> None:
    for task in opening:
        task.cancel()
    if opening:
        await asyncio.wait(opening)
    for task in opening:
        if not task.cancelled() and task.exception() is None and isinstance(found := task.result(), Download):
            await found.chunks.aclose()  # it was opened all the same
