"""Uploads in parts: every byte once, in order, and errors end them."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portico.providers.multipart import parts
from portico.providers.multipart.memory import MemoryBudget
from portico.providers.multipart.parts import (
    MAX_PART_BYTES,
    MIN_PART_BYTES,
    UploadPart,
    cut,
    max_file_bytes,
    part_sizes,
    send_all,
)

from .upload_helpers import Broken, Target, free, stream, upload

# Plans


@pytest.mark.parametrize("max_parts", [10_000, 50_000])
def test_a_plan_takes_at_least_500_gib(max_parts: int) -> None:
    largest = max_file_bytes(max_parts)
    assert largest >= 500 * 2**30
    for at_most in (0, 1, 2**30, largest - 1, largest):
        sizes = part_sizes(at_most, max_parts)
        assert sizes(1) == sizes(max_parts)
        assert sizes(1) * max_parts >= at_most
        assert MIN_PART_BYTES <= sizes(1) <= MAX_PART_BYTES


def test_parts_of_an_unknown_number_grow() -> None:
    sizes = [part_sizes(None, 10_000)(number) for number in range(1, 10_001)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (MIN_PART_BYTES, MAX_PART_BYTES)


# Cutting


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 30), st.integers(0, 5))
async def test_every_byte_is_in_its_place(chunks: list[bytes], size: int, growth: int) -> None:
    budget = MemoryBudget(10_000)
    async with budget.share() as share:
        async with aclosing(cut(stream(chunks), lambda number: size + number * growth, share)) as found:
            cut_parts = [part async for part in found]
        assert share.held == sum(map(len, chunks))
    assert [part.number for part in cut_parts] == list(range(1, len(cut_parts) + 1))
    assert [part.last for part in cut_parts] == [False] * (len(cut_parts) - 1) + [True]
    assert all(part.size == size + part.number * growth for part in cut_parts[:-1])
    assert all(sum(map(len, part.chunks)) == part.size for part in cut_parts)
    assert b"".join(chunk for part in cut_parts for chunk in part.chunks) == b"".join(chunks)
    assert len(cut_parts) == 1 or cut_parts[-1].size > 0


async def test_the_first_part_leaves_room_for_what_comes_before_the_stream() -> None:
    budget = MemoryBudget(10_000)
    async with budget.share() as share:
        async with aclosing(cut(stream([bytes(130)]), lambda _: 50, share, ahead=20)) as found:
            first = await anext(found)
            assert (first.size, first.last, share.reserved) == (30, False, 20)
            await share.take(20)
            assert [part.size async for part in found] == [50, 50]
        assert (share.held, share.reserved) == (150, 0)
    async with budget.share() as share:
        (only,) = [part async for part in cut(stream([b"12345"]), lambda _: 50, share, ahead=20)]
        assert (only.size, only.last, share.lacking) == (5, True, 45)
        share.settle()
    assert free(budget) == 10_000


async def test_a_chunk_that_fits_is_not_copied() -> None:
    chunk = random.randbytes(1000)
    async with MemoryBudget(10_000).share() as share:
        (part,) = [part async for part in cut(stream([chunk]), lambda _: 1000, share)]
    assert part.chunks[0] is chunk


# Sending


async def test_parts_are_reported_in_order_while_others_are_sent() -> None:
    budget = MemoryBudget(10_000)
    slow = asyncio.Event()
    reported: list[int] = []

    async def send(part: UploadPart) -> int:
        if part.number == 2:
            await slow.wait()
        if part.number == 5:
            assert reported == [1]
            slow.set()
        return part.number * 10

    async def report(parts: list[tuple[UploadPart, int]]) -> None:
        assert all(result == part.number * 10 and not part.chunks for part, result in parts)
        reported.extend(part.number for part, _ in parts)

    async with budget.share() as share, aclosing(cut(stream([bytes(60)]), lambda _: 10, share)) as found:
        await send_all(await anext(found), found, send, share, report)
    assert reported == [1, 2, 3, 4, 5, 6]


async def test_a_report_that_fails_ends_the_upload() -> None:
    budget = MemoryBudget(10_000)
    target = Target()

    async def report(_: list[tuple[UploadPart, int]]) -> None:
        raise Broken

    async with budget.share() as share, aclosing(cut(stream([bytes(60)]), lambda _: 10, share)) as found:
        with pytest.raises(Broken):
            await send_all(await anext(found), found, target.take, share, report)
    assert free(budget) == 10_000


async def test_results_come_in_order_and_memory_is_given_back() -> None:
    budget = MemoryBudget(1000)
    data = random.randbytes(5000)
    target = Target()
    pieces = stream([data[start : start + 70] for start in range(0, 5000, 70)])
    assert await upload(budget, pieces, target, 100) == list(range(1, 51))
    assert b"".join(target.got[number] for number in range(1, 51)) == data
    assert free(budget) == 1000


async def test_one_upload_keeps_within_its_share_even_when_its_parts_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MAX_UPLOAD_MEMORY", 3200)
    budget = MemoryBudget(10**6)
    most_held = 0
    target = Target()
    grown: list[int] = []

    async def watched(part: UploadPart) -> int:
        nonlocal most_held
        most_held = max(most_held, share.held)
        grown.append(part.size)
        return await target.take(part)

    async with budget.share() as share:
        chunks = stream([bytes(100)] * 400)
        async with aclosing(cut(chunks, lambda number: 800 if number <= 12 else 1600, share)) as found:
            await send_all(await anext(found), found, watched, share)
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
