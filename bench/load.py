"""A load generator for HTTP/1.1, the same for every server: raw sockets, ready-made requests, one thread."""

import re
import select
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
_END_OF_CHUNKS = b"\r\n0\r\n\r\n"
_SILENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server listens."""

    port: int
    tls: bool = False
    host: str = "127.0.0.1"

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    def connect(self) -> socket.socket:
        connection = socket.create_connection((self.host, self.port), _SILENCE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self.tls:
            return connection
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the certificate is the bench's own
        return context.wrap_socket(connection, server_hostname="localhost")


@dataclass(frozen=True, slots=True)
class Rates:
    rate: float
    """Requests per second."""
    p50: float
    p99: float
    worst: float
    """Seconds."""
    count: int
    size: int
    """Bytes of one answer, the largest."""
    succeeded: int
    """Of `count`: those with a status of 2xx."""


def request(method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if body or method in ("POST", "PUT"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def exchange(connection: socket.socket, content: bytes) -> bytes:
    """The whole answer to one request over an open connection, which waits for it."""
    connection.sendall(content)
    answer = bytearray()
    while (end := answer.find(b"\r\n\r\n")) < 0:
        answer += _received(connection)
    head = bytes(answer[: end + 2])
    if head[9:10] != b"2":
        raise RuntimeError(f"an answer that was not expected: {answer[:600].decode('latin-1')}")
    if found := _LENGTH.search(head):
        while len(answer) < end + 4 + int(found[1]):
            answer += _received(connection)
    elif _CHUNKED.search(head):
        while not answer.endswith(_END_OF_CHUNKS):
            answer += _received(connection)
    return bytes(answer)


def body_of(answer: bytes) -> bytes:
    """The body of a whole answer, without the marks of its chunks."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if not _CHUNKED.search(head + b"\r\n"):
        return body
    pieces: list[bytes] = []
    start = 0
    while True:
        end = body.index(b"\r\n", start)
        size = int(body[start:end], 16)
        if not size:
            return b"".join(pieces)
        pieces.append(body[end + 2 : end + 2 + size])
        start = end + 4 + size


def _received(connection: socket.socket) -> bytes:
    piece = connection.recv(2**18)
    if not piece:
        raise ConnectionError("the connection ended in the middle of an answer")
    return piece


def hammer(
    target: Target,
    requests: Iterable[bytes],
    connections: int,
    seconds: float = 0.0,
    allowed: Iterable[int] = (200, 201, 204),
) -> Rates:
    """Send these requests over `connections` connections, repeatedly for `seconds`, or each of them once."""
    source = cycle(list(requests)) if seconds else iter(list(requests))
    load = _Generator(target, source, connections, seconds, frozenset(allowed))
    try:
        return load.run()
    finally:
        load.close()


@dataclass(slots=True)
class _Connection:
    """One connection, with one request under way."""

    socket: socket.socket
    view: bytes | memoryview = b""
    began: float = 0.0
    sent: int = 0
    got: int = 0
    head: bytes = b""
    left: int = -1
    """Bytes of the body that are still to come, once that is known."""
    chunked: bool = False
    tail: bytes = b""
    closing: bool = False


