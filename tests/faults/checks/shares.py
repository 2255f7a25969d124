"""Share links under races: a link gives exactly as many downloads as its owner allows."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import httpx2

from portico.model.rights import ALL_RIGHTS, format_rights

from ...clusters import Cluster, running_cluster
from ...gateways import FILES
from ..figures import Effort, Figure, Lines, none_of

LINKS = "/backend/1.0.0/account/links"
SHARE_SESSIONS = "/backend/1.0.0/share-sessions"
RIGHTS = format_rights(ALL_RIGHTS)
AT_ONCE = 100
ADDRESSES = [f"127.0.1.{number}" for number in range(1, 11)]
"""Of the guests: one address may not open a link as often as it likes."""


async def one_node(effort: Effort) -> list[Figure]:
    async with effort.gateway("--workers", "2") as set_:
        gateway = set_.gateway
        await asyncio.to_thread(gateway.command, "user", "set", "web", "--rights", RIGHTS)
        return await _race(effort, [gateway.url], gateway.token, "two workers on SQLite")


async def two_nodes(effort: Effort) -> list[Figure]:
    with running_cluster(effort.new_folder()) as cluster:
        token = await asyncio.to_thread(_signed_in, cluster)
        return await _race(effort, [node.url for node in cluster.nodes], token, "two nodes on PostgreSQL")


def _signed_in(cluster: Cluster) -> str:
    cluster.nodes[0].command("user", "set", "alice", "--rights", RIGHTS)
    return cluster.token(cluster.nodes[0].url)


async def _race(effort: Effort, urls: list[str], token: str, where: str) -> list[Figure]:
    """Every guest asks twice, which is one download, at the same time as all others."""
    guests, allowed = effort.of(60, 1000), effort.of(10, 100)
    owner = {"Authorization": f"Bearer {token}"}
    room = asyncio.Semaphore(AT_ONCE)
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                httpx2.AsyncClient(timeout=120, transport=_transport(address, AT_ONCE // len(ADDRESSES)))
            )
            for address in ADDRESSES
        ]
        client = clients[0]
        stored = await client.put(f"{urls[0]}{FILES}/box/a.txt", content=b"content", headers=owner)
        assert stored.status_code in (201, 204), stored.text
        made = await client.post(urls[0] + LINKS, json={"path": "/box", "maxDownloads": allowed}, headers=owner)
        link = made.json()

        async def open_link(number: int) -> str:
            url, guest = urls[number % len(urls)] + SHARE_SESSIONS, clients[number % len(clients)]
            async with room:
                answer = await _patiently(lambda: guest.post(url, json={"link": link["token"]}))
            assert answer.status_code == 201, answer.text
            return str(answer.json()["token"])

        tokens = await asyncio.gather(*map(open_link, range(guests)))

        async def fetch(number: int) -> int:
            header = {"Authorization": f"Bearer {tokens[number % guests]}"}
            # The second request of a guest goes to the other node.
            url, guest = urls[(number + number // guests) % len(urls)], clients[number % len(clients)]
            async with room:
                return (await _patiently(lambda: guest.get(f"{url}{FILES}/a.txt", headers=header))).status_code

        answers = await asyncio.gather(*map(fetch, range(2 * guests)))
        served = {number % guests for number, status in enumerate(answers) if status == 200}
        counted = (await client.get(f"{urls[0]}{LINKS}/{link['id']}", headers=owner)).json()["downloads"]
    wrong = [] if len(served) == allowed == counted else [f"{len(served)} served, {counted} counted"]
    wrong += [f"answered {status}" for status in answers if status not in (200, 403)]
    return [none_of(f"{guests} guests for {allowed} downloads, {where}: not exactly as many", guests, wrong)]


async def _patiently(request: Callable[[], Awaitable[httpx2.Response]]) -> httpx2.Response:
    """The answer. A node that has too much to do, has closed an idle connection, or got the request too slowly, as
    this process has too much to do itself, is asked again."""
    while True:
        try:
            if (answer := await request()).status_code not in (408, 503):
                return answer
            await asyncio.sleep(int(answer.headers.get("Retry-After", "0")))
        except httpx2.RemoteProtocolError:
            pass


def _transport(address: str, connections: int) -> httpx2.AsyncHTTPTransport:
    limits = httpx2.Limits(max_connections=connections)
    return httpx2.AsyncHTTPTransport(local_address=address, limits=limits)


LINES: Lines = {"share-race": one_node, "share-race-nodes": two_nodes}
