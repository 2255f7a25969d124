"""`Change`: a change that a user asked for, as the journal records it. `ChangeResult`: what it has done."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import msgspec

from portico.model.errors import PorticoError
from portico.model.paths import Path
from portico.observability.audit import INTERRUPTED
from portico.operations.actors.cancellation import ChangeAbandoned
from portico.operations.actors.request_context import RequestContext
from portico.runtime.tasks import run_to_end
from portico.store.journal import Journal
from portico.store.recordings import Recording


class ChangeResult(msgspec.Struct, frozen=True):
    path: Path | None = None
    """Where the file or folder is now, if there is one."""
    trash_ids: Sequence[str] = ()
    """Of what was put into the trash."""


class Change(Recording):
    """A change that a user asked for. Its `begin` is called before it takes effect; leaving it settles it."""

    def __init__(
        self,
        journal: Journal,
        context: RequestContext,
        action: str,
        path: Path | None = None,
        target: Path | None = None,
    ) -> None:
        super().__init__(journal, context.audit_line(action))
        self._attempt = context.attempt
        if path is not None:
            self.line.path = str(path)
        if target is not None:
            self.line.target = str(target)

    async def begin(self) -> None:
        """As `Recording.begin`. `RequestRunning` if the request has an idempotency key that another one has taken over."""
        if self._attempt and not self.has_begun:
            await self._attempt.begin()
        await super().begin()

    def result(self, path: Path | None = None) -> ChangeResult:
        return ChangeResult(path, self.trash_ids)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if isinstance(error, PorticoError):
            error.trash_ids = self.trash_ids
        await run_to_end(self.settle(self.line.outcome if error is None else _outcome(error)))


def _outcome(error: BaseException) -> str:
    if isinstance(error, ChangeAbandoned) or not isinstance(error, Exception):
        return INTERRUPTED
    return error.code if isinstance(error, PorticoError) else "internal"


async def note_refusal(journal: Journal, context: RequestContext, action: str, path: Path, error: PorticoError) -> None:
    """Record a change that may not begin."""
    line = context.audit_line(action, outcome=error.code)
    line.path = str(path)
    await journal.note(line)
