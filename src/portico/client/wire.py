"""HTTP/1.1 as bytes: how a request is written, and how an answer is read as it arrives."""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from errno import ECONNREFUSED
from urllib.parse import quote, urlsplit

from portico.client.errors import ConnectionFailed, InvalidRequest, NotAGateway, Unreachable
from portico.client.steps import Ask, Piece

CHUNK = 256 * 1024
LONGEST_HEAD = 64 * 1024
EXPECT_SECONDS = 1.0
"""How long a body is held back for the gateway's word that it may come."""
IDLE_SECONDS = 8.0
"""How long a connection may have been unused; the gateway gives them up after ten."""
PATIENCE = 20
"""By how much longer than usual a patient request waits for its answer."""

_ALERT = b"\x15\x03"
"""How TLS begins to say that it did not understand."""
_EXPECTANT = 1024 * 1024
"""Bodies of this size on are sent only when the gateway says that it will take them."""


@dataclass(slots=True)
class Origin:
    """Where the gateway is, and how it is trusted."""

    host: str
    port: int
    prefix: str
    """What stands in front of each path, where the gateway is not at the top of its host."""
    tls: bool
    ca: str | None = None
    context: ssl.SSLContext | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str, ca: str | ssl.SSLContext | None) -> "Origin":
        try:
            parts = urlsplit(url if "://" in url else f"https://{url}")
            host, port = parts.hostname, parts.port
            if host and not host.isascii():
                host = host.encode("idna").decode()
        except ValueError:
            host = port = None
        if not host or parts.scheme not in ("http", "https") or parts.query or parts.username:
            raise Unreachable(
                f"{url!r} is not the address of a gateway; write it as https://files.example.com"
            )
        tls = parts.scheme == "https"
        context, file = (ca, None) if isinstance(ca, ssl.SSLContext) else (None, ca)
        prefix = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        return cls(host, port or (443 if tls else 80), prefix, tls, file, context)

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    def trust(self) -> ssl.SSLContext | None:
        """How connections are encrypted; None if they are not."""
        if self.tls and self.context is None:
            try:
                self.context = ssl.create_default_context(cafile=self.ca)
            except (OSError, ssl.SSLError) as error:
                raise Unreachable(f"The certificate file {self.ca} cannot be used: {error}") from None
        return self.context if self.tls else None


def failure(origin: Origin, error: Exception, *, sent: bool = False, opening: bool = False) -> Exception:
    """What a broken connection means to the caller; `opening` if there was none yet."""
    import socket

    place = origin.authority
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message or "it is not trusted"
        return Unreachable(
            f"The certificate of {place} was refused: {reason}; if it is your own, name its file as ca."
        )
    if opening and isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        reason = (error.reason or "it failed").lower().replace("_", " ")
        return Unreachable(
            f"{place} does not speak TLS as it should ({reason}); did you mean http://{place}{origin.prefix}?"
        )
    if isinstance(error, _Alerted) and not origin.tls:
        return Unreachable(f"{place} speaks TLS; did you mean https://{place}{origin.prefix}?")
    if isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME:
        return Unreachable(f"There is no host named {origin.host}; look at the address.")
    if isinstance(error, TimeoutError):
        return ConnectionFailed(f"{place} was silent for too long.", sent=sent, opening=opening)
    if opening and _is_refusal(error):
        detail = f"{place} refused the connection: nothing listens there; look at the address, or start the gateway."
        return ConnectionFailed(detail, opening=True)
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return ConnectionFailed(f"The connection to {place} failed: {reason}.", sent=sent, opening=opening)


def _is_refusal(error: Exception) -> bool:
    """Of several addresses of one host, asyncio tells only in words why each failed."""
    return isinstance(error, ConnectionRefusedError) or f"[Errno {ECONNREFUSED}]" in str(error)


class _Alerted(ConnectionError):
    """The other side wants TLS."""


def closed(received: bytes) -> ConnectionError:
    """Why a connection has ended before an answer, by what had come of one."""
    return _Alerted() if received.startswith(_ALERT) else ConnectionError("it was closed")


def is_expectant(ask: Ask) -> bool:
    """Whether the body waits for the gateway's word, so that a refusal costs nothing."""
    body = ask.body
    return body is not None and (body.length is None or body.length >= _EXPECTANT)


