"""A hostile storage service, and users who keep asking it, are not noticed by users of another connection."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import cycle
from urllib.parse import urlencode

from ...gateways import FILES
from ...servers.hostile import BEHAVIOURS, Attack, Hostile, Trap, options
from ..figures import Effort, Figure, Lines, none_of
from ..latency_probe import probing
from ..processes import TunedGateway, accounts
from ..raw_http import TRANSPORT, ask, form, get, head, post
from .floods import credentials
from .memory import Peak

PASSWORD = "of a user of a hostile service"
LIMIT = 512
"""Mebibytes resident."""
WAIT = 0.3
ATTACKS = (
    *(Attack.ENDLESS_BODY, Attack.DENSE_BODY, Attack.REDIRECT, Attack.ENDLESS_ERROR),
    *(Attack.NONSENSE, Attack.CROWD, Attack.ENDLESS_WALK, Attack.TRICKLE, Attack.SILENCE),
)
_AT_ONCE = 4
"""Requests to each kind of service."""


@asynccontextmanager
async def hostile_connections(gateway: TunedGateway) -> AsyncIterator[tuple[dict[str, Hostile], Trap]]:
    """One of each kind, and a user of each who is called by the kind."""
    async with AsyncExitStack() as stack:
        trap = await stack.enter_async_context(Trap())
        services = {
            kind: await stack.enter_async_context(Hostile(behaviour, trap)) for kind, behaviour in BEHAVIOURS.items()
        }
        async with accounts(gateway) as (connections, users):
            for kind, service in services.items():
                keys = {"access-key-id": "id", "secret-access-key": "key"} if kind == "s3" else {}
                given = options(kind, service.url) | keys
                secrets: dict[str, str] = {
                    name: given.pop(name) for name in ("secret-access-key", "account-key") if name in given
                }
                await connections.add(kind, kind, given, secrets)
                await users.add(kind, PASSWORD, connection=kind, root="/")
        yield services, trap


async def token_of(gateway: TunedGateway, user: str) -> str:
    body = urlencode({"grant_type": "password", "username": user, "password": PASSWORD}).encode()
    lines = ("Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(body)}")
    basic = f"Authorization: Basic {credentials(gateway)[0]}"
    answer = await ask(gateway.port, head("POST", "/backend/login", "", basic, *lines) + body)
    assert answer.status == 200, answer.body
    return str(answer.json()["access_token"])


def requests(token: str) -> list[bytes]:
    return [
        get(f"{FILES}/tree?size=5000", token),
        get(f"{FILES}/tree?size=250", token),
        get(f"{FILES}/tree/file?action=STAT", token),
        get(f"{FILES}/tree/file", token),
        post(token, form("new", b"x" * 1000), "/tree"),
        head("POST", f"{FILES}/tree/new?action=MKDIR", token, "Content-Length: 0"),
        head("POST", f"{FILES}/a/tree?action=COPY&target=/b/new", token, "Content-Length: 0"),
        head("DELETE", f"{FILES}/a/tree?recursive=true", token),
    ]


async def besieged(effort: Effort) -> list[Figure]:
    seconds = effort.of(4, 60)
    statuses: Counter[str] = Counter()

    async def keep_asking(gateway: TunedGateway, token: str, first: int, end: float) -> None:
        asked = requests(token)
        for number in cycle(range(len(asked))):
            if time.monotonic() > end:
                return
            try:
                answer = await ask(gateway.port, asked[(number + first) % len(asked)])
                statuses[f"{answer.status} {answer.code}".strip()] += 1
            except TRANSPORT as error:
                statuses[type(error).__name__] += 1
                await asyncio.sleep(0.1)

    async with (
        effort.gateway(environment={"PORTICO_PROVIDER_TIMEOUT": "2s"}) as set_,
        hostile_connections(set_.gateway) as (services, trap),
    ):
        gateway = set_.gateway
        tokens = {kind: await token_of(gateway, kind) for kind in services}
        for token in tokens.values():  # the first request to a kind reads its SDK, which is not what is tried here
            while (await ask(gateway.port, get(f"{FILES}/tree", token))).status != 200:
                pass
        peak = Peak(gateway)
        watching = asyncio.ensure_future(peak.watch())
        async with probing(gateway) as probe:
            end = time.monotonic() + seconds
            askers = [
                asyncio.ensure_future(keep_asking(gateway, token, first, end))
                for token in tokens.values()
                for first in range(_AT_ONCE)
            ]
            for attack in cycle(ATTACKS):
                if time.monotonic() > end:
                    break
                for service in services.values():
                    service.begin(attack)
                await asyncio.sleep(seconds / len(ATTACKS) / 2)
            await asyncio.gather(*askers)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    odd = [f"{times} × {status}" for status, times in statuses.items() if not status[:1].isdigit() or "500" in status]
    word = "beside hostile services"
    return [
        none_of(f"{word}: answers of 500, or none", statuses.total(), odd),
        none_of(
            f"{word}: requests that went where they pointed",
            statuses.total(),
            [repr(each[:99]) for each in trap.caught],
        ),
        Figure(f"{word}: answers to their own users", "shown", str(dict(statuses)), True),
        Figure(f"{word}: memory", f"≤ {LIMIT} MiB", f"{peak.mib} MiB", peak.mib <= LIMIT),
        *probe.figures(word, WAIT),
    ]


LINES: Lines = {"hostile": besieged}
