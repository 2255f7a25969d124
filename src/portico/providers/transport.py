"""What every answer is held to, of a service and of where its credentials come from: it ends, and leads nowhere else.

The SDKs follow redirects, and read an answer to its end before they look at it. All of them use aiohttp in the end,
so both are refused there, once.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar

import aiohttp
from aiohttp import hdrs

from portico.errors import ProviderFailed
from portico.providers.answers import nonsense

if TYPE_CHECKING:
    from aiohttp.connector import Connection

CONNECT_SECONDS = 5.0
LARGEST_ANSWER = 2**20
"""Bytes of an answer about one thing, unless more is expected."""
LARGEST_ERROR = 64 * 1024
LARGEST_PAGE = 16 * 2**20
_PAGE_FRAME = 64 * 1024
_LARGE = 2**20
_LARGE_AT_ONCE = 4
"""Answers of more than `_LARGE` that one connection holds at the same time: what a hostile one fills is bounded."""

_expected: ContextVar[int] = ContextVar("expected", default=LARGEST_ANSWER)


class TooLargeAnswer(ProviderFailed):
    """The service sent more than can be meant."""


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Within this, an answer may have so many bytes. It is not an argument, because SDKs would not hand it on."""
    token = _expected.set(count)
    try:
        yield
    finally:
        _expected.reset(token)


def extend(watch: asyncio.Timeout, seconds: float) -> None:
    """Count the deadline from now, because bytes were taken.

    Without effect after its end: the answer may come before the whole body was sent.
    """
    with suppress(RuntimeError):
        watch.reschedule(asyncio.get_running_loop().time() + seconds)


def page_bytes(entries: int, each: int) -> int:
    """How large a page of so many entries may be; `each` is what the service needs for the longest of them."""
    return min(entries * each + _PAGE_FRAME, LARGEST_PAGE)


class Response(aiohttp.ClientResponse):
    large: ClassVar[asyncio.Semaphore]
    _cut = False

    async def start(self, connection: "Connection") -> "Response":
        await super().start(connection)
        if 300 <= self.status < 400 and (hdrs.LOCATION in self.headers or hdrs.URI in self.headers):
            raise nonsense(
                f"a redirect to another address ({self.status}), which is not followed: check the connection's own address"
            )
        return self

    async def read(self) -> bytes:
        """As it is, but no more than was expected; of an error only the beginning."""
        if self._body is None:
            try:
                self._body = await self._bounded()
            except BaseException:
                self.close()
                raise
        return self._body if self._cut else await super().read()

    def close(self) -> None:
        # Closed in the usual way, a connection whose peer no longer reads would linger with what is still to be sent.
        if self.connection is not None and self.connection.transport is not None:
            self.connection.transport.abort()
        super().close()

    async def _bounded(self) -> bytes:
        most = LARGEST_ERROR if self.status >= 300 else _expected.get()
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
            # Nobody asked for it; unpacked, it could be a thousand times as much.
            raise nonsense("a compressed answer")
        if size > most:
            if self.status < 300:
                raise _too_large(most)
            self._cut = True
            self.close()
        return b"".join(chunks)[:most]


def session(**options: Any) -> aiohttp.ClientSession:
    """A session whose answers are held to that. Cookies are not kept: whoever sends them could fill the memory."""
    bounded = type("Response", (Response,), {"large": asyncio.Semaphore(_LARGE_AT_ONCE)})
    return aiohttp.ClientSession(
        response_class=bounded, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, **options
    )


def _too_large(most: int) -> TooLargeAnswer:
    error = nonsense(f"an answer of more than {most:,} bytes, which cannot be meant")
    return TooLargeAnswer(error.detail, cause=error.cause)
