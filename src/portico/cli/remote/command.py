"""Runs a command that talks to a gateway, and reports the gateway's errors."""

import sys
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace


def runs(module: str, function: str) -> Callable[[SimpleNamespace], int]:
    """A command that this function of `portico.cli.remote` does; it gets the options and returns the exit code.

    The module is imported when the command is used: the help texts and completions do without the client.
    """

    def run(options: SimpleNamespace) -> int:
        from portico.cli.remote.errors import exit_code, sentence
        from portico.client.errors import ClientError
        from portico.visible_text import visible

        work = getattr(import_module(f"portico.cli.remote.{module}"), function)
        try:
            code: int = work(options)
            return code
        except ClientError as error:
            print(visible(sentence(error), lines=True), file=sys.stderr, flush=True)
            return exit_code(error)

    return run
