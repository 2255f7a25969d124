from collections.abc import AsyncIterator, Iterator
from pathlib import Path as Folder
from secrets import token_hex

import pytest

from portico.providers.gcs import service
from portico.providers.gcs.provider import GcsProvider

from ...servers.gcs import GcsServer, shared_server
from ...servers.gcs.buckets import Bucket


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[GcsServer]:
    """The server of this run, with nothing on it and nothing that goes wrong yet."""
    monkeypatch.setattr(service, "FIRST_WAIT", 0.001)
    server = shared_server()
    server.reset()
    yield server
    server.reset()
    server.accounts.lifetime = 3599


@pytest.fixture
def bucket(server: GcsServer) -> Bucket:
    return server.make_bucket(f"bucket-{token_hex(8)}")


@pytest.fixture
def key_file(server: GcsServer, tmp_path: Folder) -> str:
    return server.write_key_file(tmp_path / "key.json")


@pytest.fixture
async def provider(server: GcsServer, bucket: Bucket, key_file: str) -> AsyncIterator[GcsProvider]:
    provider = GcsProvider(bucket.name, service_account_file=key_file, endpoint_url=server.address)
    yield provider
    await provider.close()
