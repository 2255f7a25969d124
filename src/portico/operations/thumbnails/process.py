"""`ThumbnailProcess`: the gateway's side of `thumbnail_worker`."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from importlib.util import find_spec
from pathlib import Path

import msgspec
import structlog

from portico.model.entries import Chunks
from portico.model.errors import Unavailable
from portico.operations.thumbnails import worker
from portico.runtime.fair_turns import FairTurns, Keys

AT_ONCE = 3
"""Per worker of the gateway: that many times the memory and a core of a child."""
_SHARE = AT_ONCE - 1
"""Of one actor, and of all guests of one link: others don't wait for their slow documents."""
_MAX_WAITING = 256
_MAX_ANSWER = 8 * 2**20
_TIMEOUT = worker.MAX_SECONDS + 5.0
"""Seconds. The child has ended by then, unless the machine is stuck."""

log = structlog.get_logger()


class Request(msgspec.Struct):
    kind: str
    length: int
    size: int
    page: int


class _Head(msgspec.Struct):
    pages: int
    lengths: list[int]


class Pictures(msgspec.Struct):
    pages: int
    """Of the whole file."""
    content: list[bytes]
    """WebP, one for each page from the requested one on, as many as were made."""


class ThumbnailProcess:
    """Starts with the first thumbnail, and once more if it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._starting = asyncio.Lock()
        self._turns = FairTurns(AT_ONCE, _MAX_WAITING, shares=(_SHARE, _SHARE))

    @staticmethod
    def is_installed() -> bool:
        return find_spec("PIL") is not None

    @staticmethod
    def has_documents() -> bool:
        return find_spec("pypdfium2") is not None

    def turn(self, keys: Keys) -> AbstractAsyncContextManager[None]:
        """One of the few places, in turn by actor. `Unavailable` if too many wait for one."""
        full = Unavailable("Too many thumbnails are being made. Try again in a moment.", retry_after=5)
        return self._turns.turn(keys, full=full)

    async def make(self, request: Request, chunks: Chunks) -> Pictures | None:
        """What the worker makes of a file; None if it cannot. Take a `turn` first.

        `Unavailable` if the worker ended before it had the whole file, because the storage is slow.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                await self._submit(theirs)
            ours.setblocking(False)
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        except BaseException:
            ours.close()
            raise
        try:
            async with asyncio.timeout(_TIMEOUT):
                writer.write(msgspec.json.encode(request) + b"\n")
                async for chunk in chunks:
                    writer.write(chunk)
                    await writer.drain()
                writer.write_eof()
                with suppress(ConnectionError):
                    return _pictures(await _all(reader))
                return None
        except (TimeoutError, ConnectionError):
            raise _unavailable() from None
        finally:
            writer.close()

    async def _submit(self, theirs: socket.socket) -> None:
        for _ in range(2):
            control = await self._running()
            try:
                socket.send_fds(control, [b"f"], [theirs.fileno()])
                return
            except BlockingIOError:
                break
            except OSError:  # it has ended
                self.close()
        raise _unavailable()

    async def _running(self) -> socket.socket:
        async with self._starting:
            if self._control is None:
                ours, theirs = socket.socketpair()
                ours.setblocking(False)
                with theirs:
                    self._process = await asyncio.to_thread(_start, theirs)
                self._control = ours
            return self._control

    def close(self) -> None:
        """Its children end by themselves."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _unavailable() -> Unavailable:
    return Unavailable("Thumbnails can't be made right now. Try again later.", retry_after=30)


def _start(control: socket.socket) -> subprocess.Popen[bytes]:
    """With no environment, and no descriptor but the socket."""
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", worker.__file__, *_places()],
        stdin=control.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
        start_new_session=True,  # a Ctrl-C in the terminal is not for it
    )


def _places() -> Sequence[str]:
    """Where the libraries are, wherever they were installed."""
    origins = [spec.origin for name in ("PIL", "pypdfium2") if (spec := find_spec(name))]
    return sorted({str(Path(origin).parents[1]) for origin in origins if origin})


async def _all(reader: asyncio.StreamReader) -> bytes:
    answer = bytearray()
    while data := await reader.read(2**16):
        answer += data
        if len(answer) > _MAX_ANSWER:
            return b""
    return bytes(answer)


def _pictures(answer: bytes) -> Pictures | None:
    """Read with care: the process has had a hostile file in its hands."""
    line, _, rest = answer.partition(b"\n")
    try:
        head = msgspec.json.decode(line, type=_Head)
    except (msgspec.DecodeError, json.JSONDecodeError, ValueError):
        return None
    content = []
    for length in head.lengths:
        content.append(rest[: max(0, length)])
        rest = rest[max(0, length) :]
    if rest or not content or not all(_is_webp(each) for each in content):
        return None
    return Pictures(min(max(head.pages, 1), 100_000), content)


def _is_webp(content: bytes) -> bool:
    return content[:4] == b"RIFF" and content[8:12] == b"WEBP"
