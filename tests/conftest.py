"""For all tests: generated cases are few and the same in every run, so that a red run means that something changed.

`RANDOM_CASES=1 make test` tries others, and more of them.
"""

import gc
import os
import signal
import tempfile
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from .assertions import rewrite_changed
from .cheap_argon2 import CheapArgon2
from .cheap_libraries import (
    with_plain_tracebacks,
    with_shared_statements,
    without_checks_of_keys,
    without_public_authorities,
)
from .servers.memory import data_folder

if TYPE_CHECKING:
    from .servers.lent_databases import LentDatabases
    from .servers.postgres import PostgresServer

pytest_plugins = ["tests.fixtures"]

# A run in the background ignores Ctrl-C, and so would the commands that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# On a disk, tests would wait for durable writes half of the time. Testers get it from the process that starts them.
if "TMPDIR" not in os.environ and (memory := data_folder()):
    os.environ["TMPDIR"] = tempfile.tempdir = memory

settings.register_profile("same", derandomize=True, max_examples=40, deadline=None)
settings.register_profile("random", max_examples=300, deadline=None)
settings.load_profile("random" if os.environ.get("RANDOM_CASES") else "same")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, which would take a quarter of the time and find nothing. Later it need not
    look at what was collected."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Before the processes start that share the tests."""
    rewrite_changed(config)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--thorough", action="store_true", help="run what an ordinary run takes a sample of, too")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--thorough"):
        return
    left_out = [item for item in items if item.get_closest_marker("thorough")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("thorough")]


@pytest.fixture(scope="session")
def thorough(request: pytest.FixtureRequest) -> bool:
    """Whether generated cases are many."""
    return bool(request.config.getoption("--thorough"))


@pytest.fixture(scope="session")
def postgres() -> "Iterator[PostgresServer]":
    """One server for all tests of a process; each takes a database of its own."""
    from .servers.postgres import running_postgres

    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def migrated_template(postgres: "PostgresServer") -> str:
    """The name of a migrated PostgreSQL database to copy."""
    from portico.store.schema import migrate

    url = postgres.new_database()
    migrate(url)
    return url.rpartition("/")[2]


@pytest.fixture(scope="session")
def lent_databases(postgres: "PostgresServer", migrated_template: str) -> "Iterator[LentDatabases]":
    """Migrated databases of PostgreSQL, for tests that change rows only. Others get them, too, but make the next test wait
    for a new one."""
    from .servers.lent_databases import LentDatabases

    lent = LentDatabases(postgres, migrated_template)
    yield lent
    lent.close()


@pytest.fixture(scope="session", autouse=True)
def cheap_libraries() -> Iterator[None]:
    with_plain_tracebacks()
    with pytest.MonkeyPatch.context() as patch:
        without_public_authorities(patch)
        without_checks_of_keys(patch)
        with_shared_statements(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def cheap_argon2() -> Iterator[CheapArgon2]:
    cheap = CheapArgon2()
    cheap.begin()
    yield cheap
    cheap.end()


@pytest.fixture
def real_argon2(cheap_argon2: CheapArgon2) -> Iterator[None]:
    """For tests of the cost itself."""
    cheap_argon2.end()
    yield
    cheap_argon2.begin()
