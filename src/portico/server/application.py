"""The HTTP application: what a worker process loads."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from portico.api.assets import LazyPage, WebPage
from portico.api.metrics_server import serve_metrics
from portico.api.middleware import Cors, Middleware
from portico.api.requests import OpeningServices
from portico.api.routes import Routes
from portico.api.services import Services
from portico.model.errors import PorticoError, Unavailable
from portico.observability import logs
from portico.observability.logs import RequestLog
from portico.observability.metrics import Metrics, WorkerMetrics, render
from portico.observability.tracing import open_tracing
from portico.operations.actors.cancellation import CancellableWork
from portico.operations.gateway import Gateway
from portico.server.composition import open_gateway
from portico.settings.settings import Settings

LAG_SECONDS = 0.25
"""How often the lag of the event loop is measured, if metrics are served."""
PUBLISH_SECONDS = 1.0
"""How often a worker publishes its metrics for the others."""
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
"""Between two attempts to reach the database at the start of a worker."""

log = structlog.get_logger()


def create_app(chosen: Settings, request_log: RequestLog = logs.discard, *, patient: bool = False) -> Middleware:
    """If `patient`, its start waits for a database that does not answer."""
    metrics, long_work = Metrics(), CancellableWork()
    draining, stopping = asyncio.Event(), asyncio.Event()
    tracing = open_tracing(chosen.otel_endpoint, chosen.node)
    opened: list[Gateway] = []

    def drain() -> None:
        draining.set()
        for gateway in opened:
            gateway.readiness.drain()

    def stop() -> None:
        stopping.set()
        long_work.stop()
        for gateway in opened:
            gateway.stop()

    @asynccontextmanager
    async def open_services() -> AsyncIterator[Services]:
        async with AsyncExitStack() as stack:
            gateway = await stack.enter_async_context(open_gateway(chosen, metrics, long_work, tracing))
            opened.append(gateway)
            if draining.is_set():  # the database answered only now
                gateway.readiness.drain()
            if chosen.metrics_address:
                await stack.enter_async_context(_published(metrics, chosen.metrics_folder, *chosen.metrics_address))
            yield Services(
                gateway=gateway,
                page=LazyPage(
                    partial(
                        WebPage,
                        gateway.client_id,
                        gateway.client_secret,
                        gateway.thumbnail_types,
                        keeps_deleted=gateway.keeps_deleted,
                    )
                ),
                secure_cookies=chosen.tls_enabled or bool(chosen.behind_proxy),
                max_files=chosen.max_files,
                max_file_size=chosen.max_file_size,
                shows_storage=chosen.shows_storage,
                public_url=chosen.public_url.rstrip("/"),
            )

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[dict[str, Any]]:
        async with AsyncExitStack() as stack:
            if tracing:
                stack.push_async_callback(asyncio.to_thread, tracing.close)
            services = OpeningServices()
            await stack.enter_async_context(_opened(open_services, services, stopping if patient else None))
            yield {"services": services}

    return Middleware(
        Routes(lifespan=lifespan),
        allowed=chosen.allowed_addresses,
        proxies=chosen.behind_proxy,
        monitors=chosen.health_allowed_addresses,
        tls=chosen.tls_enabled,
        cors=Cors(chosen.cors_origins) if chosen.cors_origins else None,
        metrics=metrics,
        request_log=request_log,
        tracing=tracing,
        on_stop=stop,
        on_drain=drain,
    )


@asynccontextmanager
async def _opened(
    open_services: Callable[[], AbstractAsyncContextManager[Services]],
    services: OpeningServices,
    stopping: asyncio.Event | None,
) -> AsyncIterator[None]:
    """Open the services. With `stopping`, a database that does not answer is waited for until that is set.

    A worker that ended instead would be started again and again. Meanwhile it serves, to say that it is alive.
    """
    async with AsyncExitStack() as stack:
        try:
            services.open(await stack.enter_async_context(open_services()))
        except Unavailable as error:  # also of a role or a password that was changed since the start
            if stopping is None or stopping.is_set():
                raise
            services.wait_for_database(error)
            log.warning("database-not-available", cause=error.cause)
            ended = asyncio.Event()
            opening = asyncio.create_task(_open_later(open_services, services, stopping, ended, reported=error.cause))
            stack.push_async_callback(asyncio.wait, [opening])
            stack.callback(ended.set)
            stack.callback(stopping.set)
        yield


async def _open_later(
    open_services: Callable[[], AbstractAsyncContextManager[Services]],
    services: OpeningServices,
    stopping: asyncio.Event,
    ended: asyncio.Event,
    *,
    reported: str | None,
) -> None:
    pause = FIRST_PAUSE_SECONDS
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), pause)
        if stopping.is_set():
            return
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        try:
            async with open_services() as opened:
                services.open(opened)
                await ended.wait()
                return
        except Exception as error:
            if isinstance(error, Unavailable):
                services.wait_for_database(error)
                if error.cause != reported:
                    reported = error.cause
                    log.warning("database-not-available", cause=reported)
                continue
            # The next worker fails with the same error before it serves, which is reported.
            log.error("not-started", exc_info=None if isinstance(error, PorticoError) else error)
            signal.raise_signal(signal.SIGTERM)
            return


@asynccontextmanager
async def _published(metrics: Metrics, folder: Path, host: str, port: int) -> AsyncIterator[None]:
    """Share the metrics with the other workers and serve them, until the context ends."""
    worker_metrics = WorkerMetrics(folder, metrics)
    tasks = [
        asyncio.create_task(_publish_for_ever(metrics, worker_metrics)),
        asyncio.create_task(serve_metrics(host, port, lambda: render(worker_metrics.read()))),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        worker_metrics.close()


async def _publish_for_ever(metrics: Metrics, worker_metrics: WorkerMetrics) -> None:
    loop = asyncio.get_running_loop()
    published = 0.0
    while True:
        due = loop.time() + LAG_SECONDS
        await asyncio.sleep(LAG_SECONDS)
        metrics.lag.observe((), max(0.0, loop.time() - due))
        if loop.time() - published >= PUBLISH_SECONDS:
            try:
                worker_metrics.publish()
            except OSError as error:
                log.warning("metrics-not-published", why=error.strerror)
            published = loop.time()
