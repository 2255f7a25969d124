"""`Readiness`: whether this node can serve, and if not, why.

Anyone may ask, so a check writes nothing, unless a write of a request has failed: then it tries whether writes work again.
"""

import asyncio
import os
from collections.abc import Collection

import msgspec
import structlog

from portico.drive.connection_pool import ConnectionPool, StorageUnusable
from portico.model.errors import NotPossible, PorticoError, TableMissing, Unavailable
from portico.runtime import clock
from portico.runtime.tasks import SingleFlight
from portico.store.cluster import CLUSTER_KEY, SAME_VALUE
from portico.store.database import Database
from portico.store.journal import Journal
from portico.store.postgres import NotPermitted
from portico.store.schema import OLDEST_CODE_VALUE, is_usable

SHARED_SECONDS = 1.0
"""How old an answer may be: anyone may ask, as often as they like."""
MAX_CLOCK_OFFSET = 5000
"""Milliseconds that the clocks of this machine and of the database may differ."""
NEEDED_BYTES = 2**20
"""How much room the disk of the database and of a required audit log must have: a sign-in writes some kilobytes."""

_OLD_SCHEMA = "The database is too old for this version of Portico; run 'portico migrate', or restart this node."
_LOST_TABLES = "The database has lost some of its tables; restore it from a backup. The log names them."
_NO_RIGHTS = "The role in database.url lacks rights; make it the owner of the database and its tables."
_FULL = "The disk of the gateway's home is full; free some space."
_WAIT_SECONDS = 1.0
"""For the database's answer."""
_ANSWER_SECONDS = 1.0
"""For a check: load balancers do not wait long for theirs."""

log = structlog.get_logger()


class Fault(msgspec.Struct, frozen=True):
    """What fails, as one word, and a sentence for the administrator."""

    check: str
    detail: str
    cause: str | None = None
    """For the log only: it may contain addresses, paths and messages of drivers."""


DATABASE_FAULT = Fault("database", "The database doesn't respond; the log says why.")


class NotReady(Unavailable):
    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("This node is not ready; the log says why.", retry_after=1)
        self.faults = faults


