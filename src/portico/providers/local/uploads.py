"""Uploads: written to a staged file, which becomes visible when it is committed."""

import asyncio
import errno
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, TypeVar

import structlog

from portico.model.entries import Entry
from portico.model.errors import AlreadyExists, IsAFolder, PorticoError, changed, service_unavailable
from portico.model.paths import Path
from portico.providers.contract.uploads import KeptFile
from portico.providers.local.confined_fs import (
    Volume,
    entry_of,
    etag_of,
    lstat,
    open_folder,
    opened_deepest,
    opened_folder,
    set_modified,
)
from portico.providers.local.errors import translate
from portico.providers.local.staging import (
    NO_LINKS,
    check_replaceable,
    check_same_disk,
    commit_lock,
    commit_staged,
    create_staged,
    link_replaced,
    open_staging,
    write_all,
)
from portico.providers.local.threads import NotDone, Threads

MAX_BUFFER = 2**20
"""Bytes. A larger buffer takes no less processor time."""
MIN_BUFFER = 2**16
"""Bytes. A chunk off the wire is not smaller while its client is fast."""
_BUDGET = 8 * 2**20
WRITEBACK_BYTES = 8 * 2**20
"""How much is written before the disk is to begin. By itself, the kernel may leave a whole GiB to the sync."""
_OVERLAPPING = 16
"""Uploads, as many as there are threads that write (`Threads.writes`)."""
_MAX_CHUNKS = 4096
"""In a buffer: every chunk costs memory of its own, however small it is."""
RENEWAL_SECONDS = 600.0
"""After which a buffer is written even if it is not full, so that a slow upload does not look abandoned."""
_MAX_BUFFERS = 512  # below the kernel's IOV_MAX

_COMMITS = 8
"""Attempts to commit while others remove the target folder."""

T = TypeVar("T")
log = structlog.get_logger()


