"""CPU for one page of 1000 entries, read by Portico's providers and by the SDKs, in one process and in turns.

The SDK stops at its own objects; ours goes on to the answer's bytes.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiobotocore.session import get_session
from azure.storage.blob.aio import ContainerClient
from gcloud.aio.storage import Storage

from bench.canned import ENTRIES, FOLDER
from portico.api.schemas import JsonResponse, page_body
from portico.model.paths import Path
from portico.providers.contract.provider import Provider
from portico.providers.contract.registry import open_provider

BLOB_KEY = "c2VjcmV0IGtleSBvZiB0aGUgYmVuY2htYXJr"
_PATH = Path.parse(FOLDER.rstrip("/"))

Work = Callable[[], Awaitable[object]]


class FirstByte:
    """The CPU time at which the last answer began to arrive, whichever client it was for: all of them use aiohttp."""

    def __init__(self) -> None:
        self.at = 0.0
        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(self._arrived)
        original = aiohttp.ClientSession.__init__

        def traced(session: Any, *args: Any, trace_configs: Any = None, **kwargs: Any) -> None:
            original(session, *args, trace_configs=[*(trace_configs or ()), trace], **kwargs)

        aiohttp.ClientSession.__init__ = traced  # type: ignore[method-assign, assignment]

    async def _arrived(self, *_: object) -> None:
        self.at = time.process_time()


def compare(url: str, rounds: int) -> dict[str, tuple[float, float, float, float]]:
    """For each service, in CPU seconds: ours and the SDK's, whole calls; the same from the first byte on."""
    return asyncio.run(_compare(url, rounds))


async def _compare(url: str, rounds: int) -> dict[str, tuple[float, float, float, float]]:
    first_byte = FirstByte()
    keys = {"access-key-id": "bench", "secret-access-key": "bench"}
    pairs = {
        "S3": (_ours("s3", bucket="bench", **{"endpoint-url": url, "region": "us-east-1"}, **keys), _aiobotocore(url)),
        "Blob": (
            _ours("azure-blob", container="bench", **{"account-url": f"{url}/account", "account-key": BLOB_KEY}),
            _azure_sdk(url),
        ),
        "GCS": (_ours("gcs", bucket="bench", **{"endpoint-url": url, "anonymous": "true"}), _gcloud_aio(url)),
    }
    found = {}
    for name, (ours, theirs) in pairs.items():
        async with ours as mine, theirs as sdk:
            found[name] = await _in_turns(mine, sdk, first_byte, rounds)
    return found


async def _in_turns(ours: Work, theirs: Work, first_byte: FirstByte, rounds: int) -> tuple[float, float, float, float]:
    whole: tuple[list[float], list[float]] = ([], [])
    reading: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for index, work in enumerate((ours, theirs)):
            began = time.process_time()
            await work()
            if number:  # the first opens connections and reads the SDK's own descriptions
                whole[index].append(time.process_time() - began)
                reading[index].append(time.process_time() - first_byte.at)
    values = [statistics.median(times) for times in (*whole, *reading)]
    return values[0], values[1], values[2], values[3]


@asynccontextmanager
async def _ours(kind: str, **options: str) -> AsyncIterator[Work]:
    provider: Provider = open_provider(kind, options)

    async def list_page() -> object:
        page = await provider.list_page(_PATH, ENTRIES, None)
        assert len(page.entries) == ENTRIES
        return JsonResponse(page_body(_PATH, page, first=True))

    yield list_page
    await provider.close()


@asynccontextmanager
async def _aiobotocore(url: str) -> AsyncIterator[Work]:
    keys = {"aws_access_key_id": "bench", "aws_secret_access_key": "bench"}
    async with get_session().create_client("s3", region_name="us-east-1", endpoint_url=url, **keys) as client:

        async def list_page() -> object:
            answer = await client.list_objects_v2(Bucket="bench", Prefix=FOLDER, Delimiter="/")
            assert len(answer["Contents"]) == ENTRIES
            return answer

        yield list_page


@asynccontextmanager
async def _azure_sdk(url: str) -> AsyncIterator[Work]:
    credential = {"account_name": "account", "account_key": BLOB_KEY}
    async with ContainerClient(f"{url}/account", "bench", credential=credential) as client:

        async def list_page() -> object:
            pages = client.walk_blobs(name_starts_with=FOLDER, delimiter="/").by_page()
            entries = [entry async for entry in await anext(pages)]
            assert len(entries) == ENTRIES
            return entries

        yield list_page


@asynccontextmanager
async def _gcloud_aio(url: str) -> AsyncIterator[Work]:
    async with aiohttp.ClientSession() as session:
        client = Storage(session=session, api_root=url)  # type: ignore[arg-type]

        async def list_page() -> object:
            answer = await client.list_objects("bench", params={"prefix": FOLDER, "delimiter": "/"})
            assert len(answer["items"]) == ENTRIES
            return answer

        yield list_page
