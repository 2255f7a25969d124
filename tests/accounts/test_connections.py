import asyncio
import json
import pathlib

import pytest
from sqlalchemy import text

from portico.accounts.cluster import Cluster, ClusterMismatch
from portico.accounts.connections import Connections, HomePaths
from portico.accounts.users import Users
from portico.accounts.vault import BadSecretKey, SecretKey, Vault
from portico.model.errors import AlreadyExists, InvalidRequest, NotFound, NotPossible
from portico.model.rights import Right
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


async def stored(database: Database, name: str) -> dict[str, str]:
    async with database.connect() as reading:
        query = text("SELECT options FROM connections WHERE name = :name")
        options: dict[str, str] = json.loads((await reading.execute(query, {"name": name})).scalar_one())
    return options


async def test_a_path_inside_the_home_is_stored_relative_and_shown_whole(
    database: Database, tmp_path: pathlib.Path
) -> None:
    paths = HomePaths(str(tmp_path), {"folder"}, keep_relative=True)
    connections = Connections(database, Vault(SecretKey.generate()), paths)
    folder = str(tmp_path / "files")
    added = await connections.add("local", "local", {"folder": folder}, {})
    assert added.options == {"folder": folder}
    assert await connections.get("local") == added
    assert await stored(database, "local") == {"folder": "files"}
    changed = await connections.change("local", options={"folder": str(tmp_path / "b")}, secrets={})
    assert changed.options == {"folder": str(tmp_path / "b")}
    assert await stored(database, "local") == {"folder": "b"}


async def test_connections_in_use_are_those_of_enabled_users(connections: Connections, users: Users) -> None:
    await connections.add("archive", "local", {"folder": "/a"}, {})
    await connections.add("unused", "local", {"folder": "/b"}, {})
    await users.add("reader", "correct horse", connection="archive", rights=[Right.LIST])
    await users.add("other", "correct horse", connection="archive", rights=[Right.DOWNLOAD])
    await users.add("gone", "correct horse", connection="local")
    await users.change("gone", disabled=True)
    assert await connections.in_use() == {"archive": {Right.LIST, Right.DOWNLOAD}}


async def test_a_change_merges_and_removes(connections: Connections) -> None:
    old = await connections.add("bucket", "s3", {"bucket": "b", "prefix": "p"}, {"key": "1", "other": "2"})
    new = await connections.change("bucket", options={"prefix": None, "region": "r"}, secrets={"key": "3", "x": None})
    assert new.options == {"bucket": "b", "region": "r"}
    assert new.secrets == {"key": "3", "other": "2"}
    assert new.revision > old.revision
    assert await connections.get("bucket") == new
    assert (await connections.change("bucket", options={}, secrets={"key": None, "other": None})).secrets == {}


async def test_changes_at_once_are_all_kept(connections: Connections) -> None:
    await asyncio.gather(*(connections.change("local", options={f"k{n}": "v"}, secrets={}) for n in range(10)))
    assert set((await connections.get("local")).options) == {"folder", *(f"k{n}" for n in range(10))}


async def test_the_revision_grows_when_the_clock_goes_back_and_does_not_start_over_with_a_reused_name(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await connections.get("local")
    monkeypatch.setattr("portico.runtime.clock.now", lambda: first.revision - 60_000)
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
    with pytest.raises(ClusterMismatch, match="is not the one of the gateway"):
        await stranger.add("second", "s3", {}, {"secret-access-key": CANARY})
    await stranger.add("plain", "s3", {}, {})
    with pytest.raises(ClusterMismatch):
        await stranger.change("plain", options={}, secrets={"secret-access-key": CANARY})
    await stranger.delete("bucket")


async def test_the_key_is_noted_with_the_first_credentials_or_not_at_all(
    connections: Connections, database: Database
) -> None:
    cluster = Cluster(database)
    with pytest.raises(AlreadyExists):
        await connections.add("local", "s3", {}, {"secret-access-key": CANARY})
    assert await cluster.identity() == {}
    await connections.add("bucket", "s3", {}, {"secret-access-key": CANARY})
    assert list(await cluster.identity()) == ["secret-key"]


async def test_a_volume_id_is_bound_once_and_forgotten_by_a_change(connections: Connections) -> None:
    local = await connections.get("local")
    assert local.volume_id is None
    bound = await asyncio.gather(
        *(connections.bind(local.name, local.revision, f"{number:032x}") for number in range(8))
    )
    assert len(set(bound)) == 1
    again = await connections.get("local")
    assert (again.volume_id, again.revision) == (bound[0], local.revision)
    changed = await connections.change("local", options={"folder": "/srv/other"}, secrets={})
    assert (await connections.get("local")).volume_id is None
    assert await connections.bind(local.name, local.revision, "late") is None
    assert await connections.bind(changed.name, changed.revision, "new") == "new"
    assert (await connections.get("local")).volume_id == "new"
