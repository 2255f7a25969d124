"""Jobs: long changes that go on after their request was answered, with progress, cancellation and a kept outcome.

A change becomes a job only if it is not done after the time that its client waits. It is carried out by the same
operations, with the same rights, admission, limits and audit lines; only its end is no longer the request's.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import structlog

from portico.errors import Internal, NotSignedIn, PorticoError, TooManyRequests, Unavailable
from portico.operations.cancellation import ChangeAbandoned
from portico.operations.request_context import RequestContext
from portico.paths import Path
from portico.store.jobs import (
    CANCELLED,
    DONE,
    FAILED,
    INTERRUPTED,
    JobRecord,
    JobRecords,
    OwnedJob,
)
from portico.tally import Tally

_RETRY_SECONDS = 5

log = structlog.get_logger()


class Job(msgspec.Struct, frozen=True):
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


class Place(msgspec.Struct):
    """Of a change among the jobs of its actor."""

    taken: bool = False
    """Whether it has become a job, which leaves the place when it ends."""


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
    def place(self, namespace: str) -> Iterator["Place"]:
        """Reserve a place for a change that may become a job; `TooManyRequests` if this process has no more."""
        if self._by_namespace[namespace] >= self.max_per_actor:
            raise self.too_many()
        self._by_namespace[namespace] += 1
        place = Place()
        try:
            yield place
        finally:
            if not place.taken:
                self._leave(namespace)

    def _leave(self, namespace: str) -> None:
        self._by_namespace[namespace] -= 1
        if not self._by_namespace[namespace]:
            del self._by_namespace[namespace]

    def too_many(self) -> TooManyRequests:
        return TooManyRequests(
            f"{self.max_per_actor} of your changes are still under way; wait for one of them, or cancel it.",
            retry_after=_RETRY_SECONDS,
        )

    async def adopt(
        self,
        record: JobRecord,
        work: asyncio.Task[Path | None],
        counted: Tally,
        cancel: Callable[[], None],
        context: RequestContext,
        place: "Place",
    ) -> bool:
        """Let `work` go on by itself, in its own `context`.

        If the database does not answer, or other nodes have too many jobs of this actor, it stays with its request.
        """
        if self._stopping:
            return False
        job = await self.records.add(record, counted, cancel, most=self.max_per_actor)
        if job is None:
            return False
        place.taken = True
        self._running[job.id] = job
        task = asyncio.create_task(self._conclude(job, record.namespace, work, context))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _conclude(
        self, job: OwnedJob, namespace: str, work: asyncio.Task[Path | None], context: RequestContext
    ) -> None:
        await asyncio.wait({work})
        state, outcome = self._outcome(work)
        if context.trashed:
            outcome.trash_id = context.trashed[0]
        del self._running[job.id]
        self._leave(namespace)
        await self.records.end(job, state, msgspec.json.encode(outcome).decode())

    def _outcome(self, work: asyncio.Task[Path | None]) -> tuple[str, _Outcome]:
        if work.cancelled():
            return INTERRUPTED, _Outcome()
        match error := work.exception():
            case None:
                result = work.result()
                return DONE, _Outcome(None if result is None else str(result))
            case ChangeAbandoned() | NotSignedIn():
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


def job_of(record: JobRecord) -> Job:
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
