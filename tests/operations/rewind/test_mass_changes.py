from collections.abc import Iterator
from datetime import timedelta
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from sqlalchemy import insert
from structlog.testing import capture_logs

from portico.accounts.api_keys import ApiKeys, KeyScope
from portico.accounts.sessions import Sessions
from portico.accounts.share_links import ShareLinks, SharePolicy
from portico.accounts.users import Users
from portico.model.errors import NotFound, Unavailable
from portico.observability.metrics import Metrics
from portico.operations.rewind import mass_changes
from portico.operations.rewind.freezing import Freezing
from portico.operations.rewind.mass_changes import MassChanges
from portico.store.database import Database
from portico.store.history import last_number, removals
from portico.store.journal import Journal
from portico.store.rewinds import RewindRecord, RewindRecords
from portico.store.tables import journal
from portico.store.users import User

from ...fixtures import Clock

WITHIN = timedelta(minutes=10)


class Rows:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def add(self, count: int, **values: Any) -> None:
        base = {"at": self._clock.moment, "node": "n", "user": "alice", "action": "delete", "outcome": "done"}
        base |= {"line": "{}", "kept": "k", "key": None, "link": None} | values
        for _ in range(count):
            number = await last_number(self._database) + 1
            await self._database.execute(insert(journal).values({"number": number, **base}))


@pytest.fixture
def rows(database: Database, clock: Clock) -> Rows:
    return Rows(database, clock)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def watching(database: Database, metrics: Metrics) -> MassChanges:
    return MassChanges(database, Journal(database, node="n"), metrics, most=3, within=WITHIN)


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with capture_logs() as found:
        yield cast("list[Any]", found)


def reported(logged: list[Any]) -> list[tuple[Any, ...]]:
    return [(each.get("user") or each.get("key") or each.get("link"), each.get("files")) for each in logged]


async def test_an_actor_is_reported_once_in_a_while(
    rows: Rows, watching: MassChanges, clock: Clock, logged: list[Any]
) -> None:
    await rows.add(3)
    await rows.add(9, kept=None, action="upload")  # new files
    await rows.add(9, kept=None, outcome="not-found")
    await rows.add(9, user="os:admin")
    await rows.add(9, action="restore")
    await watching.look()
    assert reported(logged) == []
    clock.advance(60)
    await rows.add(1, action="upload")
    for _ in range(2):
        await watching.look()
    assert reported(logged) == [("alice", 4)]
    clock.advance(WITHIN.total_seconds() + 60)
    await rows.add(3)
    await watching.look()
    assert reported(logged) == [("alice", 4)]
    await rows.add(1)
    await watching.look()
    assert reported(logged) == [("alice", 4), ("alice", 4)]


async def test_all_processes_together_report_and_freeze_once(
    rows: Rows,
    database: Database,
    metrics: Metrics,
    watching: MassChanges,
    users: Users,
    alice: User,
    tokens: Sessions,
    clock: Clock,
    logged: list[Any],
) -> None:
    """Also one that is started after the account was enabled again."""
    keys = ApiKeys(database)
    freezing = Freezing(database, users, keys, ShareLinks(database, SharePolicy(True, None, False, ())), tokens)
    await rows.add(4)
    await watching.look(freezing)
    await users.change("alice", disabled=False)
    clock.advance(60)
    other = MassChanges(database, Journal(database, node="other"), metrics, most=3, within=WITHIN)
    await rows.add(3)
    for each in (other, watching):
        await each.look(freezing)
    assert not (await users.get("alice")).disabled
    assert [each["event"] for each in logged] == ["mass-changes", "actor-frozen"]
    clock.advance(WITHIN.total_seconds())
    await rows.add(1)
    for each in (other, watching):
        await each.look(freezing)
    assert (await users.get("alice")).disabled
    assert [each["event"] for each in logged] == ["mass-changes", "actor-frozen"] * 2
    await keys.close()


async def test_keys_and_links_are_actors_of_their_own(rows: Rows, watching: MassChanges, logged: list[Any]) -> None:
    await rows.add(3)
    await rows.add(3, key="k1")
    await rows.add(4, key="k2")
    await rows.add(4, link="l")
    await watching.look()
    assert sorted(reported(logged)) == [("k2", 4), ("l", 4)]


async def test_deletes_of_which_nothing_is_kept_count(rows: Rows, watching: MassChanges, logged: list[Any]) -> None:
    await rows.add(4, kept=None)
    await watching.look()
    assert reported(logged) == [("alice", 4)]


async def test_an_actor_may_be_frozen(
    rows: Rows,
    database: Database,
    watching: MassChanges,
    users: Users,
    alice: User,
    tokens: Sessions,
    logged: list[Any],
) -> None:
    keys = ApiKeys(database)
    key = (await keys.add(alice, KeyScope(name="laptop"))).key
    links = ShareLinks(database, SharePolicy(True, None, False, ()))
    freezing = Freezing(database, users, keys, links, tokens)
    await rows.add(4, key=key.id)
    await rows.add(4)
    await rows.add(4, key="gone", user="nobody")
    await watching.look(freezing)
    with pytest.raises(NotFound):
        await keys.get(alice, key.id)
    assert (await users.get("alice")).disabled
    events = sorted((each["event"], each.get("key") or each.get("user")) for each in logged)
    assert events == sorted(
        [
            ("actor-frozen", "alice"),
            ("actor-frozen", key.id),
            ("actor-not-frozen", "gone"),
            *(("mass-changes", who) for who in ("alice", key.id, "gone")),
        ]
    )
    await keys.close()


async def test_a_users_own_rewind_is_reported(
    rows: Rows, database: Database, watching: MassChanges, logged: list[Any]
) -> None:
    """Otherwise a stolen session could remove files by one. An administrator's is not."""
    for name in ("own", "other"):
        record = RewindRecord(name, "{}", "started", "{}", 0, "[]", cancel_wanted=False, started_at=0)
        await RewindRecords(database).add(record, "[]")
    await rows.add(9, session="other", user="os:root")
    await rows.add(4, session="own")
    await watching.look()
    assert reported(logged) == [("alice", 4)]


async def test_freezing_is_tried_again_while_the_database_is_busy(
    rows: Rows,
    database: Database,
    watching: MassChanges,
    users: Users,
    alice: User,
    tokens: Sessions,
    logged: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    freezing = Freezing(
        database, users, ApiKeys(database), ShareLinks(database, SharePolicy(True, None, False, ())), tokens
    )
    await rows.add(4)
    with monkeypatch.context() as busy:
        busy.setattr(freezing, "freeze", AsyncMock(side_effect=Unavailable("busy")))
        for _ in range(2):
            await watching.look(freezing)
    assert not (await users.get("alice")).disabled
    for _ in range(2):
        await watching.look(freezing)
    assert (await users.get("alice")).disabled
    events = [each["event"] for each in logged]
    assert events == ["mass-changes", *["actor-not-frozen"] * 2, "actor-frozen"]


async def test_rows_are_looked_at_once_also_if_they_remove_nothing(
    rows: Rows, watching: MassChanges, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal may have millions of them."""
    looked = AsyncMock(side_effect=removals)
    monkeypatch.setattr(mass_changes, "removals", looked)
    await rows.add(3, kept=None, action="upload")
    await watching.look()
    await rows.add(2, kept=None, action="upload")
    await watching.look()
    await watching.look()
    assert [call.args[1:3] for call in looked.call_args_list] == [(0, 3), (3, 5), (5, 5)]
