"""Jobs: long changes that go on after their request was answered, with progress, cancellation and a kept outcome.

A change becomes a job only if it is not done after the time that its client waits. It is carried out by the same
operations, with the same rights, admission, limits and audit lines; only its end is no longer the request's.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from portico import tally
from portico.drive import Drive
from portico.errors import Internal, NotFound, PorticoError, TooManyRequests, Unavailable
from portico.operations.actor import Actor
from portico.operations.cancellation import ChangeAbandoned
from portico.operations.request_context import RequestContext
from portico.paths import Path
from portico.store.jobs import (
    CANCELLED,
    DONE,
    FAILED,
    INTERRUPTED,
    RUNNING,
    JobRecord,
    JobRecords,
    OwnedJob,
)
from portico.tally import Tally

if TYPE_CHECKING:
    from portico.operations.operations import Operations

PER_ACTOR: Final = 10
"""Jobs that run at the same time, of a user who has signed in or of one key: of those that this actor can see and cancel."""
LISTED: Final = 100
_COUNTABLE: Final = ("copy", "move")
"""What is being removed cannot be counted."""
_COUNTED_AT_ONCE: Final = 1000
_MOST_COUNTED: Final = 1_000_000
_RETRY_SECONDS: Final = 5
CREDENTIAL_SECONDS: Final = 1.0
"""How often the key of a running job is checked."""

Work = Callable[["Operations"], Awaitable[Path | None]]
"""A change; it returns where its result is, if it has one."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Job:
    """What a user sees of a job."""

    id: str
    kind: str
    state: str
    """`running`, `done`, `failed` or `cancelled`."""
    source: Path
    target: Path | None
    """What was asked for."""
    result: Path | None
    """Where it is now, if it is done and there is something."""
    entries: int
    size: int
    total: int | None
    started_at: int
    ended_at: int | None
    request_id: str
    """Of the request that began it."""
    code: str | None = None
    detail: str | None = None
    """If it failed: the error that the request would have been answered with."""
    trash_id: str | None = None
    """Of what was deleted or replaced, if it is kept; of a job that did not come to its end, as much as it did."""


class _Outcome(msgspec.Struct, omit_defaults=True):
    """As it is stored."""

    result: str | None = None
    code: str | None = None
    detail: str | None = None
    trash_id: str | None = None


class Jobs:
    """The jobs of this process."""

    def __init__(self, records: JobRecords, now: Callable[[], int]) -> None:
        self.records = records
        self.now = now
        self._running: dict[str, OwnedJob] = {}
        self._by_namespace: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    @property
    def running(self) -> int:
        return len(self._running)

    def has_room(self, namespace: str) -> bool:
        return self._by_namespace[namespace] < PER_ACTOR and not self._stopping

    async def adopt(
        self,
        record: JobRecord,
        work: asyncio.Task[Path | None],
        counted: Tally,
        cancel: Callable[[], None],
        context: RequestContext,
    ) -> None:
        """Let `work` go on by itself, in its own `context`. If the database does not answer, it stays with its request."""
        job = await self.records.add(record, counted, cancel)
        self._running[job.id] = job
        self._by_namespace[record.namespace] += 1
        task = asyncio.create_task(self._conclude(job, record.namespace, work, context))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _conclude(
        self, job: OwnedJob, namespace: str, work: asyncio.Task[Path | None], context: RequestContext
    ) -> None:
        await asyncio.wait({work})
        state, outcome = self._outcome(work)
        if context.trashed:
            outcome.trash_id = context.trashed[0]
        del self._running[job.id]
        self._by_namespace[namespace] -= 1
        if not self._by_namespace[namespace]:
            del self._by_namespace[namespace]
        await self.records.end(job, state, msgspec.json.encode(outcome).decode())

    def _outcome(self, work: asyncio.Task[Path | None]) -> tuple[str, _Outcome]:
        if work.cancelled():
            return INTERRUPTED, _Outcome()
        match error := work.exception():
            case None:
                result = work.result()
                return DONE, _Outcome(None if result is None else str(result))
            case ChangeAbandoned():
                return CANCELLED, _Outcome()
            case PorticoError():
                if self._stopping and isinstance(error, Unavailable):
                    return INTERRUPTED, _Outcome()
                if error.cause:
                    log.warning("cause", code=error.code, cause=error.cause)
                return FAILED, _Outcome(code=error.code, detail=error.detail)
        log.error("bug", exc_info=error)
        detail = "Something went wrong in the gateway; the administrator can find it in the log by this request id."
        return FAILED, _Outcome(code=Internal.code, detail=detail)

    def cancel(self, job_id: str) -> None:
        """In this process it need not be noticed first."""
        if job := self._running.get(job_id):
            job.cancel()

    def stop(self) -> None:
        """The process ends: whatever is cut off from now on was interrupted. The work itself is stopped elsewhere."""
        self._stopping = True

    async def close(self) -> None:
        """Wait for the jobs: of a worker that was replaced, until they are done."""
        while self._tasks:
            await asyncio.wait(self._tasks)


