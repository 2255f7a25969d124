"""The composition root: from settings to a running application. What a worker process loads."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import structlog

from portico import logs, settings
from portico.accounts.connections import Connections
from portico.accounts.devices import Devices
from portico.accounts.home_paths import HomePaths
from portico.accounts.passwords import Passwords
from portico.accounts.signin import SignIn
from portico.accounts.throttle import Throttle
from portico.accounts.tickets import Tickets
from portico.accounts.tokens import Tokens
from portico.accounts.vault import SecretKey, Vault
from portico.api.assets import Page
from portico.api.cors import Cors
from portico.api.edge import Edge
from portico.api.long_work import LongWork
from portico.api.monitoring import serve_metrics
from portico.api.pace import Pace
from portico.api.queues import Queues
from portico.api.routes import router
from portico.api.services import Services
from portico.audit import log_loss, open_audit
from portico.cursors import CursorSeal
from portico.drives import Drives
from portico.errors import PorticoError
from portico.metrics import Metrics, render
from portico.providers.parts import UPLOADS
from portico.providers.registry import PATH_OPTIONS
from portico.scoreboard import Scoreboard
from portico.settings import Settings
from portico.store.database import Database

SWEEP_SECONDS = 600
"""How often left-over uploads, expired tokens and old failures are removed."""

LAG_SECONDS = 0.25
"""How often the event loop is asked whether it comes round in time, where somebody looks at the metrics."""
PUBLISH_SECONDS = 1.0
"""How often a worker writes down for the others what it has counted."""

log = structlog.get_logger()


def load_app(home: str, overrides: Mapping[str, str]) -> Edge:
    chosen = settings.load(Path(home), overrides=overrides)
    logs.configure(chosen.log_level)
    return create_app(chosen)


def create_app(chosen: Settings) -> Edge:
    metrics = Metrics()
    long_work = LongWork()

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[dict[str, Any]]:
        async with opened(chosen, metrics, long_work) as services:
            yield {"services": services}

    return Edge(
        router(lifespan),
        allowed=chosen.allowed_addresses,
        proxies=chosen.behind_proxy,
        tls=chosen.tls_enabled,
        cors=Cors(chosen.cors_origins),
        metrics=metrics,
        on_stop=long_work.stop,
    )


@asynccontextmanager
async def opened(chosen: Settings, metrics: Metrics, long_work: LongWork) -> AsyncIterator[Services]:
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
        paths = HomePaths(str(chosen.home), PATH_OPTIONS, keep_relative=chosen.database_in_home)
        drives = Drives(
            Connections(database, Vault(key), paths),
            CursorSeal(key.derive("cursors")),
            metrics,
            timeout=chosen.provider_timeout.total_seconds(),
            path_depth=chosen.path_depth,
        )
        stack.push_async_callback(drives.close)
        sweeper = asyncio.create_task(_sweep_for_ever(drives, tokens, throttle))
        stack.push_async_callback(_end, sweeper)

        def lost_line(why: str, lost: int) -> None:
            metrics.lost_audit_lines.add()
            log_loss(why, lost)

        audit = open_audit(chosen.audit_file, required=chosen.audit_required, on_loss=lost_line)
        stack.callback(audit.close)

        async def ready() -> None:
            await database.ping()
            await drives.check()

        _watch_queues(metrics, passwords, database)
        if chosen.metrics_address:
            await stack.enter_async_context(
                _published(metrics, chosen.metrics_folder, *chosen.metrics_address)
            )
        yield Services(
            client_id=chosen.client_id,
            client_secret=chosen.client_secret,
            secure_cookies=chosen.tls_enabled or bool(chosen.behind_proxy),
            page=Page(chosen.client_id, chosen.client_secret),
            sign_in=SignIn(database, passwords, throttle, tokens, Devices(key.derive("devices"))),
            tokens=tokens,
            tickets=Tickets(database),
            drives=drives,
            queues=Queues(),
            long_work=long_work,
            pace=Pace(),
            audit=audit,
            metrics=metrics,
            ready=ready,
            max_file_size=chosen.max_file_size,
            max_files=chosen.max_files,
        )


def _watch_queues(metrics: Metrics, passwords: Passwords, database: Database) -> None:
    checks = "portico_password_checks_queued"
    metrics.watch(checks, lambda: passwords.queued(familiar=False), "general")
    metrics.watch(checks, lambda: passwords.queued(familiar=True), "familiar")
    metrics.watch("portico_database_writers_queued", lambda: database.queued)
    metrics.watch("portico_upload_memory_bytes", lambda: UPLOADS.held)
    metrics.watch("portico_uploads_waiting_for_memory", lambda: UPLOADS.waiting)


@asynccontextmanager
async def _published(metrics: Metrics, folder: Path, host: str, port: int) -> AsyncIterator[None]:
    """While this lasts, the metrics are shared with the other workers and can be asked for."""
    board = Scoreboard(folder, metrics)
    tasks = [
        asyncio.create_task(_publish_for_ever(metrics, board)),
        asyncio.create_task(serve_metrics(host, port, lambda: render(board.read()))),
    ]
    try:
        yield
    finally:
        for task in tasks:
            await _end(task)
        board.close()


async def _publish_for_ever(metrics: Metrics, board: Scoreboard) -> None:
    loop = asyncio.get_running_loop()
    published = 0.0
    while True:
        due = loop.time() + LAG_SECONDS
        await asyncio.sleep(LAG_SECONDS)
        metrics.lag.observe((), max(0.0, loop.time() - due))
        if loop.time() - published >= PUBLISH_SECONDS:
            try:
                board.publish()
            except OSError as error:
                log.warning("metrics-not-published", why=error.strerror)
            published = loop.time()


async def _sweep_for_ever(drives: Drives, tokens: Tokens, throttle: Throttle) -> None:
    """Each sweep goes its own round: none waits for another."""
    await asyncio.gather(*(_repeat(sweep) for sweep in (drives.sweep, tokens.sweep, throttle.sweep)))


async def _repeat(sweep: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            async with asyncio.timeout(SWEEP_SECONDS):
                await sweep()
        except PorticoError as error:
            log.warning("sweep-failed", code=error.code, detail=error.detail, cause=error.cause)
        except TimeoutError:
            log.warning("sweep-failed", cause=f"not over after {SWEEP_SECONDS} s")
        except Exception as error:  # a bug in one sweep must not end them all
            log.error("bug", exc_info=error)
        await asyncio.sleep(SWEEP_SECONDS)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
