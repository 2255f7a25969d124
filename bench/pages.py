"""CPU for one page of 1000 entries: from the service's first byte to our JSON, against the SDK's own listing.

The same canned page is read by both, in turns. The SDK stops at its own objects; ours goes on to the answer's bytes.
"""

import asyncio
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path as File
from typing import Any

import aiohttp
from aiobotocore.session import get_session
from azure.storage.blob.aio import ContainerClient
from gcloud.aio.storage import Storage

from portico.api.bodies import JsonResponse, page_body
from portico.paths import Path
from portico.providers.base import Provider
from portico.providers.registry import open_provider

FOLDER = Path.parse("reports/2026")
ROUNDS = 30
KEY = "c2VjcmV0IGtleSBvZiB0aGUgYmVuY2htYXJr"

Work = Callable[[], Awaitable[object]]


class FirstByte:
    """The CPU time at which the last answer began to arrive, whichever client it was for: all of them use aiohttp."""

    def __init__(self) -> None:
        self.at = 0.0
        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(self._arrived)
        original = aiohttp.ClientSession.__init__

        def traced(
            session: aiohttp.ClientSession, *args: Any, trace_configs: Any = None, **kwargs: Any
        ) -> None:
            original(session, *args, trace_configs=[*(trace_configs or ()), trace], **kwargs)

        aiohttp.ClientSession.__init__ = traced  # type: ignore[method-assign]

    async def _arrived(self, *_: object) -> None:
        self.at = time.process_time()


async def measure() -> None:
    first_byte = FirstByte()
    async with _canned() as url:
        print(f"One page of 1000, CPU from the service's first byte on (medians of {ROUNDS}, in turns)")
        for name, goal, ours, theirs in (
            ("s3", 15, _ours("s3", **_s3(url)), _aiobotocore(url)),
            ("azure-blob", 15, _ours("azure-blob", **_blob(url)), _azure_sdk(url)),
            ("gcs", 3, _ours("gcs", **_gcs(url)), _gcloud_aio(url)),
        ):
            async with ours as mine, theirs as sdk:
                us, them = await _in_turns(mine, sdk, first_byte)
            print(
                f"  {name:11} Portico {us * 1000:7.2f} ms   SDK {them * 1000:7.2f} ms   {them / us:5.1f} × less (goal {goal})"
            )


async def _in_turns(ours: Work, theirs: Work, first_byte: FirstByte) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for work, kept in zip((ours, theirs), times, strict=True):
            await work()
            kept.append(time.process_time() - first_byte.at)
    return statistics.median(times[0]), statistics.median(times[1])


@asynccontextmanager
async def _ours(kind: str, **options: str) -> AsyncIterator[Work]:
    provider: Provider = open_provider(kind, options)

    async def list_page() -> object:
        page = await provider.list_page(FOLDER, 1000, None)
        assert len(page.entries) == 1000
        return JsonResponse(page_body(FOLDER, page, first=True))

    yield list_page
    await provider.close()


def _s3(url: str) -> dict[str, str]:
    return {
        "bucket": "bench",
        "endpoint-url": url,
        "region": "us-east-1",
        "access-key-id": "bench",
        "secret-access-key": "bench",
    }


def _blob(url: str) -> dict[str, str]:
    return {"container": "bench", "account-url": f"{url}/account", "account-key": KEY}


def _gcs(url: str) -> dict[str, str]:
    return {"bucket": "bench", "endpoint-url": url, "anonymous": "true"}


@asynccontextmanager
async def _aiobotocore(url: str) -> AsyncIterator[Work]:
    async with get_session().create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id="bench",
        aws_secret_access_key="bench",
    ) as client:

        async def list_page() -> object:
            answer = await client.list_objects_v2(Bucket="bench", Prefix="reports/2026/", Delimiter="/")
            assert len(answer["Contents"]) == 1000
            return answer

        yield list_page


@asynccontextmanager
async def _azure_sdk(url: str) -> AsyncIterator[Work]:
    credential = {"account_name": "account", "account_key": KEY}
    async with ContainerClient(f"{url}/account", "bench", credential=credential) as client:

        async def list_page() -> object:
            pages = client.walk_blobs(name_starts_with="reports/2026/", delimiter="/").by_page()
            entries = [entry async for entry in await anext(pages)]
            assert len(entries) == 1000
            return entries

        yield list_page


@asynccontextmanager
async def _gcloud_aio(url: str) -> AsyncIterator[Work]:
    async with aiohttp.ClientSession() as session:
        client = Storage(session=session, api_root=url)

        async def list_page() -> object:
            answer = await client.list_objects("bench", params={"prefix": "reports/2026/", "delimiter": "/"})
            assert len(answer["items"]) == 1000
            return answer

        yield list_page


@asynccontextmanager
async def _canned() -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(File(__file__).with_name("canned.py")), str(port)])
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    asyncio.run(measure())
