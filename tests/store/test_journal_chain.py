import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from sqlalchemy import select, text, update

from portico.model.errors import Unavailable
from portico.observability.audit import INTERRUPTED, AuditLine, AuditLog
from portico.store import dump, journal_chain, journal_retention, journal_verification
from portico.store import journal as module
from portico.store.begun_changes import Noted
from portico.store.begun_rows import BegunRows
from portico.store.database import Database
from portico.store.dump import load
from portico.store.journal import Journal
from portico.store.journal_chain import BOUND, CHECKPOINT, LOWER_BOUND, Bound, Checkpoint, Head
from portico.store.journal_retention import remove_rows
from portico.store.journal_verification import Report, verify
from portico.store.recordings import BegunChange
from portico.store.signatures import Signer
from portico.store.tables import journal, journal_proofs

from ..fixtures import Clock
from .test_backup import other_url

__all__ = ["other_url"]

SIGNER = Signer(b"k" * 32)
OTHER = Signer(b"o" * 32)
HOUR = timedelta(hours=1)
Open = Callable[..., Journal]


@pytest.fixture
async def opened(database: Database) -> AsyncIterator[Open]:
    """Journals of several processes, in which each line is written when the call returns."""
    journals: list[Journal] = []

    def new(node: str = "one", **options: Any) -> Journal:
        given: dict[str, Any] = {"signer": SIGNER, "is_required": True, "begun": BegunRows(database, node), **options}
        journals.append(Journal(database, node=node, **given))
        return journals[-1]

    yield new
    for each in journals:
        await each.close()


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_verification, "_PAGE", 3)
    monkeypatch.setattr(journal_verification, "_AT_ONCE", 2)


async def record(owner: Journal, count: int = 1, **fields: Any) -> None:
    for number in range(count):
        await owner.record(AuditLine(action="mkdir", path=f"/{number}", **fields))


async def written(opened: Open, count: int = 20) -> str:
    """A process that has ended; returns its chain."""
    owner = opened()
    await record(owner, count)
    await owner.close()
    return owner._chain._id


async def run(database: Database, statement: str, **parameters: Any) -> None:
    await database.execute(text(statement), parameters)


async def swap(database: Database, column: str, one: int, other: int) -> None:
    first, second = [
        (await database.fetch(text(f'SELECT "{column}" FROM journal WHERE number = {number}')))[0][0]
        for number in (one, other)
    ]
    change = f'UPDATE journal SET "{column}" = :value WHERE number = :number'
    await run(database, change, value=second, number=one)
    await run(database, change, value=first, number=other)


async def swap_numbers(database: Database, one: int, other: int) -> None:
    for before, after in ((one, -1), (other, one), (-1, other)):
        await run(database, "UPDATE journal SET number = :after WHERE number = :before", before=before, after=after)


async def found(database: Database, logged: list[str] | None = None) -> list[tuple[str, int | None, int | None]]:
    report = await verify(database, SIGNER, logged or [])
    return [(each.kind, each.first, each.last) for each in report.findings]


async def checkpoints(database: Database) -> dict[str, Checkpoint]:
    rows = await database.fetch(select(journal_proofs).where(journal_proofs.c.name != LOWER_BOUND))
    return {row.name: SIGNER.opened(CHECKPOINT, row.signed, Checkpoint) for row in rows}


async def bound(database: Database) -> Bound:
    row = await database.first(select(journal_proofs).where(journal_proofs.c.name == LOWER_BOUND))
    assert row
    return SIGNER.opened(BOUND, row.signed, Bound)


# What is written


