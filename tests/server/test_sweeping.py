"""Sweeps at the start of a worker."""

import asyncio

import pytest

from portico.observability.metrics import Metrics
from portico.server import composition


async def test_the_first_sweeps_run_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a sign-in right after the start waits for the write lock behind all of them."""
    monkeypatch.setattr(composition, "FIRST_RUN_DELAY_SECONDS", 0)
    running = most = 0
    ended = asyncio.Semaphore(0)

    async def sweep() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        ended.release()

    async with composition._sweeping(Metrics(), {f"sweep-{number}": sweep for number in range(8)}):
        for _ in range(8):
            await ended.acquire()
    assert most == 1


async def test_a_sweep_that_hangs_keeps_no_other_from_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition, "FIRST_RUN_DELAY_SECONDS", 0)
    monkeypatch.setattr(composition, "FIRST_RUN_SECONDS", 0.01)
    begun = asyncio.Event()

    async def sweep() -> None:
        begun.set()

    async with composition._sweeping(Metrics(), {"hangs": asyncio.Event().wait, "sweep": sweep}):
        await begun.wait()
