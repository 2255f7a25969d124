"""Downloads: reading an object, or a range of it."""

import re
from collections.abc import AsyncIterator
from typing import Any, Self

from portico.model.entries import Download
from portico.model.errors import PorticoError, RangeNotSatisfiable, beyond_end, changed
from portico.providers.objects.service import name_of
from portico.providers.s3.errors import translated
from portico.providers.s3.listing import entry_of, require
from portico.providers.s3.service import Service
from portico.providers.wire.responses import malformed_response

_CHUNK_BYTES = 2**20
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


async def open_object(service: Service, key: str, start: int, stop: int | None, etag: str | None) -> Download:
    """As `ObjectService.open`."""
    if stop is not None and stop <= start:
        return await _open_empty(service, key, start, etag)
    ranged = start > 0 or stop is not None
    byte_range = {"Range": f"bytes={start}-{'' if stop is None else stop - 1}"} if ranged else {}
    condition = {"IfMatch": f'"{etag}"'} if etag is not None else {}
    try:
        response = await service.call("get_object", Key=key, **byte_range, **condition)
    except RangeNotSatisfiable:
        return await _open_empty(service, key, start, etag)
    content = S3Content(response["Body"], max(0, response.get("ContentLength", 0)))
    try:
        return _download(key, response, content, start if ranged else None)
    except PorticoError:
        await content.aclose()
        raise


async def _open_empty(service: Service, key: str, start: int, etag: str | None) -> Download:
    """An empty range, which the service has no request for, or `RangeNotSatisfiable`."""
    entry = entry_of(key, await service.call("head_object", Key=key))
    size = entry.size or 0
    if etag is not None and entry.etag != etag:
        raise changed(name_of(key))
    if start > size:
        raise beyond_end(name_of(key), size)
    return Download(entry, start, start, NoContent())


def _download(key: str, response: dict[str, Any], content: "S3Content", start: int | None) -> Download:
    """The download, if the response holds what was requested; `start` is None if no range was."""
    size: int = require(response, "ContentLength")
    if start is None:
        return Download(entry_of(key, response), 0, size, content)
    sent = _CONTENT_RANGE.fullmatch(response.get("ContentRange", ""))
    if not sent or int(sent[1]) != start or int(sent[2]) + 1 - start != size:
        raise malformed_response("another range of an object than was requested")
    return Download(entry_of(key, response, int(sent[3])), start, start + size, content)


class S3Content:
    """The body of a response. It holds a connection until it is closed or read to the end."""

    def __init__(self, body: Any, size: int) -> None:
        self._body = body
        self._left = size

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            await self.aclose()
            raise StopAsyncIteration
        with translated():
            chunk: bytes = await self._body.read(min(_CHUNK_BYTES, self._left))
        if not chunk:
            await self.aclose()
            raise malformed_response("less content than it announced")
        self._left -= len(chunk)
        return chunk

    async def aclose(self) -> None:
        self._left = 0
        self._body.close()


class NoContent:
    """The content of an empty range."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration

    async def aclose(self) -> None:
        return