async def test_processes_chain_their_own_rows(database: Database, opened: Open) -> None:
    journals = [opened(f"node-{number}") for number in range(3)]
    await asyncio.gather(*(record(each, 10) for each in journals))
    for each in journals:
        await each.checkpoint()
    report = await verify(database, SIGNER)
    assert (report.findings, report.lines, report.chains, report.unproven) == ([], 30, 3, 0)
    rows = await database.fetch(select(journal).order_by(journal.c.number))
    assert [row.number for row in rows] == [*range(1, 31)]
    for each in journals:
        chain = [row for row in rows if row.chain == each._chain._id]
        assert [row.position for row in chain] == [*range(1, 11)]
        assert [row.previous for row in chain] == [bytes(32), *(row.hash for row in chain[:-1])]
        assert {row.node for row in chain} == {each._node}


async def test_a_checkpoint_names_the_heads_of_others(database: Database, opened: Open) -> None:
    one, two = opened("one"), opened("two")
    await record(one, 2)
    await one.checkpoint()
    await record(two)
    signed = await checkpoints(database)
    mine = signed[one._chain._id]
    assert (mine.node, mine.head.position, mine.head.number, mine.heads) == ("one", 2, 2, {})
    assert signed[two._chain._id].heads == {one._chain._id: mine.head}


async def test_lines_after_the_last_checkpoint_are_not_proven_until_the_next(database: Database, opened: Open) -> None:
    owner = opened()
    await record(owner, 5)
    assert (await verify(database, SIGNER)).unproven == 4  # the first one comes with a checkpoint
    await owner.checkpoint()
    assert (await verify(database, SIGNER)).unproven == 0
    await record(owner)
    await owner.close()
    report = await verify(database, SIGNER)
    assert (report.unproven, report.findings) == (0, [])


async def test_the_log_has_each_checkpoint(database: Database, opened: Open, tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    owner = opened(file=AuditLog(str(file)))
    for count in (1, 2):
        await record(owner, count)
        for _ in range(2):
            await owner.checkpoint()
    await owner.close()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["action"] for line in lines].count("audit.checkpoint") == 2
    signed = [SIGNER.opened(CHECKPOINT, line["checkpoint"], Checkpoint) for line in lines if "checkpoint" in line]
    assert [each.head.position for each in signed] == [1, 3]
    assert signed[-1] == (await checkpoints(database))[owner._chain._id]


async def test_without_the_key_rows_are_in_no_chain(database: Database, opened: Open) -> None:
    keyless = opened(signer=None)
    await record(keyless, 2)
    await keyless.close()
    report = await verify(database, SIGNER)
    assert [finding.kind for finding in report.findings] == ["checkpoint-missing"]
    assert (report.lines, report.before) == (0, 2)
    await written(opened, 3)
    report = await verify(database, SIGNER)
    assert (report.findings, report.lines, report.before) == ([], 3, 2)
    assert (await bound(database)).before == 2


async def test_what_another_process_has_settled_leaves_no_gap(database: Database, opened: Open) -> None:
    owner, other = opened("one"), opened("two")

    async def settle(by: Journal, *changes: str) -> None:
        noted = [Noted(change, 1, "c", "/f", None, None, None, '{"action":"delete"}') for change in changes]
        await asyncio.gather(*(by.settle(BegunChange(each), INTERRUPTED) for each in noted))

    await settle(owner, "a")
    await settle(other, "b", "c")
    await settle(owner, "b", "d", "d", "c")
    await settle(owner, "d")
    await settle(owner, "e")
    rows = await database.fetch(select(journal).order_by(journal.c.number))
    assert [(row.number, row.change, row.node) for row in rows] == [
        *((1, "a", "one"), (2, "b", "two"), (3, "c", "two"), (4, "d", "one"), (5, "e", "one"))
    ]
    await owner.close()
    assert await found(database) == []


async def test_the_first_rows_of_a_process_may_all_be_there(database: Database, opened: Open) -> None:
    for owner in (opened("one"), opened("two")):
        await owner.settle(BegunChange(Noted("a", 1, "c", "/f", None, None, None, '{"action":"delete"}')), INTERRUPTED)
    await record(owner)
    assert len(await checkpoints(database)) == 2
    assert await found(database) == []


