"""Large transfers take a slice of each round of the event loop."""

import asyncio

import pytest

from portico.api.requests import FILESYSTEM
from portico.runtime.fair_scheduling import LEAST, SLICE, FairScheduler

from .gateways import Gateway


async def worked(pace: FairScheduler, sizes: list[int]) -> list[int]:
    """In which round of the event loop each of them had its turn, when all came in the first."""
    round_ = 0
    turns = [0] * len(sizes)

    async def take(number: int, size: int) -> None:
        await pace.turn(size)
        turns[number] = round_

    tasks = [asyncio.create_task(take(number, size)) for number, size in enumerate(sizes)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        round_ += 1
    return turns


async def test_few_do_not_wait() -> None:
    assert await worked(FairScheduler(), [SLICE // 2, SLICE // 2]) == [0, 0]
    assert await worked(FairScheduler(), [1] * (SLICE // LEAST)) == [0] * (SLICE // LEAST)


async def test_many_share_the_rounds_in_the_order_in_which_they_came() -> None:
    turns = await worked(FairScheduler(), [SLICE // 2] * 20)
    assert turns == sorted(turns)
    assert all(turns.count(round_) <= 2 for round_ in turns)


async def test_small_ones_count_too() -> None:
    turns = await worked(FairScheduler(), [10] * 100)
    assert all(turns.count(round_) <= SLICE // LEAST for round_ in turns)


async def test_one_that_is_larger_than_a_slice_has_its_turn() -> None:
    turns = await worked(FairScheduler(), [10 * SLICE, 10 * SLICE, 1])
    assert turns == sorted(set(turns))


async def test_who_leaves_takes_no_ones_place() -> None:
    pace = FairScheduler()
    await pace.turn(SLICE)
    leaving = [asyncio.create_task(pace.turn(SLICE)) for _ in range(50)]
    staying = asyncio.create_task(pace.turn(1))
    await asyncio.sleep(0)
    for task in leaving:
        task.cancel()
    for _ in range(4):
        await asyncio.sleep(0)
    assert staying.done()
    await asyncio.gather(*leaving, return_exceptions=True)


async def test_it_rests_when_nobody_comes() -> None:
    pace = FairScheduler()
    await worked(pace, [SLICE] * 5)
    while pace._counting:
        await asyncio.sleep(0)


async def test_uploads_and_downloads_keep_to_it(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def take(size: int) -> bool:
        sizes.append(size)
        return True

    monkeypatch.setattr(gateway.services.gateway.scheduler, "take", take)
    headers = await gateway.sign_in()
    content = bytes(3 * 2**20)
    files = {"data": ("large", content)}
    assert (await gateway.client.post(f"{FILESYSTEM}/", files=files, headers=headers)).status_code == 204
    assert sum(sizes) > len(content)
    sizes.clear()
    assert (await gateway.client.get(f"{FILESYSTEM}/large", headers=headers)).content == content
    assert sum(sizes) == len(content)
