"""Runs a command that talks to a gateway, and reports the gateway's errors."""

import sys
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace

_MODULES = {
    "login": "signin",
    "logout": "signin",
    "whoami": "signin",
    "ls": "listing",
    "find": "search",
    "put": "uploads",
    "get": "downloads",
    "cat": "downloads",
    "mkdir": "changes",
    "mv": "changes",
    "cp": "changes",
    "rm": "changes",
    "sync": "sync",
}


def run(options: SimpleNamespace) -> int:
    # Imported here because the help texts and completions do without the client.
    module = import_module(f"portico.cli.remote.{_MODULES[options.command]}")
    return reporting(lambda: getattr(module, options.command)(options))


def reporting(work: Callable[[], int]) -> int:
    """The exit code of `work`, whose errors are printed as sentences."""
    from portico.cli.remote.errors import exit_code, sentence
    from portico.client.errors import ClientError

    try:
        return work()
    except ClientError as error:
        print(sentence(error), file=sys.stderr, flush=True)
        return exit_code(error)
