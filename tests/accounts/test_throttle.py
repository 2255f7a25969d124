import asyncio
import pathlib
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from portico.accounts.passwords import QUEUE, SHARE
from portico.accounts.sign_in import FAMILIAR_BURST, FAMILIAR_RATE
from portico.accounts.throttle import (
    ADDRESS_FAILURES,
    CREDENTIAL_FAILURES,
    INTERVAL,
    MAX_WAITING,
    PAIR_FAILURES,
    SignInAttempt,
    Throttle,
    Treatment,
    attempt_of,
    network_of,
)
from portico.model.errors import TooManyRequests, Unavailable
from portico.runtime import clock
from portico.store import sign_in_attempts as module
from portico.store.database import Database
from portico.store.sign_in_attempts import FAMILIAR, MAX_PAIRS, WINDOW
from portico.store.sqlite import SqliteConnection
from portico.store.tables import attempts

pytestmark = pytest.mark.usefixtures("clock")
HOME, ELSEWHERE = "192.0.2.1", "192.0.2.2"


async def fail(throttle: Throttle, times: int, username: str = "alice", address: str = HOME) -> None:
    for _ in range(times):
        await throttle.check(attempt_of(username, address))
        await throttle.failed(attempt_of(username, address))


async def wait_of(throttle: Throttle, username: str = "alice", address: str = HOME) -> int:
    with pytest.raises(TooManyRequests) as refusal:
        await throttle.check(attempt_of(username, address))
    assert refusal.value.retry_after is not None
    return refusal.value.retry_after


async def rows(database: Database) -> int:
    async with database.connect() as reading:
        return (await reading.execute(select(func.count()).select_from(attempts))).scalar_one()


async def test_a_pair_waits_for_the_end_of_the_window(throttle: Throttle, clock: Any) -> None:
    await fail(throttle, PAIR_FAILURES - 1)
    clock.advance(60)
    await fail(throttle, 1)
    assert await wait_of(throttle) == WINDOW.total_seconds() - 60
    clock.advance(WINDOW.total_seconds() - 60.5)
    assert await wait_of(throttle) == 1
    clock.advance(0.5)
    assert await throttle.check(attempt_of("alice", HOME)) is Treatment.STRANGER
    await fail(throttle, PAIR_FAILURES - 1)


async def test_the_account_is_never_locked(throttle: Throttle) -> None:
    await fail(throttle, PAIR_FAILURES)
    assert await throttle.check(attempt_of("alice", ELSEWHERE)) is Treatment.STRANGER
    assert await throttle.check(attempt_of("bob", HOME)) is Treatment.STRANGER


async def test_case_and_look_of_a_name_make_no_new_pair(throttle: Throttle) -> None:
    for name in ("alice", "Alice", "ALICE", "aLiCe") * 3:
        if name == "ALICE":
            continue
        await throttle.failed(attempt_of(name, HOME))
    await throttle.failed(attempt_of("alice", HOME))
    assert await wait_of(throttle, "ALICE") > 0


async def test_a_flood_is_counted_in_a_few_transactions(throttle: Throttle, transactions: list[None]) -> None:
    names = [f"user{number % 3}" for number in range(3 * PAIR_FAILURES - 1)]
    await asyncio.gather(*(throttle.failed(attempt_of(name, HOME)) for name in names))
    assert len(transactions) <= 2
    assert await wait_of(throttle, "user0") == await wait_of(throttle, "user1") == WINDOW.total_seconds()
    assert await throttle.check(attempt_of("user2", HOME)) is Treatment.STRANGER  # it has failed once less
    await throttle.failed(attempt_of("user2", HOME))
    assert await wait_of(throttle, "user2") > 0


@pytest.mark.parametrize(
    "broken", [((Database, "begin"),), ((AsyncConnection, "execute"), (SqliteConnection, "execute"))]
)
async def test_what_the_database_does_not_take_is_reported_to_all_and_not_kept(
    throttle: Throttle, monkeypatch: pytest.MonkeyPatch, broken: tuple[tuple[type, str], ...]
) -> None:
    def fail_to(*_: Any) -> Any:
        raise Unavailable("The database does not answer.")

    with monkeypatch.context() as patch:
        for each in broken:
            patch.setattr(*each, fail_to)
        outcomes = await asyncio.gather(
            *(throttle.failed(attempt_of("alice", HOME)) for _ in range(PAIR_FAILURES)), return_exceptions=True
        )
    assert [type(outcome) for outcome in outcomes] == [Unavailable] * PAIR_FAILURES
    await fail(throttle, PAIR_FAILURES)
    assert await wait_of(throttle) > 0


