"""kill -9 during changes: none is missing in the journal, and none is there twice."""

import json
import os
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

import httpx2
import pytest

from ..gateways import FILES, Gateway, wait_until

KILLS = 3
WRITERS = 4


Attempt = tuple[str, str, int]
"""The action, the path, and the size of what was sent."""


class Writer(threading.Thread):
    """Makes files, replaces and deletes them, and remembers what was asked and what was answered."""

    def __init__(self, gateway: Gateway, name: str, token: str, stop: threading.Event) -> None:
        super().__init__(name=name)
        self._gateway = gateway
        self._headers = {"Authorization": f"Bearer {token}"}
        self._stopped = stop
        self.asked: list[Attempt] = []
        self.answered: list[Attempt] = []

    def run(self) -> None:
        for number in count():
            path = f"/{self.name}-{number}"
            for method, content in (("PUT", b"1"), ("PUT", b"22"), ("DELETE", b""))[: 1 + number % 3]:
                if self._stopped.is_set():
                    return
                self._ask(method, path, content)

    def _ask(self, method: str, path: str, content: bytes) -> None:
        attempt = ("upload" if method == "PUT" else "delete", path, len(content))
        self.asked.append(attempt)
        with suppress(httpx2.TransportError), self._gateway.client(headers=self._headers) as client:
            answer = client.request(method, f"{FILES}{path}", content=content)
            assert answer.status_code in (201, 204, 404, 503), answer.text
            if answer.status_code in (201, 204):
                self.answered.append(attempt)


class Rows:
    def __init__(self, home: Path) -> None:
        self._home = home

    def all(self) -> list[tuple[str, str, Attempt]]:
        """The id and the outcome of each change, and what it was."""
        with closing(sqlite3.connect(self._home / "portico.db", timeout=60)) as database:
            rows = database.execute("SELECT change, action, outcome, line FROM journal WHERE change IS NOT NULL")
            found = [(change, action, outcome, json.loads(line)) for change, action, outcome, line in rows]
        return [
            (change, outcome, (action, line["path"], line.get("bytes", 0))) for change, action, outcome, line in found
        ]

    def has_all_that_began(self) -> bool:
        began = set()
        for file in (self._home / "portico.db-begun").iterdir():
            with suppress(FileNotFoundError):
                began |= {json.loads(line)["id"] for line in file.read_bytes().rstrip(b"\0").splitlines()}
        return began <= {change for change, _, _ in self.all()}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path / "home", "--workers", "2")
    gateway.start()
    yield gateway
    gateway.kill()


def kill_workers(gateway: Gateway) -> None:
    killed = gateway.workers()
    for worker in killed:
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: len(set(gateway.workers()) - set(killed)) == 2, "the workers are replaced")
    wait_until(gateway.answers, "the gateway answers again")


def test_no_change_is_missing_and_none_is_there_twice(gateway: Gateway) -> None:
    stop = threading.Event()
    token = gateway.login()["access_token"]
    writers = [Writer(gateway, f"w{number}", token, stop) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for kill in range(1, KILLS + 1):
        wait_until(lambda least=kill * 25: sum(len(writer.answered) for writer in writers) > least, "much is done")
        kill_workers(gateway)
    stop.set()
    for writer in writers:
        writer.join()
    rows = Rows(gateway.home)
    wait_until(rows.has_all_that_began, "what was left open is settled")

    found = rows.all()
    assert len({change for change, _, _ in found}) == len(found)
    done = Counter(attempt for _, outcome, attempt in found if outcome == "done")
    maybe = Counter(attempt for _, _, attempt in found)
    asked = Counter(attempt for writer in writers for attempt in writer.asked)
    answered = Counter(attempt for writer in writers for attempt in writer.answered)
    assert answered <= done, "of what was answered, nothing is missing"
    assert maybe <= asked, "nothing is there twice"
    for file in (gateway.files / "web").iterdir():
        assert maybe["upload", f"/{file.name}", file.stat().st_size], "nor is what was not answered missing"
