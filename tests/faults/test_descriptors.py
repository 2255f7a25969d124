"""More clients than connections: with few descriptors, and with slow clients by the thousand."""

import asyncio
import os
from pathlib import Path

import pytest

from portico.cli.server import connections_within

from .figures import Effort
from .processes import TunedGateway
from .wire import Broken, Wire, ask, form, get, post


def spent(process: int) -> float:
    """Seconds of a processor that it has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def served(gateway: TunedGateway) -> int:
    return (await ask(gateway.port, get("/healthz"))).status


async def test_a_limit_of_256_descriptors(tmp_path: Path) -> None:
    """More connections than that wait or are let go, nothing spins, nothing is lost, and all is well afterwards."""
    async with Effort(False, tmp_path).gateway(descriptors=256) as set_:
        gateway = set_.gateway
        wires = [await Wire.to(gateway.port) for _ in range(300)]
        await asyncio.sleep(0.5)
        before = spent(gateway.workers()[0])
        await asyncio.sleep(2)
        assert spent(gateway.workers()[0]) - before < 0.2
        for wire in wires:
            wire.reset()
        assert await served(gateway) == 200
        stored = await asyncio.gather(*(_put(gateway, f"file-{number}") for number in range(200)))
        assert stored == [204] * 200
        assert len(await gateway.names()) == 200


async def _put(gateway: TunedGateway, name: str) -> int:
    """As a client does who tries again."""
    for _ in range(10):
        try:
            answer = await ask(gateway.port, post(gateway.token, form(name, b"x" * 2**20)), 60)
        except (Broken, OSError):
            await asyncio.sleep(0.2)
            continue
        if answer.status != 503:
            return answer.status
    return 0


@pytest.mark.parametrize(
    ("descriptors", "connections"),
    [(64, 8), (256, 64), (1024, 448), (65_536, 4096), (10**6, 4096)],
)
def test_connections_leave_descriptors_for_files(descriptors: int, connections: int) -> None:
    assert connections_within(4096, descriptors) == connections
