"""Somebody who lists a small folder again and again, each time over a connection of his own.

He is a process of his own: what he waits for is then the gateway, and not the one that makes the load beside him.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..gateways import FILES
from .figures import Figure, at_most, none_of
from .processes import TunedGateway
from .wire import TRANSPORT, ask, get

_PAUSE = 0.1


class Visitor:
    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self.waits: list[float] = []
        self.wrong: list[str] = []

    async def visit(self) -> None:
        start = time.monotonic()
        try:
            answer = await ask(self._port, get(f"{FILES}/", self._token), 10)
        except TRANSPORT as error:
            self.wrong.append(type(error).__name__)
        else:
            if answer.status != 200:
                self.wrong.append(f"{answer.status} {answer.code}")
        finally:
            self.waits.append(time.monotonic() - start)

    def figures(self, word: str, limit: float) -> list[Figure]:
        waits = sorted(self.waits)
        return [
            none_of(f"{word}: listings that failed meanwhile", len(waits), self.wrong),
            at_most(f"{word}: a listing's wait, 95 of 100", limit, waits[int(len(waits) * 0.95)], "s"),
            at_most(f"{word}: a listing's longest wait", 3 * limit, waits[-1], "s"),
        ]


@asynccontextmanager
async def visited(gateway: TunedGateway) -> AsyncIterator[Visitor]:
    """A visitor meanwhile; what he met is known at the end."""
    visitor = Visitor(gateway.port, gateway.token)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, str(gateway.port)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(gateway.token.encode() + b"\n")
        assert await process.stdout.readline() == b"ready\n"
        yield visitor
        process.stdin.close()
        met, _ = await process.communicate()
        visitor.waits, visitor.wrong = json.loads(met)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _visit_until_told(port: int) -> None:
    visitor = Visitor(port, sys.stdin.readline().strip())
    told = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    print("ready", flush=True)
    while not told.done():
        await visitor.visit()
        await asyncio.wait([told], timeout=_PAUSE)
    print(json.dumps([visitor.waits, visitor.wrong]))


if __name__ == "__main__":
    asyncio.run(_visit_until_told(int(sys.argv[1])))
