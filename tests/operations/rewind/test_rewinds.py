"""Rewinds on a disk. `m` is the actor that is rewound, `b` another one."""

import asyncio
import pathlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest
from sqlalchemy import select, update

from portico.model.errors import ProviderUnavailable, Unavailable
from portico.model.paths import TRASH, Path
from portico.observability.audit import AuditLine
from portico.operations.rewind.rewinds import RewindRequest
from portico.providers.contract.provider import DoesNotFitInTrash
from portico.providers.contract.registry import open_provider
from portico.store.history import ActorFilter
from portico.store.tables import journal, rewinds

from ...conformance.rewind import worlds
from ...conformance.rewind.worlds import Act, World, acts, opened_world

M, B = partial(Act, "m"), partial(Act, "b")
MakeWorld = Callable[[], Awaitable[World]]
Tree = dict[str, bytes | None]


@pytest.fixture
async def make_world(migrated_file: pathlib.Path, tmp_path: pathlib.Path) -> AsyncIterator[MakeWorld]:
    numbers = count()

    async with AsyncExitStack() as stack:

        async def make() -> World:
            top = tmp_path / str(next(numbers))
            providers = []
            for name in ("c", "k"):
                (top / name).mkdir(parents=True)
                providers.append(open_provider("local", {"folder": str(top / name)}))
            world: World = await stack.enter_async_context(opened_world(providers[0], migrated_file, top, providers[1]))
            return world

        yield make


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    return await make_world()


async def done(world: World, *acts: Act) -> tuple[Tree, Tree]:
    """What there is after them."""
    for act in acts:
        assert await world.act(act) == "done"
    await world.settled()
    return await world.tree(), await world.tree("k")


FILES = [B("upload", f"/{path}", content=path.encode()) for path in ("d/f", "d/g", "e/h", "f")]
RENAMED = {
    "a file that was then deleted": [M("move", "/f", "/f.enc"), M("delete", "/f.enc")],
    "a folder in which a file was then deleted": [M("move", "/d", "/x"), M("delete", "/x/f")],
    "a folder that was then deleted": [M("move", "/d", "/x"), M("delete", "/x/f"), M("delete", "/x")],
    "a folder in which a file was then replaced": [M("move", "/d", "/x"), M("upload", "/x/f", content=b"evil")],
    "moved to another connection, then deleted": [M("move", "/d", "/x", to="k"), M("delete", "/x", at="k")],
}


@pytest.mark.parametrize("case", RENAMED)
async def test_what_was_renamed_is_brought_back_where_it_was(world: World, case: str) -> None:
    before = await done(world, *FILES)
    await done(world, *RENAMED[case])
    rewind = await world.rewind(user="m")
    assert (await done(world), rewind.left_alone) == (before, [])


@pytest.mark.parametrize("action", ["copy", "move"])
async def test_a_merge_into_a_folder_of_another_connection_is_left_alone(world: World, action: str) -> None:
    theirs = [B("upload", f"/d/{name}", content=b"theirs", at="k") for name in ("f", "own")]
    await done(world, *FILES, *theirs)
    merged = await done(world, M(action, "/d", "/d", flag=True, to="k"))
    rewind = await world.rewind(user="m")
    assert await done(world) == merged
    assert ("merged", ("k", "d")) in [(each.why, each.location) for each in rewind.left_alone]


IN_THE_WAY = {
    "a file where a folder was": [M("delete", "/d"), M("upload", "/d", content=b"evil")],
    "a file in a new folder where an old one was": [
        M("delete", "/d/f"),
        M("delete", "/d"),
        M("upload", "/d/f", content=b"evil"),
        M("mkdir", "/d/g/new"),
    ],
    "an empty folder where one was": [M("move", "/empty", "/x"), M("mkdir", "/empty")],
    "a folder that was moved into itself": [M("move", "/d", "/x"), M("mkdir", "/d"), M("move", "/x", "/d/f/x")],
    "a file where an empty folder was": [M("delete", "/empty"), M("move", "/f", "/empty")],
    "a file that was moved to where it replaced another one, in a folder that was then deleted": [
        M("move", "/f", "/d/f", flag=True),
        M("delete", "/d"),
        M("upload", "/d/f", content=b"evil"),
    ],
    "what was put into a copy, with what was added to that": [
        M("copy", "/d", "/x"),
        M("move", "/e", "/x/e"),
        M("upload", "/x/e/new", content=b"evil"),
    ],
    "a new folder that was then deleted with what was moved there": [M("move", "/f", "/x/f"), M("delete", "/x")],
    "an older version that was restored, in a folder that was then deleted": [
        M("upload", "/d/f", content=b"first"),
        M("upload", "/d/f", content=b"second"),
        M("restore", "/d/f", flag=True),
        M("delete", "/d"),
    ],
    "folders that have changed places, with a file that was replaced": [
        M("move", "/d", "/x"),
        M("move", "/e", "/d"),
        M("upload", "/d/h", content=b"evil"),
        M("move", "/x", "/e"),
    ],
}


