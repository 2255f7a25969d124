"""From users to the providers behind their connections."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from portico.accounts.connections import Connection, Connections
from portico.accounts.users import User
from portico.cursors import CursorSeal
from portico.drives import Drives
from portico.metrics import Metrics


@pytest.fixture
async def drives(connections: Connections) -> AsyncIterator[Drives]:
    drives = Drives(connections, CursorSeal(bytes(32)), Metrics())
    yield drives
    await drives.close()


@pytest.fixture
def asked(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The connections that were looked up."""
    names: list[str] = []
    get = connections.get

    async def counted(name: str) -> Connection:
        names.append(name)
        return await get(name)

    monkeypatch.setattr(connections, "get", counted)
    return names


async def test_many_at_once_look_a_connection_up_once(drives: Drives, alice: User, asked: list[str]) -> None:
    found = await asyncio.gather(*(drives.of(alice) for _ in range(100)))
    assert asked == ["local"]
    assert len({id(drive._provider) for drive in found}) == 1
    await drives.of(alice)
    assert asked == ["local"]


async def test_a_look_that_is_under_way_ends_with_the_drives(
    drives: Drives, alice: User, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def endless(_: str) -> Any:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(connections, "get", endless)
    waiting = asyncio.create_task(drives.of(alice))
    await begun.wait()
    await drives.close()
    await asyncio.wait([waiting], timeout=10)
    assert waiting.cancelled()
