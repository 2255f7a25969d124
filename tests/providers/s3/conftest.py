"""A provider on a fresh bucket of moto, with a proxy between them that misbehaves on request."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from secrets import token_hex
from typing import Any

import pytest

from portico.providers.s3.provider import S3Provider

from ...servers.moto_s3 import KEYS, moto_buckets, moto_s3
from ...servers.proxy import FaultProxy
from ...servers.s3_buckets import plain_client

Opener = Callable[..., S3Provider]


class MemoryLog:
    """The records of uploads, as the database has them."""

    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}
        self.begun = 0
        self.error: Exception | None = None
        self.beginning = asyncio.Event()
        self.may_begin = asyncio.Event()
        self.may_begin.set()

    async def begin(self, path: str, state: bytes) -> "MemoryRecord":
        self.beginning.set()
        await self.may_begin.wait()
        if self.error:
            raise self.error
        self.begun += 1
        name = f"{path} {self.begun}"
        self.records[name] = state
        return MemoryRecord(self, name)

    async def sweep(self, provider: S3Provider) -> int:
        """What happens a day later."""
        for name, state in list(self.records.items()):
            await (await provider.resume_upload(state)).abandon()
            del self.records[name]
        return self.begun


class MemoryRecord:
    def __init__(self, log: MemoryLog, name: str) -> None:
        self._log = log
        self._name = name

    def update(self, state: bytes) -> None:
        self._log.records[self._name] = state

    async def end(self) -> None:
        await asyncio.sleep(0)
        del self._log.records[self._name]

    async def leave(self) -> None:
        return


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
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
async def opened(bucket: str, proxy: FaultProxy, log: MemoryLog) -> AsyncIterator[Opener]:
    """Opens providers, and closes them at the end."""
    providers: list[S3Provider] = []

    def open_one(**options: Any) -> S3Provider:
        keys = {name.replace("-", "_"): value for name, value in KEYS.items()}
        chosen: dict[str, Any] = {
            "bucket": bucket,
            "endpoint_url": f"http://127.0.0.1:{proxy.port}",
            "upload_log": log,
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
def leftovers(client: Any, bucket: str, log: MemoryLog) -> Callable[[], Awaitable[list[str]]]:
    """Our own objects, all unfinished uploads, and records of uploads."""

    async def look() -> list[str]:
        ours = await client.list_objects_v2(Bucket=bucket, Prefix=".portico~")
        uploads = await client.list_multipart_uploads(Bucket=bucket)
        found = *ours.get("Contents", []), *uploads.get("Uploads", [])
        return [thing["Key"] for thing in found] + list(log.records)

    return look