class _Generator:
    def __init__(
        self, target: Target, source: Iterator[bytes], connections: int, seconds: float, allowed: frozenset[int]
    ) -> None:
        self._target = target
        self._source = source
        self._seconds = seconds
        self._allowed = allowed
        self._buffer = bytearray(2**20)
        self._view = memoryview(self._buffer)
        self._poll = select.epoll()
        self._connections: dict[int, _Connection] = {}
        self._times: list[float] = []
        self._size = 0
        self._end = 0.0
        self._refused = 0
        self._lost = 0
        for _ in range(connections):
            self._open()

    def run(self) -> Rates:
        began = time.perf_counter()
        self._end = began + self._seconds if self._seconds else 0.0
        for link in list(self._connections.values()):
            self._begin(link)
        while self._connections:
            events = self._poll.poll(_SILENCE_SECONDS)
            if not events:
                raise TimeoutError(f"no answer within {_SILENCE_SECONDS:.0f} s")
            for number, event in events:
                link = self._connections[number]
                if event & select.EPOLLOUT:
                    self._send(link)
                if event & ~select.EPOLLOUT:
                    self._receive(link)
        took = time.perf_counter() - began
        times = sorted(self._times)
        if not times:
            raise RuntimeError("not one request was answered")
        p50, p99 = times[len(times) // 2], times[min(len(times) - 1, int(len(times) * 0.99))]
        return Rates(len(times) / took, p50, p99, times[-1], len(times), self._size, len(times) - self._refused)

    def close(self) -> None:
        for link in list(self._connections.values()):
            self._close(link)
        self._poll.close()

    def _open(self) -> _Connection:
        connection = self._target.connect()
        connection.setblocking(False)
        link = self._connections[connection.fileno()] = _Connection(connection)
        self._poll.register(connection, select.EPOLLIN)
        return link

    def _close(self, link: _Connection) -> None:
        number = link.socket.fileno()
        self._poll.unregister(number)
        del self._connections[number]
        link.socket.close()

    def _begin(self, link: _Connection) -> None:
        content = None if self._end and time.perf_counter() > self._end else next(self._source, None)
        if content is None:
            self._close(link)
            return
        link.view = memoryview(content)
        link.began = time.perf_counter()
        self._restart(link)

    def _restart(self, link: _Connection) -> None:
        link.sent = 0
        link.head = b""
        link.left = -1
        link.chunked = link.closing = False
        link.tail = b""
        link.got = 0
        self._send(link)

    def _send(self, link: _Connection) -> None:
        try:
            while link.sent < len(link.view):
                link.sent += link.socket.send(link.view[link.sent : link.sent + 2**18])
        except (BlockingIOError, ssl.SSLWantWriteError):
            self._poll.modify(link.socket, select.EPOLLIN | select.EPOLLOUT)
            return
        except (BrokenPipeError, ConnectionResetError):
            pass  # the answer, or its lack, will tell
        self._poll.modify(link.socket, select.EPOLLIN)

    def _receive(self, link: _Connection) -> None:
        while True:
            try:
                got = link.socket.recv_into(self._buffer)
            except (BlockingIOError, ssl.SSLWantReadError):
                return
            except ConnectionResetError:
                got = 0
            if not got:
                self._reopen(link)
                return
            if self._take(link, got):
                self._times.append(time.perf_counter() - link.began)
                self._size = max(self._size, link.got)
                if link.closing:
                    link = self._replaced(link)
                self._begin(link)
                return
            if not self._target.tls:
                return

    def _take(self, link: _Connection, got: int) -> bool:
        """Whether the answer is whole with these bytes."""
        link.got += got
        if link.left >= 0:
            link.left -= got
            return link.left <= 0
        if link.chunked:
            link.tail = (link.tail + bytes(self._view[max(0, got - 7) : got]))[-7:]
            return link.tail == _END_OF_CHUNKS
        link.head += bytes(self._view[:got])
        end = link.head.find(b"\r\n\r\n")
        if end < 0:
            return False
        head, body = link.head[: end + 2], len(link.head) - end - 4
        status = int(head[9:12])
        if status not in self._allowed:
            raise RuntimeError(f"an answer that was not expected: {link.head[:600].decode('latin-1')}")
        self._refused += status >= 300
        link.closing = bool(_CLOSE.search(head))
        if status in (204, 304):
            return True
        if found := _LENGTH.search(head):
            link.left = int(found[1]) - body
            return link.left <= 0
        if not _CHUNKED.search(head):
            raise RuntimeError("an answer without a length")
        link.chunked = True
        link.tail = link.head[-7:]
        return link.tail == _END_OF_CHUNKS

    def _replaced(self, link: _Connection) -> _Connection:
        self._close(link)
        return self._open()

    def _reopen(self, link: _Connection) -> None:
        """A server may close an idle connection just as the next request comes; it is sent again on a new one."""
        if link.got:
            raise ConnectionError("the connection ended in the middle of an answer")
        self._lost += 1
        if self._lost > 100:
            raise ConnectionError("the server closes one connection after the other")
        fresh = self._replaced(link)
        fresh.view, fresh.began = link.view, link.began
        self._restart(fresh)
