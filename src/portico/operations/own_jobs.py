"""The jobs of one actor: a change becomes one if it takes longer than its client waits."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from secrets import token_hex
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec.structs import replace

from portico import tally
from portico.drive import Drive
from portico.errors import NotFound, PorticoError
from portico.operations.actor import Actor
from portico.operations.jobs import Job, Jobs, Place, job_of
from portico.operations.request_context import Looking
from portico.paths import Path
from portico.store.jobs import RUNNING, JobRecord
from portico.tally import Tally

LISTED: Final = 100
_COUNTABLE: Final = ("copy", "move")
"""What is being removed cannot be counted."""
_COUNTED_AT_ONCE: Final = 1000
_MOST_COUNTED: Final = 1_000_000


class CountsFiles(Protocol):
    async def count_files(self, folder: Path) -> int | None: ...


OperationsT = TypeVar("OperationsT", bound=CountsFiles)
"""What a change is carried out with: `Operations`, which know jobs themselves."""


class OwnJobs(Generic[OperationsT]):
    """The jobs of one actor. `operations` makes those of the job: the same, for a context that outlives the request."""

    def __init__(self, jobs: Jobs, actor: Actor, operations: Callable[[Actor], OperationsT]) -> None:
        actor.require_unrestricted()
        self._jobs = jobs
        self._actor = actor
        self._operations = operations
        self._user = actor.user.id
        self._namespace = actor.namespace

    async def run(
        self,
        kind: str,
        source: Path,
        target: Path | None,
        work: Callable[[OperationsT], Awaitable[Path | None]],
        *,
        wait: float,
    ) -> Path | Job | None:
        """What `work` returns or raises; its job, if it is not done after `wait` seconds.

        `TooManyRequests`: the actor has too many jobs.
        """
        with self._jobs.place(self._namespace) as place:
            if await self._jobs.records.running_by(self._namespace) >= self._jobs.max_per_actor:
                raise self._jobs.too_many()
            return await self._run(kind, source, target, work, wait, place)

    async def _run(
        self,
        kind: str,
        source: Path,
        target: Path | None,
        work: Callable[[OperationsT], Awaitable[Path | None]],
        wait: float,
        place: Place,
    ) -> Path | Job | None:
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
                if await self._jobs.adopt(record, task, counted, unwanted.set, context, place):
                    if kind in _COUNTABLE:
                        _count(task, operations, source, counted)
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
            raise NotFound("There is no such job; it is forgotten a day after its end.")
        return record


def _count(task: asyncio.Task[Path | None], operations: CountsFiles, source: Path, counted: Tally) -> None:
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


async def count_files(drive: Drive, folder: Path, looking: Looking) -> int | None:
    """How many files a folder has; None if there are very many."""
    files = 0
    walk = drive.walk(folder)
    while not walk.ended and walk.passed < _MOST_COUNTED:
        async with looking(_COUNTED_AT_ONCE):
            page = await walk.page(_COUNTED_AT_ONCE)
        files += sum(not entry.is_folder for _, entry in page)
    return files if walk.ended else None
