import asyncio
import zlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from portico.accounts.api_keys import ApiKeys, KeyScope, UnknownKey, is_key, new_text
from portico.accounts.credentials import digest_of, resembles_key
from portico.accounts.limits import parse_network
from portico.accounts.users import Users
from portico.model.errors import AddressNotAllowed, InvalidRequest, NotFound, NotSignedIn, TooManyRequests
from portico.model.paths import Path
from portico.model.rights import DEFAULT_RIGHTS, Right
from portico.runtime import clock as clock_module
from portico.store import api_keys as module
from portico.store.database import Database
from portico.store.tables import metadata
from portico.store.users import User

pytestmark = pytest.mark.usefixtures("clock")

HERE = "192.0.2.7"


@pytest.fixture
async def keys(database: Database) -> AsyncIterator[ApiKeys]:
    keys = ApiKeys(database)
    yield keys
    await keys.close()


@pytest.fixture
async def elsewhere(database: Database) -> AsyncIterator[ApiKeys]:
    """Another worker's view of the same database."""
    keys = ApiKeys(database)
    yield keys
    await keys.close()


async def refused(keys: ApiKeys, text: str, username: str = "") -> bool:
    try:
        await keys.use(text, HERE, username)
    except UnknownKey:
        return True
    return False


def test_a_scanner_can_tell_a_key() -> None:
    texts = {new_text() for _ in range(200)}
    assert len(texts) == 200
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    for text in texts:
        assert is_key(text)
        assert resembles_key(text)
        number = 0
        for digit in text[-6:]:
            number = 62 * number + digits.index(digit)
        assert number == zlib.crc32(text[3:-6].encode())
        assert not is_key(text[:-1] + ("x" if text[-1] != "x" else "y"))
        assert not is_key(text[:-1])
        assert not is_key(text + "\n")
    assert not resembles_key("pk_" + "x" * 40)  # as an access token may be


async def test_a_key_gives_no_more_than_its_owner_has_now(keys: ApiKeys, users: Users, alice: User, clock: Any) -> None:
    whole = await keys.add(alice, KeyScope(" nightly "))
    assert (whole.key.name, whole.key.rights, whole.key.folder) == ("nightly", DEFAULT_RIGHTS, Path())
    assert (await keys.use(whole.text, HERE)).user == alice
    part = await keys.add(alice, KeyScope("in", frozenset({Right.UPLOAD}), Path.parse("/in/box")))
    used = await keys.use(part.text, HERE, "aLICE")
    assert (str(used.user.reach.mounts[0].place), used.user.rights) == ("local/Alice/in/box", frozenset({Right.UPLOAD}))
    assert used.owner == alice
    await users.change("alice", rights=[Right.LIST], root="/other")
    clock.advance(1)
    used = await keys.use(part.text, HERE)
    assert (str(used.user.reach.mounts[0].place), used.user.rights) == ("local/other/in/box", frozenset())
    assert (await keys.use(whole.text, HERE)).user.rights == frozenset({Right.LIST})
    with pytest.raises(InvalidRequest):
        await keys.add(alice, KeyScope("more", frozenset({Right.UPLOAD})))


async def test_nothing_shows_a_key(keys: ApiKeys, alice: User, database: Database) -> None:
    new = await keys.add(alice, KeyScope("ci"))
    used = await keys.use(new.text, HERE)
    assert new.text not in repr(new) + repr(used) + repr(await keys.list(alice))
    async with database.connect() as reading:
        stored = [row for table in metadata.sorted_tables for row in await reading.execute(select(table))]
    assert new.text[3:] not in repr(stored)


async def test_an_end_is_seen_here_at_once_and_elsewhere_within_a_second(
    keys: ApiKeys, elsewhere: ApiKeys, users: Users, alice: User, clock: Any
) -> None:
    bob = await users.add("bob", "correct horse")
    first, second = [await keys.add(alice, KeyScope(name)) for name in ("one", "two")]
    for text in (first.text, second.text):
        await elsewhere.use(text, HERE)
    with pytest.raises(NotFound):
        await keys.end(bob, first.key.id)
    await keys.end(alice, first.key.id)
    assert await refused(keys, first.text)
    assert not await keys.current_user(digest_of(first.text))
    await users.change("alice", disabled=True)
    with pytest.raises(NotSignedIn, match="owner is disabled"):
        await keys.current_user(digest_of(second.text))
    clock.advance(0.99)
    assert await refused(elsewhere, first.text)
    assert await refused(elsewhere, second.text)
    with pytest.raises(UnknownKey):
        await keys.add(alice, KeyScope("three"))
    await users.delete("alice")
    assert await keys.list(alice) == []


