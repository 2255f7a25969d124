"""A provider on a fresh bucket of moto, with a proxy between them that misbehaves on request."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from secrets import token_hex
from typing import Any

import pytest

from portico.providers.s3 import S3Provider

from ...servers.moto_s3 import KEYS, moto_buckets, moto_s3
from ...servers.proxy import FaultProxy
from ...servers.s3_buckets import plain_client

Opener = Callable[..., S3Provider]


@pytest.fixture
def bucket() -> Iterator[str]:
    moto_s3()
    name = f"bucket-{token_hex(8)}"
    with moto_buckets(name):
        yield name


@pytest.fixture
async def proxy() -> AsyncIterator[FaultProxy]:
    async with FaultProxy(int(moto_s3().rpartition(":")[2])) as proxy:
        yield proxy


@pytest.fixture
async def client() -> AsyncIterator[Any]:
    """The bucket as others see it."""
    async with plain_client({"endpoint-url": moto_s3(), **KEYS}) as client:
        yield client


@pytest.fixture
async def opened(bucket: str, proxy: FaultProxy) -> AsyncIterator[Opener]:
    """Opens providers, and closes them at the end."""
    providers: list[S3Provider] = []

    def open_one(**options: Any) -> S3Provider:
        keys = {name.replace("-", "_"): value for name, value in KEYS.items()}
        chosen: dict[str, Any] = {
            "bucket": bucket,
            "endpoint_url": f"http://127.0.0.1:{proxy.port}",
            **keys,
            **options,
        }
        provider = S3Provider(**{name: value for name, value in chosen.items() if value})
        providers.append(provider)
        return provider

    yield open_one
    for provider in providers:
        await provider.close()


@pytest.fixture
async def provider(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> S3Provider:
    # Nobody has to wait between attempts.
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.001)
    return opened()


@pytest.fixture
def leftovers(client: Any, bucket: str) -> Callable[[], Awaitable[list[str]]]:
    """Our notes and all unfinished uploads."""

    async def look() -> list[str]:
        notes = await client.list_objects_v2(Bucket=bucket, Prefix=".portico~")
        uploads = await client.list_multipart_uploads(Bucket=bucket)
        return [note["Key"] for note in notes.get("Contents", [])] + [
            upload["Key"] for upload in uploads.get("Uploads", [])
        ]

    return look