class Readiness:
    def __init__(
        self,
        database: Database,
        pool: ConnectionPool,
        key_fingerprint: str | None,
        journal: Journal | None = None,
        folders: Collection[str] = (),
    ) -> None:
        """`key_fingerprint`: of this node's key, if other nodes share the database. `folders`: where there must be room."""
        self._database = database
        self._pool = pool
        self._journal = journal
        self._folders = folders
        self._key_fingerprint = key_fingerprint
        self._checks: SingleFlight[None, tuple[Fault, ...]] = SingleFlight()
        self._faults: tuple[Fault, ...] = ()
        self._checked_at = float("-inf")
        self._began: float | None = None
        """When the running check began."""
        self._asking_database = False
        self._draining = False

    @property
    def is_ready(self) -> bool:
        """As the last check found."""
        return not self._faults and not self._draining

    def drain(self) -> None:
        """The process was asked to stop: from now on it is not ready, although it still serves."""
        if not self._draining:
            log.info("draining")
        self._draining = True

    async def check(self) -> None:
        """`NotReady` if the gateway cannot serve, as of one second ago at most."""
        if self._draining:
            raise NotReady((Fault("draining", "This node is about to stop."),))
        if clock.monotonic() - self._checked_at >= SHARED_SECONDS:
            await self._check_briefly()
        if self._faults:
            raise NotReady(self._faults)

    async def _check_briefly(self) -> None:
        """Check, but do not wait long: a check that hangs goes on by itself.

        Without the database's answer, this node is not ready. While a folder hangs, it is as ready as before: others may
        work.
        """
        if self._began is None:
            self._began = clock.monotonic()
        try:
            async with asyncio.timeout(max(0, self._began + _ANSWER_SECONDS - clock.monotonic())):
                await self._checks.run(None, self._check)
        except TimeoutError:
            if self._asking_database:
                raise NotReady((DATABASE_FAULT,)) from None
            if self._checked_at == float("-inf"):
                raise NotReady((Fault("storage", "The storage hasn't responded yet."),)) from None

    async def watch(self) -> None:
        """Learn the database's clock, and log a change of readiness even if nobody asks."""
        try:
            await self._database.learn_clock()
        except PorticoError as error:
            log.warning("clock-not-compared", cause=error.cause)
        await self._checks.run(None, self._check)

    async def close(self) -> None:
        await self._checks.cancel()

    async def _check(self) -> tuple[Fault, ...]:
        self._began = self._began or clock.monotonic()
        self._asking_database = True
        try:
            return await self._find_faults()
        finally:
            self._began = None

    async def _find_faults(self) -> tuple[Fault, ...]:
        found = await self._database_faults() or self._disk_faults() or await self._write_faults()
        self._asking_database = False
        if not found and (found := await self._storage_faults()):
            # Without the database, no connection can be looked up.
            found = await self._database_faults() or found
        faults = (*found, *self._clock_faults())
        if [fault.check for fault in faults] != [fault.check for fault in self._faults]:
            for fault in faults:
                log.warning("not-ready", check=fault.check, detail=fault.detail, cause=fault.cause)
            if not faults:
                log.info("ready-again")
        self._faults, self._checked_at = faults, clock.monotonic()
        return faults

    async def _database_faults(self) -> list[Fault]:
        try:
            state = await self._database.state(CLUSTER_KEY, OLDEST_CODE_VALUE, wait=_WAIT_SECONDS)
        except Unavailable as error:
            return [database_fault(error)]
        faults = []
        try:
            if not is_usable(state.revision, state.values[1]):
                faults.append(Fault("schema", _OLD_SCHEMA))
            elif state.missing_tables:
                faults.append(Fault("schema", _LOST_TABLES, f"missing: {state.missing_tables}"))
            elif state.missing_rights:
                faults.append(Fault("privileges", _NO_RIGHTS, f"missing: {state.missing_rights}"))
        except NotPossible as error:
            faults.append(Fault("schema", error.detail, error.cause))
        if not state.writable:
            faults.append(
                Fault("read-only", "The database is read-only; connect to its primary server, or make it writable.")
            )
        if self._key_fingerprint and state.values[0] not in (None, self._key_fingerprint):
            faults.append(
                Fault("key", "This node's secret key differs from the other nodes'; copy secret.key from one of them.")
            )
        return faults

    def _disk_faults(self) -> list[Fault]:
        full = [folder for folder in self._folders if _is_full(folder)]
        return [Fault("disk", _FULL, f"{folder} has less than {NEEDED_BYTES} bytes free") for folder in full]

    async def _write_faults(self) -> list[Fault]:
        """What keeps changes from being stored, after one has failed."""
        try:
            if self._database.write_failed:
                await self._database.execute(SAME_VALUE, wait=_WAIT_SECONDS, durable=False)
        except Unavailable as error:
            return [Fault("writes", "The database refuses writes; the log says why.", error.cause)]
        try:
            if self._journal:
                await self._journal.check()
        except Unavailable as error:
            return [Fault("audit", "The required audit log can't be written; the log says why.", error.cause)]
        return []

    def _clock_faults(self) -> list[Fault]:
        offset = self._database.clock_offset
        if abs(offset) <= MAX_CLOCK_OFFSET:
            return []
        sentence = "This machine's clock differs by {:.0f} s from the database's; synchronize it with NTP."
        return [Fault("clock", sentence.format(abs(offset) / 1000))]

    async def _storage_faults(self) -> list[Fault]:
        try:
            await self._pool.check()
        except StorageUnusable as error:
            return [Fault("storage", error.detail, error.cause)]
        except Unavailable as error:
            return [database_fault(error)]
        return []


def database_fault(error: Unavailable) -> Fault:
    """What is wrong with a database that raised this error."""
    if isinstance(error, TableMissing):
        return Fault("schema", _OLD_SCHEMA, error.cause)
    if isinstance(error, NotPermitted):
        return Fault("privileges", _NO_RIGHTS, error.cause)
    return msgspec.structs.replace(DATABASE_FAULT, cause=error.cause)


def _is_full(folder: str) -> bool:
    """As the file system says, which costs nothing; unknown is not full."""
    try:
        info = os.statvfs(folder)
    except OSError:
        return False
    free = info.f_bfree if os.geteuid() == 0 else info.f_bavail
    return info.f_blocks > 0 and free * info.f_frsize < NEEDED_BYTES