@pytest.mark.parametrize("prefix", ["/", "/p"])
@pytest.mark.parametrize("case", IN_THE_WAY)
async def test_what_is_in_the_way_is_removed_first(world: World, case: str, prefix: str) -> None:
    world.prefix = Path.parse(prefix)
    before = await done(world, *FILES, B("mkdir", "/empty"))
    await done(world, *IN_THE_WAY[case])
    rewind = await world.rewind(user="m")
    assert (await done(world), rewind.left_alone) == (before, [])


class Killed(BaseException):
    pass


@pytest.mark.parametrize("case", IN_THE_WAY)
async def test_a_rewind_that_is_killed_goes_on_where_it_was(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    kill_at, was_killed = 0, True
    while was_killed:
        kill_at += 1
        world = await make_world()
        before = await done(world, *FILES, B("mkdir", "/empty"))
        await done(world, *IN_THE_WAY[case])
        save, calls, was_killed = world.rewinds.records.save, count(1), False

        async def killed(*arguments: Any, save: Any = save, calls: Any = calls, kill_at: int = kill_at) -> bool:
            if next(calls) == kill_at:
                raise Killed
            result: bool = await save(*arguments)
            return result

        monkeypatch.setattr(world.rewinds.records, "save", killed)
        try:
            await world.rewind(user="m")
        except Killed:
            was_killed = True
        [rewind_id] = await world.database.fetch(select(rewinds.c.id))
        await world.rewinds.run(rewind_id.id)
        found = await world.rewinds.get(rewind_id.id)
        assert (await done(world), found.left_alone, found.state) == (before, [], "done"), kill_at


async def planned(world: World) -> str:
    """The id of a rewind that has not begun."""
    request = RewindRequest(ActorFilter(user="m"), 0, by="admin")
    return await world.rewinds.begin(request, await world.rewinds.plan(request))


AFTER_THE_PLAN = {
    "written into a folder that was copied": ([M("copy", "/d", "/x")], B("upload", "/x/own", content=b"own"), "x"),
    "written into a folder that was moved": ([M("move", "/d", "/x")], B("upload", "/x/own", content=b"own"), "d"),
    "restored": ([M("delete", "/f")], B("restore", "/f"), "f"),
}


@pytest.mark.parametrize("case", AFTER_THE_PLAN)
async def test_what_another_one_does_after_the_plan_is_left_alone(world: World, case: str) -> None:
    mine, theirs, place = AFTER_THE_PLAN[case]
    await done(world, *FILES, *mine)
    if theirs.action == "restore":
        theirs = msgspec.structs.replace(theirs, actor="m")  # it is found by who has put it there
    rewind_id = await planned(world)
    expected = await done(world, theirs)
    await world.rewinds.run(rewind_id)
    found = await world.rewinds.get(rewind_id)
    assert await done(world) == expected
    assert [(each.why, each.location, each.by) for each in found.left_alone] == [
        ("conflict", ("c", place), theirs.actor)
    ]


async def test_a_folder_that_the_trash_could_not_hold_is_not_made_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await done(world, *FILES)
    with monkeypatch.context() as patch:
        patch.setattr(world.provider, "move_to_trash", AsyncMock(side_effect=DoesNotFitInTrash))
        expected = await done(world, M("delete", "/d", flag=True))
    rewind = await world.rewind(user="m")
    assert await done(world) == expected
    assert [(each.why, each.location) for each in rewind.left_alone] == [("not-kept", ("c", "d"))]


async def test_what_has_vanished_from_the_storage_is_named(world: World, tmp_path: pathlib.Path) -> None:
    await done(world, *FILES, M("delete", "/f"), M("move", "/d/f", "/x"))
    shutil.rmtree(tmp_path / "0" / "c" / TRASH)
    (tmp_path / "0" / "c" / "x").unlink()
    rewind = await world.rewind(user="m")
    assert [(each.why, each.location) for each in rewind.left_alone] == [
        ("failed", ("c", "f")),
        ("changed", ("c", "d", "f")),
    ]


async def test_the_top_of_a_connection_stays(world: World) -> None:
    world.prefix = Path.parse("/p")
    await done(world, M("upload", "/d/f", content=b"new"))
    rewind = await world.rewind(user="m")
    assert (await done(world), rewind.left_alone) == (({}, {}), [])


async def test_a_place_of_a_former_prefix_is_left_alone(world: World) -> None:
    await done(world, M("upload", "/d/f", content=b"new"))
    world.prefix = Path.parse("/p")
    rewind = await world.rewind(user="m")
    assert {each.why for each in rewind.left_alone} == {"failed"}


async def test_a_rewind_that_nobody_carries_out_is_cancelled_before_it_goes_on(world: World) -> None:
    expected = await done(world, *FILES, M("delete", "/f"))
    rewind_id = await planned(world)
    await world.rewinds.cancel(rewind_id)
    assert await world.rewinds.run(rewind_id)
    assert (await world.rewinds.get(rewind_id)).state == "cancelled"
    assert await done(world) == expected


MOVED = (M("move", "/d", "/x"), M("upload", "/x/f", content=b"m"), M("delete", "/f"))


async def cancelled(world: World, monkeypatch: pytest.MonkeyPatch, after: int) -> str:
    """The id of a rewind that was cancelled when it had saved so often how far it had come, unless it had ended."""
    rewind_id, save, saves = await planned(world), world.rewinds.records.save, count(1)

    async def cancel(*arguments: Any) -> Any:
        if next(saves) == after:
            await world.rewinds.cancel(rewind_id)
        return await save(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(world.rewinds.records, "save", cancel)
        await world.rewinds.run(rewind_id)
    return rewind_id


async def test_a_rewind_that_was_cancelled_midway_is_completed_by_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await done(world, *FILES)
    left = await done(world, *MOVED)
    rewind_id = await cancelled(world, monkeypatch, after=1)
    found = await world.rewinds.get(rewind_id)
    assert found.state == "cancelled"
    assert 0 < found.done < found.steps
    second = await world.rewind(user="m")
    assert second.left_alone == []
    assert await done(world) == before
    both = await world.rewind(session=second.id, also=(ActorFilter(session=rewind_id),))
    assert (await done(world), both.left_alone) == (left, [])


@pytest.mark.parametrize("action", ["move", "move_to_trash", "restore"])
async def test_what_the_storage_refused_is_undone_by_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    before = await done(world, *FILES)
    await done(world, *MOVED)
    with monkeypatch.context() as failing:
        failing.setattr(world.provider, action, AsyncMock(side_effect=ProviderUnavailable("The storage is busy.")))
        assert "failed" in {each.why for each in (await world.rewind(user="m")).left_alone}
    assert (await world.rewind(user="m")).left_alone == []
    assert await done(world) == before


async def test_an_actor_is_rewound_again_and_from_an_earlier_time(world: World) -> None:
    before = await done(world, *FILES)
    await done(world, M("upload", "/d/f", content=b"early"))
    await asyncio.sleep(0.002)  # times are in milliseconds
    since = world.database.now()
    left = await done(world, *MOVED)
    first = await world.rewind(user="m", since=since)
    between = await done(world)
    again = await world.rewind(user="m", since=since)
    assert (again.steps, again.left_alone) == (0, [])
    await world.rewind(session=first.id)
    assert await done(world) == left
    assert (await world.rewind(user="m", since=since)).left_alone == []
    assert await done(world) == between
    assert (await world.rewind(user="m")).left_alone == []
    assert await done(world) == before


async def test_what_an_earlier_rewind_of_a_longer_time_has_undone_is_not_done_again(world: World) -> None:
    before = await done(world, *FILES)
    await done(world, M("upload", "/d/f", content=b"early"))
    await asyncio.sleep(0.002)
    since = world.database.now()
    await done(world, *MOVED)
    await world.rewind(user="m")
    assert {each.why for each in (await world.rewind(user="m", since=since)).left_alone} == {"conflict"}
    assert await done(world) == before


HIDES = {
    "a merge": [M("upload", "/junk/j"), M("copy", "/junk", "/d", flag=True)],
    "a merge that is refused": [M("mkdir", "/junk/f"), M("move", "/junk", "/d", flag=True)],
    "a merge into a folder that was moved": [
        M("move", "/d", "/x"),
        M("upload", "/junk/j"),
        M("move", "/junk", "/x", flag=True),
    ],
}


@pytest.mark.parametrize("case", HIDES)
async def test_a_merge_does_not_save_what_the_actor_did_to_the_files_of_the_folder(world: World, case: str) -> None:
    before, _ = await done(world, *FILES)
    await done(world, M("upload", "/d/f", content=b"m"), M("delete", "/d/g", flag=True))
    for act in HIDES[case]:
        await world.act(act)
    rewind = await world.rewind(user="m")
    found, _ = await done(world)
    assert before.items() <= found.items(), rewind
    assert found.keys() - before.keys() <= {"/d/j", "/junk", "/junk/f"}


def failing_from(monkeypatch: pytest.MonkeyPatch, provider: Any, call: int) -> None:
    """What writes to a storage fails from this call on."""
    write, calls = provider.write, count(1)

    async def failing(*arguments: Any) -> Any:
        if next(calls) >= call:
            raise ProviderUnavailable("The storage is busy.")
        return await write(*arguments)

    monkeypatch.setattr(provider, "write", failing)


async def test_a_move_to_another_connection_that_stops_halfway_does_not_save_what_was_done_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, _ = await done(world, *FILES)
    await done(world, M("upload", "/d/f", content=b"m"), M("upload", "/d/g", content=b"m"))
    with monkeypatch.context() as patch:
        failing_from(patch, (await world.of_connection("k"))._provider, 2)
        assert await world.act(M("move", "/d", "/x", to="k")) == "provider-unavailable"
    rewind = await world.rewind(user="m")
    assert (await world.tree(), [each.why for each in rewind.left_alone]) == (before, ["not-known"])


@pytest.mark.parametrize("action", ["move", "delete"])
async def test_what_stops_halfway_comes_back_whole(world: World, tmp_path: pathlib.Path, action: str) -> None:
    before = await done(world, *FILES)
    await done(world, M("upload", "/d/f", content=b"m"), M(action, "/d", "/x" if action == "move" else ""))
    await world.database.execute(update(journal).where(journal.c.action == action).values(outcome="unknown"))
    top = tmp_path / "0" / "c"
    arrived = top / "x" if action == "move" else next((top / TRASH).glob("*/g")).parent
    (top / "d").mkdir()
    (arrived / "f").rename(top / "d" / "f")
    rewind = await world.rewind(user="m")
    assert (await done(world), rewind.left_alone) == (before, [])


async def test_a_rewind_that_stopped_halfway_is_completed_by_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await done(world, *FILES)
    await done(world, M("move", "/d", "/x", to="k"))
    with monkeypatch.context() as patch:
        failing_from(patch, world.provider, 2)
        first = await world.rewind(user="m")
    second = await world.rewind(user="m")
    assert (await done(world), second.left_alone) == (before, []), first


INSTEAD = {
    "deleted": [M("delete", "/d"), M("mkdir", "/d"), M("copy", "/junk", "/d", flag=True)],
    "deleted for good": [M("delete", "/d", flag=True), M("copy", "/junk", "/d"), M("move", "/junk", "/d", flag=True)],
    "moved away": [M("move", "/d", "/x"), M("upload", "/d/own"), M("copy", "/junk", "/d", flag=True)],
    "moved to another connection": [
        M("move", "/d", "/x", to="k"),
        M("mkdir", "/d/e"),
        M("copy", "/junk", "/d/e", flag=True),
    ],
}


@pytest.mark.parametrize("case", INSTEAD)
async def test_a_folder_comes_back_also_if_others_were_merged_where_it_was(world: World, case: str) -> None:
    before, other = await done(world, *FILES)
    left = await done(world, M("upload", "/d/f", content=b"m"), M("upload", "/junk/j"), *INSTEAD[case])
    rewind = await world.rewind(user="m")
    found, theirs = await done(world)
    assert (before.items() <= found.items(), theirs) == (True, other), rewind
    assert {each.why for each in rewind.left_alone} <= {"merged", "conflict"}
    assert all(path.startswith(("/d (merged)", "/junk")) for path in found.keys() - before.keys())
    await world.rewind(user="m")
    assert await done(world) == (found, theirs)
    assert (await world.rewind(session=rewind.id)).left_alone == []
    assert await done(world) == left


@pytest.mark.parametrize("action", ["move", "copy"])
async def test_a_file_that_could_not_replace_a_folder_is_not_in_the_report(world: World, action: str) -> None:
    before = await done(world, *FILES)
    assert await world.act(M(action, "/f", "/d", flag=True)) == "is-a-folder"
    assert (await world.rewind(user="m")).left_alone == []
    assert await done(world) == before


async def test_what_was_deleted_for_good_and_is_left_alone_is_in_the_trash(world: World) -> None:
    await done(world, *FILES, M("delete", "/f", flag=True), B("upload", "/f", content=b"b"))
    assert [each.why for each in (await world.rewind(user="m")).left_alone] == ["conflict"]
    assert [item.path for item in (await world.drive("b").trash.page(10))[0]] == ["/f"]


async def test_what_is_in_the_trash_again_needs_no_step(world: World) -> None:
    await done(world, *FILES, B("delete", "/f"))
    [item] = (await world.drive("b").trash.page(10))[0]
    change = world.journal.recording(AuditLine(action="trash.remove", user="m", path="/f"))
    await world._remove(item, change)
    await change.settle("done")
    assert (await world.drive("b").trash.page(10))[0] == []
    assert [(await world.rewind(user="m")).steps for _ in range(2)] == [1, 0]
    assert len((await world.drive("b").trash.page(10))[0]) == 1


async def test_a_folder_that_was_made_and_removed_needs_no_step(world: World) -> None:
    await done(world, M("mkdir", "/x"))
    drive, change = world.drive("m"), world.journal.recording(AuditLine(action="delete", user="m", path="/x"))
    await drive.delete(Path(("x",)), change=change)
    await change.settle("done")
    rewind = await world.rewind(user="m")
    assert (rewind.steps, rewind.left_alone) == (0, [])


async def test_a_folder_that_another_one_makes_too_stays(world: World) -> None:
    await done(world, M("upload", "/x/f"), M("mkdir", "/x/y"), M("mkdir", "/z"))
    await done(world, B("mkdir", "/x/y"))
    assert await done(world, M("delete", "/x/y"), M("upload", "/x/g"))
    rewind = await world.rewind(user="m")
    assert (sorted(await world.tree()), rewind.left_alone) == (["/x", "/x/y"], [])


async def test_generated_work_of_one_actor_is_undone_as_a_whole(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, thorough: bool
) -> None:
    """Also if a first rewind is cancelled. Both can be undone together."""
    undone, cases = 0, 24 if thorough else 10
    for seed in range(cases):
        world, twins = await make_world(), seed % 2 == 1
        for act in acts(seed, 15, ("b",), apart=False, connections=("c", "k"), twins=twins):
            await world.act(act)
        before = await done(world)
        for act in acts(1000 + seed, 25, ("m",), apart=False, connections=("c", "k"), twins=twins):
            await world.act(act)
        left = await done(world)
        first = await cancelled(world, monkeypatch, after=seed % 4)
        await world.settled()
        rewind = await world.rewind(user="m")
        allowed = {"conflict", "merged", "not-known", "changed"} | (
            {"failed"} if twins else set()
        )  # a move into a twin
        assert {each.why for each in rewind.left_alone} <= allowed, (seed, rewind)
        if not rewind.left_alone:
            undone += 1
            assert await done(world) == before, seed
            both = await world.rewind(session=rewind.id, also=(ActorFilter(session=first),))
            assert (await done(world), both.left_alone) == (left, []), seed
    assert undone > cases // 5


@pytest.mark.parametrize("action", ["upload", "copy", "move"])
async def test_what_was_replaced_without_a_trash_is_not_taken_for_new(
    world: World, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    await done(world, *FILES)
    with monkeypatch.context() as without:
        without.setattr(worlds, "KEEP", timedelta(0))
        act = M("upload", "/f", content=b"evil") if action == "upload" else M(action, "/d/f", "/f", flag=True)
        after = await done(world, act)
    rewind = await world.rewind(user="m")
    assert await done(world) == after
    assert [(each.why, each.location) for each in rewind.left_alone] == [("not-kept", ("c", "f"))]


async def test_what_was_new_without_a_trash_is_removed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = await done(world, *FILES)
    with monkeypatch.context() as without:
        without.setattr(worlds, "KEEP", timedelta(0))
        await done(world, M("upload", "/new", content=b"evil"))
    rewind = await world.rewind(user="m")
    assert (await done(world), rewind.left_alone) == (before, [])


async def test_a_rewind_that_another_process_carries_out_by_now_ends_here(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await done(world, *FILES, *MOVED)
    rewind_id, save = await planned(world), world.rewinds.records.save

    async def save_late(*arguments: Any) -> Any:
        monkeypatch.undo()
        await world.database.execute(update(rewinds).values(done=1))  # as another process has
        return await save(*arguments)

    monkeypatch.setattr(world.rewinds.records, "save", save_late)
    with pytest.raises(Unavailable, match="Another process"):
        await world.rewinds.run(rewind_id)
    assert (await world.rewinds.get(rewind_id)).state == "running"


async def test_the_journal_says_who_has_begun_a_rewind(world: World) -> None:
    await done(world, *FILES, M("delete", "/f"))
    rewind = await world.rewind(user="m")
    await world.settled()
    [row] = await world.database.fetch(select(journal).where(journal.c.action == "rewind"))
    assert (row.user, msgspec.json.decode(row.line)["subject"]) == ("admin", rewind.id)
