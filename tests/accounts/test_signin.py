import asyncio
import logging
import threading
from typing import Any

import pytest

from portico.accounts.passwords import QUEUE, SHARE, Passwords
from portico.accounts.sessions import Sessions
from portico.accounts.sign_in import FAMILIAR_BURST, FAMILIAR_RATE, MAX_WRITES, SignedIn, SignIn
from portico.accounts.throttle import ADDRESS_FAILURES, INTERVAL, PAIR_FAILURES, Throttle, Treatment, attempt_of
from portico.accounts.users import Users
from portico.model.errors import NotFound, TooManyRequests, WrongPassword
from portico.store.database import Database
from portico.store.users import User

from ..fixtures import SQLITE_IS_ENOUGH

HOME = "192.0.2.1"


async def test_the_right_password_opens_a_session(sign_in: SignIn, tokens: Sessions, alice: User) -> None:
    pair = (await sign_in.with_password("ALICE", "correct horse", HOME)).tokens
    assert pair.user == alice
    assert (await tokens.session(pair.access_token)).user == alice


@SQLITE_IS_ENOUGH
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
        refusals.append((refusal.value.code, refusal.value.detail, refusal.value.retry_after, refusal.value.cause))
    assert len(set(refusals)) == 1


@SQLITE_IS_ENOUGH
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


@SQLITE_IS_ENOUGH
async def test_guessing_is_slowed_down_and_the_victim_is_not_locked_out(sign_in: SignIn, alice: User) -> None:
    for _ in range(PAIR_FAILURES):
        with pytest.raises(WrongPassword):
            await sign_in.with_password("alice", "a wrong guess", "198.51.100.7")
    with pytest.raises(TooManyRequests) as refusal:
        await sign_in.with_password("alice", "correct horse", "198.51.100.7")
    assert refusal.value.retry_after
    assert (await sign_in.with_password("alice", "correct horse", HOME)).tokens.user == alice


@SQLITE_IS_ENOUGH
async def test_a_flood_does_not_crowd_out_who_signed_in_before(sign_in: SignIn, alice: User) -> None:
    await sign_in.with_password("alice", "correct horse", HOME)
    flood = [
        asyncio.create_task(sign_in.with_password(f"user{n}", "a wrong guess", f"198.51.100.{n}")) for n in range(100)
    ]
    while not sign_in._passwords.queued(familiar=False):
        await asyncio.sleep(0)
    assert (await sign_in.with_password("alice", "correct horse", HOME)).tokens.user == alice
    outcomes = await asyncio.gather(*flood, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} <= {WrongPassword, TooManyRequests}


