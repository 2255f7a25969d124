"""What the endpoints say to the audit log."""

from types import TracebackType
from typing import Self

import msgspec
from starlette.requests import Request

from portico.api.incoming import ChangeAbandoned
from portico.audit import DONE, AuditLine
from portico.errors import PorticoError
from portico.paths import Path


def line_of(request: Request, action: str, *, outcome: str = DONE) -> AuditLine:
    state, client = request.scope["state"], request.scope["client"]
    return AuditLine(
        request_id=state["request_id"],
        user=state.get("user", msgspec.UNSET),
        client=client[0],
        action=action,
        outcome=outcome,
    )


class Change:
    """One change that a user asked for: within its `with`, `begin` comes before it takes effect."""

    def __init__(
        self, request: Request, action: str, path: Path | None = None, target: Path | None = None
    ) -> None:
        self._audit = request.scope["state"]["services"].audit
        self.line = line_of(request, action)
        if path is not None:
            self.line.path = str(path)
        if target is not None:
            self.line.target = str(target)

    def begin(self) -> None:
        """`Unavailable`, and then nothing may be changed, if the log is required and cannot be written."""
        self._audit.begin(self.line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if error is not None:
            self.line.outcome = _outcome(error)
        self._audit.end(self.line)


def _outcome(error: BaseException) -> str:
    if isinstance(error, PorticoError) and not isinstance(error, ChangeAbandoned):
        return error.code
    return (
        "interrupted"
        if isinstance(error, ChangeAbandoned) or not isinstance(error, Exception)
        else "internal"
    )
