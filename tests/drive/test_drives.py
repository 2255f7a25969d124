"""From users to the providers behind their connections."""

import asyncio
import contextlib
import errno
import os
import pathlib
import shutil
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog

from portico.accounts.connections import Connection, Connections
from portico.accounts.users import Users
from portico.drive.connection_pool import ConnectionPool, StorageUnusable
from portico.drive.cursors import CursorSeal
from portico.drive.instrumented import InstrumentedProvider
from portico.model.entries import Entry
from portico.model.errors import NotFound, PorticoError, ProviderRefused, ProviderUnavailable, Unavailable
from portico.model.paths import Path
from portico.model.rights import Right
from portico.observability.metrics import Metrics
from portico.providers.contract.provider import Provider
from portico.providers.folders import volume_id
from portico.providers.folders import volume_id as folder_access
from portico.providers.local.provider import LocalProvider
from portico.server.composition import _sweeping
from portico.store.database import Database
from portico.store.leases import Leases
from portico.store.users import User

from ..fixtures import SQLITE_IS_ENOUGH


@pytest.fixture
async def pool(connections: Connections, database: Database) -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool(connections, CursorSeal(bytes(32)), Metrics(), Leases(database, "node"))
    yield pool
    await pool.close()


@pytest.fixture
def asked(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The connections that were looked up."""
    names: list[str] = []
    get = connections.get

    async def counted(name: str) -> Connection:
        names.append(name)
        return await get(name)

    monkeypatch.setattr(connections, "get", counted)
    return names


@SQLITE_IS_ENOUGH
async def test_many_at_once_look_a_connection_up_once(pool: ConnectionPool, alice: User, asked: list[str]) -> None:
    found = await asyncio.gather(*(pool.of(alice) for _ in range(100)))
    assert asked == ["local"]
    assert len({id(drive._provider) for drive in found}) == 1
    await pool.of(alice)
    assert asked == ["local"]


@SQLITE_IS_ENOUGH
async def test_a_look_that_is_under_way_ends_with_the_drives(
    pool: ConnectionPool, alice: User, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def endless(_: str) -> Any:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(connections, "get", endless)
    waiting = asyncio.create_task(pool.of(alice))
    await begun.wait()
    await pool.close()
    await asyncio.wait([waiting], timeout=60)
    assert waiting.cancelled()


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[LocalProvider]:
    """The providers that were closed, once for each time."""
    providers: list[LocalProvider] = []
    close = LocalProvider.close

    async def counted(self: LocalProvider) -> None:
        providers.append(self)
        await close(self)

    monkeypatch.setattr(LocalProvider, "close", counted)
    return providers


@pytest.mark.parametrize("opens_again", [True, False])
@SQLITE_IS_ENOUGH
async def test_a_replaced_provider_is_retired_and_closed_once(
    pool: ConnectionPool,
    alice: User,
    connections: Connections,
    closed: list[LocalProvider],
    monkeypatch: pytest.MonkeyPatch,
    opens_again: bool,
) -> None:
    """However often the changed connection is tried and cannot be opened."""
    monkeypatch.setattr("portico.drive.connection_pool._TRUSTED_SECONDS", 0.0)
    await pool.of(alice)
    await connections.change("local", options={"unknown": "option"}, secrets={})
    for _ in range(5):
        with pytest.raises(ProviderRefused):
            await pool.of(alice)
        assert len(pool._retired) == 1
    if opens_again:
        await connections.change("local", options={"unknown": None}, secrets={})
        await pool.of(alice)
        assert len(pool._retired) == 1
    await pool.close()
    assert len(closed) == len(set(closed)) == (2 if opens_again else 1)


@SQLITE_IS_ENOUGH
async def test_a_folder_is_checked_for_what_its_users_may_do(
    pool: ConnectionPool,
    connections: Connections,
    users: Users,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = tmp_path / "files"
    place.mkdir()
    await connections.change("local", options={"folder": str(place)}, secrets={})
    await connections.add("unused", "local", {"folder": "/missing"}, {})
    await connections.add("cloud", "no-such-kind", {}, {})
    await users.add("stray", "correct horse", connection="cloud")
    await users.add("reader", "correct horse", connection="local", rights=[Right.LIST])
    monkeypatch.setattr(folder_access, "_has_access", lambda _, access: not access & os.W_OK)
    await pool.check()

    await users.change("reader", rights=[Right.LIST, Right.UPLOAD])
    with pytest.raises(Unavailable) as refusal:
        await pool.check()
    assert str(place) not in refusal.value.detail
    assert "The folder of the connection 'local' can't be written" in refusal.value.detail
    assert f"'local': the connection's folder {place} can't be written" in (refusal.value.cause or "")

    monkeypatch.undo()
    await pool.check()
    shutil.rmtree(place)
    with pytest.raises(Unavailable) as refusal:
        await pool.check()
    assert refusal.value.detail == "The folder of the connection 'local' is missing."
    assert f"{place} is missing" in (refusal.value.cause or "")
    assert not place.exists()


@SQLITE_IS_ENOUGH
async def test_an_unforeseen_error_of_one_connection_is_its_own(
    pool: ConnectionPool,
    connections: Connections,
    users: Users,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("broken", "works"):
        (tmp_path / name).mkdir()
        await connections.add(name, "local", {"folder": str(tmp_path / name)}, {})
    await users.add("ann", "correct horse", connection="broken")
    check = LocalProvider.check

    async def broken(self: LocalProvider, *, writable: bool) -> None:
        if self.identity.endswith("broken"):
            raise ZeroDivisionError("canary")
        await check(self, writable=writable)

    monkeypatch.setattr(LocalProvider, "check", broken)
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            with pytest.raises(StorageUnusable) as refusal:
                await pool.check()
    assert refusal.value.detail == "The connection 'broken' can't be used; the log says why."
    assert "canary" in (refusal.value.cause or "")
    assert [(line["event"], line["connection"]) for line in lines] == [("bug", "broken")]

    await users.add("bob", "correct horse", connection="works")
    await pool.check()
    await pool.watch()
    assert (pool.usable["broken"], pool.usable["works"]) == (False, True)


@SQLITE_IS_ENOUGH
async def test_a_damaged_volume_id_takes_down_its_connection_only(
    pool: ConnectionPool, connections: Connections, users: Users, tmp_path: pathlib.Path
) -> None:
    for name in ("damaged", "works"):
        (tmp_path / name).mkdir()
        await connections.add(name, "local", {"folder": str(tmp_path / name)}, {})
    (tmp_path / "damaged/.portico~volume").write_bytes(b"a\0b")
    user = await users.add("ann", "correct horse", connection="damaged")
    with pytest.raises(StorageUnusable, match="'damaged' has a damaged volume id"):
        await pool.check()
    with pytest.raises(ProviderUnavailable):
        await (await pool.of(user)).list_page(Path(), 10)
    await users.add("bob", "correct horse", connection="works")
    await pool.check()


@SQLITE_IS_ENOUGH
async def test_the_first_who_opens_a_folder_decides_which_it_is(
    connections: Connections, alice: User, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.drive.connection_pool._TRUSTED_SECONDS", 0.0)
    monkeypatch.setattr("portico.drive.connection_pool._SHARED_SECONDS", 0.0)
    share, place = tmp_path / "share", tmp_path / "place"
    share.mkdir()
    await connections.change("local", options={"folder": str(place)}, secrets={})
    leases = Leases(connections._database, "node")
    nodes = [ConnectionPool(connections, CursorSeal(bytes(32)), Metrics(), leases) for _ in range(4)]

    async def list_all() -> list[str | None]:
        async def cause(node: ConnectionPool) -> str | None:
            try:
                await (await node.of(alice)).list_page(Path(), 10)
            except ProviderUnavailable as error:
                return error.cause
            return None

        return [await cause(node) for node in nodes]

    assert all("doesn't exist" in (cause or "") for cause in await list_all())
    assert (await connections.get("local")).volume_id is None
    share.rename(place)  # the share is mounted
    await asyncio.gather(*(node.of(alice) for node in nodes))
    assert await list_all() == [None] * 4
    bound = await connections.get("local")
    assert (place / ".portico~volume").read_text() == f"{bound.volume_id}\n"

    place.rename(share)
    place.mkdir()
    assert all("not mounted" in (cause or "") for cause in await list_all())
    with pytest.raises(Unavailable) as refusal:
        await nodes[0].check()
    assert "not mounted" in (refusal.value.cause or "")
    assert list(place.iterdir()) == []

    await connections.change("local", options={"folder": str(place)}, secrets={})
    assert await list_all() == [None] * 4
    assert (await connections.get("local")).volume_id != bound.volume_id
    for node in nodes:
        await node.close()


@SQLITE_IS_ENOUGH
async def test_a_folder_that_cannot_be_written_works_without_a_volume_id(
    pool: ConnectionPool, connections: Connections, alice: User, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: int) -> None:
        raise OSError(errno.EROFS, "read-only")

    monkeypatch.setattr(volume_id, "_make", refuse)
    await connections.change("local", options={"folder": str(tmp_path)}, secrets={})
    assert (await (await pool.of(alice)).list_page(Path(), 10)).entries == []
    assert (await connections.get("local")).volume_id is None


@SQLITE_IS_ENOUGH
async def test_a_sweep_that_never_ends_holds_up_no_other(
    pool: ConnectionPool, connections: Connections, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("broken", "endless", "last"):
        (tmp_path / name).mkdir()
        await connections.add(name, "local", {"folder": str(tmp_path / name)}, {})
    swept: set[str] = set()
    others = asyncio.Event()

    async def sweep(self: LocalProvider) -> int:
        if self.identity.endswith("endless"):
            await asyncio.Event().wait()
        swept.add(pathlib.Path(self.identity).name)
        if "last" in swept:
            others.set()
        if self.identity.endswith("broken"):
            raise ZeroDivisionError
        return 0

    monkeypatch.setattr(LocalProvider, "sweep", sweep)
    sweeping = asyncio.create_task(pool.sweep())
    await asyncio.wait_for(others.wait(), 60)
    assert not sweeping.done()
    monkeypatch.setattr("portico.drive.connection_pool.SWEEP_TIMEOUT_SECONDS", 0.01)
    sweeping.cancel()
    await asyncio.wait([sweeping])
    await asyncio.wait_for(pool.sweep(), 60)  # its deadline ends it


@SQLITE_IS_ENOUGH
async def test_few_connections_are_swept_at_the_same_time(
    pool: ConnectionPool, connections: Connections, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        await connections.add(f"c{number}", "local", {"folder": str(tmp_path)}, {})
    running = most = swept = 0

    async def sweep(_: LocalProvider) -> int:
        nonlocal running, most, swept
        running += 1
        most = max(most, running)
        for _turn in range(100):
            await asyncio.sleep(0)
        running -= 1
        swept += 1
        return 0

    monkeypatch.setattr(LocalProvider, "sweep", sweep)
    await pool.sweep()
    assert most <= 8
    assert swept >= 20


@SQLITE_IS_ENOUGH
async def test_why_a_connection_is_not_swept_is_logged_once(
    pool: ConnectionPool, connections: Connections, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await connections.add("refused", "local", {"folder": str(tmp_path)}, {})
    fails = True

    async def sweep(_: LocalProvider) -> int:
        if fails:
            raise ProviderRefused("The storage refuses.", cause="no credentials")
        return 0

    monkeypatch.setattr(LocalProvider, "sweep", sweep)
    with structlog.testing.capture_logs() as lines:
        for outcome in (True, True, False, True):
            fails = outcome
            await pool.sweep()
            # Another sweep, which fails all the time.
            pool.not_swept("refused", "trash-not-swept", ProviderRefused("It refuses.", cause="no credentials"))
    logged = [line["event"] for line in lines if line.get("connection") == "refused"]
    assert logged == ["sweep-failed", "trash-not-swept", "sweep-failed"]


async def test_each_sweep_goes_its_own_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portico.server.composition.SWEEP_INTERVAL_SECONDS", 0.001)
    rounds = asyncio.Semaphore(0)

    class Endless:
        async def sweep(self) -> None:
            await asyncio.sleep(3600)

    class Quick:
        async def sweep(self) -> None:
            rounds.release()

    monkeypatch.setattr("portico.server.composition.FIRST_RUN_SECONDS", 0.01)
    timeout = asyncio.timeout
    monkeypatch.setattr(
        "portico.server.composition.asyncio.timeout", lambda seconds: timeout(seconds if seconds == 0.01 else None)
    )
    sweeps = {"endless": Endless().sweep, "one": Quick().sweep, "two": Quick().sweep}
    async with _sweeping(Metrics(), sweeps):
        for _ in range(6):
            await asyncio.wait_for(rounds.acquire(), 60)


@SQLITE_IS_ENOUGH
async def test_connections_that_do_not_work_are_noticed(
    pool: ConnectionPool, connections: Connections, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "files"
    place.mkdir()
    await connections.change("local", options={"folder": str(place)}, secrets={})
    await connections.add("lost", "local", {"folder": "/missing"}, {})
    await connections.add("wrong", "no-such-kind", {}, {})
    with structlog.testing.capture_logs() as log:
        await pool.watch()
        await pool.watch()
        assert pool.usable == {"local": True, "lost": False, "wrong": False}
        place.rename(away := tmp_path / "away")
        await connections.delete("wrong")
        await pool.watch()
        assert pool.usable == {"local": False, "lost": False}
        away.rename(place)
        await pool.watch()
        assert pool.usable == {"local": True, "lost": False}
    assert [(line["event"], line["connection"]) for line in log] == [
        ("connection-down", "lost"),
        ("connection-down", "wrong"),
        ("connection-down", "local"),
        ("connection-up-again", "local"),
    ]
    assert "/missing is missing" in log[0]["cause"]


async def test_a_service_is_as_good_as_its_last_call(tmp_path: pathlib.Path) -> None:
    class Service(LocalProvider):
        """Like those of clouds, whose `check` asks nobody."""

        error: PorticoError | None = None
        check = Provider.check

        async def stat(self, path: Path) -> Entry:
            if self.error:
                raise self.error
            return Entry("a", is_folder=False)

    inner = Service(str(tmp_path))
    provider = InstrumentedProvider(inner, "cloud", Metrics())
    await provider.check(writable=True)
    assert provider.usable is None
    for error, usable in (
        (None, True),
        (ProviderUnavailable("Later.", cause="503 of the service"), False),
        (NotFound("Nothing."), True),
        (ProviderRefused("No."), False),
    ):
        inner.error = error
        with contextlib.suppress(PorticoError):
            await provider.stat(Path())
        assert provider.usable is usable
    await provider.close()


@SQLITE_IS_ENOUGH
async def test_a_folder_that_hangs_takes_nobody_else_down(
    pool: ConnectionPool,
    connections: Connections,
    users: Users,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("portico.drive.connection_pool.CHECK_TIMEOUT_SECONDS", 2.0)
    await connections.change("local", options={"folder": str(tmp_path)}, secrets={})
    (tmp_path / "hanging").mkdir()
    await connections.add("hanging", "local", {"folder": str(tmp_path / "hanging")}, {})
    asked = []
    check = LocalProvider.check

    async def hang(self: LocalProvider, *, writable: bool) -> None:
        if self.identity.endswith("hanging"):
            asked.append(self)
            await asyncio.Event().wait()
        await check(self, writable=writable)

    monkeypatch.setattr(LocalProvider, "check", hang)
    await users.add("ann", "correct horse", connection="hanging")
    for _ in range(3):
        with pytest.raises(Unavailable) as refusal:
            await pool.check()
    assert "did not respond" in (refusal.value.cause or "")
    assert len(asked) == 1
    await users.add("bob", "correct horse", connection="local")
    await pool.check()
    await pool.watch()
    assert pool.usable["hanging"] is False
    assert pool.usable["local"] is True


@pytest.mark.parametrize("error", [Unavailable("The database is down."), TimeoutError(), ValueError("a bug")])
async def test_sweeps_that_fail_are_counted(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portico.server.composition.SWEEP_INTERVAL_SECONDS", 0.001)
    metrics, rounds = Metrics(), asyncio.Semaphore(0)

    async def nothing() -> None:
        pass

    async def fail() -> None:
        rounds.release()
        raise error

    async with _sweeping(metrics, {"trash": fail, "links": nothing}):
        assert metrics.failed_sweeps[("links",)] == [0]
        for _ in range(3):
            await asyncio.wait_for(rounds.acquire(), 60)
    assert metrics.failed_sweeps[("trash",)][0] >= 2
