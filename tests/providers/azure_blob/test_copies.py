import pytest

from portico.errors import AlreadyExists, NotFound, ProviderFailed, ProviderRefused, ProviderUnavailable
from portico.providers.azure_blob import AzureBlobProvider, copies

from ...servers.proxy import Altered, Call, FaultProxy, Lost, Reply
from .actions import at, content, make_blob, put, walk


def copy(call: Call) -> bool:
    return "x-ms-copy-source" in call.headers


def look(call: Call) -> bool:
    return call.method == "HEAD" and call.path.endswith("/copy")


def status(word: str) -> Altered:
    return Altered(lambda reply: Reply(reply.status, {**reply.headers, "x-ms-copy-status": word}, reply.body))


@pytest.fixture(autouse=True)
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_FIRST_WAIT", 0.01)


@pytest.fixture(autouse=True)
async def source(provider: AzureBlobProvider) -> None:
    await put(provider, "file", b"content")


async def test_a_copy_keeps_what_others_said_about_the_blob(provider: AzureBlobProvider) -> None:
    await make_blob(provider, "dressed", b"x", author="somebody")
    await provider.copy(at("dressed"), at("copy"))
    answer = await provider._service.send("HEAD", provider._url("copy"))
    assert answer.headers["x-ms-meta-author"] == "somebody"


async def test_a_copy_that_takes_its_time(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    proxy.on(copy, status("pending"))
    looks = len([call for call in proxy.calls if look(call)])
    proxy.on(look, Reply(404, {"x-ms-error-code": "BlobNotFound"}))  # before the copy: nothing stands there
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


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("times", [1, 100])
async def test_the_answer_to_a_copy_is_lost(
    provider: AzureBlobProvider, proxy: FaultProxy, times: int, replace: bool
) -> None:
    proxy.on(copy, Lost(), turns=times)
    await provider.copy(at("file"), at("copy"), replace=replace)
    assert await content(provider, "copy") == b"content"


async def test_a_former_copy_is_not_taken_for_this_one(
    provider: AzureBlobProvider, proxy: FaultProxy
) -> None:
    await provider.copy(at("file"), at("copy"))
    await put(provider, "file", b"changed")
    proxy.on(copy, Reply(503, {"x-ms-error-code": "ServerBusy"}), turns=100)
    with pytest.raises(ProviderUnavailable):
        await provider.move(at("file"), at("copy"))
    assert await content(provider, "file") == b"changed"


async def test_a_copy_that_was_repeated_and_finds_another_file(
    provider: AzureBlobProvider, proxy: FaultProxy
) -> None:
    await put(provider, "copy", b"of another one")
    proxy.on(copy, Reply(503, {"x-ms-error-code": "ServerBusy"}))
    with pytest.raises(AlreadyExists):
        await provider.copy(at("file"), at("copy"), replace=False)
    assert await content(provider, "copy") == b"of another one"


async def test_a_source_that_vanishes(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    proxy.on(copy, Reply(404, {"x-ms-error-code": "CannotVerifyCopySource"}))
    with pytest.raises(NotFound):
        await provider.copy(at("file"), at("copy"))


async def test_a_source_that_the_service_may_not_read(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    proxy.on(copy, Reply(403, {"x-ms-error-code": "CannotVerifyCopySource"}))
    with pytest.raises(ProviderRefused) as caught:
        await provider.copy(at("file"), at("copy"))
    assert caught.value.cause
