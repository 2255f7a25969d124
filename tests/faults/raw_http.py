"""HTTP as bytes over a raw connection: what no client library would send can be sent."""

import asyncio
import json
import socket
import ssl
import struct
from dataclasses import dataclass, field
from typing import Any

from ..gateways import FILES, WAIT

BOUNDARY = "b"
MULTIPART = f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n"


class Broken(Exception):
    """The connection ended before an answer had come, or in the middle of one."""


TRANSPORT = (Broken, TimeoutError, OSError)
"""What may be raised instead of an answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes = field(repr=False)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name.lower()), None)

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The word by which a problem is known; of a sign-in, the word of OAuth; else nothing."""
        if "json" not in (self.header("content-type") or ""):
            return ""
        body = self.json()
        return str(body.get("code") or body.get("error") or "") if isinstance(body, dict) else ""


class Wire:
    """One connection. It may be used for request after request, as far as the gateway allows."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(
        cls, port: int, *, tls: ssl.SSLContext | None = None, receive_buffer: int = 0, source: str = ""
    ) -> "Wire":
        """A small `receive_buffer` makes a reader who can be slow: else the kernel reads for him."""
        connection = socket.socket()
        connection.setblocking(False)
        if source:
            connection.bind((source, 0))
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        name = "localhost" if tls else None
        limit = receive_buffer or 2**16
        try:
            await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
            return cls(*await asyncio.open_connection(sock=connection, ssl=tls, server_hostname=name, limit=limit))
        except BaseException:  # a cancellation too
            connection.close()
            raise

    @property
    def port(self) -> int:
        """Of this end."""
        port: int = self._writer.get_extra_info("sockname")[1]
        return port

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def read(self, most: int) -> bytes:
        return await self._reader.read(most)

    async def answer(self, within: float = WAIT, *, bodiless: bool = False) -> Answer:
        """`Broken` if there is none, `TimeoutError` if it does not come in time."""
        try:
            async with asyncio.timeout(within):
                return await self._answer(bodiless)
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            raise Broken(str(error)) from error

    async def _answer(self, bodiless: bool) -> Answer:
        while True:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
            status = int(first.split(" ")[1])
            if status != 100:
                break
        pairs = (line.partition(":") for line in lines)
        headers = [(name.strip().lower(), value.strip()) for name, _, value in pairs]
        body = b"" if bodiless or status in (204, 304) else await self._body(dict(headers))
        return Answer(status, headers, body)

    async def _body(self, headers: dict[str, str]) -> bytes:
        if "chunked" in headers.get("transfer-encoding", ""):
            pieces = []
            while size := int((await self._reader.readline()).split(b";")[0], 16):
                pieces.append(await self._reader.readexactly(size))
                await self._reader.readline()
            await self._reader.readline()
            return b"".join(pieces)
        if "content-length" in headers:
            return await self._reader.readexactly(int(headers["content-length"]))
        return await self._reader.read()

    async def ends(self, within: float) -> bool:
        """Whether the other side closes, whatever it still says before."""
        try:
            async with asyncio.timeout(within):
                while await self._reader.read(2**16):
                    pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True

    def reset(self) -> None:
        """Vanish without a goodbye."""
        connection = self._writer.get_extra_info("socket")
        if connection.fileno() >= 0:  # else the other side was quicker
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def half_close(self) -> None:
        self._writer.write_eof()

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except (ConnectionError, ssl.SSLError):
            pass


async def ask(port: int, request: bytes, within: float = WAIT) -> Answer:
    """Send it all over a connection of its own; the answer."""
    wire = await Wire.to(port)
    try:
        try:
            await wire.send(request)
        except ConnectionError:
            pass  # it was refused before it was all sent: the answer may be there
        return await wire.answer(within)
    finally:
        await wire.close()


def get(target: str, token: str = "", *headers: str) -> bytes:
    return head("GET", target, token, *headers)


def head(method: str, target: str, token: str, *headers: str) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", *headers]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def form(name: str, content: bytes) -> bytes:
    disposition = f'Content-Disposition: form-data; name="data"; filename="{name}"'
    return f"--{BOUNDARY}\r\n{disposition}\r\n\r\n".encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()


def post(token: str, body: bytes, folder: str = "/", *headers: str) -> bytes:
    """An upload, whole."""
    length = f"Content-Length: {len(body)}"
    return head("POST", FILES + folder, token, MULTIPART.strip(), length, *headers) + body
