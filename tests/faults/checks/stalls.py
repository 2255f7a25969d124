"""The loop never stalls: how long each bad input keeps a worker's event loop busy at a stretch."""

import asyncio
from pathlib import Path

from ..bad_inputs import HALF_STORED, NOTHING_STORED, Bad, Stranger
from ..figures import Effort, Figure, Lines
from ..processes import TunedGateway
from ..raw_http import Broken, ask, form, head, post
from .floods import credentials

LIMIT = 50
"""Milliseconds of processor time. What else runs on the machine must not count, so time itself is only shown."""
MIB = 2**20


def _large(size: int) -> dict[str, Bad]:
    """Much of what is costly to look at, as the content of a file."""
    fillings = {
        "CR": b"\r" * size,
        "LF": b"\n" * size,
        "CRLF": b"\r\n" * (size // 2),
        "CRLF--": b"\r\n--" * (size // 4),
        "dashes": b"-" * size,
        "nearly boundaries": b"\r\n--a" * (size // 5),
    }
    return {f"{size // MIB} MiB of {word}": _content(filling) for word, filling in fillings.items()}


def _content(filling: bytes) -> Bad:
    return Bad(lambda who: post(who.token, form("a", filling)), 204)


async def stall(effort: Effort) -> list[Figure]:
    file = effort.new_folder() / "stalls"
    file.touch()
    bads = {f"{group}: {name}": bad for group, cases in NOTHING_STORED.items() for name, bad in cases.items()}
    bads |= {f"multipart: {name}": bad for name, bad in HALF_STORED.items()}
    if not effort.long:
        del bads["multipart: 100,000 tiny parts"]
    bads |= _large(effort.of(8, 64) * MIB)
    async with effort.gateway(watch=file) as set_:
        stranger = await _stranger(set_.gateway)
        found = {name: await _worst(set_.gateway, stranger, bad, file) for name, bad in bads.items()}
    worst = sorted(found.items(), key=lambda item: -item[1][0])
    shown = ", ".join(f"{name} {used:.0f} ms ({wall:.0f} ms of time)" for name, (used, wall) in worst[:3])
    return [
        Figure(
            f"longest stretch that the event loop was busy, {len(bads)} bad inputs",
            f"≤ {LIMIT} ms",
            shown,
            worst[0][1][0] <= LIMIT,
        )
    ]


async def _stranger(gateway: TunedGateway) -> Stranger:
    for name in ("one", "two"):
        assert await gateway.put(name, b"", "/folder") == 204
    page = (await gateway.get("/folder?size=1")).json()
    ended = gateway.login()["access_token"]
    assert (await gateway.ask(head("POST", "/backend/logout", ended))).status == 204
    return Stranger(gateway.token, ended, credentials(gateway)[0], page["nextCursor"])


async def _worst(gateway: TunedGateway, who: Stranger, bad: Bad, file: Path) -> tuple[float, float]:
    await asyncio.sleep(0.01)
    before = file.stat().st_size
    try:
        await ask(gateway.port, bad.request(who), 120)
    except Broken:
        pass
    await asyncio.sleep(0.01)
    with file.open() as lines:
        lines.seek(before)
        pairs = [tuple(float(number) for number in line.split()) for line in lines]
    return max(((used, wall) for used, wall in pairs), default=(0.0, 0.0))


LINES: Lines = {"stall": stall}
