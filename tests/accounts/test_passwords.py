import asyncio
import os
import sys
import threading
from collections.abc import Iterator

import pytest

from portico.accounts import passwords as module
from portico.accounts.passwords import Passwords, check_password
from portico.accounts.throttle import SignInAttempt, attempt_of
from portico.model.errors import InvalidRequest, TooManyRequests

pytestmark = pytest.mark.usefixtures("real_argon2")


class Gate:
    """Holds every hashing thread until it is opened, and counts what came through."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.passed = 0

    def __call__(self, hashed: str, password: bytes) -> bool:
        self.opened.wait(10)
        self.passed += 1
        return False


@pytest.fixture
def gate(passwords: Passwords, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(passwords, "_matches", gate)
    yield gate
    gate.opened.set()


async def test_a_password_is_known_again(passwords: Passwords) -> None:
    hashed = await passwords.hash("correct hörse")
    assert hashed.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert await passwords.verify(hashed, "correct hörse")
    assert await passwords.verify(hashed, "correct hörse", familiar=True)
    assert not await passwords.verify(hashed, "correct horse")
    assert await passwords.hash("correct hörse") != hashed


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own elsewhere")
async def test_strangers_are_hashed_in_the_time_that_others_leave(
    passwords: Passwords, monkeypatch: pytest.MonkeyPatch
) -> None:
    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def noted(*_: object) -> bool:
        seen.append(priority())
        return False

    seen: list[int] = []
    monkeypatch.setattr(passwords, "_matches", noted)
    await passwords.verify(None, "correct horse", familiar=True)
    await passwords.verify(None, "correct horse")
    assert seen == [priority(), min(priority() + 10, 19)]


async def test_where_no_thread_may_step_back_passwords_are_checked_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(_: int) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "nice", forbidden)
    passwords = Passwords()
    try:
        assert await passwords.verify(await passwords.hash("correct horse"), "correct horse")
    finally:
        passwords.close()


async def test_nobody_has_no_password_but_is_verified_all_the_same(
    passwords: Passwords, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    matches = passwords._matches

    def watched(hashed: str, password: bytes) -> bool:
        asked.append(hashed)
        return matches(hashed, password)

    monkeypatch.setattr(passwords, "_matches", watched)
    real = await passwords.hash("correct horse")
    assert not await passwords.verify(None, "correct horse")
    assert asked[0].split("$")[:4] == real.split("$")[:4]
    assert [len(part) for part in asked[0].split("$")] == [len(part) for part in real.split("$")]


async def test_a_hash_that_is_none_matches_nothing(passwords: Passwords) -> None:
    assert not await passwords.verify("garbage", "correct horse")


@pytest.mark.parametrize("password", ["x" * 1025, "ä" * 513, "x" * 2**20, "\ud800" * 8])
async def test_what_cannot_be_a_password_is_never_hashed(gate: Gate, passwords: Passwords, password: str) -> None:
    assert not await passwords.verify(None, password)
    assert gate.passed == 0


@pytest.mark.parametrize("password", ["", "seven77", "x" * 1025, "ä" * 513, "\ud800" * 8])
async def test_passwords_out_of_bounds_cannot_be_set(passwords: Passwords, password: str) -> None:
    with pytest.raises(InvalidRequest, match="8 to 1024 bytes"):
        await passwords.hash(password)


def test_bounds_are_in_bytes() -> None:
    check_password("ä" * 4)
    check_password("x" * 1024)


async def test_beyond_the_queue_strangers_are_turned_away_but_the_familiar_are_not(
    gate: Gate, passwords: Passwords
) -> None:
    room = module._cores() + module.QUEUE
    flood = [asyncio.create_task(passwords.verify(None, "a guess that fails")) for _ in range(room)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests) as refusal:
        await passwords.verify(None, "one too many")
    assert refusal.value.retry_after
    friend = asyncio.create_task(passwords.verify(None, "a friend of the house", familiar=True))
    await asyncio.sleep(0)
    gate.opened.set()
    assert await asyncio.gather(friend, *flood) == [False] * (room + 1)
    assert not await passwords.verify(None, "there is room again")


def attempts_of(users: int, places: int = 1) -> list[SignInAttempt]:
    return [attempt_of(f"user{user}", f"198.18.{user}.{place}") for user in range(users) for place in range(places)]


async def test_a_full_familiar_lane_leaves_the_general_one(gate: Gate, passwords: Passwords) -> None:
    room = 1 + module.QUEUE + module._cores() + module.QUEUE
    waiting = [
        asyncio.create_task(passwords.verify(None, "guess", attempt, familiar=True)) for attempt in attempts_of(room)
    ]
    await asyncio.sleep(0)
    assert (passwords.queued(familiar=True), passwords.queued(familiar=False)) == (
        1 + module.QUEUE,
        module._cores() + module.QUEUE,
    )
    with pytest.raises(TooManyRequests):
        await passwords.verify(None, "guess", attempt_of("one more", "192.0.2.1"), familiar=True)
    gate.opened.set()
    assert await asyncio.gather(*waiting) == [False] * room


async def test_one_user_has_a_share_of_the_familiar_lane_however_many_the_addresses(
    gate: Gate, passwords: Passwords
) -> None:
    waiting = [
        asyncio.create_task(passwords.verify(None, "guess", attempt, familiar=True))
        for attempt in [*attempts_of(1, 4), *attempts_of(1, 4)]
    ]
    await asyncio.sleep(0)
    assert passwords.queued(familiar=True) == module.SHARE
    gate.opened.set()
    await asyncio.gather(*waiting)


async def test_who_goes_away_leaves_the_line(gate: Gate, passwords: Passwords) -> None:
    room = module._cores() + module.QUEUE
    flood = [asyncio.create_task(passwords.verify(None, "guess")) for _ in range(room)]
    await asyncio.sleep(0)
    for task in flood:
        task.cancel()
    await asyncio.gather(*flood, return_exceptions=True)
    stayer = asyncio.create_task(passwords.verify(None, "guess"))
    await asyncio.sleep(0)
    gate.opened.set()
    assert await stayer is False
    assert gate.passed <= module._cores() + 1


async def test_the_loop_goes_on_while_a_password_is_hashed(gate: Gate, passwords: Passwords) -> None:
    task = asyncio.create_task(passwords.verify(None, "guess"))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not task.done()
    gate.opened.set()
    await task
