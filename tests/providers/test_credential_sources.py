"""Credential sources are bounded like the services: no redirect is followed, and responses have a limit."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path as File

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from portico.model.errors import ProviderFailed, ProviderTimeout
from portico.model.paths import Path
from portico.providers.contract.provider import Provider
from portico.providers.contract.registry import open_provider

from ..servers.hostile import Attack, Hostile, Response, Trap

SECRET = "canary-of-a-secret"
_GUARD_SECONDS = 60


class Source:
    """Makes the surroundings those of one source of credentials, which is at `url`."""

    def __init__(self, url: str, folder: File, patch: pytest.MonkeyPatch) -> None:
        self.url, self.folder, self.patch = url, folder, patch

    def environment(self, **variables: str) -> None:
        for name, value in variables.items():
            self.patch.setenv(name, value)

    def file(self, content: str | Mapping[str, object]) -> str:
        file = self.folder / "credentials"
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(file)


def s3(**more: str) -> Provider:
    return open_provider("s3", {"bucket": "bucket", "region": "us-east-1", **more})


def machine_role(source: Source) -> Provider:
    source.environment(AWS_EC2_METADATA_SERVICE_ENDPOINT=source.url, AWS_EC2_METADATA_DISABLED="false")
    return s3()


def container_role(source: Source) -> Provider:
    source.environment(
        AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{source.url}/role", AWS_CONTAINER_AUTHORIZATION_TOKEN=SECRET
    )
    return s3()


def assumed_role(source: Source) -> Provider:
    source.environment(
        AWS_ENDPOINT_URL_STS=source.url, AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="key", AWS_SESSION_TOKEN=SECRET
    )
    return s3(**{"role-arn": "arn:aws:iam::123456789012:role/portico"})


def role_of_a_profile(source: Source) -> Provider:
    config = source.folder / "config"
    config.write_text(
        "[profile team]\nregion = us-east-1\nrole_arn = arn:aws:iam::123456789012:role/x\nsource_profile = base\n"
        f"[profile base]\naws_access_key_id = id\naws_secret_access_key = key\naws_session_token = {SECRET}\n"
    )
    source.environment(AWS_CONFIG_FILE=str(config), AWS_ENDPOINT_URL_STS=source.url)
    return s3(profile="team")


def web_identity(source: Source) -> Provider:
    source.environment(
        AWS_ENDPOINT_URL_STS=source.url,
        AWS_WEB_IDENTITY_TOKEN_FILE=source.file(SECRET),
        AWS_ROLE_ARN="arn:aws:iam::123456789012:role/portico",
    )
    return s3()


def azure() -> Provider:
    return open_provider("azure-blob", {"container": "box", "account-url": "https://127.0.0.1:1/account"})


def app_service(source: Source) -> Provider:
    source.environment(IDENTITY_ENDPOINT=f"{source.url}/token", IDENTITY_HEADER=SECRET)
    return azure()


def azure_machine(source: Source) -> Provider:
    source.environment(AZURE_POD_IDENTITY_AUTHORITY_HOST=source.url)
    return azure()


def gcs(**more: str) -> Provider:
    return open_provider("gcs", {"bucket": "bucket", "endpoint-url": "http://127.0.0.1:1", **more})


def service_account(source: Source) -> Provider:
    key = generate_private_key(65537, 2048).private_bytes(
        Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
    )
    account = {"type": "service_account", "client_email": "a@b", "private_key": key.decode()}
    return gcs(**{"service-account-file": source.file({**account, "token_uri": f"{source.url}/token"})})


def authorized_user(source: Source) -> Provider:
    user = {"type": "authorized_user", "client_id": "c", "client_secret": SECRET, "refresh_token": SECRET}
    return gcs(**{"service-account-file": source.file({**user, "token_uri": f"{source.url}/token"})})


def google_machine(source: Source) -> Provider:
    host = source.url.removeprefix("http://")
    source.environment(CLOUDSDK_CONFIG=str(source.folder), GCE_METADATA_HOST=host)
    return gcs()


def subject_by_address(source: Source) -> Provider:
    account = {
        "type": "external_account",
        "audience": "x",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{source.url}/token",
        "credential_source": {"url": f"{source.url}/subject", "headers": {"X-Secret": SECRET}},
    }
    return gcs(**{"service-account-file": source.file(account)})


def workforce_user(source: Source) -> Provider:
    account = {
        "type": "external_account_authorized_user",
        "audience": "//iam.googleapis.com/locations/global/workforcePools/p/providers/q",
        "refresh_token": SECRET,
        "token_url": f"{source.url}/token",
        "token_info_url": f"{source.url}/info",
        "client_id": "c",
        "client_secret": SECRET,
    }
    return gcs(**{"service-account-file": source.file(account)})


SOURCES: Mapping[str, Callable[[Source], Provider]] = {
    source.__name__: source
    for source in (
        *(machine_role, container_role, assumed_role, role_of_a_profile, web_identity),
        *(app_service, azure_machine),
        *(service_account, authorized_user, google_machine, subject_by_address, workforce_user),
    )
}


@pytest.fixture(autouse=True)
def _bare_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: File) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws-config"))
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
    monkeypatch.setattr("random.random", lambda: 0.001)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("attack", [Attack.REDIRECT, Attack.ENDLESS_BODY], ids=lambda attack: attack.value)
async def test_a_source_of_credentials_leads_nowhere_and_ends(
    name: str, attack: Attack, tmp_path: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Trap() as trap, Hostile(lambda *_: Response(500), trap) as service:
        provider = SOURCES[name](Source(service.url, tmp_path, monkeypatch))
        service.begin(attack)
        try:
            async with asyncio.timeout(_GUARD_SECONDS):
                with pytest.raises(ProviderFailed):
                    await provider.list_page(Path(), 10, None)
        finally:
            await provider.close()
        assert service.attacks
        assert trap.caught == []
        assert service.sent < 2**23


@pytest.mark.parametrize("name", ["assumed_role", "app_service", "service_account"])
async def test_a_source_of_credentials_that_is_silent_is_left_at_the_deadline(
    name: str, tmp_path: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Hostile(lambda *_: Response(500)) as service:
        provider = SOURCES[name](Source(service.url, tmp_path, monkeypatch))
        service.begin(Attack.SILENCE)
        provider._service.timeout = 2.0  # type: ignore[attr-defined]
        try:
            async with asyncio.timeout(_GUARD_SECONDS):
                with pytest.raises(ProviderTimeout):
                    await provider.list_page(Path(), 10, None)
        finally:
            await provider.close()