def request_head(ask: Ask, origin: Origin) -> bytes:
    lines = [f"{ask.method} {origin.prefix}{ask.target} HTTP/1.1", f"Host: {origin.authority}"]
    lines.append("User-Agent: portico")  # some proxies want one
    lines += [f"{name}: {value}" for name, value in ask.headers.items()]
    if ask.body is not None and ask.body.length is None:
        lines.append("Transfer-Encoding: chunked")
    elif ask.body is not None or ask.method == "POST":
        lines.append(f"Content-Length: {ask.body.length if ask.body else 0}")
    if is_expectant(ask):
        lines.append("Expect: 100-continue")
    try:
        return "\r\n".join([*lines, "", ""]).encode("ascii")
    except UnicodeEncodeError:
        raise InvalidRequest("The token holds characters that no token has; copy it again.") from None


def framed(ask: Ask) -> Iterator[Piece]:
    """The body as it goes over the wire."""
    body = ask.body
    if body is None:
        return
    if body.length is not None:
        yield from body
        return
    for piece in body:
        yield b"".join((b"%x\r\n" % len(piece), piece, b"\r\n"))
    yield b"0\r\n\r\n"


@dataclass(slots=True)
class Head:
    """An answer's first lines."""

    status: int
    headers: dict[str, str]
    keeps: bool
    """Whether the connection can be used again afterwards."""

    @classmethod
    def of(cls, block: bytes) -> "Head":
        first, *lines = block.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        status = rest[:3]
        if not version.startswith("HTTP/1.") or not (status.isascii() and status.isdecimal()):
            raise NotAGateway("The answer is not HTTP; is this the address of a Portico gateway?")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        connection = headers.get("connection", "keep-alive" if version == "HTTP/1.1" else "close")
        return cls(int(status), headers, connection.lower() != "close")

    def framing(self, method: str) -> "Framing":
        if method == "HEAD" or self.status in (204, 304):
            return Counted(0)
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return Chunked()
        length = self.headers.get("content-length")
        if length is None:
            self.keeps = False
            return Unbounded()
        if not (length.isascii() and length.isdecimal()):
            raise NotAGateway("The answer has a Content-Length that is no number.")
        return Counted(int(length))


class Counted:
    """A body whose length is known."""

    def __init__(self, length: int) -> None:
        self._left = length

    @property
    def done(self) -> bool:
        return not self._left

    def feed(self, data: bytes) -> list[Piece]:
        """What of the data is body."""
        piece: Piece = data if len(data) <= self._left else memoryview(data)[: self._left]
        self._left -= len(piece)
        return [piece] if piece else []

    def end(self) -> bool:
        """Whether the connection may end here."""
        return self.done


class Unbounded:
    """A body that the end of the connection ends."""

    done = False

    def feed(self, data: bytes) -> list[Piece]:
        return [data]

    def end(self) -> bool:
        return True


class Chunked:
    """A body in chunks, each behind its length."""

    def __init__(self) -> None:
        self._buffer = b""
        self._left = 0
        self._trailing = False
        self.done = False

    def feed(self, data: bytes) -> list[Piece]:
        self._buffer += data
        pieces: list[Piece] = []
        while not self.done and self._buffer:
            if self._left > 2:
                piece = self._buffer[: self._left - 2]  # the line end behind it is counted too
                pieces.append(piece)
            elif self._left:
                piece = self._buffer[: self._left]
            else:
                line, found, self._buffer = self._line()
                if not found:
                    break
                self._begin(line)
                continue
            self._buffer = self._buffer[len(piece) :]
            self._left -= len(piece)
        return pieces

    def _line(self) -> tuple[bytes, bool, bytes]:
        line, found, rest = self._buffer.partition(b"\r\n")
        if len(line) > LONGEST_HEAD:
            raise NotAGateway("The answer is chunked in a way that cannot be understood.")
        return line, bool(found), rest if found else self._buffer

    def _begin(self, line: bytes) -> None:
        if self._trailing:
            self.done = not line
            return
        try:
            size = int(line.partition(b";")[0].strip(), 16)
        except ValueError:
            size = -1
        if size < 0:
            raise NotAGateway("The answer is chunked in a way that cannot be understood.")
        self._trailing = size == 0
        self._left = size + 2 if size else 0

    def end(self) -> bool:
        return self.done


Framing = Counted | Unbounded | Chunked
