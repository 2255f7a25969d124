import asyncio
from hashlib import sha256
from typing import Any

import pytest
from sqlalchemy import func, select

from portico.accounts.sessions import Sessions
from portico.accounts.users import Users
from portico.model.errors import NotSignedIn
from portico.model.rights import Right
from portico.store.database import Database
from portico.store.sessions import GRACE_SECONDS
from portico.store.tables import access_tokens, families, metadata, refresh_tokens
from portico.store.users import User

pytestmark = pytest.mark.usefixtures("clock")


async def refused(attempt: Any) -> bool:
    try:
        await attempt
    except NotSignedIn:
        return True
    return False


async def count(database: Database) -> dict[str, int]:
    async with database.connect() as reading:
        return {
            table.name: (await reading.execute(select(func.count()).select_from(table))).scalar_one()
            for table in (families, access_tokens, refresh_tokens)
        }


async def test_a_pair_opens_a_session(tokens: Sessions, users: Users, alice: User, clock: Any) -> None:
    alice = await users.change("alice", rights=[Right.UPLOAD, Right.LIST])
    pair = await tokens.issue(alice)
    assert (pair.expires_in, pair.scope, pair.user) == (3600, "list upload", alice)
    session = await tokens.session(pair.access_token)
    assert session.user == alice
    assert round(session.expires_at.timestamp() * 1000) == clock.moment + 3_600_000


async def test_only_digests_are_stored_and_nothing_shows_a_token(
    tokens: Sessions, alice: User, database: Database
) -> None:
    pair = await tokens.issue(alice)
    session = await tokens.session(pair.access_token)
    assert session.digest == sha256(pair.access_token.encode()).digest()
    for token in (pair.access_token, pair.refresh_token):
        assert token not in repr(pair) + repr(session)
    async with database.connect() as reading:
        everything = [
            value for table in metadata.sorted_tables for row in await reading.execute(select(table)) for value in row
        ]
    assert session.digest in everything
    assert pair.access_token not in everything
    assert pair.refresh_token not in everything


@pytest.mark.parametrize("token", ["", "x", "\0", "ä" * 43, "\ud800", "x" * 257, "x" * 65536, "A" * 43])
async def test_made_up_tokens(tokens: Sessions, token: str) -> None:
    assert await refused(tokens.session(token))
    assert await refused(tokens.refresh(token))


async def test_access_and_refresh_tokens_are_not_interchangeable(tokens: Sessions, alice: User) -> None:
    pair = await tokens.issue(alice)
    assert await refused(tokens.session(pair.refresh_token))
    assert await refused(tokens.refresh(pair.access_token))


async def test_an_access_token_expires_even_in_the_cache(tokens: Sessions, alice: User, clock: Any) -> None:
    pair = await tokens.issue(alice)
    clock.advance(3600 - 0.001)
    await tokens.session(pair.access_token)
    clock.advance(0.001)
    assert await refused(tokens.session(pair.access_token))
    assert (await tokens.session((await tokens.refresh(pair.refresh_token)).access_token)).user == alice


async def test_a_refresh_token_expires(tokens: Sessions, alice: User, clock: Any) -> None:
    pair = await tokens.issue(alice)
    clock.advance(30 * 86400)
    assert await refused(tokens.refresh(pair.refresh_token))


async def test_logging_out_ends_the_family_and_nothing_else(tokens: Sessions, alice: User, database: Database) -> None:
    pair, elsewhere = await tokens.issue(alice), await tokens.issue(alice)
    renewed = await tokens.refresh(pair.refresh_token)
    await tokens.end(await tokens.session(renewed.access_token))
    for access in (pair.access_token, renewed.access_token):
        assert await refused(tokens.session(access))
    for refresh in (pair.refresh_token, renewed.refresh_token):
        assert await refused(tokens.refresh(refresh))
    assert (await tokens.session(elsewhere.access_token)).user == alice
    assert await count(database) == {"families": 1, "access_tokens": 1, "refresh_tokens": 1}


async def test_refresh_tokens_rotate_with_a_grace(tokens: Sessions, alice: User, clock: Any) -> None:
    pair = await tokens.issue(alice)
    renewed = await tokens.refresh(pair.refresh_token)
    assert len({pair.access_token, pair.refresh_token, renewed.access_token, renewed.refresh_token}) == 4
    clock.advance(GRACE_SECONDS)
    again = await tokens.refresh(pair.refresh_token)
    for access in (pair.access_token, renewed.access_token, again.access_token):
        assert (await tokens.session(access)).user == alice


