"""Users undo their own changes, and never more than they may do by hand."""

import asyncio
from typing import Any

import pytest

from portico.drive.drive import Drive
from portico.model.errors import Forbidden, InvalidRequest, NotFound, NotPossible, PorticoError, RequestRunning
from portico.model.rights import Right
from portico.operations.actors.cancellation import ChangeAbandoned
from portico.operations.operations import Operations
from portico.operations.rewind.own import OwnRewind
from portico.operations.sharing.links import LinkKind, LinkOptions

from ..test_mounts import Company, company, impatient
from ..test_scope import Acting, by_key, signed_in
from ..test_second_front_end import PASSWORD, at, chunks, installation

__all__ = ["company", "impatient", "installation"]


async def store(operations: Operations, **files: bytes) -> None:
    for name, content in files.items():
        await operations.files.store(at(f"/{name.replace('_', '/')}"), chunks(content))


def left(found: OwnRewind) -> list[tuple[str | None, str, str | None]]:
    return sorted(
        [(None if each.path is None else str(each.path), each.why, each.user) for each in found.left_alone],
        key=lambda each: (each[0] or "", each[1]),
    )


async def rewound(operations: Operations, *arguments: Any, **options: Any) -> OwnRewind:
    begun = await operations.rewinds.begin(*arguments, **options)
    await operations.rewinds.run(begun.id or "")
    found = await operations.rewinds.get(begun.id or "")
    assert (found.state, found.done) == ("done", sum(found.steps.values()))
    return found


async def now(operations: Any) -> int:
    """Between changes."""
    database = operations.rewinds._rewinds.records.database
    await asyncio.sleep(0.002)
    moment: int = database.now()
    await asyncio.sleep(0.002)
    return moment


def tree(company: Company) -> dict[str, bytes]:
    root = company.files / "web"
    return {str(each.relative_to(root)): each.read_bytes() for each in sorted(root.rglob("*")) if each.is_file()}


async def test_own_changes_are_undone_and_redone(company: Company) -> None:
    async with (await company.user()).request() as operations:
        await store(operations, a=b"a", b=b"b", d_c=b"c")
        before, since = tree(company), await now(operations)
        await store(operations, a=b"changed", d_new=b"new")
        await operations.files.delete(at("/b"))
        await operations.files.move(at("/d"), at("/e"))
        changed, later = tree(company), await now(operations)
        plan = await operations.rewinds.plan(since)
        assert (plan.id, plan.state, plan.left_alone) == (None, "planned", [])
        assert dict(plan.steps) == {"remove": 1, "restore": 2, "move": 1}
        assert tree(company) == changed
        found = await rewound(operations, since)
        assert (found.left_alone_count, tree(company)) == (0, before)
        await rewound(operations, later)  # a rewind is undone like anything else
        assert tree(company) == changed
        with pytest.raises(NotPossible, match="already been started"):
            await operations.rewinds.run(found.id or "")
    async with (await signed_in(company.installation, "reader")).request() as operations:
        for work in (operations.rewinds.get, operations.rewinds.run):
            with pytest.raises(NotFound):
                await work(found.id or "")
    assert {line["subject"] for line in company.installation.lines if line["action"] == "rewind"} >= {found.id}


async def test_between_separate_folders(company: Company) -> None:
    """Of one storage and of two; links follow."""
    everything = "list download upload overwrite share"
    await company.mount("/hr", "local/hr", everything)
    await company.mount("/archive", "archive/", everything)
    async with (await company.user()).request() as operations:
        await store(operations, a=b"a", hr_b=b"b", d_c=b"c")
        link = (await operations.shares.add(at("/hr/b"), LinkKind.DOWNLOAD, LinkOptions())).link.id
        since = await now(operations)
        await operations.files.move(at("/a"), at("/archive/a"))
        await operations.files.move(at("/hr/b"), at("/b"))
        await operations.files.move(at("/d"), at("/archive/d"))
        assert str((await operations.shares.get(link)).path) == "/b"
        found = await rewound(operations, since)
        assert left(found) == []
        assert str((await operations.shares.get(link)).path) == "/hr/b"
    assert tree(company) == {"a": b"a", "d/c": b"c"}
    assert (company.files / "hr/b").read_bytes() == b"b"
    assert [*(company.files.parent / "archive").glob("[!.]*")] == []


