"""Requests to the JSON interface: signed, timed, and repeated where that is safe."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from portico.providers import transport
from portico.providers.gcs.answers import read_fault
from portico.providers.gcs.failures import FAILURES, ServiceError, is_temporary

ATTEMPTS = 4
FIRST_WAIT = 0.5
"""Seconds before the second attempt at most; each further wait may be twice as long."""
LONGEST_WAIT = 10

_ODD_SUCCESS = {"PUT": 308, "DELETE": 499}
"""What says of a resumable upload that it is not complete, and that it was cancelled."""
_PIECE = 256 * 1024
_READ_BUFFER = 512 * 1024


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
    at_most: int = transport.LARGEST_ANSWER
    """Bytes of the answer."""

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

    async def after(
        self, error: Exception, *, again: bool | None = None, deadline: float | None = None
    ) -> None:
        """Wait before the next attempt; if none makes sense or the deadline is before it, raise the error instead."""
        self._failures += 1
        if not (is_temporary(error) if again is None else again) or self._failures >= ATTEMPTS:
            raise error
        wait = random.uniform(0, FIRST_WAIT * 2 ** (self._failures - 1))  # noqa: S311
        if isinstance(error, ServiceError) and error.retry_after:
            wait += min(error.retry_after, LONGEST_WAIT)
        if deadline is not None and asyncio.get_running_loop().time() + wait >= deadline:
            raise error
        await asyncio.sleep(wait)


class Service:
    def __init__(self, endpoint: str, credentials: Credentials, timeout: float) -> None:
        """`timeout`: seconds that a request may take with all its attempts, or be silent while content moves."""
        self.endpoint = endpoint
        self.timeout = timeout
        self._credentials = credentials
        self._session: aiohttp.ClientSession | None = None

    async def call(self, request: Request, within: float | None = None) -> Answer:
        """The answer to a request that may be repeated."""
        async with asyncio.timeout(within or self.timeout) as watch:
            patience = Patience()
            while True:
                try:
                    return await self.once(request)
                except FAILURES as error:
                    await patience.after(error, deadline=watch.when())

    async def once(self, request: Request) -> Answer:
        """The answer to a single attempt; `ServiceError` if it is no success."""
        # aiohttp's own limit begins when the body is sent: this one also ends a service that stops reading.
        async with asyncio.timeout(self.timeout) as watch:
            with transport.at_most(request.at_most):
                response = await self._success(request, watch)
                async with response:
                    body = await response.read()
        return Answer(response.status, response.headers, body)

    async def stream(self, request: Request) -> aiohttp.ClientResponse:
        """As `call`, but the body is left to the caller, who has to close the response."""
        async with asyncio.timeout(self.timeout) as watch:
            patience = Patience()
            while True:
                try:
                    return await self._success(request, watch)
                except FAILURES as error:
                    await patience.after(error, deadline=watch.when())

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    async def _success(self, request: Request, watch: asyncio.Timeout) -> aiohttp.ClientResponse:
        """The response, its body unread; a token that was refused is renewed once."""
        for renewed in (False, True):
            token = await self._credentials.token(self._opened()) if request.signed else None
            response = await self._send(request, token, watch)
            if response.status < 300 or response.status == _ODD_SUCCESS.get(request.method):
                return response
            async with response:
                fault = read_fault(await response.read())
            if response.status != 401 or token is None or renewed:
                break
            self._credentials.discard(token)
        raise ServiceError(response.status, fault, _seconds(response.headers.get("Retry-After")))

    async def _send(
        self, request: Request, token: str | None, watch: asyncio.Timeout
    ) -> aiohttp.ClientResponse:
        headers = {"Accept-Encoding": "identity", **request.headers}
        if request.body:
            headers["Content-Length"] = str(sum(map(len, request.body)))
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return await self._opened().request(
            request.method,
            request.address,
            headers=headers,
            data=self._pieces(request.body, watch) if request.body else None,
            allow_redirects=False,
            read_bufsize=_READ_BUFFER,
        )

    async def _pieces(
        self, body: Sequence[bytes | memoryview], watch: asyncio.Timeout
    ) -> AsyncIterator[bytes | memoryview]:
        for chunk in body:
            view = memoryview(chunk)
            for start in range(0, len(view), _PIECE):
                transport.extend(watch, self.timeout)
                yield view[start : start + _PIECE]

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = transport.session(
                connector=aiohttp.TCPConnector(limit=0),  # slow downloads must not keep listings waiting
                timeout=aiohttp.ClientTimeout(
                    total=None, connect=10, sock_connect=transport.CONNECT_SECONDS, sock_read=self.timeout
                ),
                trust_env=True,
                headers={"User-Agent": "portico-gateway", "Accept-Encoding": "identity"},
            )
        return self._session


def _seconds(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None