class OwnJobs:
    """The jobs of one actor."""

    def __init__(self, jobs: Jobs, actor: Actor, operations: Callable[[Actor], "Operations"]) -> None:
        actor.require_unrestricted()
        self._jobs = jobs
        self._actor = actor
        self._operations = operations
        self._user = actor.user.id
        self._namespace = actor.namespace

    async def run(
        self, kind: str, source: Path, target: Path | None, work: Work, *, wait: float
    ) -> Path | Job | None:
        """What `work` returns or raises; its job, if it is not done after `wait` seconds.

        `TooManyRequests`: the actor has too many jobs.
        """
        if await self._jobs.records.running_by(self._namespace) >= PER_ACTOR:
            raise TooManyRequests(
                f"{PER_ACTOR} of your changes are still under way; wait for one of them, or cancel it.",
                retry_after=_RETRY_SECONDS,
            )
        counted, unwanted = Tally(), asyncio.Event()
        context = replace(self._actor.context, client_gone=unwanted.wait, slot=None)
        operations = self._operations(replace(self._actor, context=context))

        async def carry_out() -> Path | None:
            tally.CURRENT.set(counted)
            with context:  # the admission slot is held until the work is done
                result = await work(operations)
            self._actor.context.trashed = context.trashed
            return result

        record = JobRecord(
            id=token_hex(16),
            user_id=self._user,
            namespace=self._namespace,
            kind=kind,
            state=RUNNING,
            source=str(source),
            target=None if target is None else str(target),
            entries=0,
            size=0,
            total=None,
            outcome=None,
            request_id=context.request_id,
            started_at=self._jobs.now(),
            ended_at=None,
        )
        task = asyncio.create_task(carry_out())
        try:
            if await _is_done(task, wait):
                return task.result()
            with suppress(PorticoError):
                if self._jobs.has_room(self._namespace):
                    await self._jobs.adopt(record, task, counted, unwanted.set, context)
                    if kind in _COUNTABLE:
                        _count(task, operations, source, counted)
                    if self._actor.is_valid:
                        _end_with(self._actor.is_valid, task, unwanted)
                    return _job(replace(record, entries=counted.entries, size=counted.size))
            return await _while_client_waits(task, unwanted, self._actor.context.client_gone())
        except BaseException:  # also a cancellation of the request itself: the work does not outlive it
            unwanted.set()
            await asyncio.wait({task})
            raise

    async def get(self, job_id: str) -> Job:
        return _job(await self._record(job_id))

    async def list(self) -> list[Job]:
        """The newest first."""
        return [_job(record) for record in await self._jobs.records.list(self._namespace, LISTED)]

    async def cancel(self, job_id: str) -> Job:
        """Cancel a running job, which ends within a second or two. One that has ended is forgotten.

        The job as it was: its state says which of the two happened.
        """
        record = await self._record(job_id)
        if record.state != RUNNING:
            await self._jobs.records.forget(job_id)
            return _job(record)
        await self._jobs.records.want_cancel(job_id)
        self._jobs.cancel(job_id)
        return _job(record)

    async def _record(self, job_id: str) -> JobRecord:
        record = await self._jobs.records.get(self._namespace, job_id)
        if record is None:
            raise NotFound("There is no such job; it is forgotten a day after its end.")
        return record


def _end_with(
    is_valid: Callable[[], Awaitable[bool]], task: asyncio.Task[Path | None], unwanted: asyncio.Event
) -> None:
    """End the work soon after its credential: a key may end while its owner stays."""

    async def watch() -> None:
        while not unwanted.is_set():
            await asyncio.sleep(CREDENTIAL_SECONDS)
            with suppress(PorticoError):  # the database does not answer: ask again
                if not await is_valid():
                    unwanted.set()

    watching = asyncio.create_task(watch())
    task.add_done_callback(lambda _: watching.cancel())


def _count(task: asyncio.Task[Path | None], operations: "Operations", source: Path, counted: Tally) -> None:
    """Find out how many files there are, as long as the work goes on."""

    async def count() -> None:
        if task.done():  # then its admission slot is given back, and must not be taken again
            return
        with suppress(PorticoError):
            counted.total = await operations.count_files(source)

    counting = asyncio.create_task(count())
    task.add_done_callback(lambda _: counting.cancel())


async def _is_done(task: asyncio.Task[Any], wait: float) -> bool:
    done, _ = await asyncio.wait({task}, timeout=wait)
    return bool(done)


async def _while_client_waits(
    task: asyncio.Task[Path | None], unwanted: asyncio.Event, client_gone: Awaitable[object]
) -> Path | None:
    """As a plain change: cancelled when the client hangs up."""
    gone = asyncio.ensure_future(client_gone)
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        unwanted.set()  # without effect if it is done
        return await task
    finally:
        gone.cancel()
        await asyncio.wait({gone})


async def count_files(drive: Drive, folder: Path) -> int | None:
    """How many files a folder has; None if there are very many."""
    files = 0
    walk = drive.walk(folder)
    while not walk.ended and walk.passed < _MOST_COUNTED:
        files += sum(not entry.is_folder for _, entry in await walk.page(_COUNTED_AT_ONCE))
    return files if walk.ended else None


def _job(record: JobRecord) -> Job:
    outcome = msgspec.json.decode(record.outcome, type=_Outcome) if record.outcome else _Outcome()
    state, code, detail = record.state, outcome.code, outcome.detail
    if state == INTERRUPTED:
        state, code = FAILED, Unavailable.code
        detail = (
            "The gateway was stopped before this was done; what was done is kept, so check and try again."
        )
    return Job(
        record.id,
        record.kind,
        state,
        Path.parse(record.source),
        None if record.target is None else Path.parse(record.target),
        None if outcome.result is None else Path.parse(outcome.result),
        record.entries,
        record.size,
        record.total,
        record.started_at,
        record.ended_at,
        record.request_id,
        code,
        detail,
        outcome.trash_id,
    )
