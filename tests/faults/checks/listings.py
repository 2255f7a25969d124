"""A listing is whole: what does not change is seen exactly once while others come and go."""

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Callable
from random import Random

from ..figures import Effort, Figure, Line, Lines, none_of
from ..processes import TunedGateway
from ..raw_http import Wire, get


async def walked(gateway: TunedGateway, size: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    cursor = ""
    wire = await Wire.to(gateway.port)
    try:
        while True:
            await wire.send(get(f"/backend/1.0.0/filesystem/?size={size}{cursor}", gateway.token))
            answer = await wire.answer(60)
            assert answer.status == 200, answer.body
            page = answer.json()
            seen.update(entry["name"] for entry in page["content"] if not entry["isCurrentFolder"])
            if page["nextCursor"] is None:
                return seen
            cursor = f"&cursor={page['nextCursor']}"
    finally:
        await wire.close()


def _judged(kind: str, expected: Callable[[], list[str]], seen: Counter[str]) -> list[Figure]:
    names = expected()
    wrong = [f"{name} was seen {seen[name]} times" for name in names if seen[name] != 1]
    twice = [name for name, times in seen.items() if times > 1]
    return [
        none_of(f"{kind}: entries at rest that were not seen exactly once", len(names), wrong),
        none_of(f"{kind}: entries seen twice at all", len(seen), twice),
    ]


class Churn(threading.Thread):
    """Makes and removes files between those that stay, as fast as it can."""

    def __init__(self, folder: str, entries: int) -> None:
        super().__init__(daemon=True)
        self._folder, self._entries = folder, entries
        self.over = threading.Event()
        self.changes = 0

    def run(self) -> None:
        random = Random(1)
        there: list[str] = []
        while not self.over.wait(0.001):
            name = f"{self._folder}/{random.randrange(self._entries):07}-fleeting"
            with open(name, "w"):
                there.append(name)
            if len(there) > 50:
                os.unlink(there.pop(0))
            self.changes += 2
            there = list(dict.fromkeys(there))


async def local(effort: Effort) -> list[Figure]:
    entries = effort.of(2_000, 1_000_000)
    async with effort.gateway() as set_:
        folder = set_.gateway.files / "web"
        folder.mkdir(exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
        for number in range(entries):
            os.close(os.open(f"{number:07}", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
        os.close(descriptor)
        effort.say(f"local: {entries:,} entries created")
        churn = Churn(str(folder), entries)
        churn.start()
        try:
            seen = await walked(set_.gateway, effort.of(100, 5000))
        finally:
            churn.over.set()
            await asyncio.to_thread(churn.join)
    figures = _judged("local", lambda: [f"{number:07}" for number in range(entries)], seen)
    return [*figures, Figure("local: changes meanwhile", "> 0", f"{churn.changes:,}", churn.changes > 0)]


async def service(effort: Effort, kind: str) -> list[Figure]:
    """Through the gateway alone: uploads and deletions beside a walk in small pages."""
    entries = effort.of(40, 3_000)
    async with effort.gateway(kind=kind) as set_:
        gateway = set_.gateway
        numbers = iter(range(entries))

        async def fill() -> None:
            for number in numbers:
                assert await gateway.put(f"{number:07}", b"") == 204

        await asyncio.gather(*(fill() for _ in range(8)))
        effort.say(f"{kind}: {entries:,} entries created")
        churning = asyncio.ensure_future(_churn(gateway, entries))
        seen = await walked(gateway, effort.of(7, 100))
        churning.cancel()
        await asyncio.gather(churning, return_exceptions=True)
    figures = _judged(kind, lambda: [f"{number:07}" for number in range(entries)], seen)
    cause = "the test servers hold no million entries; what pages look like is the service's own doing"
    return [*figures, Figure(f"{kind}: entries", "as many as can be", f"{entries:,}", True, cause=cause)]


async def _churn(gateway: TunedGateway, entries: int) -> None:
    random = Random(1)
    while True:
        name = f"{random.randrange(entries):07}-fleeting"
        await gateway.put(name, b"")
        request = get(f"/backend/1.0.0/filesystem/{name}", gateway.token).replace(b"GET", b"DELETE", 1)
        assert (await gateway.ask(request)).status == 204


def _service(kind: str) -> Line:
    return lambda effort: service(effort, kind)


LINES: Lines = {"listing-local": local, "listing-s3": _service("s3"), "listing-azure-blob": _service("azure-blob")}
