"""Share links under races: a link gives exactly as many downloads as its owner allows, and senders see nothing of others."""

import asyncio
import hashlib
from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2
import msgspec

from portico.rights import Right, format_rights

from ...clusters import Cluster, running_cluster
from ...gateways import FILES
from ..figures import Effort, Figure, Lines, none_of

LINKS = "/backend/1.0.0/account/links"
SHARE_SESSIONS = "/backend/1.0.0/share-sessions"
UPLOADS = "/backend/1.0.0/uploads"
RIGHTS = format_rights(Right)
AT_ONCE = 100
PART = 8 * 2**20


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
    limits = httpx2.Limits(max_connections=AT_ONCE)
    async with httpx2.AsyncClient(timeout=120, limits=limits) as client:
        stored = await client.put(f"{urls[0]}{FILES}/box/a.txt", content=b"content", headers=owner)
        assert stored.status_code in (201, 204), stored.text
        made = await client.post(
            urls[0] + LINKS, json={"path": "/box", "maxDownloads": allowed}, headers=owner
        )
        link = made.json()

        async def open_link(number: int) -> str:
            url = urls[number % len(urls)] + SHARE_SESSIONS
            answer = await _patiently(lambda: client.post(url, json={"link": link["token"]}))
            assert answer.status_code == 201, answer.text
            return str(answer.json()["token"])

        tokens = await asyncio.gather(*map(open_link, range(guests)))

        async def fetch(number: int) -> int:
            header = {"Authorization": f"Bearer {tokens[number % guests]}"}
            # The second request of a guest goes to the other node.
            url = urls[(number + number // guests) % len(urls)]
            return (await _patiently(lambda: client.get(f"{url}{FILES}/a.txt", headers=header))).status_code

        answers = await asyncio.gather(*map(fetch, range(2 * guests)))
        served = {number % guests for number, status in enumerate(answers) if status == 200}
        counted = (await client.get(f"{urls[0]}{LINKS}/{link['id']}", headers=owner)).json()["downloads"]
    wrong = [] if len(served) == allowed == counted else [f"{len(served)} served, {counted} counted"]
    wrong += [f"answered {status}" for status in answers if status not in (200, 403)]
    return [none_of(f"{guests} guests for {allowed} downloads, {where}: not exactly as many", guests, wrong)]


async def _patiently(request: Callable[[], Awaitable[httpx2.Response]]) -> httpx2.Response:
    """The answer. A node that has too much to do, or has closed an idle connection, is asked again."""
    while True:
        try:
            if (answer := await request()).status_code != 503:
                return answer
            await asyncio.sleep(int(answer.headers["Retry-After"]))
        except httpx2.RemoteProtocolError:
            pass


async def file_request(effort: Effort) -> list[Figure]:
    """Guests send large files at the same time, by tus; each of them cuts its line once."""
    size, guests = effort.of(24, 1024) * 2**20, 10
    wrong: list[str] = []
    async with effort.gateway("--workers", "2") as set_:
        gateway = set_.gateway
        await asyncio.to_thread(gateway.command, "user", "set", "web", "--rights", RIGHTS)
        owner = {"Authorization": f"Bearer {gateway.token}"}
        async with httpx2.AsyncClient(base_url=gateway.url, timeout=120) as client:
            await client.post(f"{FILES}/in?action=MKDIR", headers=owner)
            body = {"path": "/in", "kind": "request", "folderPerSender": True}
            link = (await client.post(LINKS, json=body, headers=owner)).json()
            sent = await asyncio.gather(
                *(_send(client, link["token"], number, size) for number in range(guests))
            )
            wrong += [each for each in sent if each]
            listed = await client.get(f"{LINKS}/{link['id']}/accesses", headers=owner)
            actions = Counter(each["action"] for each in listed.json()["content"])
        if actions != {"open": guests, "upload": guests}:
            wrong.append(f"the log has {actions}")
        folders = sorted(each.name for each in (gateway.files / "web/in").iterdir())
        if folders != sorted(["same name", *(f"same name ({number})" for number in range(1, guests))]):
            wrong.append(f"there are {folders}")
    return [
        none_of(
            f"{guests} senders of {size >> 20} MiB, each cut once: not whole, or not alone", guests, wrong
        )
    ]


async def _send(client: httpx2.AsyncClient, link: str, number: int, size: int) -> str:
    """What went wrong, or nothing."""
    opened = (await client.post(SHARE_SESSIONS, json={"link": link, "name": "same name"})).json()
    headers = {"Authorization": f"Bearer {opened['token']}", "Tus-Resumable": "1.0.0"}
    named = {"Upload-Length": str(size), "Upload-Metadata": "filename Zi5iaW4="}  # f.bin
    begun = await client.post(UPLOADS, headers=headers | named)
    where, offset, cut = begun.headers["Location"], 0, False
    part = bytes([number]) * PART
    answer = begun
    while offset < size:
        piece = {"Content-Type": "application/offset+octet-stream", "Upload-Offset": str(offset)}
        wanted = {"Prefer": "return=representation"}
        try:
            if offset and not cut:
                cut = True
                await client.patch(where, headers=headers | piece, content=_cut(part))
            answer = await client.patch(
                where, headers=headers | piece | wanted, content=part[: size - offset]
            )
        except (httpx2.TransportError, ConnectionError):
            pass
        offset = int((await client.head(where, headers=headers)).headers["Upload-Offset"])
    if answer.status_code != 200:
        return f"answered {answer.status_code}: {answer.text[:80]}"
    entry: dict[str, Any] = answer.json()["content"][0]
    claims = msgspec.json.decode(urlsafe_b64decode(entry["receipt"].split(".")[1] + "=="))
    whole = hashlib.sha256(part * (size // PART)).hexdigest()
    return "" if (entry["name"], claims["sha256"]) == ("f.bin", whole) else f"a receipt for {claims}"


async def _cut(part: bytes) -> AsyncIterator[bytes]:
    yield part[: PART // 2]
    raise ConnectionError("cut")


LINES: Lines = {"share-race": one_node, "share-race-nodes": two_nodes, "file-request": file_request}
