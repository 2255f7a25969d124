"""What the gateway's failures mean to whoever typed the command."""

from collections.abc import Mapping

from portico.cli import exits
from portico.cli.exits import FAILED, TEMPORARY, USAGE
from portico.client.errors import (
    ClientError,
    InvalidPath,
    InvalidRequest,
    NotSignedIn,
    Temporary,
    Unreachable,
)
from portico.errors import PorticoError


def exit_code(error: Exception) -> int:
    if isinstance(error, PorticoError):
        return exits.exit_code(error)
    if isinstance(error, Temporary):
        return TEMPORARY
    if isinstance(error, InvalidPath | InvalidRequest):
        return USAGE
    return FAILED


def sentence(error: Exception) -> str:
    if isinstance(error, PorticoError):
        return exits.sentence(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'The system'}: {error.strerror or error}."
    if not isinstance(error, ClientError):
        return str(error)
    if type(error) is NotSignedIn:
        return "You are not signed in, or not any more; sign in with 'portico login URL'."
    detail = error.detail
    if isinstance(error, Unreachable):
        detail = detail.replace(
            "name its file as ca", "name its file with 'portico login --ca FILE', or in PORTICO_CA"
        )
    if error.request_id and (error.status or 0) >= 500:
        # Under this number the gateway's administrator finds what is behind it.
        detail = f"{detail.rstrip('.')} (request {error.request_id})."
    return detail if detail.endswith((".", "!", "?")) else f"{detail}."


def common_code(failures: Mapping[str, Exception]) -> int:
    """How a command ends of whose transfers some failed: by their code, if all have the same."""
    codes = {exit_code(error) for error in failures.values()}
    code = codes.pop() if len(codes) == 1 else FAILED
    return FAILED if code == USAGE else code  # the names of files are nobody's typing mistakes
