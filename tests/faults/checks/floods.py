"""Guessing passwords fails, and users who signed in before still get in: a flood from many addresses."""

import asyncio
import re
import time
from base64 import b64encode
from collections import Counter
from itertools import count
from random import Random
from urllib.parse import urlencode

from ..figures import Effort, Figure, Lines, at_most, none_of
from ..processes import TunedGateway
from ..raw_http import TRANSPORT, Answer, ask

PROXY = "127.0.0.1"
HOME, ELSEWHERE = "192.0.2.1", "198.18.{}.{}"


def credentials(gateway: TunedGateway) -> tuple[str, str]:
    """The client's, ready for a header, and the password of `web`."""
    properties = (gateway.home / "application.properties").read_text()
    pair = [re.findall(rf"^security\.client-{word}=(.*)$", properties, re.MULTILINE)[0] for word in ("id", "secret")]
    password = gateway.password
    return b64encode(":".join(pair).encode()).decode(), password


def sign_in(client: str, username: str, password: str, address: str) -> bytes:
    body = urlencode({"grant_type": "password", "username": username, "password": password}).encode()
    lines = [
        "POST /backend/login HTTP/1.1",
        "Host: localhost",
        f"Authorization: Basic {client}",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(body)}",
        f"X-Forwarded-For: {address}",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Flood:
    """So many attempts a second, whatever becomes of them."""

    def __init__(self, gateway: TunedGateway, client: str, rate: int) -> None:
        self._gateway, self._client, self._rate = gateway, client, rate
        self.statuses: Counter[str] = Counter()
        self._random = Random(1)
        self._running: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        began = time.monotonic()
        for number in count():
            await asyncio.sleep(max(0.0, began + number / self._rate - time.monotonic()))
            if len(self._running) < 5 * self._rate:
                task = asyncio.ensure_future(self._try())
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    async def end(self) -> None:
        await asyncio.gather(*self._running)

    async def _try(self) -> None:
        address = ELSEWHERE.format(self._random.randrange(256), self._random.randrange(256))
        name = self._random.choice(("web", "web", "admin", f"user-{self._random.randrange(1000)}"))
        request = sign_in(self._client, name, f"guess-{self._random.random()}", address)
        try:
            answer = await ask(self._gateway.port, request, 60)
        except TRANSPORT as error:
            self.statuses[type(error).__name__] += 1
        else:
            self.statuses[f"{answer.status} {answer.code}"] += 1


async def flood(effort: Effort) -> list[Figure]:
    rate, seconds = effort.of(40, 200), effort.of(2, 60)
    # The port is asked with an address of its own choice, as behind a proxy; `login` of the frame has none.
    async with effort.gateway() as set_:
        gateway = set_.gateway
        client, password = credentials(gateway)
        gateway.stop()
        gateway.flags = ("--behind-proxy", PROXY)
        gateway.start()
        first = await _asked(gateway, client, password)
        assert first.status == 200, first.body
        attempts = Flood(gateway, client, rate)
        flooding = asyncio.ensure_future(attempts.run())
        waits: list[float] = []
        refused: list[str] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            start = time.monotonic()
            answer = await _asked(gateway, client, password)
            waits.append(time.monotonic() - start)
            if answer.status != 200:
                refused.append(f"{answer.status} {answer.code}")
            await asyncio.sleep(0.3)
        flooding.cancel()
        await asyncio.gather(flooding, return_exceptions=True)
        await attempts.end()
    expected = {"400 invalid_grant", "429 slow_down"}
    odd = [f"{times} × {status}" for status, times in attempts.statuses.items() if status not in expected]
    waits.sort()
    return [
        none_of("sign-ins of the real user that were refused", len(waits), refused),
        at_most("the real user's longest wait", 1, waits[-1], "s"),
        at_most("the real user's wait, 95 of 100", 1, waits[int(len(waits) * 0.95)], "s"),
        none_of("attempts that were not refused as they should be", attempts.statuses.total(), odd),
        Figure(
            "attempts a second",
            f"{rate}",
            f"{attempts.statuses.total() / seconds:.0f}: {dict(attempts.statuses)}",
            attempts.statuses.total() >= rate * seconds * 0.9,
            timed=True,
        ),
    ]


async def _asked(gateway: TunedGateway, client: str, password: str) -> Answer:
    return await ask(gateway.port, sign_in(client, "web", password, HOME), 60)


LINES: Lines = {"flood": flood}