async def test_a_key_expires_even_in_the_cache_and_is_shown_for_a_while(keys: ApiKeys, alice: User, clock: Any) -> None:
    end = clock_module.to_datetime(clock.moment) + timedelta(hours=1)
    new = await keys.add(alice, KeyScope("short", expires_at=end))
    assert new.key.expires_at == end
    clock.advance(3599.9)
    await keys.use(new.text, HERE)
    clock.advance(0.1)
    assert await refused(keys, new.text)
    await keys.sweep()
    assert [key.name for key in await keys.list(alice)] == ["short"]
    clock.advance(module.KEPT_DAYS * 86400)
    await keys.sweep()
    assert await keys.list(alice) == []
    with pytest.raises(InvalidRequest):
        await keys.add(alice, KeyScope("late", expires_at=end))


async def test_who_may_use_a_key_and_from_where(keys: ApiKeys, alice: User) -> None:
    ranges = parse_network("192.0.2.0/24"), parse_network("2001:db8::7")
    new = await keys.add(alice, KeyScope("here", addresses=ranges))
    assert (await keys.list(alice))[0].addresses == ranges
    await keys.use(new.text, HERE)
    await keys.use(new.text, "2001:db8::7")
    for address in ("198.51.100.1", "2001:db8::8", "unknown"):
        with pytest.raises(AddressNotAllowed):
            await keys.use(new.text, address)
    assert await refused(keys, new.text, "bob")
    assert not await refused(keys, new.text, "ALICE")
    for bad in ("192.0.2.1/24", "x", "", "10.0.0.0/40"):
        with pytest.raises(InvalidRequest):
            parse_network(bad)


async def test_names_and_made_up_keys(keys: ApiKeys, alice: User, queries: list[None]) -> None:
    for name in ("", " ", "x" * 65, "a\nb", f"ci {new_text()}", "\ud800"):
        with pytest.raises(InvalidRequest):
            await keys.add(alice, KeyScope(name))
    for text in ("", "pk_", "pk_" + "0" * 36, "pk_" + "ä" * 36, "x" * 39, "\0"):
        with pytest.raises(NotSignedIn):
            await keys.use(text, HERE)
    assert not queries


async def test_the_last_use_is_written_once_a_minute_beside_the_request(
    keys: ApiKeys, elsewhere: ApiKeys, alice: User, clock: Any, queries: list[None]
) -> None:
    new = await keys.add(alice, KeyScope("ci"))

    async def use(from_where: ApiKeys, address: str) -> Any:
        await from_where.use(new.text, address)
        await from_where.close()
        [key] = await keys.list(alice)
        return key.used_at, key.used_from

    assert [(key.used_at, key.used_from) for key in await keys.list(alice)] == [(None, None)]
    began = clock_module.to_datetime(clock.moment)
    assert await use(keys, HERE) == (began, HERE)
    clock.advance(59)
    assert await use(keys, "192.0.2.8") == (began, HERE)
    assert await use(elsewhere, "192.0.2.9") == (began, HERE)
    clock.advance(1)
    assert await use(keys, "192.0.2.8") == (clock_module.to_datetime(clock.moment), "192.0.2.8")
    queries.clear()
    for _ in range(20):
        await keys.use(new.text, HERE)
    assert len(queries) == 0


async def test_a_user_has_a_bounded_number_of_keys(keys: ApiKeys, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEYS", 3)
    made = await asyncio.gather(*(keys.add(alice, KeyScope(str(n))) for n in range(6)), return_exceptions=True)
    assert sum(isinstance(each, TooManyRequests) for each in made) == 3
    assert len(await keys.list(alice)) == 3
