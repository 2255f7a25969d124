"""The composition root: from settings to a running application. What a worker process loads."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import structlog

from portico import logs, settings
from portico.accounts.connections import Connections
from portico.accounts.passwords import Passwords
from portico.accounts.signin import SignIn
from portico.accounts.throttle import Throttle
from portico.accounts.tickets import Tickets
from portico.accounts.tokens import Tokens
from portico.accounts.vault import SecretKey, Vault
from portico.api.edge import Edge
from portico.api.routes import router
from portico.api.services import Services
from portico.cursors import CursorSeal
from portico.drives import Drives
from portico.errors import PorticoError
from portico.settings import Settings
from portico.store.database import Database

SWEEP_SECONDS = 600
"""How often left-over uploads, expired tokens and old failures are removed."""

log = structlog.get_logger()


def load_app(home: str, overrides: Mapping[str, str]) -> Edge:
    chosen = settings.load(Path(home), overrides=overrides)
    logs.configure(chosen.log_level)
    return create_app(chosen)


def create_app(chosen: Settings) -> Edge:
    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[dict[str, Any]]:
        async with opened(chosen) as services:
            yield {"services": services}

    return Edge(
        router(lifespan),
        allowed=chosen.allowed_addresses,
        proxies=chosen.behind_proxy,
        tls=chosen.tls_enabled,
    )


@asynccontextmanager
async def opened(chosen: Settings) -> AsyncIterator[Services]:
    """Everything that the endpoints work with, closed in reverse order at the end."""
    key = SecretKey.load(chosen.secret_key_file)
    async with AsyncExitStack() as stack:
        database = Database(chosen.database_url)
        stack.push_async_callback(database.close)
        passwords = Passwords()
        stack.callback(passwords.close)
        tokens = Tokens(
            database, token_lifetime=chosen.token_lifetime, refresh_lifetime=chosen.refresh_lifetime
        )
        throttle = Throttle(database)
        drives = Drives(Connections(database, Vault(key)), CursorSeal(key.derive("cursors")))
        stack.push_async_callback(drives.close)
        sweeper = asyncio.create_task(_sweep_for_ever(drives, tokens, throttle))
        stack.push_async_callback(_end, sweeper)
        yield Services(
            client_id=chosen.client_id,
            client_secret=chosen.client_secret,
            sign_in=SignIn(database, passwords, throttle, tokens),
            tokens=tokens,
            tickets=Tickets(database),
            drives=drives,
            ready=database.ping,
            max_file_size=chosen.max_file_size,
            max_files=chosen.max_files,
        )


async def _sweep_for_ever(drives: Drives, tokens: Tokens, throttle: Throttle) -> None:
    while True:
        for sweep in (drives.sweep, tokens.sweep, throttle.sweep):
            try:
                await sweep()
            except PorticoError as error:
                log.warning("sweep-failed", code=error.code, detail=error.detail, cause=error.cause)
            except Exception as error:  # a bug in one sweep must not end them all
                log.error("bug", exc_info=error)
        await asyncio.sleep(SWEEP_SECONDS)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
