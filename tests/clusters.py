"""Several nodes on one PostgreSQL and one bucket, as an operator sets them up."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import token_hex

import httpx2

from portico.accounts.vault import SecretKey

from .gateways import FILES, WAIT, Gateway, wait_until
from .servers.moto_s3 import KEYS, moto_s3
from .servers.postgres import PostgresServer, running_postgres
from .servers.s3_buckets import make_buckets

PASSWORD = "correct horse"


class Node(Gateway):
    """A node with a home of its own, and everything else from the environment."""

    def ready(self) -> bool:
        try:
            with self.client() as client:
                return client.get("/readyz").status_code == 200
        except httpx2.TransportError:
            return False


class Cluster:
    def __init__(self, folder: Path, database: PostgresServer, nodes: int, **settings: str) -> None:
        self.database = database
        self.folder = folder
        self.settings = {
            "PORTICO_DATABASE_URL": database.new_database(),
            "PORTICO_SECRET_KEY": SecretKey.generate().text(),
            "PORTICO_SERVER_MAX_CONNECTIONS_PER_ADDRESS": "0",
            **settings,
        }
        self.nodes = [self.node(f"node{number}") for number in range(nodes)]

    def node(self, name: str, **settings: str) -> Node:
        home = self.folder / name / "home"
        home.parent.mkdir()
        return Node(home, settings={**self.settings, "PORTICO_NODE_NAME": name, **settings})

    def start(self) -> None:
        for node in self.nodes:
            node.start()

    def add_bucket_and_user(self) -> None:
        """By the commands that an operator uses; the other nodes see it by themselves."""
        options = {"endpoint-url": moto_s3(), "access-key-id": KEYS["access-key-id"]}
        bucket = f"cluster-{token_hex(4)}"
        with ThreadPoolExecutor(1) as thread:  # an event loop may be running here
            thread.submit(asyncio.run, make_buckets({**options, **KEYS}, [bucket])).result()
        words = [word for key, value in options.items() for word in ("--option", f"{key}={value}")]
        self.nodes[0].command(
            *("connection", "add", "files", "--kind", "s3", "--option", f"bucket={bucket}", *words),
            "--secret-stdin",
            stdin=f"secret-access-key={KEYS['secret-access-key']}\n",
        )
        self._add_user()

    def add_folder_and_user(self) -> None:
        """A folder that all nodes see."""
        shared = self.folder / "shared"
        shared.mkdir()
        self.nodes[0].command("connection", "add", "files", "--kind", "local", "--option", f"folder={shared}")
        self._add_user()

    def _add_user(self) -> None:
        self.nodes[0].command(
            *("user", "add", "alice", "--connection", "files", "--password-stdin"), stdin=PASSWORD + "\n"
        )

    def client(self, node: Gateway | None = None, url: str = "") -> httpx2.Client:
        """A client that is signed in as alice."""
        base = url or (node or self.nodes[0]).url
        return httpx2.Client(base_url=base, timeout=WAIT, headers={"Authorization": f"Bearer {self.token(base)}"})

    def token(self, url: str) -> str:
        identity = dict(self.identity())
        answer = httpx2.post(
            f"{url}/backend/login",
            timeout=WAIT,
            auth=(identity["security.client-id"], identity["security.client-secret"]),
            data={"grant_type": "password", "username": "alice", "password": PASSWORD},
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    def identity(self) -> list[tuple[str, str]]:
        import psycopg

        with psycopg.connect(self.settings["PORTICO_DATABASE_URL"]) as connection:
            return connection.execute("SELECT name, value FROM cluster").fetchall()

    def end(self) -> None:
        for node in self.nodes:
            if node.process and node.process.poll() is None:
                node.kill()


@contextmanager
def running_cluster(
    folder: Path, nodes: int = 2, database: PostgresServer | None = None, **settings: str
) -> Iterator[Cluster]:
    with ExitStack() as stack:
        database = database or stack.enter_context(running_postgres())
        cluster = Cluster(folder, database, nodes, **settings)
        stack.callback(cluster.end)
        cluster.start()
        cluster.add_bucket_and_user()
        for node in cluster.nodes:
            wait_until(node.ready, "the node is ready")
        yield cluster


def names(client: httpx2.Client, folder: str = "") -> list[str]:
    """All names in a folder, page by page."""
    found: list[str] = []
    cursor = ""
    while True:
        answer = client.get(f"{FILES}/{folder}?size=1000{cursor}")
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += [entry["name"] for entry in page["content"] if not entry["isCurrentFolder"]]
        if page["nextCursor"] is None:
            return found
        cursor = f"&cursor={page['nextCursor']}"
