import asyncio
import io
import pathlib
import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from functools import cache
from itertools import count

import msgspec
import pytest
import pytest_asyncio
import structlog

from portico.accounts.connections import Connections, HomePaths
from portico.accounts.passwords import Passwords
from portico.accounts.users import Users
from portico.accounts.vault import SecretKey, Vault
from portico.api import middleware, problems
from portico.api.assets import WebPage
from portico.model.rights import DEFAULT_RIGHTS, Right
from portico.observability import logs
from portico.providers.contract.registry import PATH_OPTIONS
from portico.runtime import clock as clock_module
from portico.settings import settings
from portico.settings.settings import Settings
from portico.store.database import Database
from portico.store.schema import migrate

from .gateways import CLIENT, PASSWORD, Gateway, running

OpenGateway = Callable[..., Awaitable[Gateway]]

RIGHTS = {
    "web": DEFAULT_RIGHTS,
    "sharer": frozenset(Right),
    "reader": frozenset({Right.LIST, Right.DOWNLOAD}),
    "writer": frozenset({Right.LIST, Right.DOWNLOAD, Right.UPLOAD}),
    "fetcher": frozenset({Right.DOWNLOAD}),
    "dropper": frozenset({Right.UPLOAD}),
    "watcher": frozenset({Right.LIST}),
}
"""All of them see the same folder."""


DATABASE = "portico.db"

SHARES_GATEWAY = pytest.mark.asyncio(loop_scope="module")
"""Of modules whose tests share a gateway: starting and stopping one takes most of the time of a short test."""
OWN_GATEWAY = pytest.mark.asyncio(loop_scope="function")
"""Of tests in such a module that need other settings, or a clock."""

_NUMBERS = count(1)


class Clock:
    """The clocks of the accounts, which run on and can be put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def advance(self, seconds: float) -> None:
        self.ahead += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    now, monotonic = clock_module.now, clock_module.monotonic
    monkeypatch.setattr(clock_module, "now", lambda: now() + round(clock.ahead * 1000))
    monkeypatch.setattr(clock_module, "monotonic", lambda: monotonic() + clock.ahead)
    return clock


@pytest.fixture
def log_stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(log_stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What the layers that answer write to the log."""
    text = log_stream
    logger = structlog.wrap_logger(
        structlog.PrintLogger(text),
        processors=[logs.with_request_id, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()],
    )
    for module in (middleware, problems):
        monkeypatch.setattr(module, "log", logger)
    return text


def settings_of(home: pathlib.Path, **overrides: str) -> Settings:
    keys = {"security.client-id": CLIENT[0], "security.client-secret": CLIENT[1]}
    return settings.load(home, {}, keys | overrides)


@pytest.fixture(scope="session")
def first_home(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A home with a database and users, of which every test gets a copy."""
    home = tmp_path_factory.mktemp("first-home")
    migrate(settings_of(home).database_url)
    asyncio.run(_populate(settings_of(home)))
    return home


async def _populate(chosen: Settings) -> None:
    key = SecretKey.load(chosen.secret_key_file, {})
    database, passwords = Database(chosen.database_url), Passwords()
    paths = HomePaths(str(chosen.home), PATH_OPTIONS, keep_relative=chosen.database_in_home)
    await Connections(database, Vault(key), paths).add("local", "local", {"folder": str(chosen.files_folder)}, {})
    users = Users(database, passwords)
    for name, rights in RIGHTS.items():
        await users.add(name, PASSWORD, root="/web", rights=rights)
    passwords.close()
    await database.close()


@pytest.fixture(scope="session", autouse=True)
def one_page() -> Iterator[None]:
    """All gateways of this process have the same page: bundling and packing it takes longer than most tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("portico.server.application.WebPage", cache(WebPage))
        yield


@pytest.fixture
async def open_gateway(
    first_home: pathlib.Path, tmp_path: pathlib.Path, log_stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[OpenGateway]:
    # A sweep that is cut off in the middle by the end of a short test leaves a database thread without its loop.
    monkeypatch.setattr("portico.server.composition._repeat", never_sweep)
    async with AsyncExitStack() as stack:

        def request_log(line: logs.RequestLine) -> None:
            print(msgspec.json.encode(line).decode(), file=log_stream)

        async def open_gateway(*, peer: str = "127.0.0.1", **overrides: str) -> Gateway:
            home = tmp_path / "home"
            shutil.copytree(first_home, home)
            chosen = settings_of(home, **overrides)
            (chosen.files_folder / "web").mkdir(parents=True)
            return await stack.enter_async_context(running(chosen, peer=peer, request_log=request_log))

        yield open_gateway


async def never_sweep(*_: object) -> None:
    await asyncio.Event().wait()


@pytest.fixture
async def own_gateway(open_gateway: OpenGateway) -> Gateway:
    return await open_gateway()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_gateway(first_home: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    home = tmp_path_factory.mktemp("shared") / "home"
    shutil.copytree(first_home, home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("portico.server.composition._repeat", never_sweep)
        async with running(settings_of(home)) as gateway:
            yield gateway


@pytest.fixture
def gateway(request: pytest.FixtureRequest) -> Gateway:
    """A gateway without files. In modules that share one, each test gets new users and a new root folder."""
    if request.node.get_closest_marker("asyncio") != SHARES_GATEWAY.mark:
        own: Gateway = request.getfixturevalue("own_gateway")
        return own
    common: Gateway = request.getfixturevalue("shared_gateway")
    shared = replace(common, root=f"web-{next(_NUMBERS)}")
    shared.files.mkdir(parents=True)
    _renew_users(request.getfixturevalue("first_home") / DATABASE, shared.settings.home / DATABASE, shared.root)
    return shared


def _renew_users(first: pathlib.Path, changed: pathlib.Path, root: str) -> None:
    with closing(sqlite3.connect(changed, isolation_level="IMMEDIATE")) as database:
        database.execute("PRAGMA foreign_keys = ON")
        database.execute("ATTACH ? AS first", [str(first)])
        with database:
            database.execute("CREATE TEMP TABLE renewed AS SELECT * FROM first.users")
            database.execute("UPDATE renewed SET reach = replace(reach, '/web', ?)", [f"/{root}"])
            database.execute("UPDATE renewed SET id = id + (SELECT seq FROM main.sqlite_sequence WHERE name = 'users')")
            database.execute("DELETE FROM users")  # and with them all that they have
            database.execute("INSERT INTO users SELECT * FROM renewed")
            database.execute(
                "INSERT INTO mounts SELECT NULL, users.id, NULL, path, connection, ?, rights, first.mounts.origin"
                " FROM first.mounts JOIN first.users AS former ON former.id = user_id JOIN main.users USING (name)",
                [f"/{root}"],
            )