class WriteBuffers:
    """How much an upload buffers before a thread writes it: the more uploads, the less.

    An upload holds one buffer that fills and one that is being written; of many uploads, each holds only one.
    """

    def __init__(self, budget: int = _BUDGET) -> None:
        self._budget = budget
        self._uploads = 0

    @contextmanager
    def upload(self) -> Iterator[None]:
        self._uploads += 1
        try:
            yield
        finally:
            self._uploads -= 1

    @property
    def size(self) -> int:
        """Bytes that each upload buffers now."""
        return max(MIN_BUFFER, min(MAX_BUFFER, self._budget // (2 * (self._uploads or 1))))

    @property
    def overlap(self) -> bool:
        """Whether an upload takes more from its client while a buffer is written. If not, the others use that time."""
        return self._uploads <= _OVERLAPPING


async def upload(
    threads: Threads, buffers: WriteBuffers, path: Path, chunks: AsyncIterator[bytes], staged: "StagedFile"
) -> Entry:
    """Write all chunks and commit; if anything fails, nothing is left."""
    writing: asyncio.Future[Any] | None = None

    with buffers.upload():
        try:
            async for buffer, last in filled(chunks, buffers):
                if writing:
                    await finished(path, writing)
                # The disk takes this buffer while the next one fills.
                write = StagedFile.store if last else StagedFile.append
                writing = threads.writes.start(write, staged, buffer)
                del buffer  # a client that pauses keeps no memory that is not needed
                if not buffers.overlap and not last:
                    await finished(path, writing)
            if writing is None:  # there was not even an empty buffer
                writing = threads.writes.start(StagedFile.commit, staged)
            entry: Entry = await finished(path, writing)
            return entry
        except BaseException:
            await asyncio.shield(_discard(threads, path, staged, writing))
            raise
        finally:
            writing = None  # an error refers to this frame


async def filled(chunks: AsyncIterator[bytes], buffers: WriteBuffers) -> AsyncIterator[tuple[list[bytes], bool]]:
    """Buffers to write, and whether it is the last one, which may be empty."""
    buffer: list[bytes] = []
    held = 0
    filled_at = time.monotonic()
    async for chunk in chunks:
        buffer.append(chunk)
        held += len(chunk)
        now = time.monotonic()
        del chunk
        if held >= buffers.size or len(buffer) >= _MAX_CHUNKS or now - filled_at > RENEWAL_SECONDS:
            yield buffer, False
            buffer, held, filled_at = [], 0, now
    yield buffer, True


async def finished(path: Path, writing: asyncio.Future[T]) -> T:
    """The result of a thread, which goes on even if this is cancelled."""
    try:
        return await asyncio.shield(writing)
    except OSError as error:
        raise translate(error, path) from error
    finally:
        del writing  # as above


async def _discard(threads: Threads, path: Path, staged: "StagedFile", writing: asyncio.Future[Any] | None) -> None:
    if writing:  # cancelling a task does not stop a thread: wait until it is done with the file
        await asyncio.wait([writing])
        writing.exception()
    try:
        await threads.run(threads.writes, path, staged.discard)
    except PorticoError as error:  # the error that is being handled says more
        log.warning("upload-not-discarded", code=error.code, cause=error.cause, left_to="sweep")


def start_writeback(file: int, before: int, after: int) -> None:
    """Let the disk begin with what was written, so that the sync has little to wait for.

    `before` and `after`: how long the file was before and after a write. Every `WRITEBACK_BYTES` of it are passed on once,
    when they are complete. What the kernel has written already is dropped from memory.
    """
    start, stop = before - before % WRITEBACK_BYTES, after - after % WRITEBACK_BYTES
    if start < stop and sys.platform == "linux":
        with suppress(OSError):  # a hint, which some file systems do not take
            os.posix_fadvise(file, start, stop - start, os.POSIX_FADV_DONTNEED)


def write_buffers(file: int, buffers: Sequence[bytes]) -> int:
    """Write buffers, any number of them; returns how many bytes."""
    for start in range(0, len(buffers), _MAX_BUFFERS):
        write_all(file, buffers[start : start + _MAX_BUFFERS])
    return sum(map(len, buffers))


class CopyNeeded(NotDone):
    """The file system cannot link the file that is replaced. It is copied without the lock, which others wait for."""


def keep_replaced(top: Volume, kept: KeptFile, folder: int, name: str) -> None:
    """The name is never missing: the old file has two names until the new one takes its own."""
    assert kept.place
    info = lstat(folder, name)
    kept.entry = None if info is None else entry_of(name, info, with_etag=True)
    if info is not None and etag_of(info) == kept.copied:
        kept.is_kept = True
        return
    kept.is_kept = False  # an earlier attempt may have kept another file, which goes now
    for _ in range(_COMMITS):
        try:
            with opened_folder(top, kept.place.parent, make=True) as trash:
                kept.is_kept = link_replaced(folder, name, trash, kept.place.name)
            break
        except FileNotFoundError as error:
            if lstat(folder, name) is None:
                kept.entry = None
                return
            gone = error  # the trash was removed after it was opened, so it is made again
    else:
        raise service_unavailable(f"{kept.place.parent} was removed again and again", 1) from gone
    if not kept.is_kept and kept.may_copy:
        raise CopyNeeded


class StagedFile:
    """A file that is invisible until `commit`. All methods block; call one at a time."""

    def __init__(
        self,
        top: Volume,
        target: Path,
        *,
        replace: bool,
        alternatives: Iterator[Path] | None = None,
        if_match: str | None = None,
        modified: datetime | None = None,
        mark: str | None = None,
        kept: KeptFile | None = None,
        alone: bool = False,
    ) -> None:
        """`alone`: no other commit may run at the same time."""
        self._kept = kept
        self._alone = alone or if_match is not None
        self._top = top
        self._target = target
        self._replace = replace
        self._alternatives = alternatives
        self._if_match = if_match
        self._modified = modified
        self._mark = mark
        self._replaced = False
        self._made_folders = 0
        self._written = 0
        self._name = ""
        self._staging = -1
        self._file = -1

    def open(self) -> int:
        """The descriptor. The first call creates the file, and fails early if the target can never be written."""
        if self._file < 0:
            self.check_target()
            self._create()
        return self._file

    def _create(self) -> None:
        self._staging = open_staging(self._top)
        try:
            self._name, self._file = create_staged(self._staging)
        except BaseException:
            os.close(self._staging)
            raise

    def adopt(self, staging: int, name: str, file: int) -> None:
        self._staging, self._name, self._file = staging, name, file

    def append(self, buffers: Sequence[bytes]) -> None:
        before = self._written
        self._written += write_buffers(self.open(), buffers)
        start_writeback(self._file, before, self._written)

    def store(self, buffers: Sequence[bytes]) -> Entry:
        if self._file < 0:  # this is all of it: the commit meets at once what `open` would look for
            self._create()
        write_buffers(self._file, buffers)
        return self.commit()

    def commit(self) -> Entry:
        """Make the content durable, then the file visible, then the name durable."""
        file = self.open()
        set_modified(file, self._modified, self._mark)
        os.fsync(file)
        for _ in range(_COMMITS):
            try:
                self._move_into_place()
                break
            except FileNotFoundError as error:
                # The folder was removed after it was opened, so it is made again.
                gone = error
        else:
            raise service_unavailable(f"{self._target.parent} was removed again and again", 1) from gone
        entry = entry_of(self._target.name, os.fstat(file), with_etag=True)
        entry.replaced, entry.made_folders = self._replaced, self._made_folders
        with suppress(OSError):  # the file is synced and in place
            self.close()
        return entry

    def _move_into_place(self) -> None:
        with self._opened_target_folder() as folder:
            while True:
                try:
                    self._take_name(folder)
                    break
                except (AlreadyExists, IsAFolder):
                    other = next(self._alternatives, None) if self._alternatives else None
                    if other is None:
                        raise
                    self._target = other
                except OSError as error:
                    if error.errno == errno.EXDEV:
                        self.check_target()
                    raise
            os.fsync(folder)

    def _take_name(self, folder: int) -> None:
        self._check_replaceable(folder)
        if not (self._replaced or self._alone):
            try:
                commit_staged(self._staging, self._name, folder, self._target, replace=False)
                return
            except AlreadyExists:
                if not self._replace:
                    raise
            except OSError as error:
                if error.errno not in NO_LINKS:
                    raise
        # Two that replace the same file must not both keep that one, and lose the first one's.
        alone = self._alone or self._kept is not None
        with commit_lock(self._staging, folder, self._target.name, alone=alone):
            self._check_replaceable(folder)
            if self._kept and self._replaced:
                keep_replaced(self._top, self._kept, folder, self._target.name)
                self._replaced = self._kept.entry is not None
            commit_staged(self._staging, self._name, folder, self._target, replace=self._replace)

    @contextmanager
    def _opened_target_folder(self) -> Iterator[int]:
        try:
            folder = open_folder(self._top, self._target.parent)
        except FileNotFoundError:
            depth = self.check_target()  # a name that the disk cannot hold fails before folders are created
            folder = open_folder(self._top, self._target.parent, make=True)
            self._made_folders = len(self._target.parent.segments) - depth
        try:
            yield folder
        finally:
            os.close(folder)

    def discard(self) -> None:
        """Remove the staged file. Harmless after `commit`."""
        if self._file < 0:
            return
        try:
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._staging)
        finally:
            self.close()

    def _check_replaceable(self, folder: int) -> None:
        info = lstat(folder, self._target.name)
        self._replaced = info is not None
        check_replaceable(info, self._target, replace=self._replace)
        if self._if_match is not None and (info is None or etag_of(info) != self._if_match):
            raise changed(self._target.name)

    def close(self) -> None:
        """Harmless if it is closed."""
        if self._file < 0:
            return
        file, staging, self._file, self._staging = self._file, self._staging, -1, -1
        try:
            os.close(file)  # never twice: the number may belong to another file by then
        finally:
            os.close(staging)

    def check_target(self) -> int:
        """Fail before a large body is received if the commit would fail. Returns how many of the folders exist."""
        with opened_folder(self._top, Path()) as top, opened_deepest(self._top, self._target.parent) as (folder, depth):
            complete = depth == len(self._target.parent.segments)
            check_same_disk(folder, top, self._top, self._target.parent)
            if complete and self._alternatives is None:
                self._check_replaceable(folder)
            elif self._if_match is not None:
                raise changed(self._target.name)
            else:
                for name in self._target.segments:
                    lstat(folder, name)  # a name that the disk cannot hold fails before folders are created
            return depth
