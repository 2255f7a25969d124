"""Requests to the JSON API: authenticated, with timeouts, and retried if that is safe."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote, urlencode
from urllib.request import getproxies_environment

import aiohttp
from yarl import URL

from portico.providers.gcs.errors import FAILURES, ServiceError, is_temporary, translated
from portico.providers.gcs.responses import OBJECT_FIELDS, ObjectResource, read_error, read_object
from portico.providers.objects.service import name_of
from portico.providers.wire import transport
from portico.providers.wire.responses import retry_seconds

ATTEMPTS = 4
FIRST_WAIT = 0.5
"""The longest wait before the second attempt, in seconds; it doubles with each further attempt."""
LONGEST_WAIT = 10

_OTHER_SUCCESS = {"PUT": 308, "DELETE": 499}
"""Statuses of a resumable upload: 308 is incomplete, 499 is cancelled."""
_PIECE = 256 * 1024
_READ_BUFFER = 512 * 1024


class Credentials(Protocol):
    async def token(self, session: aiohttp.ClientSession) -> str | None:
        """The access token."""

    def discard(self, token: str) -> None:
        """Forget a token that the service no longer accepts."""


@dataclass(slots=True)
class Request:
    method: str
    url: str
    params: Mapping[str, str | None] = field(default_factory=dict)
    """Those that are None are omitted."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Sequence[bytes | memoryview] = ()
    signed: bool = True
    at_most: int = transport.MAX_RESPONSE_BYTES
    """The largest response, in bytes."""

    @property
    def address(self) -> URL:
        query = urlencode({k: v for k, v in self.params.items() if v is not None}, quote_via=quote)
        return URL(f"{self.url}?{query}" if query else self.url, encoded=True)


@dataclass(slots=True)
class Response:
    status: int
    headers: Mapping[str, str]
    body: bytes


class Backoff:
    """Exponential backoff with jitter, and a limit on attempts."""

    def __init__(self) -> None:
        self._failures = 0

    async def after(self, error: Exception, *, again: bool | None = None, deadline: float | None = None) -> None:
        """Wait before the next attempt, or raise the error if there is none in time. `again` overrules the error."""
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
    """One bucket. The HTTP session is opened on first use."""

    def __init__(self, endpoint: str, bucket: str, credentials: Credentials | None, timeout: float) -> None:
        """`credentials`: None for anonymous requests. `timeout`: seconds for a request with all its attempts, or without progress while content is transferred."""
        self.endpoint = endpoint
        self.bucket_url = f"{endpoint}/storage/v1/b/{bucket}"
        self.objects_url = f"{self.bucket_url}/o"
        self.uploads_url = f"{endpoint}/upload/storage/v1/b/{bucket}/o"
        self.bucket = bucket
        self.timeout = timeout
        self._credentials = credentials
        self._session: aiohttp.ClientSession | None = None

    def object_url(self, key: str) -> str:
        return f"{self.objects_url}/{quote(key, safe='')}"

    async def find(self, key: str, within: float | None = None, generation: str | None = None) -> ObjectResource | None:
        """The object, or None; errors are those of `portico.model.errors`. `generation`: of an older version."""
        params = {"fields": OBJECT_FIELDS, "generation": generation}
        request = Request("GET", self.object_url(key), params)
        with translated(name_of(key)):
            try:
                response = await self.call(request, within)
            except ServiceError as error:
                if error.status == 404 and not error.missing_bucket:
                    return None
                raise
        return read_object(response.body)

    async def call(self, request: Request, within: float | None = None) -> Response:
        """The response to a request that may be retried."""
        async with asyncio.timeout(within or self.timeout) as watch:
            backoff = Backoff()
            while True:
                try:
                    return await self.once(request)
                except FAILURES as error:
                    await backoff.after(error, deadline=watch.when())

    async def once(self, request: Request) -> Response:
        """The response to a single attempt; `ServiceError` if it is an error."""
        # aiohttp's own timeout begins when the body is sent. This one also covers a service that stops reading.
        async with asyncio.timeout(self.timeout) as watch:
            with transport.at_most(request.at_most):
                response = await self._success(request, watch)
                async with response:
                    body = await response.read()
        return Response(response.status, response.headers, body)

    async def stream(self, request: Request) -> aiohttp.ClientResponse:
        """As `call`, but the caller reads the body and closes the response."""
        async with asyncio.timeout(self.timeout) as watch:
            backoff = Backoff()
            while True:
                try:
                    return await self._success(request, watch)
                except FAILURES as error:
                    await backoff.after(error, deadline=watch.when())

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    async def _success(self, request: Request, watch: asyncio.Timeout) -> aiohttp.ClientResponse:
        """The response with its body unread. A rejected token is renewed once."""
        credentials = self._credentials if request.signed else None
        for renewed in (False, True):
            token = await credentials.token(self._opened()) if credentials else None
            response = await self._send(request, token, watch)
            if response.status < 300 or response.status == _OTHER_SUCCESS.get(request.method):
                return response
            async with response:
                error_body = read_error(await response.read())
            if response.status != 401 or credentials is None or token is None or renewed:
                break
            credentials.discard(token)
        raise ServiceError(response.status, error_body, retry_seconds(response.headers.get("Retry-After")))

    async def _send(self, request: Request, token: str | None, watch: asyncio.Timeout) -> aiohttp.ClientResponse:
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
                connector=aiohttp.TCPConnector(limit=0),  # slow downloads must not block listings
                timeout=aiohttp.ClientTimeout(
                    total=None, connect=10, sock_connect=transport.CONNECT_SECONDS, sock_read=self.timeout
                ),
                # Looking for a proxy costs every request two hops to a thread, so only if the environment names one.
                trust_env=bool(getproxies_environment()),
                headers={"User-Agent": "portico-gateway", "Accept-Encoding": "identity"},
            )
        return self._session
