"""A migrated database, the accounts on it, and a clock that tests can turn."""

import asyncio
import pathlib
import shutil
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest

from portico.accounts.connections import Connections
from portico.accounts.passwords import Passwords
from portico.accounts.sessions import Sessions, Tickets, not_signed_in
from portico.accounts.sign_in import Devices, SignIn
from portico.accounts.throttle import Throttle
from portico.accounts.users import Users
from portico.accounts.vault import SecretKey, Vault
from portico.runtime import clock as clock_module
from portico.store.database import Database
from portico.store.schema import migrate
from portico.store.sessions import Session
from portico.store.tickets import SessionTickets
from portico.store.users import User

from .servers.lent_databases import LentDatabases


class Clock:
    """The wall clock and the monotonic one, which stop until a test advances them."""

    def __init__(self) -> None:
        self.moment = clock_module.now()
        self.ticks = 1000.0
        self.slept: list[float] = []

    def advance(self, seconds: float) -> None:
        self.set(seconds)
        self.ticks += seconds

    async def sleep(self, seconds: float) -> None:
        """Nobody waits; the clock does the walking."""
        self.slept.append(seconds)
        await asyncio.sleep(0)
        self.advance(seconds)

    def set(self, seconds: float) -> None:
        """Put the wall clock forward, or back, while no time passes."""
        self.moment += round(seconds * 1000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(clock_module, "now", lambda: clock.moment)
    monkeypatch.setattr(clock_module, "monotonic", lambda: clock.ticks)
    monkeypatch.setattr(clock_module, "uptime", lambda: clock.ticks)
    monkeypatch.setattr(clock_module, "sleep", clock.sleep)
    return clock


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    file = tmp_path_factory.mktemp("migrated") / "portico.db"
    migrate(f"sqlite:///{file}")
    return file


SQLITE_IS_ENOUGH = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
"""For tests of what a process does by itself, if others send the same statements to PostgreSQL, too."""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[str]:
    """Everything that touches the database runs on both."""
    if request.param == "postgresql":
        lent: LentDatabases = request.getfixturevalue("lent_databases")
        with lent.one() as url:
            yield url
    else:
        shutil.copy(request.getfixturevalue("migrated_file"), tmp_path / "portico.db")
        yield f"sqlite:///{tmp_path / 'portico.db'}"


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    database = Database(url)
    yield database
    await database.close()


@pytest.fixture
def passwords() -> Iterator[Passwords]:
    passwords = Passwords()
    yield passwords
    passwords.close()


@pytest.fixture
def tokens(database: Database) -> Sessions:
    return Sessions(database, token_lifetime=timedelta(hours=1), refresh_lifetime=timedelta(days=30))


@pytest.fixture
def other_tokens(database: Database) -> Sessions:
    """Another worker's view of the same database."""
    return Sessions(database, token_lifetime=timedelta(hours=1), refresh_lifetime=timedelta(days=30))


@pytest.fixture
def tickets(database: Database) -> Tickets[Session]:
    return Tickets(SessionTickets(database), not_signed_in)


@pytest.fixture
def throttle(database: Database) -> Throttle:
    return Throttle(database)


@pytest.fixture
def sign_in(database: Database, passwords: Passwords, throttle: Throttle, tokens: Sessions) -> SignIn:
    return SignIn(database, passwords, throttle, tokens, Devices(b"k" * 32))


@pytest.fixture
async def connections(database: Database) -> Connections:
    connections = Connections(database, Vault(SecretKey.generate()))
    await connections.add("local", "local", {"folder": "/srv/files"}, {})
    return connections


@pytest.fixture
def users(database: Database, passwords: Passwords, connections: Connections) -> Users:
    return Users(database, passwords)


@pytest.fixture
async def alice(users: Users) -> User:
    return await users.add("Alice", "correct horse")


@pytest.fixture
def queries(database: Database, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows with every query."""
    return _watched(database, "fetch", monkeypatch)


@pytest.fixture
def transactions(database: Database, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows with every transaction that is begun."""
    return _watched(database, "begin", monkeypatch)


def _watched(database: Database, way: str, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    taken: list[None] = []
    original = getattr(database, way)

    def watched(*arguments: Any, **options: Any) -> Any:
        taken.append(None)
        return original(*arguments, **options)

    monkeypatch.setattr(database, way, watched)
    return taken
