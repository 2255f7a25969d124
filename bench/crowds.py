"""Processor time of a request with 1 to 1,000 users at once, on one node and on two."""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle, islice

from tests.many_users import issued_tokens
from tests.servers import postgres

from bench.load import Target, hammer, request
from bench.processes import apart
from bench.servers import FILES, Home, Portico
from bench.workspace import Workspace, say
from portico.accounts.vault import SecretKey

CROWDS = (1, 10, 100, 1000)
REQUESTS = 2000
_CONTENT = b"x" * 1024
_NO_LIMIT = {"PORTICO_SERVER_MAX_CONNECTIONS_PER_ADDRESS": "0"}
"""All of these users have one address."""


def costs(work: Workspace, rounds: int) -> Iterator[tuple[str, dict[int, float]]]:
    """For each kind of request and of installation: milliseconds of the nodes' processor time, by users at once."""
    yield from _installation(work, rounds, "1 node, SQLite", 1, {})
    if postgres.binaries() is None:
        say("growth: PostgreSQL is not installed, so there are no lines with nodes")
        return
    with postgres.running_postgres() as server:
        for nodes in (1, 2):
            settings = {
                "PORTICO_DATABASE_URL": server.new_database(),
                "PORTICO_SECRET_KEY": SecretKey.generate().text(),
            }
            what = f"{nodes} node{'s' * (nodes > 1)}, PostgreSQL"
            yield from _installation(work, rounds, what, nodes, settings)


def _installation(
    work: Workspace, rounds: int, what: str, nodes: int, settings: dict[str, str]
) -> Iterator[tuple[str, dict[int, float]]]:
    say(f"growth: {', '.join(map(str, CROWDS))} users at once, {what}")
    name = what.replace(", ", "-").replace(" ", "-")
    folder = work.make(f"crowd-{name}")
    for number in range(100):
        (folder / f"file-{number:03d}").touch()
    homes = [Home(work, f"home-{name}-{number}", {**_NO_LIMIT, **settings}) for number in range(nodes)]
    homes[0].add("crowd", "local", folder=str(folder))
    url = settings.get("PORTICO_DATABASE_URL") or f"sqlite:///{homes[0].folder / 'portico.db'}"
    tokens = apart(_tokens, url, max(CROWDS))
    with ExitStack() as stack:
        gateways = []
        for home in homes:
            gateways.append(Portico(home))
            stack.callback(gateways[-1].stop)
        for kind in ("a page of 100", "a PUT of 1 KiB"):
            for gateway in gateways:
                apart(hammer, gateway.target, asked(kind, tokens[:8]), 8)
            found = {crowd: [_cost(gateways, kind, tokens[:crowd]) for _ in range(rounds)] for crowd in CROWDS}
            refused = {crowd: share for crowd, costs in found.items() if (share := max(cost.refused for cost in costs))}
            shown = "".join(f", {share:.0%} refused at {crowd:,}" for crowd, share in refused.items())
            yield (
                f"{kind}, users at once, {what}{shown}",
                {crowd: min(cost.milliseconds for cost in costs) for crowd, costs in found.items()},
            )


def _tokens(url: str, count: int) -> list[str]:
    return asyncio.run(issued_tokens(url, "crowd", count))


def asked(kind: str, tokens: Sequence[str]) -> list[bytes]:
    """The requests of these users in turn, so that each has as many as the others."""
    contents = []
    for number, token in enumerate(islice(cycle(tokens), REQUESTS)):
        headers = {"Authorization": f"Bearer {token}"}
        if "PUT" in kind:
            contents.append(request("PUT", f"{FILES}/new-{number % 500}", headers, _CONTENT))
        else:
            contents.append(request("GET", f"{FILES}/?size=100", headers))
    return contents


@dataclass(frozen=True, slots=True)
class Cost:
    milliseconds: float
    """Of processor time for each request that was served."""
    refused: float
    """Which part was answered 503: the database had no connection to spare for too long."""


def _cost(gateways: Sequence[Portico], kind: str, tokens: Sequence[str]) -> Cost:
    """Each user has a connection, to the nodes in turn; a single user has one to the first node."""
    shares = [tokens[number :: len(gateways)] for number in range(len(gateways))]
    works = [(gateway.target, share) for gateway, share in zip(gateways, shares, strict=True) if share]
    for gateway in gateways:
        gateway.mark()
    with ThreadPoolExecutor(len(works)) as pool:
        found = list(pool.map(lambda pair: apart(_ask, pair[0], kind, pair[1]), works))
    seconds = sum(gateway.usage().cpu for gateway in gateways)
    succeeded, count = (sum(part[index] for part in found) for index in range(2))
    return Cost(1000 * seconds / max(1, succeeded), 1 - succeeded / count)


def _ask(target: Target, kind: str, tokens: Sequence[str]) -> tuple[int, int]:
    rates = hammer(target, asked(kind, tokens), len(tokens), allowed=(200, 201, 204, 503))
    return rates.succeeded, rates.count
