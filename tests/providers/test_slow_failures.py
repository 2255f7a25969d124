"""A failure is reported as such even if the deadline passes during the pause before the next attempt."""

import asyncio
import random
from typing import Any

import pytest
from aiohttp import web
from botocore.retries import standard

from portico.model.errors import PorticoError, ProviderTimeout, ProviderUnavailable
from portico.model.paths import Path
from portico.providers.azure_common import service as azure
from portico.providers.contract.registry import open_provider
from portico.providers.gcs import service as gcs

from ..servers.endless import SHAPES, EndlessService, endless_service

KINDS = ["s3", "gcs", "azure-blob", "azure-files"]
SHAPE = next(iter(SHAPES.values()))


async def failure(kind: str, over: asyncio.Event) -> PorticoError:
    async with endless_service(SHAPE) as service:
        provider: Any = open_provider(kind, service.options[kind])
        try:
            holder = provider._share._service if kind == "azure-files" else provider._service
            if kind == "s3":
                await holder.open()  # which takes a while by itself
            holder.timeout = 2.0
            with pytest.raises(PorticoError) as caught:
                await provider.list_page(Path(("folder",)), 10, None)
        finally:
            over.set()
            await provider.close()
    return caught.value


@pytest.fixture
def long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the attempts: longer than any deadline."""
    monkeypatch.setattr(random, "uniform", lambda *_: 100.0)
    monkeypatch.setattr(azure._Backoff, "get_backoff_time", lambda *_: 100.0)
    monkeypatch.setattr(standard.ExponentialBackoff, "delay_amount", lambda *_: 100.0)


@pytest.mark.usefixtures("long_waits")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_deadline_between_two_attempts_is_reported_as_the_failure_before_it(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> web.Response:
        return web.Response(status=503)

    monkeypatch.setattr(EndlessService, "answer", fail)
    assert isinstance(await failure(kind, asyncio.Event()), ProviderUnavailable)


@pytest.mark.parametrize("kind", KINDS)
async def test_silence_after_a_failure_is_reported_as_silence(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, over = 0, asyncio.Event()

    async def fail_once(*_: object) -> web.Response:
        nonlocal calls
        calls += 1
        if calls > 1:
            await over.wait()
        return web.Response(status=503)

    monkeypatch.setattr(gcs, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(azure._Backoff, "get_backoff_time", lambda *_: 0.01)
    monkeypatch.setattr(standard.ExponentialBackoff, "delay_amount", lambda *_: 0.01)
    monkeypatch.setattr(EndlessService, "answer", fail_once)
    assert isinstance(await failure(kind, over), ProviderTimeout)
