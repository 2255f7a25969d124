"""Clients of others on a line that is cut again and again, with chunks of every size, to every kind of storage."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from hashlib import file_digest
from pathlib import Path

from ...servers.cut_line import CutLine
from ...tus.clients import send_by_tus_js, send_by_tuspy
from ..figures import Effort, Figure, Line, Lines, none_of
from ..processes import TunedGateway
from .memory import MIB
from .resumable import stored_digest

KINDS = ("local", "s3", "azure-blob", "azure-files", "gcs")
_CUTS = 10_000
"""More than there will be: the line is never fine."""

Send = Callable[[int, TunedGateway, Path, str], Awaitable[None]]


def _by_tus_js(chunk: int | None) -> Send:
    async def send(port: int, gateway: TunedGateway, file: Path, folder: str) -> None:
        options = {} if chunk is None else {"chunkSize": chunk}
        await send_by_tus_js(port, gateway, file, metadata={"folder": folder}, **options)

    return send


def _by_tuspy(chunk: int) -> Send:
    async def send(port: int, gateway: TunedGateway, file: Path, folder: str) -> None:
        await asyncio.to_thread(send_by_tuspy, port, gateway, file, chunk, {"folder": folder})

    return send


SENDERS: dict[str, Send] = {
    "tus-js-client, no chunks": _by_tus_js(None),
    "tus-js-client, 6 MiB": _by_tus_js(6 * MIB),
    "tus-js-client, 1 MiB": _by_tus_js(MIB),
    "tus-js-client, 64 KiB": _by_tus_js(64 * 1024),
    "tuspy, 64 KiB": _by_tuspy(64 * 1024),
    "tuspy, 1 MiB": _by_tuspy(MIB),
    "tuspy, 6 MiB": _by_tuspy(6 * MIB),
    "tuspy, no chunks": _by_tuspy(2**40),
}


async def send_to(effort: Effort, kind: str) -> list[Figure]:
    size = effort.of(12, 1024) * MIB
    file = effort.new_folder() / "sent.bin"
    digest = await asyncio.to_thread(_make, file, size)
    wrong: list[str] = []
    left: list[str] = []
    cuts = 0
    async with effort.gateway("--workers", "2", kind=kind) as set_:
        gateway = set_.gateway
        for number, (name, send) in enumerate(SENDERS.items()):
            folder = f"sender-{number}"
            async with CutLine(gateway.port, _CUTS, size // 200, size // 8, seed=number) as line:
                await send(line.port, gateway, file, folder)
            effort.say(f"{kind}: {name}, {line.cuts} cuts")
            cuts += line.cuts
            if await gateway.names(f"/{folder}") != [file.name]:
                wrong.append(f"{name}: not exactly one file")
            elif await stored_digest(gateway, f"{folder}/{file.name}") != digest:
                wrong.append(f"{name}: other content")
            left += await set_.storage.left_over()
    return [
        none_of(f"{kind}: files of {size // MIB} MiB that are not there once, and whole", len(SENDERS), wrong),
        none_of(f"{kind}: what was left over", len(SENDERS), left),
        Figure(f"{kind}: cuts of the line", f"≥ {len(SENDERS)}", str(cuts), cuts >= len(SENDERS)),
    ]


def _make(file: Path, size: int) -> str:
    source = random.Random(size)
    with file.open("wb") as stream:
        for _ in range(size // MIB):
            stream.write(source.randbytes(MIB))
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def _line(kind: str) -> Line:
    return lambda effort: send_to(effort, kind)


LINES: Lines = {f"tus-clients-{kind}": _line(kind) for kind in KINDS}