@pytest.mark.parametrize("is_committed", [False, True])
async def test_the_chain_goes_on_after_a_commit_that_failed(
    database: Database, opened: Open, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.01)
    owner, at_once = opened(is_required=False), database.at_once
    failed = asyncio.Event()

    async def fails(work: Any, **options: Any) -> Any:
        if failed.is_set():
            return await at_once(work, **options)
        failed.set()

        def wrapped(connection: Any) -> None:
            work(connection)
            if not is_committed:
                raise Unavailable("rolled back")

        await at_once(wrapped, **options)
        raise Unavailable("the connection broke")

    await record(owner, 3)
    while owner.queued:
        await asyncio.sleep(0.01)
    monkeypatch.setattr(database, "at_once", fails)
    await record(owner, 2)
    await failed.wait()
    await record(owner)
    await owner.close()
    report = await verify(database, SIGNER)
    assert (report.findings, report.lines, report.unproven) == ([], 6, 0), "what was committed is not written again"


# What is found


@pytest.mark.usefixtures("small_pages")
async def test_a_removed_line_is_named(database: Database, opened: Open) -> None:
    await written(opened)
    await run(database, "DELETE FROM journal WHERE number = 7")
    assert await found(database) == [("removed", 7, 7)]
    await run(database, "DELETE FROM journal WHERE number IN (1, 12, 13)")
    assert await found(database) == [("removed", 1, 1), ("removed", 7, 7), ("removed", 12, 13)]


async def test_a_line_that_others_took_the_number_of_is_named(database: Database, opened: Open) -> None:
    owner = opened()
    await record(owner, 10)
    await owner.checkpoint()
    [signed] = [row.signed for row in await database.fetch(select(journal_proofs)) if row.name == owner._chain._id]
    await run(database, "DELETE FROM journal WHERE number > 6")
    await record(owner, 10)
    assert await found(database, [signed]) == [("removed", 6, 7)]
    [finding] = (await verify(database, SIGNER)).findings
    assert (finding.kind, finding.text) == (
        "removed",
        f"4 lines of the process {owner._chain._id} on one were removed between the lines 6 and 7.",
    )


COLUMNS = {
    **dict.fromkeys(("user", "key", "link", "session", "address", "action", "outcome", "change", "before"), "x"),
    **dict.fromkeys(("line", "node", "connection", "place", "to_connection", "target", "kept", "after", "chain"), "x"),
    **dict.fromkeys(("at", "position"), 5000),
    **dict.fromkeys(("previous", "hash"), b"x" * 32),
}


@pytest.mark.usefixtures("small_pages")
async def test_a_changed_line_is_named_whatever_was_changed(database: Database, opened: Open) -> None:
    await written(opened)
    assert {*COLUMNS, "number"} == {*journal.c.keys()}
    for name, value in COLUMNS.items():
        row = await database.first(select(journal.c[name]).where(journal.c.number == 7))
        assert row
        assert row[0] != value
        await database.execute(update(journal).where(journal.c.number == 7).values({name: value}))
        assert await found(database) == [("changed", 7, 7)], name
        await database.execute(update(journal).where(journal.c.number == 7).values({name: row[0]}))
    assert await found(database) == []


async def test_a_changed_line_is_named_even_with_a_hash_that_fits(database: Database, opened: Open) -> None:
    chain = await written(opened)

    async def forge(number: int, **values: Any) -> bytes:
        row = await database.first(select(journal).where(journal.c.number == number))
        assert row
        new = {**row._mapping, **values}
        hashed = journal_chain.digest(new)
        await database.execute(update(journal).where(journal.c.number == number).values({**new, "hash": hashed}))
        return hashed

    digest = await forge(15, line="{}")
    assert await found(database) == [("changed", 15, 15)]
    for number in range(16, 21):
        digest = await forge(number, previous=digest)
    [finding] = (await verify(database, SIGNER)).findings
    assert finding.text == f"Line 20, or an earlier one of the process {chain} on one, isn't the one that was signed."


