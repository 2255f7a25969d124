"""`Archive`: a folder, or some files and folders of it, as one ZIP that is made while it is sent."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

import msgspec

from portico.drive import Drive
from portico.entries import Download, Entry
from portico.errors import Changed, TooLarge
from portico.paths import Path
from portico.zip_format import ZipSize, ZipWriter

_PLANNED = 10_000
"""Entries that are looked at before the first byte is sent. If these are all, the size of the archive is announced."""
_PAGE = 1000
_OPENED_AHEAD = 4
"""Files that are opened while an earlier one is sent: many small ones would wait for the storage each."""


class ArchiveLimits(msgspec.Struct, frozen=True):
    entries: int
    size: int
    """Bytes; 0 is no limit."""


class _Item(msgspec.Struct, frozen=True):
    path: Path
    name: str
    """In the archive."""
    entry: Entry


_Opened = tuple[_Item, asyncio.Task[Download] | None]


class Archive:
    def __init__(self, drive: Drive, folder: Path, chosen: Sequence[Path], limits: ArchiveLimits) -> None:
        """`chosen`: paths below `folder`; without any, all of it."""
        self._drive = drive
        self._folder = folder
        self._chosen = _outermost(chosen) or [folder]
        self._base = folder if chosen else folder.parent
        self._limits = limits
        self._items = self._found()
        self._planned: list[_Item] = []
        self.size: int | None = None
        """Bytes, if it can be known before the archive is made."""

    @property
    def name(self) -> str:
        """How the file is to be called."""
        top = self._chosen[0] if len(self._chosen) == 1 else self._folder
        return "files.zip" if top.is_root else f"{top.name}.zip"

    async def plan(self) -> None:
        """Look at what will be in it, as far as that is not too much. Raises what can be known before it is sent."""
        size = ZipSize()
        async for item in self._items:
            self._planned.append(item)
            timed = item.entry.last_modified is not None
            if item.entry.is_folder:
                size.add_folder(item.name, timed=timed)
            else:
                size.add_file(item.name, item.entry.size or 0, timed=timed)
            if len(self._planned) == _PLANNED:
                return
        self.size = size.total

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The archive. An error in the middle of it must reach the client: without its end it is not valid."""
        writer = ZipWriter()
        async with aclosing(self._opened()) as opened:
            async for item, opening in opened:
                if opening is None:
                    yield writer.folder(item.name, item.entry.modified)
                    continue
                download = await _result(opening)
                try:
                    size = download.stop
                    if self.size is not None and size != item.entry.size:
                        raise Changed(
                            f"'{item.path}' has changed since the archive was begun; download it again."
                        )
                    yield writer.begin(item.name, size, item.entry.modified)
                    async for chunk in download.chunks:
                        writer.feed(chunk)
                        yield chunk
                    yield writer.end()
                finally:
                    await download.chunks.aclose()
        yield writer.finish()

    async def close(self) -> None:
        """If `chunks` is never read."""
        await self._items.aclose()

    async def _opened(self) -> AsyncGenerator[_Opened]:
        """The items in order, files with a download that is opened, or about to be."""
        waiting: deque[_Opened] = deque()
        try:
            async for item in self._all():
                task = None
                if not item.entry.is_folder:
                    task = asyncio.create_task(self._drive.read(item.path))
                waiting.append((item, task))
                if len(waiting) > _OPENED_AHEAD:
                    yield waiting.popleft()
            while waiting:
                yield waiting.popleft()
        finally:
            await _discard([task for _, task in waiting if task])

    async def _all(self) -> AsyncIterator[_Item]:
        self._planned.reverse()
        while self._planned:
            yield self._planned.pop()
        async for item in self._items:
            yield item

    async def _found(self) -> AsyncGenerator[_Item]:
        entries = size = 0
        for top in self._chosen:
            async for path, entry in self._below(top):
                entries += 1
                size += entry.size or 0
                if entries > self._limits.entries:
                    raise TooLarge(
                        f"An archive may have {self._limits.entries} entries; choose fewer files or folders."
                    )
                if self._limits.size and size > self._limits.size:
                    raise TooLarge(f"An archive may have {self._limits.size} bytes; choose less at once.")
                yield _Item(path, "/".join(path.segments[len(self._base.segments) :]), entry)

    async def _below(self, top: Path) -> AsyncIterator[tuple[Path, Entry]]:
        """The entry itself, unless it is the root, and everything below it."""
        entry = await self._drive.stat_for_download(top)
        if not top.is_root:
            yield top, entry
        if entry.is_folder:
            walk = self._drive.walk(top)
            while not walk.ended:
                for each in await walk.page(_PAGE):
                    yield each


def _outermost(paths: Sequence[Path]) -> list[Path]:
    """Without what another path holds: no entry is in an archive twice."""
    ordered = sorted(set(paths), key=lambda path: path.segments)
    kept = ordered[:1]
    for path in ordered[1:]:
        if not kept[-1].holds(path):
            kept.append(path)
    return kept


async def _result(opening: asyncio.Task[Download]) -> Download:
    try:
        return await opening
    except asyncio.CancelledError:
        await _discard([opening])  # it may have been opened in the same moment
        raise


async def _discard(opening: list[asyncio.Task[Download]]) -> None:
    for task in opening:
        task.cancel()
    if opening:
        await asyncio.wait(opening)
    for task in opening:
        if not task.cancelled() and task.exception() is None:  # it was opened all the same
            await task.result().chunks.aclose()
