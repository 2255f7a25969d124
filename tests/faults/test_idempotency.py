"""A worker that is killed before or after it did what a request asks for: sent again under its key, it is done once."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from ..clusters import Cluster, Node
from ..clusters import names as names_in
from ..gateways import FILES, Gateway, wait_until
from ..servers.postgres import PostgresServer

_CRASHING = """
import os, signal, sys
from pathlib import Path
from portico.operations.actors.attempt import Attempt

marker = Path(sys.argv.pop(1))

def crashing(name):
    method = getattr(Attempt, name)
    async def crash(self, *arguments):
        if marker.exists() and marker.read_text() == name:
            os.kill(os.getpid(), signal.SIGKILL)
        return await method(self, *arguments)
    setattr(Attempt, name, crash)

crashing("begin")
crashing("answer")
from portico.cli.main import main
main()
"""
MOMENTS = ["begin", "answer"]
Send = Callable[[httpx2.Client, dict[str, str]], httpx2.Response]


class CrashingGateway(Gateway):
    """Its workers kill themselves at the moment that a file names: before a change, or before its answer is stored."""

    def __init__(self, home: Path, *flags: str, settings: dict[str, str] | None = None) -> None:
        super().__init__(home, *flags, settings=settings)
        self.marker = home.parent / "crash"
        self._portico = ["-c", _CRASHING, str(self.marker), *self._portico[2:]]


class CrashingNode(CrashingGateway, Node):
    pass


class CrashingCluster(Cluster):
    def node(self, name: str, **settings: str) -> Node:
        home = self.folder / name / "home"
        home.parent.mkdir()
        return CrashingNode(home, settings={**self.settings, "PORTICO_NODE_NAME": name, **settings})


def uploading(on_conflict: str) -> Send:
    def send(client: httpx2.Client, headers: dict[str, str]) -> httpx2.Response:
        content = b"x" * 10**6
        return client.post(
            f"{FILES}/", headers=headers, params={"onConflict": on_conflict}, files={"data": ("new.bin", content)}
        )

    return send


def changing(method: str, path: str, **parameters: str) -> Send:
    def send(client: httpx2.Client, headers: dict[str, str]) -> httpx2.Response:
        return client.request(method, f"{FILES}/{path}", headers=headers, params=parameters)

    return send


CASES: dict[str, tuple[Send, int, list[str]]] = {
    "upload-rename": (uploading("rename"), 204, ["file", "new.bin", "taken"]),
    "upload-fail": (uploading("fail"), 204, ["file", "new.bin", "taken"]),
    "upload-replace": (uploading("replace"), 204, ["file", "new.bin", "taken"]),
    "move-rename": (
        changing("POST", "file", action="MOVE", target="/taken", onConflict="rename"),
        201,
        ["taken", "taken (1)"],
    ),
    "move-fail": (changing("POST", "file", action="MOVE", target="/new", onConflict="fail"), 201, ["new", "taken"]),
    "copy-rename": (
        changing("POST", "file", action="COPY", target="/taken", onConflict="rename"),
        201,
        ["file", "taken", "taken (1)"],
    ),
    "copy-fail": (
        changing("POST", "file", action="COPY", target="/new", onConflict="fail"),
        201,
        ["file", "new", "taken"],
    ),
    "delete": (changing("DELETE", "file"), 204, ["taken"]),
    "mkdir": (changing("POST", "folder", action="MKDIR"), 201, ["file", "folder", "taken"]),
}
ON_NODES = ("upload-rename", "move-fail", "delete")
"""Those that an ordinary run tries on two nodes, too."""


def prepare(client: httpx2.Client) -> None:
    for name in names_in(client):
        assert client.delete(f"{FILES}/{name}", params={"recursive": "true"}).status_code == 204
    for name in ("file", "taken"):
        assert client.post(f"{FILES}/", files={"data": (name, name.encode())}).status_code == 204


def killed(gateway: CrashingGateway, client: httpx2.Client, send: Send, key: dict[str, str], moment: str) -> None:
    gateway.marker.write_text(moment)
    with pytest.raises(httpx2.TransportError):
        send(client, key)
    gateway.marker.unlink()


def asked_again(client: httpx2.Client, send: Send, key: dict[str, str]) -> httpx2.Response:
    """The answer, as soon as there is one."""
    answers: list[httpx2.Response] = []

    def answered() -> bool:
        try:
            answers.append(send(client, key))
        except httpx2.TransportError:
            return False
        return answers[-1].status_code != 409 or answers[-1].json()["code"] != "request-running"

    wait_until(answered, "the request is answered")
    return answers[-1]


@pytest.fixture(scope="module")
def crashing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrashingGateway]:
    gateway = CrashingGateway(tmp_path_factory.mktemp("crashing") / "home", "--workers", "2")
    gateway.start()
    yield gateway
    gateway.kill()


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("case", CASES)
def test_a_killed_worker(crashing: CrashingGateway, case: str, moment: str) -> None:
    send, status, after = CASES[case]
    key = {"Idempotency-Key": f'"{case}-{moment}"'}
    with crashing.signed_in() as client:
        prepare(client)
        killed(crashing, client, send, key, moment)
        answer = asked_again(client, send, key)
        assert answer.status_code == status, answer.text
        assert sorted(names_in(client)) == after
        replayed = send(client, key)
        assert (replayed.status_code, replayed.headers.get("Idempotency-Replayed")) == (status, "true")
        for header in ("Location", "Content-Location"):
            assert replayed.headers.get(header) == answer.headers.get(header)
        assert sorted(names_in(client)) == after


def test_two_workers_and_one_key(crashing: CrashingGateway) -> None:
    """Of many requests at once, each on a connection of its own, one is carried out."""
    send = uploading("rename")
    key = {"Idempotency-Key": "race"}
    token = crashing.signed_in().headers["Authorization"]

    def ask(_: int) -> httpx2.Response:
        with crashing.client(headers={"Authorization": token}) as client:
            return asked_again(client, send, key)

    with crashing.client(headers={"Authorization": token}) as client:
        prepare(client)
        with ThreadPoolExecutor(16) as threads:
            answers = list(threads.map(ask, range(32)))
        assert {answer.status_code for answer in answers} == {204}
        assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
        assert sorted(names_in(client)) == ["file", "new.bin", "taken"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[Cluster]:
    with ExitStack() as stack:
        cluster = CrashingCluster(tmp_path_factory.mktemp("cluster"), postgres, 2)
        stack.callback(cluster.end)
        cluster.start()
        cluster.add_bucket_and_user()
        for node in cluster.nodes:
            wait_until(node.ready, "the node is ready")
        yield cluster


@pytest.mark.parametrize(
    "case", [case if case in ON_NODES else pytest.param(case, marks=pytest.mark.thorough) for case in CASES]
)
def test_another_node_takes_over(cluster: Cluster, case: str) -> None:
    """The files are on S3, the keys in PostgreSQL."""
    send, status, after = CASES[case]
    key = {"Idempotency-Key": f'"{case}"'}
    one, two = cluster.nodes
    assert isinstance(one, CrashingGateway)
    with cluster.client(one) as here, cluster.client(two) as there:
        prepare(there)
        killed(one, here, send, key, "answer")
        answer = asked_again(there, send, key)
        assert answer.status_code == status, answer.text
        assert sorted(names_in(there)) == after
        wait_until(one.answers, "the worker is replaced")
        replayed = asked_again(here, send, key)
        assert replayed.headers["Idempotency-Replayed"] == "true"
        assert sorted(names_in(there)) == after
