"""What an upload leaves when it ends before its body does."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from aiohttp import web

from portico.model.errors import PorticoError, ProviderFailed
from portico.providers.azure_blob.listing import entry_of
from portico.providers.azure_common import service as azure
from portico.providers.contract.registry import open_provider
from portico.providers.contract.uploads import WriteOptions
from portico.providers.multipart.parts import MIB, UploadPart
from portico.providers.s3 import uploads as s3
from portico.providers.wire import transport

from ..servers.endless import DATE, SHAPES, EndlessService, endless_service

SHAPE = next(iter(SHAPES.values()))


async def nothing() -> AsyncGenerator[bytes]:
    return
    yield b""


@pytest.mark.parametrize("kind", ["s3", "gcs", "azure-blob"])
async def test_a_refused_upload_stops_reading_before_it_is_reported(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = True

    async def cut(*_: Any, **__: Any) -> AsyncGenerator[UploadPart]:
        nonlocal reading
        try:
            for number in range(1, 100):
                yield UploadPart(number, [b"x"], 1, last=False)
        finally:
            reading = False

    async def refuse(_: EndlessService, request: web.Request) -> web.Response:
        await request.read()
        return web.Response(status=403)

    monkeypatch.setattr("portico.providers.multipart.parts.cut", cut)
    monkeypatch.setattr(EndlessService, "answer", refuse)
    async with endless_service(SHAPE) as service:
        provider: Any = open_provider(kind, service.options[kind])
        try:
            await provider.store("file", nothing(), "text/plain", WriteOptions())
        except PorticoError:
            assert not reading
        else:
            raise AssertionError
        finally:
            await provider.close()


async def test_bytes_that_are_taken_after_the_answer_harm_nothing() -> None:
    async with asyncio.timeout(10) as watch:
        transport.extend(watch, 1000)
        assert (watch.when() or 0) > asyncio.get_running_loop().time() + 500
    transport.extend(watch, 1000)


async def test_azure_may_answer_before_the_end_of_the_body() -> None:
    async with endless_service(SHAPE) as service:
        provider: Any = open_provider("azure-blob", service.options["azure-blob"])
        body = azure.Body([b"x"], 1)
        await provider._service.send("PUT", provider._service.blob_url("file"), None, None, body)
        body.progress()
        await provider.close()


async def test_s3_may_answer_before_the_end_of_the_body() -> None:
    bodies = []

    class Service:
        timeout = 10.0

        async def call(self, _: str, **parameters: Any) -> dict[str, Any]:
            bodies.append(parameters["Body"])
            return {}

    service: Any = Service()
    await s3._send(service, "put_object", UploadPart(1, [bytes(MIB)] * 9, 9 * MIB, last=True))
    assert len([chunk async for chunk in bodies[0]]) == 9


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Length": "1_0"},
        {"Content-Length": str(2**63)},
        {"Content-Length": "0", "x-ms-resource-type": "directory", "ETag": "e" * 300},
    ],
)
def test_headers_of_a_blob_that_make_no_sense(headers: dict[str, str]) -> None:
    with pytest.raises(ProviderFailed):
        entry_of("key", {"Last-Modified": DATE, **headers})
