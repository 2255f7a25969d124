"""Resumable uploads: a staged file that outlives its writers. How long it is says how much of it has arrived."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TypeVar

import msgspec

from portico.entries import Entry
from portico.errors import service_unavailable
from portico.paths import Path
from portico.providers.local.confined_fs import Volume, entry_of, lstat, opened_folder
from portico.providers.local.staging import open_resumable, open_staging, opened_staging, resumable_name
from portico.providers.local.threads import Threads
from portico.providers.local.uploads import (
    StagedFile,
    WriteBuffers,
    filled,
    finished,
    start_writeback,
    write_buffers,
)
from portico.providers.resumable import SAVED_BYTES, ResumableUpload, Save, UntilCut, committed, upload_gone
from portico.providers.write_options import WriteOptions

T = TypeVar("T")


class _State(msgspec.Struct):
    name: str
    """Of the staged file."""
    target: tuple[str, ...]
    """The segments of a path, which may be one of the gateway's own."""
    replace: bool
    modified: datetime | None = None
    inode: int | None = None
    """Of the staged file, once it exists: it stays the same when the file is committed."""


class LocalUpload(ResumableUpload):
    def __init__(
        self, threads: Threads, buffers: WriteBuffers, top: Volume, state: _State, offset: int
    ) -> None:
        self.offset = offset
        self._threads = threads
        self._buffers = buffers
        self._top = top
        self._state = state

    @classmethod
    async def begin(
        cls,
        threads: Threads,
        buffers: WriteBuffers,
        top: Volume,
        target: Path,
        options: WriteOptions,
        *,
        renamed: bool,
    ) -> "LocalUpload":
        state = _State(resumable_name(), target.segments, options.replace, options.modified)
        upload = cls(threads, buffers, top, state, 0)
        await upload._run(upload._staged(renamed).check_target)
        return upload

    @classmethod
    async def resume(
        cls, threads: Threads, buffers: WriteBuffers, top: Volume, state: bytes
    ) -> "LocalUpload":
        upload = cls(threads, buffers, top, msgspec.json.decode(state, type=_State), 0)
        upload.offset = await upload._run(upload._size)
        return upload

    @property
    def state(self) -> bytes:
        return msgspec.json.encode(self._state)

    @property
    def _target(self) -> Path:
        return Path(self._state.target)

    async def append(self, chunks: AsyncIterator[bytes], save: Save, *, at_most: int | None = None) -> None:
        file, is_new, size = await self._opened()
        writing: asyncio.Future[int] | None = None
        arrived = UntilCut(chunks)
        saved = self.offset
        try:
            # Before the first byte, so that the file is recognized when it was committed. And before bytes are removed:
            # this process may have been suspended while another one took the upload over. From here on, the lock is held.
            if is_new or size > self.offset:
                await save()
            if size > self.offset:  # what was written after the offset was looked at, the client sends again
                await self._run(partial(os.ftruncate, file, self.offset))
            with self._buffers.upload():
                async for buffer, _ in filled(arrived, self._buffers):
                    if writing:
                        self.offset += await finished(self._target, writing)
                        if self.offset - saved >= SAVED_BYTES:
                            await save()
                            saved = self.offset
                    writing = self._threads.writes.start(_write, file, self.offset, buffer)
                    del buffer  # as in `upload`
                    if not self._buffers.overlap:
                        await finished(self._target, writing)
            assert writing
            self.offset += await finished(self._target, writing)
        finally:
            await _close(file, writing)
            writing = None  # an error refers to this frame
        if self.offset != saved:
            await save()
        arrived.check()

    async def finish(self, save: Save, *, alternatives: Iterator[Path] | None = None) -> Entry:
        return await committed(lambda: self._run(self._commit), self._retarget, save, alternatives)

    def _retarget(self, target: Path) -> None:
        self._state.target = target.segments

    async def abandon(self) -> None:
        await self._run(self._remove)

    async def _opened(self) -> tuple[int, bool, int]:
        """As `_open`. If this is cancelled, the file, which the thread opens and locks all the same, is closed again."""
        opening = self._threads.writes.start(self._open)
        try:
            return await finished(self._target, opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unused)
            raise

    async def _run(self, work: Callable[[], T]) -> T:
        return await self._threads.run(self._threads.writes, self._target, work)

    # In threads

    def _staged(self, renamed: bool = False) -> StagedFile:
        others: Iterator[Path] | None = iter(()) if renamed else None
        state = self._state
        return StagedFile(
            self._top, self._target, replace=state.replace, alternatives=others, modified=state.modified
        )

    def _size(self) -> int:
        with opened_staging(self._top) as staging:
            info = lstat(staging, self._state.name)
        if info is not None:
            return info.st_size
        if self._state.inode is None:
            return 0
        entry = self._stored()
        if entry is None:
            raise upload_gone()
        return entry.size or 0

    def _open(self) -> tuple[int, bool, int]:
        """The file, whether it was made now, and its size."""
        state = self._state
        is_new = state.inode is None
        with opened_staging(self._top) as staging:
            file = open_resumable(staging, state.name, create=is_new)
        try:
            info = os.fstat(file)
            if info.st_size < self.offset:
                raise service_unavailable(f"the staged file {state.name} has become shorter", 1)
        except BaseException:
            os.close(file)
            raise
        state.inode = info.st_ino
        return file, is_new, info.st_size

    def _commit(self) -> Entry:
        if entry := self._stored():
            self._remove()
            return entry
        state = self._state
        staged = self._staged()
        staging = open_staging(self._top)
        try:
            file = open_resumable(staging, state.name, create=state.inode is None)
        except BaseException:
            os.close(staging)
            raise
        staged.adopt(staging, state.name, file)
        try:
            return staged.commit()
        finally:
            staged.close()

    def _stored(self) -> Entry | None:
        """The file at the target, if it is this upload's: a process that committed it may have died right after."""
        target = self._target
        with (
            suppress(FileNotFoundError, NotADirectoryError),
            opened_folder(self._top, target.parent) as folder,
        ):
            info = lstat(folder, target.name)
            if info is not None and info.st_ino == self._state.inode:
                return entry_of(target.name, info, with_etag=True)
        return None

    def _remove(self) -> None:
        with opened_staging(self._top) as staging, suppress(FileNotFoundError):
            os.unlink(self._state.name, dir_fd=staging)


def _write(file: int, offset: int, buffers: Sequence[bytes]) -> int:
    """Write at the offset; returns how many bytes."""
    os.lseek(file, offset, os.SEEK_SET)
    written = write_buffers(file, buffers)
    start_writeback(file, offset, offset + written)
    return written


async def _close(file: int, writing: asyncio.Future[int] | None) -> None:
    """Close the file when no thread writes it any more, however often this is cancelled: its lock must not stay."""
    cancelled = False
    while writing and not writing.done():
        try:
            await asyncio.shield(asyncio.wait([writing]))
        except asyncio.CancelledError:
            cancelled = True
    if writing and not writing.cancelled():
        writing.exception()  # it is retrieved, or a better error is on its way
    os.close(file)
    if cancelled:
        raise asyncio.CancelledError


def _close_unused(opening: asyncio.Future[tuple[int, bool, int]]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        os.close(opening.result()[0])
