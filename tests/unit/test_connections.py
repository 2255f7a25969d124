import asyncio
import pathlib

import pytest

from portico.accounts.connections import Connections
from portico.accounts.users import Users
from portico.accounts.vault import BadSecretKey, SecretKey, Vault
from portico.errors import AlreadyExists, InvalidRequest, NotFound, NotPossible
from portico.store.database import Database

CANARY = "canary-of-the-vault"


async def test_a_connection_is_read_as_it_was_added(connections: Connections) -> None:
    added = await connections.add("bucket", "s3", {"bucket": "b"}, {"secret-access-key": CANARY})
    assert await connections.get("bucket") == added
    assert added.secrets == {"secret-access-key": CANARY}
    assert CANARY not in repr(added)
    assert [connection.name for connection in await connections.list()] == ["bucket", "local"]
    with pytest.raises(AlreadyExists):
        await connections.add("bucket", "s3", {}, {})


async def test_secrets_are_not_in_the_file(
    connections: Connections, database: Database, url: str, tmp_path: pathlib.Path
) -> None:
    await connections.add("bucket", "s3", {"bucket": "visible-name"}, {"secret-access-key": CANARY})
    if database.dialect == "sqlite":
        await database.close()
        stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert b"visible-name" in stored
        assert CANARY.encode() not in stored


async def test_a_change_merges_and_removes(connections: Connections) -> None:
    old = await connections.add("bucket", "s3", {"bucket": "b", "prefix": "p"}, {"key": "1", "other": "2"})
    new = await connections.change(
        "bucket", options={"prefix": None, "region": "r"}, secrets={"key": "3", "x": None}
    )
    assert new.options == {"bucket": "b", "region": "r"}
    assert new.secrets == {"key": "3", "other": "2"}
    assert new.revision > old.revision
    assert await connections.get("bucket") == new
    assert (
        await connections.change("bucket", options={}, secrets={"key": None, "other": None})
    ).secrets == {}


async def test_changes_at_once_are_all_kept(connections: Connections) -> None:
    await asyncio.gather(
        *(connections.change("local", options={f"k{n}": "v"}, secrets={}) for n in range(10))
    )
    assert set((await connections.get("local")).options) == {"folder", *(f"k{n}" for n in range(10))}


async def test_the_revision_grows_when_the_clock_goes_back_and_does_not_start_over_with_a_reused_name(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await connections.get("local")
    monkeypatch.setattr("portico.accounts.moments.now", lambda: first.revision - 60_000)
    second = await connections.change("local", options={}, secrets={})
    assert second.revision > first.revision
    assert await connections.revisions() == {"local": second.revision}
    monkeypatch.undo()
    await connections.delete("local")
    third = await connections.add("local", "local", {}, {})
    assert third.revision >= second.revision


@pytest.mark.parametrize("name", ["", ".x", "a b", "a\0b", "x" * 65])
async def test_odd_names(connections: Connections, name: str) -> None:
    with pytest.raises(InvalidRequest):
        await connections.add(name, "local", {}, {})
    with pytest.raises(NotFound):
        await connections.get(name)


async def test_unknown_connections(connections: Connections) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        await connections.get("nowhere")
    with pytest.raises(NotFound):
        await connections.change("nowhere", options={}, secrets={})
    with pytest.raises(NotFound):
        await connections.delete("nowhere")


async def test_a_connection_in_use_stays(connections: Connections, users: Users) -> None:
    await users.add("bob", "correct horse")
    await users.add("Alice", "correct horse")
    with pytest.raises(NotPossible, match="Alice, bob"):
        await connections.delete("local")
    await users.delete("bob")
    await users.delete("alice")
    await connections.delete("local")
    assert await connections.list() == []


async def test_with_another_key_the_secrets_stay_closed_and_the_rest_works(
    connections: Connections, database: Database
) -> None:
    await connections.add("bucket", "s3", {}, {"secret-access-key": CANARY})
    stranger = Connections(database, Vault(SecretKey.generate()))
    assert (await stranger.get("local")).options == {"folder": "/srv/files"}
    with pytest.raises(BadSecretKey, match="bucket"):
        await stranger.get("bucket")
    await stranger.delete("bucket")
