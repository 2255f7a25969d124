"""From settings to an open `Gateway`: database, accounts, drives, audit log, sweeps. No front end is involved."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path as FilePath

import structlog

from portico import __version__
from portico.accounts.api_keys import ApiKeys
from portico.accounts.cluster import Cluster
from portico.accounts.connections import Connections, HomePaths
from portico.accounts.guests import Guests
from portico.accounts.passwords import Passwords
from portico.accounts.sessions import Sessions, Tickets, not_signed_in
from portico.accounts.share_links import ShareLinks, SharePolicy
from portico.accounts.sign_in import Devices, SignIn
from portico.accounts.throttle import Throttle
from portico.accounts.users import Invitations, Users
from portico.accounts.vault import SecretKey, Vault
from portico.drive.connection_pool import ConnectionPool
from portico.drive.cursors import CursorSeal
from portico.model.errors import PorticoError
from portico.model.paths import Path
from portico.observability.audit import log_loss, open_audit
from portico.observability.metrics import Metrics
from portico.observability.tracing import Tracing
from portico.operations.account import AccountServices
from portico.operations.activity import ActivityServices
from portico.operations.actors.actor import Authentication, Watches
from portico.operations.actors.cancellation import CancellableWork
from portico.operations.actors.idempotency import Idempotency
from portico.operations.actors.request_context import Admission
from portico.operations.actors.tree import Trees
from portico.operations.actors.unsettled import settle_changes
from portico.operations.files.archives import ArchiveLimits, ArchiveMemory
from portico.operations.files.digests import sweep_digests
from portico.operations.files.downloads import Downloads
from portico.operations.files.files import FileServices
from portico.operations.files.receipts import Receipts
from portico.operations.gateway import Gateway
from portico.operations.jobs import Jobs
from portico.operations.node_status import NodeStatus
from portico.operations.operations import Features, Operations
from portico.operations.readiness import Readiness
from portico.operations.rewind.freezing import Freezing
from portico.operations.rewind.mass_changes import MassChanges
from portico.operations.rewind.own import OwnRewindServices
from portico.operations.rewind.rewinds import Rewinds
from portico.operations.sharing.guest_sign_in import GuestSignIn
from portico.operations.sharing.link_limits import Usage
from portico.operations.sharing.links import ShareServices
from portico.operations.thumbnails.process import ThumbnailProcess
from portico.operations.thumbnails.thumbnails import open_thumbnails
from portico.operations.trash import sweep_trash
from portico.operations.uploads.access import UploadServices
from portico.operations.uploads.expiry import sweep_uploads
from portico.providers.contract.registry import PATH_OPTIONS
from portico.providers.multipart.memory import MemoryBudget
from portico.runtime.fair_scheduling import FairScheduler
from portico.settings.settings import Settings, generated_client
from portico.store.database import Database
from portico.store.digests import FileDigests
from portico.store.encrypted_columns import Sealed
from portico.store.idempotency import IdempotencyKeys
from portico.store.jobs import JobRecords
from portico.store.journal import Journal
from portico.store.journal_retention import remove_rows
from portico.store.leases import Leases
from portico.store.running_nodes import running_node
from portico.store.schema import file_of
from portico.store.signatures import Signer
from portico.store.tickets import SessionTickets
from portico.store.trash import TrashRecords
from portico.store.upload_log import UploadLogs
from portico.store.uploads import Uploads

SWEEP_INTERVAL_SECONDS = 600
"""How often abandoned uploads, expired tokens and old failures are removed."""
SETTLE_INTERVAL_SECONDS = 15
"""How often changes of processes that have vanished are looked for."""
CHECKPOINT_INTERVAL_SECONDS = 30
"""How often it is signed how far the journal goes: at least every minute, also if once is slow."""
WATCH_INTERVAL_SECONDS = 60
"""How often the clock is compared with the database's, and connections are looked at."""
FIRST_RUN_DELAY_SECONDS = 0.2
"""How long sweeps and watches wait after the start, so that requests that waited for it are answered first."""
FIRST_RUN_SECONDS = 1.0
"""How long the first run of a sweep may take before the next one begins nevertheless."""

