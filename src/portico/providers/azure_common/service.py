"""Requests through the SDK's own pipeline: it signs, sends and repeats them, and leaves the bodies to us.

The SDK's operations turn every answer into objects, which costs a hundred times what the transport does. So we word
the requests ourselves and take from the SDK what is hard to get right: signatures, identities and repetition.
"""

import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote
from urllib.request import getproxies_environment

from aiohttp import ClientSession, DummyCookieJar, TCPConnector, TraceConfig
from azure.core.pipeline.transport import AioHttpTransport, HttpRequest
from azure.storage.blob.aio import ExponentialRetry

from portico.providers.azure_common.access import Access
from portico.providers.azure_common.errors import Fault

ATTEMPTS = 4
_CONNECT_SECONDS = 5
_READ_SECONDS = 30
_PIECE = 2**20
"""The most that is read from, or handed to, a connection at once."""
_LONGEST_ERROR = 64 * 1024


class Body:
    """Content as the chunks that it came in, to be sent as often as it takes."""

    def __init__(self, chunks: Iterable[bytes], size: int) -> None:
        self._chunks = chunks
        self.size = size

    async def __aiter__(self) -> AsyncIterator[bytes | memoryview]:
        for chunk in self._chunks:
            if len(chunk) <= _PIECE:
                yield chunk
            else:
                view = memoryview(chunk)
                for start in range(0, len(chunk), _PIECE):
                    yield view[start : start + _PIECE]


@dataclass(slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """Looked up without case."""
    body: bytes
    repeated: bool = False
    """Whether an earlier attempt failed, which may have done its work nevertheless."""


class Stream:
    """An answer whose body is read as it comes. It holds a connection until its end or `close`."""

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
    """One account of one service. The client is opened on first use.

    Errors are `Fault` or the SDK's own: use it inside of `translated`.
    """

    def __init__(
        self,
        access: Access,
        client: Callable[..., Any],
        version: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`client`: a service client of an SDK, called with the account's URL, a credential and options; `version`:
        the service's version that our requests are worded for; `headers`: sent with every request."""
        self.access = access
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
        attempts: int = ATTEMPTS,
    ) -> Answer:
        """The answer with its whole body; `Fault` unless the status is a success."""
        response, repeated = await self._run(method, url, query, headers, body, attempts)
        answer = Answer(response.status_code, response.headers, response.body() or b"", repeated)
        if not 200 <= answer.status < 300:
            raise Fault(answer.status, answer.headers, answer.body[:_LONGEST_ERROR], repeated)
        return answer

    async def stream(
        self,
        url: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Stream:
        """A GET whose body is not read yet; `Fault` unless the status is a success."""
        response, repeated = await self._run("GET", url, query, headers, None, ATTEMPTS, stream=True)
        if 200 <= response.status_code < 300:
            return Stream(response.headers, response, self._client._pipeline)
        try:
            body = await response.internal_response.content.read(_LONGEST_ERROR)
        finally:
            response.internal_response.close()
        raise Fault(response.status_code, response.headers, body, repeated)

    async def _run(
        self,
        method: str,
        url: str,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        body: Body | None,
        attempts: int,
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
        # Without the option `stream` the transport reads the body, and no policy parses it.
        sent = _Sent()
        result = await self._opened()._pipeline.run(
            request, retry_total=attempts - 1, trace_request_ctx=sent, **options
        )
        return result.http_response, sent.times > 1 or bool(result.context.get("history"))

    def _opened(self) -> Any:
        if self._client is None:
            self._credential = self.access.credential()
            self._client = self._open(
                self.access.url,
                credential=self._credential,
                retry_policy=_Backoff(),
                transport=_transport(),
                permit_redirects=False,
            )
        return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()
            if hasattr(self._credential, "close"):
                await self._credential.close()


class _Sent:
    """How often a request went out: aiohttp repeats what a stale connection swallowed without telling."""

    times = 0


def _transport() -> AioHttpTransport:
    """As the SDK makes it, but for what stands beside it."""

    async def count(_: ClientSession, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx.times += 1

    trace = TraceConfig()
    trace.on_connection_create_end.append(count)
    trace.on_connection_reuseconn.append(count)
    # The environment may name a proxy; to look for one costs every request two trips to a thread.
    environment = bool(getproxies_environment())
    session = ClientSession(
        # Downloads hold connections for as long as their takers like: nobody else may have to wait for one.
        connector=TCPConnector(limit=0),
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        trust_env=environment,
        trace_configs=[trace],
    )
    return AioHttpTransport(
        session=session,
        connection_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        connection_data_block_size=_PIECE,
        use_env_settings=environment,
    )


class _Backoff(ExponentialRetry):
    """Half a second, one, two: each with jitter. The SDK's own begins with fifteen."""

    def __init__(self) -> None:
        super().__init__(retry_total=ATTEMPTS - 1)

    def get_backoff_time(self, settings: dict[str, Any]) -> float:
        count: int = settings["count"]
        return random.uniform(0.5, 1.0) * 2.0 ** (count - 2)  # noqa: S311  (no secret)
