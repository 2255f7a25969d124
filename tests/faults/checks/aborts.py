"""Nobody ever sees a part of a file: uploads that break off, by their client or by SIGKILL of the gateway."""

import asyncio
import random
from hashlib import sha256

from ..figures import Effort, Figure, Line, Lines, Set, none_of
from ..processes import TunedGateway
from ..raw_http import MULTIPART, Broken, Wire, form, head

FILES_AT_ONCE = 4
SPARE_DESCRIPTORS = 16


class Tree:
    """A few files that are replaced again and again, and which contents each of them may have."""

    def __init__(self, set_: Set, size: int) -> None:
        self.gateway = set_.gateway
        self._size = size
        self._random = random.Random(size)
        self._old: dict[str, bytes] = {}
        self._new: dict[str, bytes] = {}
        self._versions: set[bytes] = set()
        self.wrong: list[str] = []
        self.seen = 0

    async def fill(self) -> None:
        for number in range(FILES_AT_ONCE):
            content = self._content()
            assert await self.gateway.put(f"file-{number}", content) == 204
            self._old[f"file-{number}"] = self._known(content)

    def _known(self, content: bytes) -> bytes:
        version = sha256(content).digest()
        self._versions.add(version)
        return version

    def _allowed(self, name: str) -> set[bytes]:
        return {self._old[name], self._new.get(name, self._old[name])}

    def _content(self) -> bytes:
        # Of another size each time, so that a part of one version can never look like another.
        return self._random.randbytes(4096) * (self._size // 4096) + self._random.randbytes(
            self._random.randrange(4096)
        )

    async def replace(self, name: str, share: float, seconds: float) -> None:
        """Send a new version over `seconds`, but stop at this share of it and vanish; with 1.0, wait for the answer."""
        content = self._content()
        version = self._known(content)
        if share == 1.0:  # else it must never be seen
            self._new[name] = version
        body = form(name, content)
        length = f"Content-Length: {len(body)}"
        request = head("POST", "/backend/1.0.0/filesystem/", self.gateway.token, MULTIPART.strip(), length) + body
        piece = len(request) // 20 + 1
        stop = int(len(request) * share)
        try:
            wire = await Wire.to(self.gateway.port)
            try:
                for start in range(0, stop, piece):
                    await wire.send(request[start : min(stop, start + piece)])
                    await asyncio.sleep(seconds / 20)
                if share == 1.0 and (await wire.answer()).status == 204:
                    self._old[name] = version
            finally:
                wire.reset()
        except (ConnectionError, Broken, TimeoutError):
            pass  # the gateway is gone

    async def look(self) -> None:
        """Every file must be one whole version, and no other name may be there.

        While it is sent to us, a version may be replaced: what was good before or after is good.
        """
        if (found := await self.gateway.names()) != sorted(self._old):
            self.wrong.append(f"names {found}")
        for name in self._old:
            allowed = self._allowed(name)
            answer = await self.gateway.get(f"/{name}")
            version = sha256(answer.body).digest()
            self.seen += 1
            if answer.status != 200 or version not in allowed | self._allowed(name):
                kind = "an older version" if version in self._versions else "no version"
                self.wrong.append(f"{name}: {answer.status}, {len(answer.body)} bytes, {kind}")

    async def settle(self) -> None:
        """Nothing is sent any more: what is stored now is what must stay."""
        await self.look()
        for name in self._old:
            version = sha256((await self.gateway.get(f"/{name}")).body).digest()
            if version in self._allowed(name):
                self._old[name] = version
        self._new.clear()

    async def watch(self) -> None:
        """Look on and on, until the gateway is gone."""
        try:
            while True:
                await self.look()
        except (OSError, Broken, TimeoutError):
            pass


async def clients(effort: Effort, kind: str, tries: int) -> list[Figure]:
    """Clients who vanish in the middle of an upload, anywhere."""
    async with effort.gateway(kind=kind) as set_:
        tree = Tree(set_, set_.storage.part * 5 // 4)
        await tree.fill()
        await tree.look()
        descriptors = set_.gateway.descriptors()
        rounds = -(-tries // FILES_AT_ONCE)
        for _ in range(rounds):
            watching = asyncio.ensure_future(tree.watch())
            shares = [random.uniform(0.0, 0.999) for _ in range(FILES_AT_ONCE)]
            await asyncio.gather(*(tree.replace(f"file-{number}", share, 0.02) for number, share in enumerate(shares)))
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await tree.look()
        left = await left_over(set_)
        more = await _more(set_.gateway, descriptors)
    return [
        none_of(f"{kind}: partial files seen, uploads aborted by clients", rounds * FILES_AT_ONCE, tree.wrong),
        none_of(f"{kind}: left over after that", rounds * FILES_AT_ONCE, left),
        Figure(f"{kind}: descriptors more than before", f"≤ {SPARE_DESCRIPTORS}", str(more), more <= SPARE_DESCRIPTORS),
    ]


async def _more(gateway: TunedGateway, descriptors: int) -> int:
    """How many more are open than before, once what can go is gone; a few are kept for the next call to a service."""
    for _ in range(50):
        if (more := gateway.descriptors() - descriptors) <= SPARE_DESCRIPTORS:
            break
        await asyncio.sleep(0.1)
    return more


async def left_over(set_: Set) -> list[str]:
    """What is still there of broken uploads after a while."""
    for _ in range(100):
        if not (left := await set_.storage.left_over()):
            return []
        await asyncio.sleep(0.1)
    return left


async def kills(effort: Effort, kind: str, tries: int) -> list[Figure]:
    """SIGKILL of the whole gateway at any moment of several uploads; its next start must find all in order."""
    async with effort.gateway(kind=kind) as set_:
        tree = Tree(set_, set_.storage.part * 5 // 4)
        await tree.fill()
        under_way = 0
        for number in range(tries):
            sending = [
                asyncio.ensure_future(tree.replace(f"file-{file}", 1.0, random.uniform(0.0, 0.4)))
                for file in range(FILES_AT_ONCE)
            ]
            watching = asyncio.ensure_future(tree.watch())
            await asyncio.sleep(random.uniform(0.0, 0.4))
            under_way += sum(not task.done() for task in sending)
            set_.gateway.kill()
            await asyncio.gather(*sending, watching)
            set_.gateway.begin()
            await tree.settle()
            if number % 10 == 9:
                effort.say(f"{kind}: killed {number + 1} times")
        await set_.storage.sweep()
        left = await set_.storage.left_over()
    return [
        Figure(
            f"{kind}: uploads under way at a SIGKILL",
            f"≥ {tries}",
            f"{under_way} at {tries} kills",
            under_way >= tries,
            timed=True,
        ),
        none_of(f"{kind}: partial files seen at {tries} SIGKILLs", tree.seen, tree.wrong),
        none_of(f"{kind}: left over after the sweep", tries, left),
    ]


def _aborts(kind: str, short: int, long: int) -> Line:
    return lambda effort: clients(effort, kind, effort.of(short, long))


def _kills(kind: str, short: int, long: int) -> Line:
    return lambda effort: kills(effort, kind, effort.of(short, long))


LINES: Lines = {
    "abort-local": _aborts("local", 24, 900),
    "abort-s3": _aborts("s3", 8, 900),
    "abort-azure-blob": _aborts("azure-blob", 8, 200),
    "kill-local": _kills("local", 1, 100),
    "kill-s3": _kills("s3", 1, 100),
    "kill-azure-blob": _kills("azure-blob", 1, 20),
}
