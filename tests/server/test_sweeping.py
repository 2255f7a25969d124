"""Sweeps at the start of a worker."""

import asyncio
from pathlib import Path

import pytest

from portico.accounts.vault import SecretKey
from portico.model.errors import WrongPassword
from portico.observability.metrics import Metrics
from portico.operations.actors.cancellation import CancellableWork
from portico.operations.actors.request_context import RequestContext
from portico.server import composition
from portico.settings.settings import load
from portico.store.database import Database
from portico.store.journal_verification import verify
from portico.store.schema import migrate
from portico.store.signatures import Signer


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


async def test_a_worker_signs_how_far_the_journal_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition, "CHECKPOINT_INTERVAL_SECONDS", 0.01)
    settings = load(tmp_path, {}, {"security.client-id": "c", "security.client-secret": "s"})
    migrate(settings.database_url)
    database = Database(settings.database_url)
    signer = Signer(SecretKey.load(settings.secret_key_file, {}).derive("receipts"))
    async with composition.open_gateway(settings, Metrics(), CancellableWork()) as gateway:
        with RequestContext("request", "192.0.2.7", asyncio.Event().wait) as context:
            for _ in range(3):
                with pytest.raises(WrongPassword):
                    await gateway.authentication.sign_in(context, "ann", "wrong")
        while True:
            report = await verify(database, signer)
            if (report.lines, report.unproven) == (3, 0):
                break
            await asyncio.sleep(0.01)
    assert (await verify(database, signer)).findings == []
    await database.close()