async def test_only_in_a_folder_and_a_time(company: Company) -> None:
    await company.mount("/d/archive", "archive/")
    async with (await company.user()).request() as operations:
        since = await now(operations)
        await store(operations, a=b"a", d_b=b"b", d_archive_c=b"c", x=b"x")
        await operations.files.move(at("/x"), at("/d/x"))
        until = await now(operations)
        await store(operations, d_later=b"later")
        plan = await operations.rewinds.plan(since, until, at("/d"))
        assert (dict(plan.steps), left(plan)) == ({"remove": 2}, [("/d/x", "outside", None)])
        assert dict((await operations.rewinds.plan(since, until, at("/d/archive/c"))).steps) == {"remove": 1}
        for wrong in ((until, since), (2**50, None)):
            with pytest.raises(InvalidRequest):
                await operations.rewinds.plan(*wrong)
    await company.mount("/hidden", "archive/none", "")
    async with (await company.user()).request() as operations:
        with pytest.raises(NotFound):
            await operations.rewinds.plan(since, path=at("/hidden"))


async def test_never_more_than_by_hand(company: Company) -> None:
    """What is out of reach, needs a right that was taken away, was changed by others, or removed for good."""
    await company.mount("/hr", "local/hr")
    await company.mount("/archive", "archive/")
    await company.installation.users.add("other", PASSWORD, root="/web")
    user = await company.user()
    async with user.request() as operations:
        await store(operations, hr_old=b"old", archive_f=b"f", lost=b"lost", theirs=b"mine")
        since = await now(operations)
        await store(operations, hr_old=b"new", hr_secret=b"x", archive_g=b"g", mine=b"x", theirs=b"changed")
        await operations.files.move(at("/archive/f"), at("/hr/f"))
        await operations.files.delete(at("/lost"), permanent=True)
        (removed,) = (await operations.files.delete(at("/mine"))).trash_ids
        await operations.trash.remove(removed)
    async with (await signed_in(company.installation, "other")).request() as operations:
        await store(operations, theirs=b"by another")
    await company.unmount("/hr")
    await company.unmount("/archive")
    await company.mount("/archive", "archive/", "list download upload")
    before = tree(company)
    async with (await company.user()).request() as operations:
        plan = await operations.rewinds.plan(since)
        assert not sum(plan.steps.values())
        assert left(plan) == [
            *[(None, "out-of-reach", None)] * 3,
            ("/archive/g", "no-permission", None),
            ("/lost", "not-kept", None),
            ("/theirs", "conflict", "other"),
        ]
        found = await rewound(operations, since)
        assert left(found) == left(plan)
    assert (tree(company), (company.files / "hr/old").read_bytes()) == (before, b"new")


async def test_only_a_signed_in_session(company: Company) -> None:
    for who in (
        await by_key(company.installation),
        Acting(
            company.installation,
            lambda context: company.installation.front_end.gateway.authentication.with_password(
                context, "web", PASSWORD
            ),
        ),
    ):
        async with who.request() as operations:
            with pytest.raises(Forbidden):
                await operations.rewinds.plan(0)


@pytest.mark.parametrize("ending", ["cancelled", "failed"])
async def test_one_at_a_time_and_not_without_the_right(
    company: Company, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    user, begun = await company.user(), asyncio.Event()

    async def endless(*_: Any, **__: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with user.request() as operations:
        since = await now(operations)
        await store(operations, a=b"a")
        monkeypatch.setattr(Drive, "delete", endless)
        gone = asyncio.Event()
        operations._actor.context.client_gone = gone.wait
        first, second = [(await operations.rewinds.begin(since)).id or "" for _ in range(2)]
        work = asyncio.create_task(operations.rewinds.run(first))
        await begun.wait()
        assert (await operations.rewinds.get(first)).state == "running"
        with pytest.raises(RequestRunning):
            await operations.rewinds.run(second)
        with pytest.raises(RequestRunning):
            await operations.rewinds.begin(since)
        assert len(await operations.rewinds._rewinds.records.requests(0)) == 2
        if ending == "cancelled":
            gone.set()
        else:
            await company.installation.users.change("web", rights=frozenset({Right.LIST, Right.UPLOAD}))
        with pytest.raises(PorticoError) as caught:
            await work
        assert isinstance(caught.value, ChangeAbandoned if ending == "cancelled" else Forbidden)
        assert (await operations.rewinds.get(first)).state == ending
    assert tree(company) == {"a": b"a"}
