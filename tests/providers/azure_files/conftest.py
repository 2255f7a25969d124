"""A provider on a fresh share of our own server, whose calls are counted and which fails on demand."""

from collections.abc import AsyncIterator, Iterator
from secrets import token_hex

import pytest

from portico.providers.azure_common import service
from portico.providers.azure_files.provider import AzureFilesProvider

from ...servers.azure_files import AzureFilesServer, Share, azure_files_server


@pytest.fixture
def server() -> Iterator[AzureFilesServer]:
    server = azure_files_server()
    server.calls.clear()
    yield server
    server.fault = None
    server.copy_looks = 0


@pytest.fixture
def share_name(server: AzureFilesServer) -> Iterator[str]:
    name = f"share-{token_hex(8)}"
    server.shares[name] = Share()
    yield name
    server.shares.pop(name, None)


@pytest.fixture
def share(server: AzureFilesServer, share_name: str) -> Share:
    return server.shares[share_name]


@pytest.fixture
async def provider(server: AzureFilesServer, share_name: str) -> AsyncIterator[AzureFilesProvider]:
    provider = AzureFilesProvider(share_name, connection_string=server.connection_string)
    yield provider
    await provider.close()


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service._Backoff, "get_backoff_time", lambda *_: 0.001)
