import asyncio
import errno
import json
import mmap
import os
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path as FilePath
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, text

from portico.model.errors import Unavailable
from portico.model.paths import Path, Place
from portico.model.versions import Version
from portico.observability.audit import INTERRUPTED, AuditLine, AuditLog
from portico.store import begun_changes
from portico.store import journal as module
from portico.store.begun_changes import BegunFiles
from portico.store.begun_rows import BegunRows
from portico.store.database import Database
from portico.store.journal import Journal
from portico.store.journal_retention import remove_rows
from portico.store.recordings import Recording
from portico.store.signatures import Signer
from portico.store.tables import changes_begun, connections, journal, trash
from portico.store.trash import Trashed

from ..fixtures import Clock
from ..journals import lines_of

PLACE = Place("c", Path.parse("/f"))


def line(action: str = "delete", **fields: Any) -> AuditLine:
    return AuditLine(action=action, **fields)


@pytest.fixture
def losses() -> list[str]:
    return []


async def opened(database: Database, losses: list[str], **options: Any) -> AsyncIterator[Journal]:
    """With rows for what has begun, as with PostgreSQL."""
    begun = BegunRows(database, "one")
    opened = Journal(database, node="one", begun=begun, on_loss=lambda why, _: losses.append(why), **options)
    yield opened
    await opened.close()


@pytest.fixture
async def required(database: Database, losses: list[str]) -> AsyncIterator[Journal]:
    async for each in opened(database, losses, is_required=True):
        yield each


@pytest.fixture
async def queued(database: Database, losses: list[str], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Journal]:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.01)
    async for each in opened(database, losses):
        yield each


def change(owner: Journal, action: str = "delete", place: Place = PLACE) -> Recording:
    recording = owner.recording(line(action))
    recording.concern(place)
    return recording


def kept(recording: Recording, size: int = 1) -> Trashed:
    return Trashed(recording.new_trash_id(), "c", "/f", False, size, "deleted", "kept", "ann", 1, 2)


async def rows(database: Database, *columns: str) -> list[tuple[Any, ...]]:
    query = select(*(journal.c[name] for name in columns)).order_by(journal.c.number)
    return [tuple(row) for row in await database.fetch(query)]


async def outcomes(database: Database) -> list[tuple[Any, ...]]:
    return await rows(database, "action", "outcome")


async def count(database: Database, table: Any) -> int:
    return len(await database.fetch(select(table)))


async def break_table(database: Database) -> None:
    await database.execute(text("ALTER TABLE journal RENAME TO away"))


async def restore_table(database: Database) -> None:
    await database.execute(text("ALTER TABLE away RENAME TO journal"))


# A change from its begin to its end


async def test_a_change_is_there_from_its_begin_and_has_one_row_at_its_end(database: Database, queued: Journal) -> None:
    recording = change(queued)
    recording.before = Version(3, etag="e")
    await recording.begin()
    await recording.begin()
    [begun] = await database.fetch(select(changes_begun))
    assert (begun.connection, begun.place, begun.before) == ("c", "/f", '{"size":3,"etag":"e"}')
    assert await outcomes(database) == []
    recording.after = Version(4)
    await recording.settle("done")
    await queued.close()
    assert await rows(database, "number", "outcome", "connection", "place", "before", "after") == [
        (1, "done", "c", "/f", '{"size":3,"etag":"e"}', '{"size":4}')
    ]
    assert await count(database, changes_begun) == 0


async def test_what_a_change_has_kept_is_in_the_trash_when_it_is_settled(database: Database, queued: Journal) -> None:
    await database.execute(insert(connections), {"name": "c", "kind": "local", "options": "{}", "revision": 1})
    recording = change(queued)
    await recording.begin()
    recording.kept = [kept(recording), kept(recording, 2)]
    first, second = recording.trash_ids
    assert first == recording.id
    assert int(second, 16) == int(first, 16) + 1
    await recording.settle("done")
    assert [row.id for row in await database.fetch(select(trash).order_by(trash.c.size))] == [first, second]
    assert await rows(database, "kept") == [(first,)]


async def test_the_connection_of_what_was_kept_may_be_gone(database: Database, queued: Journal) -> None:
    recording = change(queued)
    await recording.begin()
    recording.kept = [kept(recording)]
    await recording.settle("done")
    assert await outcomes(database) == [("delete", "done")]
    assert await count(database, trash) == 0


