"""Users and guests who ask for as much as they can are not noticed by another user of the same storage."""

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from PIL import Image

from portico.model.rights import Right

from ...gateways import FILES
from ..figures import Effort, Figure, Lines, at_most, none_of
from ..latency_probe import probing
from ..processes import TunedGateway, accounts
from ..raw_http import ask, get, head
from .hostility import LIMIT, PASSWORD, WAIT, token_of
from .memory import Peak
from .shares import LINKS, SHARE_SESSIONS

USER = "mallory"
_ALLOWED = frozenset({"200", "202", "429", "503"})
"""What a hostile user may be answered: as asked for, or to come later."""
_DONE = ("200", "202")
_GUESTS = 10
"""Each from an address of its own."""
_PICTURE_WAIT = 3.0
_LONG = "a" * 125 + "b"

Requests = Callable[[int], bytes]
"""What a client asks for the next time, by the number of the request."""


def _make(top: Path, effort: Effort) -> None:
    """Everything that is costly to look at."""
    _make_deep(top / "deep", effort.of(300, 20_000))
    for number in range(effort.of(200, 5_000)):
        _touch(top / "long" / f"{'a' * 240}{number}")
        _touch(top / "many" / f"{number}.txt")
    for number in range(effort.of(50, 3_000)):
        _touch(top / "tree" / f"{number % 50}" / f"{number}", b"content")
    size = effort.of(200, 3_000)
    noise = Image.frombytes("L", (size, size), Random(1).randbytes(size * size))
    noise.save(top / "noise.png", compress_level=1)
    content = (top / "noise.png").read_bytes()
    for number in range(effort.of(4, 24)):
        _touch(top / "pictures" / f"{number}.png", content + b"%d" % number)


def _make_deep(folder: Path, files: int) -> None:
    """Below a path of 7 KB, which is longer than the kernel takes at once."""
    folder.mkdir(parents=True)
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(29):
        os.mkdir("d" * 240, dir_fd=descriptor)
        below = os.open("d" * 240, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    for number in range(files):
        os.close(os.open(f"{number}", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)


def _touch(file: Path, content: bytes = b"") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def _rows(effort: Effort, token: str, guests: list[str]) -> dict[str, tuple[int, Requests]]:
    """How many clients ask at once, and for what."""
    pictures = effort.of(4, 24)
    searches = (_LONG, f"*{_LONG}*", f"*?{_LONG}*")

    def of_guest(number: int) -> bytes:
        target = ("/deep?action=ZIP", f"/long?action=SEARCH&name=*?{_LONG}*", "/many?size=5000")[number % 3]
        return get(FILES + target, guests[number % len(guests)])

    def job(number: int) -> bytes:
        target = f"{FILES}/tree?action=COPY&target=/copies/{number}-{time.monotonic_ns()}"
        return head("POST", target, token, "Prefer: respond-async, wait=0", "Content-Length: 0")

    return {
        "ZIP": (10, lambda _: get(f"{FILES}/deep?action=ZIP", token)),
        "search": (16, lambda n: get(f"{FILES}/long?action=SEARCH&name={searches[n % 3]}", token)),
        "thumbnails": (24, lambda n: get(f"{FILES}/pictures/{n % pictures}.png?action=THUMBNAIL&size=1600", token)),
        "listings": (60, lambda _: get(f"{FILES}/many?size=5000", token)),
        "huge listings": (16, lambda _: get(f"{FILES}/many?size={10**18}", token)),
        "digests": (16, lambda _: get(f"{FILES}/many?size=5000&fields=digest", token)),
        "jobs": (32, job),
        "guests": (30, of_guest),
    }


async def _dropped(port: int, request: bytes, note: Callable[[str], None], source: str = "127.0.0.1") -> None:
    """Note the status, then read and drop the answer: it may be large."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    try:
        writer.write(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        first = await reader.readline()
        note(first.split()[1].decode() if first else "nothing")
        while await reader.read(2**20):
            pass
    finally:
        writer.close()


async def _row(effort: Effort, gateway: TunedGateway, name: str, clients: int, requests: Requests) -> list[Figure]:
    statuses: Counter[str] = Counter()

    def done() -> int:
        return sum(statuses[status] for status in _DONE)

    async def client(number: int) -> None:
        source = f"127.0.0.{2 + number % _GUESTS}" if name == "guests" else "127.0.0.1"
        while True:
            last: list[str] = []
            try:
                await _dropped(gateway.port, requests(number), last.append, source)
            except ConnectionError as error:
                last.append(type(error).__name__)
            finally:
                statuses.update(last)
            if last != ["200"]:
                await asyncio.sleep(0.1)
            number += clients

    peak = Peak(gateway)
    watching = asyncio.ensure_future(peak.watch())
    async with probing(gateway) as probe:
        asking = [asyncio.ensure_future(client(number)) for number in range(clients)]
        await asyncio.wait(asking, timeout=20 if effort.long else 0.2)
        for _ in range(600):  # a busy machine
            if done():
                break
            await asyncio.sleep(0.1)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    word = f"beside {clients} clients ({name})"
    odd = [f"{times} × {status}" for status, times in statuses.items() if status not in _ALLOWED]
    return [
        none_of(f"{word}: answers that are neither right nor a refusal", statuses.total(), odd),
        Figure(f"{word}: answers to them", "some as asked for", str(dict(statuses)), done() > 0),
        Figure(f"{word}: memory", f"≤ {LIMIT} MiB", f"{peak.mib} MiB", peak.mib <= LIMIT),
        *probe.figures(word, WAIT),
    ]


async def _picture(effort: Effort, gateway: TunedGateway, requests: Requests) -> Figure:
    """A small picture of one user beside all that another one wants."""
    flood = [
        asyncio.ensure_future(_dropped(gateway.port, requests(number), lambda _: None))
        for number in range(effort.of(4, 24))
    ]
    await asyncio.sleep(0)
    began = time.monotonic()
    answer = await gateway.get("/small.png?action=THUMBNAIL")
    took = time.monotonic() - began
    assert answer.status == 200, answer.body
    for task in flood:
        task.cancel()
    await asyncio.gather(*flood, return_exceptions=True)
    return at_most("another user's picture beside slow ones", _PICTURE_WAIT, took, "s")


async def _guests(gateway: TunedGateway, token: str, number: int) -> list[str]:
    body = json.dumps({"path": "/"}).encode()
    lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    made = await ask(gateway.port, head("POST", LINKS, token, *lines) + body)
    assert made.status == 201, made.body
    visit = json.dumps({"link": made.json()["token"]}).encode()
    lines = ("Content-Type: application/json", f"Content-Length: {len(visit)}")
    answers = [await ask(gateway.port, head("POST", SHARE_SESSIONS, "", *lines) + visit) for _ in range(number)]
    return [answer.json()["token"] for answer in answers]


async def besieged(effort: Effort) -> list[Figure]:
    async with effort.gateway() as set_:
        gateway = set_.gateway
        async with accounts(gateway) as (_, users):
            await users.add(USER, PASSWORD, root=f"/{USER}", rights=frozenset(Right))
        await asyncio.to_thread(_make, gateway.files / USER, effort)
        _touch(gateway.files / "web" / "small.png")
        Image.new("RGB", (8, 8)).save(gateway.files / "web" / "small.png")
        token = await token_of(gateway, USER)
        rows = _rows(effort, token, await _guests(gateway, token, _GUESTS))
        figures = [await _picture(effort, gateway, rows["thumbnails"][1])]
        for name, (clients, requests) in rows.items():
            figures += await _row(effort, gateway, name, clients, requests)
    return figures


LINES: Lines = {"hostile-users": besieged}
