"""`RecordedDrive`: a drive for tests of what is below operations, which nobody gives a `Recording` for each change."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any, TypeAlias, cast

from portico.drive.drive import Drive
from portico.model.entries import Entry
from portico.model.errors import PorticoError
from portico.model.paths import Path
from portico.observability.audit import INTERRUPTED, AuditLine
from portico.store.begun_changes import Noted
from portico.store.begun_rows import BegunRows
from portico.store.database import Database
from portico.store.journal import Journal
from portico.store.recordings import Recording
from portico.store.trash import new_id

MakeRecording: TypeAlias = Callable[[], Recording]


class UnrecordedChange(Recording):
    """A change that no journal learns of."""

    def __init__(self) -> None:
        super().__init__(cast("Journal", None), AuditLine(action="test"))

    async def begin(self) -> None:
        self.noted = self.noted or Noted(self.id, 0, "c", "/", None, None, None, "{}")

    @cached_property
    def id(self) -> str:
        return new_id(0)

    async def settle(self, outcome: str) -> None:
        self.line.outcome = outcome


def journal_of(database: Database) -> Journal:
    return Journal(database, node="node", begun=BegunRows(database, "node"))


def recordings_in(journal: Journal, action: str = "test") -> MakeRecording:
    return lambda: journal.recording(AuditLine(action=action, user="alice"))


async def _begins(chunks: AsyncIterator[bytes], change: Recording) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        yield chunk
    await change.begin()


class RecordedDrive(Drive):
    def __init__(self, *arguments: Any, record: MakeRecording = UnrecordedChange, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._record = record
        self.trashed: list[str] = []
        """The ids of what was put into the trash."""

    async def write(
        self, path: Path, chunks: AsyncIterator[bytes], *arguments: Any, change: Recording | None = None, **options: Any
    ) -> Entry:
        async with self._recorded(change) as change:
            return await super().write(path, _begins(chunks, change), *arguments, change=change, **options)

    async def finish_upload(self, *arguments: Any, change: Recording | None = None, **options: Any) -> Entry:
        async with self._recorded(change) as change:
            return await super().finish_upload(*arguments, change=change, **options)

    async def make_folder(self, *arguments: Any, change: Recording | None = None, **options: Any) -> None:
        async with self._recorded(change) as change:
            await super().make_folder(*arguments, change=change, **options)

    async def copy(self, *arguments: Any, change: Recording | None = None, **options: Any) -> Path:
        async with self._recorded(change) as change:
            return await super().copy(*arguments, change=change, **options)

    async def move(self, *arguments: Any, change: Recording | None = None, **options: Any) -> Path:
        async with self._recorded(change) as change:
            return await super().move(*arguments, change=change, **options)

    async def delete(self, *arguments: Any, change: Recording | None = None, **options: Any) -> None:
        async with self._recorded(change) as change:
            await super().delete(*arguments, change=change, **options)

    async def delete_copied(self, *arguments: Any, change: Recording | None = None, **options: Any) -> None:
        async with self._recorded(change) as change:
            await super().delete_copied(*arguments, change=change, **options)

    async def restore(self, *arguments: Any, change: Recording | None = None, **options: Any) -> Path:
        async with self._recorded(change) as change:
            return await super().restore(*arguments, change=change, **options)

    @asynccontextmanager
    async def _recorded(self, change: Recording | None) -> AsyncIterator[Recording]:
        """Settled at the end; but of a process that is killed, which is any other `BaseException`, nothing more is seen."""
        if change is not None:
            yield change
            return
        change = self._record()
        try:
            yield change
        except (Exception, asyncio.CancelledError) as error:
            await change.settle(error.code if isinstance(error, PorticoError) else INTERRUPTED)
            raise
        else:
            await change.settle("done")
        finally:
            self.trashed += change.trash_ids