async def test_a_change_that_cannot_be_recorded_may_not_begin(
    database: Database, queued: Journal, losses: list[str]
) -> None:
    await database.execute(text("ALTER TABLE changes_begun RENAME TO away"))
    recording = change(queued)
    with pytest.raises(Unavailable, match="nothing was changed"):
        await recording.begin()
    await database.execute(text("ALTER TABLE away RENAME TO changes_begun"))
    await recording.settle("unavailable")
    await queued.close()
    assert await outcomes(database) == [("delete", "unavailable")]
    assert losses == []


async def test_a_change_whose_process_has_vanished_is_settled_once_unless_that_ends_it_otherwise(
    database: Database, queued: Journal, clock: Clock
) -> None:
    recording = change(queued)
    await recording.begin()
    other = Journal(database, node="two", begun=BegunRows(database, "two"))
    assert await other.left_open() == []
    clock.advance(60)
    assert await other.left_open() == []
    await queued._begun._leases.renew([queued._begun._lease])  # type: ignore[attr-defined]
    clock.advance(60)
    assert await other.left_open() == [], "the database had failed"
    clock.advance(15)
    [left] = await other.left_open()
    assert (left.id, left.place, left.line.action) == (recording.id, PLACE, "delete")
    await other.settle(left, INTERRUPTED)
    await other.settle(left, INTERRUPTED)
    await recording.settle("done")
    for each in (other, queued):
        await each.close()
    assert await rows(database, "node", "outcome") == [("two", INTERRUPTED), ("one", "done")]


@pytest.mark.parametrize("kind", ["rows", "files"])
async def test_each_connection_has_its_share_of_what_is_settled_at_once(
    database: Database, tmp_path: FilePath, clock: Clock, kind: str
) -> None:
    """Otherwise the changes of a storage that doesn't respond would keep those of others from being settled."""
    killed: Any = BegunRows(database, "one") if kind == "rows" else BegunFiles(str(tmp_path))
    owner = Journal(database, node="one", begun=killed)
    for place in [PLACE] * 5 + [Place("d", PLACE.path)] * 3:
        await change(owner, place=place).begin()
        clock.advance(0.001)
    if kind == "files":
        die(owner)
    clock.advance(600)
    other = BegunRows(database, "two") if kind == "rows" else BegunFiles(str(tmp_path))
    assert sorted(each.connection for each in await other.left(4)) == ["c", "c", "d", "d"]
    assert len(await other.left(100)) == 8
    await other.close()
    await owner.close()


async def test_who_was_given_up_for_dead_still_adds_what_it_has_kept(
    database: Database, queued: Journal, clock: Clock
) -> None:
    await database.execute(insert(connections), {"name": "c", "kind": "local", "options": "{}", "revision": 1})
    recording = change(queued)
    await recording.begin()
    recording.kept = [kept(recording), kept(recording)]
    clock.advance(600)
    other = Journal(database, node="two", begun=BegunRows(database, "two"))
    [left] = await other.left_open()
    await other.settle(left, INTERRUPTED, kept=recording.kept[:1])
    await recording.settle("done")
    await other.close()
    assert await outcomes(database) == [("delete", INTERRUPTED), ("delete", "done")]
    assert await count(database, trash) == 2


async def test_a_change_that_is_settled_has_one_line_whoever_settles_it_and_however_long_that_takes(
    database: Database, losses: list[str], tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.01)
    file, owner = tmp_path / "audit.log", Journal(database, node="gone", begun=BegunRows(database, "gone"))
    await database.execute(insert(connections), {"name": "c", "kind": "local", "options": "{}", "revision": 1})
    recording = change(owner)
    await recording.begin()
    recording.is_in_doubt = True
    await recording.settle("provider-unavailable")
    one, two = (
        Journal(database, AuditLog(str(file)), node=name, begun=BegunRows(database, name)) for name in ("1", "2")
    )
    [left], [also] = await one.left_open(), await two.left_open()
    await break_table(database)
    work = asyncio.create_task(one.settle(left, INTERRUPTED, kept=[kept(recording)]))
    while not one.queued:
        await asyncio.sleep(0.01)
    work.cancel()  # as a sweep that is cut off
    await asyncio.wait({work})
    assert one._settling == {left.id}, "it isn't queued again"
    await restore_table(database)
    assert await one.left_open() == []
    while not await count(database, journal):
        await asyncio.sleep(0.01)
    await database.execute(delete(trash))  # it is restored
    await two.settle(also, INTERRUPTED, kept=[kept(recording)])
    for each in (owner, one, two):
        await each.close()
    assert await outcomes(database) == [("delete", INTERRUPTED)]
    assert [json.loads(each)["outcome"] for each in file.read_text().splitlines()] == [INTERRUPTED]
    assert await count(database, trash) == await count(database, changes_begun) == 0


