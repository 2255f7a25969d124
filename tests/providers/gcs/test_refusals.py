"""What the service refuses becomes one sentence for the user and another for the administrator, without secrets."""

import asyncio
import json
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path as Folder

import pytest

from portico.model.errors import (
    InvalidRequest,
    PorticoError,
    ProviderFailed,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnavailable,
)
from portico.model.paths import Path
from portico.providers.contract.registry import open_provider, probe
from portico.providers.gcs import service
from portico.providers.gcs.provider import GcsProvider

from ...servers.gcs import Fault, GcsServer, Silence, Status
from ...servers.gcs.buckets import Bucket
from .actions import at, content, noise, put

Action = Callable[[GcsProvider], Awaitable[object]]
ACTIONS: dict[str, Action] = {
    "list": lambda provider: provider.list_page(at("/"), 1, None),
    "stat": lambda provider: provider.stat(at("f")),
    "read": lambda provider: provider.read(at("f")),
    "write": lambda provider: put(provider, "f", b"1"),
    "write-large": lambda provider: put(provider, "f", noise(9 * 2**20)),
    "copy": lambda provider: provider.copy(at("f"), at("g")),
    "delete": lambda provider: provider.delete(at("f")),
}


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
async def test_a_missing_bucket(server: GcsServer, key_file: str, action: Action) -> None:
    provider = GcsProvider("missing-bucket", key_file, server.address)
    with pytest.raises(ProviderRefused) as caught:
        await action(provider)
    assert "bucket does not exist" in (caught.value.cause or "")
    assert "missing-bucket" not in caught.value.detail
    await provider.close()


@pytest.mark.parametrize(
    ("permission", "step"),
    [
        ("storage.objects.list", "list"),
        ("storage.objects.create", "write"),
        ("storage.objects.get", "read"),
        ("storage.objects.delete", "delete"),
    ],
)
async def test_a_probe_names_the_missing_permission(
    server: GcsServer, bucket: Bucket, provider: GcsProvider, permission: str, step: str
) -> None:
    bucket.denied.add(permission)
    *_, last = [step async for step in probe(provider, Path())]
    assert last.name == step
    assert isinstance(last.error, ProviderRefused)
    assert f"lacks the permission {permission}" in (last.error.cause or "")


async def test_a_probe_passes_and_leaves_nothing(bucket: Bucket, provider: GcsProvider) -> None:
    assert [(step.name, step.error) async for step in probe(provider, Path())] == [
        (name, None) for name in ("list", "write", "read", "delete")
    ]
    assert bucket.objects == {}


@pytest.mark.parametrize(
    ("status", "reason", "error", "word"),
    [
        (403, "accountDisabled", ProviderRefused, "billing"),
        (403, "forbidden", ProviderRefused, "refused"),
        (403, "insufficientPermissions", ProviderRefused, "scope"),
        (401, "authError", ProviderRefused, "token"),
        (403, "rateLimitExceeded", ProviderUnavailable, "403"),
        (429, "rateLimitExceeded", ProviderUnavailable, "429"),
        (503, "backendError", ProviderUnavailable, "503"),
        (301, "", ProviderFailed, "endpoint-url"),
        (418, "teapot", ProviderFailed, "418"),
    ],
)
@pytest.mark.parametrize("action", ["list", "read", "write"])
async def test_each_refusal_has_its_own_cause(
    server: GcsServer,
    bucket: Bucket,
    provider: GcsProvider,
    status: int,
    reason: str,
    error: type[PorticoError],
    word: str,
    action: str,
) -> None:
    message = f"raw text about {bucket.name}"
    body = json.dumps({"error": {"code": status, "message": message, "errors": [{"reason": reason}]}}).encode()
    server.faults.append(Fault(Status(status, body), address="/o", times=99))
    with pytest.raises(error) as caught:
        await ACTIONS[action](provider)
    assert word in (caught.value.cause or "")
    assert "raw text" not in caught.value.detail
    assert (caught.value.retry_after is not None) == (error is ProviderUnavailable)


