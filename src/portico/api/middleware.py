"""The outermost ASGI layer: address checks, security headers, problem responses, the request log."""

import asyncio
import random
import time
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import structlog
from msgspec import UNSET as _UNSET
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from portico.api.problems import as_problem, problem_response
from portico.api.request_body import until_gone
from portico.api.requests import FILESYSTEM, instance_of, parsed_length
from portico.model.errors import (
    AddressNotAllowed,
    Forbidden,
    HeadersTooLarge,
    Internal,
    InvalidRequest,
    NotSignedIn,
    UriTooLong,
)
from portico.observability import logs
from portico.observability.logs import RequestLine, RequestLog
from portico.observability.metrics import Metrics
from portico.observability.tracing import Tracing
from portico.operations.actors.cancellation import ClientGone
from portico.operations.actors.request_context import RequestContext

Headers = list[tuple[bytes, bytes]]

EXPOSED = (
    "Accept-Ranges, Allow, Content-Disposition, Content-Location, Content-Range, ETag, Idempotency-Key-Lifetime, "
    "Idempotency-Replayed, Location, Preference-Applied, Repr-Digest, Retry-After, WWW-Authenticate, X-Error-Code, "
    "X-Modified, X-Request-Id, X-Trash-Id, Tus-Checksum-Algorithm, Tus-Extension, Tus-Max-Size, Tus-Resumable, Tus-Version, Upload-Concat, "
    "Upload-Defer-Length, Upload-Expires, Upload-Length, Upload-Metadata, Upload-Offset"
)
METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
REQUEST_HEADERS = (
    "Authorization, Content-Digest, Content-MD5, Content-Type, Digest, Idempotency-Key, If-Match, If-Modified-Since, "
    "If-None-Match, If-Range, If-Unmodified-Since, Prefer, Range, Repr-Digest, Tus-Resumable, Upload-Checksum, "
    "Upload-Concat, Upload-Defer-Length, Upload-Length, Upload-Metadata, Upload-Offset, Want-Repr-Digest, "
    "X-HTTP-Method-Override, X-Modified, X-Request-ID, X-Requested-With"
)
_INTERFACE = FILESYSTEM[: FILESYSTEM.index("/", 1) + 1].encode()
_VARY = (b"vary", b"Origin")
_PREFLIGHT: Headers = [
    (b"access-control-allow-methods", METHODS.encode()),
    (b"access-control-allow-headers", REQUEST_HEADERS.encode()),
    (b"access-control-max-age", b"600"),
]


class Cors:
    def __init__(self, origins: Collection[str]) -> None:
        self._origins = {origin.encode() for origin in origins}

    def headers(self, scope: Scope) -> Headers:
        if not self._origins or not scope["raw_path"].startswith(_INTERFACE):
            return []
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if len(origins) != 1 or origins[0] not in self._origins:
            return [_VARY]  # so that no cache sends this response to an allowed origin
        return [
            _VARY,
            (b"access-control-allow-origin", origins[0]),
            (b"access-control-expose-headers", EXPOSED.encode()),
        ]

    def preflight(self, scope: Scope, headers: Headers) -> Headers | None:
        """The response headers of an allowed preflight request, or none."""
        if scope["method"] != "OPTIONS" or len(headers) < 2:
            return None
        asked = any(name == b"access-control-request-method" for name, _ in scope["headers"])
        return _PREFLIGHT if asked else None


Networks = Sequence[IPv4Network | IPv6Network]

MAX_URI_LENGTH = 8 * 1024
MAX_HEADER_BYTES = 128 * 1024
DRAINED_BYTES = 64 * 2**20
DRAINED_SECONDS = 10.0
"""How much of a refused body is read, so that the refusal reaches a client that sends everything before it reads."""

_HEALTH = ("/healthz", "/readyz")
_ONCE = {
    name.lower().encode(): name
    for name in (
        "Content-Length",
        "Expect",
        "If-Modified-Since",
        "If-Range",
        "If-Unmodified-Since",
        "Range",
        "Sec-Fetch-Dest",
        "Service-Worker",
    )
}
"""Headers that must not be repeated: of two values one reader takes the first and another the last. `Authorization` and
`Content-Type` are checked where they are read."""

_FORWARDED = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-real-ip"})
"""Headers of a request that a proxy passes on."""

log = structlog.get_logger()