async def test_what_is_in_doubt_is_left_to_others_at_once(database: Database, queued: Journal) -> None:
    recording = change(queued)
    await recording.begin()
    recording.is_in_doubt = True
    await recording.settle("provider-unavailable")
    [left] = await queued.left_open()
    assert left.id == recording.id
    assert await outcomes(database) == []


async def test_parts_of_a_change_have_rows_of_their_own(database: Database, queued: Journal) -> None:
    recording = change(queued, "copy")
    await recording.begin()
    async with recording.part(PLACE, Place("d", Path.parse("/g")), "/f", "/g") as part:
        await part.begin()
    await recording.settle("done")
    await queued.close()
    assert await rows(database, "action", "place", "target") == [("copy", "/f", "/g"), ("copy", "/f", None)]


async def test_numbers_follow_each_other_across_journals(database: Database) -> None:
    journals = [Journal(database, node=name) for name in ("one", "two", "three")]
    seen: list[int] = []

    async def work(each: Journal) -> None:
        for number in range(20):
            recording = change(each)
            await recording.begin()
            if number % 2:
                recording.kept.append(kept(recording))
            await recording.settle("done")

    async def read() -> None:
        """As somebody who asks for what is new."""
        while len(seen) < 60:
            query = (
                select(journal.c.number).where(journal.c.number > (seen[-1] if seen else 0)).order_by(journal.c.number)
            )
            seen.extend([row.number for row in await database.fetch(query)])

    reader = asyncio.create_task(read())
    await asyncio.gather(*map(work, journals))
    for each in journals:
        await each.close()
    await reader
    assert seen == [*range(1, 61)]


# In files


@pytest.fixture
async def folder(tmp_path: FilePath) -> FilePath:
    return tmp_path / "begun"


def in_files(database: Database, folder: FilePath) -> Journal:
    return Journal(database, node="one", begun=BegunFiles(str(folder)))


def short_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a disk that has only some bytes left."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:1000]))


def failing_map(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOMEM, "no memory")

    monkeypatch.setattr(mmap, "mmap", refuse)


def raising(error: Exception) -> Callable[..., Any]:
    async def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


def die(journal: Journal) -> None:
    """As if the process was killed: its locks end."""
    begun = journal._begun
    assert isinstance(begun, BegunFiles)
    for file in begun._files:
        file.close()
    begun._files.clear()


async def test_a_file_has_the_changes_of_a_process_that_was_killed(database: Database, folder: FilePath) -> None:
    killed, other = in_files(database, folder), in_files(database, folder)
    begun, ended, written = change(killed), change(killed), change(killed)
    for recording in (begun, ended, written):
        await recording.begin()
    await written.settle("done")
    await killed._batches.close(60)
    killed._batches.put = lambda *_, **__: None  # type: ignore[method-assign]
    await ended.settle("done")
    assert await other.left_open() == []
    die(killed)
    [left] = await other.left_open()
    assert left.id == begun.id
    assert [each.id for each in await other.left_open()] == [begun.id]
    await other.settle(left, INTERRUPTED)
    assert await other.left_open() == []
    await other.close()
    assert sorted(await outcomes(database)) == [("delete", "done"), ("delete", "done"), ("delete", INTERRUPTED)]
    assert list(folder.iterdir()) == []


async def test_what_was_taken_over_is_taken_over_again(database: Database, folder: FilePath) -> None:
    killed, second, third = (in_files(database, folder) for _ in range(3))
    recording = change(killed)
    await recording.begin()
    die(killed)
    assert len(await second.left_open()) == 1
    assert await third.left_open() == []
    die(second)
    [left] = await third.left_open()
    await third.settle(left, "done")
    await third.close()
    assert await outcomes(database) == [("delete", "done")]
    assert list(folder.iterdir()) == []


