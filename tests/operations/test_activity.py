"""What happened to files and folders, as each actor may see it."""

from typing import Any

import pytest

from portico.accounts.api_keys import KeyScope
from portico.model.errors import Forbidden, InvalidCursor, NotFound
from portico.model.rights import Right
from portico.operations.activity import Event
from portico.operations.files.files import OnConflict
from portico.operations.operations import Operations
from portico.operations.sharing.links import LinkKind

from .test_mounts import Company, company
from .test_scope import Acting, guest_of, sharer, signed_in
from .test_second_front_end import PASSWORD, Installation, at, chunks, installation

__all__ = ["company", "installation", "sharer"]


async def events(operations: Operations, path: str = "/", size: int = 100) -> list[Event]:
    """All pages."""
    found, cursor = [], None
    while True:
        page = await operations.activity.list(at(path), size, cursor)
        found += page.events
        if (cursor := page.cursor) is None:
            return found


def shown(found: list[Event]) -> list[tuple[Any, ...]]:
    return [(event.action, *(str(each) if each else None for each in (event.source, event.path))) for event in found]


async def test_every_change_is_shown_once_and_in_order(installation: Installation) -> None:
    async with (await signed_in(installation)).request() as operations:
        files = operations.files
        for content in (b"1", b"22"):
            await files.store(at("/d/f"), chunks(content))
        await files.make_folder(at("/d/new"))
        await files.make_folder(at("/d/new"))  # it is there already
        with pytest.raises(NotFound):
            await files.delete(at("/d/none"))
        await (await files.read(at("/d/f"))).chunks.aclose()
        await files.copy(at("/d/f"), at("/e/copy"))
        await files.move(at("/d/f"), at("/d/g"))
        (deleted,) = (await files.delete(at("/d/g"))).trash_ids
        await operations.trash.restore(deleted)
        (removed,) = (await files.delete(at("/e/copy"))).trash_ids
        await operations.trash.remove(removed)
        expected = [
            ("removed", None, "/e/copy"),
            ("deleted", None, "/e/copy"),
            ("restored", None, "/d/g"),
            ("deleted", None, "/d/g"),
            ("moved", "/d/f", "/d/g"),
            ("copied", "/d/f", "/e/copy"),
            ("made", None, "/d/new"),
            ("replaced", None, "/d/f"),
            ("stored", None, "/d/f"),
        ]
        found = await events(operations)
        assert shown(found) == expected
        for size in (1, 2, 4):
            assert shown(await events(operations, size=size)) == expected
        assert shown(await events(operations, "/e")) == [expected[0], expected[1], expected[5]]
        assert shown(await events(operations, "/d/f")) == [expected[4], *expected[-2:]]
        assert [event.size for event in found] == [2, 2, 2, 2, 2, 2, None, 2, 1]
        assert {(event.user, event.by_link, event.guest) for event in found} == {("web", False, None)}
        assert [event.path for event in found if event.is_folder] == [at("/d/new")]
        # What was replaced can be restored; the others are back, or removed.
        (kept,) = [event for event in found if event.trash_id]
        assert kept.action == "replaced"
        await operations.trash.restore(kept.trash_id or "", OnConflict.RENAME)
    assert (installation.files / "d/f").read_bytes() == b"1"


@pytest.mark.usefixtures("sharer")
async def test_who_it_was_as_far_as_one_may_know(installation: Installation) -> None:
    guest = await guest_of(installation, "/", LinkKind.BOTH)
    async with guest.request() as operations:
        await operations.files.store(at("/sent"), chunks(b"x"))
        with pytest.raises(Forbidden):
            await operations.activity.list(at("/"), 10)
    owner = await signed_in(installation)
    async with owner.request() as operations:
        await operations.files.store(at("/f"), chunks(b"1"))
        await operations.files.delete(at("/f"))
        mine = await events(operations)
    assert [(event.action, event.user, event.by_link) for event in mine] == [
        ("deleted", "web", False),
        ("stored", "web", False),
        ("stored", "web", True),
    ]
    async with (await signed_in(installation, "reader")).request() as operations:
        theirs = await events(operations)
    assert shown(theirs) == shown(mine)
    assert [event.trash_id for event in theirs] == [None] * 3, "a reader may restore nothing"
    assert [event.guest for event in theirs] == [None] * 3


