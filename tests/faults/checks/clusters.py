"""Two nodes, PostgreSQL, haproxy and an S3, while one after the other fails: nothing that was acknowledged is lost."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median

import httpx2

from ...clusters import PASSWORD, Cluster, Node, names, running_cluster
from ...gateways import FILES, wait_until
from ...many_users import issued_tokens
from ...servers.far_away import far_away
from ...servers.haproxy import Haproxy
from ...servers.postgres import PostgresServer, running_postgres
from ..figures import Effort, Figure, Lines, at_most, none_of
from ..raw_http import Wire, get

AT_ONCE = 16
FROZEN_SECONDS = 12.0
DOWN_SECONDS = 4.0
FAR_SECONDS = 0.05


class _Senders:
    """Clients behind the balancer: uploads, with a listing after nine of them, and sometimes a sign-in."""

    def __init__(self, url: str, token: str, client: tuple[str, str]) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"}
        self._client = client
        self._numbers = count()
        self.stored: set[str] = set()
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.longest = 0.0

    async def run(self, enough: Callable[[], bool]) -> None:
        async with httpx2.AsyncClient(base_url=self._url, headers=self._headers, timeout=60) as client:
            await asyncio.gather(*(self._send(client, enough) for _ in range(AT_ONCE)))

    async def _send(self, client: httpx2.AsyncClient, enough: Callable[[], bool]) -> None:
        while not enough():
            number = next(self._numbers)
            name = f"{number:06}"
            began = time.monotonic()
            try:
                if number % 100 == 50:
                    form = {"grant_type": "password", "username": "alice", "password": PASSWORD}
                    answer = await client.post("/backend/login", auth=self._client, data=form)
                elif number % 10 == 9:
                    answer = await client.get(f"{FILES}/?size=100")
                else:
                    answer = await client.post(f"{FILES}/", files={"data": (name, name.encode() * 20)})
            except httpx2.TransportError as error:
                self.outcomes[f"connection: {type(error).__name__}"] += 1
                continue
            finally:
                self.longest = max(self.longest, time.monotonic() - began)
            self._judge(name, answer)

    def _judge(self, name: str, answer: httpx2.Response) -> None:
        self.outcomes[str(answer.status_code)] += 1
        if answer.status_code == 204:
            self.stored.add(name)
        clean = answer.status_code in (200, 204) or (answer.status_code == 503 and "retry-after" in answer.headers)
        if not clean:
            whose = "ours" if "x-request-id" in answer.headers else "the balancer's"
            self.wrong.append(f"{answer.status_code} ({whose}) {answer.text[:80]}")


async def cluster(effort: Effort) -> list[Figure]:
    uploads = effort.of(600, 10_000)
    with running_cluster(effort.new_folder(), PORTICO_SERVER_BEHIND_PROXY="127.0.0.1") as cluster:
        balancer = Haproxy(cluster.folder, [node.port for node in cluster.nodes])
        balancer.start()
        try:
            return await _trial(effort, cluster, balancer, uploads)
        finally:
            balancer.stop()


async def _trial(effort: Effort, cluster: Cluster, balancer: Haproxy, uploads: int) -> list[Figure]:
    one, two = cluster.nodes
    database = cluster.database
    await asyncio.to_thread(wait_until, lambda: _is_up(balancer.url), "the balancer has a node")
    identity = dict(await asyncio.to_thread(cluster.identity))
    client = identity["security.client-id"], identity["security.client-secret"]
    senders = _Senders(balancer.url, await asyncio.to_thread(cluster.token, balancer.url), client)
    done = asyncio.Event()
    sending = asyncio.create_task(senders.run(lambda: done.is_set() and len(senders.stored) >= uploads))

    async def some_more() -> None:
        """Until things go well again."""
        goal = len(senders.stored) + uploads // 8
        while len(senders.stored) < goal:
            await asyncio.sleep(0.05)

    def upgrade() -> None:
        two.stop()
        two.start()

    async def frozen() -> None:
        database.freeze()
        await asyncio.sleep(FROZEN_SECONDS if effort.long else 2.0)
        database.thaw()

    async def refusing() -> None:
        await asyncio.to_thread(database.stop)
        await asyncio.sleep(DOWN_SECONDS if effort.long else 1.0)
        await asyncio.to_thread(database.start)

    def restart() -> None:
        database.stop()
        database.start()

    faults: dict[str, Callable[[], Awaitable[object]]] = {
        "a node is killed": lambda: asyncio.to_thread(one.kill),
        "it comes back": lambda: asyncio.to_thread(one.start),
        "PostgreSQL restarts": lambda: asyncio.to_thread(restart),
        "PostgreSQL is frozen": frozen,
        "PostgreSQL refuses connections": refusing,
        "a node is upgraded": lambda: asyncio.to_thread(upgrade),
    }
    await some_more()
    for what, fault in faults.items():
        before = Counter(senders.outcomes)
        await fault()
        await some_more()
        effort.say(f"{what}: {dict(senders.outcomes - before)}")
    done.set()
    await sending
    with cluster.client(url=balancer.url) as reader:
        listed = set(await asyncio.to_thread(names, reader))
    missing = sorted(senders.stored - listed)
    cut = sum(n for key, n in senders.outcomes.items() if key.startswith("connection"))
    return [
        none_of("lost after 204", len(senders.stored), missing),
        none_of("answers that are neither done nor 503 with Retry-After", senders.outcomes.total(), senders.wrong),
        # Of those that the killed node was serving, and no others.
        at_most("requests that were cut", AT_ONCE, cut, "requests"),
        Figure("outcomes", "any", str(dict(senders.outcomes)), True),
        at_most("the longest wait of a request", 30, senders.longest, "s"),
    ]


def _is_up(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/readyz").status_code == 200
    except httpx2.TransportError:
        return False


async def far(effort: Effort) -> list[Figure]:
    """PostgreSQL 50 ms away, and many users who list once a second: each of their sessions is looked up again.

    Their files are in a folder: the S3 of the tests can answer a fraction of these listings.
    """
    crowd, seconds = effort.of(20, 200), effort.of(3, 20)
    folder = effort.new_folder()
    with running_postgres() as database:
        async with far_away(database.port, FAR_SECONDS) as port:
            cluster = await asyncio.to_thread(_started, folder, database, 2, port)
            try:
                tokens = await issued_tokens(cluster.settings["PORTICO_DATABASE_URL"], "alice", crowd)
                waits, failures = await _listings(cluster, tokens, seconds)
            finally:
                cluster.end()
    return [
        none_of(f"listings of {crowd} users that failed", len(waits), failures),
        at_most("median of a listing with the database 50 ms away", 0.3, median(waits), "s"),
        at_most("95th percentile", 0.6, sorted(waits)[int(len(waits) * 0.95)], "s"),
    ]


async def scale(effort: Effort) -> list[Figure]:
    """Requests for each second of processor time must not fall because nodes form a cluster.

    Each node has an equal share of one core, and the clients have another core. On a shared core every process costs more
    for each request than one that has the core to itself, so nodes of a cluster are compared with as many gateways that
    know nothing of each other.
    """
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, set(cores[1:] or cores))
    figures = []
    try:
        for nodes in (2, 4):
            best = {"a cluster": 0.0, "lone nodes": 0.0}
            # The best of several rounds: whatever else runs on this machine can only add to the cost.
            for kind in tuple(best) * effort.of(1, 4):
                rate = await _rate(effort, [nodes] if kind == "a cluster" else [1] * nodes, cores[0])
                effort.say(f"{nodes} as {kind}: {rate:.0f} listings a second of processor time")
                best[kind] = max(best[kind], rate)
            ratio = best["a cluster"] / best["lone nodes"]
            what = f"listings for a second of processor time, a cluster of {nodes} against {nodes} lone nodes"
            figures.append(Figure(what, "≥ 0.9", f"{ratio:.2f}", ratio >= 0.9, timed=True))
    finally:
        os.sched_setaffinity(0, set(cores))
    return figures


async def _rate(effort: Effort, sizes: list[int], core: int) -> float:
    """Listings for each second of processor time, of clusters of these sizes, all on one core."""
    count = effort.of(400, 8000)
    with running_postgres() as database, ExitStack() as stack:
        clusters = []
        for size in sizes:
            folder = effort.new_folder()
            clusters.append(await asyncio.to_thread(_started, folder, database, size, database.port))
            stack.callback(clusters[-1].end)
        nodes = [node for cluster in clusters for node in cluster.nodes]
        for node in nodes:
            _pin(node, core)
        tokens = [
            await issued_tokens(cluster.settings["PORTICO_DATABASE_URL"], "alice", AT_ONCE) for cluster in clusters
        ]

        async def ask(number: int) -> None:
            await asyncio.gather(*map(_requests, clusters, tokens, [number * size for size in sizes]))

        await ask(200)
        before = _processor_seconds(nodes)
        await ask(count)
        return count * len(nodes) / (_processor_seconds(nodes) - before)


def _started(folder: Path, database: PostgresServer, nodes: int, port: int) -> Cluster:
    cluster = Cluster(folder, database, nodes)
    url = cluster.settings["PORTICO_DATABASE_URL"]
    for node in cluster.nodes:
        node.settings["PORTICO_DATABASE_URL"] = url.replace(f":{database.port}/", f":{port}/")
    cluster.start()
    cluster.add_folder_and_user()
    for node in cluster.nodes:
        wait_until(node.ready, "the node is ready")
    return cluster


async def _listings(cluster: Cluster, tokens: list[str], seconds: float) -> tuple[list[float], list[str]]:
    waits: list[float] = []
    failures: list[str] = []
    end = time.monotonic() + seconds

    async def lists(number: int, token: str) -> None:
        node = cluster.nodes[number % len(cluster.nodes)]
        async with httpx2.AsyncClient(base_url=node.url, timeout=60) as client:
            await asyncio.sleep(number / len(tokens))
            while time.monotonic() < end:
                began = time.monotonic()
                answer = await client.get(f"{FILES}/", headers={"Authorization": f"Bearer {token}"})
                waits.append(time.monotonic() - began)
                if answer.status_code != 200:
                    failures.append(f"{answer.status_code} {answer.text[:60]}")
                await asyncio.sleep(max(0.0, 1 - waits[-1]))

    await asyncio.gather(*(lists(number, token) for number, token in enumerate(tokens)))
    return waits, failures


async def _requests(cluster: Cluster, tokens: list[str], count: int) -> None:
    """Listings over one connection for each token and node: every node has as much to do as it can do."""
    left = iter(range(count))

    async def ask(node: Node, token: str) -> None:
        wire = await Wire.to(node.port)
        try:
            for _ in left:
                await wire.send(get(f"{FILES}/", token))
                answer = await wire.answer()
                assert answer.status == 200, answer.body
        finally:
            await wire.close()

    await asyncio.gather(*(ask(node, token) for token in tokens for node in cluster.nodes))


def _pin(node: Node, core: int) -> None:
    assert node.process
    for process in (node.process.pid, *node.workers()):
        for thread in os.listdir(f"/proc/{process}/task"):
            os.sched_setaffinity(int(thread), {core})


def _processor_seconds(nodes: Iterable[Node]) -> float:
    ticks = 0
    for node in nodes:
        for worker in node.workers():
            fields = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


LINES: Lines = {"cluster": cluster, "cluster-far": far, "cluster-scale": scale}
