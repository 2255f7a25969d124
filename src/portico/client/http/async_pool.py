"""Connection pool of the asynchronous client, on asyncio streams."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncGenerator

from portico.client.http import http11
from portico.client.http.effects import Piece, Request, Response
from portico.client.http.http11 import Head, UntilClose, encode_body, expects_continue, request_head
from portico.client.http.origin import Origin, closed_early, connection_error

_CONNECT_SECONDS = 10.0
_CHUNK = 1024 * 1024


class AsyncPool:
    """A pool for one event loop. At most `limit` requests run at once; others wait."""

    def __init__(self, origin: Origin, *, timeout: float, limit: int) -> None:
        self._origin = origin
        self._timeout = timeout
        self._slots = asyncio.Semaphore(limit)
        self._idle: list[tuple[float, _Connection]] = []
        self._streaming: set[_Connection] = set()

    async def exchange(self, request: Request) -> Response:
        async with self._slots:
            connection = self._reused() or await self._opened()
            try:
                response = await connection.perform(request)
            except BaseException:
                connection.abort()
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
            connection.abort()

    async def _streamed(self, connection: "_Connection", pieces: AsyncGenerator[Piece]) -> AsyncGenerator[Piece]:
        self._streaming.add(connection)
        try:
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    if connection.keep_alive:
                        self._release(connection)
                    yield piece
        finally:
            self._release(connection)

    def _release(self, connection: "_Connection") -> None:
        if connection in self._streaming:
            self._streaming.discard(connection)
            self._put(connection)

    def _reused(self) -> "_Connection | None":
        while self._idle:
            since, connection = self._idle.pop()
            if time.monotonic() - since < http11.IDLE_SECONDS and connection.is_open():
                return connection
            connection.abort()
        return None

    async def _opened(self) -> "_Connection":
        origin = self._origin
        context = origin.tls_context()
        try:
            async with asyncio.timeout(min(self._timeout, _CONNECT_SECONDS)):
                reader, writer = await asyncio.open_connection(
                    origin.host,
                    origin.port,
                    ssl=context,
                    server_hostname=origin.host if context else None,
                    limit=_CHUNK,
                )
        except OSError as error:
            raise connection_error(origin, error, opening=True) from None
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _Connection(origin, self._timeout, reader, writer)

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop()[1].close()
        for connection in list(self._streaming):
            connection.abort()


class _Connection:
    def __init__(
        self, origin: Origin, timeout: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._origin = origin
        self._timeout = timeout
        self._reader = reader
        self._writer = writer
        self._continue_received = asyncio.Event()
        self._buffer = b""
        self._sent = False
        self.keep_alive = False

    async def perform(self, request: Request) -> Response:
        self._sent = self.keep_alive = False
        self._continue_received.clear()
        # Read from the start: a refusal may arrive before the whole body is sent.
        heading = asyncio.create_task(self._final_head())
        heading.add_done_callback(lambda task: task.cancelled() or task.exception())  # or asyncio would log the error
        try:
            self._sent = await self._send(request, heading)
            async with asyncio.timeout(self._timeout * (http11.LONG_RUNNING_FACTOR if request.long_running else 1)):
                head = await heading
            return await self._read(request, head)
        except _ConnectionBroken as broken:
            raise connection_error(self._origin, broken.error, sent=self._sent) from None
        except TimeoutError as error:
            raise connection_error(self._origin, error, sent=self._sent) from None
        finally:
            # Not awaited: a cancellation of the caller would look like that of the task. If the task is still
            # running here, the request has failed and the connection is not reused.
            heading.cancel()

    async def _send(self, request: Request, heading: "asyncio.Task[Head]") -> bool:
        """Send the request until a response arrives; return whether all of it was sent."""
        pieces = encode_body(request)
        await self._write(request_head(request, self._origin))
        if expects_continue(request):
            invited = asyncio.create_task(self._continue_received.wait())
            try:
                await asyncio.wait(
                    {invited, heading}, timeout=http11.EXPECT_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                invited.cancel()
        while not heading.done():
            blocking = request.body and request.body.blocking
            piece = await asyncio.to_thread(lambda: next(pieces, None)) if blocking else next(pieces, None)
            if piece is None:
                return True
            try:
                await self._write(piece)
            except _ConnectionBroken:
                return False  # the gateway may have sent a response before it closed the connection
        return False

    async def _final_head(self) -> Head:
        while True:
            while (taken := Head.taken_from(self._buffer)) is None:
                data = await self._receive()
                if not data:
                    raise _ConnectionBroken(closed_early(self._buffer))
                self._buffer += data
            head, self._buffer = taken
            if head.status >= 200:
                return head
            self._continue_received.set()

    async def _read(self, request: Request, head: Head) -> Response:
        response = Response(head.status, head.headers)
        if request.streams and response.has_lines:
            response.stream = self._translated(self._pieces(request, head))
            return response
        sink = request.sink if 200 <= head.status < 300 else None
        pieces: list[Piece] = []
        if sink:
            sink.begin(response)
        async with contextlib.aclosing(self._pieces(request, head)) as body:
            async for piece in body:
                if sink is None:
                    pieces.append(piece)
                elif sink.blocking:
                    await asyncio.to_thread(sink.write, piece)
                else:
                    sink.write(piece)
        response.content = b"".join(pieces)
        return response

    async def _pieces(self, request: Request, head: Head) -> AsyncGenerator[Piece]:
        """The body. With its last piece, the connection is free for another request."""
        framing = head.framing(request.method)
        data, self._buffer = self._buffer, b""
        while True:
            pieces = framing.feed(data)
            if framing.done:
                self.keep_alive = head.keep_alive and self._sent
            for piece in pieces:
                yield piece
            if framing.done:
                return
            async with asyncio.timeout(self._timeout):
                data = await self._receive()
            if not data and isinstance(framing, UntilClose):
                return
            if not data:
                self._sent = True
                raise _ConnectionBroken(ConnectionError("the response ended early"))

    async def _translated(self, pieces: AsyncGenerator[Piece]) -> AsyncGenerator[Piece]:
        """With the errors that `perform` raises."""
        try:
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    yield piece
        except _ConnectionBroken as broken:
            raise connection_error(self._origin, broken.error, sent=True) from None
        except TimeoutError as error:
            raise connection_error(self._origin, error, sent=True) from None

    async def _write(self, piece: Piece) -> None:
        self._writer.write(piece)
        left = self._writer.transport.get_write_buffer_size()
        while True:
            try:
                async with asyncio.timeout(self._timeout):
                    await self._writer.drain()
                return
            except TimeoutError:
                # A slow connection that still makes progress does not time out.
                before, left = left, self._writer.transport.get_write_buffer_size()
                if left >= before:
                    raise
            except OSError as error:
                raise _ConnectionBroken(error) from None

    async def _receive(self) -> bytes:
        try:
            return await self._reader.read(_CHUNK)
        except OSError as error:
            raise _ConnectionBroken(error) from None

    def is_open(self) -> bool:
        return not self._reader.at_eof() and not self._writer.is_closing()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            async with asyncio.timeout(1):
                await self._writer.wait_closed()


class _ConnectionBroken(Exception):
    """The connection failed, as opposed to the request or a sink."""

    def __init__(self, error: OSError) -> None:
        self.error = error
