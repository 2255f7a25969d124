import asyncio
import pathlib
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from portico.accounts import throttle as module
from portico.accounts.passwords import QUEUE
from portico.accounts.throttle import ADDRESS_FAILURES, FAMILIAR, PAIR_FAILURES, WINDOW, Throttle, network_of
from portico.errors import TooManyRequests, Unavailable
from portico.store.database import Database
from portico.store.tables import attempts

pytestmark = pytest.mark.usefixtures("clock")
HOME, ELSEWHERE = "192.0.2.1", "192.0.2.2"


async def fail(throttle: Throttle, times: int, username: str = "alice", address: str = HOME) -> None:
    for _ in range(times):
        await throttle.check(username, address)
        await throttle.failed(username, address)


async def wait_of(throttle: Throttle, username: str = "alice", address: str = HOME) -> int:
    with pytest.raises(TooManyRequests) as refusal:
        await throttle.check(username, address)
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
    assert await throttle.check("alice", HOME) is False
    await fail(throttle, PAIR_FAILURES - 1)


async def test_the_account_is_never_locked(throttle: Throttle) -> None:
    await fail(throttle, PAIR_FAILURES)
    assert await throttle.check("alice", ELSEWHERE) is False
    assert await throttle.check("bob", HOME) is False


async def test_case_and_look_of_a_name_make_no_new_pair(throttle: Throttle) -> None:
    for name in ("alice", "Alice", "ALICE", "aLiCe") * 3:
        if name == "ALICE":
            continue
        await throttle.failed(name, HOME)
    await throttle.failed("alice", HOME)
    assert await wait_of(throttle, "ALICE") > 0


async def test_a_flood_is_counted_in_a_few_transactions(throttle: Throttle, transactions: list[None]) -> None:
    names = [f"user{number % 3}" for number in range(3 * PAIR_FAILURES - 1)]
    await asyncio.gather(*(throttle.failed(name, HOME) for name in names))
    assert len(transactions) <= 2
    assert await wait_of(throttle, "user0") == await wait_of(throttle, "user1") == WINDOW.total_seconds()
    assert await throttle.check("user2", HOME) is False  # it has failed once less
    await throttle.failed("user2", HOME)
    assert await wait_of(throttle, "user2") > 0