class Middleware:
    def __init__(
        self,
        app: ASGIApp,
        *,
        allowed: Networks,
        proxies: Networks,
        monitors: Networks = (),
        tls: bool,
        cors: Cors | None,
        metrics: Metrics,
        request_log: RequestLog,
        tracing: Tracing | None = None,
        on_stop: Callable[[], None] = lambda: None,
        on_drain: Callable[[], None] = lambda: None,
    ) -> None:
        self.on_drain = on_drain
        """Called before the process stops: it is not ready, but serves."""
        self.on_stop = on_stop
        """Called when the process is asked to stop, while requests still have time to finish."""
        self._app = app
        self._cors = cors
        self._metrics = metrics
        self._request_log = request_log
        self._tracing = tracing
        self._allowed = allowed
        self._proxies = proxies
        self._monitors = monitors
        self._headers: Headers = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]
        if tls:
            self._headers.append((b"strict-transport-security", b"max-age=31536000"))
        self._ids = random.Random()  # noqa: S311 - an id is no secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        extra = self._cors.headers(scope) if self._cors else []
        request_id = f"{self._ids.getrandbits(64):016x}"
        exchange = _Exchange(request_id, scope, receive, send, self._headers + extra if extra else self._headers)
        logs.REQUEST_ID.set(exchange.context.request_id)
        self._metrics.in_progress += 1
        end_span = None
        if self._tracing is not None and scope["path"] not in _HEALTH:
            end_span = self._tracing.begin_request(scope["method"], scope["headers"])
        try:
            await self._serve(scope, exchange, extra)
        finally:
            if end_span is not None:
                end_span(exchange.context.action, exchange.status, exchange.context.request_id)
            self._metrics.in_progress -= 1
            exchange.end(self._metrics, self._request_log)

    async def _serve(self, scope: Scope, exchange: "_Exchange", cors: Headers) -> None:
        try:
            self._admit(scope, exchange.context)
            if cors and self._cors and (allowed := self._cors.preflight(scope, cors)):
                await exchange.send({"type": "http.response.start", "status": 204, "headers": allowed})
                await exchange.send({"type": "http.response.body", "body": b""})
                return
            await self._app(scope, exchange.receive, exchange.send)
        except Exception as error:
            if exchange.status and isinstance(error, ClientGone):
                exchange.status = 499  # the client did not wait for the rest of the answer
                return
            if exchange.status:
                # A part of the answer is sent: only closing the connection tells the client that it is incomplete.
                exchange.context.code = getattr(error, "code", Internal.code)
                if isinstance(error, NotSignedIn | Forbidden):  # the right to it was taken away
                    log.info("broke-off", code=error.code, detail=error.detail)
                    return  # the server closes the connection; of an error it would log the traceback
                self._metrics.broken.add()
                log.error("broke-off", exc_info=error, cause=getattr(error, "cause", None))
                raise
            request = Request(scope, exchange.receive)
            answer = problem_response(request, as_problem(request, error))
            await answer(scope, exchange.receive, exchange.send)

    def _admit(self, scope: Scope, context: RequestContext) -> None:
        address = _address(context.address)
        if scope["path"] in _HEALTH and self._is_monitor(scope, address):
            context.address = _text(address)
            _check_headers(scope)
            return
        if self._proxies:
            if not _within(address, self._proxies):
                raise AddressNotAllowed(
                    "You can't connect to the gateway directly. Use the address of its reverse proxy."
                )
            address = _forwarded(scope, address, self._proxies)
        context.address = _text(address)
        if self._allowed and not _within(address, self._allowed):
            raise AddressNotAllowed("You can't use this gateway from your address. Ask your administrator to allow it.")
        if len(scope["raw_path"]) + 1 + len(scope["query_string"]) > MAX_URI_LENGTH:
            raise UriTooLong("The URL is longer than 8 KiB; use shorter names or a shorter query.")
        _check_headers(scope)

    def _is_monitor(self, scope: Scope, peer: IPv4Address | IPv6Address) -> bool:
        """Whether the peer may ask for the node's health in any case. It may then see what is wrong, as the machine itself.

        What a proxy passes on is a client's request, even if this gateway does not know the proxy.
        """
        if any(name in _FORWARDED for name, _ in scope["headers"]):
            return False
        known = _within(peer, self._monitors)
        scope["state"]["monitor"] = known or peer.is_loopback
        return known