Sweeps = Mapping[str, Callable[[], Awaitable[object]]]
"""What is repeated, by its name."""

log = structlog.get_logger()


@asynccontextmanager
async def open_gateway(
    settings: Settings, metrics: Metrics, long_work: CancellableWork, tracing: Tracing | None = None
) -> AsyncIterator[Gateway]:
    """A gateway that is ready to serve; all of it is closed, in reverse order, at the end."""
    async with AsyncExitStack() as stack:
        database = Database(settings.database_url, connections=settings.database_max_connections)
        stack.push_async_callback(database.close)
        settings, key = await agreed(settings, database)
        await database.learn_clock()
        await stack.enter_async_context(running_node(database, settings.node))
        passwords = Passwords()
        stack.callback(passwords.close)
        sessions = Sessions(
            database, token_lifetime=settings.token_lifetime, refresh_lifetime=settings.refresh_lifetime
        )
        throttle = Throttle(database)
        paths = HomePaths(str(settings.home), PATH_OPTIONS, keep_relative=settings.database_in_home)
        upload_memory = MemoryBudget()
        leases = Leases(database, settings.node)
        trash = TrashRecords(database)
        seal = CursorSeal(key.derive("cursors"))
        pool = ConnectionPool(
            Connections(database, Vault(key), paths),
            seal,
            metrics,
            leases,
            timeout=settings.provider_timeout.total_seconds(),
            memory=upload_memory,
            path_depth=settings.max_path_depth,
            tracing=tracing,
            upload_logs=UploadLogs(database, Sealed(key.derive("uploads")), settings.node),
            trash=trash,
            trash_retention=settings.trash_retention,
            trash_hold=settings.trash_hold,
        )
        stack.push_async_callback(pool.close)

        def lost_line(why: str, lost: int) -> None:
            metrics.lost_audit_lines.add()
            log_loss(why, lost)

        required = settings.audit_required
        audit = open_audit(settings.audit_file, required=required, on_loss=lost_line, node=settings.node_in_audit)
        signer = Signer(key.derive("receipts"))
        journal = Journal(database, audit, node=settings.node, is_required=required, on_loss=lost_line, signer=signer)
        stack.push_async_callback(journal.close)

        readiness = Readiness(
            database,
            pool,
            None if settings.database_in_home else key.fingerprint(),
            journal if required else None,
            _folders_to_write(settings),
        )
        stack.push_async_callback(readiness.close)
        checks = "portico_password_checks_queued"
        metrics.watch(checks, lambda: passwords.queued(familiar=False), "general")
        metrics.watch(checks, lambda: passwords.queued(familiar=True), "familiar")
        metrics.watch("portico_database_writers_queued", lambda: database.queued)
        metrics.watch("portico_upload_memory_bytes", lambda: upload_memory.held)
        metrics.watch("portico_uploads_waiting_for_memory", lambda: upload_memory.waiting)
        metrics.watch_all("portico_connection_up", lambda: [((name,), up) for name, up in pool.usable.items()])
        metrics.watch("portico_audit_lines_queued", lambda: journal.queued)
        metrics.watch("portico_node_info", lambda: 1, settings.node, __version__)
        metrics.watch("portico_ready", lambda: readiness.is_ready)
        metrics.watch("portico_clock_offset_seconds", lambda: database.clock_offset / 1000)
        tickets, keys = Tickets(SessionTickets(database), not_signed_in), ApiKeys(database)
        stack.push_async_callback(keys.close)
        invitations = Invitations(database, passwords)
        links = ShareLinks(database, share_policy(settings))
        guests = Guests(database, links, passwords, throttle)
        idempotency_keys = IdempotencyKeys(database)
        sign_in = SignIn(database, passwords, throttle, sessions, Devices(key.derive("devices")))
        sealed = Sealed(key.derive("uploads"))
        uploads = Uploads(database, sealed, settings.node, kept=settings.upload_retention)
        jobs = Jobs(JobRecords(database, settings.node), database.now)
        stack.push_async_callback(jobs.close)
        metrics.watch("portico_jobs_running", lambda: jobs.running)

        def stop() -> None:
            uploads.stop()
            jobs.stop()

        receipts = Receipts(signer, database.now, settings.public_url)
        thumbnail_process = ThumbnailProcess()
        stack.callback(thumbnail_process.close)
        thumbnails = open_thumbnails(settings.thumbnails_folder, settings.thumbnails_cache_size, thumbnail_process)
        work_watches = Watches()
        stack.push_async_callback(work_watches.close)
        digests, scheduler = FileDigests(database), FairScheduler()
        always_digest = settings.upload_digest == "always"
        rewinds = Rewinds(database, journal, pool, trash, links, leases)
        stack.push_async_callback(rewinds.close)
        features = Features(
            Trees(pool, Admission(), work_watches, long_work),
            Usage(links, guests, database.now),
            FileServices(
                journal,
                Downloads(journal) if settings.journal_downloads else None,
                digests,
                links,
                guests,
                tickets,
                receipts,
                scheduler,
                ArchiveLimits(settings.zip_max_entries, settings.zip_max_size),
                ArchiveMemory(),
                thumbnails,
                max_file_size=settings.max_file_size,
                always_digest=always_digest,
            ),
            UploadServices(
                journal,
                uploads,
                digests,
                database.now,
                settings.upload_retention,
                max_file_size=settings.max_file_size,
                always_digest=always_digest,
            ),
            ShareServices(journal, links, guests, passwords, database.now),
            jobs,
            AccountServices(sign_in, sessions, keys, journal),
            ActivityServices(database, seal),
            OwnRewindServices(rewinds, journal, leases),
        )

        async def sweep_credentials() -> None:
            for credentials in (sessions, keys, invitations, guests):
                await credentials.sweep()

        rows: dict[str, Callable[[], Awaitable[object]]] = {
            "sessions": sweep_credentials,
            "links": lambda: links.sweep(settings.journal_retention or None),
            "leases": leases.sweep,
            "throttle": throttle.sweep,
            "uploads": lambda: sweep_uploads(uploads, pool),
            "trash": lambda: sweep_trash(trash, pool, settings.trash_retention),
            "digests": lambda: sweep_digests(digests, pool),
            "idempotency-keys": idempotency_keys.sweep,
            "jobs": jobs.records.sweep,
            "rewinds": rewinds.records.sweep,
        }
        if settings.journal_retention:
            rows["journal"] = partial(remove_rows, database, settings.journal_retention, signer)
        sweeps: Sweeps = {
            **{name: _in_turn(leases, name, sweep) for name, sweep in rows.items()},
            "connections": pool.sweep,
            **({"thumbnails": thumbnails.sweep} if thumbnails else {}),
        }
        status = NodeStatus(database, settings.home, _certificate(settings))
        status.show(metrics, pool)
        watches: Sweeps = {
            "readiness": readiness.watch,
            "connection-checks": pool.watch,
            **({"status": status.watch} if settings.metrics_address else {}),
        }

        mass_changes = MassChanges(
            database, journal, metrics, most=settings.mass_changes, within=settings.mass_changes_within
        )
        freezing = Freezing(database, Users(database, passwords), keys, links, sessions)
        look = partial(mass_changes.look, freezing if settings.mass_changes_freeze else None)

        settle_in_turn = _in_turn(leases, "changes", partial(settle_changes, journal, pool))

        warnings: Sweeps = {"mass-changes": _in_turn(leases, "mass-changes", look)} if settings.mass_changes else {}

        async def settle() -> None:
            if await journal.left_open():  # otherwise each worker would take the lease in vain
                await settle_in_turn()

        async with (
            _sweeping(metrics, sweeps),
            _sweeping(
                metrics, {"changes": settle, "rewinds": rewinds.run_left, **warnings}, interval=SETTLE_INTERVAL_SECONDS
            ),
            _sweeping(metrics, {"checkpoints": journal.checkpoint}, interval=CHECKPOINT_INTERVAL_SECONDS),
            _sweeping(metrics, watches, interval=WATCH_INTERVAL_SECONDS),
        ):
            yield Gateway(
                authentication=Authentication(sign_in, sessions, tickets, keys, invitations, guests, journal, metrics),
                operations=partial(Operations, features),
                idempotency=Idempotency(idempotency_keys),
                scheduler=scheduler,
                readiness=readiness,
                stop=stop,
                receipts=receipts,
                guest_sign_in=GuestSignIn(links, guests, pool, journal),
                thumbnail_types=thumbnails.types if thumbnails else frozenset(),
                keeps_deleted=bool(settings.trash_retention),
                client_id=settings.client_id,
                client_secret=settings.client_secret,
            )


