"""Bytes in are bytes out, over every size at which a provider changes its way."""

from collections.abc import Iterator
from hashlib import sha256
from random import Random

from ...gateways import FILES
from ..figures import Effort, Figure, Lines, none_of
from ..processes import TunedGateway
from ..raw_http import MULTIPART, Wire, form, get, head

MIB = 2**20
BEYOND_5_GIB = 5 * 2**30 + 1
PATIENCE = 900.0


def content_of(size: int) -> Iterator[bytes]:
    """Zeros with a mark in every mebibyte, so that a missing, doubled or exchanged block shows."""
    noise = Random(size).randbytes(MIB) if size < 64 * MIB else bytes(MIB)
    for number, start in enumerate(range(0, size, MIB)):
        block = number.to_bytes(8, "big") + noise[8:]
        yield block[: min(MIB, size - start)]


async def _sent(gateway: TunedGateway, name: str, size: int) -> tuple[int, str]:
    before, after = form(name, b"\0").split(b"\0")
    length = f"Content-Length: {len(before) + size + len(after)}"
    digest = sha256()
    wire = await Wire.to(gateway.port)
    try:
        await wire.send(head("POST", f"{FILES}/", gateway.token, MULTIPART.strip(), length) + before)
        for block in content_of(size):
            digest.update(block)
            await wire.send(block)
        await wire.send(after)
        return (await wire.answer(PATIENCE)).status, digest.hexdigest()
    finally:
        await wire.close()


async def _received(gateway: TunedGateway, name: str) -> tuple[int, str]:
    """Without keeping it: a file may be larger than the memory."""
    digest, size = sha256(), 0
    wire = await Wire.to(gateway.port)
    try:
        await wire.send(get(f"{FILES}/{name}", gateway.token, "Connection: close"))
        received = await wire.read(MIB)
        while b"\r\n\r\n" not in received:
            received += await wire.read(MIB)
        head_, _, body = received.partition(b"\r\n\r\n")
        assert head_.startswith(b"HTTP/1.1 200"), head_
        chunked = b"transfer-encoding: chunked" in head_.lower()
        assert not chunked, "a download has a length"
        while True:
            digest.update(body)
            size += len(body)
            if not (body := await wire.read(MIB)):
                break
    finally:
        await wire.close()
    return size, digest.hexdigest()


async def _compared(effort: Effort, kind: str, sizes: list[int]) -> list[str]:
    wrong = []
    async with effort.gateway(kind=kind) as set_:
        for size in sizes or _sizes(set_.storage.part):
            status, digest = await _sent(set_.gateway, f"file-{size}", size)
            if status != 204:
                wrong.append(f"{size} bytes: answered {status}")
            elif (found := await _received(set_.gateway, f"file-{size}")) != (size, digest):
                wrong.append(f"{size} bytes: {found[0]} came back")
            if size > 2**30:
                effort.say(f"{kind}: {size} bytes went in and came out")
    return wrong


def _sizes(part: int) -> list[int]:
    return [0, 1, part - 1, part, part + 1, 3 * part + 17]


async def sizes(effort: Effort, kind: str) -> list[Figure]:
    return [none_of(f"{kind}: sizes that came back changed", 6, await _compared(effort, kind, []))]


async def large(effort: Effort, kind: str) -> list[Figure]:
    size = BEYOND_5_GIB if effort.long else 32 * MIB + 1
    return [none_of(f"{kind}: {size:,} bytes came back changed", 1, await _compared(effort, kind, [size]))]


LINES: Lines = {
    "integrity-local": lambda effort: sizes(effort, "local"),
    "integrity-s3": lambda effort: sizes(effort, "s3"),
    "integrity-azure-blob": lambda effort: sizes(effort, "azure-blob"),
    "large-local": lambda effort: large(effort, "local"),
    "large-s3": lambda effort: large(effort, "s3-swift"),
}