class _Exchange:
    def __init__(self, request_id: str, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        self.status = 0
        self.context = RequestContext(request_id, scope["client"][0], lambda: until_gone(self.receive))
        self._scope = scope
        self._receive = receive
        self._send = send
        self._headers = headers
        self._began = time.perf_counter()
        self._sent = 0
        self._received = 0
        names = dict(scope["headers"])
        is_coded = b"transfer-encoding" in names  # then it alone says where the body ends
        self._length = None if is_coded else parsed_length(names.get(b"content-length", b"0"))
        self._body_left = self._length != 0
        self._invited = names.get(b"expect", b"").lower() != b"100-continue"
        scope.setdefault("state", {})["context"] = self.context

    async def receive(self) -> Message:
        self._invited = True
        message = await self._receive()
        if body := message.get("body"):
            self._received += len(body)
            if self._received == self._length:
                # All of it is here: to be told so by one more message would cost a hop to the server's thread and back.
                message["more_body"] = False
        if not message.get("more_body", False):
            self._body_left = False
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.context.release()
            self.status = message["status"]
            unwanted = self._body_left and (self.status >= 400 or self._scope["state"].get("body_unwanted"))
            if unwanted and self.status != 408 and self._invited:
                await self._drain()
            message["headers"] = [
                *message["headers"],
                *self._headers,
                (b"x-request-id", self.context.request_id.encode()),
            ]
            if (unwanted and self._body_left) or self._scope["state"].get("close"):
                # Otherwise the server may wait for a rest that never arrives, or read it as another request.
                message["headers"].append((b"connection", b"close"))
        else:
            self._sent += len(message.get("body", b""))
        await self._send(message)

    async def _drain(self) -> None:
        taken = 0
        try:
            async with asyncio.timeout(DRAINED_SECONDS):
                while self._body_left and taken < DRAINED_BYTES:
                    message = await self.receive()
                    if message["type"] == "http.disconnect":
                        return  # the client may have closed its side only, and still read
                    taken += len(message.get("body", b""))
        except TimeoutError:
            pass

    def end(self, metrics: Metrics, log: RequestLog) -> None:
        context = self.context
        # Errors with their tracebacks may keep this exchange until the garbage is collected. The server closes the
        # connection of a body that was not read to its end only when nobody can read it any more.
        del self.context, self._receive, self._send
        context.release()
        seconds = time.perf_counter() - self._began
        metrics.requests.observe((context.action, self.status), seconds)
        if self._sent:
            metrics.sent.add((context.action,), self._sent)
        if self._received:
            metrics.received.add((context.action,), self._received)
        path = instance_of(self._scope)
        if path in _HEALTH and self.status == 200:
            return
        log(
            RequestLine(
                self._scope["method"],
                path,
                self.status,
                self._sent,
                round(seconds * 1000, 1),
                context.address,
                context.user or _UNSET,
                context.request_id,
                context.action,
                context.connection or _UNSET,
                _UNSET if context.key is None else context.key.id,
                context.link or _UNSET,
                context.guest or _UNSET,
                context.ticket or _UNSET,
                context.code or _UNSET,
            )
        )


def _check_headers(scope: Scope) -> None:
    """Refuse too many, and what a proxy and this server could read differently (RFC 9112, 3.2, 6.1 and 6.3)."""
    hosts, codings = [], []
    seen: set[bytes] = set()
    size = 0
    for name, value in scope["headers"]:
        size += len(name) + len(value)
        if name == b"host":
            hosts.append(value)
        elif name == b"transfer-encoding":
            codings.append(value.lower())
        elif name in _ONCE:
            if name in seen:
                raise InvalidRequest(f"The header {_ONCE[name]} appears twice; send it once.")
            seen.add(name)
    if size > MAX_HEADER_BYTES:
        limit = MAX_HEADER_BYTES // 1024
        raise HeadersTooLarge(f"The headers exceed {limit} KiB; send fewer or shorter ones.")
    # The server passes on an empty one if there is none.
    if len(hosts) > 1 or (scope["http_version"] == "1.1" and not all(hosts or [b""])):
        raise InvalidRequest("The request must have exactly one Host header; send one.")
    if codings and codings != [b"chunked"]:
        raise InvalidRequest("This transfer coding isn't supported; use 'chunked' or none.")
    if codings and b"content-length" in seen:  # Granian removes the length itself, and closes the connection
        scope["state"]["close"] = True
        raise InvalidRequest("The request has both Content-Length and Transfer-Encoding; send only one of them.")


@lru_cache(maxsize=4096)
def _address(text: str) -> IPv4Address | IPv6Address:
    address = ip_address(text)
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


@lru_cache(maxsize=4096)
def _text(address: IPv4Address | IPv6Address) -> str:
    return str(address)


def _within(address: IPv4Address | IPv6Address, networks: Networks) -> bool:
    return any(address in network for network in networks)


def _forwarded(scope: Scope, peer: IPv4Address | IPv6Address, proxies: Networks) -> IPv4Address | IPv6Address:
    """The client's address: X-Forwarded-For from the right, as far as its hops are trusted proxies."""
    lines = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    for hop in reversed(",".join(lines).split(",") if lines else []):
        try:
            peer = _address(_without_port(hop.strip()))
        except ValueError:
            raise InvalidRequest(
                "The proxy sent a malformed X-Forwarded-For header. Ask your administrator to check the proxy."
            ) from None
        if not _within(peer, proxies):
            break
    return peer


def _without_port(hop: str) -> str:
    """Some proxies write `192.0.2.1:4711` or `[2001:db8::1]:4711`."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop
