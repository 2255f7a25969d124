"""From the words of a command to what does it."""

import sys
from importlib import import_module

from portico.cli.exits import DONE
from portico.cli.remote import arguments
from portico.cli.remote.failures import exit_code, sentence
from portico.cli.terminal import mend_streams
from portico.client.errors import ClientError

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
    "sync": "mirrors",
    "completion": "completion",
}


def run(words: list[str], home: str | None) -> int:
    """The home is the gateway's business: it is taken and not looked at."""
    mend_streams()
    try:
        options = arguments.parse(words)
    except SystemExit:  # help was asked for
        return DONE
    module = import_module(f"portico.cli.remote.{_MODULES[words[0]]}")
    try:
        code: int = getattr(module, words[0])(options)
        if sys.stdout:
            sys.stdout.flush()  # a reader that has gone is noticed here, not when the program ends
    except ClientError as error:
        print(sentence(error), file=sys.stderr, flush=True)
        return exit_code(error)
    return code