async def agreed(settings: Settings, database: Database) -> tuple[Settings, SecretKey]:
    """The settings and the key, equal on all nodes that share the database; `ClusterMismatch` if they differ."""
    if settings.database_in_home:
        return settings, SecretKey.load(settings.secret_key_file)
    cluster = Cluster(database)
    key = await cluster.load_key(settings.secret_key_file)
    return settings.with_values(await cluster.agree(settings.of_the_cluster(), generated_client())), key


def share_policy(settings: Settings) -> SharePolicy:
    return SharePolicy(
        settings.share_enabled,
        settings.share_max_lifetime or None,
        settings.share_require_password,
        tuple(map(Path.parse, settings.share_paths)),
    )


def _folders_to_write(settings: Settings) -> set[str]:
    """Without room in them, sign-ins and changes fail."""
    audit = settings.audit_file if settings.audit_required else None
    files = (file_of(settings.database_url), audit if audit != "stdout" else None)
    return {os.path.dirname(file) for file in files if file}


def _certificate(settings: Settings) -> FilePath | None:
    if not settings.tls_enabled:
        return None
    return settings.tls_files[0] if settings.tls_files else settings.tls_folder / "certificate.pem"


def _in_turn(leases: Leases, name: str, sweep: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[None]]:
    """The sweep, skipped while another worker or node is doing it."""

    async def sweep_in_turn() -> None:
        async with leases.held(f"sweep:{name}") as lease:
            if lease:
                await sweep()

    return sweep_in_turn


