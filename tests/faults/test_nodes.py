"""Two nodes on one PostgreSQL: ready or not, and why; one audit log."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from ..gateways import FILES, Gateway, wait_until
from ..servers.postgres import PostgresServer, running_postgres
from .conftest import Start

CLIENT = ("portico-test", "not-confidential")
PASSWORD = "correct horse"


@pytest.fixture
def url(postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a new database, which every gateway and command of the test uses."""
    url = postgres.new_database()
    _share(monkeypatch, url)
    return url


def _share(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("PORTICO_DATABASE_URL", url)
    monkeypatch.setenv("PORTICO_SECURITY_CLIENT_ID", CLIENT[0])
    monkeypatch.setenv("PORTICO_SECURITY_CLIENT_SECRET", CLIENT[1])
    monkeypatch.setenv("PORTICO_AUDIT_LOG", "database")
    monkeypatch.setenv("PORTICO_AUDIT_REQUIRED", "true")


def faults(gateway: Gateway) -> dict[str, str]:
    with gateway.client() as client:
        answer = client.get("/readyz")
    if answer.status_code == 200:
        return {}
    found: dict[str, str] = answer.json()["faults"]
    return found


def add_user(gateway: Gateway, folder: Path) -> None:
    folder.mkdir()
    gateway.command("connection", "add", "shared", "--kind", "local", "--option", f"folder={folder}")
    gateway.command("user", "add", "ann", "--connection", "shared", "--password-stdin", stdin=PASSWORD)


def sign_in(gateway: Gateway) -> httpx2.Client:
    client = gateway.client()
    form = {"grant_type": "password", "username": "ann", "password": PASSWORD}
    answer = client.post("/backend/login", data=form, auth=CLIENT)
    assert answer.status_code == 200, answer.text
    client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
    return client


def audit(gateway: Gateway, *filters: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        json.loads(line) for line in gateway.command("audit", "list", "--json", *filters).splitlines()
    ]
    return found


def test_two_nodes_have_one_journal(start: Start, url: str, tmp_path: Path) -> None:
    one = start(settings={"PORTICO_NODE_NAME": "one"})
    add_user(one, tmp_path / "shared")
    two = start(settings={"PORTICO_NODE_NAME": "two"}, copy_of=one.home)
    client = sign_in(one)
    assert client.post(f"{FILES}/", files={"data": ("a.txt", b"x")}).status_code == 204
    with two.client(headers={"Authorization": client.headers["Authorization"]}) as other:
        assert other.delete(f"{FILES}/a.txt").status_code == 204
    client.close()
    expected = {"one": [("sign-in", "done"), ("upload", "done")], "two": [("delete", "done")]}

    def lines() -> dict[str, list[tuple[str, str]]]:
        """A busy node may write that a request is done after another node has begun the next one."""
        found = audit(two, "--user", "ann")
        return {
            node: [(each["action"], each["outcome"]) for each in found if each["node"] == node]
            for node in ("one", "two")
        }

    wait_until(lambda: lines() == expected, "all lines are there")
    assert '"node":"two"' in two.output
    assert not (one.home / "audit.log").exists()


def test_a_database_that_can_only_be_read(start: Start, url: str, postgres: PostgresServer, tmp_path: Path) -> None:
    gateway = start()
    add_user(gateway, tmp_path / "shared")
    client = sign_in(gateway)
    wait_until(lambda: faults(gateway) == {}, "it is ready")
    name = url.rpartition("/")[2]

    def read_only(switch: str) -> None:
        postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {switch}")
        end_all = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        postgres.execute(end_all)

    read_only("on")
    wait_until(lambda: "read-only" in faults(gateway), "it is noticed")
    wait_until(lambda: "is read-only; connect" in faults(gateway).get("read-only", ""), "it says what to do")
    answer = client.post(f"{FILES}/", files={"data": ("a.txt", b"x")})  # the audit line is required
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert not (tmp_path / "shared" / "ann" / "a.txt").exists()
    read_only("off")
    wait_until(lambda: faults(gateway) == {}, "it is ready again")
    assert client.post(f"{FILES}/", files={"data": ("a.txt", b"x")}).status_code == 204
    client.close()


def test_a_database_that_is_gone_and_comes_back(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_postgres() as server:
        _share(monkeypatch, server.new_database())
        gateway = start()
        server.stop()
        wait_until(lambda: list(faults(gateway)) == ["database"], "it is noticed")
        with gateway.client() as client:
            assert client.get("/healthz").status_code == 200
        server.start()
        wait_until(lambda: faults(gateway) == {}, "it is ready again")
        assert gateway.stop() == 0


def test_workers_wait_for_a_database_that_is_gone(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_postgres() as server:
        _share(monkeypatch, server.new_database())
        gateway = start("--workers", "1")
        [old] = gateway.workers()
        server.stop()
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: _causes(gateway), "the next worker reports it")
        [worker] = gateway.workers()
        wait_until(gateway.answers, "it is alive")
        assert list(faults(gateway)) == ["database"]
        with gateway.client() as client:
            answer = client.get(f"{FILES}/", headers={"Authorization": "Bearer x"})
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        server.start()
        wait_until(lambda: faults(gateway) == {}, "it serves again")
        assert gateway.workers() == [worker]
        wait_until(lambda: faults(gateway) == {}, "it still serves")
        known = _causes(gateway)
        assert len(known) == len(set(known)), "one cause is reported once"
        assert "Traceback" not in gateway.output

        server.stop()
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: len(_causes(gateway)) > len(known), "it waits again")
        assert gateway.stop() == 0
        assert "Traceback" not in gateway.output


def _causes(gateway: Gateway) -> list[str]:
    """Why the database was not available: it is gone, or it is starting."""
    lines = gateway.output.splitlines()
    return [json.loads(line)["cause"] for line in lines if '"database-not-available"' in line and line.endswith("}")]


def test_a_reload_without_a_database_keeps_the_old_workers(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_postgres() as server:
        _share(monkeypatch, server.new_database())
        gateway = start()
        workers = gateway.workers()
        server.stop()
        assert gateway.process
        gateway.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "The old workers keep running." in gateway.output, "the reload is given up")
        assert gateway.answers()
        wait_until(lambda: gateway.workers() == workers, "the new worker is gone")
        assert "Traceback" not in gateway.output


@pytest.fixture
def role(url: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A role that owns the database, and that every gateway uses."""
    role, name = f"gateway_{url.rpartition('_')[2]}", url.rpartition("/")[2]
    postgres.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    postgres.execute(f"ALTER DATABASE {name} OWNER TO {role}")
    monkeypatch.setenv("PORTICO_DATABASE_URL", f"postgresql://{role}:x@127.0.0.1:{postgres.port}/{name}")
    yield role
    postgres.drop_database(url)
    postgres.execute(f"DROP ROLE {role}")


def test_a_role_that_may_only_read(start: Start, url: str, role: str, postgres: PostgresServer, tmp_path: Path) -> None:
    """A start is refused; a gateway that runs is not ready, and its workers do not end again and again."""
    gateway = start("--workers", "1")
    name, writes = url.rpartition("/")[2], "INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public"
    postgres.execute(f"REVOKE {writes} FROM {role}", name)
    wait_until(lambda: list(faults(gateway)) == ["privileges"], "it is noticed")
    [old] = gateway.workers()
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: _causes(gateway), "the next worker waits")
    [worker] = gateway.workers()
    wait_until(gateway.answers, "it is alive")
    wait_until(lambda: "make it the owner" in faults(gateway).get("privileges", ""), "it says what to do")
    postgres.execute(f"GRANT {writes} TO {role}", name)
    wait_until(lambda: faults(gateway) == {}, "it serves again")
    assert gateway.workers() == [worker]
    assert gateway.stop() == 0

    postgres.execute(f"REVOKE {writes} FROM {role}", name)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        gateway.command("serve", "--port", str(gateway.port))
    assert refused.value.returncode == 1
    assert refused.value.stderr.startswith("The role in database.url can't write to the database postgresql://")
    assert refused.value.stderr.count("\n") == 1


def test_a_node_says_that_it_waits_for_a_connection(
    start: Start, role: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    postgres.execute(f"ALTER ROLE {role} CONNECTION LIMIT 4")
    held = [psycopg.connect(os.environ["PORTICO_DATABASE_URL"]) for _ in range(4)]
    output = tmp_path / "gateway-0" / "output.txt"
    with ThreadPoolExecutor(1) as thread:
        starting = thread.submit(start, settings={"PORTICO_DATABASE_MAX_CONNECTIONS": "2"})
        try:
            line = "has no free connection (connection failed"
            wait_until(lambda: output.exists() and line in output.read_text(), "it says why it waits")
        finally:
            for connection in held:
                connection.close()
        wait_until(lambda: faults(starting.result()) == {}, "it is ready")
    assert output.read_text().count("has no free connection") == 1


_TWO_HOURS_AHEAD = """
import sys, time
real_ns, real = time.time_ns, time.time
time.time_ns = lambda: real_ns() + 7200 * 10**9
time.time = lambda: real() + 7200
from portico.cli.main import main
main()
"""


def test_a_node_with_another_clock(start: Start, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = start()
    wait_until(lambda: faults(one) == {}, "it is ready")
    with monkeypatch.context() as patch:
        prepare = Gateway.start

        def ahead(self: Gateway) -> None:
            self._portico = ["-c", _TWO_HOURS_AHEAD, *self._portico[2:]]
            prepare(self)

        patch.setattr(Gateway, "start", ahead)
        two = start(copy_of=one.home)
    differs = "This machine's clock differs by 7200 s from the database's; synchronize it with NTP."
    wait_until(lambda: faults(two) == {"clock": differs}, "it is noticed")
    assert '"check":"clock"' in two.output
    wait_until(lambda: faults(one) == {}, "it is ready")
