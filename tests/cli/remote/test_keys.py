"""A key in place of a sign-in: the command, both clients, and fsspec."""

import asyncio
import json
from pathlib import Path

import pytest

from portico.client import AsyncClient, Client, NotSignedIn
from portico.client.auth import profiles
from portico.filesystem import PorticoFileSystem

from ...gateways import Gateway
from ..conftest import Portico


@pytest.fixture
def key(gateway: Gateway) -> dict[str, str]:
    made: dict[str, str] = json.loads(gateway.command("key", "add", "web", "--name", "ci", "--folder", "/in", "--json"))
    return made


def test_a_key_replaces_a_sign_in(
    portico: Portico, gateway: Gateway, key: dict[str, str], config: Path, here: Path, there: Path
) -> None:
    (there / "in").mkdir()
    (here / "a.txt").write_text("a")
    outcome = portico("login", gateway.url, "--key-stdin", stdin=key["key"] + "\n")
    assert outcome.out == f"Signed in to {gateway.url} as web, with a key.\n"
    assert portico("put", "a.txt", "/").code == 0
    assert (there / "in/a.txt").read_text() == "a"
    assert portico("ls").out == "a.txt\n"
    assert portico("whoami", "--json").data["key"]["folder"] == "/in"
    assert portico("logout").code == 0
    with Client(gateway.url, key=key["key"]) as client:  # signing out has not ended it
        assert [entry.name for entry in client.list()] == ["a.txt"]
    for wrong in ("pk_short", key["key"][:-6] + "000000"):
        outcome = portico("login", gateway.url, "--key-stdin", stdin=wrong)
        assert outcome.code != 0
        assert wrong not in outcome.out + outcome.err
    assert profiles.find("default") is None or profiles.get("default").tokens is None


def test_the_environment_and_the_libraries_take_a_key(
    portico: Portico,
    gateway: Gateway,
    key: dict[str, str],
    config: Path,
    here: Path,
    there: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (there / "in").mkdir()
    (there / "in/b.txt").write_text("b")
    monkeypatch.setenv("PORTICO_URL", gateway.url)
    monkeypatch.setenv("PORTICO_KEY", key["key"])
    assert portico("cat", "/b.txt").out == "b"
    assert PorticoFileSystem().cat("/b.txt") == b"b"
    assert key["key"] not in repr(PorticoFileSystem().storage_options)
    monkeypatch.setenv("PORTICO_TOKEN", "x")
    assert "set only one of them" in portico("ls").err
    monkeypatch.delenv("PORTICO_TOKEN")
    with pytest.raises(ValueError, match="only one of"):
        Client(gateway.url, key=key["key"], password="x")
    assert PorticoFileSystem(gateway=gateway.url, key=key["key"], skip_instance_cache=True).cat("/b.txt") == b"b"

    async def names() -> list[str]:
        async with AsyncClient(gateway.url, key=key["key"]) as client:
            return [entry.name async for entry in client.list()]

    assert asyncio.run(names()) == ["b.txt"]
    gateway.command("key", "end", "web", key["id"])

    def ended() -> bool:
        outcome = portico("ls")
        assert key["key"] not in outcome.err
        return "PORTICO_KEY" in outcome.err

    while not ended():
        pass
    with Client(gateway.url, key=key["key"]) as client, pytest.raises(NotSignedIn):
        client.stat("/b.txt")