async def test_a_full_file_is_followed_by_another_and_used_again(
    database: Database, folder: FilePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(begun_changes, "_SIZE", 3000)
    journal = in_files(database, folder)
    open_one = change(journal)
    await open_one.begin()
    for _ in range(20):
        recording = change(journal)
        await recording.begin()
        await recording.settle("done")
    assert len(list(folder.iterdir())) > 3
    await journal._batches.close(60)
    assert len(list(folder.iterdir())) <= 3
    other = in_files(database, folder)
    die(journal)
    assert [left.id for left in await other.left_open()] == [open_one.id]
    await other.close()


async def test_without_room_no_change_begins(
    database: Database, folder: FilePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = in_files(database, folder)
    folder.write_text("not a folder")
    recording = change(journal)
    with pytest.raises(Unavailable, match="nothing was changed"):
        await recording.begin()
    await recording.settle("unavailable")
    await journal.close()
    assert await outcomes(database) == [("delete", "unavailable")]


@pytest.mark.parametrize("mistake", [short_write, failing_map])
async def test_a_file_that_gets_no_room_leaves_nothing_behind(
    database: Database, folder: FilePath, monkeypatch: pytest.MonkeyPatch, mistake: Callable[[pytest.MonkeyPatch], None]
) -> None:
    journal = in_files(database, folder)
    with monkeypatch.context() as failing:
        mistake(failing)
        before = os.listdir("/proc/self/fd")
        with pytest.raises(Unavailable, match="nothing was changed"):
            await change(journal).begin()
        assert os.listdir("/proc/self/fd") == before
    assert list(folder.iterdir()) == []
    await change(journal).begin()
    await journal.close()


async def test_a_bug_of_the_database_refuses_one_change_and_no_later_one(
    database: Database, queued: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as failing:
        for way in ("execute", "at_once"):
            failing.setattr(database, way, raising(RuntimeError("a bug")))
        with pytest.raises(RuntimeError, match="a bug"):
            await change(queued).begin()
    recording = change(queued)
    await recording.begin()
    await recording.settle("done")
    await queued.close()
    assert await outcomes(database) == [("delete", "done")]


async def test_what_is_in_doubt_is_settled_by_the_process_itself(database: Database, folder: FilePath) -> None:
    journal = in_files(database, folder)
    recording = change(journal)
    await recording.begin()
    recording.is_in_doubt = True
    await recording.settle("provider-unavailable")
    [left] = await journal.left_open()
    await journal.settle(left, "unknown")
    assert await journal.left_open() == []
    await journal.close()
    assert await outcomes(database) == [("delete", "unknown")]


# Sign-ins and other lines


async def test_required_lines_are_there_when_the_call_returns(database: Database, required: Journal) -> None:
    await required.check()
    recording = change(required)
    await recording.begin()
    await recording.settle("done")
    await required.record(line("sign-in"))
    await required.note(line("mkdir", outcome="forbidden"))
    assert await outcomes(database) == [("delete", "done"), ("sign-in", "done"), ("mkdir", "forbidden")]


async def test_without_its_line_a_required_sign_in_is_refused(
    database: Database, required: Journal, losses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.01)
    await break_table(database)
    with pytest.raises(Unavailable, match="audit log"):
        await required.record(line())
    assert len(losses) == 1
    await restore_table(database)
    await required.note(line("mkdir"))
    found = await lines_of(database)
    assert [(each["action"], each.get("lost")) for each in found] == [("mkdir", None), ("audit", 1)]


async def test_the_line_of_what_has_happened_is_kept_until_it_can_be_written(
    database: Database, queued: Journal, losses: list[str]
) -> None:
    await break_table(database)
    await queued.note(line("mkdir"))
    await queued.record(line("sign-in"))
    await restore_table(database)
    await queued.close()
    assert await outcomes(database) == [("mkdir", "done"), ("sign-in", "done")]
    assert losses == []


async def test_while_rows_wait_for_the_database_no_change_begins(
    database: Database, queued: Journal, folder: FilePath
) -> None:
    with_files = in_files(database, folder)
    for each in (queued, with_files):
        await break_table(database)
        await each.note(line("mkdir"))
        while not each._failure:
            await asyncio.sleep(0.01)
        with pytest.raises(Unavailable, match="nothing was changed"):
            await change(each).begin()
        await restore_table(database)
        while each._failure:
            await asyncio.sleep(0.01)
        recording = change(each)
        await recording.begin()
        await recording.settle("done")
        await each.close()


async def test_a_command_does_not_wait_for_a_database_without_a_journal(database: Database, losses: list[str]) -> None:
    command = Journal(database, node="one", retries=False, on_loss=lambda why, _: losses.append(why))
    await break_table(database)
    await command.note(line())
    await command.close()
    assert (command.queued, losses) == (0, [])
    await restore_table(database)


async def test_more_lines_than_can_wait_are_lost_and_counted(
    database: Database, queued: Journal, losses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_QUEUED", 3)
    for number in range(5):
        await queued.note(line(f"action-{number}"))
    assert (queued.queued, len(losses)) == (3, 2)
    await queued.close()
    found = await lines_of(database)
    assert [each["action"] for each in found] == ["action-0", "action-1", "action-2", "audit"]
    assert found[-1]["lost"] == 2


async def test_changes_that_wait_are_written_together(
    database: Database, queued: Journal, transactions: list[None], queries: list[None]
) -> None:
    recordings = [change(queued) for _ in range(50)]
    await asyncio.gather(*(recording.begin() for recording in recordings))
    await asyncio.gather(*(recording.settle("done") for recording in recordings))
    await queued.close()
    assert await count(database, journal) == 50
    assert len(transactions) + len(queries) < 10


async def test_a_row_that_no_database_takes_does_not_hold_up_the_others(
    database: Database, queued: Journal, losses: list[str]
) -> None:
    poison = line("delete")
    poison.action = None  # type: ignore[assignment]
    await asyncio.gather(*(queued.note(each) for each in (line("mkdir"), poison, line("move"))))
    await queued.close()
    assert [action for action, _ in await outcomes(database)] == ["mkdir", "move", "audit"]
    assert len(losses) == 1


async def test_what_cannot_be_written_before_the_end_is_lost(
    database: Database, queued: Journal, losses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CLOSE_SECONDS", 0.05)
    await break_table(database)
    await queued.note(line())
    await queued.close()
    assert len(losses) == 1
    await restore_table(database)


async def test_a_file_has_the_same_lines(database: Database, tmp_path: FilePath) -> None:
    file = tmp_path / "audit.log"
    both = Journal(database, AuditLog(str(file), required=True, node="one"), node="one", is_required=True)
    await both.record(line("sign-in", user="ann"))
    recording = both.recording(line(path="/a"))
    await recording.begin()
    await recording.settle("done")
    await both.close()
    lines = [json.loads(each) for each in file.read_text().splitlines()]
    assert [each for each in lines if each["outcome"] != "begun"] == await lines_of(database)
    assert [each["outcome"] for each in lines] == ["done", "begun", "done"]


# What is noted once


@pytest.mark.parametrize("in_one_batch", [False, True])
async def test_of_one_id_there_is_one_row_whoever_has_noted_it(
    database: Database, tmp_path: FilePath, in_one_batch: bool
) -> None:
    file = tmp_path / "audit.log"
    journals = [Journal(database, AuditLog(str(file)), node=name) for name in ("one", "two")]
    for number, each in enumerate(journals):
        assert each.note_once("0" * 32, line("download", path="/a"), PLACE)
        assert each.note_once(f"{number}" * 31 + "x", line("download", path=f"/{number}"), None)
        if not in_one_batch:
            await each.close()
    for each in journals:
        await each.close()
    found = await rows(database, "number", "change", "connection", "place")
    assert [(number, place) for number, _, _, place in found] == [(1, "/f"), (2, None), (3, None)]
    written = [json.loads(each)["path"] for each in file.read_text().splitlines()]
    assert written == ["/a", "/0", "/1"] == [each["path"] for each in await lines_of(database)]


async def test_what_is_noted_once_leaves_room_for_changes(
    database: Database, queued: Journal, losses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_QUEUED", 4)
    await break_table(database)
    noted = [queued.note_once(f"{number}", line("download"), None) for number in range(3)]
    assert (noted, len(losses)) == ([True, True, False], 1)
    await queued.note(line("mkdir"))
    await restore_table(database)
    await queued.close()
    assert [action for action, _ in await outcomes(database)] == ["download", "download", "mkdir", "audit"]


# Removing


async def test_old_rows_are_removed_but_the_last_one_which_the_next_number_follows(
    database: Database, required: Journal, clock: Clock
) -> None:
    await required.record(line("old"))
    await required.record(line("newer"))
    assert await remove_rows(database, timedelta(hours=1), Signer(bytes(32))) == 0
    clock.advance(3601)
    assert await remove_rows(database, timedelta(hours=1), Signer(bytes(32))) == 1
    await required.record(line("new"))
    assert await rows(database, "number", "action") == [(2, "newer"), (3, "new")]
