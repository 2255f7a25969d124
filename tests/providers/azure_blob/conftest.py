"""A provider on a fresh container of Azurite, with a proxy between them that can go wrong."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from portico.providers.azure_blob.provider import AzureBlobProvider
from portico.providers.azure_common import service

from ...servers.azurite import ACCOUNT, KEY, Azurite
from ...servers.proxy import FaultProxy


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry without a pause."""

    def at_once(_: object, settings: dict[str, Any]) -> float:
        return 0.01

    monkeypatch.setattr(service._Backoff, "get_backoff_time", at_once)


@pytest.fixture
async def container() -> AsyncIterator[str]:
    server = Azurite.running()
    name = await server.new_container()
    yield name
    await server.remove_container(name)


@pytest.fixture
async def proxy() -> AsyncIterator[FaultProxy]:
    async with FaultProxy(Azurite.running().port) as proxy:
        yield proxy


@pytest.fixture
def url(proxy: FaultProxy) -> str:
    return f"http://127.0.0.1:{proxy.port}/{ACCOUNT}"


@pytest.fixture
async def open_provider(url: str, container: str) -> AsyncIterator[Callable[[], AzureBlobProvider]]:
    """One more on the same container, as another worker has it."""
    opened: list[AzureBlobProvider] = []

    def open_provider() -> AzureBlobProvider:
        opened.append(AzureBlobProvider(container, account_url=url, account_key=KEY))
        return opened[-1]

    yield open_provider
    for provider in opened:
        await provider.close()


@pytest.fixture
def provider(open_provider: Callable[[], AzureBlobProvider]) -> AzureBlobProvider:
    return open_provider()
