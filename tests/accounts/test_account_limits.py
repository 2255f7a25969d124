"""Accounts that have expired, and those that are used from elsewhere than they may be."""

from datetime import datetime, timedelta
from ipaddress import ip_network

import pytest

from portico.accounts.api_keys import ApiKeys, KeyScope, UnknownKey
from portico.accounts.credentials import digest_of
from portico.accounts.groups import Groups
from portico.accounts.passwords import Passwords
from portico.accounts.sessions import Sessions, Tickets
from portico.accounts.share_links import ShareLinks, SharePolicy
from portico.accounts.sign_in import SignIn
from portico.accounts.throttle import PAIR_FAILURES
from portico.accounts.users import Invitations, UnknownInvitation, Users
from portico.model.errors import (
    AccountDisabled,
    AccountExpired,
    AddressNotAllowed,
    NotPossible,
    NotSignedIn,
    TooManyRequests,
    WrongPassword,
)
from portico.model.paths import Path, Place
from portico.model.rights import Right
from portico.runtime import clock as clock_module
from portico.store.database import Database
from portico.store.sessions import Session
from portico.store.users import User, within

from ..fixtures import Clock

HOME, ELSEWHERE = "192.0.2.1", "198.51.100.7"
HERE = [ip_network("192.0.2.0/24")]


def later(clock: Clock, seconds: float) -> datetime:
    return clock_module.to_datetime(clock.moment) + timedelta(seconds=seconds)


class TestExpiry:
    async def test_a_session_ends_with_the_account_even_in_the_cache(
        self, users: Users, alice: User, tokens: Sessions, clock: Clock
    ) -> None:
        await users.change("alice", expires_at=later(clock, 0.5))
        pair = await tokens.issue(alice)
        assert (await tokens.session(pair.access_token)).user.expires_at
        clock.advance(0.49)
        await tokens.session(pair.access_token)
        assert await tokens.current_user(alice.id)
        clock.advance(0.01)
        with pytest.raises(NotSignedIn):
            await tokens.session(pair.access_token)
        with pytest.raises(NotSignedIn):
            await tokens.refresh(pair.refresh_token)
        with pytest.raises(NotSignedIn, match="Your account has expired"):
            await tokens.current_user(alice.id)
        with pytest.raises(NotSignedIn):
            await tokens.issue(alice)
        await users.change("alice", expires_at=None)
        await tokens.session(pair.access_token)
        await tokens.refresh(pair.refresh_token)

    async def test_the_sign_in_tells_nothing(self, users: Users, alice: User, sign_in: SignIn, clock: Clock) -> None:
        await users.change("alice", expires_at=later(clock, 1))
        await sign_in.with_password("alice", "correct horse", HOME)
        clock.advance(1)
        refusals = []
        for name, password, kind in (
            ("alice", "correct horse", AccountExpired),
            ("alice", "wrong", WrongPassword),
            ("nobody", "correct horse", WrongPassword),
        ):
            with pytest.raises(WrongPassword) as refusal:
                await sign_in.with_password(name, password, HOME)
            assert type(refusal.value) is kind
            refusals.append((refusal.value.code, refusal.value.detail, refusal.value.retry_after))
        assert len(set(refusals)) == 1
        await users.change("alice", disabled=True)
        with pytest.raises(AccountDisabled):
            await sign_in.with_password("alice", "correct horse", HOME)

    async def test_by_a_group(
        self, users: Users, alice: User, tokens: Sessions, database: Database, clock: Clock
    ) -> None:
        pair = await tokens.issue(alice)
        groups = Groups(database)
        await groups.add("staff", expires_at=later(clock, -1))
        await tokens.session(pair.access_token)
        await groups.join("staff", ["alice"])
        tokens.forget()
        with pytest.raises(NotSignedIn):
            await tokens.session(pair.access_token)

    async def test_keys(self, users: Users, alice: User, database: Database, clock: Clock) -> None:
        keys = ApiKeys(database)
        await users.change("alice", expires_at=later(clock, 0.5))
        new = await keys.add(alice, KeyScope("key"))
        await keys.use(new.text, HOME)
        clock.advance(0.5)
        with pytest.raises(UnknownKey):
            await keys.use(new.text, HOME)
        with pytest.raises(NotSignedIn, match="key's owner has expired"):
            await keys.current_user(digest_of(new.text))
        with pytest.raises(UnknownKey):
            await keys.add(alice, KeyScope("another"))

    async def test_tickets(
        self, users: Users, alice: User, tokens: Sessions, tickets: Tickets[Session], clock: Clock
    ) -> None:
        session = await tokens.session((await tokens.issue(alice)).access_token)
        path = Path.parse("/a.txt")
        ticket = await tickets.issue(session, path, is_folder=False)
        await users.change("alice", expires_at=later(clock, 1))
        await tickets.redeem(ticket, path)
        clock.advance(1)
        with pytest.raises(NotSignedIn):
            await tickets.redeem(ticket, path)

    async def test_invitations(
        self, users: Users, alice: User, database: Database, passwords: Passwords, clock: Clock
    ) -> None:
        invitations = Invitations(database, passwords)
        made = await invitations.make("alice")
        await users.change("alice", expires_at=later(clock, 0))
        with pytest.raises(NotPossible, match="has expired; extend it first"):
            await invitations.make("alice")
        with pytest.raises(UnknownInvitation):
            await invitations.find(made.token)
        with pytest.raises(UnknownInvitation):
            await invitations.accept(made.token, "battery staple")

    async def test_links(self, users: Users, alice: User, database: Database, clock: Clock) -> None:
        links = ShareLinks(database, SharePolicy())
        alice = await users.change("alice", rights=[*alice.rights, Right.SHARE], expires_at=later(clock, 1))
        values = {
            "is_folder": True, "kind": "download", "title": "", "note": "", "types": "", "ask_name": False,
            "folder_per_sender": False,
        }  # fmt: skip
        _, token = await links.add(alice, Place("local", Path.parse("/Alice/x")), values)
        assert await links.find(token)
        clock.advance(1)
        assert not await links.find(token)


