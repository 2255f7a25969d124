"""From users to the providers behind their connections."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from portico.accounts.connections import Connection, Connections
from portico.accounts.users import User
from portico.cursors import CursorSeal
from portico.drives import Drives
from portico.errors import ProviderRefused
from portico.metrics import Metrics
from portico.providers.local import LocalProvider


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


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[LocalProvider]:
    """The providers that were closed, once for each time."""
    providers: list[LocalProvider] = []
    close = LocalProvider.close

    async def counted(self: LocalProvider) -> None:
        providers.append(self)
        await close(self)

    monkeypatch.setattr(LocalProvider, "close", counted)
    return providers


@pytest.mark.parametrize("opens_again", [True, False])
async def test_a_replaced_provider_is_retired_and_closed_once(
    drives: Drives,
    alice: User,
    connections: Connections,
    closed: list[LocalProvider],
    monkeypatch: pytest.MonkeyPatch,
    opens_again: bool,
) -> None:
    """However often the changed connection is tried and cannot be opened."""
    monkeypatch.setattr("portico.drives._TRUSTED_SECONDS", 0.0)
    await drives.of(alice)
    await connections.change("local", options={"unknown": "option"}, secrets={})
    for _ in range(5):
        with pytest.raises(ProviderRefused):
            await drives.of(alice)
        assert len(drives._retired) == 1
    if opens_again:
        await connections.change("local", options={"unknown": None}, secrets={})
        await drives.of(alice)
        assert len(drives._retired) == 1
    await drives.close()
    assert len(closed) == len(set(closed)) == (2 if opens_again else 1)
