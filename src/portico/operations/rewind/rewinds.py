"""`Rewinds`: undo what one actor did, and leave everybody else's work alone.

The plan comes from the journal alone. It is carried out by one process at a time; if that one dies, another one continues.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from secrets import token_hex
from typing import Final

import msgspec
import structlog

from portico.accounts.share_links import ShareLinks
from portico.drive.connection_pool import ConnectionPool
from portico.model.errors import InvalidRequest, NotFound, PorticoError, Unavailable
from portico.model.paths import TRASH
from portico.model.versions import Version
from portico.observability.audit import AuditLine, is_command
from portico.operations.actors.request_context import RequestContext
from portico.operations.actors.unsettled import settle_changes
from portico.operations.rewind.execution import Execution, first_run
from portico.operations.rewind.locations import Location, Touched, is_in_trash
from portico.operations.rewind.places import EveryPlace, Places
from portico.operations.rewind.plan import ACTIONS, CONFLICT, Change, LeftAlone, Plan, Scope, Within, effect_of, plan
from portico.operations.rewind.steps import Step
from portico.store.database import AnyRow, Database
from portico.store.history import (
    ActorFilter,
    changes_after,
    changes_by,
    changes_numbered,
    changes_since,
    last_number,
    made_with,
    user_of,
)
from portico.store.journal import Journal
from portico.store.leases import Leases
from portico.store.rewinds import CANCELLED, DONE, PLANNED, RUNNING, RewindRecord, RewindRecords
from portico.store.trash import HELD, TrashRecords, next_id, time_of

SOMEBODY: Final = "?"
"""Instead of the name of an administrator or a guest, in what a user may see."""
_AT_MOST: Final = 200
"""Steps between two saves of the progress, which is told, too."""
MOST_LISTED: Final = 1000
"""Of what a user's own rewind leaves alone."""

log = structlog.get_logger()


class RewindRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    actor: ActorFilter
    since: int
    until: int | None = None
    """Milliseconds; not included."""
    within: Location = ()
    """A place; only what is there is undone."""
    by: str = ""
    """Who wants it."""
    seen: int = 0
    """As of the plan."""
    own: int | None = None
    """The id of the user who undoes their own changes; None for an administrator."""
    path: str = "/"
    """Of the user's tree: only what is there is undone."""


class Rewind(msgspec.Struct, frozen=True):
    id: str
    state: str
    steps: int
    done: int
    left_alone: list[LeftAlone]


class _Line(msgspec.Struct):
    """Of an audit line, what names its actor."""

    user: str = ""
    key_name: str = ""
    guest: str | None = None
    link: str | None = None
    session: str = ""


_LINES: Final = msgspec.json.Decoder(_Line)
_VERSIONS: Final = msgspec.json.Decoder(Version)


