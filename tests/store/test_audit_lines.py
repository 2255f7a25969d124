import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from portico.model.errors import Unavailable
from portico.observability.audit import AuditLine, AuditLog, AuditTrail
from portico.store import audit_lines
from portico.store.audit_lines import DatabaseAudit, find_lines, open_trail, remove_lines
from portico.store.database import Database
from portico.store.leases import Leases

from ..fixtures import Clock


def line(action: str = "delete", **fields: Any) -> AuditLine:
    return AuditLine(action=action, **fields)


@pytest.fixture
def losses() -> list[str]:
    return []


@pytest.fixture
async def required(database: Database, losses: list[str]) -> AsyncIterator[DatabaseAudit]:
    audit = DatabaseAudit(database, node="one", required=True, on_loss=lambda why, _: losses.append(why))
    yield audit
    await audit.close()


@pytest.fixture
async def queued(
    database: Database, losses: list[str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[DatabaseAudit]:
    monkeypatch.setattr(audit_lines, "_RETRY_SECONDS", 0.01)
    audit = DatabaseAudit(database, node="one", on_loss=lambda why, _: losses.append(why))
    yield audit
    await audit.close()


async def outcomes(database: Database) -> list[tuple[str, str]]:
    return [(each["action"], each["outcome"]) for each in await find_lines(database)]


async def break_table(database: Database) -> None:
    await database.execute(text("ALTER TABLE audit_lines RENAME TO away"))


async def restore_table(database: Database) -> None:
    await database.execute(text("ALTER TABLE away RENAME TO audit_lines"))


async def test_required_lines_are_there_when_the_call_returns(database: Database, required: DatabaseAudit) -> None:
    await required.check()
    await required.begin(line())
    assert await outcomes(database) == [("delete", "begun")]
    await required.end(line())
    await required.record(line("sign-in"))
    assert await outcomes(database) == [("delete", "begun"), ("delete", "done"), ("sign-in", "done")]


async def test_without_its_line_a_required_change_is_refused(
    database: Database, required: DatabaseAudit, losses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_lines, "_RETRY_SECONDS", 0.01)
    await break_table(database)
    for write in (required.begin, required.record):
        with pytest.raises(Unavailable, match="audit log"):
            await write(line())
    assert len(losses) == 2
    await restore_table(database)
    await required.end(line("mkdir"))
    found = await find_lines(database)
    assert [(each["action"], each.get("lost")) for each in found] == [("mkdir", None), ("audit", 2)]


async def test_the_line_of_a_change_that_happened_is_kept_until_it_can_be_written(
    database: Database, queued: DatabaseAudit, losses: list[str]
) -> None:
    await break_table(database)
    await queued.begin(line())  # writes nothing: it is not required
    await queued.end(line("mkdir"))
    await queued.record(line("sign-in"))
    await restore_table(database)
    await queued.close()
    assert await outcomes(database) == [("mkdir", "done"), ("sign-in", "done")]
    assert losses == []


async def test_more_lines_than_can_wait_are_lost_and_counted(
    database: Database, queued: DatabaseAudit, losses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_lines, "MAX_QUEUED", 3)
    for number in range(5):
        await queued.end(line(f"action-{number}"))
    assert (queued.queued, len(losses)) == (3, 2)
    await queued.close()
    found = await find_lines(database)
    assert [each["action"] for each in found] == ["action-0", "action-1", "action-2", "audit"]
    assert found[-1]["lost"] == 2


async def test_lines_of_concurrent_changes_are_written_together(
    database: Database, required: DatabaseAudit, transactions: list[None], queries: list[None]
) -> None:
    await asyncio.gather(*(required.begin(line(path=f"/{number}")) for number in range(50)))
    assert len(await find_lines(database)) == 50
    assert len(transactions) + len(queries) < 10


async def test_what_cannot_be_written_before_the_end_is_lost(
    database: Database, queued: DatabaseAudit, losses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_lines, "_CLOSE_SECONDS", 0.05)
    await break_table(database)
    await queued.end(line())
    await queued.close()
    assert len(losses) == 1


async def test_a_search_finds_the_newest_lines_that_fit(
    database: Database, required: DatabaseAudit, clock: Clock
) -> None:
    for number, user in enumerate(("Ann", "bob", "ann", "os:root")):
        await required.record(line("delete" if number < 3 else "user.add", user=user, path=f"/{number}"))
        clock.advance(3600)

    async def paths(**filters: Any) -> list[str]:
        return [each["path"] for each in await find_lines(database, **filters)]

    assert await paths() == ["/0", "/1", "/2", "/3"]
    assert await paths(limit=2) == ["/2", "/3"]
    assert await paths(user="ANN") == ["/0", "/2"]
    assert await paths(action="delete", user="bob") == ["/1"]
    assert await paths(since=timedelta(hours=2)) == ["/2", "/3"]
    assert (await find_lines(database))[0]["node"] == "one"


async def test_old_lines_are_removed(database: Database, required: DatabaseAudit, clock: Clock) -> None:
    await required.record(line("old"))
    clock.advance(3600)
    await required.record(line("new"))
    assert await remove_lines(database, timedelta(hours=1)) == 0
    clock.advance(1)
    async with Leases(database, "one").held("audit-retention"):
        assert await remove_lines(database, timedelta(hours=1)) == 1
    assert await outcomes(database) == [("new", "done")]


async def test_a_file_and_the_database_have_the_same_lines(
    database: Database, required: DatabaseAudit, tmp_path: Path
) -> None:
    file = tmp_path / "audit.log"
    trail = AuditTrail(AuditLog(str(file), required=True, node="one"), required)
    await trail.check()
    await trail.begin(line(path="/a"))
    await trail.end(line(path="/a"))
    await trail.close()
    found = await find_lines(database)
    assert [json.loads(each) for each in file.read_text().splitlines()] == found
    assert [each["outcome"] for each in found] == ["begun", "done"]


async def test_a_trail_that_is_off(database: Database) -> None:
    trail = open_trail(None, None, node="one", node_in_file="", required=True)
    await trail.begin(line())
    await trail.record(line())
    await trail.end(line())
    await trail.close()
    assert await find_lines(database) == []


async def test_a_file_names_the_node_only_if_asked(tmp_path: Path) -> None:
    for node, named in (("", False), ("two", True)):
        file = tmp_path / f"{node}.log"
        trail = open_trail(str(file), None, node="two", node_in_file=node, required=False)
        await trail.end(line())
        await trail.close()
        assert ('"node":"two"' in file.read_text()) == named
