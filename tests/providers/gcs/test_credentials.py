import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path as Folder
from typing import Any

import pytest
from google.auth import jwt

from portico.model.errors import PorticoError, ProviderRefused, ProviderTimeout, ProviderUnavailable
from portico.providers.gcs import credentials
from portico.providers.gcs.provider import GcsProvider

from ...servers.gcs import Fault, GcsServer, Status
from ...servers.gcs.buckets import Bucket
from .actions import at, content, put

Open = Callable[[dict[str, Any] | bytes | None], GcsProvider]


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Folder) -> None:
    """No credentials but those that a test gives."""
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.delenv("CLOUDSDK_CONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:9")


@pytest.fixture
async def open_with(server: GcsServer, bucket: Bucket, tmp_path: Folder) -> AsyncIterator[Open]:
    opened = []

    def open_with(key: dict[str, Any] | bytes | None) -> GcsProvider:
        file = tmp_path / "credentials.json"
        if key is not None:
            file.write_bytes(key if isinstance(key, bytes) else json.dumps(key).encode())
        opened.append(GcsProvider(bucket.name, str(file) if key is not None else None, server.address))
        return opened[-1]

    yield open_with
    for provider in opened:
        await provider.close()


async def works(provider: GcsProvider) -> None:
    await put(provider, "f", b"1")
    assert await content(provider, "f") == b"1"


async def refused(provider: GcsProvider, *words: str) -> str:
    with pytest.raises(ProviderRefused) as caught:
        await provider.list_page(at("/"), 1, None)
    cause = caught.value.cause or ""
    for word in words:
        assert word in cause
    return cause


async def test_a_service_account(server: GcsServer, open_with: Open) -> None:
    issued = server.accounts.issued
    await works(open_with(server.accounts.service_account(server.token_uri)))
    assert server.accounts.issued == issued + 1


async def test_a_password_file_of_other_programs_is_not_read(
    server: GcsServer, open_with: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Folder
) -> None:
    """With what it says of a host, a request would have two credentials, which the HTTP client refuses to send."""
    passwords = tmp_path / "netrc"
    passwords.write_text("default login somebody password secret")
    monkeypatch.setenv("NETRC", str(passwords))
    await works(open_with(server.accounts.service_account(server.token_uri)))


async def test_the_key_of_another_account(server: GcsServer, open_with: Open) -> None:
    with GcsServer() as other:
        key = other.accounts.service_account(server.token_uri)
    cause = await refused(open_with(key), "credentials.json", "invalid_grant", "deleted, disabled")
    assert "PRIVATE" not in cause


