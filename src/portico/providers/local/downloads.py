"""Downloads: an open file, read in chunks by threads."""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Self

from portico.model.entries import Download
from portico.model.errors import PorticoError, ProviderFailed, beyond_end, changed, is_a_folder, not_found
from portico.model.paths import Path
from portico.providers.local.confined_fs import Volume, entry_of, etag_of, is_folder, opened_parent, visible
from portico.providers.local.errors import translate
from portico.providers.local.threads import Threads
from portico.providers.wire.ranges import Content

# Without O_NONBLOCK, opening a FIFO would wait for its writer.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 2**20
"""Bytes that a thread reads at a time."""
SMALL = 2**16
"""Bytes. A download of up to this size is read by the thread that opens the file."""


class OpenFile:
    """A regular file, open for reading."""

    __slots__ = ("_closed", "_descriptor", "_lock", "_reads", "info")

    def __init__(self, folder: int, path: Path) -> None:
        self._descriptor = os.open(path.name, _FILE_FLAGS, dir_fd=folder)
        self._lock = threading.Lock()
        self._reads = 0
        self._closed = False
        try:
            self.info = os.fstat(self._descriptor)
            if is_folder(self.info):
                raise is_a_folder(path.name)
            if not visible(self.info):
                raise not_found(path.name)
        except BaseException:
            os.close(self._descriptor)
            raise

    def read(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes; nothing after `close`."""
        with self._lock:
            if self._closed:
                return b""
            self._reads += 1
        try:
            return os.pread(self._descriptor, size, offset)
        finally:
            with self._lock:
                self._reads -= 1
                last = self._closed and not self._reads
            if last:
                os.close(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        """Harmless if repeated. A thread that is reading closes the file when it is done."""
        with self._lock:
            last = not self._closed and not self._reads
            self._closed = True
        if last:
            os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileChunks(Content):
    def __init__(self, threads: Threads, path: Path, file: OpenFile, start: int, stop: int, first: bytes) -> None:
        """`first`: bytes that were read already, or none."""
        super().__init__(start, stop)
        self._threads = threads
        self._path = path
        self._file = file
        self._first = first

    async def _chunk(self) -> bytes:
        size = min(_CHUNK, self._stop - self._position)
        chunk, self._first = self._first, b""
        if not chunk:
            chunk = await self._threads.run(self._threads.reads, self._path, self._file.read, size, self._position)
        if not chunk:
            raise ProviderFailed(f"'{self._path.name}' was shortened during the download. Try again.")
        return chunk

    def _close(self) -> None:
        self._file.close()


async def open_download(
    threads: Threads, top: Volume, path: Path, start: int, stop: int | None, etag: str | None
) -> Download:
    opening = threads.metadata.start(_open, top, path, start, stop, etag)
    try:
        file, end, first = await asyncio.shield(opening)
    except OSError as error:
        raise translate(error, path) from error
    except asyncio.CancelledError:
        opening.add_done_callback(_close)
        raise
    finally:
        del opening  # an error refers to this frame
    entry = entry_of(path.name, file.info, with_etag=True)
    return Download(entry, start, end, FileChunks(threads, path, file, start, end, first))


def _open(top: Volume, path: Path, start: int, stop: int | None, etag: str | None) -> tuple[OpenFile, int, bytes]:
    """The file, where the download ends, and all of it if it is small."""
    with opened_parent(top, path) as folder:
        file = OpenFile(folder, path)
    size = file.info.st_size
    try:
        if etag is not None and etag != etag_of(file.info):
            raise changed(path.name)
        if start > size:
            raise beyond_end(path.name, size)
        end = size if stop is None else min(stop, size)
        first = b""
        if 0 < end - start <= SMALL:
            first = file.read(end - start, start)
            if len(first) == end - start:
                file.close()
    except BaseException:
        file.close()
        raise
    return file, end, first


def read_small(top: Volume, paths: Sequence[Path], checksum: Callable[[bytes], int]) -> list[tuple[bytes, int] | None]:
    """As `Provider.read_small`."""
    found: list[tuple[bytes, int] | None] = []
    left = _CHUNK
    for _, group in groupby(paths, key=lambda path: path.segments[:-1]):
        siblings = list(group)
        expected = len(found) + len(siblings)
        with suppress(OSError, PorticoError), opened_parent(top, siblings[0]) as folder:
            for path in siblings:
                content = _read_whole(folder, path.name) if left > 0 else None
                left -= len(content or b"")
                found.append(None if content is None else (content, checksum(content)))
        found += [None] * (expected - len(found))  # the folder is gone
    return found


def _read_whole(folder: int, name: str) -> bytes | None:
    try:
        descriptor = os.open(name, _FILE_FLAGS, dir_fd=folder)
    except OSError:
        return None
    try:
        info = os.fstat(descriptor)
        size = info.st_size
        if size > SMALL or is_folder(info) or not visible(info):
            return None
        content = os.read(descriptor, size)
        return content if len(content) == size else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _close(opening: "asyncio.Future[tuple[OpenFile, int, bytes]]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result()[0].close()
