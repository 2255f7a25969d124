"""A running gateway while its database is saved, moved, migrated by a newer version, and restored."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from portico.store.schema import newest_revision
from tests.gateways import FILES, Gateway, wait_until
from tests.servers.postgres import PostgresServer


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path / "home")
    gateway.start()
    yield gateway
    if gateway.process and gateway.process.poll() is None:
        gateway.stop()


def migrated_by_a_newer_version(url: str, oldest_code: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.execute("UPDATE cluster SET value = %s WHERE name = 'oldest-code'", [oldest_code])


def status(gateway: Gateway, path: str, token: str = "") -> int:
    with gateway.client(headers={"Authorization": f"Bearer {token}"} if token else {}) as client:
        return client.get(path).status_code


def test_from_one_node_to_a_shared_database_through_an_upgrade_and_back_to_a_backup(
    gateway: Gateway, postgres: PostgresServer, tmp_path: Path
) -> None:
    file, url = tmp_path / "portico.backup", postgres.new_database()
    token = gateway.login()["access_token"]
    gateway.command("backup", str(file))  # while it runs

    gateway.stop()
    moved = gateway.command("migrate-database", f"sqlite:///{gateway.home / 'portico.db'}", url)
    assert "the same number of rows" in moved
    gateway.settings["PORTICO_DATABASE_URL"] = url
    gateway.start()
    assert status(gateway, f"{FILES}/", token) == 200  # the session was moved, too

    migrated_by_a_newer_version(url, oldest_code=newest_revision())
    # A database that does not answer within a second is not ready.
    wait_until(lambda: status(gateway, "/readyz") == 200, "the node is ready")
    gateway.stop()
    gateway.start()
    assert status(gateway, f"{FILES}/", token) == 200

    migrated_by_a_newer_version(url, oldest_code="9999")
    # An answer is shared for a second.
    wait_until(lambda: status(gateway, "/readyz") == 503, "the node is not ready")
    assert status(gateway, "/healthz") == 200
    assert "The database was created by a newer version of Portico" in gateway.output
    gateway.stop()

    del gateway.settings["PORTICO_DATABASE_URL"]
    gateway.command("restore", str(file), "--replace", "--yes")
    gateway.start()
    wait_until(lambda: status(gateway, "/readyz") == 200, "the node is ready")
    assert status(gateway, f"{FILES}/", token) == 401  # sessions are not part of a backup
    gateway.login()  # with the first password, which is still in its file
