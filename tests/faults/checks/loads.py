"""Under load: the service stays up, listings stay quick, and it is itself again within seconds."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable

from ...gateways import FILES
from ..figures import Effort, Figure, Lines, at_most, none_of
from ..latency_probe import probing
from ..processes import TunedGateway
from ..raw_http import MULTIPART, TRANSPORT, Wire, form, head, post
from .aborts import left_over
from .floods import credentials
from .memory import Peak, send

MIB = 2**20


async def recovered(gateway: TunedGateway) -> float:
    """Seconds until three listings in a row are quick again."""
    began = time.monotonic()
    quick = 0
    while quick < 3 and time.monotonic() - began < 60:
        asked = time.monotonic()
        try:
            status = (await gateway.get()).status
        except TRANSPORT:
            status = 0
        quick = quick + 1 if status == 200 and time.monotonic() - asked < 0.5 else 0
    return time.monotonic() - began


async def uploads(effort: Effort) -> list[Figure]:
    """Hundreds of uploads of 10 MiB at once."""
    number, size = effort.of(20, 500), effort.of(1, 10) * MIB
    async with effort.gateway() as set_:
        gateway = set_.gateway
        peak = Peak(gateway)
        watching = asyncio.ensure_future(peak.watch())
        async with probing(gateway) as probe:
            began = time.monotonic()
            answers = await asyncio.gather(*(send(gateway, f"file-{each}", size) for each in range(number)))
            took = time.monotonic() - began
        watching.cancel()
        wait = await recovered(gateway)
        statuses = Counter(answers)
        names = await gateway.names()
    odd = [f"{times} × {status}" for status, times in statuses.items() if status not in (204, 503)]
    word = f"{number} uploads of {size // MIB} MiB"
    return [
        none_of(f"{word}: neither 204 nor 503", number, odd),
        Figure(f"{word}: stored as they said", str(statuses[204]), str(len(names)), len(names) == statuses[204]),
        Figure(f"{word}: memory", "≤ 1024 MiB", f"{peak.mib} MiB", peak.mib <= 1024),
        Figure(f"{word}: throughput", "shown", f"{statuses[204] * size / MIB / took:.0f} MiB/s", True),
        *probe.figures(word, 1),
        at_most(f"{word}: recovery", 5, wait, "s"),
    ]


async def slow_clients(effort: Effort) -> list[Figure]:
    """Thousands who send a byte now and then: half of them an upload, half of them a sign-in."""
    number, seconds = effort.of(1_100, 2_000), effort.of(2, 30)
    async with effort.gateway() as set_:
        gateway = set_.gateway
        client = credentials(gateway)[0]
        upload = head("POST", f"{FILES}/", gateway.token, MULTIPART.strip(), "Content-Length: 100000")
        upload += b'--b\r\nContent-Disposition: form-data; name="data"; filename="slow"\r\n\r\n'
        form_type = "Content-Type: application/x-www-form-urlencoded"
        login = head("POST", "/backend/login", "", f"Authorization: Basic {client}", form_type, "Content-Length: 9999")
        wires = [await Wire.to(gateway.port) for _ in range(number)]
        for each, wire in enumerate(wires):
            await wire.send(upload if each % 2 else login)
        trickling = asyncio.ensure_future(_trickled(wires))
        async with probing(gateway) as probe:
            await asyncio.sleep(seconds)
        trickling.cancel()
        await asyncio.gather(trickling, return_exceptions=True)
        for wire in wires:
            wire.reset()
        wait = await recovered(gateway)
        left = await left_over(set_)
    return [
        *probe.figures(f"{number} slow clients", 1),
        at_most("recovery", 5, wait, "s"),
        none_of("left over", number, left),
    ]


async def _trickled(wires: list[Wire]) -> None:
    while True:
        for wire in wires:
            try:
                await wire.send(b"x")
            except ConnectionError:
                pass
        await asyncio.sleep(1)


class Demand:
    """Clients with a connection each, who ask again and again."""

    def __init__(self, request: Callable[[], bytes], port: int) -> None:
        self._request, self._port = request, port
        self.statuses: Counter[str] = Counter()
        self.waits: list[float] = []

    async def of(self, clients: int, seconds: float, rate: float = 0) -> None:
        """For so long; together at that rate, as far as the answers come in time, or as fast as they come."""
        end = time.monotonic() + seconds
        pause = clients / rate if rate else 0.0
        await asyncio.gather(*(self._client(each * pause / clients, pause, end) for each in range(clients)))

    async def _client(self, delay: float, pause: float, end: float) -> None:
        await asyncio.sleep(delay)
        wire: Wire | None = None
        while (start := time.monotonic()) < end:
            try:
                wire = wire or await Wire.to(self._port)
                await wire.send(self._request())
                answer = await wire.answer(30)
                self.statuses[f"{answer.status} {answer.code}".strip()] += 1
            except TRANSPORT as error:
                self.statuses[type(error).__name__] += 1
                if wire:
                    wire.reset()
                wire = None
            now = time.monotonic()
            self.waits.append(now - start)
            await asyncio.sleep(max(0.0, start + pause - now))
        if wire:
            await wire.close()


async def overload(effort: Effort) -> list[Figure]:
    """Four times as many small uploads as the gateway can take."""
    seconds, clients = effort.of(1, 15), effort.of(200, 2000)
    async with effort.gateway() as set_:
        gateway = set_.gateway
        numbers = iter(range(10**9))

        def request() -> bytes:
            body = form(f"file-{next(numbers) % 500}", b"x" * 1000)
            return post(gateway.token, body)

        alone = Demand(request, gateway.port)
        await alone.of(16, seconds)
        capacity = len(alone.waits) / seconds
        demand = Demand(request, gateway.port)
        async with probing(gateway) as probe:
            await demand.of(clients, seconds, 4 * capacity)
        wait = await recovered(gateway)
        alive = gateway.running
    odd = [
        f"{times} × {status}" for status, times in demand.statuses.items() if status not in ("204", "503 unavailable")
    ]
    waits = sorted(demand.waits)
    return [
        Figure("the service stays up", "yes", "yes" if alive else "no", alive),
        Figure(
            f"capacity; answers when {clients} clients ask four times that",
            "shown",
            f"{capacity:.0f}/s; {len(waits) / seconds:.0f}/s: {dict(demand.statuses)}",
            True,
        ),
        none_of("neither 204 nor 503", len(waits), odd),
        at_most("an answer's longest wait", 10, waits[-1], "s"),
        *probe.figures("overload", 2),
        at_most("recovery", 5, wait, "s"),
    ]


LINES: Lines = {"load-uploads": uploads, "load-slow-clients": slow_clients, "load-overload": overload}