class Rewinds:
    def __init__(
        self,
        database: Database,
        journal: Journal,
        pool: ConnectionPool,
        trash: TrashRecords,
        links: ShareLinks,
        leases: Leases,
    ) -> None:
        self._database = database
        self.records = RewindRecords(database)
        self._journal = journal
        self._pool = pool
        self._trash = trash
        self._links = links
        self._leases = leases
        self._new = ""
        """The rewind that this process has begun."""
        self._continued: dict[str, asyncio.Task[None]] = {}
        """Those that it continues, by their ids."""

    async def close(self) -> None:
        """Another process continues what this one does now."""
        for task in (tasks := [*self._continued.values()]):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def plan(self, request: RewindRequest, scope: Scope | None = None, *, most: int | None = None) -> Plan:
        """`most`: of the actor's changes; `InvalidRequest` if there are more."""
        scope, own = scope or Within(request.within), request.own is not None
        await settle_changes(self._journal, self._pool)
        seen = await last_number(self._database)
        mine = await changes_by(self._database, request.actor, ACTIONS, request.since, request.until, most=most)
        made = set() if own else await made_with(self._database, request.actor, ACTIONS, request.since)
        if not mine:
            return Plan([], [], seen=seen, related=_sorted(made))
        if most is not None and len(mine) > most:
            raise InvalidRequest(f"There are more than {most} changes in this time. Choose a later start, or a folder.")
        earlier = await self._earlier(request)
        for rewind_id in earlier:
            mine += await changes_by(self._database, ActorFilter(session=rewind_id), ACTIONS, 0, None)
        # In threads, because there may be very many.
        changes = await asyncio.to_thread(_changes, mine, is_mine=True, own=own, rewinds=earlier)
        places = await asyncio.to_thread(_Near, changes.values())
        began = min(change.began or change.at for change in changes.values())
        first = min(changes)
        guests: defaultdict[str, set[str]] = defaultdict(set)
        """Their links, by name, if the actor is the owner."""
        users = {one.user.casefold() for one in request.actor.each() if one.user and not own}
        others = changes_after(self._database, first, began, request.actor, ACTIONS, request.since, request.until)
        async for page in others:
            near = await changes_numbered(self._database, await asyncio.to_thread(places.near, page))
            undoing = set() if own else await _rewinds(self.records, near)
            for number, change in _changes(near, is_mine=False, own=own, undoing=undoing).items():
                if number not in changes and any(map(places.touched.by, change.touched)):
                    changes[number] = change
            for row in near:
                if row.link and row.user in users and row.number in changes:
                    guests[changes[row.number].actor].add(row.link)
        ids = {row.kept for row in mine if row.kept}
        kept = await self._trash.find_all(ids | {next_id(each) for each in ids})
        there = {each for each, record in kept.items() if scope.takes(record)}
        # By time: rows of different processes may be written in another order than their changes were made.
        rows = [changes[number] for number in sorted(changes, key=lambda number: (changes[number].at, number))]
        found = await asyncio.to_thread(plan, rows[::-1], there, scope=scope)
        found.steps = [step for step in found.steps if step.action != "show" or kept[step.location[2]].status == HELD]
        found.seen = seen
        links = {link for each in found.left_alone if each.why == CONFLICT for link in guests[each.by]}
        made |= {ActorFilter(link=link) for link in links} - {*request.actor.each()}
        found.related = _sorted(made)
        return found

    async def _earlier(self, request: RewindRequest) -> list[str]:
        """Rewinds that have undone some of these changes and no others, and those that have undone such a rewind.

        What they did is no conflict: the plan goes back through it, too, and what they have undone needs no step.
        """
        found: list[str] = []
        owners: dict[ActorFilter, str | None] = {}
        for rewind_id, text in await self.records.requests(request.since):
            other = msgspec.json.decode(text, type=RewindRequest)
            if request.own is not None and other.own != request.own:
                continue  # to users, what an administrator did is a conflict
            undone = all(one.session in found for one in other.actor.each())
            if undone or await self._is_part(other, request, owners):
                found.append(rewind_id)
        return found

    async def _is_part(
        self, other: RewindRequest, request: RewindRequest, owners: dict[ActorFilter, str | None]
    ) -> bool:
        """Whether all that one undoes is also undone by the other. `owners`: the users of actors, as far as they are known."""
        if other.within[: len(request.within)] != request.within:
            return False
        if request.until is not None and (other.until is None or other.until > request.until):
            return False
        if not all([await self._includes(request.actor, one, owners) for one in other.actor.each()]):
            return False
        # "2h ago" is later when the command is repeated
        return other.since >= request.since or not await changes_by(
            self._database, other.actor, ACTIONS, other.since, request.since, most=0
        )

    async def _includes(self, actor: ActorFilter, one: ActorFilter, owners: dict[ActorFilter, str | None]) -> bool:
        """A key's or a session's changes are also the user's; those made through a link may be."""
        with_guests = one.link or one.with_links
        users = {each.user.casefold() for each in actor.each() if each.user and (each.with_links or not with_guests)}
        if not users or one in actor.each():
            return one in actor.each()
        if one not in owners:
            owners[one] = one.user.casefold() if one.user else await user_of(self._database, one)
        return owners[one] in users

    async def begin(self, request: RewindRequest, found: Plan) -> str:
        """Its id. It runs when `run` is called, in this process or any other; a user's own, when `carry_out` is."""
        record = RewindRecord(
            id=token_hex(16),
            request=msgspec.json.encode(msgspec.structs.replace(request, seen=found.seen)).decode(),
            state=RUNNING if request.own is None else PLANNED,
            steps=msgspec.json.encode(Counter(step.action for step in found.steps)).decode(),
            done=0,
            report=_report(found.left_alone, request),
            left_alone=len(found.left_alone),
            cancel_wanted=False,
            started_at=self._database.now(),
        )
        await self.records.add(record, msgspec.json.encode(found.steps).decode())
        if request.own is None:  # a user's own has its line when it runs
            await self._journal.note(AuditLine(user=request.by, action="rewind", subject=record.id))
        self._new = record.id
        return record.id

    async def run(self, rewind_id: str, progress: Callable[[int, int], None] = lambda _, __: None) -> bool:
        """Carry it out to its end; False if another process does that. `progress`: called with the steps that are done, and all."""
        async with self._leases.held(f"rewind:{rewind_id}") as lease:
            if lease is None:
                return False
            record = await self._record(rewind_id)
            if record.state == RUNNING and record.cancel_wanted:
                await self.records.end(record.id, CANCELLED)
            elif record.state == RUNNING:
                await self._run(record, progress)
            return True

    async def _run(self, record: RewindRecord, progress: Callable[[int, int], None]) -> None:
        request = msgspec.json.decode(record.request, type=RewindRequest)
        # As a session, so that all that it does can be found, and undone, by its id.
        context = RequestContext(record.id, "", user=request.by, session=record.id)
        repeats, self._new = record.id != self._new, ""
        await self.carry_out(record, EveryPlace(self._pool), context, progress, repeats=repeats)

    async def carry_out(
        self,
        record: RewindRecord,
        places: Places,
        context: RequestContext,
        progress: Callable[[int, int], None] = lambda _, __: None,
        *,
        stepped: Callable[[], None] = lambda: None,
        at_most: int | None = None,
        repeats: bool = False,
    ) -> None:
        """`at_most`: steps between two saves of the progress. `repeats`: an earlier process may have carried out some steps that were not saved."""
        request = msgspec.json.decode(record.request, type=RewindRequest)
        steps = msgspec.json.decode(await self.records.plan(record.id), type=list[Step])
        left_alone = msgspec.json.decode(record.report, type=list[LeftAlone])
        unlisted = record.left_alone - len(left_alone)
        execution = Execution(self._journal, places, self._trash, self._links, context, stepped)
        changed = _ChangedSince(self.records, record.id, request.seen, own=request.own is not None)
        done, at_most = record.done, at_most or _AT_MOST
        while done < len(steps):
            some = first_run(steps[done : done + at_most], at_most)
            known = len(left_alone)
            todo = await changed.without(some, left_alone)
            for step, why, detail in await execution.carry_out(todo, repeats=repeats):
                left_alone.append(LeftAlone(why, step.location, step.action, by=detail))
            before, done, repeats = done, done + len(some), False
            report = _report(left_alone, request) if len(left_alone) > known else None
            may_continue = await self.records.save(record.id, before, done, report, unlisted + len(left_alone))
            if may_continue is None:
                raise Unavailable("Another process carries this rewind out by now.")
            if not may_continue and done < len(steps):
                await self.records.end(record.id, CANCELLED)
                return
            if done == len(steps) or done // at_most > before // at_most:
                progress(done, len(steps))
        await self.records.end(record.id, DONE)

    async def run_left(self) -> None:
        """Continue those whose process has died, each in a task of its own: it may take hours."""
        for rewind_id in await self.records.running():
            if rewind_id not in self._continued:
                self._continued[rewind_id] = asyncio.create_task(self._continue(rewind_id))

    async def _continue(self, rewind_id: str) -> None:
        try:
            await self.run(rewind_id)
        except PorticoError as error:
            log.warning("rewind-interrupted", rewind=rewind_id, code=error.code, cause=error.cause)
        except Exception as error:
            log.error("bug", exc_info=error)
        finally:
            del self._continued[rewind_id]

    async def get(self, rewind_id: str) -> Rewind:
        record = await self._record(rewind_id)
        steps = msgspec.json.decode(record.steps, type=dict[str, int])
        left_alone = msgspec.json.decode(record.report, type=list[LeftAlone])
        return Rewind(record.id, record.state, sum(steps.values()), record.done, left_alone)

    async def cancel(self, rewind_id: str) -> None:
        """What is done stays done."""
        await self._record(rewind_id)
        if not await self.records.want_cancel(rewind_id):
            raise InvalidRequest(f"This rewind has ended. To undo it, run 'portico rewind --session {rewind_id}'.")

    async def _record(self, rewind_id: str) -> RewindRecord:
        record = await self.records.get(rewind_id)
        if record is None:
            raise NotFound("This rewind doesn't exist.")
        return record


