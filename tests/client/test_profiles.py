"""Clients with a profile of the command."""

import asyncio
import json
from pathlib import Path

import pytest

from portico import AsyncClient, Client
from portico.client import NotSignedIn, ProfileUnusable
from portico.client.auth import profiles

from ..gateways import Gateway


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of profiles, isolated from the environment of the test run."""
    monkeypatch.delenv("PORTICO_PROFILE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "portico" / "profiles"


def test_a_client_of_a_profile(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.sign_in("work")
    with Client.of_profile("work", timeout=5.0) as client:
        assert client.stat("/").is_folder
    with pytest.raises(ProfileUnusable, match="default not found"):
        Client.of_profile()
    monkeypatch.setenv("PORTICO_PROFILE", "work")
    with Client.of_profile() as client:
        assert client.stat("/").is_folder
    with pytest.raises(ProfileUnusable, match="not a valid profile name"):
        Client.of_profile("../work")


def test_an_async_client_of_a_profile(gateway: Gateway) -> None:
    async def main() -> bool:
        async with AsyncClient.of_profile("default") as client:
            return (await client.stat("/")).is_folder

    gateway.sign_in()
    assert asyncio.run(main())


def test_a_sign_out_is_one_of_the_profile(gateway: Gateway, config: Path) -> None:
    gateway.sign_in()
    with Client.of_profile("default") as client:
        client.logout()
    kept = json.loads((config / "default.json").read_text())
    assert (kept["url"], kept["user"], kept["tokens"]) == (gateway.url, "web", None)
    with Client.of_profile("default") as client, pytest.raises(NotSignedIn):
        client.stat("/")


def test_tokens_that_cannot_be_kept_end_all_transfers(
    gateway: Gateway, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    gateway.sign_in()
    file = config / "default.json"
    kept = json.loads(file.read_text())
    kept["tokens"]["expires_at"] = 1.0
    file.write_text(json.dumps(kept))
    monkeypatch.setattr(profiles, "_write_private", full)
    with Client.of_profile("default") as client, pytest.raises(ProfileUnusable, match="No space"):
        client.upload_all([(b"1", "/a"), (b"2", "/b")])  # not TransfersFailed