async def test_a_line_that_was_taken_out_of_its_chain_or_inserted_is_named(database: Database, opened: Open) -> None:
    await written(opened)
    nothing = "chain = NULL, position = NULL, previous = NULL, hash = NULL"
    await run(database, f"UPDATE journal SET {nothing} WHERE number = 7")
    await run(
        database,
        "INSERT INTO journal (number, at, node, action, outcome, line) VALUES (21, 1, 'one', 'a', 'done', '{}')",
    )
    assert await found(database) == [("unchained", 7, 7), ("unchained", 21, 21)]


async def test_an_inserted_process_is_named(database: Database, opened: Open) -> None:
    await written(opened)
    row = await database.first(select(journal).where(journal.c.number == 20))
    assert row
    new = {**row._mapping, "number": 21, "chain": "forged", "position": 1, "previous": bytes(32)}
    await database.execute(journal.insert().values({**new, "hash": journal_chain.digest(new)}))
    assert await found(database) == [("checkpoint-missing", 21, 21)]


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("columns", ["line", "outcome", "number", "position", "line user"])
async def test_exchanged_lines_are_named(database: Database, opened: Open, columns: str) -> None:
    one, two = opened("one"), opened("two")
    for number in range(10):
        await record(one, user=f"user-{number}")
        await record(two, user=f"user-{number}", outcome="failed")
    for each in (one, two):
        await each.close()
    for name in columns.split():
        if name == "number":
            await swap_numbers(database, 4, 15)
        else:
            await swap(database, name, 4, 15)
    in_part = [("changed", 4, 4), ("changed", 15, 15)]
    assert await found(database) == (in_part if columns == "line user" else [("reordered", 4, 15)])


async def test_neighbours_that_were_exchanged_are_named(database: Database, opened: Open) -> None:
    await written(opened)
    await swap_numbers(database, 7, 8)
    assert await found(database) == [("reordered", 7, 8)]


async def test_a_text_that_became_bytes_is_named(database: Database, opened: Open) -> None:
    if database.dialect != "sqlite":
        return  # PostgreSQL keeps the types of columns
    owner = opened()
    await record(owner, 20, user="anna")
    await owner.close()
    await run(database, "UPDATE journal SET user = :value WHERE number = 7", value=b64decode("anna"))
    assert await found(database) == [("changed", 7, 7)]


async def test_lines_whose_contents_were_exchanged_are_named(database: Database, opened: Open) -> None:
    await written(opened)
    for name in journal.c.keys():  # noqa: SIM118
        if name not in ("number", *journal_chain.CHAINED, "change"):
            await swap(database, name, 4, 15)
    assert await found(database) == [("reordered", 4, 15)]


@pytest.mark.usefixtures("small_pages")
async def test_a_cut_tail_is_named(database: Database, opened: Open) -> None:
    chain = await written(opened)
    await run(database, "DELETE FROM journal WHERE number > 10")
    [finding] = (await verify(database, SIGNER)).findings
    assert (finding.kind, finding.first, finding.last) == ("cut", 11, 20)
    assert finding.text == (
        f"The end of the journal was cut off: lines 11 to 20 are missing. The process {chain} on one signed line 20."
    )
    await written(opened, 30)
    [finding] = (await verify(database, SIGNER)).findings
    assert finding.text == (
        f"The last 10 lines of the process {chain} on one are missing; the last one that was signed was line 20."
    )
    await run(database, "DELETE FROM journal")
    assert await found(database) == [("cut", 1, 40)]


async def test_a_process_whose_rows_were_removed_is_named(database: Database, opened: Open) -> None:
    gone = await written(opened, 3)
    await written(opened, 3)
    await run(database, "DELETE FROM journal WHERE chain = :chain", chain=gone)
    assert await found(database) == [("removed", 1, 3)]
    await run(database, "DELETE FROM journal_proofs WHERE name = :chain", chain=gone)
    assert await found(database) == [("removed", 1, 3)]


