"""`Change`: a change that a user asked for, and its lines in the audit log. `ChangeResult`: what it has done."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import msgspec

from portico.model.errors import PorticoError
from portico.model.paths import Path
from portico.observability.audit import AuditTrail
from portico.operations.actors.cancellation import ChangeAbandoned
from portico.operations.actors.request_context import RequestContext


class ChangeResult(msgspec.Struct, frozen=True):
    path: Path | None = None
    """Where the file or folder is now, if there is one."""
    trash_ids: Sequence[str] = ()
    """Of what was put into the trash."""


class Change:
    """A change that a user asked for. Its `begin` is called before it takes effect; leaving it writes the outcome."""

    def __init__(
        self,
        audit: AuditTrail,
        context: RequestContext,
        action: str,
        path: Path | None = None,
        target: Path | None = None,
        *,
        trash_ids: Sequence[str] = (),
    ) -> None:
        """`trash_ids`: grows while the change puts something into the trash. An error of the change has them, too."""
        self._audit = audit
        self._trash_ids = trash_ids
        self._attempt = context.attempt
        self.line = context.audit_line(action)
        if path is not None:
            self.line.path = str(path)
        if target is not None:
            self.line.target = str(target)

    async def begin(self) -> None:
        """Raises `Unavailable`, and then nothing may be changed, if the log is required and cannot be written.

        The same if the request has an idempotency key that another one has taken over.
        """
        if self._attempt:
            await self._attempt.begin()
        await self._audit.begin(self.line)

    def result(self, path: Path | None = None) -> ChangeResult:
        return ChangeResult(path, tuple(self._trash_ids))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if error is not None:
            self.line.outcome = _outcome(error)
            if isinstance(error, PorticoError):
                error.trash_ids = tuple(self._trash_ids)
        await self._audit.end(self.line)


def _outcome(error: BaseException) -> str:
    if isinstance(error, ChangeAbandoned) or not isinstance(error, Exception):
        return "interrupted"
    return error.code if isinstance(error, PorticoError) else "internal"


async def note_refusal(
    audit: AuditTrail, context: RequestContext, action: str, path: Path, error: PorticoError
) -> None:
    """Write the line of a change that may not begin."""
    line = context.audit_line(action, outcome=error.code)
    line.path = str(path)
    await audit.end(line)
