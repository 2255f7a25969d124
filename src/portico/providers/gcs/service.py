"""Requests to the JSON interface: signed, timed, and repeated where that is safe."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from portico.providers.gcs.answers import nonsense, read_fault
from portico.providers.gcs.failures import FAILURES, ServiceError, is_temporary

ATTEMPTS = 4
FIRST_WAIT = 0.5
"""Seconds before the second attempt at most; each further wait may be twice as long."""
LONGEST_WAIT = 10
SILENCE = 30.0
"""Seconds without a byte after which a request has failed."""

_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=10, sock_connect=5, sock_read=SILENCE)
_ODD_SUCCESS = {"PUT": 308, "DELETE": 499}
"""What says of a resumable upload that it is not complete, and that it was cancelled."""
_PIECE = 256 * 1024
_READ_BUFFER = 512 * 1024
_LARGEST_ANSWER = 64 * 2**20
_LARGEST_FAULT = 64 * 1024


class Credentials(Protocol):
    async def token(self, session: aiohttp.ClientSession) -> str | None:
        """The access token, or None for anonymous requests."""

    def discard(self, token: str) -> None:
        """The service no longer takes this token."""


@dataclass(slots=True)
class Request:
    method: str
    url: str
    params: Mapping[str, str | None] = field(default_factory=dict)
    """Those that are None are left out."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Sequence[bytes | memoryview] = ()
    signed: bool = True

    @property
    def address(self) -> URL:
        query = urlencode({k: v for k, v in self.params.items() if v is not None}, quote_via=quote)
        return URL(f"{self.url}?{query}" if query else self.url, encoded=True)


@dataclass(slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


class Patience:
    """How often something is tried, and how long to wait before that."""

    def __init__(self) -> None:
        self._failures = 0

    async def after(self, error: Exception, *, again: bool | None = None) -> None:
        """Wait before the next attempt; if none makes sense, raise the error instead."""
        self._failures += 1
        if not (is_temporary(error) if again is None else again) or self._failures >= ATTEMPTS:
            raise error
        wait = random.uniform(0, FIRST_WAIT * 2 ** (self._failures - 1))  # noqa: S311
        if isinstance(error, ServiceError) and error.retry_after:
            wait += min(error.retry_after, LONGEST_WAIT)
        await asyncio.sleep(wait)


class _Response(aiohttp.ClientResponse):
    def close(self) -> None:
        # Closed in the usual way, a connection whose peer no longer reads would linger with what is still to be sent.
        if self.connection is not None and self.connection.transport is not None:
            self.connection.transport.abort()
        super().close()


class Service:
    def __init__(self, endpoint: str, credentials: Credentials) -> None:
        self.endpoint = endpoint
        self._credentials = credentials
        self._session: aiohttp.ClientSession | None = None

    async def call(self, request: Request) -> Answer:
        """The answer to a request that may be repeated."""
        patience = Patience()
        while True:
            try:
                return await self.once(request)
            except FAILURES as error:
                await patience.after(error)

    async def once(self, request: Request) -> Answer:
        """The answer to a single attempt; `ServiceError` if it is no success."""
        response = await self._success(request)
        async with response:
            body = await _read(response, _LARGEST_ANSWER)
        return Answer(response.status, response.headers, body)

    async def stream(self, request: Request) -> aiohttp.ClientResponse:
        """As `call`, but the body is left to the caller, who has to close the response."""
        patience = Patience()
        while True:
            try:
                return await self._success(request)
            except FAILURES as error:
                await patience.after(error)

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    async def _success(self, request: Request) -> aiohttp.ClientResponse:
        """The response, its body unread; a token that was refused is renewed once."""
        for renewed in (False, True):
            token = await self._credentials.token(self._opened()) if request.signed else None
            response = await self._send(request, token)
            if response.status < 300 or response.status == _ODD_SUCCESS.get(request.method):
                return response
            async with response:
                fault = read_fault(await _read(response, _LARGEST_FAULT, cut=True))
            if response.status != 401 or token is None or renewed:
                break
            self._credentials.discard(token)
        raise ServiceError(response.status, fault, _seconds(response.headers.get("Retry-After")))

    async def _send(self, request: Request, token: str | None) -> aiohttp.ClientResponse:
        headers = {"Accept-Encoding": "identity", **request.headers}
        if request.body:
            headers["Content-Length"] = str(sum(map(len, request.body)))
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        # aiohttp's own limit begins when the body is sent: this one also ends a service that stops reading.
        async with asyncio.timeout(SILENCE) as limit:
            return await self._opened().request(
                request.method,
                request.address,
                headers=headers,
                data=_pieces(request.body, limit) if request.body else None,
                allow_redirects=False,
                read_bufsize=_READ_BUFFER,
            )

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # slow downloads must not keep listings waiting
                timeout=_TIMEOUT,
                response_class=_Response,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=True,
                headers={"User-Agent": "portico-gateway"},
            )
        return self._session


async def _pieces(
    body: Sequence[bytes | memoryview], limit: asyncio.Timeout
) -> AsyncIterator[bytes | memoryview]:
    loop = asyncio.get_running_loop()
    for chunk in body:
        view = memoryview(chunk)
        for start in range(0, len(view), _PIECE):
            with suppress(RuntimeError):  # the answer may come before the whole body was sent
                limit.reschedule(loop.time() + SILENCE)
            yield view[start : start + _PIECE]


async def _read(response: aiohttp.ClientResponse, most: int, *, cut: bool = False) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := await response.content.readany():
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            response.close()
            if not cut:
                raise nonsense(f"an answer of more than {most} bytes")
            break
    return b"".join(chunks)[:most]


def _seconds(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None