async def test_the_grace_is_counted_from_the_first_use(tokens: Sessions, alice: User, clock: Any) -> None:
    pair = await tokens.issue(alice)
    await tokens.refresh(pair.refresh_token)
    clock.advance(GRACE_SECONDS - 1)
    await tokens.refresh(pair.refresh_token)
    clock.advance(2)
    assert await refused(tokens.refresh(pair.refresh_token))


async def test_reuse_after_the_grace_ends_the_family(
    tokens: Sessions, other_tokens: Sessions, alice: User, clock: Any, database: Database
) -> None:
    pair = await tokens.issue(alice)
    renewed = await tokens.refresh(pair.refresh_token)
    await tokens.session(renewed.access_token)
    clock.advance(GRACE_SECONDS + 0.001)
    assert await refused(tokens.refresh(pair.refresh_token))
    assert await count(database) == {"families": 0, "access_tokens": 0, "refresh_tokens": 0}
    for worker in (tokens, other_tokens):
        assert await refused(worker.session(renewed.access_token))
        assert await refused(worker.refresh(renewed.refresh_token))


async def test_a_clock_put_back_ends_nothing(tokens: Sessions, alice: User, clock: Any) -> None:
    pair = await tokens.issue(alice)
    await tokens.refresh(pair.refresh_token)
    clock.set(-600)
    assert (await tokens.session((await tokens.refresh(pair.refresh_token)).access_token)).user == alice


async def test_two_workers_refresh_at_once(tokens: Sessions, url: str, alice: User) -> None:
    databases = [Database(url) for _ in range(2)]
    pair = await tokens.issue(alice)
    workers = [
        Sessions(database, token_lifetime=tokens._token_lifetime, refresh_lifetime=tokens._refresh_lifetime)
        for database in databases
    ]
    renewed = await asyncio.gather(*(worker.refresh(pair.refresh_token) for worker in workers * 5))
    for one in renewed:
        assert (await tokens.session(one.access_token)).user == alice
        await tokens.refresh(one.refresh_token)
    for database in databases:
        await database.close()


async def test_logging_out_and_refreshing_at_once_leaves_nothing_usable(tokens: Sessions, alice: User) -> None:
    for _ in range(10):
        pair = await tokens.issue(alice)
        session = await tokens.session(pair.access_token)
        outcomes = await asyncio.gather(
            tokens.refresh(pair.refresh_token),
            tokens.end(session),
            tokens.refresh(pair.refresh_token),
            return_exceptions=True,
        )
        assert outcomes[1] is None
        for outcome in (outcomes[0], outcomes[2]):
            assert isinstance(outcome, NotSignedIn) or await refused(tokens.session(outcome.access_token))  # type: ignore[union-attr]


async def test_nobody_gets_tokens_for_what_was_true_before(
    tokens: Sessions, users: Users, alice: User, clock: Any
) -> None:
    clock.advance(1)
    await users.set_password("alice", "battery staple")
    assert await refused(tokens.issue(alice))
    alice = await users.get("alice")
    await users.change("alice", disabled=True)
    assert await refused(tokens.issue(alice))
    await users.delete("alice")
    assert await refused(tokens.issue(alice))


async def test_current_user(tokens: Sessions, users: Users, alice: User) -> None:
    assert await tokens.current_user(alice.id)
    await users.change("alice", disabled=True)
    assert not await tokens.current_user(alice.id)
    assert not await tokens.current_user(alice.id + 1)


async def test_many_who_ask_whether_a_user_is_valid_share_a_few_answers(
    tokens: Sessions, alice: User, queries: list[None]
) -> None:
    assert all(await asyncio.gather(*(tokens.current_user(alice.id) for _ in range(100))))
    assert len(queries) <= 5


async def test_sweep_deletes_what_expired(tokens: Sessions, alice: User, clock: Any, database: Database) -> None:
    await tokens.issue(alice)
    clock.advance(86400)
    pair = await tokens.issue(alice)
    await tokens.sweep()
    assert await count(database) == {"families": 2, "access_tokens": 1, "refresh_tokens": 2}
    clock.advance(29 * 86400)
    await tokens.refresh(pair.refresh_token)
    await tokens.sweep()
    assert await count(database) == {"families": 1, "access_tokens": 1, "refresh_tokens": 2}
    clock.advance(86400)
    await tokens.sweep()
    assert await count(database) == {"families": 1, "access_tokens": 0, "refresh_tokens": 1}
    clock.advance(30 * 86400)
    await tokens.sweep()
    assert await count(database) == {"families": 0, "access_tokens": 0, "refresh_tokens": 0}
