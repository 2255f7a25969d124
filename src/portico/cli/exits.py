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
TEMPORARY = 5
INTERRUPTED = 130

_TEMPORARY = (Unavailable, ProviderUnavailable, ProviderTimeout, TooManyRequests)


class UsageMistake(PorticoError):
    """The command was asked in a way that it does not understand."""

    code = "usage"


def exit_code(error: PorticoError) -> int:
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
