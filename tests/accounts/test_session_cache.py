import asyncio
from typing import Any

import pytest

from portico.accounts.credentials import CACHED_SECONDS
from portico.accounts.sessions import Sessions
from portico.accounts.users import Users
from portico.model.errors import NotSignedIn, Unavailable
from portico.store.database import Database
from portico.store.sessions import Session
from portico.store.users import User

from ..fixtures import SQLITE_IS_ENOUGH

pytestmark = pytest.mark.usefixtures("clock")


async def refused(attempt: Any) -> bool:
    try:
        await attempt
    except NotSignedIn:
        return True
    return False


@SQLITE_IS_ENOUGH
async def test_a_busy_client_costs_one_query_a_while(
    tokens: Sessions, alice: User, clock: Any, queries: list[None]
) -> None:
    pair = await tokens.issue(alice)
    for _ in range(50):
        await tokens.session(pair.access_token)
    assert len(queries) == 1
    clock.advance(CACHED_SECONDS)
    await tokens.session(pair.access_token)
    assert len(queries) == 2


@SQLITE_IS_ENOUGH
async def test_requests_at_once_share_one_query(tokens: Sessions, alice: User, queries: list[None]) -> None:
    pair = await tokens.issue(alice)
    first, *others = (asyncio.create_task(tokens.session(pair.access_token)) for _ in range(20))
    await asyncio.sleep(0)
    first.cancel()
    assert {session.user for session in await asyncio.gather(*others)} == {alice}
    assert len(queries) == 1


@SQLITE_IS_ENOUGH
async def test_nobody_joins_a_read_from_before_the_end(
    tokens: Sessions, users: Users, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = await tokens.issue(alice)
    arrived, go_on = asyncio.Event(), asyncio.Event()
    ask = tokens._cache._query

    async def slow(digest: bytes) -> tuple[Session, int] | None:
        session = await ask(digest)
        arrived.set()
        await go_on.wait()
        return session

    monkeypatch.setattr(tokens._cache, "_query", slow)
    early = asyncio.create_task(tokens.session(pair.access_token))
    await arrived.wait()
    await users.change("alice", disabled=True)
    tokens.forget()
    late = asyncio.create_task(tokens.session(pair.access_token))
    await asyncio.sleep(0)
    go_on.set()
    assert (await early).user == alice
    assert await refused(late)


@SQLITE_IS_ENOUGH
async def test_what_was_read_before_the_end_is_not_kept(
    tokens: Sessions, alice: User, queries: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = await tokens.issue(alice)

    find = tokens._cache._query

    async def ended_meanwhile(digest: bytes) -> tuple[Session, int] | None:
        session = await find(digest)
        tokens.forget()
        return session

    monkeypatch.setattr(tokens._cache, "_query", ended_meanwhile)
    for _ in range(2):
        await tokens.session(pair.access_token)
    assert len(queries) == 2


@SQLITE_IS_ENOUGH
async def test_an_end_elsewhere_is_seen_within_a_second(
    tokens: Sessions, other_tokens: Sessions, alice: User, clock: Any
) -> None:
    pair = await tokens.issue(alice)
    session = await other_tokens.session(pair.access_token)
    await other_tokens.session(pair.access_token)
    await tokens.end(session)
    assert await refused(tokens.session(pair.access_token))
    assert (await other_tokens.session(pair.access_token)).user == alice
    clock.advance(0.99)
    assert await refused(other_tokens.session(pair.access_token))


@SQLITE_IS_ENOUGH
async def test_the_cache_is_bounded(tokens: Sessions, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portico.accounts.credentials._MAX_CACHED", 3)
    for _ in range(10):
        await tokens.session((await tokens.issue(alice)).access_token)
    assert len(tokens._cache._cache) <= 3
    assert not tokens._cache._queries._calls


@SQLITE_IS_ENOUGH
async def test_sessions_that_nobody_uses_leave_the_cache(tokens: Sessions, alice: User, clock: Any) -> None:
    busy = (await tokens.issue(alice)).access_token
    for _ in range(10):
        for _ in range(5):
            await tokens.session((await tokens.issue(alice)).access_token)
        await tokens.session(busy)
        clock.advance(CACHED_SECONDS)
    await tokens.session(busy)
    assert len(tokens._cache._cache) == 1


@SQLITE_IS_ENOUGH
async def test_without_the_database_nobody_is_believed(
    tokens: Sessions, alice: User, clock: Any, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = await tokens.issue(alice)
    await tokens.session(pair.access_token)
    clock.advance(CACHED_SECONDS)

    def gone(*_: Any) -> Any:
        raise Unavailable("The database is gone.")

    monkeypatch.setattr(database, "fetch", gone)
    with pytest.raises(Unavailable):
        await tokens.session(pair.access_token)
