"""Profiles of the command, as `portico://` uses them."""

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from portico.client.auth import profiles
from portico.filesystem import PorticoFileSystem
from portico.filesystem.options import Options

from ..gateways import Gateway


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """fsspec knows a filesystem by its options, which here stay the same from test to test."""
    PorticoFileSystem.clear_instance_cache()
    yield
    PorticoFileSystem.clear_instance_cache()


@pytest.fixture(scope="package")
def reader(gateway: Gateway) -> dict[str, str]:
    arguments = ("--root", "/web", "--rights", "list,download", "--password-stdin")
    gateway.command("user", "add", "reader", *arguments, stdin="pass word")
    return {"user": "reader", "password": "pass word"}


def options_of(environment: dict[str, str] | None = None, **given: Any) -> Options:
    return Options(**{"url": "", **given}).completed(environment or {})


def keep(name: str, url: str, ca: str | None = None) -> None:
    profiles.save(profiles.Profile(name, url, "web", ca))


def token_of(file: Path) -> str:
    return str(json.loads(file.read_text())["tokens"]["access_token"])


def test_a_profile_is_enough(gateway: Gateway, root: Path) -> None:
    (root / "a.txt").write_text("hello")
    gateway.sign_in("work")
    with fsspec.open("portico:///a.txt", profile="work") as file:
        assert file.read() == b"hello"
    with pytest.raises(ValueError, match="portico login"):
        fsspec.filesystem("portico")


def test_the_default_profile_needs_no_word(gateway: Gateway, root: Path) -> None:
    (root / "a.txt").write_text("hello")
    gateway.sign_in()
    with fsspec.open("portico:///a.txt") as file:
        assert file.read() == b"hello"


def test_the_environment_names_a_profile(
    gateway: Gateway, root: Path, reader: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.sign_in()
    gateway.sign_in("other", **reader)
    monkeypatch.setenv("PORTICO_PROFILE", "other")
    with pytest.raises(PermissionError):
        fsspec.filesystem("portico").pipe("/a.txt", b"x")
    fsspec.filesystem("portico", profile="default").pipe("/a.txt", b"x")
    assert (root / "a.txt").read_bytes() == b"x"


def test_renewed_tokens_are_kept(gateway: Gateway, config: Path) -> None:
    gateway.sign_in()
    file = config / "default.json"
    before = json.loads(file.read_text())
    before["tokens"]["expires_at"] = 1.0
    file.write_text(json.dumps(before))
    assert fsspec.filesystem("portico").isdir("/")
    assert token_of(file) != before["tokens"]["access_token"]
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_name_travels_and_the_token_does_not(gateway: Gateway, config: Path) -> None:
    gateway.sign_in("work")
    fs = fsspec.filesystem("portico", profile="work")
    assert fs.isdir("/")
    secret, kept = token_of(config / "work.json"), pickle.dumps(fs)
    reported = (repr(fs), repr(fs._connection_options), repr(fs.client), repr(fs.__dask_tokenize__()), fs.to_json())
    assert not [text for text in reported if secret in text]
    assert b"work" in kept
    assert secret.encode() not in kept
    PorticoFileSystem.clear_instance_cache()
    assert pickle.loads(kept).isdir("/")
    (config / "work.json").unlink()  # as on a machine that knows no such profile
    PorticoFileSystem.clear_instance_cache()
    with pytest.raises(ValueError, match="work not found"):
        pickle.loads(kept)


def test_after_the_sign_out(gateway: Gateway) -> None:
    gateway.sign_in()
    gateway.command("logout")
    with pytest.raises(PermissionError):
        fsspec.filesystem("portico").ls("/")


def test_a_profile_that_moved_on_meanwhile(gateway: Gateway, config: Path) -> None:
    gateway.sign_in()
    fs = PorticoFileSystem()
    kept = json.loads((config / "default.json").read_text())
    (config / "default.json").write_text(json.dumps({**kept, "url": "http://127.0.0.1:1"}))
    fs.client.logout()
    assert json.loads((config / "default.json").read_text())["tokens"] == kept["tokens"]
    with pytest.raises(PermissionError):
        fs.ls("/")


def test_which_comes_first() -> None:
    keep("default", "https://a", "a.pem")
    keep("work", "https://b", "b.pem")

    def found(environment: dict[str, str] | None = None, **given: Any) -> tuple[str | None, ...]:
        one = options_of(environment, **given)
        return one.url, one.profile, one.token, one.ca

    everything = {"PORTICO_URL": "https://c", "PORTICO_TOKEN": "t", "PORTICO_PROFILE": "work"}
    assert found() == ("https://a", "default", None, "a.pem")
    assert found({"PORTICO_PROFILE": "work"}) == ("https://b", "work", None, "b.pem")
    assert found(everything) == ("https://c", None, "t", None)
    assert found(everything, profile="default") == ("https://a", "default", None, "a.pem")
    assert found(everything, url="https://b/") == ("https://b", "work", None, "b.pem")
    assert found({**everything, "PORTICO_URL": "b"}) == ("https://b", None, "t", "b.pem")
    assert found({"PORTICO_TOKEN": "t"}) == ("https://a", None, "t", "a.pem")
    assert found(profile="work", token="mine", ca="c.pem") == ("https://b", None, "mine", "c.pem")
    assert found(url="https://a", token="mine") == ("https://a", None, "mine", None)
    assert found(url="https://d") == ("https://d", None, None, None)
    assert found(username="somebody else", password="p") == ("https://a", None, None, "a.pem")


def test_what_cannot_be_used(config: Path) -> None:
    keep("work", "https://b")
    with pytest.raises(ValueError, match="not for https://a"):
        options_of(profile="work", url="https://a")
    with pytest.raises(ValueError, match="not a valid profile name"):
        options_of(profile="../x")
    with pytest.raises(ValueError, match="No gateway given"):
        options_of({"PORTICO_PROFILE": "nobody"})
    (config / "default.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        options_of()
    assert options_of(url="https://a", token="t").token == "t"
