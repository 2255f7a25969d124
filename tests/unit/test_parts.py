"""Uploads in parts: every byte once, memory within bounds, and nobody waits for ever."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portico.providers import memory, parts
from portico.providers.memory import Lease, MemoryBudget
from portico.providers.parts import (
    LARGEST_PART,
    MIB,
    SMALLEST_PART,
    Part,
    cut,
    most_bytes,
    part_sizes,
    send_all,
)


class Broken(Exception):
    pass


async def stream(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        await asyncio.sleep(0)
        yield chunk


# Plans


@pytest.mark.parametrize("most_parts", [10_000, 50_000])
def test_a_plan_takes_at_least_500_gib(most_parts: int) -> None:
    largest = most_bytes(most_parts)
    assert largest >= 500 * 2**30
    for at_most in (0, 1, 2**30, largest - 1, largest):
        sizes = part_sizes(at_most, most_parts)
        assert sizes(1) == sizes(most_parts)
        assert sizes(1) * most_parts >= at_most
        assert SMALLEST_PART <= sizes(1) <= LARGEST_PART


def test_parts_of_an_unknown_number_grow() -> None:
    sizes = [part_sizes(None, 10_000)(number) for number in range(1, 10_001)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (SMALLEST_PART, LARGEST_PART)


# Cutting


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 30), st.integers(0, 5))
async def test_every_byte_is_in_its_place(chunks: list[bytes], size: int, growth: int) -> None:
    budget = MemoryBudget(10_000)
    async with budget.lease() as lease:
        async with aclosing(cut(stream(chunks), lambda number: size + number * growth, lease)) as found:
            cut_parts = [part async for part in found]
        assert lease.held == sum(map(len, chunks))
    assert [part.number for part in cut_parts] == list(range(1, len(cut_parts) + 1))
    assert [part.last for part in cut_parts] == [False] * (len(cut_parts) - 1) + [True]
    assert all(part.size == size + part.number * growth for part in cut_parts[:-1])
    assert all(sum(map(len, part.chunks)) == part.size for part in cut_parts)
    assert b"".join(chunk for part in cut_parts for chunk in part.chunks) == b"".join(chunks)
    assert len(cut_parts) == 1 or cut_parts[-1].size > 0


async def test_a_chunk_that_fits_is_not_copied() -> None:
    chunk = random.randbytes(1000)
    async with MemoryBudget(10_000).lease() as lease:
        (part,) = [part async for part in cut(stream([chunk]), lambda _: 1000, lease)]
    assert part.chunks[0] is chunk


# Sending


class Target:
    """Takes parts, in any order, and keeps count of how much is under way."""

    def __init__(self, *, fails_at: int | None = None) -> None:
        self.got: dict[int, bytes] = {}
        self.sizes_under_way: list[int] = []
        self.most_bytes = self.most_at_once = self.cancelled = 0
        self._fails_at = fails_at

    async def take(self, part: Part) -> int:
        self.sizes_under_way.append(part.size)
        self.most_bytes = max(self.most_bytes, sum(self.sizes_under_way))
        self.most_at_once = max(self.most_at_once, len(self.sizes_under_way))
        try:
            await asyncio.sleep(random.random() / 1000)
            if part.number == self._fails_at:
                raise Broken
            self.got[part.number] = b"".join(part.chunks)
            return part.number
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.sizes_under_way.remove(part.size)


async def upload(budget: MemoryBudget, chunks: AsyncIterator[bytes], target: Target, size: int) -> list[int]:
    async with budget.lease() as lease, aclosing(cut(chunks, lambda _: size, lease)) as found:
        return await send_all(await anext(found), found, target.take, lease)


async def test_results_come_in_order_and_memory_is_given_back() -> None:
    budget = MemoryBudget(1000)
    data = random.randbytes(5000)
    target = Target()
    pieces = stream([data[start : start + 70] for start in range(0, 5000, 70)])
    assert await upload(budget, pieces, target, 100) == list(range(1, 51))
    assert b"".join(target.got[number] for number in range(1, 51)) == data
    assert free(budget) == 1000


async def test_one_upload_keeps_within_its_share_even_when_its_parts_grow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parts, "PER_UPLOAD", 3200)
    budget = MemoryBudget(10**6)
    most_held = 0
    target = Target()
    grown: list[int] = []

    async def watched(part: Part) -> int:
        nonlocal most_held
        most_held = max(most_held, lease.held)
        grown.append(part.size)
        return await target.take(part)

    async with budget.lease() as lease:
        chunks = stream([bytes(100)] * 400)
        async with aclosing(cut(chunks, lambda number: 800 if number <= 12 else 1600, lease)) as found:
            await send_all(await anext(found), found, watched, lease)
    assert target.most_at_once == 3
    assert set(grown) == {800, 1600}
    assert most_held <= 3200 + 100


@pytest.mark.parametrize("fails_at", [1, 2, 7])
async def test_a_part_that_fails_ends_the_others(fails_at: int) -> None:
    budget = MemoryBudget(10_000)
    target = Target(fails_at=fails_at)
    with pytest.raises(Broken):
        await upload(budget, stream([bytes(100)] * 100), target, 100)
    assert target.sizes_under_way == []
    assert free(budget) == 10_000


async def test_a_stream_that_breaks_ends_the_parts() -> None:
    async def broken() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield bytes(100)
        raise Broken

    budget = MemoryBudget(10_000)
    target = Target()
    with pytest.raises(Broken):
        await upload(budget, broken(), target, 100)
    assert target.sizes_under_way == []
    assert free(budget) == 10_000


async def test_a_cancelled_upload_ends_its_parts() -> None:
    halfway = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield bytes(100)
        halfway.set()
        await asyncio.Event().wait()

    budget = MemoryBudget(10_000)
    target = Target()
    task = asyncio.ensure_future(upload(budget, endless(), target, 100))
    await halfway.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert target.sizes_under_way == []
    assert free(budget) == 10_000


# The budget


def free(budget: MemoryBudget) -> int:
    return budget._free


@pytest.mark.parametrize("total", [50, 150, 1000])
async def test_many_uploads_all_finish_whatever_the_budget(total: int) -> None:
    """The budget is smaller than what they would hold together, or even than one part or one chunk."""
    budget = MemoryBudget(total)
    targets = [Target() for _ in range(40)]
    async with asyncio.timeout(20):
        await asyncio.gather(
            *(
                upload(budget, stream([bytes([number]) * 70] * 20), targets[number], 100)
                for number in range(40)
            )
        )
    for number, target in enumerate(targets):
        assert b"".join(target.got[part] for part in sorted(target.got)) == bytes([number]) * 1400
    assert free(budget) == total


async def test_the_budget_is_kept() -> None:
    budget = MemoryBudget(1000)
    lowest = 1000

    async def send(part: Part) -> None:
        nonlocal lowest
        lowest = min(lowest, free(budget))
        await asyncio.sleep(0.0005)

    async def one() -> None:
        chunks = stream([bytes(50)] * 30)
        async with budget.lease() as lease, aclosing(cut(chunks, lambda _: 200, lease)) as found:
            await send_all(await anext(found), found, send, lease)

    await asyncio.gather(*(one() for _ in range(20)))
    assert free(budget) == 1000
    assert lowest >= 0


class Service:
    """Takes no part before it is told to."""

    def __init__(self) -> None:
        self.parts = 0
        self._open = asyncio.Event()

    async def take(self, part: Part) -> None:
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
        async with budget.lease() as lease, aclosing(cut(chunks, lambda _: 100, lease)) as found:
            await send_all(await anext(found), found, service.take, lease)

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
    monkeypatch.setattr(memory, "_PATIENCE", 0.0)
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
    async with asyncio.timeout(20):
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
    async with budget.lease() as slow, budget.lease() as quick, budget.lease() as other:
        await slow.take(1, MIB)
        await quick.take(1, MIB)
        claim = await waiting(other, MIB // 2)
        for _ in range(20):
            now += memory._PATIENCE / 10
            await slow.take(10)
            await quick.take(memory._LEAST_RATE // 10)
            budget._wake()
        await claim
        assert (slow.reserved, slow.held) == (0, 201)
        assert quick.reserved == MIB - 1 - 20 * (memory._LEAST_RATE // 10)
    assert free(budget) == 2 * MIB


async def test_nobody_loses_a_reservation_while_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_PATIENCE", 0.0)
    budget = MemoryBudget(300)
    async with budget.lease() as slow, budget.lease() as other:
        await slow.take(1, 100)
        await other.take(200)
        assert slow.reserved == 99


@pytest.mark.parametrize("total", [250, 1000, 3000])
async def test_uploads_of_any_pace_all_finish(monkeypatch: pytest.MonkeyPatch, total: int) -> None:
    """Reservations are lost all the time, and in the end everything is sent; the budget is never exceeded."""
    monkeypatch.setattr(memory, "_PATIENCE", 0.0005)
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
        await asyncio.gather(
            *(upload(budget, client(seed), target, 100) for seed, target in enumerate(targets))
        )
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

    async with budget.lease() as lease:
        task = asyncio.ensure_future(anext(cut(client(), lambda _: 1000, lease, at_most=20)))
        await begun.wait()
        assert (lease.held, lease.reserved, free(budget)) == (10, 10, 980)
        goes_on.set()
        assert (await task).size == 15
        assert (lease.held, lease.reserved, free(budget)) == (15, 0, 985)


async def waiting(lease: Lease, size: int) -> asyncio.Task[None]:
    task = asyncio.ensure_future(lease.take(size))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_whoever_waits_longest_comes_first() -> None:
    budget = MemoryBudget(100)
    async with budget.lease() as oldest, budget.lease() as second, budget.lease() as third:
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
    async with budget.lease() as alone, budget.lease() as younger:
        await alone.take(10, 500)
        task = await waiting(younger, 10)
        await alone.take(490)
        assert not task.done()
        alone.give(500)
        await task


async def test_the_end_of_an_upload_lets_the_others_on() -> None:
    budget = MemoryBudget(100)
    async with budget.lease() as oldest:
        await oldest.take(10)
        async with budget.lease() as other:
            await other.take(90)
            async with budget.lease() as last:
                task = await waiting(last, 50)
                other.give(90)
                await task
    assert free(budget) == 100


async def test_one_who_gives_up_waiting_is_no_longer_counted() -> None:
    budget = MemoryBudget(100)
    async with budget.lease() as oldest, budget.lease() as second, budget.lease() as third:
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
    async with budget.lease() as oldest, budget.lease() as second:
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
    tasks = [
        asyncio.ensure_future(upload(budget, stream([bytes(64)] * 40), Target(), 128)) for _ in range(60)
    ]
    for task in tasks[::2]:
        await asyncio.sleep(0.0005)
        task.cancel()
    outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)
    assert all(isinstance(outcome, list | asyncio.CancelledError) for outcome in outcomes)
    assert free(budget) == 500


def test_the_process_has_512_mib() -> None:
    assert free(parts.UPLOADS) == 512 * MIB
