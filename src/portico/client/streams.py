"""Connections of the asynchronous client: asyncio's streams, kept open between requests."""

import asyncio
import contextlib
import socket
import time
from typing import Any

from portico.client.errors import NotAGateway
from portico.client.steps import Answer, Ask, Piece
from portico.client.wire import (
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
_CHUNK = 1024 * 1024


class Streams:
    """A pool that tasks of one event loop share. At most `limit` requests are on their way at once; others wait."""

    def __init__(self, origin: Origin, *, timeout: float, limit: int) -> None:
        self._origin = origin
        self._timeout = timeout
        self._room = asyncio.Semaphore(limit)
        self._idle: list[tuple[float, _Connection]] = []

    async def exchange(self, ask: Ask) -> Answer:
        async with self._room:
            connection = self._reused() or await self._opened()
            try:
                answer = await connection.perform(ask)
            except BaseException:
                connection.abort()
                raise
            if connection.keeps:
                self._idle.append((time.monotonic(), connection))
            else:
                connection.abort()
            return answer

    def _reused(self) -> "_Connection | None":
        while self._idle:
            since, connection = self._idle.pop()
            if time.monotonic() - since < IDLE_SECONDS and connection.is_open():
                return connection
            connection.abort()
        return None

    async def _opened(self) -> "_Connection":
        origin = self._origin
        context = origin.trust()
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
            raise failure(origin, error, opening=True) from None
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _Connection(origin, self._timeout, reader, writer)

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop()[1].close()


class _Connection:
    def __init__(
        self, origin: Origin, timeout: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._origin = origin
        self._timeout = timeout
        self._reader = reader
        self._writer = writer
        self._invited = asyncio.Event()
        self._buffer = b""
        self._sent = False
        self.keeps = False

    async def perform(self, ask: Ask) -> Answer:
        self._sent = self.keeps = False
        self._invited.clear()
        # The answer is listened for from the beginning: a refusal may come before the body's end.
        heading = asyncio.create_task(self._final_head())
        heading.add_done_callback(_retrieve)
        try:
            self._sent = await self._send(ask, heading)
            async with asyncio.timeout(self._timeout * (PATIENCE if ask.patient else 1)):
                head = await heading
            return await self._read(ask, head)
        except _Broken as broken:
            raise failure(self._origin, broken.error, sent=self._sent) from None
        except TimeoutError as error:
            raise failure(self._origin, error, sent=self._sent) from None
        finally:
            # Not awaited: a cancellation of the caller that came meanwhile could not be told from the task's own. If
            # the task is still running here, the request has failed and its connection is not used again.
            heading.cancel()

    async def _send(self, ask: Ask, heading: "asyncio.Task[Head]") -> bool:
        """Send the request, unless an answer stops it; whether all of it went out."""
        pieces = framed(ask)
        await self._write(request_head(ask, self._origin))
        if is_expectant(ask):
            await self._invitation(heading)
        while not heading.done():
            piece = await _next(pieces) if ask.body and ask.body.slow else next(pieces, None)
            if piece is None:
                return True
            try:
                await self._write(piece)
            except _Broken:
                return False  # whoever hangs up on a body may have said why
        return False

    async def _invitation(self, heading: "asyncio.Task[Head]") -> None:
        """Wait for the word that the body may come, or for an answer that forbids it."""
        invited = asyncio.create_task(self._invited.wait())
        try:
            await asyncio.wait(
                {invited, heading}, timeout=EXPECT_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            invited.cancel()

    async def _final_head(self) -> Head:
        while (head := await self._next_head()).status < 200:
            self._invited.set()
        return head

    async def _next_head(self) -> Head:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > LONGEST_HEAD:
                raise NotAGateway("The answer begins with more headers than are taken in.")
            data = await self._receive()
            if not data:
                raise _Broken(closed(self._buffer))
            self._buffer += data
        block, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
        return Head.of(block)

    async def _read(self, ask: Ask, head: Head) -> Answer:
        answer = Answer(head.status, head.headers)
        framing = head.framing(ask.method)
        sink = ask.sink if 200 <= head.status < 300 else None
        pieces: list[Piece] = []
        if sink:
            sink.begin(answer)
        data, self._buffer = self._buffer, b""
        while True:
            for piece in framing.feed(data):
                if sink is None:
                    pieces.append(piece)
                elif sink.slow:
                    await asyncio.to_thread(sink.write, piece)
                else:
                    sink.write(piece)
            if framing.done:
                break
            async with asyncio.timeout(self._timeout):
                data = await self._receive()
            if not data and framing.end():
                break
            if not data:
                self._sent = True
                raise _Broken(ConnectionError("the answer broke off"))
        answer.content = b"".join(pieces)
        self.keeps = head.keeps and self._sent
        return answer

    async def _write(self, piece: Piece) -> None:
        self._writer.write(piece)
        left = self._writer.transport.get_write_buffer_size()
        while True:
            try:
                async with asyncio.timeout(self._timeout):
                    await self._writer.drain()
                return
            except TimeoutError:
                # The timeout is for silence: a slow line that is still moving is not given up.
                before, left = left, self._writer.transport.get_write_buffer_size()
                if left >= before:
                    raise
            except OSError as error:
                raise _Broken(error) from None

    async def _receive(self) -> bytes:
        try:
            return await self._reader.read(_CHUNK)
        except OSError as error:
            raise _Broken(error) from None

    def is_open(self) -> bool:
        return not self._reader.at_eof() and not self._writer.is_closing()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            async with asyncio.timeout(1):
                await self._writer.wait_closed()


class _Broken(Exception):
    """The connection, and not what is at its ends, failed."""

    def __init__(self, error: OSError) -> None:
        self.error = error


def _retrieve(task: "asyncio.Task[Head]") -> None:
    """Take the error, or asyncio would log that nobody did; who awaits the task gets it all the same."""
    if not task.cancelled():
        task.exception()


async def _next(pieces: Any) -> Piece | None:
    piece: Piece | None = await asyncio.to_thread(next, pieces, None)
    return piece
