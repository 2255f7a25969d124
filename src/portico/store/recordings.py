"""`Recording`: one change, from its begin until the journal has its row. `BegunChange`: one whose process has vanished."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Final, Protocol

import msgspec

from portico.model.entries import Entry
from portico.model.paths import Path, Place
from portico.model.versions import Version, version_of
from portico.observability.audit import Audit, AuditLine
from portico.store.begun_changes import Noted
from portico.store.trash import KEPT, REPLACED, Trashed, new_id, next_id

_MOST_IDS: Final = 100
_LINES: Final = msgspec.json.Decoder(AuditLine)


def place_of(connection: str, text: str) -> Place:
    """A place as the journal has it, which may be in the trash."""
    return Place(connection, Path(tuple(text.split("/")[1:]) if text != "/" else ()))


class BegunChange:
    """A change that has begun, and that its process has not settled."""

    def __init__(self, noted: Noted) -> None:
        self.noted = noted
        self.id = noted.id
        self.at = noted.at
        self.place = place_of(noted.connection, noted.place)
        self.target = None if noted.target is None else place_of(noted.to_connection or "", noted.target)
        self.before = None if noted.before is None else msgspec.json.decode(noted.before, type=Version)
        self.mark = noted.mark
        self.line = _LINES.decode(noted.line)


class Recorder(Protocol):
    """The journal, as a recording sees it."""

    file: Audit

    def now(self) -> int: ...

    async def begin(self, recording: "Recording") -> None: ...

    async def end(self, recording: "Recording") -> None: ...

    async def let_go(self, change: Noted) -> None: ...


class Recording:
    """One change and what becomes known of it, until it is settled."""

    def __init__(self, owner: Recorder, line: AuditLine) -> None:
        self.journal = owner
        self.line = line
        self.place: Place | None = None
        self.target: Place | None = None
        self.before: Version | None = None
        """What the change replaces or removes."""
        self.after: Version | None = None
        self.mark: str | None = None
        """Of an upload: by which its file is recognized if this process dies."""
        self.kept: list[Trashed] = []
        """What it has put into the trash."""
        self.is_in_doubt = False
        """Whether only a look at the storage, later, can tell what has become of it."""
        self.noted: Noted | None = None
        """As the change was noted when it began."""
        self._last_id: str | None = None
        self._ids_of_parts: list[str] = []

    @property
    def has_begun(self) -> bool:
        return self.noted is not None

    @cached_property
    def id(self) -> str:
        """Also that of the first item that it puts into the trash; those of others follow. So a look at the storage finds them."""
        return new_id(self.journal.now())

    @property
    def trash_ids(self) -> tuple[str, ...]:
        """Of what it has put into the trash; of its parts, up to `_MOST_IDS`. What was moved elsewhere is left out."""
        shown = (record for record in self.kept if record.status == KEPT)
        kept = (record.id for record in shown if self.target is None or record.reason == REPLACED)
        return (*kept, *self._ids_of_parts)

    def concern(self, place: Place, target: Place | None = None) -> None:
        """Say what is changed. Without effect once the change has begun."""
        if not self.has_begun:
            self.place, self.target = place, target

    def stored(self, entry: Entry) -> None:
        self.after = version_of(entry)

    def hashed(self, sha256: bytes | None) -> None:
        """The digest of what was stored, if it is known."""
        if self.after and sha256:
            self.after = msgspec.structs.replace(self.after, sha256=sha256.hex())

    def new_trash_id(self) -> str:
        self._last_id = next_id(self._last_id) if self._last_id else self.id
        return self._last_id

    async def begin(self) -> None:
        """Called at the last check before the change takes effect, and once more without effect.

        Raises `Unavailable`, and then nothing may be changed, if the journal, or a log that is required, cannot be written.
        """
        if not self.has_begun:
            self.journal.file.begin(self.line)
            if self.place:
                await self.journal.begin(self)

    async def settle(self, outcome: str) -> None:
        """What was kept is in the trash when this returns, if the database answers."""
        self.line.outcome = outcome
        if self.noted and self.is_in_doubt:
            await self.journal.let_go(self.noted)
        else:
            await self.journal.end(self)

    @asynccontextmanager
    async def part(self, place: Place, target: Place, path: str, to: str) -> AsyncIterator["Recording"]:
        """A change of its own within this one, such as a file that a merge of folders replaces."""
        part = Recording(self.journal, msgspec.structs.replace(self.line, path=path, target=to))
        part.concern(place, target)
        try:
            yield part
        except BaseException:
            if part.has_begun:
                part.is_in_doubt = True
                await part.settle(part.line.outcome)
            raise
        else:
            await part.settle(part.line.outcome)
        finally:
            if len(self._ids_of_parts) < _MOST_IDS:
                self._ids_of_parts += part.trash_ids