async def test_a_process_that_was_last_and_left_no_trace_is_named_by_others_and_by_the_log(
    database: Database, opened: Open
) -> None:
    await written(opened, 3)
    other = opened("two")
    gone = await written(opened, 3)
    [logged] = [row.signed for row in await database.fetch(select(journal_proofs)) if row.name == gone]
    await record(other)
    await run(database, "DELETE FROM journal WHERE number > 3")
    await run(database, "DELETE FROM journal_proofs WHERE name = :chain", chain=gone)
    assert await found(database) == [("cut", 4, 7)]
    await run(database, "DELETE FROM journal_proofs WHERE name = :chain", chain=other._chain._id)
    assert await found(database) == []
    assert await found(database, [logged]) == [("cut", 4, 6)]
    assert await found(database, [logged[:-8] + "AAAAAAAA"]) == [("forged", None, None)]


async def test_missing_and_forged_checkpoints_are_named(database: Database, opened: Open) -> None:
    chain = await written(opened, 3)
    [row] = await database.fetch(select(journal_proofs).where(journal_proofs.c.name == chain))
    forged = OTHER.sign(CHECKPOINT, Checkpoint(chain, "one", 1, Head(1, 1, bytes(32)), {}))
    for signed in (forged, "", "x", row.signed.replace(".", ".A", 1), row.signed[:-1]):
        await run(
            database, "UPDATE journal_proofs SET signed = :signed WHERE name = :chain", signed=signed, chain=chain
        )
        assert await found(database) == [("forged", None, None)]
    await run(database, "DELETE FROM journal_proofs WHERE name = :chain", chain=chain)
    assert await found(database) == [("checkpoint-missing", 3, 3)]
    await run(database, "UPDATE journal_proofs SET signed = :signed", signed=OTHER.sign(BOUND, Bound(3)))
    assert await found(database) == [("forged", None, None), ("checkpoint-missing", 3, 3)]
    await run(database, "DELETE FROM journal_proofs")
    assert [kind for kind, *_ in await found(database)] == ["checkpoint-missing"] * 2
    await written(opened, 1)  # signs a new lower bound
    assert await found(database) == [("checkpoint-missing", 3, 3)]


async def test_a_whole_journal_of_changed_lines_is_named_up_to_a_limit(
    database: Database, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_verification, "MOST_FINDINGS", 5)
    await written(opened)
    await run(database, "UPDATE journal SET node = 'other'")
    report = await verify(database, SIGNER)
    assert (len(report.findings), report.more) == (5, 15)


async def test_nothing_is_found_while_others_write_and_remove(
    database: Database, opened: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_retention, "_REMOVED_AT_ONCE", 3)
    journals = [opened("one"), opened("two")]
    done = asyncio.Event()

    async def write(owner: Journal) -> None:
        while not done.is_set():
            await record(owner)
            await owner.checkpoint()
            clock.advance(60)
            await remove_rows(database, HOUR, SIGNER)

    writing = [asyncio.create_task(write(each)) for each in journals]
    reports: list[Report] = []
    while len(reports) < 20 or not reports[-1].lines or not (await bound(database)).removed:
        await asyncio.sleep(0.01)
        reports.append(await verify(database, SIGNER))
    done.set()
    await asyncio.gather(*writing)
    assert [each.findings for each in reports if each.findings] == []


# Retention


async def test_retention_signs_its_lower_bound(database: Database, opened: Open, clock: Clock) -> None:
    one, two = opened("one"), opened("two")
    await record(one, 5)
    await two.record(AuditLine(action="mkdir"))
    for each in (one, two):
        await each.checkpoint()
    clock.advance(60)
    assert await remove_rows(database, HOUR, SIGNER) == 0
    clock.advance(1800)
    await record(two, 5)
    await two.checkpoint()
    assert await remove_rows(database, HOUR, SIGNER) == 0
    clock.advance(1801)
    await record(one, 5)
    clock.advance(60)
    assert await remove_rows(database, HOUR, SIGNER) == 6
    report = await verify(database, SIGNER)
    assert (report.findings, report.lines, (await bound(database)).removed) == ([], 10, 6)
    clock.advance(1801)
    assert await remove_rows(database, HOUR, SIGNER) == 5
    assert await found(database) == []
    await run(database, "DELETE FROM journal WHERE number = 12")
    assert await found(database) == [("removed", 12, 12)]


