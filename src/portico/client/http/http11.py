"""HTTP/1.1 without I/O: requests to bytes, bytes to responses."""

from collections.abc import Iterator
from dataclasses import dataclass

from portico.client.errors import InvalidRequest, NotAGateway
from portico.client.http.effects import Piece, Request
from portico.client.http.origin import Origin

CHUNK = 256 * 1024
MAX_HEAD = 64 * 1024
EXPECT_SECONDS = 1.0
"""How long a body waits for `100 Continue`."""
IDLE_SECONDS = 8.0
"""How long an idle connection is kept; the gateway closes it after ten."""
LONG_RUNNING_FACTOR = 20
"""The timeout of a long-running request, as a multiple of the usual one."""

_EXPECT_CONTINUE_FROM = 1024 * 1024
"""Bodies of at least this size are sent with `Expect: 100-continue`."""


def expects_continue(request: Request) -> bool:
    """Whether the body waits for `100 Continue`, so that nothing is sent in vain if the gateway refuses."""
    body = request.body
    if body is None or not request.expects_refusal:
        return False
    return body.length is None or body.length >= _EXPECT_CONTINUE_FROM


def request_head(request: Request, origin: Origin) -> bytes:
    lines = [f"{request.method} {origin.prefix}{request.target} HTTP/1.1", f"Host: {origin.authority}"]
    lines.append("User-Agent: portico")  # some proxies require one
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    if request.body is not None and request.body.length is None:
        lines.append("Transfer-Encoding: chunked")
    elif request.body is not None or request.method == "POST":
        lines.append(f"Content-Length: {request.body.length if request.body else 0}")
    if expects_continue(request):
        lines.append("Expect: 100-continue")
    try:
        return "\r\n".join([*lines, "", ""]).encode("ascii")
    except UnicodeEncodeError:
        raise InvalidRequest("The token contains invalid characters; copy it again.") from None


def encode_body(request: Request) -> Iterator[Piece]:
    """The body as sent, with chunked encoding if its length is unknown."""
    body = request.body
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
    status: int
    headers: dict[str, str]
    keep_alive: bool

    @classmethod
    def of(cls, block: bytes) -> "Head":
        first, *lines = block.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        status = rest[:3]
        if not version.startswith("HTTP/1.") or not (status.isascii() and status.isdecimal()):
            raise NotAGateway("The response is not HTTP. Check that the address is a Portico gateway's.")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        connection = headers.get("connection", "keep-alive" if version == "HTTP/1.1" else "close")
        return cls(int(status), headers, connection.lower() != "close")

    @classmethod
    def taken_from(cls, data: bytes) -> "tuple[Head, bytes] | None":
        """The head that the data begins with, and the rest; None until it is complete."""
        block, end, rest = data.partition(b"\r\n\r\n")
        if end:
            return cls.of(block), rest
        if len(data) > MAX_HEAD:
            raise NotAGateway("The response headers are too large.")
        return None

    def framing(self, method: str) -> "Framing":
        if method == "HEAD" or self.status in (204, 304):
            return FixedLength(0)
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return Chunked()
        length = self.headers.get("content-length")
        if length is None:
            self.keep_alive = False
            return UntilClose()
        if not (length.isascii() and length.isdecimal()):
            raise NotAGateway("The response has an invalid Content-Length.")
        return FixedLength(int(length))


class FixedLength:
    def __init__(self, length: int) -> None:
        self._left = length

    @property
    def done(self) -> bool:
        return not self._left

    def feed(self, data: bytes) -> list[Piece]:
        """The part of the data that belongs to the body."""
        piece: Piece = data if len(data) <= self._left else memoryview(data)[: self._left]
        self._left -= len(piece)
        return [piece] if piece else []


class UntilClose:
    """The only body that ends with its connection."""

    done = False

    def feed(self, data: bytes) -> list[Piece]:
        return [data]


class Chunked:
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
                piece = self._buffer[: self._left - 2]  # `_left` includes the CRLF after the chunk
                pieces.append(piece)
            elif self._left:
                piece = self._buffer[: self._left]
            else:
                line, found, rest = self._buffer.partition(b"\r\n")
                if len(line) > MAX_HEAD:
                    raise NotAGateway("The response has an invalid chunked encoding.")
                if not found:
                    break
                self._buffer = rest
                self._begin(line)
                continue
            self._buffer = self._buffer[len(piece) :]
            self._left -= len(piece)
        return pieces

    def _begin(self, line: bytes) -> None:
        if self._trailing:
            self.done = not line
            return
        try:
            size = int(line.partition(b";")[0].strip(), 16)
        except ValueError:
            size = -1
        if size < 0:
            raise NotAGateway("The response has an invalid chunked encoding.")
        self._trailing = size == 0
        self._left = size + 2 if size else 0


Framing = FixedLength | UntilClose | Chunked