def _report(left_alone: Sequence[LeftAlone], request: RewindRequest) -> str:
    """Of a user's own, the first of it: users must not fill the database."""
    listed = left_alone if request.own is None else left_alone[:MOST_LISTED]
    return msgspec.json.encode(listed).decode()


class _Near:
    """Which rows may have touched what some changes have touched, by their places alone: to read all of a row takes longer."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self.touched = Touched()
        self._kept: set[str] = set()
        for change in changes:
            for location in change.touched:
                self.touched.add(location, change.actor)
                if is_in_trash(location):
                    self._kept.update(location[2:3])

    def near(self, rows: Sequence[AnyRow]) -> list[int]:
        """Their numbers."""
        return [row.number for row in rows if self._is_near(row)]

    def _is_near(self, row: AnyRow) -> bool:
        if row.kept and (row.kept in self._kept or next_id(row.kept) in self._kept):
            return True
        if self.touched.by(location_of(row.connection, row.place)):
            return True
        return row.target is not None and bool(self.touched.by(location_of(row.to_connection, row.target)))


class _ChangedSince:
    """What others have changed since the plan was made."""

    def __init__(self, records: RewindRecords, rewind_id: str, seen: int, *, own: bool) -> None:
        self._own = own
        self._records = records
        self._but = ActorFilter(session=rewind_id)
        self._seen = seen
        self._touched = Touched()

    async def without(self, steps: Sequence[Step], left_alone: list[LeftAlone]) -> list[Step]:
        """The steps that touch none of it. The others are left alone, and so is what follows at their places."""
        seen = self._seen
        async for page in changes_since(self._records.database, seen, self._but, ACTIONS):
            self._seen = max(self._seen, page[0].number)
            undoing = set() if self._own else await _rewinds(self._records, page)
            for row in page:
                if effect_of(change := _change(row, is_mine=False, own=self._own, undoing=undoing)):
                    self._add(change.touched, change.actor)
        found = []
        for step in steps:
            places = [each for each in (step.location, step.source) if each]
            if by := next(filter(None, map(self._touched.by, places)), None):
                left_alone.append(LeftAlone(CONFLICT, step.location, step.action, by=by))
                self._add(places, by)
            else:
                found.append(step)
        return found

    def _add(self, places: Iterable[Location], by: str) -> None:
        for place in places:
            self._touched.add(place, by)


async def _rewinds(records: RewindRecords, rows: Iterable[AnyRow]) -> set[str]:
    """Those that have made some of these changes."""
    return await records.among({row.session for row in rows if row.session})


def _changes(
    rows: Iterable[AnyRow], *, is_mine: bool, own: bool, rewinds: Collection[str] = (), undoing: Collection[str] = ()
) -> dict[int, Change]:
    """By their numbers. `rewinds`: those whose changes are undone, too. `undoing`: those whose changes are named as theirs."""
    return {
        row.number: _change(row, is_mine=is_mine, own=own, is_rewind=row.session in rewinds, undoing=undoing)
        for row in rows
    }


def _change(row: AnyRow, *, is_mine: bool, own: bool, is_rewind: bool = False, undoing: Collection[str] = ()) -> Change:
    return Change(
        at=row.at,
        actor=_plain_name(row) if own else _name(row, is_rewind=row.session in undoing),
        is_mine=is_mine,
        is_rewind=is_rewind,
        action=row.action,
        outcome=row.outcome,
        place=location_of(row.connection, row.place),
        target=None if row.target is None else location_of(row.to_connection, row.target),
        before=None if row.before is None else _VERSIONS.decode(row.before),
        after=None if row.after is None else _VERSIONS.decode(row.after),
        kept=row.kept,
        began=time_of(row.change) if row.change else None,
    )


def _sorted(actors: Iterable[ActorFilter]) -> list[ActorFilter]:
    return sorted(actors, key=lambda one: (one.key or "", one.link or "", one.session or ""))


def location_of(connection: str, path: str) -> Location:
    """A place of the journal. The trash is where the connection begins; what is in it, is found by its id alone."""
    segments = [segment for segment in path.split("/") if segment]
    if TRASH in segments:
        segments = segments[segments.index(TRASH) :]
    return (connection, *segments)


def _name(row: AnyRow, *, is_rewind: bool) -> str:
    line = _LINES.decode(row.line)
    if line.link:
        return f"{line.guest or 'a guest'} (link {line.link} of {line.user})"
    if is_rewind or (is_command(line.user) and line.session):
        return f"{line.user} (rewind {line.session})"
    return f"{line.user} (key {line.key_name})" if line.key_name else line.user or "unknown"


def _plain_name(row: AnyRow) -> str:
    """As users may see it."""
    line = _LINES.decode(row.line)
    return SOMEBODY if line.link or not line.user or is_command(line.user) else line.user