async def test_a_cursor_is_for_one_folder_and_cannot_be_made_up(installation: Installation) -> None:
    async with (await signed_in(installation)).request() as operations:
        for name in ("/a/1", "/a/2", "/b/1"):
            await operations.files.store(at(name), chunks(b"x"))
        cursor = (await operations.activity.list(at("/a"), 1)).cursor
        assert cursor
        assert shown((await operations.activity.list(at("/a"), 1, cursor)).events) == [("stored", None, "/a/1")]
        for path, other in (("/b", cursor), ("/", cursor), ("/a", f"9{cursor}"), ("/a", "1"), ("/a", "")):
            with pytest.raises(InvalidCursor):
                await operations.activity.list(at(path), 1, other)
    await installation.users.add("other", PASSWORD, root="/web/a", rights=[Right.LIST])
    async with (await signed_in(installation, "other")).request() as operations:
        with pytest.raises(InvalidCursor):
            await operations.activity.list(at("/a"), 1, cursor)


async def test_paths_out_of_reach_are_hidden(company: Company) -> None:
    """`web` sees all of it, and `other` only a part."""
    await company.mount("/archive", "archive/")
    await company.installation.users.add("other", PASSWORD, root="/web/pub")
    async with (await company.user()).request() as operations:
        files = operations.files
        for name in ("/pub/a", "/pub/b", "/pub/c", "/secret/d", "/secret/e"):
            await files.store(at(name), chunks(b"x"))
        await files.move(at("/pub/a"), at("/secret/a"))
        await files.move(at("/secret/d"), at("/pub/d"))
        await files.copy(at("/pub/b"), at("/secret/b"))
        await files.copy(at("/secret/e"), at("/pub/e"))
        await files.move(at("/pub/c"), at("/archive/c"))
        everything = shown(await events(operations))
        assert everything[:5] == [
            ("moved", "/pub/c", "/archive/c"),
            ("copied", "/secret/e", "/pub/e"),
            ("copied", "/pub/b", "/secret/b"),
            ("moved", "/secret/d", "/pub/d"),
            ("moved", "/pub/a", "/secret/a"),
        ]
        assert shown(await events(operations, "/archive")) == everything[:1]
        assert (await events(operations))[0].trash_id is None, "what was moved is not lost"
    async with (await signed_in(company.installation, "other")).request() as operations:
        assert shown(await events(operations))[:4] == [
            ("moved", "/c", None),
            ("copied", None, "/e"),
            ("moved", None, "/d"),
            ("moved", "/a", None),
        ]
    # A mount without rights hides what is below it.
    await company.mount("/secret", "archive/none", "")
    async with (await company.user()).request() as operations:
        assert not [each for each in shown(await events(operations)) if "secret" in str(each)]
        with pytest.raises(NotFound):
            await operations.activity.list(at("/secret"), 10)
        assert shown(await events(operations, "/pub/d")) == [("moved", None, "/pub/d")]


async def test_a_key_sees_its_folder(company: Company) -> None:
    user = await company.user()
    async with user.request() as operations:
        for name in ("/pub/a", "/secret/a"):
            await operations.files.store(at(name), chunks(b"x"))
        await operations.files.move(at("/secret/a"), at("/pub/b"))
        folder = KeyScope("key", folder=at("/pub"), rights=frozenset({Right.LIST}))
        text = (await operations.account.add_key(folder)).text
    assert text
    key = Acting(company.installation, lambda context: user.gateway.authentication.with_token(context, text))
    async with key.request() as operations:
        assert shown(await events(operations)) == [("moved", None, "/b"), ("stored", None, "/a")]
    no_list = frozenset({Right.UPLOAD})
    await company.installation.users.change("web", rights=no_list)
    company.installation.forget()
    async with (await company.user()).request() as operations:
        with pytest.raises(Forbidden):
            await operations.activity.list(at("/"), 10)
