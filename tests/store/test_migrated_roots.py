"""Revision 0012: the root of each user becomes a mount at `/`."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, text

from portico.accounts.mounts import Mounts, owner_of
from portico.accounts.passwords import Passwords
from portico.accounts.users import Users
from portico.store import schema
from portico.store.database import Database
from portico.store.dump import Batch, Content, Misfit, load
from portico.store.schema import change_schema, is_current, migrate, newest_revision
from portico.store.tables import api_keys, families, uploads, users

from ..servers.postgres import PostgresServer

CONNECTION = {"name": "local", "kind": "local", "options": "{}", "secrets": None, "revision": 8, "volume_id": None}
USERS = [
    {
        "id": number, "name": name, "name_key": name, "password_hash": "x", "connection": "local", "root": root,
        "rights": rights, "disabled": False, "created_at": 1, "password_changed_at": 2,
    }
    for number, name, root, rights in (
        (3, "anna", "/anna", "list download upload overwrite"), (4, "bob", "/a {x}/{user}", ""), (9, "last", "/", "list")
    )
]  # fmt: skip
OTHERS: dict[str, dict[str, Any]] = {
    "families": {"id": "f", "user_id": 3, "expires_at": 2**41},
    "api_keys": {
        "id": "k", "digest": b"k" * 32, "user_id": 3, "name": "key", "rights": "list", "folder": "/", "addresses": "",
        "created_at": 1,
    },
    "digests": {
        "location": b"l" * 32, "connection": "local", "sha256": b"s" * 32, "etag": "e", "size": 1, "last_modified": "",
        "stored_at": 1,
    },
    "uploads": {
        "id": "u", "user_id": 3, "connection": "local", "kind": "k", "status": "s", "path": "/x", "offset": 0,
        "details": "{}", "owned_until": 0, "wanted": False, "created_at": 1, "expires_at": 2**41,
    },
}  # fmt: skip


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.new_database()
    return f"sqlite:///{tmp_path / 'old.db'}"


@pytest.fixture
async def old_url(empty_url: str) -> str:
    """A database of revision 0011 that was used, and whose user with the highest id was deleted."""

    async def fill(connection: Any, _: str) -> None:
        await connection.run_sync(lambda sync: schema.upgrade(sync, "0011"))
        rows_of: dict[str, list[dict[str, Any]]] = {"connections": [CONNECTION], "users": USERS}
        for table, rows in (rows_of | {name: [row] for name, row in OTHERS.items()}).items():
            for row in rows:
                names = ", ".join(f'"{name}"' for name in row)
                values = ", ".join(f":{name}" for name in row)
                await connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({values})"), row)
        await connection.execute(text("DELETE FROM users WHERE id = 9"))

    await change_schema(empty_url, fill)
    return empty_url


@pytest.fixture
async def migrated(old_url: str) -> AsyncIterator[Database]:
    migrate(old_url)
    database = Database(old_url)
    yield database
    await database.close()


async def test_each_user_keeps_the_tree(migrated: Database, passwords: Passwords) -> None:
    found = {user.name: user for user in await Users(migrated, passwords).list()}
    assert {name: str(user.reach) for name, user in found.items()} == {
        "anna": "local/anna\nlist download upload overwrite",
        "bob": "local/a {x}/{user}\n",
    }
    assert await is_current(migrated)
    row = await migrated.first(text("SELECT value FROM cluster WHERE name = 'oldest-code'"))
    assert row is not None
    assert row.value == "0015", "older code would not know the columns of the journal"


async def test_the_compiled_reach_is_that_of_the_mounts(migrated: Database, passwords: Passwords) -> None:
    before = await migrated.fetch(select(users.c.id, users.c.reach).order_by(users.c.id))
    accounts = Users(migrated, passwords)
    for name in ("anna", "bob"):
        await accounts.change(name, rights=(await accounts.get(name)).rights)  # compiles it again
    assert await migrated.fetch(select(users.c.id, users.c.reach).order_by(users.c.id)) == before
    [mount] = await Mounts(migrated).list(owner_of("bob"))
    assert mount.rule.folder == "/a {{x}}/{{user}}"


async def test_what_belongs_to_users_stays(migrated: Database) -> None:
    for table in (families, api_keys, uploads):
        [row] = await migrated.fetch(select(table))
        assert row.user_id == 3
    if migrated.dialect == "sqlite":
        assert await migrated.fetch(text("PRAGMA foreign_key_check")) == []


async def test_the_id_of_a_deleted_user_is_not_used_again(migrated: Database, passwords: Passwords) -> None:
    if migrated.dialect == "sqlite":  # in PostgreSQL the rows were added with their ids
        assert (await Users(migrated, passwords).add("new", None)).id == 10


async def test_a_backup_of_the_revision_before_is_restored(old_url: str, tmp_path: Path, passwords: Passwords) -> None:
    target = f"sqlite:///{tmp_path / 'restored.db'}"

    async def batches() -> AsyncIterator[Batch]:
        for table, rows in (("connections", [CONNECTION]), ("users", USERS), ("api_keys", [OTHERS["api_keys"]])):
            yield Batch(table, tuple(rows[0]), [tuple(row.values()) for row in rows])

    await load(target, Content("0011", batches))
    database = Database(target)
    try:
        assert [str(user.reach.mounts[0].place) for user in await Users(database, passwords).list()] == [
            "local/anna",
            "local/a {x}/{user}",
            "local/",
        ]
        assert len(await database.fetch(select(api_keys))) == 1
    finally:
        await database.close()


async def test_rows_without_what_they_refer_to_are_not_loaded(tmp_path: Path) -> None:
    target = f"sqlite:///{tmp_path / 'restored.db'}"

    async def batches() -> AsyncIterator[Batch]:
        row = OTHERS["families"]
        yield Batch("families", tuple(row), [tuple(row.values())])

    with pytest.raises(Misfit, match="families"):
        await load(target, Content(newest_revision(), batches))


async def test_a_mount_has_one_owner(migrated: Database) -> None:
    from sqlalchemy.exc import IntegrityError

    from portico.store.tables import mounts

    row = {"path": "/x", "connection": "local", "folder": "/", "rights": ""}
    with pytest.raises(IntegrityError):
        await migrated.execute(insert(mounts).values(row))
