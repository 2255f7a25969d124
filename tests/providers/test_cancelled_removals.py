"""Removing much from an object store ends when it is cancelled: what was not asked for yet stays."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from portico.providers.contract.registry import open_provider
from portico.providers.objects import trees
from portico.providers.objects.service import Version
from portico.providers.objects.store import ObjectStore

from ..servers.endless import EndlessService, Shape, endless_service

KINDS = ["s3", "gcs", "azure-blob"]
BATCH = 400
AT_ONCE = 64
"""More calls than any provider makes at the same time."""
KEYS = [f"item-{number:03}" for number in range(BATCH)]
REMOVALS: dict[str, Callable[[ObjectStore], Awaitable[object]]] = {
    "delete": lambda store: trees.remove_tree(store, "folder/"),
    "move": lambda store: trees.remove_copied(store, [Version(f"folder/{key}", "e") for key in KEYS]),
}


@pytest.mark.parametrize("removal", REMOVALS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_cancelled_removal_ends_within_its_batch(
    kind: str, removal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over, removed = asyncio.Event(), asyncio.Event(), 0
    answer = EndlessService.answer

    async def held(service: EndlessService, request: web.Request) -> web.StreamResponse:
        nonlocal removed
        if "item-" in request.path or "delete" in request.query:
            removed += 1
            begun.set()
            await over.wait()
        return await answer(service, request)

    monkeypatch.setattr(EndlessService, "answer", held)
    async with endless_service(Shape(lambda n: KEYS, lambda n: f"token-{n}")) as service:
        store = open_provider(kind, service.options[kind])
        assert isinstance(store, ObjectStore)
        task = asyncio.ensure_future(REMOVALS[removal](store))
        await begun.wait()
        task.cancel()
        await asyncio.wait([task], timeout=60)
        ended = task.cancelled()
        over.set()
        await asyncio.wait([task])
        await store.close()
    assert ended
    assert 0 < removed <= AT_ONCE
