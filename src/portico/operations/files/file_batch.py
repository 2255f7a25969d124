"""`FileBatch`: the files of a form, of which small ones are stored while the next ones arrive."""

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

from portico.model.entries import Entry
from portico.model.reach import folded
from portico.operations.files.upload import Upload

_AT_ONCE = 16
_FILE_BYTES = 64 * 1024
"""A larger file is stored as it arrives, and the next one is read after that."""
_HELD_BYTES = 256 * 1024
"""Of all files that wait for the storage."""


class FileBatch:
    """An asynchronous context; its end waits for all files.

    If some fail, the error is that of the first one, and only that one has failed: of the others that are not stored, the
    client learns nothing, and sends them again.
    """

    def __init__(self, upload: Upload) -> None:
        self._upload = upload
        self._files: list[tuple[str, asyncio.Task[Entry]]] = []
        """In the order of the form."""
        self._held: dict[asyncio.Task[Entry], tuple[str, int]] = {}
        """The name, in one case, and the size of each file that is not stored yet."""
        self._names: set[str] = set()
        self._failed: asyncio.Task[Entry] | None = None

    async def store(self, name: str, chunks: AsyncIterator[bytes], content_type: str | None, **options: Any) -> None:
        """As `Upload.store`, but returns as soon as all bytes have been read. Raises if an earlier file has failed."""
        if self._failed:
            self._failed.result()
        key = folded(name)
        while len(self._held) >= _AT_ONCE or any(key == other for other, _ in self._held.values()):
            await self._wait()
        held = _Held(chunks)
        if not self._upload.is_repeatable and name not in self._names:  # a name that comes twice is refused
            await held.read(_FILE_BYTES)
        self._names.add(name)
        while self._held and held.size + sum(size for _, size in self._held.values()) > _HELD_BYTES:
            await self._wait()
        task = asyncio.create_task(self._upload.store(name, held.chunks(), content_type, **options))
        self._files.append((name, task))
        if not held.is_whole:
            await task
            return
        self._held[task] = key, held.size
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[Entry]) -> None:
        del self._held[task]
        if not task.cancelled() and task.exception():
            self._failed = self._failed or task

    async def _wait(self) -> None:
        await asyncio.wait(self._held, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0)  # its end is noted
        if self._failed:
            self._failed.result()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        tasks = [task for _, task in self._files]
        if error is not None and not isinstance(error, Exception):
            for task in tasks:
                task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        failures = [(name, task.exception()) for name, task in self._files if not task.cancelled() and task.exception()]
        self._upload.stored[:] = [task.result() for task in tasks if not (task.cancelled() or task.exception())]
        if failures and (error is None or isinstance(error, Exception)):
            name, first = failures[0]
            self._upload.failed[:] = [name]
            if first is not error and first is not None:
                raise first


class _Held:
    """The chunks of a file, of which the first ones are read ahead."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._ahead: list[bytes] = []
        self._error: Exception | None = None
        self.size = 0
        self.is_whole = False
        """Whether nothing more has to be read."""

    async def read(self, at_most: int) -> None:
        try:
            while self.size <= at_most:
                self._ahead.append(await anext(self._chunks))
                self.size += len(self._ahead[-1])
        except StopAsyncIteration:
            self.is_whole = True
        except Exception as error:  # the file fails with it
            self._error, self.is_whole = error, True

    async def chunks(self) -> AsyncIterator[bytes]:
        while self._ahead:
            yield self._ahead.pop(0)
        if self._error:
            raise self._error
        if not self.is_whole:
            async for chunk in self._chunks:
                yield chunk
