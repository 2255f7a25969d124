"""Downloads: one request, and further ones if its connection breaks."""

import asyncio
from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime

import aiohttp

from portico.model import timestamps
from portico.model.entries import Download, Entry, guess_content_type
from portico.model.errors import changed
from portico.providers.gcs.checksums import Checksum
from portico.providers.gcs.errors import FAILURES, ServiceError, translated
from portico.providers.gcs.service import Backoff, Request, Service
from portico.providers.objects.service import name_of
from portico.providers.wire.ranges import Content, empty_download, range_header
from portico.providers.wire.responses import malformed_response, size_of

_CHUNK = 2**20
"""More than this may have arrived before the content is read."""


async def open_object(service: Service, key: str, start: int, stop: int | None, etag: str | None) -> Download:
    """As `ObjectService.open`."""
    # The content comes without the metadata, which has the time of the file: both are asked for at once.
    finding = asyncio.create_task(_find(service, key))
    try:
        if (stop is not None and stop <= start) or (etag is not None and not etag.isdigit()):
            return empty_download(name_of(key), await finding, start, etag)
        return await _open(service, key, start, stop, etag, finding)
    finally:
        finding.cancel()
        await asyncio.wait([finding])
        if not finding.cancelled():
            finding.exception()  # retrieved: it did not matter


async def _find(service: Service, key: str) -> Entry | None:
    found = await service.find(key)
    return found.entry() if found else None


async def _open(
    service: Service, key: str, start: int, stop: int | None, etag: str | None, finding: asyncio.Task[Entry | None]
) -> Download:
    name = name_of(key)
    with translated(name):
        try:
            response = await _media(service, key, start, stop, {"ifGenerationMatch": etag})
        except ServiceError as error:
            if error.status == 416:
                return empty_download(name, await finding, start, etag)
            if error.status == 412:
                raise changed(name) from None
            raise
        try:
            entry = await _entry(key, response, finding)
        except BaseException:
            response.close()
            raise
    assert entry.size is not None
    end = entry.size if stop is None else min(stop, entry.size)

    async def reopen(position: int) -> aiohttp.ClientResponse:
        try:
            return await _media(service, key, position, end, {"generation": entry.etag})
        except ServiceError as error:
            if error.status == 404:
                raise changed(name) from None
            raise

    return Download(entry, start, end, GcsContent(name, response, start, end, reopen))


async def _media(
    service: Service, key: str, start: int, stop: int | None, version: dict[str, str | None]
) -> aiohttp.ClientResponse:
    # Without this header the service would decompress what is stored with `Content-Encoding: gzip`.
    headers = {"Accept-Encoding": "gzip"} | range_header(start, stop)
    response = await service.stream(Request("GET", service.object_url(key), {"alt": "media", **version}, headers))
    begins = f"bytes {start}-"
    if not response.headers.get("Content-Range", "bytes 0-").startswith(begins):
        response.close()
        raise malformed_response("content that does not begin at the requested byte")
    return response


async def _entry(key: str, response: aiohttp.ClientResponse, finding: asyncio.Task[Entry | None]) -> Entry:
    headers = response.headers
    value = headers.get("Content-Range" if response.status == 206 else "Content-Length", "")
    size, etag = value.rpartition("/")[2], headers.get("X-Goog-Generation", "")
    if not (etag.isascii() and etag.isdigit() and len(etag) < 32):
        raise malformed_response("content without its generation")
    uploaded = _stamp(headers.get("Last-Modified"))  # refused if it makes no sense, also where it is not needed
    found = await finding
    modified = found.last_modified if found and found.etag == etag else uploaded
    if modified is None:
        raise changed(name_of(key))
    kind = headers.get("Content-Type") or guess_content_type(name_of(key))
    return Entry(key, False, size_of(size), modified, kind, etag)


class GcsContent(Content):
    """A broken connection is replaced, for the same version."""

    def __init__(
        self,
        name: str,
        response: aiohttp.ClientResponse,
        start: int,
        stop: int,
        reopen: Callable[[int], Awaitable[aiohttp.ClientResponse]],
    ) -> None:
        super().__init__(start, stop)
        self._name = name
        self._response: aiohttp.ClientResponse | None = response
        self._reopen = reopen
        self._backoff = Backoff()
        self._checksum = Checksum()
        self._hashes = ""
        if response.status == 200 and response.content_length == stop:
            self._hashes = response.headers.get("X-Goog-Hash", "")  # of the whole object as stored

    async def __anext__(self) -> bytes:
        try:
            return await super().__anext__()
        except StopAsyncIteration:
            if self._hashes and not self._checksum.matches_header(self._hashes):
                raise malformed_response("content with another checksum than announced") from None
            raise

    async def _chunk(self) -> bytes:
        with translated(self._name):
            while True:
                try:
                    return await self._piece()
                except FAILURES as error:
                    await self._backoff.after(error)

    def _close(self) -> None:
        if self._response is not None:
            if self._response.content.at_eof():
                self._response.release()
            else:
                self._response.close()  # unread content would have to be read before the connection could be reused
            self._response = None

    async def _piece(self) -> bytes:
        if self._response is None:
            self._response = await self._reopen(self._position)
        try:
            chunk = await self._response.content.read(_CHUNK)
        except FAILURES:
            self._response.close()
            self._response = None
            raise
        if not chunk:
            raise malformed_response(f"{self._stop - self._position} bytes of content less than announced")
        chunk = chunk[: self._stop - self._position]
        if self._hashes:
            self._checksum.add((chunk,))
        return chunk


def _stamp(text: str | None) -> str | None:
    try:
        return timestamps.from_datetime(parsedate_to_datetime(text)) if text else None
    except ValueError:
        raise malformed_response("an invalid Last-Modified") from None
