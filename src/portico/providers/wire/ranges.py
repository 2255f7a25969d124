"""Ranges of a file: what is requested, what was sent, and empty ones, which services have no request for."""

import re
from typing import Self

from portico.model.entries import Download, Entry
from portico.model.errors import beyond_end, changed, is_a_folder, not_found
from portico.providers.wire.responses import malformed_response, size_of

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


def range_header(start: int, stop: int | None, name: str = "Range") -> dict[str, str]:
    """The header of a request for these bytes; none for the whole file."""
    whole = not start and stop is None
    return {} if whole else {name: f"bytes={start}-{'' if stop is None else stop - 1}"}


def whole_size(content_range: str | None, length: int, start: int) -> int:
    """The size of the file of which `length` bytes were sent; `ProviderFailed` if it is another range than requested."""
    if not content_range and not start:
        return length
    sent = _CONTENT_RANGE.fullmatch(content_range or "")
    if not sent or int(sent[1]) != start or int(sent[2]) + 1 - start != length:
        raise malformed_response("another range of a file than was requested")
    return size_of(sent[3])


def empty_download(name: str, entry: Entry | None, start: int, etag: str | None) -> Download:
    """An empty range of what was found, or `RangeNotSatisfiable`."""
    if entry is None:
        raise not_found(name)
    if entry.is_folder:
        raise is_a_folder(name)
    if etag is not None and etag != entry.etag:
        raise changed(name)
    if start > (entry.size or 0):
        raise beyond_end(name, entry.size or 0)
    return Download(entry, start, start, Content(start, start))


class Content:
    """The bytes of a download from `position` up to `stop`. It holds a connection until the end or `aclose`.

    Not a generator: a generator that was never started could not close its connection. This one is empty.
    """

    def __init__(self, position: int, stop: int) -> None:
        self._position = position
        self._stop = stop

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._position >= self._stop:
            await self.aclose()
            raise StopAsyncIteration
        chunk = await self._chunk()
        self._position += len(chunk)
        return chunk

    async def _chunk(self) -> bytes:
        raise NotImplementedError

    def _close(self) -> None:
        """Let go of the connection, if there is one."""

    async def aclose(self) -> None:
        self._stop = self._position
        self._close()
