"""`portico cluster show` and `forget`."""

import asyncio
import json
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest
from sqlalchemy import insert

from portico.accounts.cluster import Cluster
from portico.cli.administration import banner
from portico.model.errors import NotPossible
from portico.server import bind_address
from portico.settings.settings import load
from portico.store.database import Database
from portico.store.schema import newest_revision
from portico.store.tables import leases
from tests.servers.postgres import PostgresServer

from .conftest import Outcome, Portico


@pytest.fixture
def shared(portico: Portico, postgres: PostgresServer, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = postgres.new_database()
    monkeypatch.setenv("PORTICO_DATABASE_URL", url)
    folder = home.parent / "disk"
    folder.mkdir()
    assert portico("migrate").code == 0
    assert portico("connection", "add", "disk", "--kind", "local", "--option", f"folder={folder}").code == 0
    return url


def add_cloud(portico: Portico, name: str = "cloud") -> Outcome:
    options = ("--kind", "s3", "--option", "bucket=b", "--option", "region=eu-central-1", "--secret-stdin")
    return portico("connection", "add", name, *options, stdin="access-key-id=a\nsecret-access-key=b\n")


def hold(url: str, *names: str, until: int) -> None:
    async def add() -> None:
        database = Database(url)
        for name in names:
            row = {"name": name, "owner": "abc@node-1", "owned_until": until}
            await database.execute(insert(leases).values(row))
        await database.close()

    asyncio.run(add())


def test_show(portico: Portico, shared: str) -> None:
    hold(shared, "sweep", until=4_000_000_000_000)
    hold(shared, "expired", until=1)
    facts = portico("cluster", "show", "--json").data
    assert facts["secretKey"] == facts["secretKeyHere"]
    assert len(facts["secretKey"]) == 16
    assert (facts["schema"], facts["oldestCode"], facts["clientId"]) == (newest_revision(), "0015", None)
    expected = {"name": "sweep", "owner": "abc@node-1", "expiresAt": "2096-10-02T07:06:40.000Z"}
    assert facts["leases"] == [expected]
    outcome = portico("cluster", "show")
    assert outcome.code == 0
    assert "leases           sweep: abc@node-1 until 2096-10-02T07:06:40.000Z\n" in outcome.out
    assert "p@ss" not in outcome.out + json.dumps(facts)
    assert "p%40ss" not in outcome.out + json.dumps(facts)


def test_forget(portico: Portico, shared: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unconfirmed = portico("cluster", "forget")
    assert (unconfirmed.code, unconfirmed.out) == (2, "")
    assert "stop all nodes first" in unconfirmed.err
    assert "add --yes" in unconfirmed.err
    (home / "secret.key").unlink()
    assert "This node lacks the secret key" in portico("user", "list").err
    facts = portico("cluster", "show", "--json").data  # works without the key
    assert (facts["secretKeyHere"], facts["secretKey"] is None) == (None, False)
    assert not (home / "secret.key").exists()
    forgotten = portico("cluster", "forget", "--yes")
    assert (forgotten.code, forgotten.err) == (0, "")
    assert "sets them again" in forgotten.out
    assert portico("cluster", "show", "--json").data["secretKey"] is None
    assert portico("user", "list").code == 0  # which only reads
    assert portico("cluster", "show", "--json").data["secretKey"] is None
    assert not (home / "secret.key").exists()
    assert portico("user", "add", "ann", "--connection", "disk", "--generate").code == 0
    assert portico("cluster", "show", "--json").data["secretKey"] is not None
    assert '"action":"cluster.forget"' in (home / "audit.log").read_text()


def test_nothing_is_forgotten_while_a_node_runs(portico: Portico, shared: str) -> None:
    hold(shared, "node:1", "node:2", until=4_000_000_000_000)
    hold(shared, "node:3", until=1)
    facts = portico("cluster", "show", "--json").data
    assert (facts["nodes"], facts["leases"]) == (["node-1"], [])
    assert "nodes            node-1\n" in portico("cluster", "show").out
    refused = portico("cluster", "forget", "--yes")
    assert (refused.code, refused.out) == (1, "")
    assert "The node node-1 is running on the database" in refused.err
    assert "add --force" in refused.err
    assert portico("cluster", "show", "--json").data["secretKey"] is not None
    assert portico("cluster", "forget", "--yes", "--force").code == 0
    assert portico("cluster", "show", "--json").data["secretKey"] is None


def test_config_check_compares_with_the_database(
    portico: Portico, shared: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def agree() -> None:
        database = Database(shared)
        names = ("security.client-id", "security.client-secret", "server.public-url")
        await Cluster(database).agree(dict(zip(names, ("id", "secret", "https://a.test"), strict=True)))
        await database.close()

    asyncio.run(agree())
    assert portico("config", "check").code == 0
    monkeypatch.setenv("PORTICO_SERVER_PUBLIC_URL", "https://b.test")
    monkeypatch.setenv("PORTICO_SECURITY_CLIENT_ID", "other")
    monkeypatch.setenv("PORTICO_SECRET_KEY", "A" * 43)
    outcome = portico("config", "check")
    assert (outcome.code, outcome.out) == (1, "")
    key, client, address = outcome.err.splitlines()
    assert key.startswith("This node's secret key is not the one of the gateway behind the database")
    assert client.startswith("The setting security.client-id differs from the other nodes")
    assert address.startswith("The setting server.public-url differs from the other nodes")
    monkeypatch.delenv("PORTICO_SECRET_KEY")
    (home / "secret.key").unlink()
    assert portico("config", "check").err.startswith("This node lacks the secret key")
    assert not (home / "secret.key").exists()


def test_config_check_without_an_answer_of_the_database(portico: Portico, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTICO_DATABASE_URL", "postgresql://u@127.0.0.1:1/portico")
    outcome = portico("config", "check")
    assert (outcome.code, outcome.out) == (0, "The environment: no mistakes\n")
    assert outcome.err.startswith(
        "The settings were not compared with the database: The database postgresql://127.0.0.1:1/portico"
    )


def test_a_command_that_fails_does_not_claim_the_database(
    portico: Portico, postgres: PostgresServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTICO_DATABASE_URL", postgres.new_database())
    failed = portico("user", "add", "ann", "--generate")
    assert failed.code != 0
    assert "There are no connections yet; add one with 'portico connection add" in failed.err
    assert not home.exists()
    assert portico("cluster", "show", "--json").data["secretKey"] is None
    assert add_cloud(portico).code == 0
    assert portico("cluster", "show", "--json").data["secretKey"] is not None


def test_a_start_that_fails_does_not_claim_the_database(
    portico: Portico, postgres: PostgresServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTICO_DATABASE_URL", postgres.new_database())
    monkeypatch.setattr(bind_address, "check_free", lambda *_: None)

    async def fail(*_: object) -> None:
        raise NotPossible("The disk is full.")

    monkeypatch.setattr("portico.cli.administration.serve.add_local_connection", fail)
    assert portico("serve", "--port", "1").code == 1
    assert not home.exists()
    facts = portico("cluster", "show", "--json").data
    assert (facts["secretKey"], facts["clientId"]) == (None, None)


def test_the_banner_of_an_empty_gateway_begins_with_a_connection(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = load(home, {"PORTICO_DATABASE_URL": "postgresql://h/n"})
    startup = banner.Startup(settings, ip_address("127.0.0.1"), None)
    banner.show(startup)
    out = capsys.readouterr().out
    assert "There are no connections and no Web Users yet" in out
    assert out.index("connection add NAME --kind KIND") < out.index("user add USER --connection NAME")
    banner.show(replace(startup, storage=[("disk", "/srv")]))
    assert "There are no Web Users yet; add one with" in capsys.readouterr().out


def test_a_failure_after_credentials_were_stored_keeps_their_key(
    portico: Portico, postgres: PostgresServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTICO_DATABASE_URL", postgres.new_database())

    async def fail(*_: object) -> None:
        raise NotPossible("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr("portico.cli.administration.connections.bound", fail)
        assert add_cloud(portico).code == 1
    assert (home / "secret.key").exists()
    assert portico("connection", "show", "cloud").code == 0


def test_a_shared_database_needs_no_home(
    portico: Portico, postgres: PostgresServer, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "url").write_text(postgres.new_database())
    monkeypatch.setenv("PORTICO_DATABASE_URL_FILE", str(tmp_path / "url"))
    assert "run 'portico migrate' once" in portico("cluster", "show").err
    forgotten = portico("cluster", "forget", "--yes")
    assert (forgotten.code, forgotten.err) == (0, "")
    assert portico("cluster", "show").code == 0
    assert portico("config", "check").out == "The environment: no mistakes\n"
    assert not home.exists()


def test_credentials_in_the_home_are_sealed_with_one_key(
    anna: Portico, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "secret.key").unlink()
    monkeypatch.setenv("PORTICO_SECRET_KEY", "A" * 43)
    assert add_cloud(anna).code == 0
    monkeypatch.delenv("PORTICO_SECRET_KEY")
    refused = add_cloud(anna, "second")
    assert refused.code == 1
    assert "The secret key is missing" in refused.err
    assert "portico cluster forget" in refused.err
    assert not (home / "secret.key").exists()
    monkeypatch.setenv("PORTICO_SECRET_KEY", "B" * 42 + "A")
    assert "This node's secret key is not the one of the gateway" in add_cloud(anna, "second").err
    assert anna("user", "add", "ben", "--generate").code == 0
    assert anna("cluster", "forget", "--yes").code == 0
    assert add_cloud(anna, "second").code == 0


def test_a_single_node_has_nothing_to_agree_on(anna: Portico) -> None:
    facts = anna("cluster", "show", "--json").data
    assert (facts["secretKey"], facts["leases"]) == (None, [])
    assert anna("cluster", "show").code == 0
