"""Runs a command that talks to a gateway, and reports the gateway's errors."""

import sys
from importlib import import_module
from types import SimpleNamespace

_MODULES = {
    "login": "signin",
    "logout": "signin",
    "whoami": "signin",
    "ls": "listing",
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
    from portico.cli.remote.errors import exit_code, sentence
    from portico.client.errors import ClientError

    module = import_module(f"portico.cli.remote.{_MODULES[options.command]}")
    try:
        code: int = getattr(module, options.command)(options)
    except ClientError as error:
        print(sentence(error), file=sys.stderr, flush=True)
        return exit_code(error)
    return code
