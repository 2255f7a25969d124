"""The jobs of one actor: a change becomes one if it takes longer than its client waits."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from secrets import token_hex
from typing import Final, Generic, TypeVar

import msgspec
import structlog
from msgspec.structs import replace

from portico.model.errors import Internal, NotFound, NotSignedIn, PorticoError, TooManyRequests, Unavailable
from portico.model.paths import Path
from portico.operations.actors.actor import Actor
from portico.operations.actors.auditing import ChangeResult
from portico.operations.actors.cancellation import ChangeAbandoned
from portico.runtime import progress_counter
from portico.runtime.progress_counter import ProgressCounter
from portico.store.jobs import CANCELLED, DONE, FAILED, INTERRUPTED, RUNNING, JobRecord, JobRecords, OwnedJob

_RETRY_SECONDS = 5

log = structlog.get_logger()


class Job(msgspec.Struct, frozen=True):
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
    result: str | None = None
    code: str | None = None
    detail: str | None = None
    trash_id: str | None = None


class Jobs:
    """The jobs of this process."""

    max_per_actor = 10
    """Jobs that run at the same time, of a user who has signed in or of one key: of those that this actor can see and
    cancel."""

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

    @contextmanager
    def place(self, namespace: str) -> Iterator[None]:
        """Reserve a place for a change that may become a job; `TooManyRequests` if this process has no more."""
        if self._by_namespace[namespace] >= self.max_per_actor:
            raise self.too_many()
        self._by_namespace[namespace] += 1
        try:
            yield
        finally:
            self._by_namespace[namespace] -= 1
            if not self._by_namespace[namespace]:
                del self._by_namespace[namespace]

    def too_many(self) -> TooManyRequests:
        return TooManyRequests(
            f"You already have {self.max_per_actor} running changes. Wait for one of them, or cancel it.",
            retry_after=_RETRY_SECONDS,
        )

    async def adopt(
        self,
        record: JobRecord,
        work: asyncio.Task[ChangeResult],
        counted: ProgressCounter,
        cancel: Callable[[], None],
        place: ExitStack,
    ) -> bool:
        """Let `work` go on by itself, in its `place` until it ends.

        If the database does not answer, or other nodes have too many jobs of this actor, it stays with its request.
        """
        if self._stopping:
            return False
        job = await self.records.add(record, counted, cancel, most=self.max_per_actor)
        if job is None:
            return False
        self._running[job.key] = job
        task = asyncio.create_task(self._conclude(job, place.pop_all(), work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _conclude(self, job: OwnedJob, place: ExitStack, work: asyncio.Task[ChangeResult]) -> None:
        await asyncio.wait({work})
        state, outcome = self._outcome(work)
        del self._running[job.key]
        place.close()
        await self.records.end(job, state, msgspec.json.encode(outcome).decode())

    def _outcome(self, work: asyncio.Task[ChangeResult]) -> tuple[str, _Outcome]:
        if work.cancelled():
            return INTERRUPTED, _Outcome()
        match error := work.exception():
            case None:
                result = work.result()
                path = None if result.path is None else str(result.path)
                return DONE, _Outcome(path, trash_id=_first(result.trash_ids))
            case ChangeAbandoned() | NotSignedIn():
                return CANCELLED, _Outcome(trash_id=_first(error.trash_ids))
            case PorticoError():
                kept = _first(error.trash_ids)
                if self._stopping and isinstance(error, Unavailable):
                    return INTERRUPTED, _Outcome(trash_id=kept)
                if error.cause:
                    log.warning("cause", code=error.code, cause=error.cause)
                return FAILED, _Outcome(code=error.code, detail=error.detail, trash_id=kept)
        log.error("bug", exc_info=error)
        detail = "Something went wrong in the gateway. Give your administrator the request id to find it in the log."
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


def _first(trash_ids: Sequence[str]) -> str | None:
    return trash_ids[0] if trash_ids else None


def job_of(record: JobRecord) -> Job:
    outcome = msgspec.json.decode(record.outcome, type=_Outcome) if record.outcome else _Outcome()
    state, code, detail = record.state, outcome.code, outcome.detail
    if state == INTERRUPTED:
        state, code = FAILED, Unavailable.code
        detail = "The gateway stopped before this was finished, and the finished part is kept. Check it and try again."
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


LISTED: Final = 100
_COUNTABLE: Final = ("copy", "move")
"""What is being removed cannot be counted."""


OperationsT = TypeVar("OperationsT")
"""What a change is carried out with: `Operations`, which know jobs themselves."""


class UserJobs(Generic[OperationsT]):
    """The jobs of one actor. `operations` makes those of the job: the same, for a context that outlives the request."""

    def __init__(
        self,
        jobs: Jobs,
        actor: Actor,
        operations: Callable[[Actor], OperationsT],
        count_files: Callable[[OperationsT, Path], Awaitable[int | None]],
    ) -> None:
        actor.require_unrestricted()
        self._jobs = jobs
        self._actor = actor
        self._operations = operations
        self._count_files = count_files
        self._user = actor.user.id
        self._namespace = actor.namespace

    async def run(
        self,
        kind: str,
        source: Path,
        target: Path | None,
        work: Callable[[OperationsT], Awaitable[ChangeResult]],
        *,
        wait: float,
    ) -> ChangeResult | Job:
        """What `work` returns or raises; its job, if it is not done after `wait` seconds.

        `TooManyRequests`: the actor has too many jobs.
        """
        with ExitStack() as place:
            place.enter_context(self._jobs.place(self._namespace))
            await self.require_room()
            return await self._run(kind, source, target, work, wait, place)

    async def require_room(self) -> None:
        """`TooManyRequests` if the actor has too many jobs already."""
        if await self._jobs.records.running_by(self._namespace) >= self._jobs.max_per_actor:
            raise self._jobs.too_many()

    async def _run(
        self,
        kind: str,
        source: Path,
        target: Path | None,
        work: Callable[[OperationsT], Awaitable[ChangeResult]],
        wait: float,
        place: ExitStack,
    ) -> ChangeResult | Job:
        counted, unwanted = ProgressCounter(), asyncio.Event()
        context = replace(self._actor.context, client_gone=unwanted.wait, slot=None)
        operations = self._operations(replace(self._actor, context=context))

        async def carry_out() -> ChangeResult:
            progress_counter.CURRENT.set(counted)
            with context:  # the admission slot is held until the work is done
                return await work(operations)

        record = JobRecord(
            id=token_hex(16),
            user_id=self._user,
            namespace=self._namespace,
            kind=kind,
            source=str(source),
            target=None if target is None else str(target),
            request_id=context.request_id,
            started_at=self._jobs.now(),
        )
        task = asyncio.create_task(carry_out())
        try:
            await asyncio.wait({task}, timeout=wait)
            if task.done():
                return task.result()
            with suppress(PorticoError):
                if await self._jobs.adopt(record, task, counted, unwanted.set, place):
                    if kind in _COUNTABLE:
                        _count(task, partial(self._count_files, operations, source), counted)
                    return job_of(replace(record, entries=counted.entries, size=counted.size))
            return await _while_client_waits(task, unwanted, self._actor.context.client_gone())
        except BaseException:  # also a cancellation of the request itself: the work does not outlive it
            unwanted.set()
            await asyncio.wait({task})
            raise

    async def get(self, job_id: str) -> Job:
        return job_of(await self._record(job_id))

    async def list(self) -> list[Job]:
        """The newest first."""
        return [job_of(record) for record in await self._jobs.records.list(self._namespace, LISTED)]

    async def cancel(self, job_id: str) -> Job:
        """Cancel a running job, which ends within a second or two. One that has ended is forgotten.

        The job as it was: its state says which of the two happened.
        """
        record = await self._record(job_id)
        if record.state != RUNNING:
            await self._jobs.records.forget(job_id)
            return job_of(record)
        await self._jobs.records.want_cancel(job_id)
        self._jobs.cancel(job_id)
        return job_of(record)

    async def _record(self, job_id: str) -> JobRecord:
        record = await self._jobs.records.get(self._namespace, job_id)
        if record is None:
            raise NotFound("This job doesn't exist. Finished jobs are kept for one day.")
        return record


def _count(
    task: asyncio.Task[ChangeResult], files: Callable[[], Awaitable[int | None]], counted: ProgressCounter
) -> None:
    """Find out how many files there are, as long as the work goes on."""

    async def count() -> None:
        if task.done():  # then its admission slot is given back, and must not be taken again
            return
        with suppress(PorticoError):
            counted.total = await files()

    counting = asyncio.create_task(count())
    task.add_done_callback(lambda _: counting.cancel())


async def _while_client_waits(
    task: asyncio.Task[ChangeResult], unwanted: asyncio.Event, client_gone: Awaitable[object]
) -> ChangeResult:
    """As a plain change: cancelled when the client hangs up."""
    gone = asyncio.ensure_future(client_gone)
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        unwanted.set()  # without effect if it is done
        return await task
    finally:
        gone.cancel()
        await asyncio.wait({gone})
