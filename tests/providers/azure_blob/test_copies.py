import asyncio
from typing import Any

import pytest

from portico.model.errors import (
    AlreadyExists,
    NotFound,
    ProviderFailed,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnavailable,
)
from portico.providers.azure_blob.provider import AzureBlobProvider
from portico.providers.azure_common import service

from ...servers.proxy import Altered, Call, FaultProxy, Lost, Reply
from .actions import at, content, make_blob, put, walk


def copy(call: Call) -> bool:
    return "x-ms-copy-source" in call.headers


def look(call: Call) -> bool:
    return call.method == "HEAD" and call.path.endswith("/copy")


def status(word: str) -> Altered:
    return Altered(lambda reply: Reply(reply.status, {**reply.headers, "x-ms-copy-status": word}, reply.body))


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_FIRST_WAIT", 0.01)


@pytest.fixture(autouse=True)
async def source(provider: AzureBlobProvider) -> None:
    await put(provider, "file", b"content")


async def test_a_copy_keeps_what_others_said_about_the_blob(provider: AzureBlobProvider) -> None:
    await make_blob(provider, "dressed", b"x", author="somebody")
    await provider.copy(at("dressed"), at("copy"))
    answer = await provider._service.send("HEAD", provider._service.blob_url("copy"))
    assert answer.headers["x-ms-meta-author"] == "somebody"


async def test_a_copy_that_takes_its_time(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    proxy.on(copy, status("pending"))
    looks = len([call for call in proxy.calls if look(call)])
    proxy.on(look, Reply(404, {"x-ms-error-code": "BlobNotFound"}))  # before the copy: there is nothing
    proxy.on(look, status("pending"), turns=2)
    await provider.copy(at("file"), at("copy"))
    assert await content(provider, "copy") == b"content"
    assert len([call for call in proxy.calls if look(call)]) - looks == 4


async def test_a_copy_that_fails_in_the_end(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    proxy.on(copy, status("pending"))
    proxy.on(look, Reply(404, {"x-ms-error-code": "BlobNotFound"}), turns=2)
    proxy.on(look, status("failed"))
    with pytest.raises(ProviderFailed):
        await provider.move(at("file"), at("copy"))
    assert await walk(provider) == [("file", False)]


def abort(call: Call) -> bool:
    return call.query.get("comp") == "copy"


@pytest.fixture
def pending(proxy: FaultProxy) -> None:
    """A copy that goes on until it is aborted, which leaves an empty blob; the server itself copies at once."""

    def change(reply: Reply) -> Reply:
        state = "aborted" if any(abort(call) for call in proxy.calls) else "pending"
        return Reply(reply.status, {**reply.headers, "x-ms-copy-status": state}, reply.body)

    proxy.on(copy, status("pending"))
    proxy.on(abort, Reply(204), turns=100)
    proxy.on(look, Reply(404, {"x-ms-error-code": "BlobNotFound"}))  # before the copy: nothing is there
    proxy.on(look, Altered(change), turns=10**9)


@pytest.mark.usefixtures("pending")
async def test_a_copy_that_is_called_off_is_aborted_and_leaves_nothing(
    provider: AzureBlobProvider, proxy: FaultProxy
) -> None:
    task = asyncio.ensure_future(provider.copy(at("file"), at("copy")))
    while len([call for call in proxy.calls if look(call)]) < 3:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (call,) = [call for call in proxy.calls if abort(call)]
    assert call.headers["x-ms-copy-action"] == "abort"
    assert call.query["copyid"]
    assert await walk(provider) == [("file", False)]


@pytest.mark.usefixtures("pending")
async def test_a_copy_that_comes_no_further_is_aborted_and_leaves_nothing(
    provider: AzureBlobProvider, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_STALLED_SECONDS", 0.05)
    with pytest.raises(ProviderTimeout):
        await provider.copy(at("file"), at("copy"))
    assert any(abort(call) for call in proxy.calls)
    assert await walk(provider) == [("file", False)]


async def test_a_copy_that_ends_before_it_is_aborted_stays(
    provider: AzureBlobProvider, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_STALLED_SECONDS", 0.0)
    proxy.on(copy, status("pending"))
    proxy.on(abort, Reply(409, {"x-ms-error-code": "NoPendingCopyOperation"}))
    proxy.on(look, Reply(404, {"x-ms-error-code": "BlobNotFound"}))
    proxy.on(look, status("pending"))
    with pytest.raises(ProviderTimeout):
        await provider.copy(at("file"), at("copy"))
    assert await content(provider, "copy") == b"content"


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("times", [1, 100])
async def test_the_answer_to_a_copy_is_lost(
    provider: AzureBlobProvider, proxy: FaultProxy, times: int, replace: bool
) -> None:
    proxy.on(copy, Lost(), turns=times)
    await provider.copy(at("file"), at("copy"), replace=replace)
    assert await content(provider, "copy") == b"content"


async def test_a_former_copy_is_not_taken_for_this_one(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    await provider.copy(at("file"), at("copy"))
    await put(provider, "file", b"changed")
    proxy.on(copy, Reply(503, {"x-ms-error-code": "ServerBusy"}), turns=100)
    with pytest.raises(ProviderUnavailable):
        await provider.move(at("file"), at("copy"))
    assert await content(provider, "file") == b"changed"


async def test_a_copy_that_was_repeated_and_finds_another_file(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    await put(provider, "copy", b"of another one")
    proxy.on(copy, Reply(503, {"x-ms-error-code": "ServerBusy"}))
    with pytest.raises(AlreadyExists):
        await provider.copy(at("file"), at("copy"), replace=False)
    assert await content(provider, "copy") == b"of another one"


async def test_a_source_that_vanishes(
    provider: AzureBlobProvider, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.on(copy, Reply(404, {"x-ms-error-code": "CannotVerifyCopySource"}), turns=2)
    with pytest.raises(ProviderFailed):  # it is still there
        await provider.copy(at("file"), at("copy"))
    duplicate = provider.duplicate

    async def after_its_end(*arguments: Any, **options: Any) -> None:
        await provider.delete(at("file"))
        await duplicate(*arguments, **options)

    monkeypatch.setattr(provider, "duplicate", after_its_end)
    with pytest.raises(NotFound):
        await provider.copy(at("file"), at("copy"))


async def test_a_source_that_the_service_may_not_read(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    proxy.on(copy, Reply(403, {"x-ms-error-code": "CannotVerifyCopySource"}))
    with pytest.raises(ProviderRefused) as caught:
        await provider.copy(at("file"), at("copy"))
    assert caught.value.cause
