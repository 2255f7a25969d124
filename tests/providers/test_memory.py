"""The memory budget of uploads: it is kept, and no upload waits forever."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import pytest

from portico.providers.multipart import memory
from portico.providers.multipart.memory import MemoryBudget, MemoryShare
from portico.providers.multipart.parts import MIB, UploadPart, cut, send_all

from .upload_helpers import Target, free, stream, upload


@pytest.mark.parametrize("total", [50, 150, 1000])
async def test_many_uploads_all_finish_whatever_the_budget(total: int) -> None:
    """The budget is smaller than what they would hold together, or even than one part or one chunk."""
    budget = MemoryBudget(total)
    targets = [Target() for _ in range(40)]
    async with asyncio.timeout(60):
        await asyncio.gather(
            *(upload(budget, stream([bytes([number]) * 70] * 20), targets[number], 100) for number in range(40))
        )
    for number, target in enumerate(targets):
        assert b"".join(target.got[part] for part in sorted(target.got)) == bytes([number]) * 1400
    assert free(budget) == total


async def test_the_budget_is_kept() -> None:
    budget = MemoryBudget(1000)
    lowest = 1000

    async def send(part: UploadPart) -> None:
        nonlocal lowest
        lowest = min(lowest, free(budget))
        await asyncio.sleep(0.0005)

    async def one() -> None:
        chunks = stream([bytes(50)] * 30)
        async with budget.share() as share, aclosing(cut(chunks, lambda _: 200, share)) as found:
            await send_all(await anext(found), found, send, share)

    await asyncio.gather(*(one() for _ in range(20)))
    assert free(budget) == 1000
    assert lowest >= 0


class Service:
    """Takes no part before it is allowed to."""

    def __init__(self) -> None:
        self.parts = 0
        self._open = asyncio.Event()

    async def take(self, part: UploadPart) -> None:
        self.parts += 1
        await self._open.wait()

    def go_on(self) -> None:
        self._open.set()


async def at_rest(*counts: Callable[[], int]) -> None:
    """Until nobody has moved for many rounds of the event loop."""
    still, before = 0, [count() for count in counts]
    while still < 50:
        await asyncio.sleep(0)
        now = [count() for count in counts]
        still, before = (still + 1 if now == before else 0), now


async def test_twice_as_many_uploads_as_there_is_memory_for_fill_as_many_parts() -> None:
    """Memory is given to parts that can be filled, not spread over all so that none can."""
    budget, service = MemoryBudget(64 * 100), Service()

    async def one() -> None:
        chunks = stream([bytes(10)] * 21)
        async with budget.share() as share, aclosing(cut(chunks, lambda _: 100, share)) as found:
            await send_all(await anext(found), found, service.take, share)

    uploads = [asyncio.ensure_future(one()) for _ in range(120)]
    await at_rest(lambda: service.parts, lambda: free(budget))
    assert service.parts == 64
    service.go_on()
    await asyncio.gather(*uploads)
    assert service.parts == 120 * 3
    assert free(budget) == 6400


@pytest.mark.parametrize("sent", [1, 50, 99, 100])
async def test_a_client_that_stalls_does_not_hold_others(monkeypatch: pytest.MonkeyPatch, sent: int) -> None:
    """Not even the oldest one: it keeps what it has sent, and no more than that."""
    monkeypatch.setattr(memory, "_GRACE_SECONDS", 0.0)
    budget = MemoryBudget(1000)
    stalled, goes_on = asyncio.Event(), asyncio.Event()
    target = Target()

    async def slow() -> AsyncIterator[bytes]:
        yield bytes(sent)
        stalled.set()
        await goes_on.wait()
        yield bytes(250 - sent)

    oldest = asyncio.ensure_future(upload(budget, slow(), target, 100))
    await stalled.wait()
    others = [Target() for _ in range(33)]
    async with asyncio.timeout(60):
        await asyncio.gather(*(upload(budget, stream([bytes(10)] * 50), each, 100) for each in others))
    assert [len(b"".join(each.got.values())) for each in others] == [500] * 33
    assert (free(budget), oldest.done()) == (1000 - sent, False)
    goes_on.set()
    assert await oldest == [1, 2, 3]
    assert free(budget) == 1000


async def test_a_client_below_the_least_rate_loses_its_reservation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it is never silent for long."""
    now = 1000.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    budget = MemoryBudget(2 * MIB)
    async with budget.share() as slow, budget.share() as quick, budget.share() as other:
        await slow.take(1, MIB)
        await quick.take(1, MIB)
        claim = await waiting(other, MIB // 2)
        for _ in range(20):
            now += memory._GRACE_SECONDS / 10
            await slow.take(10)
            await quick.take(memory._MIN_RATE // 10)
            budget._wake()
        await claim
        assert (slow.reserved, slow.held) == (0, 201)
        assert quick.reserved == MIB - 1 - 20 * (memory._MIN_RATE // 10)
    assert free(budget) == 2 * MIB


async def test_nobody_loses_a_reservation_while_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_GRACE_SECONDS", 0.0)
    budget = MemoryBudget(300)
    async with budget.share() as slow, budget.share() as other:
        await slow.take(1, 100)
        await other.take(200)
        assert slow.reserved == 99


@pytest.mark.parametrize("total", [250, 1000, 3000])
async def test_uploads_of_any_pace_all_finish(monkeypatch: pytest.MonkeyPatch, total: int) -> None:
    """Reservations are lost all the time, and in the end everything is sent; the budget is never exceeded."""
    monkeypatch.setattr(memory, "_GRACE_SECONDS", 0.0005)
    budget = MemoryBudget(total)
    lowest = total
    targets = [Target() for _ in range(50)]

    async def client(seed: int) -> AsyncIterator[bytes]:
        nonlocal lowest
        dice = random.Random(seed)
        for _ in range(30):
            await asyncio.sleep(dice.choice([0, 0, 0, 0.0002, 0.001]))
            lowest = min(lowest, free(budget))
            yield bytes([seed]) * dice.randint(1, 40)

    async with asyncio.timeout(60):
        await asyncio.gather(*(upload(budget, client(seed), target, 100) for seed, target in enumerate(targets)))
    for seed, target in enumerate(targets):
        assert set(b"".join(target.got.values())) == {seed}
    assert free(budget) == total
    assert lowest >= 0


async def test_a_small_file_reserves_no_whole_part() -> None:
    budget = MemoryBudget(1000)
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def client() -> AsyncIterator[bytes]:
        yield bytes(10)
        begun.set()
        await goes_on.wait()
        yield bytes(5)

    async with budget.share() as share:
        task = asyncio.ensure_future(anext(cut(client(), lambda _: 1000, share, at_most=20)))
        await begun.wait()
        assert (share.held, share.reserved, free(budget)) == (10, 10, 980)
        goes_on.set()
        assert (await task).size == 15
        assert (share.held, share.reserved, free(budget)) == (15, 0, 985)


async def waiting(share: MemoryShare, size: int) -> asyncio.Task[None]:
    task = asyncio.ensure_future(share.take(size))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_the_longest_waiter_comes_first() -> None:
    budget = MemoryBudget(100)
    async with budget.share() as oldest, budget.share() as second, budget.share() as third:
        await oldest.take(100)
        first_wait = await waiting(second, 60)
        second_wait = await waiting(third, 60)
        oldest.give(60)
        await first_wait
        assert not second_wait.done()
        second.give(60)
        await second_wait


async def test_one_that_is_alone_may_have_a_part_larger_than_the_budget() -> None:
    budget = MemoryBudget(100)
    async with budget.share() as alone, budget.share() as younger:
        await alone.take(10, 500)
        task = await waiting(younger, 10)
        await alone.take(490)
        assert not task.done()
        alone.give(500)
        await task


async def test_the_end_of_an_upload_lets_the_others_on() -> None:
    budget = MemoryBudget(100)
    async with budget.share() as oldest:
        await oldest.take(10)
        async with budget.share() as other:
            await other.take(90)
            async with budget.share() as last:
                task = await waiting(last, 50)
                other.give(90)
                await task
    assert free(budget) == 100


async def test_one_who_gives_up_waiting_is_no_longer_counted() -> None:
    budget = MemoryBudget(100)
    async with budget.share() as oldest, budget.share() as second, budget.share() as third:
        await oldest.take(100)
        gone = await waiting(second, 60)
        patient = await waiting(third, 60)
        gone.cancel()
        oldest.give(60)  # before the cancelled one has had its turn to leave
        await patient
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert (second.held, third.held) == (0, 60)
    assert free(budget) == 100


async def test_memory_that_was_granted_to_one_who_is_cancelled_comes_back() -> None:
    budget = MemoryBudget(100)
    async with budget.share() as oldest, budget.share() as second:
        await oldest.take(100)
        task = await waiting(second, 60)
        oldest.give(60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert second.held == 0
        assert free(budget) == 60
    assert free(budget) == 100


async def test_uploads_cancelled_at_any_time_leave_the_budget_whole() -> None:
    budget = MemoryBudget(500)
    tasks = [asyncio.ensure_future(upload(budget, stream([bytes(64)] * 40), Target(), 128)) for _ in range(60)]
    for task in tasks[::2]:
        await asyncio.sleep(0.0005)
        task.cancel()
    outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
    assert all(isinstance(outcome, list | asyncio.CancelledError) for outcome in outcomes)
    assert free(budget) == 500


def test_the_default_budget_has_512_mib() -> None:
    assert free(MemoryBudget()) == 512 * MIB
