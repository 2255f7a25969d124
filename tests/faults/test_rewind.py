"""A stolen key encrypts files and empties the trash. The rewind is killed, goes on, and can be undone itself."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ..gateways import FILES, Gateway, wait_until

NUMBER = 60
TRASH = FILES.replace("filesystem", "trash")


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path / "home", "--workers", "2")
    gateway.start()
    yield gateway
    gateway.kill()


def portico(gateway: Gateway, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "portico", "--home", str(gateway.home), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def output(gateway: Gateway, *arguments: str) -> str:
    command = portico(gateway, *arguments)
    out, err = command.communicate()
    assert command.returncode == 0, out + err
    return out


class Actor:
    def __init__(self, gateway: Gateway, name: str) -> None:
        key = json.loads(output(gateway, "key", "add", "web", "--name", name, "--json"))
        self.id = key["id"]
        self._gateway = gateway
        self.headers = {"Authorization": f"Bearer {key['key']}"}

    def ask(self, *requests: tuple[str, str, bytes]) -> None:
        def ask(request: tuple[str, str, bytes]) -> None:
            method, path, content = request
            answer = client.request(method, path, content=content)
            assert answer.is_success, answer.text

        with self._gateway.client(headers=self.headers) as client, ThreadPoolExecutor(4) as threads:
            assert not any(threads.map(ask, requests))


def tree(gateway: Gateway) -> dict[str, bytes]:
    found = {}
    for path in (gateway.files / "web").rglob("*"):
        if path.is_file():
            found[str(path)] = path.read_bytes()
    return found


def put(number: int, content: str, suffix: str = "") -> tuple[str, str, bytes]:
    return "PUT", f"{FILES}/d{number % 5}/f{number}{suffix}", content.encode()


def delete(number: int) -> tuple[str, str, bytes]:
    return "DELETE", f"{FILES}/d{number % 5}/f{number}", b""


def rows(gateway: Gateway, query: str, *values: str) -> Sequence[Any]:
    with closing(sqlite3.connect(gateway.home / "portico.db", timeout=60)) as database:
        return database.execute(query, values).fetchall()


def test_a_rewind_brings_everything_back_although_it_is_killed(gateway: Gateway) -> None:
    owner, thief = Actor(gateway, "owner"), Actor(gateway, "thief")
    owner.ask(*(put(number, f"good {number}") for number in range(NUMBER)))
    good, half = tree(gateway), NUMBER // 2
    thief.ask(*(put(number, "evil") for number in range(half)))
    thief.ask(*(put(number, "evil", ".enc") for number in range(half, NUMBER)))
    thief.ask(*(delete(number) for number in range(half, NUMBER)))
    thief.ask(("DELETE", TRASH, b""))
    evil = tree(gateway)
    owner.ask(put(0, "new"), put(NUMBER, "new"))

    planned = json.loads(output(gateway, "rewind", "--key", thief.id, "--since", "1h", "--dry-run", "--json"))
    assert [(each["place"], each["why"]) for each in planned["leftAlone"]] == [("local:/web/d0/f0", "conflict")]
    assert len(planned["steps"]) == NUMBER - 1 + half + 1, "and what was deleted of the other one is in the trash again"

    running = portico(gateway, "rewind", "--key", thief.id, "--since", "1h", "--freeze", "--yes")
    mine = "SELECT count(*) FROM journal JOIN rewinds ON journal.session = rewinds.id"
    wait_until(lambda: running.poll() is not None or rows(gateway, mine)[0][0] > 5, "it is under way")
    running.send_signal(signal.SIGKILL)
    running.communicate()
    for worker in gateway.workers():
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: rows(gateway, "SELECT state FROM rewinds") == [("done",)], "a worker has completed it")

    expected = {**good, **{path: b"new" for path in tree(gateway) if path.endswith(("/d0/f0", f"/f{NUMBER}"))}}
    assert tree(gateway) == expected
    assert (
        rows(gateway, "SELECT change FROM journal WHERE change IS NOT NULL GROUP BY change HAVING count(*) > 1") == []
    )
    with gateway.client() as client:
        assert client.get(FILES, headers=thief.headers).status_code == 401

    [[rewind_id]] = rows(gateway, "SELECT id FROM rewinds")
    output(gateway, "rewind", "--session", rewind_id, "--yes")
    again = tree(gateway)
    assert {path: content for path, content in again.items() if content != b"new"} == {
        path: content for path, content in evil.items() if not path.endswith("/d0/f0")
    }
