"""Measures the latency of the gateway under load: lists a small folder repeatedly, each time over a new connection.

The probe is a separate process, so that it waits only for the gateway and not for the process that makes the load. It
imports nothing of the tests: that would take seconds of CPU.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..gateways import FILES, WAIT
from .figures import Figure, at_most, none_of
from .processes import TunedGateway

_PROBE = """
import http.client, json, select, sys, time
port, path, patience = sys.argv[1:]
token = input()
print("ready", flush=True)
waits, wrong = [], []
while not waits or not select.select([sys.stdin], [], [], 0.1)[0]:
    start = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=float(patience))
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            wrong.append(f"{answer.status} {body[:200]}")
    except (OSError, http.client.HTTPException) as error:
        wrong.append(type(error).__name__)
    finally:
        connection.close()
        waits.append(time.monotonic() - start)
print(json.dumps([waits, wrong]))
"""


class LatencyProbe:
    def __init__(self) -> None:
        self.waits: list[float] = []
        self.wrong: list[str] = []

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
    probe = LatencyProbe()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", _PROBE, str(gateway.port), f"{FILES}/", str(WAIT)),
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
