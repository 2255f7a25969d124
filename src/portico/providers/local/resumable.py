"""Resumable uploads: a staged file that outlives its writers. It may be longer than what was saved, but never counts for
more: another program may have appended to it."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

import msgspec

from portico.model.entries import Entry
from portico.model.errors import other_offset
from portico.model.paths import Path
from portico.providers.contract.uploads import (
    SAVED_BYTES,
    KeptFile,
    ResumableUpload,
    Save,
    UntilCut,
    committed,
    upload_gone,
)
from portico.providers.local.confined_fs import Volume, entry_of, lstat, opened_folder
from portico.providers.local.staging import open_resumable, open_staging, opened_staging
from portico.providers.local.threads import Threads
from portico.providers.local.uploads import StagedFile, WriteBuffers, filled, finished, start_writeback, write_buffers

T = TypeVar("T")


class LocalState(msgspec.Struct):
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
        self, threads: Threads, buffers: WriteBuffers, top: Volume, state: LocalState, offset: int = 0
    ) -> None:
        self.offset = offset
        self._threads = threads
        self._buffers = buffers
        self._top = top
        self._state = state

    async def check_target(self, *, renamed: bool) -> None:
        await self._run(self._staged(renamed=renamed).check_target)

    async def size(self) -> int:
        """How many bytes the staged file, or the file that was made of it, has."""
        return await self._run(self._size)

    @property
    def mark(self) -> str:
        return self._state.name

    @property
    def state(self) -> bytes:
        return msgspec.json.encode(self._state)

    @property
    def _target(self) -> Path:
        return Path(self._state.target)

    async def append(self, chunks: AsyncIterator[bytes], save: Save, *, at_most: int | None = None) -> None:
        arrived = UntilCut(chunks)
        saved = self.offset
        writer = _Writer(self._threads, self._target, self._open, save)
        try:
            with self._buffers.upload():
                async for buffer, _ in filled(arrived, self._buffers):
                    self.offset += await writer.written()
                    if self.offset - saved >= SAVED_BYTES:
                        await save()
                        saved = self.offset
                    writer.start(self.offset, buffer)
                    del buffer  # as in `upload`
                    if not self._buffers.overlap:
                        self.offset += await writer.written()
            self.offset += await writer.written()
        finally:
            await writer.close()
        if self.offset != saved:
            await save(last=True)
        arrived.check()

    async def finish(
        self, save: Save, *, alternatives: Iterator[Path] | None = None, kept: KeptFile | None = None
    ) -> Entry:
        def commit() -> Awaitable[Entry]:
            return self._run(lambda: self._commit(kept))

        return await committed(commit, self._retarget, save, alternatives)

    def _retarget(self, target: Path) -> None:
        self._state.target = target.segments

    async def abandon(self) -> None:
        await self._run(self._remove)

    async def _run(self, work: Callable[[], T]) -> T:
        return await self._threads.run(self._threads.writes, self._target, work)

    # In threads

    def _staged(self, *, renamed: bool = False, kept: KeptFile | None = None) -> StagedFile:
        state = self._state
        return StagedFile(
            self._top,
            self._target,
            replace=state.replace,
            alternatives=iter(()) if renamed else None,
            modified=state.modified,
            mark=self.mark,
            kept=kept,
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

    def _open(self) -> tuple[int, bool]:
        """The file, and whether the upload is to be saved before it is changed."""
        state = self._state
        is_new = state.inode is None
        with opened_staging(self._top) as staging:
            try:
                file = open_resumable(staging, state.name, create=is_new)
            except FileNotFoundError as error:
                raise upload_gone() from error
        try:
            info = os.fstat(file)
            if info.st_size < self.offset:
                raise other_offset(info.st_size)
        except BaseException:
            os.close(file)
            raise
        state.inode = info.st_ino
        return file, is_new or info.st_size > self.offset

    def _commit(self, kept: KeptFile | None) -> Entry:
        if entry := self._stored():
            self._remove()
            return entry
        state = self._state
        staged = self._staged(kept=kept)
        staging = open_staging(self._top)
        try:
            file = open_resumable(staging, state.name, create=state.inode is None)
        except BaseException:
            os.close(staging)
            raise
        staged.adopt(staging, state.name, file)
        try:
            size = os.fstat(file).st_size
            if size < self.offset:
                raise other_offset(size)
            if size > self.offset:
                os.ftruncate(file, self.offset)
            return staged.commit()
        finally:
            staged.close()

    def _stored(self) -> Entry | None:
        """The file at the target, if it is this upload's: a process that committed it may have died right after."""
        target = self._target
        with suppress(FileNotFoundError, NotADirectoryError), opened_folder(self._top, target.parent) as folder:
            info = lstat(folder, target.name)
            if info is not None and info.st_ino == self._state.inode:
                return entry_of(target.name, info, with_etag=True)
        return None

    def _remove(self) -> None:
        with opened_staging(self._top) as staging, suppress(FileNotFoundError):
            os.unlink(self._state.name, dir_fd=staging)


class _Writer:
    """What one request writes to the staged file, one buffer at a time. The thread that writes the first one opens it."""

    def __init__(self, threads: Threads, target: Path, open_file: Callable[[], tuple[int, bool]], save: Save) -> None:
        self._threads = threads
        self._target = target
        self._open = open_file
        self._save = save
        self._file = -1
        self._writing: asyncio.Future[int] | None = None
        self._offset = 0
        self._held: Sequence[bytes] | None = None
        """The first buffer, if the upload must be saved before it is written."""

    def start(self, offset: int, buffers: Sequence[bytes]) -> None:
        """Begin to write at the offset; the write before is done."""
        if buffers or self._file < 0:
            self._writing = self._threads.writes.start(self._write, offset, buffers)

    async def written(self) -> int:
        """Wait for what was started; returns how many bytes it has added."""
        if self._writing is None:
            return 0
        count = await finished(self._target, self._writing)
        self._writing = None
        if self._held is not None:
            # Before the first byte, so that the file is recognized when it was committed. And before bytes are removed:
            # this process may have been suspended while another one took the upload over. From here on, the lock is held.
            await self._save()
            self._writing = self._threads.writes.start(self._write_held)
            count = await finished(self._target, self._writing)
            self._writing = None
        return count

    async def close(self) -> None:
        """Close the file when no thread writes it any more, however often this is cancelled: its lock must not stay."""
        cancelled = False
        while self._writing and not self._writing.done():
            try:
                await asyncio.shield(asyncio.wait([self._writing]))
            except asyncio.CancelledError:
                cancelled = True
        if self._writing and not self._writing.cancelled():
            self._writing.exception()  # it is retrieved, or a better error is on its way
        self._writing = self._held = None  # an error refers to this object
        if self._file >= 0:
            os.close(self._file)
        if cancelled:
            raise asyncio.CancelledError

    # In threads

    def _write(self, offset: int, buffers: Sequence[bytes]) -> int:
        if self._file < 0:
            self._file, save_first = self._open()
            if save_first:
                self._offset, self._held = offset, buffers
                return 0
        os.lseek(self._file, offset, os.SEEK_SET)
        written = write_buffers(self._file, buffers)
        start_writeback(self._file, offset, offset + written)
        return written

    def _write_held(self) -> int:
        held, self._held = self._held or (), None
        # What was written after the offset was saved, the client sends again.
        os.ftruncate(self._file, self._offset)
        return self._write(self._offset, held)
