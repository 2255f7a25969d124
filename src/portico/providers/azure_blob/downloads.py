"""Downloads: reading a blob, or a range of it, all of one version, even if the connection breaks."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Self

from azure.core.exceptions import AzureError, IncompleteReadError, ServiceResponseTimeoutError

from portico.model.entries import Download
from portico.model.errors import beyond_end, changed, is_a_folder, not_found
from portico.providers.azure_blob.listing import entry_of
from portico.providers.azure_blob.service import Container
from portico.providers.azure_common.errors import ServiceError, translated
from portico.providers.azure_common.service import Stream
from portico.providers.objects.service import name_of
from portico.providers.wire.responses import size_of

_ATTEMPTS = 4


async def open_blob(
    container: Container, key: str, start: int, stop: int | None, etag: str | None
) -> Download:
    """As `ObjectService.open`."""
    name = name_of(key)
    with translated(name):
        if start == stop:
            return await _open_empty(container, key, start, etag)
        try:
            stream = await container.read(key, start, stop, etag)
        except ServiceError as error:
            if error.status == 416:
                return await _open_empty(container, key, start, etag)
            raise
    try:
        size = _blob_size(stream)
        entry = entry_of(key, stream.headers, size)
        if entry.is_folder:
            raise is_a_folder(name)
    except BaseException:
        stream.close()
        raise
    end = size if stop is None else min(stop, size)

    async def reopen(position: int) -> Stream:
        return await container.read(key, position, end, entry.etag)

    return Download(entry, start, end, BlobContent(name, stream, start, end, reopen))


async def _open_empty(container: Container, key: str, start: int, etag: str | None) -> Download:
    """An empty range, which the service has no request for, or `RangeNotSatisfiable`."""
    entry = await container.find(key)
    name = name_of(key)
    if entry is None:
        raise not_found(name)
    if entry.is_folder:
        raise is_a_folder(name)
    if etag is not None and etag != entry.etag:
        raise changed(name)
    if start > (entry.size or 0):
        raise beyond_end(name, entry.size or 0)
    return Download(entry, start, start, BlobContent(name, None, start, start, None))


def _blob_size(stream: Stream) -> int:
    """The size of the blob, whichever range of it was requested."""
    ranged = stream.headers.get("Content-Range", "").rpartition("/")[2]
    return size_of(ranged or stream.headers.get("Content-Length", ""))


class BlobContent:
    """The chunks of a download. It holds a connection until the end or `aclose`, whether it is read or not."""

    def __init__(
        self,
        name: str,
        stream: Stream | None,
        start: int,
        stop: int,
        reopen: Callable[[int], Awaitable[Stream]] | None,
    ) -> None:
        """`reopen`: opens the same version of the blob at another position."""
        self._name = name
        self._stream = stream
        self._position = start
        self._stop = stop
        self._reopen = reopen

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._position >= self._stop:
            await self.aclose()
            raise StopAsyncIteration
        with translated(self._name):
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    return await self._chunk()
                except AzureError as error:
                    await self.aclose()
                    if attempt == _ATTEMPTS or isinstance(error, ServiceResponseTimeoutError):
                        raise
                    await asyncio.sleep(random.uniform(0.25, 0.5) * attempt)  # noqa: S311  (no secret)
        raise AssertionError

    async def _chunk(self) -> bytes:
        if self._stream is None:
            assert self._reopen is not None
            self._stream = await self._reopen(self._position)
        chunk = await self._stream.piece()
        if not chunk or len(chunk) > self._stop - self._position:
            raise IncompleteReadError("the content has another length than announced")
        self._position += len(chunk)
        return chunk

    async def aclose(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