@pytest.mark.parametrize("is_cut_off", [False, True])
async def test_retention_that_takes_too_long_continues_with_the_next_sweep(
    database: Database, opened: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch, is_cut_off: bool
) -> None:
    await written(opened)
    clock.advance(3601)
    await written(opened, 1)
    delete_some, cut_off = database.execute, AsyncMock(side_effect=TimeoutError)
    monkeypatch.setattr(journal_retention, "_REMOVED_AT_ONCE", 8)
    with monkeypatch.context() as slow:

        async def once(*arguments: Any, **options: Any) -> int:
            if is_cut_off:
                slow.setattr(database, "execute", cut_off)
            else:
                clock.advance(481)
            return await delete_some(*arguments, **options)

        slow.setattr(database, "execute", once)
        with pytest.raises(TimeoutError) if is_cut_off else nullcontext():
            assert await remove_rows(database, HOUR, SIGNER) == 8
    assert await remove_rows(database, HOUR, SIGNER) == 12
    assert await remove_rows(database, HOUR, SIGNER) == 0
    assert await found(database) == []


async def test_lines_that_lie_about_their_age_stay(database: Database, opened: Open, clock: Clock) -> None:
    await written(opened)
    clock.advance(60)
    await run(database, "UPDATE journal SET at = 1 WHERE number < 10")
    assert await remove_rows(database, HOUR, SIGNER) == 0
    assert len(await found(database)) == 9


async def test_a_busy_process_has_its_old_rows_removed(database: Database, opened: Open, clock: Clock) -> None:
    owner, removed = opened(), 0
    for _ in range(30):
        await record(owner)
        await owner.checkpoint()
        clock.advance(600)
        removed += await remove_rows(database, HOUR, SIGNER)
    assert removed in range(20, 26)
    assert len((await bound(database)).marks) < 10
    assert await found(database) == []


async def test_the_checkpoints_of_removed_rows_are_removed(database: Database, opened: Open, clock: Clock) -> None:
    for _ in range(5):
        await written(opened, 2)
        clock.advance(3600)
    idle = opened("idle")
    await record(idle)
    clock.advance(7200)
    last = await written(opened, 2)
    await remove_rows(database, HOUR, SIGNER)
    assert set(await checkpoints(database)) == {last}
    assert await found(database) == []
    await record(idle)
    report = await verify(database, SIGNER)
    assert (report.findings, report.lines, report.unproven) == ([], 3, 0)


async def test_rows_are_removed_even_if_the_bound_is_gone(database: Database, opened: Open, clock: Clock) -> None:
    await written(opened)
    clock.advance(3601)
    for statement in ("UPDATE journal_proofs SET signed = ''", "DELETE FROM journal_proofs"):
        await written(opened, 1)
        await run(database, statement)
        assert await remove_rows(database, HOUR, SIGNER) > 0
        assert len(await found(database)) > 0
        clock.advance(3601)


# Copies


async def test_a_copy_is_verified_like_the_original(database: Database, opened: Open, url: str, other_url: str) -> None:
    await written(opened)
    await run(database, "DELETE FROM journal WHERE number = 7")
    async with dump.read(url, without=dump.MOMENTARY) as content:
        await load(other_url, content)
    copy = Database(other_url)
    owner = Journal(copy, node="two", signer=SIGNER, is_required=True)
    await record(owner, 3)
    await owner.close()
    report = await verify(copy, SIGNER)
    assert [(each.kind, each.first) for each in report.findings] == [("removed", 7)]
    assert (report.lines, report.chains) == (22, 2)
    await copy.close()
