"""Share links on both databases: they follow what is moved, and their counts are exact."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from portico.accounts.credentials import GUEST_PREFIX
from portico.accounts.guests import Guests
from portico.accounts.passwords import Passwords
from portico.accounts.share_links import ShareLinks, SharePolicy, end_of
from portico.accounts.throttle import Throttle
from portico.accounts.users import Users
from portico.model.errors import LimitReached, NotFound, NotSignedIn, TooManyRequests
from portico.model.paths import Path, Place
from portico.model.rights import Right
from portico.store.database import Database
from portico.store.share_links import LinkAccess, LinkKind, ShareLink
from portico.store.users import User

from ..fixtures import Clock

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


def place(user: User, path: str) -> Place:
    found = user.reach.place_of(Path.parse(path))
    assert found
    return found


def access() -> LinkAccess:
    return LinkAccess(1, "Anna", "192.0.2.1", "download", "/a", 1)


async def test_links_follow_what_is_moved(links: ShareLinks, sharer: User) -> None:
    made = {}
    for path in ("/a", "/a/b", "/a%b", "/ab", "/A/b"):
        made[path], _ = await links.add(sharer, place(sharer, path), COLUMNS)
    made["file"], _ = await links.add(sharer, place(sharer, "/a"), {**COLUMNS, "is_folder": False})

    async def moved(source: str, target: Place, *, is_folder: bool = True) -> None:
        await links.moved(place(sharer, source), target, is_folder=is_folder)

    await links.moved(Place("other", place(sharer, "/a").path), place(sharer, "/x"), is_folder=True)
    await moved("/a", place(sharer, "/x/y"))
    found = {str(sharer.reach.path_of(link.place)) for link in await links.list(sharer)}
    assert found == {"/x/y", "/x/y/b", "/a%b", "/ab", "/A/b", "/a"}
    assert str(sharer.reach.path_of((await links.get(sharer, made["file"].id)).place)) == "/a", "it is another file"
    await moved("/a", place(sharer, "/f"), is_folder=False)
    assert str(sharer.reach.path_of((await links.get(sharer, made["file"].id)).place)) == "/f"
    # Out of the owner's sight, it is nobody's.
    await moved("/ab", Place("local", Path.parse("/elsewhere")))
    with pytest.raises(NotFound):
        await links.get(sharer, made["/ab"].id)


async def test_counts_are_exact(links: ShareLinks, guests: Guests, sharer: User, clock: Clock) -> None:
    link, token = await links.add(
        sharer, place(sharer, "/a"), {**COLUMNS, "max_downloads": 3, "max_uploads": 3, "max_bytes": 25}
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
        *(outcome(links.count_download(link.id, digest, "/a", access())) for digest in digests * 2)
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
    assert not await outcome(links.count_download(link.id, digests[served.index(True)], "/a", access()))


async def test_a_folder_for_each_sender(links: ShareLinks, guests: Guests, sharer: User) -> None:
    _, token = await links.add(sharer, place(sharer, "/a"), COLUMNS)
    found = await links.find(token)
    assert found
    assert await guests.add(found, "Anna", "192.0.2.1", "Anna")
    assert await guests.add(found, "Anna", "192.0.2.1", "ANNA") is None


async def test_one_address_does_not_keep_others_out(
    links: ShareLinks, guests: Guests, sharer: User, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.store.guests.MAX_OF_ADDRESS", 2)
    _, token = await links.add(sharer, place(sharer, "/a"), COLUMNS)
    found = await links.find(token)
    assert found
    for address in ("2001:db8::1", "2001:db8::2"):
        assert await guests.add(found, "", address, None)
    with pytest.raises(TooManyRequests):
        await guests.add(found, "", "2001:db8::3", None)
    assert await guests.add(found, "", "192.0.2.1", None)
    clock.advance(86_400)
    text = await guests.add(found, "", "2001:db8::3", None)
    assert text
    # Nor do those who are kept for an upload.
    guest = await guests.guest(text)
    await guests.keep(guest, round(guest.expires_at.timestamp() * 1000) + 7 * 86_400_000)
    for address in ("2001:db8::1", "2001:db8::2"):
        assert await guests.add(found, "", address, None)
    with pytest.raises(TooManyRequests):
        await guests.add(found, "", "2001:db8::3", None)
    clock.advance(7 * 86_400)
    assert (await guests.guest(text)).digest == guest.digest


async def test_guests_at_once_pass_exactly_the_limit(
    links: ShareLinks, guests: Guests, sharer: User, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.store.guests.MAX_OF_ADDRESS", 3)
    _, token = await links.add(sharer, place(sharer, "/a"), COLUMNS)
    found = await links.find(token)
    assert found

    async def added() -> bool:
        clock.advance(-0.001)  # a request that read the clock earlier may insert its row later
        try:
            return await guests.add(found, "", "192.0.2.1", None) is not None
        except TooManyRequests:
            return False

    assert sum(await asyncio.gather(*(added() for _ in range(12)))) == 3


async def test_those_who_are_kept_for_an_upload_are_limited_too(
    links: ShareLinks, guests: Guests, sharer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.store.guests.MAX_OF_ADDRESS", 1)
    monkeypatch.setattr("portico.store.guests.MAX_GUESTS", 2)
    monkeypatch.setattr("portico.store.guests.KEPT_FACTOR", 2)
    _, token = await links.add(sharer, place(sharer, "/a"), COLUMNS)
    found = await links.find(token)
    assert found

    async def kept(address: str) -> None:
        text = await guests.add(found, "", address, None)
        assert text
        await guests.keep(await guests.guest(text), guests._database.now() + 7 * 86_400_000)

    for _ in range(2):
        await kept("192.0.2.1")
    with pytest.raises(TooManyRequests, match="your address"):
        await guests.add(found, "", "192.0.2.1", None)
    for _ in range(2):
        await kept("192.0.2.2")
    with pytest.raises(TooManyRequests, match="Too many people"):
        await guests.add(found, "", "192.0.2.3", None)


async def test_uploads_do_not_keep_a_guest_for_ever(
    links: ShareLinks, guests: Guests, sharer: User, clock: Clock
) -> None:
    _, token = await links.add(sharer, place(sharer, "/a"), COLUMNS)
    found = await links.find(token)
    assert found
    text = await guests.add(found, "", "192.0.2.1", None)
    assert text
    for _ in range(5):
        guest = await guests.guest(text)
        await guests.keep(guest, guests._database.now() + 7 * 86_400_000)
        clock.advance(6 * 86_400 - 1)
        guests.forget()
    await guests.guest(text)
    clock.advance(6)
    with pytest.raises(NotSignedIn):
        await guests.guest(text)


async def test_an_expired_guest_is_kept_for_uploads_under_way(
    links: ShareLinks, guests: Guests, sharer: User, clock: Clock
) -> None:
    _, token = await links.add(sharer, place(sharer, "/a"), COLUMNS)
    found = await links.find(token)
    assert found
    text = await guests.add(found, "", "192.0.2.1", None)
    assert text
    guest = await guests.guest(text)
    clock.advance(86_401)
    await guests.sweep()
    with pytest.raises(NotSignedIn):
        await guests.guest(text)
    assert await guests.current_user(guest)
    clock.advance(86_400)
    await guests.sweep()
    assert not await guests.current_user(guest)


async def test_the_number_of_links_is_bounded(
    links: ShareLinks, sharer: User, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr("portico.store.share_links.MAX_LINKS", 3)
    monkeypatch.setattr("portico.store.share_links.MAX_ENDED", 2)
    made = []
    for number in range(6):
        clock.advance(1)
        link, _ = await links.add(sharer, place(sharer, f"/{number}"), COLUMNS)
        made.append(link.id)
        if number not in (0, 5):
            await links.end(sharer, link.id)
    # Those that are open, and the newest of the others.
    assert [link.id for link in await links.list(sharer)] == [made[5], made[4], made[0]]
    within = sharer.limited_to(Path.parse("/4"), sharer.rights)
    assert [link.id for link in await links.list(within)] == [made[4]]
    await links.add(sharer, place(sharer, "/a"), COLUMNS)
    with pytest.raises(TooManyRequests):
        await links.add(sharer, place(sharer, "/b"), COLUMNS)
    await links.sweep(None)
    with pytest.raises(NotFound):
        await links.get(sharer, made[2])
    for kept in (0, 3, 4, 5):
        await links.get(sharer, made[kept])


def test_when_a_link_is_used_up() -> None:
    limits = {"max_downloads": None, "max_uploads": None, "max_bytes": 10, "downloads": 0, "uploads": 1}
    fields: dict[str, Any] = {
        **COLUMNS,
        **limits,
        "id": "",
        "user_id": 1,
        "place": Place("", Path()),
        "has_password": False,
        "types": (),
        "created_at": 1000,
        "expires_at": None,
        "ended_at": None,
    }
    request = ShareLink(**{**fields, "kind": LinkKind.REQUEST, "bytes": 10})
    assert request.is_used_up
    assert not replace(request, bytes=9).is_used_up
    assert not replace(request, kind=LinkKind.BOTH).is_used_up
    # And when it ends.
    policy = SharePolicy(max_lifetime=timedelta(seconds=1))
    assert end_of(request, SharePolicy()) is None
    assert end_of(request, policy) == 2000
    assert end_of(replace(request, expires_at=1500), policy) == 1500


async def test_what_is_old_is_removed(
    links: ShareLinks, guests: Guests, sharer: User, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, token = await links.add(sharer, place(sharer, "/a"), COLUMNS)
    ended, _ = await links.add(sharer, place(sharer, "/b"), COLUMNS)
    await links.end(sharer, ended.id)
    found = await links.find(token)
    assert found
    text = await guests.add(found, "", "192.0.2.1", None)
    assert text
    for number in range(5):
        await links.note(link.id, LinkAccess(clock.moment + number, "", "", "open", "", None))
    monkeypatch.setattr("portico.store.share_links.MAX_ACCESSES", 3)
    await links.sweep(timedelta(days=1))
    assert len(await links.accesses(sharer, link.id, 100)) == 3
    clock.advance(2 * 86_400)
    await guests.sweep()
    await links.sweep(timedelta(days=1))
    assert [each.id for each in await links.list(sharer)] == [link.id]
    assert await links.accesses(sharer, link.id, 100) == []


async def test_a_guest_of_before_tokens_had_a_time_is_served(
    links: ShareLinks, guests: Guests, sharer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, token = await links.add(sharer, place(sharer, "/a"), COLUMNS)
    found = await links.find(token)
    assert found
    monkeypatch.setattr("portico.accounts.guests._new_token", lambda _: f"{GUEST_PREFIX}no-time-in-it")
    guest = await guests.add(found, "", "192.0.2.1", None)
    assert guest
    assert (await guests.guest(guest)).opened_at == 0
