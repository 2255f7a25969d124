"""Connections of the synchronous client: blocking sockets, kept open between requests."""

import socket
import ssl
import threading
import time
from collections.abc import Callable

from portico.client.errors import NotAGateway
from portico.client.steps import Answer, Ask, Piece, Stopped
from portico.client.wire import (
    CHUNK,
    EXPECT_SECONDS,
    IDLE_SECONDS,
    LONGEST_HEAD,
    PATIENCE,
    Head,
    Origin,
    closed,
    failure,
    framed,
    is_expectant,
    request_head,
)

_CONNECT_SECONDS = 10.0

Flag = Callable[[], bool]


class Sockets:
    """A pool that threads share. At most `limit` requests are on their way at once; others wait."""

    def __init__(self, origin: Origin, *, timeout: float, limit: int) -> None:
        self._origin = origin
        self._timeout = timeout
        self._room = threading.BoundedSemaphore(limit)
        self._idle: list[tuple[float, _Connection]] = []

    def exchange(self, ask: Ask, stopped: Flag) -> Answer:
        with self._room:
            connection = self._take()
            try:
                answer = connection.perform(ask, stopped)
            except BaseException:
                connection.close()
                raise
            if connection.keeps:
                self._idle.append((time.monotonic(), connection))
            else:
                connection.close()
            return answer

    def _take(self) -> "_Connection":
        while self._idle:
            try:
                since, connection = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if time.monotonic() - since < IDLE_SECONDS and connection.is_open():
                return connection
            connection.close()
        return _Connection(self._origin, self._timeout)

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[1].close()


class _HungUp(Exception):
    """Nothing more can be sent. Whoever hangs up on a request may have said why before."""


class _Connection:
    def __init__(self, origin: Origin, timeout: float) -> None:
        self._origin = origin
        self._timeout = timeout
        self._buffer = b""
        self._sent = False
        self.keeps = False
        context = origin.trust()
        try:
            self._socket = socket.create_connection(
                (origin.host, origin.port), min(timeout, _CONNECT_SECONDS)
            )
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context:
                self._socket = context.wrap_socket(self._socket, server_hostname=origin.host)
        except OSError as error:
            raise failure(origin, error, opening=True) from None

    def perform(self, ask: Ask, stopped: Flag) -> Answer:
        self._sent = self.keeps = False
        self._socket.settimeout(self._timeout)
        early = self._send(ask, stopped)
        self._sent = early is None
        if ask.patient:
            self._socket.settimeout(self._timeout * PATIENCE)
        head = early or self._final_head()
        self._socket.settimeout(self._timeout)
        return self._read(ask, head, stopped)

    def _send(self, ask: Ask, stopped: Flag) -> Head | None:
        """Send the request; an answer that comes before its end stops it and is returned."""
        pieces = framed(ask)
        head = request_head(ask, self._origin)
        try:
            if is_expectant(ask):
                self._write(head)
                if refusal := self._refusal():
                    return refusal
            else:
                self._write(b"".join((head, next(pieces, b""))))
            for piece in pieces:
                if stopped():
                    raise Stopped
                if refusal := self._glance():
                    return refusal
                self._write(piece)
        except _HungUp:
            return self._final_head()
        return None

    def _refusal(self) -> Head | None:
        """Wait for the word that the body may come; an answer that forbids it is returned."""
        self._socket.settimeout(EXPECT_SECONDS)
        try:
            head = self._next_head(self._socket.recv)
        except TimeoutError:
            return None  # it does not know how to say it
        except OSError as error:
            raise failure(self._origin, error) from None
        finally:
            self._socket.settimeout(self._timeout)
        return head if head.status >= 200 else None

    def _glance(self) -> Head | None:
        """An answer that is there already."""
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
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > LONGEST_HEAD:
                raise NotAGateway("The answer begins with more headers than are taken in.")
            data = receive(CHUNK)
            if not data:
                raise failure(self._origin, closed(self._buffer), sent=self._sent)
            self._buffer += data
        block, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
        return Head.of(block)

    def _read(self, ask: Ask, head: Head, stopped: Flag) -> Answer:
        answer = Answer(head.status, head.headers)
        framing = head.framing(ask.method)
        pieces: list[Piece] = []
        take = pieces.append
        if ask.sink and 200 <= head.status < 300:
            ask.sink.begin(answer)
            take = ask.sink.write
        data, self._buffer = self._buffer, b""
        while True:
            for piece in framing.feed(data):
                take(piece)
            if framing.done:
                break
            if stopped():
                raise Stopped
            data = self._receive()
            if not data and framing.end():
                break
            if not data:
                raise failure(self._origin, ConnectionError("the answer broke off"), sent=True)
        answer.content = b"".join(pieces)
        self.keeps = head.keeps and self._sent
        return answer

    def _write(self, piece: Piece) -> None:
        left = memoryview(piece)
        try:
            while left:
                # Not sendall: the timeout is for silence, and must not end a slow line that is still moving.
                left = left[self._socket.send(left) :]
        except ConnectionError:
            raise _HungUp from None
        except OSError as error:
            raise failure(self._origin, error) from None

    def _receive(self, most: int = CHUNK) -> bytes:
        try:
            return self._socket.recv(most)
        except OSError as error:
            raise failure(self._origin, error, sent=self._sent) from None

    def _waiting(self) -> bytes | None:
        """What has arrived unasked, or nothing at the end of the connection; None if all is quiet."""
        self._socket.settimeout(0)
        try:
            return self._socket.recv(CHUNK)
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
