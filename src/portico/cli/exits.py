"""Exit codes of the command, and which failure ends with which."""

from portico.errors import (
    InvalidPath,
    InvalidRequest,
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

_TEMPORARY = (Unavailable, ProviderUnavailable, ProviderTimeout, TooManyRequests)


class UsageMistake(PorticoError):
    """The command was asked in a way that it does not understand."""

    code = "usage"


class Missing(PorticoError):
    """There is nothing of the name that was given, here or at the gateway."""

    code = "not-found"

    def __init__(self, detail: str, *, folder: bool) -> None:
        super().__init__(detail)
        self.folder = folder
        """Whether a folder was asked for."""


def exit_code(error: PorticoError) -> int:
    if isinstance(error, Missing):
        return FOLDER_MISSING if error.folder else FILE_MISSING
    if isinstance(error, _TEMPORARY):
        return TEMPORARY
    if isinstance(error, UsageMistake | InvalidRequest | InvalidPath):
        return USAGE
    return FAILED


def sentence(error: PorticoError) -> str:
    """What the administrator reads: the cause, which stays in the log where others are told, or else the sentence."""
    if not error.cause:
        return error.detail
    cause = " ".join(error.cause.split())[:300].rstrip(".")
    return f"{cause[:1].upper()}{cause[1:]}."
