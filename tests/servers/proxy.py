"""A proxy between a provider and its server that counts the calls and lets chosen ones go wrong.

Faults are given by `on`: the first one whose test matches a call, and that has turns left, decides what becomes of
it; all other calls are handed on untouched. Host headers are kept, so that signatures stay right.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

_LINE = 2**20


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it came."""

    method: str
    target: str
    headers: Mapping[str, str]
    """By lower-case names."""
    body: bytes = field(repr=False)

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. As a fault: given instead of asking the server."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Lost:
    """The server does its work, and its answer never arrives."""


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection breaks after so many bytes of the request's body; the server never hears of it."""

    after: int = 0


@dataclass(frozen=True, slots=True)
class Torn:
    """Both connections break after so many bytes of the request's body, which the server has got."""

    after: int = 0


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection breaks after so many bytes of the answer's body."""

    after: int = 0


@dataclass(frozen=True, slots=True)
class Silent:
    """No answer, ever."""


@dataclass(frozen=True, slots=True)
class Late:
    """All goes well, but the answer takes so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Throttled:
    """The request's body is read no faster than this."""

    bytes_a_second: int


@dataclass(frozen=True, slots=True)
class Altered:
    """The server's answer, changed on its way."""

    change: Callable[[Reply], Reply]

    @classmethod
    def body(cls, change: Callable[[bytes], bytes]) -> "Altered":
        return cls(lambda reply: replace(reply, body=change(reply.body)))


Fault = Reply | Lost | Reset | Torn | Cut | Silent | Late | Throttled | Altered
Match = Callable[[Call], bool]


@dataclass(slots=True)
class _Rule:
    match: Match
    fault: Fault
    turns: int


class FaultProxy:
    """Use it as an asynchronous context; `port` is where it listens."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._upstream = (host, port)
        self._rules: list[_Rule] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.calls: list[Call] = []
        """All that were made; bodies are left out."""

    def on(self, match: Match, *faults: Fault, turns: int = 1) -> None:
        """Let the calls that match go wrong: `turns` times by each of the faults, in turn."""
        self._rules += [_Rule(match, fault, turns) for fault in faults]

    def forget(self) -> None:
        """Let all go well from now on."""
        self._rules.clear()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_LINE)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the test is over
        finally:
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One call; whether the connection can be used for another."""
        first, headers = await _head(reader)
        method, target, _ = first.split(" ", 2)
        call = Call(method, target, {name.lower(): value for name, value in headers}, b"")
        self.calls.append(call)
        if call.headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        fault = self._fault(call)
        if isinstance(fault, Reset):
            await reader.readexactly(fault.after)
            return False
        if isinstance(fault, Torn):
            await self._tear(call, headers, await reader.readexactly(fault.after))
            return False
        if isinstance(fault, Throttled):
            call = replace(call, body=await _slow_body(reader, call.headers, fault.bytes_a_second))
        else:
            call = replace(call, body=await _body(reader, call.headers))
        if isinstance(fault, Late):
            await asyncio.sleep(fault.seconds)
        if isinstance(fault, Silent):
            await reader.read(1)
            return False
        reply = fault if isinstance(fault, Reply) else await self._ask(call, headers)
        if isinstance(fault, Lost):
            return False
        if isinstance(fault, Altered):
            reply = fault.change(reply)
        writer.write(_written(reply, call.method))
        if isinstance(fault, Cut):
            writer.write(reply.body[: fault.after])
            await writer.drain()
            await asyncio.sleep(0.05)  # an abort would take back what was not sent yet
            return False
        if call.method != "HEAD":
            writer.write(reply.body)
        await writer.drain()
        return True

    def _fault(self, call: Call) -> Fault | None:
        for rule in self._rules:
            if rule.turns and rule.match(call):
                rule.turns -= 1
                return rule.fault
        return None

    async def _tear(self, call: Call, headers: list[tuple[str, str]], body: bytes) -> None:
        _, writer = await asyncio.open_connection(*self._upstream)
        lines = [f"{call.method} {call.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers if name.lower() != "expect"]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        await writer.drain()
        writer.close()

    async def _ask(self, call: Call, headers: list[tuple[str, str]]) -> Reply:
        reader, writer = await asyncio.open_connection(*self._upstream, limit=_LINE)
        try:
            hidden = {"connection", "content-length", "transfer-encoding", "expect"}
            lines = [f"{call.method} {call.target} HTTP/1.1", "Connection: close"]
            lines += [f"{name}: {value}" for name, value in headers if name.lower() not in hidden]
            if call.body or call.method in ("PUT", "POST"):
                lines.append(f"Content-Length: {len(call.body)}")
            writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
            writer.write(call.body)
            first, answered = await _head(reader)
            while first.split(" ")[1] == "100":
                first, answered = await _head(reader)
            status = int(first.split(" ")[1])
            known = {name.lower(): value for name, value in answered}
            bodiless = call.method == "HEAD" or status in (204, 304)
            body = b"" if bodiless else await _body(reader, known, until_end=True)
            return Reply(status, dict(answered), body)
        finally:
            writer.close()


async def _head(reader: asyncio.StreamReader) -> tuple[str, list[tuple[str, str]]]:
    text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = text.removesuffix("\r\n\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return first, [(name.strip(), value.strip()) for name, _, value in pairs]


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str], *, until_end: bool = False) -> bytes:
    if "chunked" in headers.get("transfer-encoding", ""):
        pieces = []
        while size := int((await reader.readline()).split(b";")[0], 16):
            pieces.append(await reader.readexactly(size))
            await reader.readline()
        await reader.readline()
        return b"".join(pieces)
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"]))
    return await reader.read() if until_end else b""


async def _slow_body(reader: asyncio.StreamReader, headers: Mapping[str, str], rate: int) -> bytes:
    """Of known length, a tenth of a second's worth at a time."""
    pieces = []
    left = int(headers["content-length"])
    while left:
        pieces.append(await reader.readexactly(min(left, max(1, rate // 10))))
        left -= len(pieces[-1])
        await asyncio.sleep(0.1)
    return b"".join(pieces)


def _written(reply: Reply, method: str) -> bytes:
    hidden = ("connection", "transfer-encoding", "keep-alive", *(() if method == "HEAD" else ("content-length",)))
    lines = [f"HTTP/1.1 {reply.status} Told"]
    lines += [f"{name}: {value}" for name, value in reply.headers.items() if name.lower() not in hidden]
    if method != "HEAD":
        lines.append(f"Content-Length: {len(reply.body)}")
    elif "content-length" not in {name.lower() for name in reply.headers}:
        lines.append("Content-Length: 0")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
