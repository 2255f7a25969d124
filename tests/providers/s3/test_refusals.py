"""What the administrator sees, and what nobody does."""

import asyncio
from pathlib import Path as File
from typing import Any

import pytest

from portico.model.errors import (
    InvalidPath,
    PorticoError,
    ProviderFailed,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnavailable,
    StorageFull,
)
from portico.providers.contract.registry import probe
from portico.providers.s3.provider import S3Provider

from ...servers.moto_s3 import moto_s3
from ...servers.proxy import Call, FaultProxy, Silent
from .actions import at, error, listing, put, said, whole
from .conftest import Opener

SECRET = "canary-of-a-secret"

REFUSALS: dict[str, tuple[int, str, dict[str, str], str]] = {
    "access-key": (403, "InvalidAccessKeyId", {"AWSAccessKeyId": SECRET}, "access key id"),
    "secret": (403, "SignatureDoesNotMatch", {"StringToSign": SECRET}, "secret-access-key"),
    "expired": (400, "ExpiredToken", {"Token-0": SECRET}, "expired"),
    "clock": (403, "RequestTimeTooSkewed", {}, "clock"),
    "permission": (403, "AccessDenied", {}, "s3:ListBucket"),
    "bucket": (404, "NoSuchBucket", {"BucketName": SECRET}, "doesn't exist"),
    "region": (400, "AuthorizationHeaderMalformed", {"Region": "eu-central-1"}, "region=eu-central-1"),
    "redirect": (301, "PermanentRedirect", {"Endpoint": SECRET}, "region"),
    "unknown-403": (403, "Whatever", {}, "s3:ListBucket"),
    "not-signed": (401, "Whatever", {}, "s3:ListBucket"),
    "bad-bucket-name": (400, "InvalidBucketName", {}, "option bucket"),
}


def refusal(status: int, code: str, fields: dict[str, str]) -> Any:
    return said(status, error(code, **fields))


@pytest.mark.parametrize("case", REFUSALS)
async def test_each_refusal_has_its_own_cause(provider: S3Provider, proxy: FaultProxy, case: str) -> None:
    status, code, fields, expected = REFUSALS[case]
    proxy.on(lambda _: True, refusal(status, code, fields), turns=99)
    with pytest.raises(ProviderRefused) as caught:
        await provider.list_page(at("f"), 10, None)
    assert expected in (caught.value.cause or "")
    assert len(proxy.calls) == 1
    for text in (caught.value.detail, caught.value.cause or "", repr(caught.value)):
        assert SECRET not in text
        assert "RAW TEXT" not in text
    assert "bucket-" not in caught.value.detail


async def test_the_region_is_named_by_a_header_too(provider: S3Provider, proxy: FaultProxy) -> None:
    proxy.on(lambda _: True, said(301, "", {"x-amz-bucket-region": "sa-east-1"}), turns=99)
    for look in (provider.find("f"), provider.list_keys("", 1, None)):
        with pytest.raises(ProviderRefused) as caught:
            await look
        assert "region=sa-east-1" in (caught.value.cause or "")


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (500, "InternalError", ProviderUnavailable),
        (503, "SlowDown", ProviderUnavailable),
        (429, "TooManyRequests", ProviderUnavailable),
        (507, "InsufficientStorage", StorageFull),
        (403, "QuotaExceeded", StorageFull),
        (400, "KeyTooLongError", InvalidPath),
        (418, "Teapot", ProviderFailed),
        (400, "", ProviderFailed),
    ],
)
async def test_other_failures_of_a_write(
    provider: S3Provider, proxy: FaultProxy, status: int, code: str, expected: type[PorticoError]
) -> None:
    proxy.on(whole, said(status, error(code)), turns=99)
    with pytest.raises(expected) as caught:
        await put(provider, "file")
    assert "RAW" not in caught.value.detail + (caught.value.cause or "")
    assert await provider.find("file") is None


async def test_ten_mebibytes_of_error_text(provider: S3Provider, proxy: FaultProxy) -> None:
    proxy.on(listing, said(418, error("X" * 10 * 2**20)), turns=9)
    with pytest.raises(ProviderFailed) as caught:
        await provider.list_page(at("f"), 10, None)
    assert len(caught.value.cause or "") < 300


async def test_a_service_that_is_silent(provider: S3Provider, proxy: FaultProxy) -> None:
    await provider._service.open()
    provider._service.timeout = 0.5
    proxy.on(listing, Silent(), turns=99)
    with pytest.raises(ProviderTimeout):
        await provider.list_page(at("f"), 10, None)
    assert len(proxy.calls) == 1


async def test_a_call_has_a_deadline_over_all_attempts(provider: S3Provider, proxy: FaultProxy) -> None:
    await provider._service.open()
    proxy.on(listing, Silent(), turns=99)
    with pytest.raises(ProviderTimeout):
        await provider._service.call("list_objects_v2", within=0.2)


async def test_a_service_that_is_not_there(opened: Opener) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    with pytest.raises(ProviderUnavailable) as caught:
        await opened(endpoint_url=f"http://127.0.0.1:{port}").list_page(at("f"), 10, None)
    assert "endpoint-url" in (caught.value.cause or "")


