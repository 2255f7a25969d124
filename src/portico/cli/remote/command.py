"""Runs a command that talks to a gateway, and reports the gateway's errors."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import SimpleNamespace

from portico.cli.console import exits
from portico.cli.console.exits import FAILED, TEMPORARY, USAGE
from portico.model.errors import PorticoError, for_administrator

_WORDS = (
    ("choose another name, or set onConflict to replace or rename", "choose another name"),
    (
        "repeat the request with onConflict=replace and the target",
        "repeat the command without --no-clobber, with the target",
    ),
    ("epeat the request", "epeat the command"),
    ("with onConflict=replace", "with --replace"),
    ("recursive=true", "-r"),
    ("permanent=true", "--permanent"),
)
"""The gateway's words for parameters of a request, and what a user of the command can do instead."""


def exit_code(error: Exception) -> int:
    from portico.client.errors import InvalidPath, InvalidRequest, Temporary  # imports the whole client

    if isinstance(error, PorticoError):
        return exits.exit_code(error)
    if isinstance(error, Temporary):
        return TEMPORARY
    if isinstance(error, InvalidPath | InvalidRequest):
        return USAGE
    return FAILED


def sentence(error: Exception) -> str:
    from portico.client.errors import ClientError, NotSignedIn, Unreachable  # imports the whole client

    if isinstance(error, PorticoError):
        return for_administrator(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'The system'}: {error.strerror or error}."
    if not isinstance(error, ClientError):
        return str(error)
    if type(error) is NotSignedIn:
        return "You aren't signed in, or your session has expired; sign in with 'portico login URL'."
    detail = error.detail
    for words, own in _WORDS:
        detail = detail.replace(words, own)
    if isinstance(error, Unreachable):
        detail = detail.replace(
            "pass its file as ca", "pass its file with 'portico login --ca FILE', or set PORTICO_CA"
        )
    if error.request_id and (error.status or 0) >= 500:
        # The gateway's log has the details under this ID.
        detail = f"{detail.rstrip('.')} (request {error.request_id})."
    return detail if detail.endswith((".", "!", "?")) else f"{detail}."


def common_code(failures: Mapping[str, Exception]) -> int:
    """The exit code if some transfers failed: theirs, if all have the same."""
    codes = {exit_code(error) for error in failures.values()}
    code = codes.pop() if len(codes) == 1 else FAILED
    return FAILED if code == USAGE else code  # a file's name is not a usage mistake


def runs(module: str, function: str) -> Callable[[SimpleNamespace], int | None]:
    """A command that this function of `portico.cli.remote` does; it gets the options and may return an exit code.

    The module is imported when the command is used: the help texts and completions do without the client.
    """

    def run(options: SimpleNamespace) -> int | None:
        from portico.client.errors import ClientError
        from portico.model.visible_text import visible

        work: Callable[[SimpleNamespace], int | None]
        work = getattr(import_module(f"portico.cli.remote.{module}"), function)
        try:
            return work(options)
        except ClientError as error:
            print(visible(sentence(error), lines=True), file=sys.stderr, flush=True)
            return exit_code(error)

    return run
