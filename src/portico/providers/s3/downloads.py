"""Downloads: reading an object, or a range of it."""

from typing import Any

from portico.model.entries import Download
from portico.model.errors import PorticoError, RangeNotSatisfiable, changed
from portico.providers.objects.service import name_of
from portico.providers.s3.errors import translated
from portico.providers.s3.listing import entry_of, require
from portico.providers.s3.service import Service
from portico.providers.wire.ranges import Content, empty_download, range_header, whole_size
from portico.providers.wire.responses import malformed_response

_CHUNK_BYTES = 2**20


async def open_object(service: Service, key: str, start: int, stop: int | None, etag: str | None) -> Download:
    """As `ObjectService.open`."""
    if stop is not None and stop <= start:
        return await _open_empty(service, key, start, etag)
    wanted = range_header(start, stop)
    condition = {"IfMatch": f'"{etag}"'} if etag is not None else {}
    try:
        response = await service.call("get_object", Key=key, **wanted, **condition)
    except RangeNotSatisfiable:
        return await _open_empty(service, key, start, etag)
    content = S3Content(response["Body"], max(0, response.get("ContentLength", 0)))
    try:
        length: int = require(response, "ContentLength")
        if wanted and "ContentRange" not in response:
            raise malformed_response("a whole object instead of a range")
        size = whole_size(response.get("ContentRange"), length, start)
        entry = entry_of(key, response, size)
        if etag is not None and entry.etag != etag:  # some services ignore the condition
            raise changed(name_of(key))
        return Download(entry, start, start + length, content)
    except PorticoError:
        await content.aclose()
        raise


async def _open_empty(service: Service, key: str, start: int, etag: str | None) -> Download:
    found = await service.head(key)
    return empty_download(name_of(key), entry_of(key, found) if found else None, start, etag)


class S3Content(Content):
    def __init__(self, body: Any, size: int) -> None:
        super().__init__(0, size)
        self._body = body

    async def _chunk(self) -> bytes:
        with translated():
            chunk: bytes = await self._body.read(min(_CHUNK_BYTES, self._stop - self._position))
        if not chunk:
            await self.aclose()
            raise malformed_response("less content than it announced")
        return chunk

    def _close(self) -> None:
        self._body.close()
