"""HTTP for all SDKs and credential sources: no redirects, bounded responses.

The SDKs follow redirects and read a response to its end before they look at it. All of them use aiohttp, so both are
prevented there, once.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar

import aiohttp
from aiohttp import hdrs

from portico.model.errors import ProviderFailed
from portico.providers.wire.responses import malformed_response

if TYPE_CHECKING:
    from aiohttp.connector import Connection

CONNECT_SECONDS = 5.0
MAX_RESPONSE_BYTES = 2**20
"""The largest response unless more is expected."""
MAX_ERROR_BYTES = 64 * 1024
MAX_PAGE_BYTES = 16 * 2**20
_PAGE_FRAME = 64 * 1024
_LARGE = 2**20
_CONCURRENT_LARGE = 4
"""How many responses larger than `_LARGE` a connection holds at the same time, which bounds its memory."""

_expected: ContextVar[int] = ContextVar("expected", default=MAX_RESPONSE_BYTES)


class ResponseTooLarge(ProviderFailed):
    """The service sent more than any valid response has."""


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Limit the size of responses in this context. Not an argument, because the SDKs would not pass it on."""
    token = _expected.set(count)
    try:
        yield
    finally:
        _expected.reset(token)


def extend(watch: asyncio.Timeout, seconds: float) -> None:
    """Restart the timeout after progress. It may have ended: the response can arrive before the whole body was sent."""
    with suppress(RuntimeError):
        watch.reschedule(asyncio.get_running_loop().time() + seconds)


def page_bytes(entries: int, each: int) -> int:
    """The largest page of so many entries; `each` is the size of the largest entry."""
    return min(entries * each + _PAGE_FRAME, MAX_PAGE_BYTES)


class BoundedResponse(aiohttp.ClientResponse):
    large: ClassVar[asyncio.Semaphore]
    _cut = False

    async def start(self, connection: "Connection") -> "BoundedResponse":
        await super().start(connection)
        if 300 <= self.status < 400 and (hdrs.LOCATION in self.headers or hdrs.URI in self.headers):
            raise malformed_response(
                f"a redirect to another address ({self.status}), which is not followed: "
                "check the connection's own address"
            )
        return self

    async def read(self) -> bytes:
        """The body, limited to what is expected; an error is truncated instead of refused."""
        if self._body is None:
            try:
                self._body = await self._bounded()
            except BaseException:
                self.close()
                raise
        return self._body if self._cut else await super().read()

    def close(self) -> None:
        # Aborted, because a connection whose peer no longer reads would otherwise linger until all is sent.
        if self.connection is not None and self.connection.transport is not None:
            self.connection.transport.abort()
        super().close()

    async def _bounded(self) -> bytes:
        most = MAX_ERROR_BYTES if self.status >= 300 else _expected.get()
        if self.status < 300 and self.method != hdrs.METH_HEAD and (self.content_length or 0) > most:
            raise _too_large(most)
        chunks: list[bytes] = []
        size = 0
        waited = False
        try:
            while chunk := await self.content.readany():
                chunks.append(chunk)
                size += len(chunk)
                if size > most:
                    break
                if size > _LARGE and not waited:
                    await self.large.acquire()
                    waited = True
        finally:
            if waited:
                self.large.release()
        if size and self.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
            # It was not requested, and decompressed it could be a thousand times larger.
            raise malformed_response("a compressed response")
        if size > most:
            if self.status < 300:
                raise _too_large(most)
            self._cut = True
            self.close()
        return b"".join(chunks)[:most]


def session(**options: Any) -> aiohttp.ClientSession:
    """A session with these limits. It ignores cookies, which could fill the memory."""
    bounded = type("BoundedResponse", (BoundedResponse,), {"large": asyncio.Semaphore(_CONCURRENT_LARGE)})
    return aiohttp.ClientSession(
        response_class=bounded, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, **options
    )


def _too_large(most: int) -> ResponseTooLarge:
    error = malformed_response(f"a response of more than {most:,} bytes")
    return ResponseTooLarge(error.detail, cause=error.cause)
