"""Measures the latency of the gateway under load: lists a small folder repeatedly, each time over a new connection.

The probe is a separate process, so that it waits only for the gateway and not for the process that makes the load.
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
from .raw_http import TRANSPORT, ask, get

_PAUSE = 0.1


class LatencyProbe:
    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self.waits: list[float] = []
        self.wrong: list[str] = []

    async def request(self) -> None:
        start = time.monotonic()
        try:
            answer = await ask(self._port, get(f"{FILES}/", self._token))
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
async def probing(gateway: TunedGateway) -> AsyncIterator[LatencyProbe]:
    """Probe the gateway meanwhile; the results are available at the end."""
    probe = LatencyProbe(gateway.port, gateway.token)
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
        yield probe
        process.stdin.close()
        met, _ = await process.communicate()
        probe.waits, probe.wrong = json.loads(met)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _probe_until_stdin_closes(port: int) -> None:
    probe = LatencyProbe(port, sys.stdin.readline().strip())
    reported = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    print("ready", flush=True)
    while not reported.done():
        await probe.request()
        await asyncio.wait([reported], timeout=_PAUSE)
    print(json.dumps([probe.waits, probe.wrong]))


if __name__ == "__main__":
    asyncio.run(_probe_until_stdin_closes(int(sys.argv[1])))