async def test_a_clock_that_is_wrong(server: GcsServer, open_with: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    monkeypatch.setattr("google.auth._helpers.utcnow", lambda: now - timedelta(hours=2))
    await refused(open_with(server.accounts.service_account(server.token_uri)), "clock")


@pytest.mark.parametrize(
    ("key", "word"),
    [
        (b"not json", "not JSON"),
        (b"[]", "type"),
        (b'{"type": "other"}', "type"),
        (b'{"type": "service_account"}', "MalformedError"),
        (b'{"type": "service_account", "client_email": "a@b", "private_key": "x"}', "can't be used"),
        (b'{"type": "external_account"}', "can't be used"),
    ],
)
async def test_a_file_that_is_no_key(open_with: Open, key: bytes, word: str) -> None:
    await refused(open_with(key), "credentials.json", word)


async def test_a_file_that_is_not_there(server: GcsServer, bucket: Bucket, tmp_path: Folder) -> None:
    provider = GcsProvider(bucket.name, str(tmp_path / "missing.json"), server.address)
    await refused(provider, "missing.json", "No such file")
    await provider.close()


async def test_the_file_of_the_environment(
    server: GcsServer, open_with: Open, key_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", key_file)
    await works(open_with(None))


async def test_the_login_of_gcloud(server: GcsServer, open_with: Open, tmp_path: Folder) -> None:
    folder = tmp_path / "home" / ".config" / "gcloud"
    folder.mkdir(parents=True)
    key = server.accounts.authorized_user(server.token_uri)
    (folder / "application_default_credentials.json").write_text(json.dumps(key))
    await works(open_with(None))


async def test_a_login_that_was_revoked(server: GcsServer, open_with: Open) -> None:
    key = {**server.accounts.authorized_user(server.token_uri), "refresh_token": "canary-secret"}
    assert "canary" not in await refused(open_with(key), "invalid_grant")


async def test_the_metadata_server(server: GcsServer, open_with: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GCE_METADATA_HOST", server.address.removeprefix("http://"))
    await works(open_with(None))


async def test_no_credentials_at_all(open_with: Open) -> None:
    await refused(open_with(None), "metadata server", "service-account-file", "anonymous=true")


async def test_workload_identity(server: GcsServer, open_with: Open, tmp_path: Folder) -> None:
    key = server.accounts.external_account(server.token_uri, tmp_path / "token")
    await works(open_with(key))
    impersonated = f"{server.address}/v1/projects/-/serviceAccounts/a@b:generateAccessToken"
    await works(open_with({**key, "service_account_impersonation_url": impersonated}))
    (tmp_path / "token").write_text("another")
    await refused(open_with(key), "invalid_grant")


async def test_impersonation_by_a_user(server: GcsServer, open_with: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    key = {
        "type": "impersonated_service_account",
        "service_account_impersonation_url": f"{server.address}/v1/projects/-/serviceAccounts/a@b:generateAccessToken",
        "source_credentials": server.accounts.authorized_user(server.token_uri),
        "token_uri": server.token_uri,
    }
    await works(open_with(key))


async def test_impersonation_by_a_service_account(server: GcsServer, open_with: Open) -> None:
    impersonated = f"{server.address}/v1/projects/-/serviceAccounts/a@b:generateAccessToken"
    key = {
        "type": "impersonated_service_account",
        "service_account_impersonation_url": impersonated,
        "source_credentials": server.accounts.service_account(server.token_uri),
    }
    await works(open_with(key))


async def test_the_identity_of_a_program(open_with: Open) -> None:
    source = {"executable": {"command": "/bin/false"}}
    key = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "https://sts.googleapis.com/v1/token",
        "credential_source": source,
    }
    await refused(open_with(key), "can't be used")  # it wants to be allowed by an environment variable


async def test_a_token_is_renewed_before_it_ends(
    server: GcsServer, open_with: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = open_with(server.accounts.service_account(server.token_uri))
    await works(provider)
    issued = server.accounts.issued
    await works(provider)
    assert server.accounts.issued == issued
    now = time.monotonic()
    monkeypatch.setattr(credentials, "_now", lambda: now + 3400)
    await works(provider)
    assert server.accounts.issued == issued + 1


async def test_a_token_serves_on_while_no_other_can_be_had(
    server: GcsServer, open_with: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = open_with(server.accounts.service_account(server.token_uri))
    await works(provider)
    server.faults.append(Fault(Status(503), "POST", "/token", times=99))
    now = time.monotonic()
    monkeypatch.setattr(credentials, "_now", lambda: now + 3400)
    await works(provider)
    monkeypatch.setattr(credentials, "_now", lambda: now + 3590)
    with pytest.raises(ProviderUnavailable):
        await provider.list_page(at("/"), 1, None)
    server.faults.clear()
    await works(provider)


@pytest.mark.parametrize(("ending", "expected"), [("stall", ProviderTimeout), ("close", ProviderUnavailable)])
async def test_a_token_response_that_breaks_off_is_no_fault_of_the_credentials(
    server: GcsServer, open_with: Open, monkeypatch: pytest.MonkeyPatch, ending: str, expected: type[PorticoError]
) -> None:
    monkeypatch.setattr("portico.providers.gcs.credentials.READ_SECONDS", 0.2)
    monkeypatch.setattr("portico.providers.gcs.service.ATTEMPTS", 2)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"acc')
        await writer.drain()
        if ending == "stall":
            await reader.read()  # the form, and then until the client gives up
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as endpoint:
        port = endpoint.sockets[0].getsockname()[1]
        provider = open_with(server.accounts.service_account(f"http://127.0.0.1:{port}/token"))
        with pytest.raises(expected):
            await provider.list_page(at("/"), 1, None)


async def test_a_refused_token_and_a_rotated_key(server: GcsServer, open_with: Open) -> None:
    provider = open_with(server.accounts.service_account(server.token_uri))
    await works(provider)
    server.accounts.revoke_all()
    await works(provider)
    server.accounts.revoke_all()
    server.faults.append(Fault(Status(401), address="/o", times=99))
    await refused(provider, "401", "access token")


async def test_many_requests_ask_for_one_token(server: GcsServer, open_with: Open) -> None:
    issued = server.accounts.issued
    provider = open_with(server.accounts.service_account(server.token_uri))
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(provider.list_page(at("/"), 1, None))
    assert server.accounts.issued == issued + 1


async def test_the_assertion_asks_for_no_more_than_storage(
    server: GcsServer, open_with: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []
    encode = jwt.encode

    def watched(signer: Any, payload: dict[str, Any], **more: Any) -> bytes:
        seen.append(payload)
        return encode(signer, payload, **more)  # type: ignore[no-any-return]

    monkeypatch.setattr(jwt, "encode", watched)
    await works(open_with(server.accounts.service_account(server.token_uri)))
    assert [claims["scope"] for claims in seen] == ["https://www.googleapis.com/auth/devstorage.read_write"]