async def test_a_bucket_that_is_not_there(opened: Opener) -> None:
    provider = opened(bucket="no-such-bucket-anywhere")
    for attempt in (
        lambda: provider.list_page(at("/"), 10, None),
        lambda: provider.stat(at("file")),
        lambda: put(provider, "file"),
        lambda: provider.read(at("file")),
    ):
        with pytest.raises(ProviderRefused) as caught:
            await attempt()
        assert "'no-such-bucket-anywhere'" in (caught.value.cause or "")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"endpoint_url": "not a url"}, "endpoint-url"),
        ({"bucket": "Not A Bucket!"}, "option bucket"),
        ({"profile": "no-such-profile"}, "no-such-profile"),
    ],
)
async def test_options_that_cannot_be(opened: Opener, options: dict[str, str], expected: str) -> None:
    with pytest.raises(ProviderRefused) as caught:
        await opened(**options).list_page(at("f"), 10, None)
    assert expected in (caught.value.cause or "")


def test_half_a_pair_of_keys(opened: Opener) -> None:
    for name in ("access_key_id", "secret_access_key"):
        with pytest.raises(ProviderRefused) as caught:
            opened(**{name: ""})
        assert "both or neither" in (caught.value.cause or "")


PROBES = {
    "list": (lambda call: "list-type" in call.query, "s3:ListBucket"),
    "write": (lambda call: call.method == "PUT", "s3:PutObject"),
    "read": (lambda call: call.method == "GET" and not call.query, "s3:GetObject"),
    "delete": (lambda call: call.method == "DELETE", "s3:DeleteObject"),
}


@pytest.mark.parametrize("step", PROBES)
async def test_the_probe_names_the_missing_permission(provider: S3Provider, proxy: FaultProxy, step: str) -> None:
    matches, permission = PROBES[step]
    proxy.on(matches, said(403, error("AccessDenied")), turns=99)
    *_, last = [found async for found in probe(provider, at("team"))]
    assert last.name == step
    assert last.error
    assert permission in (last.error.cause or "")


# Credentials


def without_surroundings(monkeypatch: pytest.MonkeyPatch, folder: File) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "config"))


def signer(call: Call) -> str:
    return call.headers["authorization"].partition("Credential=")[2].split("/")[0]


async def test_no_credentials_at_all(opened: Opener, monkeypatch: pytest.MonkeyPatch, tmp_path: File) -> None:
    without_surroundings(monkeypatch, tmp_path)
    for options in ({}, {"role_arn": "arn:aws:iam::123456789012:role/portico"}):
        with pytest.raises(ProviderRefused) as caught:
            await opened(access_key_id="", secret_access_key="", **options).list_page(at("/"), 10, None)
        assert "no credentials were found" in (caught.value.cause or "")


async def test_the_surroundings_may_give_credentials(
    opened: Opener, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: File
) -> None:
    without_surroundings(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-surroundings")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    await opened(access_key_id="", secret_access_key="").list_page(at("/"), 10, None)
    assert signer(proxy.calls[-1]) == "from-surroundings"


async def test_a_profile(opened: Opener, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: File) -> None:
    without_surroundings(monkeypatch, tmp_path)
    (tmp_path / "credentials").write_text(
        f"[team]\naws_access_key_id = of-the-team\naws_secret_access_key = {SECRET}\nregion = eu-west-3\n"
    )
    await opened(access_key_id="", secret_access_key="", profile="team").list_page(at("/"), 10, None)
    assert signer(proxy.calls[-1]) == "of-the-team"
    assert "/eu-west-3/s3/" in proxy.calls[-1].headers["authorization"]


async def test_a_role_is_assumed_with_the_keys_and_kept(
    opened: Opener, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{proxy.port}")
    provider = opened(role_arn="arn:aws:iam::123456789012:role/portico", region="us-east-1")
    for _ in range(3):
        await provider.list_page(at("/"), 10, None)
    assumed, *listed = proxy.calls
    assert assumed.method == "POST"
    assert "/sts/" in assumed.headers["authorization"]
    assert len(listed) == 3
    for call in listed:
        assert signer(call) != signer(assumed)
        assert call.headers["x-amz-security-token"]


async def test_a_role_that_may_not_be_assumed(
    opened: Opener, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{proxy.port}")
    body = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>RAW</Message></Error></ErrorResponse>"
    proxy.on(lambda call: call.method == "POST", said(403, body), turns=9)
    provider = opened(role_arn="arn:aws:iam::123456789012:role/portico", region="us-east-1")
    with pytest.raises(ProviderRefused) as caught:
        await provider.list_page(at("/"), 10, None)
    assert "sts:AssumeRole" in (caught.value.cause or "")


def test_the_identity_is_the_bucket_and_who_has_it() -> None:
    assert S3Provider("b").identity == S3Provider("b", region="eu-west-1").identity == "b"
    assert S3Provider("b", endpoint_url="https://h/").identity == S3Provider("b", endpoint_url="https://h").identity
    assert S3Provider("b", endpoint_url="https://h").identity not in ("b", "c")


def test_nothing_shows_the_secret() -> None:
    provider = S3Provider("b", access_key_id="id", secret_access_key=SECRET, endpoint_url=moto_s3())
    assert SECRET not in repr(provider) + repr(provider._service) + provider.identity
