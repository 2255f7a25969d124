"""Two nodes, PostgreSQL, haproxy and an S3, while one after the other fails: nothing that was acknowledged is lost."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from itertools import count

import httpx2

from ...clusters import Cluster, names, running_cluster
from ...gateways import FILES, wait_until
from ...servers.haproxy import Haproxy
from ..figures import Effort, Figure, Lines, at_most, none_of

AT_ONCE = 16
FROZEN_SECONDS = 12.0
DOWN_SECONDS = 4.0


class _Senders:
    """Clients behind the balancer: uploads, with a listing after every tenth."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"}
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
                if number % 10 == 9:
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
        clean = answer.status_code in (200, 204) or (
            answer.status_code == 503 and "retry-after" in answer.headers
        )
        ours = "x-request-id" in answer.headers  # and not the balancer's
        if ours and not clean:
            self.wrong.append(f"{answer.status_code} {answer.text[:80]}")


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
    senders = _Senders(balancer.url, await asyncio.to_thread(cluster.token, balancer.url))
    done = asyncio.Event()
    sending = asyncio.create_task(
        senders.run(lambda: done.is_set() and len(senders.stored) >= uploads),
    )

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

    await some_more()
    for what, fault in {
        "a node is killed": lambda: asyncio.to_thread(one.kill),
        "it comes back": lambda: asyncio.to_thread(one.start),
        "PostgreSQL restarts": lambda: asyncio.to_thread(restart),
        "PostgreSQL is frozen": frozen,
        "PostgreSQL refuses connections": refusing,
        "a node is upgraded": lambda: asyncio.to_thread(upgrade),
    }.items():
        before = Counter(senders.outcomes)
        await fault()
        await some_more()
        effort.say(f"{what}: {dict(senders.outcomes - before)}")
    done.set()
    await sending
    with cluster.client(url=balancer.url) as client:
        listed = set(await asyncio.to_thread(names, client))
    missing = sorted(senders.stored - listed)
    others = {key: n for key, n in senders.outcomes.items() if key not in ("200", "204", "503")}
    return [
        none_of("lost after 204", len(senders.stored), missing),
        none_of(
            "answers of ours that are neither done nor 503 with Retry-After",
            senders.outcomes.total(),
            senders.wrong,
        ),
        Figure("outcomes", "any", str(dict(senders.outcomes)), True, cause=f"cut by the kill: {others}"),
        at_most("the longest wait of a request", 30, senders.longest, "s"),
    ]


def _is_up(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/readyz").status_code == 200
    except httpx2.TransportError:
        return False


LINES: Lines = {"cluster": cluster}