async def test_who_leaves_does_not_take_the_others_along(throttle: Throttle) -> None:
    leaving, *staying = [asyncio.create_task(throttle.failed(attempt_of("alice", HOME))) for _ in range(PAIR_FAILURES)]
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(*staying)
    assert leaving.cancelled()
    assert await wait_of(throttle) > 0


async def test_an_address_that_tries_many_names_waits(throttle: Throttle) -> None:
    for number in range(ADDRESS_FAILURES):
        await fail(throttle, 1, f"user{number}")
    assert await wait_of(throttle, "somebody new") == WINDOW.total_seconds()
    assert await throttle.check(attempt_of("somebody new", ELSEWHERE)) is Treatment.STRANGER


async def test_a_familiar_pair_answers_for_itself_alone(throttle: Throttle, database: Database) -> None:
    await database.execute(throttle.success(attempt_of("alice", HOME)))
    for number in range(ADDRESS_FAILURES):
        await fail(throttle, 1, f"user{number}")
    assert await throttle.check(attempt_of("Alice", HOME)) is Treatment.KNOWN
    await fail(throttle, PAIR_FAILURES)
    assert await throttle.check(attempt_of("alice", HOME)) is Treatment.DELAYED
    assert await throttle.check(attempt_of("alice", ELSEWHERE)) is Treatment.STRANGER


async def spaced(throttle: Throttle, database: Database) -> SignInAttempt:
    """A familiar pair that has failed too often."""
    attempt = attempt_of("alice", HOME)
    await database.execute(throttle.success(attempt))
    for _ in range(PAIR_FAILURES):
        await throttle.failed(attempt)
    assert await throttle.check(attempt) is Treatment.DELAYED
    return attempt


async def test_what_is_spaced_is_let_through_one_at_a_time_by_all_workers(
    throttle: Throttle, database: Database, clock: Any
) -> None:
    attempt = await spaced(throttle, database)
    began = clock.ticks
    turns: list[float] = []

    async def wait(worker: Throttle) -> None:
        await worker.wait(attempt)
        turns.append(clock.ticks - began)

    for worker in (throttle, Throttle(database), throttle, Throttle(database)):
        await wait(worker)
    assert turns == [number * INTERVAL.total_seconds() for number in range(4)]


