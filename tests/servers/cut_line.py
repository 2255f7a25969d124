"""A bad line: a forwarder that breaks connections after some bytes, a number of times, and is fine after that."""

import asyncio
import random
from contextlib import suppress
from types import TracebackType
from typing import Self

_CHUNK = 16 * 1024


class CutLine:
    def __init__(self, port: int, cuts: int, least: int, most: int, seed: int = 0) -> None:
        """`cuts` times, after `least` to `most` bytes in all, the connection that is sending is broken."""
        self._upstream = port
        self._left = cuts
        self._range = (least, most)
        self._random = random.Random(seed)
        self._room = self._random.randint(least, most)
        self.cuts = 0
        """How many were broken."""
        self._running: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        address: tuple[str, int] = self._server.sockets[0].getsockname()
        return address[1]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.transport.abort()
            return
        try:
            async with asyncio.TaskGroup() as group:
                back = group.create_task(self._forward(up_reader, writer))
                await self._forward(reader, up_writer, may_break=True)
                await back
        except* OSError:
            pass
        finally:
            for each in (writer, up_writer):
                each.transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, may_break: bool = False
    ) -> None:
        while chunk := await reader.read(_CHUNK):
            if may_break:
                self._count(len(chunk))
            writer.write(chunk)
            await writer.drain()
        with suppress(OSError):
            writer.write_eof()

    def _count(self, sent: int) -> None:
        self._room -= sent
        if self._room < 0 and self._left > 0:
            self._left -= 1
            self.cuts += 1
            self._room = self._random.randint(*self._range)
            raise ConnectionResetError
