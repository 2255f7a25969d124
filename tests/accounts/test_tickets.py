from typing import Any

import pytest
from sqlalchemy import func, select

from portico.accounts.sessions import Sessions, Tickets
from portico.accounts.users import Users
from portico.model.errors import NotSignedIn
from portico.model.paths import Path
from portico.store.database import Database
from portico.store.sessions import Session
from portico.store.tables import tickets as table
from portico.store.tickets import LIFETIME
from portico.store.users import User

at = Path.parse
pytestmark = pytest.mark.usefixtures("clock")


async def test_a_ticket_opens_one_path_any_number_of_times(
    tickets: Tickets[Session], tokens: Sessions, alice: User
) -> None:
    session = await tokens.session((await tokens.issue(alice)).access_token)
    ticket = await tickets.issue(session, at("/a/ä b.txt"), is_folder=False)
    for _ in range(3):
        assert await tickets.redeem(ticket, at("/a/ä b.txt")) == (session, False)
    for path in ("/a", "/a/ä b.txt/c", "/", "/b/a/ä b.txt"):
        with pytest.raises(NotSignedIn):
            await tickets.redeem(ticket, at(path))
    with pytest.raises(NotSignedIn):
        await tokens.session(ticket)


async def test_a_ticket_lasts_a_minute(tickets: Tickets[Session], tokens: Sessions, alice: User, clock: Any) -> None:
    session = await tokens.session((await tokens.issue(alice)).access_token)
    ticket = await tickets.issue(session, at("/a"), is_folder=False)
    clock.advance(LIFETIME - 0.001)
    await tickets.redeem(ticket, at("/a"))
    clock.advance(0.001)
    with pytest.raises(NotSignedIn):
        await tickets.redeem(ticket, at("/a"))


async def test_a_ticket_ends_with_its_token(
    tickets: Tickets[Session], tokens: Sessions, users: Users, alice: User, clock: Any
) -> None:
    expiring = await tokens.session((await tokens.issue(alice)).access_token)
    clock.advance(3590)
    expiring_ticket = await tickets.issue(expiring, at("/a"), is_folder=False)
    clock.advance(10)
    ended = await tokens.session((await tokens.issue(alice)).access_token)
    ended_ticket = await tickets.issue(ended, at("/a"), is_folder=False)
    await tokens.end(ended)
    disabled = await tokens.session((await tokens.issue(alice)).access_token)
    disabled_ticket = await tickets.issue(disabled, at("/a"), is_folder=False)
    await users.change("alice", disabled=True)
    for ticket in (expiring_ticket, ended_ticket, disabled_ticket):
        with pytest.raises(NotSignedIn):
            await tickets.redeem(ticket, at("/a"))


async def test_no_ticket_for_an_ended_session(tickets: Tickets[Session], tokens: Sessions, alice: User) -> None:
    session = await tokens.session((await tokens.issue(alice)).access_token)
    await tokens.end(session)
    with pytest.raises(NotSignedIn):
        await tickets.issue(session, at("/a"), is_folder=False)


@pytest.mark.parametrize("ticket", ["", "x", "ä", "\0", "x" * 257, "x" * 65536])
async def test_made_up_tickets(tickets: Tickets[Session], ticket: str) -> None:
    with pytest.raises(NotSignedIn):
        await tickets.redeem(ticket, at("/a"))


async def test_the_sweep_takes_old_tickets(
    tickets: Tickets[Session], tokens: Sessions, alice: User, clock: Any, database: Database
) -> None:
    session = await tokens.session((await tokens.issue(alice)).access_token)
    await tickets.issue(session, at("/old"), is_folder=False)
    clock.advance(30)
    ticket = await tickets.issue(session, at("/new"), is_folder=False)
    clock.advance(30)
    await tokens.sweep()
    async with database.connect() as reading:
        assert (await reading.execute(select(func.count()).select_from(table))).scalar_one() == 1
    await tickets.redeem(ticket, at("/new"))


async def test_a_ticket_is_renewed_within_its_sign_in(
    tickets: Tickets[Session], tokens: Sessions, alice: User, clock: Any
) -> None:
    pair = await tokens.issue(alice)
    session = await tokens.session(pair.access_token)
    ticket = await tickets.issue(session, at("/film"), is_folder=False)
    clock.advance(LIFETIME - 1)
    refreshed = await tokens.session((await tokens.refresh(pair.refresh_token)).access_token)
    assert await tickets.renew(refreshed, ticket, at("/film"), is_folder=False)
    clock.advance(3600 - LIFETIME)  # the first token expires, its ticket goes on with the second
    assert await tickets.renew(refreshed, ticket, at("/film"), is_folder=False) is False, "it has expired"
    ticket = await tickets.issue(refreshed, at("/film"), is_folder=False)
    stranger = await tokens.session((await tokens.issue(alice)).access_token)
    assert not await tickets.renew(stranger, ticket, at("/film"), is_folder=False), "another sign-in"
    assert not await tickets.renew(refreshed, ticket, at("/other"), is_folder=False)
    assert not await tickets.renew(refreshed, ticket, at("/film"), is_folder=True)
    assert not await tickets.renew(refreshed, "unknown", at("/film"), is_folder=False)
    await tokens.end(refreshed)
    with pytest.raises(NotSignedIn):
        await tickets.redeem(ticket, at("/film"))


async def test_a_renewed_ticket_outlives_the_token_that_it_was_issued_for(
    tickets: Tickets[Session], tokens: Sessions, alice: User, clock: Any
) -> None:
    pair = await tokens.issue(alice)
    first = await tokens.session(pair.access_token)
    clock.advance(3590)
    ticket = await tickets.issue(first, at("/film"), is_folder=False)
    second = await tokens.session((await tokens.refresh(pair.refresh_token)).access_token)
    assert await tickets.renew(second, ticket, at("/film"), is_folder=False)
    clock.advance(20)
    assert await tickets.redeem(ticket, at("/film")) == (second, False)


async def test_a_ticket_is_for_a_place(
    tickets: Tickets[Session], tokens: Sessions, users: Users, alice: User, clock: Any
) -> None:
    pair = await tokens.issue(alice)
    session = await tokens.session(pair.access_token)
    ticket = await tickets.issue(session, at("/a"), is_folder=True)
    assert await tickets.redeem(ticket, at("/a")) == (session, True)
    await users.change("alice", root="/elsewhere")
    with pytest.raises(NotSignedIn):
        await tickets.redeem(ticket, at("/a"))
    clock.advance(1)
    assert not await tickets.renew(await tokens.session(pair.access_token), ticket, at("/a"), is_folder=True)
    await users.change("alice", root=str(alice.reach.mounts[0].place.path))
    await tickets.redeem(ticket, at("/a"))
