"""Which nodes run: each of their workers holds a lease of its own as long as it lives."""

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from sqlalchemy import select

from portico.runtime.processes import has_ended
from portico.store.database import Database
from portico.store.tables import leases

_NODE: Final = "node:"
_LIFETIME: Final = timedelta(minutes=5)
"""Longer than that of other leases: it is written more rarely, and nobody waits for its end."""

_IS_NODE: Final = leases.c.name.startswith(_NODE)


@asynccontextmanager
async def running_node(database: Database, node: str) -> AsyncGenerator[None]:
    """Let others see, until the context ends, that a worker of this node runs."""
    from portico.store.leases import Leases  # commands only look, and do without what renews a lease

    async with Leases(database, node, _LIFETIME).held(_NODE + secrets.token_hex(8)):
        yield


async def running_nodes(database: Database) -> list[str]:
    """The names of the nodes that run, or have vanished on another machine within the last minutes."""
    rows = await database.fetch(select(leases.c.owner).where(_IS_NODE, leases.c.owned_until > database.now()))
    return sorted({row.owner.partition("@")[2] for row in rows if not has_ended(row.owner)})


async def held_leases(database: Database) -> list[tuple[str, str, int]]:
    """Those that are not of nodes: the name, the owner, and when it expires."""
    columns = leases.c.name, leases.c.owner, leases.c.owned_until
    query = select(*columns).where(leases.c.owned_until > database.now(), ~_IS_NODE)
    return [(row.name, row.owner, row.owned_until) for row in await database.fetch(query.order_by(leases.c.name))]
