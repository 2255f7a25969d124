"""What the administrator has to fix, and that no secret leaks."""

import base64
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.storage.fileshare import ResourceTypes, generate_account_sas

from portico.model.errors import (
    NotFound,
    PorticoError,
    ProviderFailed,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnavailable,
)
from portico.providers.azure_files.provider import AzureFilesProvider
from portico.providers.contract.registry import probe

from ...servers.azure_files import Answer, AzureFilesServer, Share
from .actions import at, failing, get, put, refusing, silent

LIST = "GET directory list"


@asynccontextmanager
async def opened(share: str, **options: Any) -> AsyncIterator[AzureFilesProvider]:
    provider = AzureFilesProvider(share, **options)
    try:
        yield provider
    finally:
        await provider.close()


def sas(server: AzureFilesServer, permissions: str = "rwdlc", hours: int = 1) -> str:
    return generate_account_sas(
        server.account,
        server.key,
        ResourceTypes(service=True, container=True, object=True),
        permissions,
        datetime.now(UTC) + timedelta(hours=hours),
    )


async def refused(provider: AzureFilesProvider, cause: str) -> None:
    for action in (
        lambda: provider.list_page(at(""), 10, None),
        lambda: provider.stat(at("file")),
        lambda: provider.read(at("file")),
        lambda: put(provider, "file", b"1"),
        lambda: provider.delete(at("file")),
        lambda: provider.copy(at("file"), at("copy")),
        lambda: provider.move(at("file"), at("moved")),
        lambda: provider.make_folder(at("folder")),
    ):
        with pytest.raises(ProviderRefused) as caught:
            await action()
        assert cause in (caught.value.cause or "")
        assert caught.value.detail == "The storage denied the gateway access. Tell your administrator."


async def test_a_wrong_key(server: AzureFilesServer, share_name: str) -> None:
    wrong = base64.b64encode(b"another key of the right form").decode()
    text = server.connection_string.replace(server.key, wrong)
    async with opened(share_name, connection_string=text) as provider:
        await refused(provider, "account key or signature doesn't match")


async def test_a_share_that_is_not_there(server: AzureFilesServer) -> None:
    async with opened("missing", connection_string=server.connection_string) as provider:
        await refused(provider, "the share does not exist")


async def test_a_shared_access_signature(server: AzureFilesServer, share_name: str) -> None:
    text = f"FileEndpoint={server.url};AccountName={server.account};SharedAccessSignature={sas(server)}"
    async with opened(share_name, connection_string=text) as provider:
        await put(provider, "a/file", b"content")
        await provider.copy(at("a/file"), at("a/copy"))
        await provider.move(at("a/copy"), at("b/moved"))
        await provider.move(at("a"), at("c"))
        assert await get(provider, "b/moved") == b"content"
        assert [entry.name for entry in (await provider.list_page(at("c"), 10, None)).entries] == ["file"]
        await provider.delete(at("c"), recursive=True)
        assert [step.error async for step in probe(provider, at(""))] == [None] * 4
    assert any("sig" in call.query for call in server.calls)


@pytest.mark.parametrize(("missing", "step"), [("l", "list"), ("w", "write"), ("d", "delete")])
async def test_a_signature_that_lacks_a_permission(
    server: AzureFilesServer, share_name: str, missing: str, step: str
) -> None:
    token = sas(server, "rwdlc".replace(missing, ""))
    text = f"FileEndpoint={server.url};AccountName={server.account};SharedAccessSignature={token}"
    async with opened(share_name, connection_string=text) as provider:
        steps = [step async for step in probe(provider, at(""))]
    assert steps[-1].name == step
    assert isinstance(steps[-1].error, ProviderRefused)
    assert "lacks the permission" in (steps[-1].error.cause or "")


