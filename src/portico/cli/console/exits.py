"""Exit codes, and which error has which."""

from portico.model.errors import (
    InvalidPath,
    InvalidRequest,
    Misconfigured,
    PorticoError,
    ProviderTimeout,
    ProviderUnavailable,
    TooManyRequests,
    Unavailable,
)

DONE = 0
FAILED = 1
USAGE = 2
FOLDER_MISSING = 3
FILE_MISSING = 4
TEMPORARY = 5
INTERRUPTED = 130
PIPE_CLOSED = 141
"""What the shell reports of other programs in this case: ended by SIGPIPE."""

_TEMPORARY = (Unavailable, ProviderUnavailable, ProviderTimeout, TooManyRequests)


class UsageMistake(PorticoError, code="usage"): ...


class Missing(PorticoError, code="not-found"):
    def __init__(self, detail: str, *, folder: bool) -> None:
        super().__init__(detail)
        self.folder = folder
        """Whether it should be a folder."""


def exit_code(error: PorticoError) -> int:
    if isinstance(error, Missing):
        return FOLDER_MISSING if error.folder else FILE_MISSING
    if isinstance(error, _TEMPORARY) and not isinstance(error, Misconfigured):
        return TEMPORARY
    if isinstance(error, UsageMistake | InvalidRequest | InvalidPath):
        return USAGE
    return FAILED
