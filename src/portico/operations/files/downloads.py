"""`Downloads`: what was downloaded, as the journal records it."""

from datetime import timedelta
from hashlib import blake2b
from typing import Final

from portico.model.paths import Path, Place
from portico.operations.actors.actor import Actor
from portico.runtime import clock
from portico.store.journal import Journal

FILE: Final = "download"
ZIP: Final = "download.zip"

_PERIOD: Final = clock.milliseconds(timedelta(hours=1))
_REMEMBERED: Final = 20_000
"""Lines that this process knows to be there. The journal knows of all others."""


class Downloads:
    """One line for each file, actor and hour: a player or a continued download asks for range after range."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._noted: dict[str, None] = {}

    def note(self, actor: Actor, action: str, path: Path, place: Place | None) -> None:
        """The download neither waits for its line nor fails without it. All nodes give the line the same id."""
        period = self._journal.now() // _PERIOD
        what = f"{actor.namespace}\0{action}\0{place or path}\0{period}"
        line_id = blake2b(what.encode(), digest_size=16).hexdigest()
        if line_id in self._noted:
            return
        line = actor.context.audit_line(action)
        line.path = str(path)
        if self._journal.note_once(line_id, line, place):
            if len(self._noted) >= _REMEMBERED:
                del self._noted[next(iter(self._noted))]
            self._noted[line_id] = None