async def test_a_signature_that_has_expired(server: AzureFilesServer, share_name: str) -> None:
    text = f"FileEndpoint={server.url};AccountName={server.account};SharedAccessSignature={sas(server, hours=-1)}"
    async with opened(share_name, connection_string=text) as provider:
        await refused(provider, "account key or signature doesn't match")


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (403, "AuthorizationFailure", ProviderRefused),
        (403, "InsufficientAccountPermissions", ProviderRefused),
        (401, "", ProviderRefused),
        (403, "SomethingNew", ProviderRefused),
        (301, "", ProviderFailed),
        (429, "TooManyRequests", ProviderUnavailable),
        (500, "OperationTimedOut", ProviderUnavailable),
        (400, "SomethingNew", ProviderFailed),
        (418, "", ProviderFailed),
    ],
)
async def test_every_refusal_has_a_name(
    provider: AzureFilesProvider, server: AzureFilesServer, status: int, code: str, error: type[PorticoError]
) -> None:
    server.fault = failing(LIST, refusing(status, code))
    with pytest.raises(error) as caught:
        await provider.list_page(at(""), 10, None)
    assert "raw words" not in caught.value.detail
    assert str(status) in (caught.value.cause or "")


async def test_a_service_that_is_silent(server: AzureFilesServer, share_name: str) -> None:
    server.fault = silent(LIST)
    async with opened(share_name, connection_string=server.connection_string, timeout=0.05) as provider:
        with pytest.raises(ProviderTimeout):
            await provider.list_page(at(""), 10, None)


async def test_a_service_that_is_not_there() -> None:
    text = "AccountName=nobody;AccountKey=AAAA;FileEndpoint=http://127.0.0.1:9"
    async with opened("share", connection_string=text) as provider:
        with pytest.raises(ProviderUnavailable):
            await provider.list_page(at(""), 10, None)


async def test_a_flood_of_error_text(provider: AzureFilesProvider, server: AzureFilesServer) -> None:
    server.fault = failing("GET", lambda: Answer(400, {}, b"x" * 10 * 2**20))
    with pytest.raises(ProviderFailed):
        await provider.read(at("file"))


async def test_an_identity_is_for_https_only(share_name: str) -> None:
    with pytest.raises(ProviderRefused) as caught:
        AzureFilesProvider(share_name, account_url="http://portico.file.core.windows.net")
    assert "https" in (caught.value.cause or "")


async def test_an_identity_says_what_it_wants_the_files_for() -> None:
    async with opened("share", account_url="https://portico.file.core.windows.net") as provider:
        assert provider._share._service._headers["x-ms-file-request-intent"] == "backup"
        provider._share._service._opened()
    async with opened("share", account_url="https://portico.file.core.windows.net", account_key="AAAA") as keyed:
        assert "x-ms-file-request-intent" not in keyed._share._service._headers


async def test_two_ways_to_one_share_are_one_identity() -> None:
    text = "AccountName=Portico;AccountKey=AAAA;EndpointSuffix=core.windows.net"
    first = AzureFilesProvider("share", connection_string=text)
    second = AzureFilesProvider("share", account_url="https://portico.file.core.windows.net/", account_key="AAAA")
    other = AzureFilesProvider("other", connection_string=text)
    assert first.identity == second.identity != other.identity


async def test_no_secret_is_reported(server: AzureFilesServer, share_name: str) -> None:
    secret = base64.b64encode(b"canary-canary-canary").decode()
    token = f"sv=2022-11-02&sig={secret}"
    for text in (
        server.connection_string.replace(server.key, secret),
        f"FileEndpoint={server.url};AccountName=a;SharedAccessSignature={token}",
    ):
        async with opened(share_name, connection_string=text) as provider:
            with pytest.raises(ProviderRefused) as caught:
                await put(provider, "file", b"1")
            reported = [
                repr(provider),
                repr(provider._share),
                repr(provider._share._service.access),
                repr(caught.value),
            ]
            reported += [caught.value.detail, caught.value.cause or "", *traceback.format_exception(caught.value)]
            assert not any(secret in words for words in reported)
            assert not any(secret.rstrip("=") in words for words in reported)


async def test_what_ends_early_is_reported(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share
) -> None:
    await put(provider, "file", b"12345")
    server.fault = failing("GET", lambda: Answer(206, {"Content-Range": "bytes 3-4/5"}, b"45"))
    with pytest.raises(ProviderFailed):
        await provider.read(at("file"), 2)
    server.fault = None
    with pytest.raises(NotFound):
        await provider.read(at("missing"))
