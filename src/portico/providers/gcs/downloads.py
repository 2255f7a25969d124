"""Reading an object: one request, and more only where its connection breaks."""

from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime
from typing import Self

import aiohttp

from portico import timestamps
from portico.entries import Download, Entry, guess_content_type
from portico.errors import Changed, NotFound, RangeNotSatisfiable
from portico.providers.answers import nonsense, size_of
from portico.providers.gcs.checksums import Checksum
from portico.providers.gcs.failures import FAILURES, ServiceError, translated
from portico.providers.gcs.service import Patience, Request, Service


class ObjectReader:
    """One object; `find` looks it up where a download's headers do not say enough."""

    def __init__(
        self, service: Service, url: str, key: str, find: Callable[[str], Awaitable[Entry | None]]
    ) -> None:
        self._service = service
        self._url = url
        self._key = key
        self._name = key.rpartition("/")[2]
        self._find = find

    async def open(self, start: int, stop: int | None, etag: str | None) -> Download:
        if (stop is not None and stop <= start) or (etag is not None and not etag.isdigit()):
            return await self._empty(start, etag)
        with translated(self._name):
            try:
                response = await self._media(start, stop, {"ifGenerationMatch": etag})
            except ServiceError as error:
                if error.status == 416:
                    return await self._empty(start, etag)
                if error.status == 412:
                    raise self._changed() from None
                raise
            try:
                entry = await self._entry(response)
            except BaseException:
                response.close()
                raise
        assert entry.size is not None
        end = entry.size if stop is None else min(stop, entry.size)

        async def reopen(position: int) -> aiohttp.ClientResponse:
            try:
                return await self._media(position, end, {"generation": entry.etag})
            except ServiceError as error:
                if error.status == 404:
                    raise self._changed() from None
                raise

        return Download(entry, start, end, Content(self._name, response, start, end, reopen))

    async def _media(
        self, start: int, stop: int | None, version: dict[str, str | None]
    ) -> aiohttp.ClientResponse:
        # Without this header the service would unpack what is stored with `Content-Encoding: gzip`.
        headers = {"Accept-Encoding": "gzip"}
        if start or stop is not None:
            headers["Range"] = f"bytes={start}-{'' if stop is None else stop - 1}"
        response = await self._service.stream(Request("GET", self._url, {"alt": "media", **version}, headers))
        begins = f"bytes {start}-"
        if not response.headers.get("Content-Range", "bytes 0-").startswith(begins):
            response.close()
            raise nonsense("content that does not begin where it was asked to")
        return response

    async def _entry(self, response: aiohttp.ClientResponse) -> Entry:
        headers = response.headers
        told = headers.get("Content-Range" if response.status == 206 else "Content-Length", "")
        size, etag = told.rpartition("/")[2], headers.get("X-Goog-Generation", "")
        if not (etag.isascii() and etag.isdigit() and len(etag) < 32):
            raise nonsense("content without its generation")
        modified = _stamp(headers.get("Last-Modified"))
        if modified is None:  # the JSON interface does not promise it
            found = await self._find(self._key)
            if found is None or found.etag != etag:
                raise self._changed()
            modified = found.last_modified
        kind = headers.get("Content-Type") or guess_content_type(self._name)
        return Entry(self._key, False, size_of(size), modified, kind, etag)

    async def _empty(self, start: int, etag: str | None) -> Download:
        """A download of no bytes, for which there is no request, or the reason why there is none."""
        entry = await self._find(self._key)
        if entry is None:
            raise NotFound(f"There is no '{self._name}'.")
        if etag is not None and etag != entry.etag:
            raise self._changed()
        if start > (entry.size or 0):
            raise RangeNotSatisfiable(f"'{self._name}' has only {entry.size} bytes.", size=entry.size or 0)
        return Download(entry, start, start, Content(self._name, None, start, start, None))

    def _changed(self) -> Changed:
        return Changed(f"'{self._name}' has changed meanwhile; start the download again.")


class Content:
    """The bytes from `start` up to `stop`; a connection that breaks is replaced where it broke, for the same version.

    Not a generator: one that was never started cannot close its connection.
    """

    def __init__(
        self,
        name: str,
        response: aiohttp.ClientResponse | None,
        start: int,
        stop: int,
        reopen: Callable[[int], Awaitable[aiohttp.ClientResponse]] | None,
    ) -> None:
        self._name = name
        self._response = response
        self._position = start
        self._stop = stop
        self._reopen = reopen
        self._patience = Patience()
        self._checksum = Checksum()
        self._hashes = ""
        if response is not None and response.status == 200 and response.content_length == stop:
            self._hashes = response.headers.get("X-Goog-Hash", "")  # of the whole object, as it is stored

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        with translated(self._name):
            while self._position < self._stop:
                try:
                    return await self._chunk()
                except FAILURES as error:
                    await self._patience.after(error)
        await self.aclose()
        if self._hashes and not self._checksum.fits_header(self._hashes):
            raise nonsense("content with another checksum than it was announced with")
        raise StopAsyncIteration

    async def aclose(self) -> None:
        if self._response is not None:
            if self._response.content.at_eof():
                self._response.release()
            else:
                self._response.close()  # what was not read would have to be, before the connection is of use again
            self._response = None
        self._stop = self._position

    async def _chunk(self) -> bytes:
        if self._response is None:
            assert self._reopen is not None
            self._response = await self._reopen(self._position)
        try:
            chunk = await self._response.content.readany()
        except FAILURES:
            self._response.close()
            self._response = None
            raise
        if not chunk:
            raise nonsense(f"{self._stop - self._position} bytes of content less than it had announced")
        chunk = chunk[: self._stop - self._position]
        self._position += len(chunk)
        if self._hashes:
            self._checksum.add((chunk,))
        return chunk


def _stamp(text: str | None) -> str | None:
    try:
        return timestamps.from_datetime(parsedate_to_datetime(text)) if text else None
    except ValueError:
        raise nonsense("a Last-Modified that no calendar has") from None
