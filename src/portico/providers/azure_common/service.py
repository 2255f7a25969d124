"""Requests through the SDK's pipeline, which signs, sends and retries them; the bodies are ours.

The SDK's operations turn every response into objects, which costs a hundred times more than the transport. So we build
the requests ourselves, and use the SDK for what is hard to get right: signatures, identities and retries.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote
from urllib.request import getproxies_environment

from aiohttp import ClientSession, TCPConnector, TraceConfig
from azure.core.exceptions import AzureError, ServiceResponseTimeoutError
from azure.core.pipeline.transport import AioHttpTransport, HttpRequest
from azure.storage.blob.aio import ExponentialRetry

from portico.model.errors import PorticoError, ProviderFailed, ProviderTimeout
from portico.providers.azure_common.credentials import AzureAccess
from portico.providers.azure_common.errors import ServiceError
from portico.providers.contract.provider import TIMEOUT_SECONDS
from portico.providers.wire import transport

ATTEMPTS = 4
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 5.0
_STALLED_SECONDS = 300.0
"""A copy without progress for this long is given up."""
_PIECE = 2**20
"""The most bytes that are read from or passed to a connection at once."""


class Body:
    """Content as the chunks that arrived. It can be sent again."""

    def __init__(self, chunks: Iterable[bytes], size: int) -> None:
        self._chunks = chunks
        self.size = size
        self.progress: Callable[[], None] = lambda: None
        """Called for each piece that is sent."""

    async def __aiter__(self) -> AsyncIterator[bytes | memoryview]:
        for chunk in self._chunks:
            view = memoryview(chunk)
            for start in range(0, len(chunk), _PIECE):
                self.progress()
                yield view[start : start + _PIECE]
        self.progress()


@dataclass(slots=True)
class Response:
    status: int
    headers: Mapping[str, str]
    """Case-insensitive."""
    body: bytes
    repeated: bool = False
    """Whether an earlier attempt failed, which may have succeeded at the service."""


class Stream:
    """A response whose body is streamed. It holds a connection until its end or `close`."""

    def __init__(self, headers: Mapping[str, str], response: Any, pipeline: Any) -> None:
        self.headers = headers
        self._response = response
        self._pieces = response.stream_download(pipeline, decompress=False)

    async def piece(self) -> bytes:
        """The next piece of at most a mebibyte; empty at the end."""
        return await anext(self._pieces, b"")

    def close(self) -> None:
        self._response.internal_response.close()


class Service:
    """One account of one service, opened on first use. Its errors are for `translated`: call it inside of that."""

    def __init__(
        self,
        access: AzureAccess,
        client: Callable[..., Any],
        version: str,
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        """`client`: a service client of an SDK, called with the account's URL, a credential and options. `version`:
        the version of the REST API. `headers`: sent with every request. `timeout`: seconds for a request with all
        its attempts, or without progress while content is transferred."""
        self.access = access
        self.timeout = timeout
        self._open = client
        self._client: Any = None
        self._credential: Any = None
        self._headers = {"x-ms-version": version, **(headers or {})}

    def url(self, *segments: str) -> str:
        """The address of a container or share, and of a path in it."""
        return "/".join([self.access.url, *(quote(segment, safe="~/") for segment in segments)])

    async def send(
        self,
        method: str,
        url: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Body | None = None,
        *,
        at_most: int = transport.MAX_RESPONSE_BYTES,
        within: float | None = None,
    ) -> Response:
        """The response with its whole body of at most `at_most` bytes; `ServiceError` for an error status."""
        with transport.at_most(at_most):
            response, repeated = await self._run(method, url, query, headers, body, within)
        content: bytes = await response.internal_response.read()
        if not 200 <= response.status_code < 300:
            raise ServiceError(response.status_code, response.headers, content, repeated)
        return Response(response.status_code, response.headers, content, repeated)

    async def stream(
        self, url: str, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> Stream:
        """A GET whose body is not read yet; `ServiceError` for an error status."""
        response, repeated = await self._run("GET", url, query, headers, stream=True)
        if 200 <= response.status_code < 300:
            return Stream(response.headers, response, self._client._pipeline)
        try:
            async with _within(self.timeout):
                body = await response.internal_response.read()
        finally:
            response.internal_response.close()
        raise ServiceError(response.status_code, response.headers, body, repeated)

    async def _run(
        self,
        method: str,
        url: str,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        body: Body | None = None,
        within: float | None = None,
        **options: bool,
    ) -> tuple[Any, bool]:
        if query:
            url += "?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        request = HttpRequest(method, url, {**self._headers, **(headers or {})})
        if body and body.size:
            request.data = body  # type: ignore[assignment]  # the transport takes what aiohttp takes
            request.headers.setdefault("Content-Type", "application/octet-stream")
        if method == "PUT":
            request.headers["Content-Length"] = str(body.size if body else 0)
        # Without the option `stream`, the transport reads the body and no policy parses it.
        sent = _Sent()
        try:
            async with _within(within or self.timeout) as watch:
                if body:
                    body.progress = lambda: transport.extend(watch, self.timeout)
                result = await self._opened()._pipeline.run(
                    request, trace_request_ctx=sent, retry_hook=sent.note_failure, **options
                )
        except ServiceResponseTimeoutError:
            if sent.error is not None:
                raise sent.error from None
            if sent.response is None:
                raise
            return sent.response, True
        return result.http_response, sent.times > 1 or bool(result.context.get("history"))

    def _opened(self) -> Any:
        if self._client is None:
            self._credential = self.access.credential(lambda: _transport(self.timeout, IdentityTransport))
            self._client = self._open(
                self.access.url,
                credential=self._credential,
                retry_policy=_Backoff(),
                transport=_transport(self.timeout),
                permit_redirects=False,
            )
        return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()
            if hasattr(self._credential, "close"):
                await self._credential.close()


async def copied(headers: Mapping[str, str], look: Callable[[], Awaitable[Mapping[str, str]]]) -> Mapping[str, str]:
    """The headers of a copy once it has ended: the service may copy in the background. `look` asks for them again."""
    wait, waited, seen = _FIRST_WAIT, 0.0, ""
    while headers.get("x-ms-copy-status") == "pending":
        progress = headers.get("x-ms-copy-progress", "")
        waited, seen = (waited + wait, seen) if progress == seen else (0.0, progress)
        if waited > _STALLED_SECONDS:
            raise ProviderTimeout("The storage didn't finish a copy in time. Try again.")
        await asyncio.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT)
        headers = await look()
    return headers


def copy_failed(status: str | None) -> ProviderFailed:
    return ProviderFailed("The storage couldn't copy a file. Try again.", cause=f"the copy ended as {status!r}"[:200])


class _Sent:
    """The state of a request over its attempts."""

    times = 0
    """How often it was sent: aiohttp silently repeats requests that were lost on a stale connection."""
    response: Any = None
    error: AzureError | None = None
    """The error of the last attempt; None once the next one is sent."""

    def sent(self) -> None:
        self.times += 1
        self.response = self.error = None

    def note_failure(self, *, response: Any, error: AzureError | None, **_: object) -> None:
        self.response, self.error = response, error


@asynccontextmanager
async def _within(seconds: float) -> AsyncIterator[asyncio.Timeout]:
    """As `asyncio.timeout`, but raises the SDK's error, which is handled like any lost response."""
    try:
        async with asyncio.timeout(seconds) as watch:
            yield watch
    except TimeoutError as error:
        raise ServiceResponseTimeoutError("no answer in time", error=error) from error


