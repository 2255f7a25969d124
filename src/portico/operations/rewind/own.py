"""`OwnRewinds`: users undo their own changes, as far as they may do the same by hand now.

The plan is made and stored first. It is then carried out by a job, which shows the progress, can be cancelled, and ends within a
second when its user loses a right that it needs. It is not resumed if its process dies: the user begins another one.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from portico.model.errors import InvalidRequest, NotFound, NotPossible, PorticoError, RequestRunning
from portico.model.paths import TOP, Path
from portico.model.rights import Right
from portico.operations.actors.actor import Standing
from portico.operations.actors.auditing import Change, ChangeResult
from portico.operations.actors.cancellation import ChangeAbandoned
from portico.operations.actors.tree import Tree
from portico.operations.rewind.execution import FAILED as FAILED_STEP
from portico.operations.rewind.places import OUT_OF_REACH, OwnPlaces
from portico.operations.rewind.plan import CONFLICT, LeftAlone, Plan
from portico.operations.rewind.rewinds import MOST_LISTED, SOMEBODY, RewindRequest, Rewinds
from portico.operations.rewind.steps import Step
from portico.runtime import clock, progress_counter
from portico.runtime.progress_counter import ProgressCounter
from portico.store.history import ActorFilter
from portico.store.journal import Journal
from portico.store.leases import Leases
from portico.store.rewinds import CANCELLED, FAILED, PLANNED, RUNNING, STARTED, RewindRecord

MOST_CHANGES: Final = 100_000
_AT_MOST: Final = 20
"""Steps between two saves of the progress."""
_RETRY_SECONDS: Final = 5


class OwnLeftAlone(msgspec.Struct, frozen=True):
    path: Path | None
    """None if the user can't see it."""
    why: str
    action: str
    """Of the change, or of the step if there was one."""
    at: int | None
    user: str | None
    """Who has changed it since, if it was a user, for `conflict`."""
    detail: str | None
    """For `failed`."""


class OwnRewind(msgspec.Struct, frozen=True):
    id: str | None
    """None if it is only a plan."""
    state: str
    """`planned`, `running`, `done`, `cancelled` or `failed`."""
    since: int
    until: int | None
    path: Path
    steps: Mapping[str, int]
    """How many of each kind."""
    done: int
    left_alone: Sequence[OwnLeftAlone]
    """The first of them."""
    left_alone_count: int


class OwnRewindServices(msgspec.Struct, frozen=True):
    rewinds: Rewinds
    journal: Journal
    leases: Leases
    most_changes: int = MOST_CHANGES


