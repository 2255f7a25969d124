"""Resumable uploads: a gateway that is killed again and again, and many of them at once."""

import asyncio
import sqlite3
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import closing
from hashlib import sha256

import httpx2

from portico.api.tus import MEDIA_TYPE, UPLOADS

from ...gateways import FILES, WAIT
from ..figures import Effort, Figure, Line, Lines, at_most, none_of
from ..processes import TunedGateway
from .memory import LIMIT, MIB, Peak

_BLOCK = 256 * 1024
_KILL_BYTES = 64 * MIB
"""How much may be sent again for each kill: what lay in sockets and buffers, and was not saved."""


def _block(number: int) -> bytes:
    return sha256(number.to_bytes(8, "big")).digest() * (_BLOCK // 32)


class _Sender:
    """A client that goes on after any error, and counts what it sends."""

    def __init__(self, gateway: TunedGateway, size: int, name: str) -> None:
        self._gateway = gateway
        self._size = size
        self._name = name
        self.sent = 0
        self.digest = ""

    async def run(self) -> int:
        headers = {"Authorization": f"Bearer {self._gateway.token}", "Tus-Resumable": "1.0.0"}
        async with httpx2.AsyncClient(
            base_url=self._gateway.url, headers=headers, timeout=WAIT, limits=httpx2.Limits(max_connections=1)
        ) as client:
            address = await self._create(client)
            while True:
                try:
                    answer = await client.head(address)
                    if answer.status_code == 503:  # it is still starting
                        await asyncio.sleep(0.05)
                        continue
                    if answer.status_code != 200:
                        return answer.status_code
                    offset = int(answer.headers["Upload-Offset"])
                    if offset == self._size:
                        return 204
                    await client.patch(
                        address,
                        content=self._content(offset),
                        headers={
                            "Upload-Offset": str(offset),
                            "Content-Type": MEDIA_TYPE,
                            "Content-Length": str(self._size - offset),
                        },
                    )
                except httpx2.TransportError:
                    await asyncio.sleep(0.05)

    async def _create(self, client: httpx2.AsyncClient) -> str:
        name = b64encode(self._name.encode()).decode()
        answer = await client.post(
            UPLOADS, headers={"Upload-Length": str(self._size), "Upload-Metadata": f"filename {name}"}
        )
        assert answer.status_code == 201, answer.text
        return str(answer.headers["Location"])

    async def _content(self, offset: int) -> AsyncIterator[bytes]:
        while offset < self._size:
            block = _block(offset // _BLOCK)[offset % _BLOCK :][: self._size - offset]
            yield block
            self.sent += len(block)
            offset += len(block)


async def kills(effort: Effort) -> list[Figure]:
    """One upload, and a gateway that is killed whenever it has got a little further."""
    times, size = effort.of(3, 100), effort.of(48, 2048) * MIB
    async with effort.gateway() as set_:
        gateway = set_.gateway
        sender = _Sender(gateway, size, "killed.bin")
        sending = asyncio.create_task(sender.run())
        done = 0
        while done < times and not sending.done():
            if _saved(gateway) >= (done + 1) * size // (times + 2):
                await asyncio.to_thread(gateway.kill)
                await asyncio.to_thread(gateway.start)
                done += 1
            await asyncio.sleep(0.005)
        status = await sending
        stored = await stored_digest(gateway, "killed.bin")
        left = await set_.storage.left_over()
    expected = sha256()
    for start in range(0, size, _BLOCK):
        expected.update(_block(start // _BLOCK)[: size - start])
    again = (sender.sent - size) // max(done, 1)
    return [
        Figure("kills during one upload", f"≥ {times}", str(done), done >= times, timed=True),
        none_of("uploads that did not end well", 1, [] if status == 204 else [str(status)]),
        none_of("files with other content", 1, [] if stored == expected.hexdigest() else [stored]),
        none_of("staged files that are left", 1, left),
        at_most("sent again for each kill", _KILL_BYTES // MIB, again // MIB, "MiB"),
    ]


def _saved(gateway: TunedGateway) -> int:
    with closing(sqlite3.connect(gateway.home / "portico.db", timeout=60)) as database:
        (found,) = database.execute('SELECT max("offset") FROM uploads').fetchone()
    return found or 0


async def stored_digest(gateway: TunedGateway, name: str) -> str:
    digest = sha256()
    headers = {"Authorization": f"Bearer {gateway.token}"}
    async with (
        httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=WAIT) as client,
        client.stream("GET", f"{FILES}/{name}") as answer,
    ):
        async for chunk in answer.aiter_bytes():
            digest.update(chunk)
    return digest.hexdigest()


async def many(effort: Effort, kind: str) -> list[Figure]:
    number, size = effort.of(10, 200), effort.of(2, 12) * MIB
    async with effort.gateway(kind=kind) as set_:
        gateway = set_.gateway
        idle = gateway.resident() // MIB
        peak = Peak(gateway)
        watching = asyncio.ensure_future(peak.watch())
        senders = [_Sender(gateway, size, f"file-{each}") for each in range(number)]
        statuses = await asyncio.gather(*(sender.run() for sender in senders))
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return [
        none_of(f"{kind}: uploads that failed", number, [str(each) for each in statuses if each != 204]),
        Figure(
            f"{kind}: resident with {number} resumable uploads of {size // MIB} MiB at once",
            f"≤ {LIMIT} MiB",
            f"{peak.mib} MiB (idle {idle} MiB)",
            peak.mib <= LIMIT,
        ),
    ]


def _many(kind: str) -> Line:
    return lambda effort: many(effort, kind)


LINES: Lines = {"resumable-kills": kills, "resumable-memory-local": _many("local"), "resumable-memory-s3": _many("s3")}
