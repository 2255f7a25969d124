"""From users to the providers behind their connections."""

import asyncio
import os
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from portico.accounts.connections import Connection, Connections
from portico.accounts.users import User, Users
from portico.cursors import CursorSeal
from portico.drives import Drives
from portico.errors import ProviderRefused, Unavailable
from portico.metrics import Metrics
from portico.providers import folder
from portico.providers.local import LocalProvider
from portico.rights import Right


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


async def test_a_folder_is_checked_for_what_its_users_may_do(
    drives: Drives,
    connections: Connections,
    users: Users,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = tmp_path / "files"
    place.mkdir()
    await connections.change("local", options={"folder": str(place)}, secrets={})
    await connections.add("unused", "local", {"folder": "/missing"}, {})
    await connections.add("cloud", "no-such-kind", {}, {})
    await users.add("stray", "correct horse", connection="cloud")
    await users.add("reader", "correct horse", connection="local", rights=[Right.LIST])
    monkeypatch.setattr(folder, "_may", lambda _, access: not access & os.W_OK)
    await drives.check()

    await users.change("reader", rights=[Right.LIST, Right.UPLOAD])
    with pytest.raises(Unavailable) as refusal:
        await drives.check()
    assert str(place) not in refusal.value.detail
    assert f"'local': the connection's folder {place} cannot be written" in (refusal.value.cause or "")

    monkeypatch.undo()
    await drives.check()
    place.rmdir()
    with pytest.raises(Unavailable) as refusal:
        await drives.check()
    assert f"{place} is missing" in (refusal.value.cause or "")
    assert not place.exists()
