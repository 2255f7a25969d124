"""Connection pool of the synchronous client, on blocking sockets."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator

from portico.client.http import http11
from portico.client.http.effects import Piece, Request, Response, Stopped
from portico.client.http.http11 import Head, UntilClose, encode_body, expects_continue, request_head
from portico.client.http.origin import Origin, closed_early, connection_error

_CONNECT_SECONDS = 10.0

Flag = Callable[[], bool]


class SyncPool:
    """A thread-safe pool. At most `limit` requests run at once; others wait."""

    def __init__(self, origin: Origin, *, timeout: float, limit: int) -> None:
        self._origin = origin
        self._timeout = timeout
        self._slots = threading.BoundedSemaphore(limit)
        self._idle: list[tuple[float, _Connection]] = []
        self._streaming: set[_Connection] = set()

    def exchange(self, request: Request, stopped: Flag) -> Response:
        with self._slots:
            connection = self._take()
            try:
                response = connection.perform(request, stopped)
            except BaseException:
                connection.close()
                raise
            if response.stream:
                response.stream = self._streamed(connection, response.stream)
            else:
                self._put(connection)
            return response

    def _put(self, connection: "_Connection") -> None:
        if connection.keep_alive:
            self._idle.append((time.monotonic(), connection))
        else:
            connection.close()

    def _streamed(self, connection: "_Connection", pieces: Iterator[Piece]) -> Iterator[Piece]:
        self._streaming.add(connection)
        try:
            for piece in pieces:
                if connection.keep_alive:
                    self._release(connection)
                yield piece
        finally:
            self._release(connection)

    def _release(self, connection: "_Connection") -> None:
        if connection in self._streaming:
            self._streaming.discard(connection)
            self._put(connection)

    def _take(self) -> "_Connection":
        while self._idle:
            try:
                since, connection = self._idle.pop()
            except IndexError:  # another thread took it
                break
            if time.monotonic() - since < http11.IDLE_SECONDS and connection.is_open():
                return connection
            connection.close()
        return _Connection(self._origin, self._timeout)

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[1].close()
        for connection in list(self._streaming):
            connection.close()


class _PeerClosed(Exception):
    """The peer closed the connection while the request was sent. It may have sent a response before."""


class _Connection:
    def __init__(self, origin: Origin, timeout: float) -> None:
        self._origin = origin
        self._timeout = timeout
        self._buffer = b""
        self._sent = False
        self.keep_alive = False
        context = origin.tls_context()
        try:
            self._socket = socket.create_connection((origin.host, origin.port), min(timeout, _CONNECT_SECONDS))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context:
                self._socket = context.wrap_socket(self._socket, server_hostname=origin.host)
        except OSError as error:
            raise connection_error(origin, error, opening=True) from None

    def perform(self, request: Request, stopped: Flag) -> Response:
        self._sent = self.keep_alive = False
        self._socket.settimeout(self._timeout)
        early = self._send(request, stopped)
        self._sent = early is None
        if request.long_running:
            self._socket.settimeout(self._timeout * http11.LONG_RUNNING_FACTOR)
        head = early or self._final_head()
        self._socket.settimeout(self._timeout)
        return self._read(request, head, stopped)

    def _send(self, request: Request, stopped: Flag) -> Head | None:
        """Send the request. A response that arrives early stops it and is returned."""
        pieces = encode_body(request)
        head = request_head(request, self._origin)
        try:
            if expects_continue(request):
                self._write(head)
                if refusal := self._await_continue():
                    return refusal
            else:
                self._write(b"".join((head, next(pieces, b""))))
            for piece in pieces:
                if stopped():
                    raise Stopped
                if refusal := self._early_response():
                    return refusal
                self._write(piece)
        except _PeerClosed:
            return self._final_head()
        return None

    def _await_continue(self) -> Head | None:
        self._socket.settimeout(http11.EXPECT_SECONDS)
        try:
            head = self._next_head(self._socket.recv)
        except TimeoutError:
            return None  # the server ignores Expect
        except OSError as error:
            raise connection_error(self._origin, error) from None
        finally:
            self._socket.settimeout(self._timeout)
        return head if head.status >= 200 else None

    def _early_response(self) -> Head | None:
        """A final response that has already arrived."""
        data = self._waiting()
        if data is None:
            return None
        self._buffer += data or self._receive()
        head = self._next_head(self._receive)
        return head if head.status >= 200 else None

    def _final_head(self) -> Head:
        while (head := self._next_head(self._receive)).status < 200:
            pass
        return head

    def _next_head(self, receive: Callable[[int], bytes]) -> Head:
        while (taken := Head.taken_from(self._buffer)) is None:
            data = receive(http11.CHUNK)
            if not data:
                raise connection_error(self._origin, closed_early(self._buffer), sent=self._sent)
            self._buffer += data
        head, self._buffer = taken
        return head

    def _read(self, request: Request, head: Head, stopped: Flag) -> Response:
        response = Response(head.status, head.headers)
        if request.streams and response.has_lines:
            response.stream = self._pieces(request, head, stopped)
            return response
        pieces: list[Piece] = []
        take = pieces.append
        if request.sink and 200 <= head.status < 300:
            request.sink.begin(response)
            take = request.sink.write
        for piece in self._pieces(request, head, stopped):
            take(piece)
        response.content = b"".join(pieces)
        return response

    def _pieces(self, request: Request, head: Head, stopped: Flag) -> Iterator[Piece]:
        """The body. With its last piece, the connection is free for another request."""
        framing = head.framing(request.method)
        data, self._buffer = self._buffer, b""
        while True:
            pieces = framing.feed(data)
            if framing.done:
                self.keep_alive = head.keep_alive and self._sent
            yield from pieces
            if framing.done:
                return
            if stopped():
                raise Stopped
            data = self._receive()
            if not data and isinstance(framing, UntilClose):
                return
            if not data:
                raise connection_error(self._origin, ConnectionError("the response ended early"), sent=True)

    def _write(self, piece: Piece) -> None:
        left = memoryview(piece)
        try:
            while left:
                # Not sendall: its timeout covers the whole call and would abort a slow but live connection.
                left = left[self._socket.send(left) :]
        except ConnectionError:
            raise _PeerClosed from None
        except OSError as error:
            raise connection_error(self._origin, error) from None

    def _receive(self, most: int = http11.CHUNK) -> bytes:
        try:
            return self._socket.recv(most)
        except OSError as error:
            raise connection_error(self._origin, error, sent=self._sent) from None

    def _waiting(self) -> bytes | None:
        """Data that has already arrived, empty if the connection is closed; None if there is none."""
        self._socket.settimeout(0)
        try:
            return self._socket.recv(http11.CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        except OSError:
            return b""
        finally:
            self._socket.settimeout(self._timeout)

    def is_open(self) -> bool:
        return self._waiting() is None

    def close(self) -> None:
        self._socket.close()
