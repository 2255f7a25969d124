import asyncio
import logging
from typing import Any

import pytest

from portico.accounts.passwords import Passwords
from portico.accounts.signin import SignIn, WrongPassword
from portico.accounts.throttle import PAIR_FAILURES, Throttle
from portico.accounts.tokens import Tokens
from portico.accounts.users import User, Users
from portico.errors import TooManyRequests
from portico.store.database import Database

HOME = "192.0.2.1"


async def test_the_right_password_opens_a_session(sign_in: SignIn, tokens: Tokens, alice: User) -> None:
    pair = await sign_in.with_password("ALICE", "correct horse", HOME)
    assert pair.user == alice
    assert (await tokens.session(pair.access_token)).user == alice


async def test_every_refusal_is_the_same(sign_in: SignIn, users: Users, alice: User) -> None:
    await users.add("bob", "correct horse")
    await users.change("bob", disabled=True)
    refusals = []
    for name, password in (
        ("alice", "wrong horse"),
        ("alice", ""),
        ("alice", "x" * 2**20),
        ("nobody", "correct horse"),
        ("bob", "correct horse"),
        ("no\0body", "correct horse"),
        ("\ud800", "correct horse"),
        ("x" * 2**20, "correct horse"),
        ("", ""),
    ):
        with pytest.raises(WrongPassword) as refusal:
            await sign_in.with_password(name, password, HOME)
        refusals.append(
            (refusal.value.code, refusal.value.detail, refusal.value.retry_after, refusal.value.cause)
        )
    assert len(set(refusals)) == 1


async def test_unknown_and_disabled_users_cost_a_hash_too(
    sign_in: SignIn, users: Users, alice: User, passwords: Passwords, monkeypatch: pytest.MonkeyPatch
) -> None:
    await users.change("alice", disabled=True)
    hashed: list[str] = []
    matches = passwords._matches

    def watched(known: str, password: bytes) -> bool:
        hashed.append(known)
        return matches(known, password)

    monkeypatch.setattr(passwords, "_matches", watched)
    for name in ("alice", "nobody", "no\0body"):
        with pytest.raises(WrongPassword):
            await sign_in.with_password(name, "correct horse", HOME)
    assert len(hashed) == 3


async def test_guessing_is_slowed_down_and_the_victim_is_not_locked_out(sign_in: SignIn, alice: User) -> None:
    for _ in range(PAIR_FAILURES):
        with pytest.raises(WrongPassword):
            await sign_in.with_password("alice", "a wrong guess", "198.51.100.7")
    with pytest.raises(TooManyRequests) as refusal:
        await sign_in.with_password("alice", "correct horse", "198.51.100.7")
    assert refusal.value.retry_after
    assert (await sign_in.with_password("alice", "correct horse", HOME)).user == alice


async def test_a_flood_does_not_crowd_out_who_signed_in_before(sign_in: SignIn, alice: User) -> None:
    await sign_in.with_password("alice", "correct horse", HOME)
    flood = [
        asyncio.create_task(sign_in.with_password(f"user{n}", "a wrong guess", f"198.51.100.{n}"))
        for n in range(100)
    ]
    await asyncio.sleep(0.02)
    assert (await sign_in.with_password("alice", "correct horse", HOME)).user == alice
    outcomes = await asyncio.gather(*flood, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} <= {WrongPassword, TooManyRequests}


async def test_one_who_is_known_has_one_place_however_he_writes_his_name(
    sign_in: SignIn, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, neighbour = "2001:db8::1", "2001:db8::2"
    await sign_in.with_password("alice", "correct horse", home)
    lanes: list[bool] = []
    go_on = asyncio.Event()

    async def verify(_: str | None, __: str, *, familiar: bool = False) -> bool:
        lanes.append(familiar)
        await go_on.wait()
        return True

    monkeypatch.setattr(sign_in._passwords, "verify", verify)
    attempts = [("alice", home), ("Alice", home), ("ALICE", neighbour)]
    tasks = [
        asyncio.create_task(sign_in.with_password(name, "correct horse", place)) for name, place in attempts
    ]
    while len(lanes) < 3:
        await asyncio.sleep(0.01)
    go_on.set()
    await asyncio.gather(*tasks)
    assert sorted(lanes) == [False, False, True]


async def test_a_success_clears_the_failures(sign_in: SignIn, throttle: Throttle, alice: User) -> None:
    for _ in range(PAIR_FAILURES - 1):
        await throttle.failed("alice", HOME)
    await sign_in.with_password("alice", "correct horse", HOME)
    assert await throttle.check("alice", HOME) is True
    with pytest.raises(WrongPassword):
        await sign_in.with_password("alice", "a wrong guess", HOME)


@pytest.mark.parametrize("change", ["disabled", "password", "deleted"])
async def test_what_changes_while_the_password_is_verified_counts(
    sign_in: SignIn,
    users: Users,
    alice: User,
    passwords: Passwords,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    verify = passwords.verify

    async def slow(*given: Any, **options: Any) -> bool:
        outcome = await verify(*given, **options)
        match change:
            case "disabled":
                await users.change("alice", disabled=True)
            case "password":
                await users.set_password("alice", "battery staple")
            case "deleted":
                await users.delete("alice")
        return outcome

    monkeypatch.setattr(passwords, "verify", slow)
    with pytest.raises(WrongPassword):
        await sign_in.with_password("alice", "correct horse", HOME)


async def test_a_sign_in_takes_one_reading_and_one_transaction(
    sign_in: SignIn, alice: User, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []

    def watch(name: str) -> None:
        method = getattr(database, name)

        def watched() -> Any:
            taken.append(name)
            return method()

        monkeypatch.setattr(database, name, watched)

    watch("_reading")
    watch("_transaction")
    await sign_in.with_password("alice", "correct horse", HOME)
    assert taken == ["_reading", "_transaction"]


async def test_no_log_line_carries_a_secret(
    sign_in: SignIn, users: Users, tokens: Tokens, alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("sqlalchemy.engine").setLevel(logging.INFO)
    try:
        with caplog.at_level(logging.DEBUG):
            pair = await sign_in.with_password("alice", "correct horse", HOME)
            await tokens.session(pair.access_token)
            renewed = await tokens.refresh(pair.refresh_token)
            await users.set_password("alice", "battery staple")
            with pytest.raises(WrongPassword):
                await sign_in.with_password("alice", "canary guess", HOME)
    finally:
        logging.getLogger("sqlalchemy.engine").setLevel(logging.NOTSET)
    for secret in (
        "correct horse",
        "battery staple",
        "canary guess",
        "$argon2id",
        *_tokens_of(pair, renewed),
    ):
        assert secret not in caplog.text


def _tokens_of(*pairs: Any) -> list[str]:
    return [token for pair in pairs for token in (pair.access_token, pair.refresh_token)]
