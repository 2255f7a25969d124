"""A clean stop: SIGTERM under load loses nothing that was acknowledged, and ends in time."""

import asyncio
import signal
import time

from ...gateways import FILES
from ...gateways import WAIT as GUARD
from ..figures import Effort, Figure, Line, Lines, at_most, none_of
from ..raw_http import MULTIPART, Wire, get, head
from .durability import Senders

LIMIT = 30


async def stop(effort: Effort, kind: str, *, stalled: bool) -> list[Figure]:
    """With `stalled`, some clients are in the middle of an upload or a download and do nothing more."""
    environment = {} if effort.long else {"PORTICO_SERVER_STOP_TIMEOUT": "2s"}
    async with effort.gateway("--workers", "2", kind=kind, environment=environment) as set_:
        gateway = set_.gateway
        senders = Senders(gateway)
        await senders.send(effort.of(40, 1000))
        idle = []
        if stalled:
            assert await gateway.put("large", bytes(32 * 2**20)) == 204
            for _ in range(5):
                upload, download = await gateway.wire(), await Wire.to(gateway.port, receive_buffer=4096)
                announced = "Content-Length: 1000000"
                await upload.send(head("POST", f"{FILES}/", gateway.token, MULTIPART.strip(), announced))
                await upload.send(b'--b\r\nContent-Disposition: form-data; name="data"; filename="x"\r\n\r\nx')
                await download.send(get(f"{FILES}/large", gateway.token))
                idle += [upload, download]
            await asyncio.sleep(0.3)
        assert gateway.process is not None
        began = time.monotonic()
        gateway.process.send_signal(signal.SIGTERM)
        status = await asyncio.to_thread(gateway.process.wait, GUARD)
        took = time.monotonic() - began
        await senders.ended()
        for wire in idle:
            wire.reset()
        gateway.begin()
        listed = set(await gateway.names())
        lost = sorted(senders.stored.keys() - listed)
        strange = sorted(listed - senders.stored.keys() - {"large"})
        await set_.storage.sweep()
        left = await set_.storage.left_over()
    word = f"{kind}, stalled clients" if stalled else kind
    return [
        none_of(f"{word}: acknowledged files lost by SIGTERM under load", len(senders.stored), lost),
        Figure(f"{word}: exit status", "0", str(status), status == 0),
        at_most(f"{word}: time to stop", LIMIT, took, "s"),
        none_of(f"{word}: files of stalled uploads", 1, [name for name in strange if name == "x"]),
        none_of(f"{word}: left over after the next start", 1, left),
    ]


def _stop(kind: str, *, stalled: bool = False) -> Line:
    return lambda effort: stop(effort, kind, stalled=stalled)


LINES: Lines = {
    "stop-local": _stop("local"),
    "stop-s3": _stop("s3"),
    "stop-azure-blob": _stop("azure-blob"),
    "stop-stalled": _stop("local", stalled=True),
}
