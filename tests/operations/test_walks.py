"""Walks through a folder or a tree: what is in them, and how far they read ahead."""

import asyncio
from contextlib import aclosing

import pytest

from portico.model.entries import Entry, Page
from portico.model.errors import Forbidden, TooManyRequests
from portico.model.paths import Path
from portico.operations.actors import request_context
from portico.operations.actors.request_context import Admission
from portico.operations.files.walks import WalkedPage, read_ahead
from portico.providers.folders.walk import FolderWalk, Position

from .test_mounts import Company, company, impatient
from .test_scope import Acting
from .test_second_front_end import at, installation

__all__ = ["company", "impatient", "installation"]


async def walked(acting: Acting, size: int = 100, *, afresh: bool = False) -> list[str]:
    """Everything in the tree; `afresh`: every page by another request."""
    found, cursor = [], None
    while True:
        async with acting.request() as o, aclosing(o.files.walk(at("/"), size, cursor, recursive=True)) as pages:
            async for page in pages:
                found += [str(above.child(entry.name)) for above, entries in page.groups for entry in entries]
                if page.ended:
                    return found
                if afresh:
                    break
        cursor = page.cursor


async def test_a_tree_has_the_mounts_below_it_that_may_be_listed(company: Company) -> None:
    company.put("web/in/a")
    company.put("web/teams/blue/hidden by the mount")
    company.put("web/other/c")
    company.put("other/b")
    await company.mount("/teams/blue", "local/other", "list")
    await company.mount("/teams/drop", "local/drop", "upload")
    await company.mount("/in/no", "local/other", "")
    user = await company.user()
    for afresh in (False, True):
        assert sorted(await walked(user, 1, afresh=afresh)) == [
            *("/in", "/in/a", "/other", "/other/c", "/teams", "/teams/blue", "/teams/blue/b")
        ]


async def test_folders_above_mounts_are_found(company: Company) -> None:
    company.put("other/b")
    await company.unmount("/")
    await company.mount("/teams/north/blue", "local/other", "list")
    await company.mount("/teams/north/red", "local/other", "list")
    await company.mount("/teams/north/red/in/it", "local/other", "list")
    user = await company.user()
    for afresh in (False, True):
        found = await walked(user, afresh=afresh)
        north = "/teams/north"
        assert found[:4] == ["/teams", north, f"{north}/blue", f"{north}/blue/b"]
        red = f"{north}/red"
        assert found[4:] == [red, f"{red}/in", f"{red}/b", f"{red}/in/it", f"{red}/in/it/b"]


async def test_a_walk_ends_with_the_right_to_it(company: Company) -> None:
    for number in range(200):
        company.put(f"web/{number}")
    await company.mount("/blue", "local/other", "list")

    async def walk() -> None:
        async with (await company.user()).request() as o, aclosing(o.files.walk(at("/"), 1, recursive=True)) as pages:
            async for _ in pages:
                await company.unmount("/blue")
                await asyncio.sleep(0.02)

    with pytest.raises(Forbidden):
        await walk()


async def test_no_more_than_one_page_is_read_ahead() -> None:
    read = 0
    ended = asyncio.Event()

    async def next_page() -> WalkedPage:
        nonlocal read
        read += 1
        if read == 4:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
        return WalkedPage([(Path(), [Entry(str(read), False)])], str(read), ended=False)

    pages = read_ahead(next_page)
    for sent in (1, 2, 3):
        assert (await anext(pages)).cursor == str(sent)
        await asyncio.sleep(0.01)
        assert read == sent + 1
    await pages.aclose()
    assert ended.is_set()


async def test_folders_listed_ahead_end_with_their_walk() -> None:
    begun, ended = 0, 0

    async def page_after(folder: Path, position: Position, size: int) -> Page:
        nonlocal begun, ended
        if folder.is_root:
            return Page([Entry(str(number), True) for number in range(9)])
        begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            ended += 1
        raise AssertionError

    walk = FolderWalk(Path(), None, page_after, ahead=3)
    walk.reads_ahead = True
    await walk.page(1)
    await asyncio.sleep(0)
    assert (begun, ended) == (3, 0)
    await walk.close()
    assert (begun, ended) == (3, 3)


async def test_how_many_walks_an_actor_may_have() -> None:
    admission = Admission()
    async with admission.walking(("alice",)):
        waiting = [
            asyncio.create_task(admission.walking(("alice",)).__aenter__())
            for _ in range(request_context.MAX_WALKS_OF[0] - 1)
        ]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests):
            await admission.walking(("alice",)).__aenter__()
        async with admission.walking(("bob",)):
            pass
        for task in waiting:
            task.cancel()
