"""`portico cluster show` and `forget`."""

import asyncio
import json
from pathlib import Path

import pytest
from sqlalchemy import insert

from portico.store.database import Database
from portico.store.tables import leases
from tests.servers.postgres import PostgresServer

from .conftest import Portico


@pytest.fixture
def shared(portico: Portico, postgres: PostgresServer, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = postgres.new_database()
    monkeypatch.setenv("PORTICO_DATABASE_URL", url)
    folder = home.parent / "disk"
    folder.mkdir()
    assert portico("migrate").code == 0
    assert portico("connection", "add", "disk", "--kind", "local", "--option", f"folder={folder}").code == 0
    return url


def hold(url: str, *names: str, until: int) -> None:
    async def add() -> None:
        database = Database(url)
        for name in names:
            row = {"name": name, "owner": "node-1/abc", "fence": 1, "expires_at": until}
            await database.execute(insert(leases).values(row))
        await database.close()

    asyncio.run(add())


def test_show(portico: Portico, shared: str) -> None:
    hold(shared, "sweep", until=4_000_000_000_000)
    hold(shared, "expired", until=1)
    facts = portico("cluster", "show", "--json").data
    assert facts["secretKey"] == facts["secretKeyHere"]
    assert len(facts["secretKey"]) == 16
    assert (facts["schema"], facts["oldestCode"], facts["clientId"]) == ("0003", "0002", None)
    expected = {"name": "sweep", "owner": "node-1/abc", "expiresAt": "2096-10-02T07:06:40.000Z"}
    assert facts["leases"] == [expected]
    outcome = portico("cluster", "show")
    assert outcome.code == 0
    assert "leases           sweep: node-1/abc until 2096-10-02T07:06:40.000Z\n" in outcome.out
    assert "p@ss" not in outcome.out + json.dumps(facts)
    assert "p%40ss" not in outcome.out + json.dumps(facts)


def test_forget(portico: Portico, shared: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unconfirmed = portico("cluster", "forget")
    assert (unconfirmed.code, unconfirmed.out) == (2, "")
    assert "stop all nodes first" in unconfirmed.err
    assert "add --yes" in unconfirmed.err
    (home / "secret.key").unlink()
    assert "There is no secret key here" in portico("user", "list").err
    facts = portico("cluster", "show", "--json").data  # works without the key
    assert (facts["secretKeyHere"], facts["secretKey"] is None) == (None, False)
    assert not (home / "secret.key").exists()
    forgotten = portico("cluster", "forget", "--yes")
    assert (forgotten.code, forgotten.err) == (0, "")
    assert "decides anew" in forgotten.out
    assert portico("cluster", "show", "--json").data["secretKey"] is None
    assert portico("user", "list").code == 0
    assert portico("cluster", "show", "--json").data["secretKey"] is not None
    assert '"action":"cluster.forget"' in (home / "audit.log").read_text()


def test_a_single_node_has_nothing_to_agree_on(anna: Portico) -> None:
    facts = anna("cluster", "show", "--json").data
    assert (facts["secretKey"], facts["leases"]) == (None, [])
    assert anna("cluster", "show").code == 0