class OwnRewinds:
    def __init__(self, shared: OwnRewindServices, tree: Tree) -> None:
        tree.actor.require_unrestricted()
        tree.actor.require_session()
        self._shared = shared
        self._rewinds = shared.rewinds
        self._tree = tree
        self._user = tree.actor.user

    async def plan(self, since: int, until: int | None = None, path: Path = TOP) -> OwnRewind:
        """What would be undone. `since`, `until`: milliseconds since the epoch, the latter not included."""
        request, places, found = await self._planned(since, until, path)
        return _shown(None, PLANNED, request, _counted(found.steps), 0, found.left_alone, len(found.left_alone), places)

    async def begin(self, since: int, until: int | None = None, path: Path = TOP) -> OwnRewind:
        """Plan it for `run`. `RequestRunning` while another one of the user is under way."""
        async with self._alone():
            request, places, found = await self._planned(since, until, path)
            rewind_id = await self._rewinds.begin(request, found)
        left_alone = found.left_alone
        return _shown(rewind_id, PLANNED, request, _counted(found.steps), 0, left_alone, len(left_alone), places)

    async def _planned(self, since: int, until: int | None, path: Path) -> tuple[RewindRequest, OwnPlaces, Plan]:
        now = self._rewinds.records.database.now()
        if since > now:
            raise InvalidRequest("The time 'since' is in the future. Choose an earlier one.")
        if until is not None and until <= since:
            raise InvalidRequest("The time 'until' must be later than 'since'.")
        drive, path = await self._tree.at(path)
        if not drive.connection and not path.is_root:
            await drive.stat(path)
        places = await OwnPlaces.of(self._tree, path)
        # The changes of an earlier user of this name are not the user's own.
        first = max(since, clock.from_datetime(self._user.created_at))
        own = ActorFilter(user=self._user.name)
        request = RewindRequest(own, first, until, by=self._user.name, own=self._user.id, path=str(path))
        async with self._tree.searching():
            found = await self._rewinds.plan(request, places, most=self._shared.most_changes)
        found.steps = [step for step in found.steps if step.action != "tidy" or places.can(step)]
        return request, places, found

    async def run(self, rewind_id: str) -> ChangeResult:
        """Carry it out. `RequestRunning` while another one of the user is under way. Cancelled when the client hangs up."""
        record = await self._record(rewind_id)
        async with self._alone():
            if not await self._rewinds.records.start(rewind_id):
                raise NotPossible("This rewind has already been started. Start a new one.")
            context = self._tree.actor.context
            async with Change(self._shared.journal, context, "rewind", Path.parse(_request(record).path)) as change:
                change.line.subject = rewind_id
                await change.begin()
                try:
                    await self._carry_out(record)
                except (ChangeAbandoned, asyncio.CancelledError):
                    await self._rewinds.records.end(rewind_id, CANCELLED)
                    raise
                except PorticoError:
                    await self._rewinds.records.end(rewind_id, FAILED)
                    raise
        return ChangeResult()

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        async with self._shared.leases.held(self._lease) as lease:
            if lease is None:
                raise RequestRunning(
                    "Another rewind of yours is running. Wait until it has ended, or cancel it.",
                    retry_after=_RETRY_SECONDS,
                )
            yield

    async def _carry_out(self, record: RewindRecord) -> None:
        steps = msgspec.json.decode(await self._rewinds.records.plan(record.id), type=list[Step])
        places = await OwnPlaces.of(self._tree)
        needs = places.needs(steps)
        standing = Standing(self._tree.actor, next(iter(needs), TOP))
        for point, needed in needs.items():
            standing.also(point, *needed)
        # As a session of its own, so that an administrator can find and undo what it does.
        context = msgspec.structs.replace(self._tree.actor.context, session=record.id, slot=None, attempt=None)
        counter = progress_counter.CURRENT.get() or ProgressCounter()
        counter.total = len(steps)

        def stepped() -> None:
            counter.entries += 1

        async def work() -> None:
            progress_counter.CURRENT.set(None)  # steps are counted, and not the files in them
            await self._rewinds.carry_out(record, places, context, stepped=stepped, at_most=_AT_MOST)

        await self._tree.cancellable(work(), standing)

    async def get(self, rewind_id: str) -> OwnRewind:
        """A rewind of the user's own, for 90 days: what was planned, what is done, and what was left alone."""
        record = await self._record(rewind_id)
        if record.state == STARTED:
            async with self._shared.leases.held(self._lease) as lease:
                if lease:  # no process carries it out
                    record = await self._record(rewind_id)
                    if record.state == STARTED:
                        await self._rewinds.records.end(rewind_id, FAILED)
                        record = await self._record(rewind_id)
        request, places = _request(record), await OwnPlaces.of(self._tree)
        steps = msgspec.json.decode(record.steps, type=dict[str, int])
        left_alone = msgspec.json.decode(record.report, type=list[LeftAlone])
        state = RUNNING if record.state == STARTED else record.state
        return _shown(record.id, state, request, steps, record.done, left_alone, record.left_alone, places)

    @property
    def _lease(self) -> str:
        return f"rewind-of:{self._user.id}"

    async def _record(self, rewind_id: str) -> RewindRecord:
        record = await self._rewinds.records.get(rewind_id)
        if record is None or _request(record).own != self._user.id:
            raise NotFound("This rewind doesn't exist. Rewinds are listed for 90 days.")
        return record


def _request(record: RewindRecord) -> RewindRequest:
    return msgspec.json.decode(record.request, type=RewindRequest)


def _counted(steps: Sequence[Step]) -> Mapping[str, int]:
    return Counter(step.action for step in steps)


def _shown(
    rewind_id: str | None,
    state: str,
    request: RewindRequest,
    steps: Mapping[str, int],
    done: int,
    left_alone: Sequence[LeftAlone],
    left_alone_count: int,
    places: OwnPlaces,
) -> OwnRewind:
    return OwnRewind(
        id=rewind_id,
        state=state,
        since=request.since,
        until=request.until,
        path=Path.parse(request.path),
        steps=steps,
        done=done,
        left_alone=[_left_alone(each, places) for each in left_alone[:MOST_LISTED]],
        left_alone_count=left_alone_count,
    )


def _left_alone(each: LeftAlone, places: OwnPlaces) -> OwnLeftAlone:
    """Nothing of what is out of reach by now."""
    spot = places.seen(each.location)
    if spot is None:
        return OwnLeftAlone(None, OUT_OF_REACH, each.action, each.at or None, None, None)
    names = each.why == CONFLICT and each.by != SOMEBODY and spot.drive.allows(Right.LIST)
    return OwnLeftAlone(
        path=spot.path,
        why=each.why,
        action=each.action,
        at=each.at or None,
        user=each.by if names else None,
        detail=each.by if each.why == FAILED_STEP else None,
    )