class IdentityTransport(AioHttpTransport):  # type: ignore[misc]
    """Remembers what was wrong with a response: a chain of identities only says that none could be used."""

    flaw: PorticoError | None = None

    async def send(self, request: Any, **options: Any) -> Any:
        try:
            return await super().send(request, **options)
        except PorticoError as error:
            self.flaw = error
            raise


def _transport(timeout: float, kind: type[AioHttpTransport] = AioHttpTransport) -> Any:
    """The SDK's transport with bounded responses and our connection settings."""

    async def count(_: ClientSession, context: SimpleNamespace, __: object) -> None:
        if context.trace_request_ctx:
            context.trace_request_ctx.sent()

    trace = TraceConfig()
    trace.on_connection_create_end.append(count)
    trace.on_connection_reuseconn.append(count)
    # Looking for a proxy costs every request two hops to a thread, so only if the environment names one.
    environment = bool(getproxies_environment())
    session = transport.session(
        # Slow downloads hold connections, and other requests must not wait for them.
        connector=TCPConnector(limit=0),
        trust_env=environment,
        trace_configs=[trace],
        headers={"Accept-Encoding": "identity"},
    )
    return kind(
        session=session,
        connection_timeout=transport.CONNECT_SECONDS,
        read_timeout=timeout,
        connection_data_block_size=_PIECE,
        use_env_settings=environment,
    )


class _Backoff(ExponentialRetry):
    """Waits half a second, one, two, with jitter. The SDK's own retry begins with fifteen."""

    def __init__(self) -> None:
        super().__init__(retry_total=ATTEMPTS - 1)

    def increment(
        self, settings: dict[str, Any], request: Any, response: Any = None, error: AzureError | None = None
    ) -> bool:
        # A timeout is not retried: the client has waited long enough.
        silent = isinstance(error, ServiceResponseTimeoutError)
        return not silent and bool(super().increment(settings, request, response, error))

    def get_backoff_time(self, settings: dict[str, Any]) -> float:
        count: int = settings["count"]
        return random.uniform(0.5, 1.0) * 2.0 ** (count - 2)  # noqa: S311  (no secret)
