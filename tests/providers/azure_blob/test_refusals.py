"""Credentials, permissions and addresses that are wrong: what the administrator sees, and what nobody does."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError
from azure.storage.blob import ContainerSasPermissions, generate_container_sas

from portico.model.errors import PorticoError, ProviderFailed, ProviderRefused, ProviderUnavailable
from portico.providers.azure_blob.provider import AzureBlobProvider
from portico.providers.azure_common.credentials import AzureAccess, StorageCredential, credential_and_url
from portico.providers.azure_common.errors import _CAUSES
from portico.providers.azure_common.service import IdentityTransport
from portico.providers.contract.registry import open_provider, probe

from ...servers.azurite import ACCOUNT, KEY, Azurite
from ...servers.proxy import FaultProxy, Reply
from .actions import SECRETS, at, content, put, walk

OTHER_KEY = "b3RoZXI="


def sas(container: str, permission: str = "racwdl", hours: int = 1) -> str:
    return generate_container_sas(
        ACCOUNT,
        container,
        account_key=KEY,
        permission=ContainerSasPermissions.from_string(permission),
        expiry=datetime.now(UTC) + timedelta(hours=hours),
        start=datetime.now(UTC) - timedelta(hours=48),
    )


def causes(error: BaseException | None) -> str:
    assert isinstance(error, PorticoError)
    assert error.cause
    text = f"{error.detail} {error.cause} {error!r}"
    assert not any(secret in text for secret in SECRETS)
    return error.cause


async def refusal(provider: AzureBlobProvider) -> str:
    try:
        with pytest.raises(ProviderRefused) as caught:
            await provider.list_page(at("/"), 10, None)
    finally:
        await provider.close()
    for word in ("127.0.0.1", ACCOUNT, "x-ms", "test-"):
        assert word not in caught.value.detail
    return causes(caught.value)


# Ways in


@pytest.mark.parametrize("form", ["key", "key-with-suffix", "sas", "sas-in-string", "sas-with-question-mark"])
async def test_every_form_of_credential_works(url: str, container: str, form: str) -> None:
    token = sas(container)
    options = {
        "key": {"account-url": url, "account-key": KEY},
        "key-with-suffix": {
            "connection-string": f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={url};EndpointSuffix=x;"
        },
        "sas": {"account-url": f"{url}/", "sas-token": token},
        "sas-in-string": {"connection-string": f"BlobEndpoint={url};SharedAccessSignature={token}"},
        "sas-with-question-mark": {"account-url": url, "sas-token": f"?{token}\n"},
    }[form]
    provider = open_provider("azure-blob", {"container": container, **options})
    assert isinstance(provider, AzureBlobProvider)
    try:
        assert [step.error async for step in probe(provider, at("/"))] == [None] * 4
        await put(provider, "a b/ä+%.txt", b"x")
        await provider.copy(at("a b"), at("copy"))
        assert await content(provider, "copy/ä+%.txt") == b"x"
    finally:
        await provider.close()


@pytest.mark.parametrize(
    ("options", "url", "account"),
    [
        ({"account_url": "https://acc.blob.core.windows.net/"}, "https://acc.blob.core.windows.net", "acc"),
        ({"account_url": "https://acc.blob.core.windows.net:443"}, "https://acc.blob.core.windows.net:443", "acc"),
        ({"account_url": "http://127.0.0.1:1/acc", "account_key": KEY}, "http://127.0.0.1:1/acc", "acc"),
        ({"account_url": "http://[::1]:1/acc", "account_key": KEY}, "http://[::1]:1/acc", "acc"),
        (
            {"connection_string": f"DefaultEndpointsProtocol=https;AccountName=acc;AccountKey={KEY}"},
            "https://acc.blob.core.windows.net",
            "acc",
        ),
        (
            {"connection_string": f"AccountName=acc;AccountKey={KEY};EndpointSuffix=core.chinacloudapi.cn"},
            "https://acc.blob.core.chinacloudapi.cn",
            "acc",
        ),
        ({"connection_string": "UseDevelopmentStorage=true"}, f"http://127.0.0.1:10000/{ACCOUNT}", ACCOUNT),
    ],
)
def test_the_account(options: dict[str, str], url: str, account: str) -> None:
    access = credential_and_url("blob", **options)
    assert (access.url, access.account) == (url, account)
    assert KEY not in repr(access)


def test_one_container_has_one_identity() -> None:
    string = f"AccountName=acc;AccountKey={KEY}"
    one = AzureBlobProvider("box", connection_string=string)
    two = AzureBlobProvider("box", account_url="https://acc.blob.core.windows.net/", sas_token="sv=1&sig=2")
    assert one.identity == two.identity
    assert AzureBlobProvider("bax", connection_string=string).identity != one.identity


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({}, "missing"),
        ({"account_url": "acc.blob.core.windows.net"}, "https://"),
        ({"account_url": "https://acc:x"}, "not a URL"),
        ({"account_url": "https://acc.blob.core.windows.net/?sv=1&sig=secret"}, "sas-token"),
        ({"account_url": "http://acc.blob.core.windows.net"}, "https://"),
        ({"account_url": "https://127.0.0.1"}, "contain the account's name"),
        ({"account_url": "https://a.b", "account_key": "not base64!"}, "base64"),
        ({"account_url": "https://a.b", "account_key": KEY, "sas_token": "sig=x"}, "can't be combined"),
        ({"account_url": "https://a.b", "connection_string": "x=y"}, "can't be combined with other options"),
        ({"connection_string": "no pairs"}, "Name=Value"),
        ({"connection_string": "AccountName=a"}, "AccountKey"),
        ({"connection_string": f"AccountKey={KEY}"}, "BlobEndpoint"),
        ({"container": "Big"}, "container"),
        ({"container": "../x"}, "container"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, str], word: str) -> None:
    given: dict[str, Any] = {"container": "box", **options}
    if "container" in options:
        given["connection_string"] = f"AccountName=acc;AccountKey={KEY}"
    with pytest.raises(ProviderRefused) as caught:
        AzureBlobProvider(**given)
    assert word in causes(caught.value)


# Refusals of the server


async def test_a_wrong_key(url: str, container: str) -> None:
    assert "account-key" in await refusal(AzureBlobProvider(container, account_url=url, account_key=OTHER_KEY))


async def test_a_missing_container(url: str) -> None:
    provider = AzureBlobProvider("missing", account_url=url, account_key=KEY)
    for action in (
        provider.stat(at("file")),
        provider.read(at("file")),
        put(provider, "file", b"x"),
        provider.delete(at("file")),
        provider.make_folder(at("folder")),
    ):
        with pytest.raises(ProviderRefused) as caught:
            await action
        assert "container does not exist" in causes(caught.value)
    assert "container does not exist" in await refusal(provider)


async def test_an_expired_sas(url: str, container: str) -> None:
    reported = await refusal(AzureBlobProvider(container, account_url=url, sas_token=sas(container, hours=-1)))
    assert "SAS" in reported or "sas-token" in reported


@pytest.mark.parametrize(
    ("permission", "step"), [("racwd", "list"), ("rl", "write"), ("cwl", "read"), ("rcwl", "delete")]
)
async def test_a_sas_without_a_permission(url: str, container: str, permission: str, step: str) -> None:
    provider = AzureBlobProvider(container, account_url=url, sas_token=sas(container, permission))
    steps = [step async for step in probe(provider, at("/"))]
    await provider.close()
    assert steps[-1].name == step
    assert "permission" in causes(steps[-1].error)


@pytest.mark.parametrize("code", _CAUSES)
async def test_every_refusal_says_what_to_do(provider: AzureBlobProvider, proxy: FaultProxy, code: str) -> None:
    proxy.on(lambda _: True, Reply(403, {"x-ms-error-code": code}, b"raw text " * 2**16))
    reported = await refusal(provider)
    assert code in reported
    assert "raw text" not in reported
    assert len(proxy.calls) == 1


async def test_a_wrong_clock(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    detail = b"<AuthenticationErrorDetail>Request date header too old: 'x'</AuthenticationErrorDetail>"
    proxy.on(lambda _: True, Reply(403, {"x-ms-error-code": "AuthenticationFailed"}, detail))
    assert "clock" in await refusal(provider)


async def test_a_redirect_is_not_followed(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    target = f"http://127.0.0.1:{Azurite.running().port}/stolen"
    proxy.on(lambda _: True, Reply(307, {"Location": target}), Reply(301, {"Location": target}))
    for _ in range(2):
        with pytest.raises(ProviderFailed) as caught:
            await provider.list_page(at("/"), 10, None)
        assert "redirect" in causes(caught.value)
    assert len(proxy.calls) == 2


async def test_a_service_that_cannot_be_reached(container: str) -> None:
    provider = AzureBlobProvider(container, account_url=f"http://127.0.0.1:1/{ACCOUNT}", account_key=KEY)
    with pytest.raises(ProviderUnavailable) as caught:
        await provider.list_page(at("/"), 10, None)
    await provider.close()
    assert "can't be reached" in causes(caught.value)
    assert caught.value.retry_after


# The platform's identity


class Identity:
    def __init__(self, works: bool) -> None:
        self.works = works
        self.closed = False

    async def get_token(self, *scopes: str, **_: object) -> AccessToken:
        if not self.works:
            raise ClientAuthenticationError("DefaultAzureCredential failed: tenant 1234")
        return AccessToken("token-of-the-platform", 2**31)

    async def close(self) -> None:
        self.closed = True


async def test_no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    identity = Identity(works=False)
    monkeypatch.setattr(AzureAccess, "credential", lambda *_: identity)
    reported = await refusal(AzureBlobProvider("box", account_url="https://acc.blob.core.windows.net"))
    assert "identity" in reported
    assert "1234" not in reported
    assert identity.closed


async def test_the_identity_is_the_platforms_chain() -> None:
    from azure.identity.aio import DefaultAzureCredential

    access = credential_and_url("blob", account_url="https://acc.blob.core.windows.net")
    credential = access.credential(IdentityTransport)
    assert isinstance(credential, StorageCredential)
    assert isinstance(credential._identity, DefaultAzureCredential)
    await credential.close()


async def test_the_identity_is_not_lent_to_who_asks_for_another_service() -> None:
    """A refusal may name the service that a token is wanted for, and the SDK would get one."""
    tokens = StorageCredential(Identity(works=True), IdentityTransport())
    assert (await tokens.get_token("https://storage.azure.com/.default")).token == "token-of-the-platform"
    with pytest.raises(ProviderFailed):
        await tokens.get_token("https://management.azure.com/.default", tenant_id="1234")


# Secrets


async def test_no_secret_is_ever_reported(
    url: str, container: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    token = sas(container)
    credentials: list[dict[str, Any]] = [{"account_key": KEY}, {"sas_token": token}]
    for options in credentials:
        provider = AzureBlobProvider(container, account_url=url, **options)
        await put(provider, "file", b"x")
        await provider.copy(at("file"), at("copy"))
        await walk(provider)
        await provider.close()
        assert KEY not in repr(provider)
    printed = "".join(capfd.readouterr()) + caplog.text
    signature = token.partition("sig=")[2].partition("&")[0]
    assert KEY not in printed
    assert signature not in printed
