"""How often a request waits for PostgreSQL: what counts when it is not on the same machine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import pytest

from portico.accounts.connections import Connections
from portico.accounts.passwords import Passwords
from portico.accounts.sessions import Sessions, Tickets, not_signed_in
from portico.accounts.sign_in import Devices, SignIn
from portico.accounts.throttle import Throttle
from portico.accounts.users import Users
from portico.accounts.vault import SecretKey, Vault
from portico.model.paths import Path
from portico.store.database import Database
from portico.store.tickets import SessionTickets

from ..servers.lent_databases import LentDatabases
from ..servers.postgres import PostgresServer


class RoundTrips:
    """Passes bytes on, and counts how often the client speaks after the server has answered."""

    def __init__(self, port: int) -> None:
        self.count = 0
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            yield server.sockets[0].getsockname()[1]
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        answered = True

        async def ask() -> None:
            nonlocal answered
            while data := await reader.read(2**16):
                self.count += answered
                answered = False
                there_writer.write(data)

        async def answer() -> None:
            nonlocal answered
            while data := await there_reader.read(2**16):
                answered = True
                writer.write(data)

        try:
            with suppress(ConnectionError, asyncio.CancelledError):
                await asyncio.gather(ask(), answer())
        finally:
            for each in (writer, there_writer):
                each.close()
                with suppress(ConnectionError):
                    await each.wait_closed()


@pytest.fixture
async def trips(postgres: PostgresServer) -> RoundTrips:
    return RoundTrips(postgres.port)


@pytest.fixture
async def database(
    trips: RoundTrips, postgres: PostgresServer, lent_databases: LentDatabases
) -> AsyncIterator[Database]:
    with lent_databases.one() as url:
        async with trips.listening() as port:
            database = Database(url.replace(f":{postgres.port}/", f":{port}/"))
            yield database
            await database.close()


async def test_requests_wait_for_the_database_a_few_times_only(
    trips: RoundTrips, database: Database, passwords: Passwords
) -> None:
    connections = Connections(database, Vault(SecretKey.generate()))
    await connections.add("local", "local", {"folder": "/srv/files"}, {})
    await Users(database, passwords).add("Alice", "correct horse")
    sessions = Sessions(database, token_lifetime=timedelta(hours=1), refresh_lifetime=timedelta(days=30))
    sign_in = SignIn(database, passwords, Throttle(database), sessions, Devices(b"k" * 32))
    counts: dict[str, int] = {}

    @asynccontextmanager
    async def counted(what: str) -> AsyncIterator[None]:
        before = trips.count
        yield
        counts[what] = trips.count - before

    async with counted("sign-in"):
        pair = (await sign_in.with_password("alice", "correct horse", "192.0.2.1")).tokens
    async with counted("refresh"):
        pair = await sessions.refresh(pair.refresh_token)
    async with counted("cold session and connection"):
        session = await sessions.session(pair.access_token)
        await connections.get(session.user.reach.mounts[0].place.connection)
    async with counted("warm session"):
        await sessions.session(pair.access_token)
    async with counted("check before a commit"):
        await sessions.current_user(session.user.id)
    async with counted("ticket"):
        await Tickets(SessionTickets(database), not_signed_in).issue(session, Path.parse("/a"), is_folder=False)
    async with counted("sign-out"):
        await sessions.end(session)
    assert counts == {
        "sign-in": 6,
        "refresh": 5,
        "cold session and connection": 2,
        "warm session": 0,
        "check before a commit": 1,
        "ticket": 1,
        "sign-out": 1,
    }
