"""Share links on both databases: they follow what is moved, and their counts are exact."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from portico.accounts.guests import Guests
from portico.accounts.passwords import Passwords
from portico.accounts.share_links import Access, ShareLinks, SharePolicy
from portico.accounts.throttle import Throttle
from portico.accounts.users import User, Users
from portico.errors import LimitReached, NotFound
from portico.paths import Path
from portico.rights import Right
from portico.store.database import Database

from .conftest import Clock

COLUMNS: dict[str, Any] = {
    "is_folder": True,
    "kind": "both",
    "title": "",
    "note": "",
    "types": "",
    "ask_name": False,
    "folder_per_sender": False,
}


@pytest.fixture
def links(database: Database) -> ShareLinks:
    return ShareLinks(database, SharePolicy())


@pytest.fixture
def guests(database: Database, links: ShareLinks, passwords: Passwords) -> Guests:
    return Guests(database, links, passwords, Throttle(database))


@pytest.fixture
async def sharer(users: Users, alice: User) -> User:
    return await users.change(alice.name, rights=frozenset(Right))


def access() -> Access:
    return Access(1, "Anna", "192.0.2.1", "download", "/a", 1)


async def test_links_follow_what_is_moved(links: ShareLinks, sharer: User) -> None:
    made = {}
    for path in ("/a", "/a/b", "/a%b", "/ab", "/A/b"):
        made[path], _ = await links.add(sharer, Path.parse(path), COLUMNS)
    root = Path.parse(sharer.root)
    await links.moved("other", Path.parse("/a").under(root), Path.parse("/x").under(root))
    await links.moved(sharer.connection, Path.parse("/a").under(root), Path.parse("/x/y").under(root))
    found = {str(link.path_for(sharer)) for link in await links.list(sharer)}
    assert found == {"/x/y", "/x/y/b", "/a%b", "/ab", "/A/b"}
    # Out of the owner's sight, it is nobody's.
    await links.moved(sharer.connection, Path.parse("/ab").under(root), Path.parse("/elsewhere"))
    with pytest.raises(NotFound):
        await links.get(sharer, made["/ab"].id)


async def test_counts_are_exact(links: ShareLinks, guests: Guests, sharer: User, clock: Clock) -> None:
    link, token = await links.add(
        sharer, Path.parse("/a"), {**COLUMNS, "max_downloads": 3, "max_uploads": 3, "max_bytes": 25}
    )
    found = await links.find(token)
    assert found
    digests = []
    for _ in range(8):
        text = await guests.add(found, "", "192.0.2.1", None)
        assert text
        digests.append((await guests.guest(text)).digest)

    async def outcome(work: Any) -> bool:
        try:
            await work
        except LimitReached:
            return False
        return True

    # Each guest asks twice: both get it, or none.
    served = await asyncio.gather(
        *(outcome(links.count_download(link, digest, "/a", access())) for digest in digests * 2)
    )
    assert sum(served) == 6
    assert served[:8] == served[8:]
    stored = await asyncio.gather(*(outcome(links.reserve_upload(link.id, 10)) for _ in range(6)))
    assert sum(stored) == 2  # the third one would be one byte too many, and the limit of files is not reached
    await links.give_back(link.id, 10)
    now = await links.get(sharer, link.id)
    assert (now.downloads, now.uploads, now.bytes) == (3, 1, 10)
    # After an hour, the same file is another download.
    clock.advance(3601)
    assert not await outcome(links.count_download(link, digests[served.index(True)], "/a", access()))


async def test_a_folder_for_each_sender(links: ShareLinks, guests: Guests, sharer: User) -> None:
    _, token = await links.add(sharer, Path.parse("/a"), COLUMNS)
    found = await links.find(token)
    assert found
    assert await guests.add(found, "Anna", "192.0.2.1", "Anna")
    assert await guests.add(found, "Anna", "192.0.2.1", "ANNA") is None


async def test_what_is_old_is_removed(
    links: ShareLinks, guests: Guests, sharer: User, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, token = await links.add(sharer, Path.parse("/a"), COLUMNS)
    ended, _ = await links.add(sharer, Path.parse("/b"), COLUMNS)
    await links.end(sharer, ended.id)
    found = await links.find(token)
    assert found
    text = await guests.add(found, "", "192.0.2.1", None)
    assert text
    for number in range(5):
        await links.note(link.id, Access(clock.moment + number, "", "", "open", "", None))
    monkeypatch.setattr("portico.accounts.share_links.MAX_ACCESSES", 3)
    await links.sweep(timedelta(days=1))
    assert len(await links.accesses(sharer, link.id, 100)) == 3
    clock.advance(2 * 86_400)
    await guests.sweep()
    await links.sweep(timedelta(days=1))
    assert [each.id for each in await links.list(sharer)] == [link.id]
    assert await links.accesses(sharer, link.id, 100) == []
