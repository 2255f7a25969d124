"""Memory is bounded: constant for an upload whatever its size, and one budget for all of them."""

import asyncio

from ...gateways import FILES
from ..figures import Effort, Figure, Line, Lines, none_of
from ..processes import TunedGateway
from ..raw_http import MULTIPART, Broken, Wire, form, head

MIB = 2**20
BLOCK = bytes(256 * 1024)
LIMIT = 1024
"""Mebibytes resident, for 200 uploads at once."""


class Peak:
    """The most that a worker has taken while this is looked at."""

    def __init__(self, gateway: TunedGateway) -> None:
        self._gateway = gateway
        self.mib = 0

    async def watch(self) -> None:
        while True:
            self.mib = max(self.mib, self._gateway.resident() // MIB)
            await asyncio.sleep(0.05)


async def send(gateway: TunedGateway, name: str, size: int) -> int:
    before, after = form(name, b"\0").split(b"\0")
    length = f"Content-Length: {len(before) + size + len(after)}"
    wire = await Wire.to(gateway.port)
    try:
        await wire.send(head("POST", f"{FILES}/", gateway.token, MULTIPART.strip(), length) + before)
        for start in range(0, size, len(BLOCK)):
            await wire.send(BLOCK[: size - start])
        await wire.send(after)
        return (await wire.answer(300)).status
    except (ConnectionError, Broken, TimeoutError):
        return 0
    finally:
        await wire.close()


async def peak_of(gateway: TunedGateway, uploads: int, size: int) -> tuple[int, list[int]]:
    peak = Peak(gateway)
    watching = asyncio.ensure_future(peak.watch())
    statuses = await asyncio.gather(*(send(gateway, f"file-{number}", size) for number in range(uploads)))
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    return peak.mib, statuses


async def one(effort: Effort) -> list[Figure]:
    small, large = effort.of(16, 64) * MIB, effort.of(128, 2048) * MIB
    async with effort.gateway() as set_:
        first, _ = await peak_of(set_.gateway, 1, small)
        second, statuses = await peak_of(set_.gateway, 1, large)
    return [
        none_of("local: large uploads that failed", 1, [str(status) for status in statuses if status != 204]),
        Figure(
            f"local: memory for {large // MIB} MiB instead of {small // MIB} MiB",
            "≤ 32 MiB more",
            f"{second - first} MiB more ({second} MiB resident)",
            second - first <= 32,
        ),
    ]


async def many(effort: Effort, kind: str) -> list[Figure]:
    uploads, size = effort.of(10, 200), effort.of(2, 12) * MIB
    async with effort.gateway(kind=kind) as set_:
        idle = set_.gateway.resident() // MIB
        most, statuses = await peak_of(set_.gateway, uploads, size)
    return [
        none_of(f"{kind}: uploads that failed", uploads, [str(each) for each in statuses if each != 204]),
        Figure(
            f"{kind}: resident with {uploads} uploads of {size // MIB} MiB at once",
            f"≤ {LIMIT} MiB",
            f"{most} MiB (idle {idle} MiB)",
            most <= LIMIT,
        ),
    ]


def _many(kind: str) -> Line:
    return lambda effort: many(effort, kind)


LINES: Lines = {
    "memory-one": one,
    "memory-local": _many("local"),
    "memory-s3": _many("s3"),
    "memory-azure-blob": _many("azure-blob"),
}
