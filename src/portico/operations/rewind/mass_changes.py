"""`MassChanges`: notice an actor that replaces or deletes very many files, such as a program that encrypts them."""

from collections import Counter, defaultdict
from datetime import timedelta
from typing import Final

import structlog

from portico.model.errors import PorticoError
from portico.observability.audit import AuditLine
from portico.observability.metrics import Metrics
from portico.operations.rewind.freezing import ACTIONS, Freezing
from portico.runtime import clock
from portico.store.database import Database
from portico.store.history import MINUTE, ActorFilter, removals, subjects
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
        self._files: defaultdict[ActorFilter, Counter[int]] = defaultdict(Counter)
        """By the minute."""

    async def look(self, freezing: Freezing | None = None) -> None:
        """`freezing`: ends the credentials of an actor that is reported."""
        since = self._database.now() - self._within
        for removed in await removals(self._database, self._last, since):
            self._last = max(self._last, removed.last)
            self._files[removed.actor][removed.minute] += removed.files
        for actor, minutes in [*self._files.items()]:
            for minute in [minute for minute in minutes if minute + MINUTE <= since]:
                del minutes[minute]
            if not minutes:
                del self._files[actor]
            elif minutes.total() > self._most and not await self._was_reported(actor, since):
                await self._report(actor, minutes.total(), freezing)
                line = AuditLine(user=BY, action=REPORTED, subject=_named(actor))
                await self._journal.note(line, is_waited_for=True)

    async def _was_reported(self, actor: ActorFilter, since: int) -> bool:
        """So long ago that the changes until then still count, if only by the minute."""
        return _named(actor) in await subjects(self._database, REPORTED, since - MINUTE)

    async def _report(self, actor: ActorFilter, files: int, freezing: Freezing | None) -> None:
        self._metrics.mass_changes.add(())
        log.warning("mass-changes", **actor.given(), files=files, seconds=self._within // 1000)
        if freezing is None:
            return
        try:
            owner = await freezing.owner(actor)
            await freezing.freeze(actor, owner)
        except PorticoError as error:
            log.error("actor-not-frozen", **actor.given(), code=error.code, cause=error.cause)
            return
        log.warning("actor-frozen", **actor.given())
        await self._journal.note(AuditLine(user=BY, action=ACTIONS[next(iter(actor.given()))], subject=owner.name))


def _named(actor: ActorFilter) -> str:
    return " ".join(*actor.given().items())
