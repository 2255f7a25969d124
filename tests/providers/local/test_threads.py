"""Blocking work in threads, seen from the event loop."""

import asyncio
import threading

import pytest

from portico.observability import logs
from portico.runtime.threads import ThreadPool


async def test_results_and_errors_come_back() -> None:
    pool = ThreadPool(2, "test")
    assert await pool.start(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await pool.start(divmod, 7, 0)
    pool.close()


async def test_no_more_threads_than_allowed_and_none_before_it_is_needed() -> None:
    pool = ThreadPool(2, "test")
    seen: set[int] = set()

    def work(number: int) -> int:
        seen.add(threading.get_ident())
        return number

    for number in range(5):
        await pool.start(work, number)
    assert len(seen) == 1
    assert sorted(await asyncio.gather(*(pool.start(work, number) for number in range(50)))) == list(range(50))
    assert len(seen) <= 2
    pool.close()


async def test_work_is_done_at_the_same_time() -> None:
    pool = ThreadPool(3, "test")
    meeting = threading.Barrier(3, timeout=60)
    await asyncio.gather(*(pool.start(meeting.wait) for _ in range(3)))
    pool.close()


async def test_work_goes_on_when_nobody_waits_and_closing_waits_for_it() -> None:
    pool = ThreadPool(1, "test")
    begin, done = threading.Event(), threading.Event()

    def work() -> None:
        begin.wait(10)
        done.set()

    task = pool.start(work)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    begin.set()
    pool.close()
    assert done.is_set()


async def test_work_knows_which_request_it_is_for() -> None:
    pool = ThreadPool(1, "test")
    logs.REQUEST_ID.set("the request")
    assert await pool.start(logs.REQUEST_ID.get) == "the request"
    pool.close()
