"""A server behind a long line: a proxy that delivers everything a little later."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def far_away(port: int, seconds: float) -> AsyncIterator[int]:
    """A port that leads to `port`; a round trip takes `seconds` more."""
    loop = asyncio.get_running_loop()

    async def deliver(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(2**16):
                loop.call_later(seconds / 2, writer.write, data)
        loop.call_later(seconds / 2, writer.close)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        with suppress(asyncio.CancelledError):  # the test is over
            await asyncio.gather(deliver(reader, there_writer), deliver(there_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
