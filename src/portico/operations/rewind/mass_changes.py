"""`MassChanges`: notice an actor that replaces or deletes very many files, such as a program that encrypts them."""

from collections import Counter, defaultdict
from datetime import timedelta
from typing import Final

import structlog

from portico.model.errors import PorticoError, Unavailable
from portico.observability.audit import AuditLine
from portico.observability.metrics import Metrics
from portico.operations.rewind.freezing import ACTIONS, Freezing
from portico.runtime import clock
from portico.store.database import Database
from portico.store.history import MINUTE, ActorFilter, last_number, removals, subjects
from portico.store.journal import Journal

BY: Final = "portico"
"""Who reports and freezes, in the journal."""
REPORTED: Final = "mass-changes"
"""The action of a line that keeps an actor from being reported, and frozen, again for the same changes."""

log = structlog.get_logger()


class MassChanges:
    """Looks at the rows that are new since its last look. Each process has its own, and one of them looks at a time. The journal
    tells the others, and those that are started later, what was reported."""

    def __init__(self, database: Database, journal: Journal, metrics: Metrics, *, most: int, within: timedelta) -> None:
        """`most`: files that an actor may replace or delete `within` this time."""
        self._database = database
        self._journal = journal
        self._metrics = metrics
        self._most = most
        self._within = clock.milliseconds(within)
        self._last = 0
        """The number of the last row that was looked at."""
        self._files: defaultdict[ActorFilter, Counter[int]] = defaultdict(Counter)
        """By the minute."""
        self._not_frozen: set[ActorFilter] = set()
        """They were reported, and freezing them has to be tried again."""

    async def look(self, freezing: Freezing | None = None) -> None:
        """`freezing`: ends the credentials of an actor that is reported."""
        since = self._database.now() - self._within
        last = await last_number(self._database)
        for removed in await removals(self._database, self._last, last, since):
            self._files[removed.actor][removed.minute] += removed.files
        self._last = last
        for actor, minutes in [*self._files.items()]:
            for minute in [minute for minute in minutes if minute + MINUTE <= since]:
                del minutes[minute]
            if not minutes:
                del self._files[actor]
                self._not_frozen.discard(actor)
            elif minutes.total() > self._most and not await self._was_reported(actor, since):
                if actor not in self._not_frozen:
                    self._report(actor, minutes.total())
                if freezing is None or await self._is_settled(actor, freezing):
                    line = AuditLine(user=BY, action=REPORTED, subject=_named(actor))
                    await self._journal.note(line, is_waited_for=True)

    async def _was_reported(self, actor: ActorFilter, since: int) -> bool:
        """So long ago that the changes until then still count, if only by the minute."""
        return _named(actor) in await subjects(self._database, REPORTED, since - MINUTE)

    def _report(self, actor: ActorFilter, files: int) -> None:
        self._metrics.mass_changes.add(())
        log.warning("mass-changes", **actor.given(), files=files, seconds=self._within // 1000)

    async def _is_settled(self, actor: ActorFilter, freezing: Freezing) -> bool:
        """Freeze the actor; False if that has to be tried again."""
        try:
            owner = await freezing.owner(actor)
            await freezing.freeze(actor, owner)
        except PorticoError as error:
            log.error("actor-not-frozen", **actor.given(), code=error.code, cause=error.cause)
            if isinstance(error, Unavailable):
                self._not_frozen.add(actor)
                return False
        else:
            log.warning("actor-frozen", **actor.given())
            await self._journal.note(AuditLine(user=BY, action=ACTIONS[actor.kind], subject=owner.name))
        self._not_frozen.discard(actor)
        return True


def _named(actor: ActorFilter) -> str:
    return f"{actor.kind} {actor.name}"