@asynccontextmanager
async def _sweeping(metrics: Metrics, works: Sweeps, interval: float | None = None) -> AsyncIterator[None]:
    """Each repeats by itself: none waits for another, except for a moment at the start. Failures are counted by their names.

    If all began at once, the first sign-in would wait behind all of them for SQLite's write lock, or give up.
    """
    interval = interval or SWEEP_INTERVAL_SECONDS
    tasks: list[asyncio.Task[None]] = []
    for name in works:
        metrics.failed_sweeps.add((name,), 0)  # so that an alert sees the first one

    async def begin() -> None:
        await asyncio.sleep(min(interval, FIRST_RUN_DELAY_SECONDS))
        for name, work in works.items():
            over = asyncio.Event()
            failed = partial(metrics.failed_sweeps.add, (name,))
            tasks.append(asyncio.create_task(_repeat(work, interval, failed, over)))
            with suppress(TimeoutError):
                async with asyncio.timeout(FIRST_RUN_SECONDS):
                    await over.wait()

    tasks.append(asyncio.create_task(begin()))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _repeat(
    work: Callable[[], Awaitable[object]], interval: float, failed: Callable[[], object], over: asyncio.Event
) -> None:
    """`over` is set after the first run."""
    while True:
        try:
            async with asyncio.timeout(interval):
                await work()
        except PorticoError as error:
            failed()
            log.warning("sweep-failed", code=error.code, detail=error.detail, cause=error.cause)
        except TimeoutError:
            failed()
            log.warning("sweep-failed", cause=f"not over after {interval:.0f} s")
        except Exception as error:  # a bug in one must not end them all
            failed()
            log.error("bug", exc_info=error)
        over.set()
        await asyncio.sleep(interval)