async def test_few_wait_for_their_turn_and_the_others_are_refused_for_now(
    throttle: Throttle, monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    attempt = await spaced(throttle, database)
    going_on = asyncio.Event()

    async def hold(_: float) -> None:
        await going_on.wait()

    await throttle.wait(attempt)
    monkeypatch.setattr(clock, "sleep", hold)
    waiting = [asyncio.create_task(throttle.wait(attempt)) for _ in range(MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests) as refusal:
        await throttle.wait(attempt)
    assert refusal.value.retry_after == INTERVAL.total_seconds()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert not throttle._pacing._lock
    assert not throttle._pacing._waiting_by_user


async def test_one_who_never_gets_a_turn_is_refused_for_now(
    throttle: Throttle, monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    attempt = await spaced(throttle, database)

    async def admit(_: bytes) -> float:
        return INTERVAL.total_seconds()

    monkeypatch.setattr(throttle._pacing, "admit", admit)
    with pytest.raises(TooManyRequests):
        await throttle.wait(attempt)


async def test_a_turn_that_was_taken_in_the_far_future_holds_nobody_up(
    throttle: Throttle, clock: Any, database: Database
) -> None:
    attempt = await spaced(throttle, database)
    await throttle.wait(attempt)
    clock.set(-600)
    await throttle.wait(attempt)
    assert clock.slept == []


async def test_a_known_device_has_a_count_of_its_own(throttle: Throttle) -> None:
    device = attempt_of("alice", HOME, b"device")
    for _ in range(PAIR_FAILURES):
        assert await throttle.check(device) is Treatment.KNOWN
        await throttle.failed(device)
    assert await throttle.check(device) is Treatment.DELAYED
    assert await throttle.check(attempt_of("alice", ELSEWHERE, b"device")) is Treatment.DELAYED
    assert await throttle.check(attempt_of("alice", HOME, b"other")) is Treatment.KNOWN
    assert await throttle.check(attempt_of("alice", HOME)) is Treatment.STRANGER


async def test_the_success_of_a_device_does_not_clear_what_others_failed_at(
    throttle: Throttle, database: Database
) -> None:
    await spaced(throttle, database)
    await database.execute(throttle.success(attempt_of("alice", HOME, b"device")))
    assert await throttle.check(attempt_of("alice", HOME)) is Treatment.DELAYED


async def test_made_up_refresh_tokens_are_throttled_by_address_alone(throttle: Throttle, clock: Any) -> None:
    for _ in range(CREDENTIAL_FAILURES):
        await throttle.credential_failed(HOME)
    await throttle.credential_failed(HOME)  # one is still answered every few seconds
    with pytest.raises(TooManyRequests) as refusal:
        await throttle.credential_failed(HOME)
    assert refusal.value.retry_after == INTERVAL.total_seconds()
    await throttle.credential_failed(ELSEWHERE)
    assert await throttle.check(attempt_of("alice", HOME)) is Treatment.STRANGER
    clock.advance(INTERVAL.total_seconds())
    await throttle.credential_failed(HOME)
    clock.advance(WINDOW.total_seconds())
    for _ in range(CREDENTIAL_FAILURES):
        await throttle.credential_failed(HOME)


async def test_one_account_does_not_push_out_the_familiar_pairs_of_others(
    throttle: Throttle, clock: Any, monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    monkeypatch.setattr(module, "MAX_PAIRS", 3)
    await database.execute(throttle.success(attempt_of("alice", HOME)))
    for number in range(5):
        clock.advance(1)
        await database.execute(throttle.success(attempt_of("mallory", f"198.51.100.{number}")))
    await throttle.sweep()
    assert await throttle.check(attempt_of("alice", HOME)) is Treatment.KNOWN
    found = [await throttle.check(attempt_of("mallory", f"198.51.100.{number}")) for number in range(5)]
    assert found == [Treatment.STRANGER] * 2 + [Treatment.KNOWN] * 3


async def test_success_clears_the_pair_but_not_the_address(throttle: Throttle, database: Database) -> None:
    await fail(throttle, PAIR_FAILURES - 1)
    await database.execute(throttle.success(attempt_of("alice", HOME)))
    await fail(throttle, PAIR_FAILURES - 1)
    for number in range(ADDRESS_FAILURES - 2 * (PAIR_FAILURES - 1)):
        await fail(throttle, 1, f"user{number}")
    assert await wait_of(throttle, "stranger") > 0


async def test_familiarity_fades(throttle: Throttle, clock: Any, database: Database) -> None:
    await database.execute(throttle.success(attempt_of("alice", HOME)))
    clock.advance(FAMILIAR.total_seconds() - 1)
    await throttle.sweep()
    assert await throttle.check(attempt_of("alice", HOME)) is Treatment.KNOWN
    clock.advance(1)
    assert await throttle.check(attempt_of("alice", HOME)) is Treatment.STRANGER


async def test_failures_at_once_are_all_counted(throttle: Throttle, database: Database) -> None:
    other_worker = Throttle(database)
    await asyncio.gather(
        *(worker.failed(attempt_of("alice", HOME)) for worker in (throttle, other_worker) for _ in range(5))
    )
    assert await wait_of(throttle) > 0


@pytest.mark.parametrize("jump", [-600, 600])
async def test_a_clock_that_jumps_keeps_nobody_out_for_longer(throttle: Throttle, clock: Any, jump: int) -> None:
    await fail(throttle, PAIR_FAILURES)
    clock.set(jump)
    assert 0 < await wait_of(throttle) <= WINDOW.total_seconds()
    clock.advance(2 * WINDOW.total_seconds())
    assert await throttle.check(attempt_of("alice", HOME)) is Treatment.STRANGER


async def test_a_count_from_the_far_future_is_not_believed(throttle: Throttle, clock: Any) -> None:
    await fail(throttle, PAIR_FAILURES)
    clock.set(-86400)
    assert await throttle.check(attempt_of("alice", HOME)) is Treatment.STRANGER
    await throttle.failed(attempt_of("alice", HOME))
    assert await throttle.check(attempt_of("alice", HOME)) is Treatment.STRANGER


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not an address", "not an address"),
        ("", ""),
    ],
)
def test_what_counts_as_one_address(address: str, network: str) -> None:
    assert network_of(address) == network


async def test_one_subscriber_of_ipv6_is_one_address(throttle: Throttle) -> None:
    for number in range(PAIR_FAILURES):
        await throttle.failed(attempt_of("alice", f"2001:db8::{number:x}"))
    assert await wait_of(throttle, address="2001:db8::ffff") > 0
    assert await throttle.check(attempt_of("alice", "2001:db8:0:1::1")) is Treatment.STRANGER


@pytest.mark.parametrize("name", ["", "\0", "\ud800", "x" * 2**20, "\ufdfa" * 64])
async def test_odd_names_are_counted_like_others(throttle: Throttle, name: str) -> None:
    await fail(throttle, PAIR_FAILURES, name)
    assert await wait_of(throttle, name) > 0


async def test_sweep_forgets_what_is_old(throttle: Throttle, clock: Any, database: Database) -> None:
    await throttle.failed(attempt_of("alice", HOME))
    await database.execute(throttle.success(attempt_of("bob", HOME)))
    clock.advance(WINDOW.total_seconds())
    await throttle.failed(attempt_of("carol", HOME))
    await throttle.sweep()
    assert await rows(database) == 3  # the address, carol, and bob who is familiar
    assert await throttle.check(attempt_of("bob", HOME)) is Treatment.KNOWN
    clock.advance(FAMILIAR.total_seconds())
    await throttle.sweep()
    assert await rows(database) == 0


async def test_a_flood_of_names_leaves_a_bounded_table(
    throttle: Throttle, clock: Any, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 10)
    await database.execute(throttle.success(attempt_of("alice", HOME)))
    for number in range(30):
        clock.advance(0.01)
        await throttle.failed(attempt_of(f"user{number}", f"198.51.100.{number}"))
    await throttle.sweep()
    assert await rows(database) == 10
    assert await throttle.check(attempt_of("alice", HOME)) is Treatment.KNOWN


def test_the_documented_thresholds_are_the_real_ones() -> None:
    page = (pathlib.Path(__file__).parents[2] / "docs" / "accounts.md").read_text()
    minutes, spacing = int(WINDOW.total_seconds() // 60), int(INTERVAL.total_seconds())
    a_day = (PAIR_FAILURES + int(WINDOW / INTERVAL)) * 24 * 60 // minutes
    for sentence in (
        f"| one user name from one address | {PAIR_FAILURES} failures in {minutes} minutes | 429 until",
        f"| all user names from one address | {ADDRESS_FAILURES} failures in {minutes} minutes |",
        f"| the same for a familiar pair | {PAIR_FAILURES} failures in {minutes} minutes | one every {spacing} seconds, {MAX_WAITING} waiting",
        f"| a known device | {PAIR_FAILURES} failures in {minutes} minutes | one every {spacing} seconds, {MAX_WAITING} waiting",
        f"| unknown refresh tokens, API keys, invitations and share links from one address | {CREDENTIAL_FAILURES} in {minutes} minutes | one every {spacing} seconds is answered",
        f"one per core, and {QUEUE} in the queue",
        f"{SHARE} of one user",
        f"{FAMILIAR_BURST} at once, then {FAMILIAR_RATE:.0f} a second",
        f"within the last {FAMILIAR.days} days",
        f"at most {a_day:,} guesses a day",
        f"{PAIR_FAILURES * 24 * 60 // minutes:,} tries a day",
        f"At most {module.MAX_ROWS:,} counts",
        f"{MAX_PAIRS} addresses of one user",
    ):
        assert sentence in page, sentence