async def test_an_account_that_signs_in_everywhere_does_not_crowd_out_others(
    sign_in: SignIn, users: Users, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mallory has the right password and many addresses; everybody is known, and only hashing takes long."""
    await users.add("mallory", "correct horse")
    places = [f"2001:db8:0:{number:x}::1" for number in range(12)]
    for place in places:
        await sign_in.with_password("mallory", "correct horse", place)
    await sign_in.with_password("alice", "correct horse", HOME)
    gate = threading.Event()
    order: list[str] = []

    def held(_: str, password: bytes) -> bool:
        gate.wait(30)
        order.append(password.decode())
        return False

    monkeypatch.setattr(sign_in._passwords, "_matches", held)
    crowd = [asyncio.create_task(sign_in.with_password("mallory", "of mallory", place)) for place in places * 3]
    passwords = sign_in._passwords
    while sum(passwords.queued(familiar=lane) for lane in (False, True)) < SHARE + QUEUE:
        await asyncio.sleep(0)
    victim = asyncio.create_task(sign_in.with_password("alice", "of alice", HOME))
    while passwords.queued(familiar=True) <= SHARE:
        await asyncio.sleep(0)
    gate.set()
    with pytest.raises(WrongPassword):  # and not TooManyRequests
        await victim
    await asyncio.gather(*crowd, return_exceptions=True)


async def test_sign_ins_of_one_user_are_written_one_after_the_other(
    sign_in: SignIn, alice: User, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line of those who write is in order of arrival: an account that fills it would hold up everybody."""
    writers = most = 0
    transact = database.transact

    async def watched(work: Any) -> Any:
        nonlocal writers, most
        writers += 1
        most = max(most, writers)
        try:
            return await transact(work)
        finally:
            writers -= 1

    async def verify(*_: Any, **__: Any) -> bool:
        return True

    monkeypatch.setattr(sign_in._passwords, "verify", verify)
    monkeypatch.setattr(database, "transact", watched)
    await asyncio.gather(*(sign_in.with_password("alice", "x", f"192.0.2.{n}") for n in range(MAX_WRITES)))
    assert most == 1
    outcomes = await asyncio.gather(
        *(sign_in.with_password("alice", "x", f"192.0.2.{n}") for n in range(2 * MAX_WRITES)), return_exceptions=True
    )
    assert {type(outcome) for outcome in outcomes} <= {SignedIn, TooManyRequests}
    assert not sign_in._writes


async def test_an_account_that_signs_in_all_the_time_leaves_the_familiar_lane(
    sign_in: SignIn, alice: User, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sign_in.with_password("alice", "correct horse", HOME)
    lanes: list[bool] = []

    async def verify(*_: Any, familiar: bool) -> bool:
        lanes.append(familiar)
        return True

    monkeypatch.setattr(sign_in._passwords, "verify", verify)
    for _ in range(FAMILIAR_BURST + 2):
        await sign_in.with_password("alice", "correct horse", HOME)
    assert lanes == [True] * FAMILIAR_BURST + [False] * 2
    clock.advance(1)
    lanes.clear()
    for _ in range(10):
        await sign_in.with_password("alice", "correct horse", HOME)
    assert lanes == [True] * int(FAMILIAR_RATE) + [False] * (10 - int(FAMILIAR_RATE))


async def guess(sign_in: SignIn, times: int, place: str, device: str = "", *, username: str = "alice") -> None:
    for _ in range(times):
        with pytest.raises(WrongPassword):
            await sign_in.with_password(username, "a wrong guess", place, device)


@SQLITE_IS_ENOUGH
async def test_guesses_from_a_shared_address_lock_nobody_out_who_signed_in_there(
    sign_in: SignIn, alice: User, clock: Any
) -> None:
    await sign_in.with_password("alice", "correct horse", HOME)
    await guess(sign_in, PAIR_FAILURES, HOME)
    assert clock.slept == []
    await guess(sign_in, 3, HOME)
    assert sum(clock.slept) == 2 * INTERVAL.total_seconds()  # guesses are slow from here on
    clock.slept.clear()
    assert (await sign_in.with_password("alice", "correct horse", HOME)).tokens.user == alice
    assert sum(clock.slept) <= INTERVAL.total_seconds()


@SQLITE_IS_ENOUGH
async def test_a_known_device_is_not_held_back_by_the_failures_of_others(
    sign_in: SignIn, alice: User, clock: Any
) -> None:
    device = (await sign_in.with_password("alice", "correct horse", HOME)).device
    await guess(sign_in, PAIR_FAILURES + 1, HOME)
    clock.slept.clear()
    signed_in = await sign_in.with_password("alice", "correct horse", HOME, device)
    assert clock.slept == []
    # Nor at an address where it has never been, and that is refused to strangers.
    with pytest.raises(TooManyRequests):
        await guess(sign_in, PAIR_FAILURES + 1, "198.51.100.7")
    await sign_in.with_password("alice", "correct horse", "198.51.100.7", signed_in.device)
    assert clock.slept == []


@SQLITE_IS_ENOUGH
async def test_a_known_device_answers_for_its_own_failures(sign_in: SignIn, alice: User, clock: Any) -> None:
    device = (await sign_in.with_password("alice", "correct horse", HOME)).device
    for number in range(PAIR_FAILURES):
        await guess(sign_in, 1, f"198.51.100.{number}", device)
    assert clock.slept == []
    await guess(sign_in, 2, HOME, device)
    assert sum(clock.slept) == INTERVAL.total_seconds()
    clock.slept.clear()
    await sign_in.with_password("alice", "correct horse", HOME)  # without it, the address counts
    assert clock.slept == []


@SQLITE_IS_ENOUGH
async def test_a_device_opens_nothing_and_is_known_for_its_user_alone(
    sign_in: SignIn, users: Users, alice: User
) -> None:
    await users.add("bob", "battery staple")
    device = (await sign_in.with_password("alice", "correct horse", HOME)).device
    with pytest.raises(WrongPassword):
        await sign_in.with_password("alice", "", HOME, device)
    with pytest.raises(TooManyRequests):
        await guess(sign_in, PAIR_FAILURES + 1, "198.51.100.7", device, username="bob")


@SQLITE_IS_ENOUGH
async def test_a_new_password_clears_the_failures_and_ends_known_devices(
    sign_in: SignIn, users: Users, alice: User, clock: Any
) -> None:
    device = (await sign_in.with_password("alice", "correct horse", HOME)).device
    await guess(sign_in, PAIR_FAILURES, HOME)
    with pytest.raises(TooManyRequests):
        await guess(sign_in, PAIR_FAILURES + 1, "198.51.100.7")
    await users.set_password("Alice", "battery staple")
    await sign_in.with_password("alice", "battery staple", "198.51.100.7")
    await sign_in.with_password("alice", "battery staple", HOME)
    assert clock.slept == []
    with pytest.raises(TooManyRequests):
        await guess(sign_in, PAIR_FAILURES + 1, "198.51.100.8", device)


@SQLITE_IS_ENOUGH
async def test_unlocking_clears_every_count_of_the_user(sign_in: SignIn, users: Users, alice: User, clock: Any) -> None:
    device = (await sign_in.with_password("alice", "correct horse", HOME)).device
    await guess(sign_in, PAIR_FAILURES, HOME)
    await guess(sign_in, PAIR_FAILURES, HOME, device)
    with pytest.raises(TooManyRequests):
        await guess(sign_in, PAIR_FAILURES + 1, "198.51.100.7")
    await users.unlock("ALICE")
    for place, known in ((HOME, ""), (HOME, device), ("198.51.100.7", "")):
        await guess(sign_in, 1, place, known)
    assert clock.slept == []
    with pytest.raises(NotFound):
        await users.unlock("nobody")


async def test_unlocking_clears_an_address_that_is_named(
    sign_in: SignIn, users: Users, throttle: Throttle, alice: User
) -> None:
    for number in range(ADDRESS_FAILURES):
        await throttle.failed(attempt_of(f"user{number}", "2001:db8::1"))
    await users.unlock("alice")
    with pytest.raises(TooManyRequests):
        await guess(sign_in, 1, "2001:db8::2")
    await users.unlock("alice", address="2001:db8::3")
    await guess(sign_in, 1, "2001:db8::2")


@SQLITE_IS_ENOUGH
async def test_a_new_user_of_an_old_name_is_a_stranger(
    sign_in: SignIn, users: Users, throttle: Throttle, alice: User
) -> None:
    device = (await sign_in.with_password("alice", "correct horse", HOME)).device
    assert await throttle.check(attempt_of("alice", HOME)) is Treatment.KNOWN
    await users.delete("alice")
    await users.add("alice", "correct horse")
    assert await throttle.check(attempt_of("alice", HOME)) is Treatment.STRANGER
    with pytest.raises(TooManyRequests):
        await guess(sign_in, PAIR_FAILURES + 1, HOME, device)


async def test_a_success_clears_the_failures(sign_in: SignIn, throttle: Throttle, alice: User) -> None:
    for _ in range(PAIR_FAILURES - 1):
        await throttle.failed(attempt_of("alice", HOME))
    await sign_in.with_password("alice", "correct horse", HOME)
    assert await throttle.check(attempt_of("alice", HOME)) is Treatment.KNOWN
    with pytest.raises(WrongPassword):
        await sign_in.with_password("alice", "a wrong guess", HOME)


@pytest.mark.parametrize("change", ["disabled", "password", "deleted"])
async def test_what_changes_while_the_password_is_verified_counts(
    sign_in: SignIn, users: Users, alice: User, passwords: Passwords, monkeypatch: pytest.MonkeyPatch, change: str
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


async def test_a_sign_in_takes_two_readings_and_one_transaction(
    sign_in: SignIn, alice: User, queries: list[None], transactions: list[None]
) -> None:
    await sign_in.with_password("alice", "correct horse", HOME)
    assert (len(queries), len(transactions)) == (2, 1)


@SQLITE_IS_ENOUGH
async def test_no_log_line_carries_a_secret(
    sign_in: SignIn, users: Users, tokens: Sessions, alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("sqlalchemy.engine").setLevel(logging.INFO)
    try:
        with caplog.at_level(logging.DEBUG):
            signed_in = await sign_in.with_password("alice", "correct horse", HOME)
            pair = signed_in.tokens
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
        signed_in.device,
        *_tokens_of(pair, renewed),
    ):
        assert secret not in caplog.text


def _tokens_of(*pairs: Any) -> list[str]:
    return [token for pair in pairs for token in (pair.access_token, pair.refresh_token)]