class TestAddresses:
    async def test_the_right_password_from_elsewhere(self, users: Users, alice: User, sign_in: SignIn) -> None:
        await users.change("alice", addresses=HERE)
        await sign_in.with_password("alice", "correct horse", HOME)
        with pytest.raises(AddressNotAllowed):
            await sign_in.with_password("alice", "correct horse", ELSEWHERE)
        with pytest.raises(AddressNotAllowed):
            await sign_in.verify("alice", "correct horse", ELSEWHERE)
        with pytest.raises(WrongPassword):
            await sign_in.with_password("alice", "wrong", ELSEWHERE)

    async def test_guessing_from_elsewhere_is_slowed_down_as_ever(
        self, users: Users, alice: User, sign_in: SignIn
    ) -> None:
        await users.change("alice", addresses=HERE)
        for _ in range(PAIR_FAILURES):
            with pytest.raises(WrongPassword):
                await sign_in.with_password("alice", "a wrong guess", ELSEWHERE)
            with pytest.raises(AddressNotAllowed):  # which forgives no failure, and is none
                await sign_in.with_password("alice", "correct horse", "203.0.113.9")
        with pytest.raises(TooManyRequests):
            await sign_in.with_password("alice", "correct horse", ELSEWHERE)
        with pytest.raises(AddressNotAllowed):
            await sign_in.with_password("alice", "correct horse", "203.0.113.9")

    async def test_a_right_password_from_elsewhere_clears_no_failures(
        self, users: Users, alice: User, sign_in: SignIn
    ) -> None:
        await users.change("alice", addresses=HERE)
        for _ in range(PAIR_FAILURES - 1):
            with pytest.raises(WrongPassword):
                await sign_in.with_password("alice", "a wrong guess", ELSEWHERE)
        with pytest.raises(AddressNotAllowed):
            await sign_in.with_password("alice", "correct horse", ELSEWHERE)
        with pytest.raises(WrongPassword):
            await sign_in.with_password("alice", "a wrong guess", ELSEWHERE)
        with pytest.raises(TooManyRequests):
            await sign_in.with_password("alice", "correct horse", ELSEWHERE)

    async def test_a_refresh_from_elsewhere_uses_nothing_up(self, users: Users, alice: User, tokens: Sessions) -> None:
        pair = await tokens.issue(alice)
        await users.change("alice", addresses=HERE)
        with pytest.raises(AddressNotAllowed):
            await tokens.refresh(pair.refresh_token, address=ELSEWHERE)
        await tokens.refresh(pair.refresh_token, address=HOME)

    async def test_a_key_needs_its_own_ranges_and_those_of_its_owner(
        self, users: Users, alice: User, database: Database
    ) -> None:
        keys = ApiKeys(database)
        new = await keys.add(alice, KeyScope("key", addresses=(ip_network("192.0.0.0/8"),)))
        await users.change("alice", addresses=HERE)
        await keys.use(new.text, HOME)
        keys.forget()
        with pytest.raises(AddressNotAllowed, match="owner can't be used"):
            await keys.use(new.text, "192.9.9.9")

    @pytest.mark.parametrize(
        ("address", "inside"),
        [
            ("192.0.2.9", True),
            ("::ffff:192.0.2.9", True),
            ("192.0.3.9", False),
            ("fe80::1%eth0", True),
            ("2001:db8::1", False),
            ("", False),
            ("nonsense", False),
        ],
    )
    def test_within(self, address: str, inside: bool) -> None:
        assert within(address, (*HERE, ip_network("fe80::/64"))) is inside