async def test_how_long_to_wait_is_handed_on(
    server: GcsServer, provider: GcsProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LONGEST_WAIT", 0)
    server.faults.append(Fault(Status(503, headers={"Retry-After": "17"}), address="/o", times=99))
    with pytest.raises(ProviderUnavailable) as caught:
        await provider.list_page(at("/"), 1, None)
    assert caught.value.retry_after == 17


async def test_four_attempts_and_no_more(server: GcsServer, provider: GcsProvider) -> None:
    await provider.list_page(at("/"), 1, None)
    server.calls.clear()
    server.faults.append(Fault(Status(503), times=99))
    with pytest.raises(ProviderUnavailable):
        await provider.list_page(at("/"), 1, None)
    assert len(server.calls) == 4


async def test_a_service_that_is_not_there(key_file: str, server: GcsServer, bucket: Bucket) -> None:
    provider = GcsProvider(bucket.name, endpoint_url="http://127.0.0.1:9", anonymous="true")
    with pytest.raises(ProviderUnavailable) as caught:
        await provider.list_page(at("/"), 1, None)
    assert "endpoint-url" in (caught.value.cause or "")
    await provider.close()


@pytest.mark.parametrize(
    ("answer", "error"), [(b"what do you want?\r\n\r\n", ProviderFailed), (b"", ProviderUnavailable)]
)
async def test_something_else_that_listens_there(server: GcsServer, answer: bytes, error: type[PorticoError]) -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(other, "127.0.0.1", 0) as listener:
        address = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        provider = GcsProvider("bucket", endpoint_url=address, anonymous="true")
        with pytest.raises(error):
            await provider.list_page(at("/"), 1, None)
        await provider.close()


async def test_a_service_that_is_silent(
    server: GcsServer, provider: GcsProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    await provider.list_page(at("/"), 1, None)
    monkeypatch.setattr(provider._service, "timeout", 0.2)
    server.faults.append(Fault(Silence(), times=99))
    for action in ("list", "stat", "read"):
        with pytest.raises(ProviderTimeout):
            await ACTIONS[action](provider)


async def test_an_error_of_ten_mebibytes(server: GcsServer, provider: GcsProvider) -> None:
    server.faults.append(Fault(Status(400, b"\xff<b>" * 2**21), address="/o"))
    with pytest.raises(ProviderFailed) as caught:
        await provider.list_page(at("/"), 1, None)
    assert len(caught.value.cause or "") < 2000


async def test_secrets_stay_secret(server: GcsServer, bucket: Bucket, provider: GcsProvider) -> None:
    """Whatever goes wrong, and even if the service repeats what it was sent."""
    await put(provider, "f", b"1")
    (token, *_) = server.accounts.tokens
    secrets = [*server.accounts.tokens, server.accounts.service_account("x")["private_key"][100:150], "upload_id="]
    echo = json.dumps({"error": {"message": f"Authorization: Bearer {token} upload_id=abc"}}).encode()
    reported = []
    for status in (400, 401, 403, 404, 412, 418, 500):
        for name, action in ACTIONS.items():
            server.faults.append(Fault(Status(status, echo), address="/o", times=99))
            with pytest.raises(PorticoError) as caught:
                await action(provider)
            server.faults.clear()
            reported.append("".join(traceback.format_exception(caught.value)) + str(caught.value.cause) + name)
    reported.append(repr(provider) + repr(vars(provider)) + provider.identity)
    for text in reported:
        for secret in secrets:
            assert secret not in text


async def test_an_anonymous_connection(server: GcsServer, bucket: Bucket) -> None:
    provider = GcsProvider(bucket.name, endpoint_url=server.address, anonymous="true")
    with pytest.raises(ProviderRefused):
        await provider.list_page(at("/"), 1, None)
    bucket.public = True
    await put(provider, "f", b"1")
    assert await content(provider, "f") == b"1"
    await provider.close()


@pytest.mark.parametrize(
    "options",
    [
        {"bucket": "gs://bucket"},
        {"bucket": "bucket/folder"},
        {"bucket": "Bucket"},
        {"bucket": "bucket", "anonymous": "maybe"},
        {"bucket": "bucket", "anonymous": "true", "service-account-file": "key.json"},
        {"bucket": "bucket", "endpoint-url": "127.0.0.1:4443"},
        {"bucket": "bucket", "endpoint-url": "ftp://127.0.0.1"},
    ],
)
def test_options_that_make_no_sense(options: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        open_provider("gcs", options)


async def test_nothing_is_opened_before_it_is_used(tmp_path: Folder) -> None:
    provider = open_provider("gcs", {"bucket": "bucket", "service-account-file": str(tmp_path / "missing")})
    await provider.close()
