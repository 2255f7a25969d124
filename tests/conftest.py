"""For all tests: generated cases are the same in every run, so that a red run means that something changed.

`RANDOM_CASES=1 make test` tries others.
"""

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from .servers.postgres import PostgresServer

# A run in the background ignores Ctrl-C, and so would the commands that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("same", derandomize=True)
if not os.environ.get("RANDOM_CASES"):
    settings.load_profile("same")


@pytest.fixture(scope="session")
def postgres() -> "Iterator[PostgresServer]":
    """One server for all tests of a process; each takes a new database."""
    from .servers.postgres import running_postgres

    with running_postgres() as server:
        yield server
