"""Statements that are written once, on both databases: the same rows as from any other statement."""

import pathlib

import pytest
from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from portico.model.errors import Unavailable
from portico.store.database import Database
from portico.store.prepared import Prepared
from portico.store.tables import connections, uploads

ID = "a" * 32
CHANGE = Prepared(
    update(uploads)
    .where(uploads.c.id == bindparam("upload_id"))
    .values(state=bindparam("new_state"), wanted=bindparam("is_wanted"), owner=None)
    .returning(*uploads.c)
)
DROP = Prepared(delete(uploads).where(uploads.c.id == bindparam("upload_id")))
ADD = Prepared(insert(connections).values(name=bindparam("called"), kind="local", options="{}", revision=1))


@pytest.fixture
async def row(database: Database) -> None:
    await database.execute(ADD, {"called": "store"})
    values = {"id": ID, "connection": "store", "kind": "k", "status": "open", "path": "/ä", "details": "{}"}
    await database.execute(insert(uploads).values(**values, owner="x", created_at=1, expires_at=2**40))


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.usefixtures("row")
async def test_the_rows_are_the_same(database: Database, durable: bool) -> None:
    change = {"upload_id": ID, "new_state": b"\x00\xff", "is_wanted": True}
    (row,) = await database.write(CHANGE, change, durable=durable)
    assert (row.state, row.wanted, row.owner, row.size) == (b"\x00\xff", True, None, None)
    (found,) = await database.fetch(select(uploads))
    assert tuple(found) == tuple(row)
    assert row.wanted is True
    assert not await database.write(CHANGE, {**change, "upload_id": "b" * 32}, durable=durable)


@pytest.mark.usefixtures("row")
async def test_how_many_rows_were_changed(database: Database) -> None:
    assert await database.execute(DROP, {"upload_id": ID}) == 1
    assert await database.execute(DROP, {"upload_id": ID}) == 0


@pytest.mark.usefixtures("row")
async def test_errors_are_those_of_any_statement(database: Database) -> None:
    with pytest.raises(IntegrityError):
        await database.execute(ADD, {"called": "store"})
    await database.execute(ADD, {"called": "other"})  # the connection is usable


async def test_a_database_that_fails(tmp_path: pathlib.Path) -> None:
    empty = Database(f"sqlite:///{tmp_path / 'empty.db'}")
    (tmp_path / "empty.db").touch()
    with pytest.raises(Unavailable, match="Try again"):
        await empty.execute(DROP, {"upload_id": ID})
    await empty.close()