@pytest.mark.parametrize("broken", [(Database, "begin"), (AsyncConnection, "execute")])
async def test_what_the_database_does_not_take_is_told_to_all_and_not_kept(
    throttle: Throttle, monkeypatch: pytest.MonkeyPatch, broken: tuple[type, str]
) -> None:
    def fail_to(*_: Any) -> Any:
        raise Unavailable("The database does not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(*broken, fail_to)
        outcomes = await asyncio.gather(
            *(throttle.failed("alice", HOME) for _ in range(PAIR_FAILURES)), return_exceptions=True
        )
    assert [type(outcome) for outcome in outcomes] == [Unavailable] * PAIR_FAILURES
    await fail(throttle, PAIR_FAILURES)
    assert await wait_of(throttle) > 0


async def test_who_leaves_does_not_take_the_others_along(throttle: Throttle) -> None:
    leaving, *staying = [asyncio.create_task(throttle.failed("alice", HOME)) for _ in range(PAIR_FAILURES)]
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(*staying)
    assert leaving.cancelled()
    assert await wait_of(throttle) > 0


async def test_an_address_that_tries_many_names_waits(throttle: Throttle) -> None:
    for number in range(ADDRESS_FAILURES):
        await fail(throttle, 1, f"user{number}")
    assert await wait_of(throttle, "somebody new") == WINDOW.total_seconds()
    assert await throttle.check("somebody new", ELSEWHERE) is False


async def test_a_familiar_pair_answers_for_itself_alone(throttle: Throttle) -> None:
    await throttle.succeeded("alice", HOME)
    for number in range(ADDRESS_FAILURES):
        await fail(throttle, 1, f"user{number}")
    assert await throttle.check("Alice", HOME) is True
    await fail(throttle, PAIR_FAILURES)
    assert await wait_of(throttle) == WINDOW.total_seconds()
    assert await throttle.check("alice", ELSEWHERE) is False


async def test_success_clears_the_pair_but_not_the_address(throttle: Throttle) -> None:
    await fail(throttle, PAIR_FAILURES - 1)
    await throttle.succeeded("alice", HOME)
    await fail(throttle, PAIR_FAILURES - 1)
    for number in range(ADDRESS_FAILURES - 2 * (PAIR_FAILURES - 1)):
        await fail(throttle, 1, f"user{number}")
    assert await wait_of(throttle, "stranger") > 0


async def test_familiarity_fades(throttle: Throttle, clock: Any) -> None:
    await throttle.succeeded("alice", HOME)
    clock.advance(FAMILIAR.total_seconds() - 1)
    await throttle.sweep()
    assert await throttle.check("alice", HOME) is True
    clock.advance(1)
    assert await throttle.check("alice", HOME) is False


async def test_failures_at_once_are_all_counted(throttle: Throttle, database: Database) -> None:
    other_worker = Throttle(database)
    await asyncio.gather(
        *(worker.failed("alice", HOME) for worker in (throttle, other_worker) for _ in range(5))
    )
    assert await wait_of(throttle) > 0


@pytest.mark.parametrize("jump", [-600, 600])
async def test_a_clock_that_jumps_keeps_nobody_out_for_longer(
    throttle: Throttle, clock: Any, jump: int
) -> None:
    await fail(throttle, PAIR_FAILURES)
    clock.set(jump)
    assert 0 < await wait_of(throttle) <= WINDOW.total_seconds()
    clock.advance(2 * WINDOW.total_seconds())
    assert await throttle.check("alice", HOME) is False


async def test_a_count_from_the_far_future_is_not_believed(throttle: Throttle, clock: Any) -> None:
    await fail(throttle, PAIR_FAILURES)
    clock.set(-86400)
    assert await throttle.check("alice", HOME) is False
    await throttle.failed("alice", HOME)
    assert await throttle.check("alice", HOME) is False


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
        await throttle.failed("alice", f"2001:db8::{number:x}")
    assert await wait_of(throttle, address="2001:db8::ffff") > 0
    assert await throttle.check("alice", "2001:db8:0:1::1") is False


@pytest.mark.parametrize("name", ["", "\0", "\ud800", "x" * 2**20, "\ufdfa" * 64])
async def test_odd_names_are_counted_like_others(throttle: Throttle, name: str) -> None:
    await fail(throttle, PAIR_FAILURES, name)
    assert await wait_of(throttle, name) > 0


async def test_sweep_forgets_what_is_old(throttle: Throttle, clock: Any, database: Database) -> None:
    await throttle.failed("alice", HOME)
    await throttle.succeeded("bob", HOME)
    clock.advance(WINDOW.total_seconds())
    await throttle.failed("carol", HOME)
    await throttle.sweep()
    assert await rows(database) == 3  # the address, carol, and bob who is familiar
    assert await throttle.check("bob", HOME) is True
    clock.advance(FAMILIAR.total_seconds())
    await throttle.sweep()
    assert await rows(database) == 0


async def test_a_flood_of_names_leaves_a_bounded_table(
    throttle: Throttle, clock: Any, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 10)
    await throttle.succeeded("alice", HOME)
    for number in range(30):
        clock.advance(0.01)
        await throttle.failed(f"user{number}", f"198.51.100.{number}")
    await throttle.sweep()
    assert await rows(database) == 10
    assert await throttle.check("alice", HOME) is True


def test_the_documented_thresholds_are_the_real_ones() -> None:
    page = (pathlib.Path(__file__).parents[2] / "docs" / "accounts.md").read_text()
    minutes = int(WINDOW.total_seconds() // 60)
    for sentence in (
        f"| one user name from one address | {PAIR_FAILURES} failures in {minutes} minutes |",
        f"| all user names from one address | {ADDRESS_FAILURES} failures in {minutes} minutes |",
        f"as many as there are cores, and {QUEUE} in line",
        f"within the last {FAMILIAR.days} days",
        f"At most {module.MOST_ROWS:,} counts",
    ):
        assert sentence in page
