"""A store that is far away: a proxy that delivers everything later and counts the calls.

It runs in a process of its own: `python -m bench.far_away PORT STORE_PORT MILLISECONDS COUNT_FILE`. Every connection
of a client is one to the store, and stays open as long as both like.
"""

import asyncio
import re
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path

from bench.load import Target
from bench.processes import Process, free_port
from bench.workspace import Workspace

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_END_OF_CHUNKS = b"0\r\n\r\n"
_DIGITS = 12


class FarAway(Process):
    """The proxy, started."""

    def __init__(self, work: Workspace, store: Target, milliseconds: float) -> None:
        """A round trip takes so many milliseconds more, half of them in each direction."""
        port = free_port()
        self.target = Target(port)
        self._count = work.folder / f"calls-{port}"
        self._count.write_text("0")
        super().__init__(
            "delaying proxy",
            [
                *(sys.executable, "-m", "bench.far_away", str(port), str(store.port)),
                *(str(milliseconds), str(self._count)),
            ],
            port,
            log=work.folder / f"far-away-{port}.log",
        )

    @property
    def calls(self) -> int:
        """How many requests have come so far."""
        return int(self._count.read_text())


class Requests:
    """Counts the requests in what a client sends over one connection."""

    def __init__(self) -> None:
        self.count = 0
        self._head = b""
        self._left = 0
        """Bytes of the body that are still to come."""
        self._tail: bytes | None = None
        """The last bytes of a body in chunks."""

    def feed(self, data: bytes) -> None:
        while data:
            if self._left:
                taken = min(self._left, len(data))
                self._left -= taken
                data = data[taken:]
            elif self._tail is not None:
                seen = self._tail + data
                end = seen.find(_END_OF_CHUNKS)
                self._tail = None if end >= 0 else seen[-len(_END_OF_CHUNKS) + 1 :]
                data = seen[end + len(_END_OF_CHUNKS) :] if end >= 0 else b""
            else:
                data = self._begun(self._head + data)

    def _begun(self, data: bytes) -> bytes:
        """Take a head, if there is a whole one; what follows it."""
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._head = data
            return b""
        self.count += 1
        head, self._head = data[: end + 2], b""
        if _CHUNKED.search(head):
            self._tail = b"\r\n"
        elif found := _LENGTH.search(head):
            self._left = int(found[1])
        return data[end + 4 :]


class _Proxy:
    def __init__(self, store: int, seconds: float, count: Path) -> None:
        self._store = store
        self._delay = seconds / 2
        self._file = open(count, "r+b", buffering=0)  # noqa: SIM115 - as long as the process
        self._calls = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        store_reader, store_writer = await asyncio.open_connection("127.0.0.1", self._store)
        await asyncio.gather(self._deliver(reader, store_writer, Requests()), self._deliver(store_reader, writer, None))

    async def _deliver(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: Requests | None
    ) -> None:
        loop = asyncio.get_running_loop()
        waiting: deque[bytes] = deque()
        """In order: timers of the same moment have none."""

        def send() -> None:
            data = waiting.popleft()
            if data:
                writer.write(data)
            else:
                writer.close()

        with suppress(ConnectionError):
            while data := await reader.read(2**18):
                if requests:
                    self._note(requests, data)
                waiting.append(data)
                loop.call_later(self._delay, send)
        waiting.append(b"")
        loop.call_later(self._delay, send)

    def _note(self, requests: Requests, data: bytes) -> None:
        before = requests.count
        requests.feed(data)
        if requests.count > before:
            self._calls += requests.count - before
            self._file.seek(0)
            self._file.write(str(self._calls).zfill(_DIGITS).encode())


async def main() -> None:
    port, store, milliseconds, count = sys.argv[1:]
    proxy = _Proxy(int(store), float(milliseconds) / 1000, Path(count))
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", int(port), limit=2**20)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
