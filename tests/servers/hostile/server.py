"""The hostile service, and the server to which it redirects the gateway."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

_BLOCK = b"<Contents><Key>x</Key></Contents>" * 2000
_DENSE = b"<R>" + b"<a/>&lt;" * 120_000 + b"<!-- -->" + b"x" * 3_000_000 + b"</R>"
LISTENER = "a connection to a server of this test"
"""The name of such tasks."""
_REDIRECTS = (301, 302, 303, 307, 308)


class Attack(Enum):
    REDIRECT = "redirect"
    ENDLESS_BODY = "endless body"
    ENDLESS_ERROR = "endless error"
    SILENCE = "silence"
    TRICKLE = "trickle"
    NONSENSE = "nonsense"
    CROWD = "more than was asked for"
    DENSE_BODY = "dense body"
    ENDLESS_WALK = "endless walk"
    FOREIGN_SESSION = "upload session at another host"


_IN_THE_CONTENT = (Attack.ENDLESS_WALK, Attack.NONSENSE, Attack.CROWD, Attack.FOREIGN_SESSION)


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    """Decoded, without its leading slash."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = field(repr=False, default=b"")


@dataclass(slots=True)
class Response:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | str = field(default=b"", repr=False)


Behaviour = Callable[[Request, "Hostile"], Response]
"""How the service that it imitates would respond."""


class _Listener:
    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.set_name(LISTENER)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        try:
            await self._converse(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


class Trap(_Listener):
    """Nothing may ever get here."""

    def __init__(self) -> None:
        super().__init__()
        self.caught: list[bytes] = []

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.caught.append(await reader.read(65_536))
        body = b"secret of another host"
        writer.write(b"HTTP/1.1 200 OK\r\nETag: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()


class Hostile(_Listener):
    """Well-behaved until it has answered `since` requests; from then on it attacks."""

    def __init__(self, behaviour: Behaviour, trap: Trap | None = None) -> None:
        super().__init__()
        self._behaviour = behaviour
        self.trap = trap
        self.attack: Attack | None = None
        self.since = 0
        self.asked = 0
        """Requests since `begin`."""
        self.attacks = 0
        self.sent = 0
        """Bytes of endless answers that somebody took."""
        self.written = False
        """Whether anything was; what it was is forgotten."""

    def begin(self, attack: Attack | None, since: int = 0) -> None:
        self.attack, self.since = attack, since
        self.asked = self.attacks = self.sent = 0
        self.written = False

    @property
    def walks(self) -> bool:
        """Whether listings never end."""
        return self.attack is Attack.ENDLESS_WALK

    def page(self, most: str) -> int | None:
        """How many entries a listing has at most."""
        return None if self.attack is Attack.CROWD else int(most)

    @property
    def raves(self) -> bool:
        return self.attack is Attack.NONSENSE

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await _read_request(reader)
            self.asked += 1
            attack = self.attack if self.asked > self.since else None
            if attack in (None, *_IN_THE_CONTENT):
                response = self._behaviour(request, self)
                self.written |= request.method in ("PUT", "POST")
                body = response.body.encode() if isinstance(response.body, str) else response.body
                head = {"Content-Length": str(len(body)), **response.headers}
                writer.write(_head(response.status, head) + (b"" if request.method == "HEAD" else body))
                await writer.drain()
                continue
            self.attacks += 1
            await self._strike(attack, request, reader, writer)
            return

    async def _strike(
        self, attack: Attack | None, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if attack is Attack.REDIRECT:
            assert self.trap is not None
            status = _REDIRECTS[self.asked % len(_REDIRECTS)]
            target = f"{self.trap.url}/stolen?of={request.method}"
            writer.write(_head(status, {"Location": target, "Content-Length": "0"}))
            await writer.drain()
        elif attack is Attack.SILENCE:
            await reader.read()
        elif attack is Attack.DENSE_BODY:
            writer.write(_head(200, {"Content-Length": str(len(_DENSE))}))
            writer.write(b"" if request.method == "HEAD" else _DENSE)
            await reader.read()  # until it was taken: the connection is aborted afterwards
        elif request.method == "HEAD" or attack is Attack.TRICKLE:
            await self._headers_without_end(writer, slow=attack is Attack.TRICKLE)
        else:
            status = 200 if attack is Attack.ENDLESS_BODY else 400
            writer.write(_head(status, {"Transfer-Encoding": "chunked", "Content-Type": "application/xml"}))
            writer.write(_chunk(b'<?xml version="1.0"?><Result>'))
            while True:
                writer.write(_chunk(_BLOCK))
                await writer.drain()
                self.sent += len(_BLOCK)

    async def _headers_without_end(self, writer: asyncio.StreamWriter, *, slow: bool) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X" if slow else b"X-More: of the same\r\n" * 100)
            await writer.drain()
            self.sent += 2000
            if slow:
                await asyncio.sleep(0.05)


async def _read_request(reader: asyncio.StreamReader) -> Request:
    text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = text.removesuffix("\r\n\r\n").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    method, target, _ = first.split(" ", 2)
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return Request(method, unquote(parts.path).lstrip("/"), query, headers, body)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)
