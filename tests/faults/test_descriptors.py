"""More clients than connections: with few descriptors, and with slow clients by the thousand."""

import asyncio
from pathlib import Path

import pytest

from portico.server.processes import connections_within

from ..gateways import wait_until
from .figures import Effort
from .processes import TunedGateway
from .raw_http import Broken, Wire, ask, form, get, post

LIMIT = 256


async def served(gateway: TunedGateway) -> int:
    return (await ask(gateway.port, get("/healthz"))).status


async def test_a_limit_of_256_descriptors(tmp_path: Path) -> None:
    """More connections than that wait or are closed, descriptors are left, and afterwards all is well."""
    async with Effort(False, tmp_path).gateway(descriptors=LIMIT) as set_:
        gateway = set_.gateway
        idle = gateway.descriptors()
        wires = [await Wire.to(gateway.port) for _ in range(300)]
        accepted = connections_within(4096, LIMIT)
        await asyncio.to_thread(
            wait_until, lambda: gateway.descriptors() > idle + accepted // 2, "connections are accepted"
        )
        # A server without descriptors spins. This one stops accepting while each connection can still open a file.
        assert gateway.descriptors() <= LIMIT - accepted
        for wire in wires:
            wire.reset()
        assert await served(gateway) == 200
        stored = await asyncio.gather(*(_put(gateway, f"file-{number}") for number in range(200)))
        assert stored == [204] * 200
        assert len(await gateway.names()) == 200


async def _put(gateway: TunedGateway, name: str) -> int:
    """Like a client that tries again."""
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
    ("descriptors", "connections"), [(64, 8), (256, 64), (1024, 448), (65_536, 4096), (10**6, 4096)]
)
def test_connections_leave_descriptors_for_files(descriptors: int, connections: int) -> None:
    assert connections_within(4096, descriptors) == connections
