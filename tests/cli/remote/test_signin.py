"""Signing in and out: profiles, where tokens are kept, and what the environment says."""

import json
import os
import pty
import socket
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from portico.client.auth import keyring, profiles
from portico.client.http.origin import Origin

from ...gateways import Gateway, free_port, wait_until
from ..conftest import Portico

RING = """
class Backend:
    priority = {priority}

kept = {{}}
def get_keyring(): return Backend
def get_password(service, name): return kept.get((service, name))
def set_password(service, name, text): {set}
def delete_password(service, name): del kept[service, name]
"""


def test_the_token_is_kept_in_a_private_file(remote: Portico, gateway: Gateway, config: Path) -> None:
    file = config / "default.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(config.stat().st_mode) == 0o700
    kept = json.loads(file.read_text())
    assert (kept["url"], kept["user"], kept["key_ring"]) == (gateway.url, "web", False)
    outcome = remote("whoami", "--json")
    assert outcome.data["username"] == "web"
    assert outcome.data["url"] == gateway.url
    assert kept["tokens"]["access_token"] not in outcome.out + outcome.err
    assert outcome.data["mounts"] == [{"path": "/", "rights": ["list", "download", "upload", "overwrite"]}]
    assert remote("whoami").out == f"web at {gateway.url}, with the rights list, download, upload, overwrite.\n"


def test_several_folders_are_listed_with_their_rights(remote: Portico, gateway: Gateway) -> None:
    given = ("--connection", "local", "--folder", "/team", "--rights", "list,download")
    gateway.command("mount", "add", "web", "/team", *given, "--existing-folder")
    try:
        wait_until(lambda: len(remote("whoami", "--json").data["mounts"]) == 2, "the gateway knows of the mount")
        assert remote("whoami").out.splitlines()[1:] == [
            "path   rights",
            "/      list download upload overwrite",
            "/team  list download",
        ]
    finally:
        gateway.command("mount", "remove", "web", "/team")


def test_the_file_is_private_from_its_first_moment(
    remote: Portico, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []
    write = os.fdopen

    def seen(descriptor: int, *arguments: object, **options: object) -> object:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return write(descriptor, *arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "fdopen", seen)
    former = os.umask(0)
    try:
        profiles.save(profiles.Profile("other", "http://127.0.0.1", "web"))
    finally:
        os.umask(former)
    assert modes == [0o600]
    assert sorted(os.listdir(config)) == ["default.json", "other.json"]


def test_signing_out(remote: Portico, gateway: Gateway, config: Path) -> None:
    token = json.loads((config / "default.json").read_text())["tokens"]["access_token"]
    outcome = remote("logout")
    assert (outcome.code, outcome.out) == (0, f"Signed out of {gateway.url}.\n")
    with gateway.client() as client:
        answer = client.get("/backend/session", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 401
    assert token not in (config / "default.json").read_text()
    outcome = remote("ls")
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert "portico login" in outcome.err
    assert remote("logout").out == "You aren't signed in.\n"


def test_signing_out_of_a_gateway_that_is_gone(remote: Portico, config: Path) -> None:
    kept = json.loads((config / "default.json").read_text())
    (config / "default.json").write_text(json.dumps({**kept, "url": "http://127.0.0.1:1"}))
    outcome = remote("logout")
    assert outcome.code == 5
    assert "deleted here" in outcome.err
    assert json.loads((config / "default.json").read_text())["tokens"] is None


def test_signing_in_again_needs_no_names(remote: Portico, gateway: Gateway, password: str) -> None:
    remote("logout")
    outcome = remote("login", "--password-stdin", stdin=password)
    assert (outcome.code, outcome.out) == (0, f"Signed in to {gateway.url} as web.\n")


def test_profiles(remote: Portico, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = remote("login", gateway.url, "-u", "reader", "--profile", "work", "--password-stdin", stdin="pass word\n")
    assert outcome.code == 0, outcome.err
    assert "web at" in remote("whoami").out
    assert (
        f"reader at {gateway.url} (profile work), with the rights list, download."
        in remote("whoami", "--profile", "work").out
    )
    monkeypatch.setenv("PORTICO_PROFILE", "work")
    assert remote("whoami", "--json").data["profile"] == "work"
    assert remote("whoami", "--profile", "default", "--json").data["username"] == "web"
    outcome = remote("ls", "--profile", "none")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert remote("ls", "--profile", "../x").code == 2


def test_the_environment(portico: Portico, gateway: Gateway, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert portico("ls").code == 2
    monkeypatch.setenv("PORTICO_URL", gateway.url)
    assert "n't signed in at" in portico("ls").err
    monkeypatch.setenv("PORTICO_TOKEN", gateway.login()["access_token"])
    outcome = portico("whoami", "--json")
    assert (outcome.data["username"], outcome.data["profile"]) == ("web", None)
    assert not config.exists()
    monkeypatch.setenv("PORTICO_TOKEN", "wrong")
    assert portico("ls").code == 1


def test_tokens_go_to_no_other_gateway(remote: Portico, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTICO_URL", "http://127.0.0.1:1")
    outcome = remote("ls")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("login",), 2, "The gateway is missing"),
        (("login", "URL"), 2, "--user"),
        (("login", "URL", "--user", "web"), 2, "--password-stdin"),
        (("login", "URL", "--user", "web", "--password-stdin"), 1, "password"),
        (("login", "URL", "--password", "x"), 2, "Unknown option '--password'"),
        (("login", "ftp://example.com", "--user", "web", "--password-stdin"), 1, "https://"),
        (("login", "http://[bad", "--user", "web", "--password-stdin"), 1, "https://"),
        (("login", "http://127.0.0.1:1", "--user", "web", "--password-stdin"), 5, "refused"),
        (("login", "URL", "--profile", ".x", "--user", "web", "--password-stdin"), 2, "profile"),
    ],
)
def test_failures(
    portico: Portico,
    gateway: Gateway,
    config: Path,
    arguments: tuple[str, ...],
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("portico.client.auth.backoff.random.uniform", lambda *_: 0.0)
    outcome = portico(*(gateway.url if word == "URL" else word for word in arguments), stdin="wrong")
    assert (outcome.code, outcome.err.count("\n")) == (code, 1), outcome.err
    assert words in outcome.err
    assert not config.exists()


def test_signing_in_repairs_a_damaged_profile(remote: Portico, config: Path, password: str, gateway: Gateway) -> None:
    (config / "default.json").write_text("{")
    outcome = remote("ls")
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert remote("login", gateway.url, "--user", "web", "--password-stdin", stdin=password).code == 0
    assert remote("ls").code == 0


def test_a_self_signed_gateway(portico: Portico, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tls").mkdir()
    gateway = Gateway(tmp_path / "tls" / "home", tls=True)
    gateway.start()
    try:
        arguments = ("login", gateway.url, "--user", "web", "--password-stdin")
        password = gateway.password
        outcome = portico(*arguments, stdin=password)
        assert (outcome.code, outcome.err.count("\n")) == (1, 1)
        assert "--ca FILE" in outcome.err
        assert portico(*arguments, "--ca", str(gateway.certificate), stdin=password).code == 0
        assert portico("ls").code == 0
        token = json.loads((config / "default.json").read_text())["tokens"]["access_token"]
        (config / "default.json").unlink()
        monkeypatch.setenv("PORTICO_URL", gateway.url)
        monkeypatch.setenv("PORTICO_TOKEN", token)
        outcome = portico("ls")
        assert (outcome.code, "PORTICO_CA" in outcome.err) == (1, True)
        monkeypatch.setenv("PORTICO_CA", str(gateway.certificate))
        assert portico("ls").code == 0
    finally:
        gateway.stop()


def test_the_password_is_asked_for_on_a_terminal(gateway: Gateway, config: Path, password: str) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "portico", "login", gateway.url]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    shown = b""
    for prompt, answer in ((b"User name: ", b"web\n"), (b"Password of web: ", password.encode() + b"\n")):
        while prompt not in shown:
            shown += os.read(ours, 1024)
        os.write(ours, answer)
    assert process.wait(20) == 0
    shown += os.read(ours, 1024)
    os.close(ours)
    assert b"Signed in" in shown
    assert password.encode() not in shown


def fake_ring(monkeypatch: pytest.MonkeyPatch, **words: object) -> None:
    """A module like the library `keyring`."""
    ring = ModuleType("keyring")
    exec(RING.format(**{"priority": 5, "set": "kept[service, name] = text", **words}), ring.__dict__)
    monkeypatch.setitem(sys.modules, "keyring", ring)


def test_a_key_ring_is_preferred(
    portico: Portico, gateway: Gateway, config: Path, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ring(monkeypatch)
    assert portico("login", gateway.url, "--user", "web", "--password-stdin", stdin=password).code == 0
    kept = json.loads((config / "default.json").read_text())
    assert (kept["key_ring"], kept["tokens"]) == (True, None)
    assert portico("whoami").code == 0
    assert portico("logout").code == 0
    assert keyring.load("default") is None


@pytest.mark.parametrize("words", [{"priority": 0}, {"set": "raise RuntimeError('no bus')"}, {"set": "pass"}])
def test_a_key_ring_that_is_none_is_passed_over(
    portico: Portico,
    gateway: Gateway,
    config: Path,
    password: str,
    monkeypatch: pytest.MonkeyPatch,
    words: dict[str, object],
) -> None:
    fake_ring(monkeypatch, **words)
    outcome = portico("login", gateway.url, "--user", "web", "--password-stdin", stdin=password)
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads((config / "default.json").read_text())["tokens"]
    assert portico("whoami").code == 0


def test_tokens_in_a_key_ring_go_to_no_other_gateway(
    portico: Portico, gateway: Gateway, config: Path, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ring(monkeypatch)
    assert portico("login", gateway.url, "--user", "web", "--password-stdin", stdin=password).code == 0
    kept = json.loads((config / "default.json").read_text())
    profile = profiles.get("default")
    assert profiles.ProfileTokenStore(profile).load()
    (config / "default.json").write_text(json.dumps({**kept, "url": "http://127.0.0.1:1"}))
    assert profiles.ProfileTokenStore(profiles.get("default")).load() is None
    assert portico("ls").code == 1
    profiles.ProfileTokenStore(profile).save(None)  # of the gateway before: it is not this profile's business any more
    assert json.loads((config / "default.json").read_text())["url"] == "http://127.0.0.1:1"
    assert keyring.load("default")


def test_a_profile_that_cannot_be_written(remote: Portico, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(profiles, "_write_private", full)
    outcome = remote("logout")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert "can't be written: No space" in outcome.err


def test_a_user_without_a_home(
    portico: Portico, gateway: Gateway, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("PORTICO_PROFILE", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setenv("PORTICO_URL", gateway.url)
    monkeypatch.setenv("PORTICO_TOKEN", gateway.login()["access_token"])
    assert portico("ls").code == 0
    outcome = portico("login", "--user", "web", "--password-stdin", stdin=password)
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert "XDG_CONFIG_HOME" in outcome.err


def test_where_profiles_are_kept() -> None:
    assert profiles.folder({"XDG_CONFIG_HOME": "/x"}, "linux") == Path("/x/portico/profiles")
    assert profiles.folder({"XDG_CONFIG_HOME": "x"}, "linux") == Path.home() / ".config/portico/profiles"
    assert profiles.folder({}, "darwin") == Path.home() / "Library/Application Support/portico/profiles"
    assert profiles.folder({"APPDATA": "/r"}, "win32") == Path("/r/portico/profiles")


@pytest.mark.parametrize(
    ("url", "warned"), [("http://192.0.2.1:1", True), ("http://localhost:1", False), ("http://127.0.0.1:1", False)]
)
def test_a_password_in_clear_is_warned_of(capsys: pytest.CaptureFixture[str], url: str, warned: bool) -> None:
    from portico.cli.remote.signin import _warn_of_clear_text

    _warn_of_clear_text(url)
    assert ("Warning" in capsys.readouterr().err) is warned


def test_addresses_beyond_ascii() -> None:
    origin = Origin.of("https://bücher.example/größe a", None)
    assert (origin.host, origin.prefix) == ("xn--bcher-kva.example", "/gr%C3%B6%C3%9Fe%20a")
    assert Origin.of("https://a.example/already%20quoted/", None).prefix == "/already%20quoted"


@pytest.mark.parametrize("token", ["é", "a\nb", "a\x7f"])
def test_a_token_that_is_none(
    portico: Portico, gateway: Gateway, config: Path, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("PORTICO_URL", gateway.url)
    monkeypatch.setenv("PORTICO_TOKEN", token)
    outcome = portico("ls")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome.err
    assert "PORTICO_TOKEN" in outcome.err


def test_a_kept_token_that_is_none(remote: Portico, config: Path) -> None:
    kept = json.loads((config / "default.json").read_text())
    kept["tokens"]["access_token"] = "é"
    (config / "default.json").write_text(json.dumps(kept))
    outcome = remote("ls")
    assert outcome.err == "The token contains invalid characters; copy it again.\n"


def is_good(gateway: Gateway, token: str) -> bool:
    with gateway.client() as client:
        answer = client.get("/backend/session", headers={"Authorization": f"Bearer {token}"})
    return answer.status_code == 200


def test_signing_in_again_ends_the_former_token(remote: Portico, gateway: Gateway, config: Path, password: str) -> None:
    tokens = []
    for user, secret in (("web", password), ("reader", "pass word"), ("web", password)):
        tokens.append(json.loads((config / "default.json").read_text())["tokens"]["access_token"])
        assert is_good(gateway, tokens[-1])
        assert remote("login", "--user", user, "--password-stdin", stdin=secret).code == 0
    assert not any(is_good(gateway, token) for token in tokens)
    assert remote("ls").code == 0


def test_signing_in_elsewhere_with_the_former_gateway_gone(
    remote: Portico, gateway: Gateway, config: Path, password: str
) -> None:
    kept = json.loads((config / "default.json").read_text())
    (config / "default.json").write_text(json.dumps({**kept, "url": "http://127.0.0.1:1"}))
    outcome = remote("login", gateway.url, "--user", "web", "--password-stdin", stdin=password)
    assert (outcome.code, outcome.err) == (0, "")
    assert remote("ls").code == 0


def test_a_wrong_port_is_said_at_once(portico: Portico, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    connect = socket.create_connection
    tried: list[Any] = []

    def counted(*arguments: Any) -> socket.socket:
        tried.append(arguments)
        return connect(*arguments)

    monkeypatch.setattr(socket, "create_connection", counted)
    outcome = portico("login", f"http://localhost:{port}", "--user", "web", "--password-stdin", stdin="secret")
    assert (outcome.code, len(tried)) == (5, 1)
    assert outcome.err.startswith(f"localhost:{port} refused the connection")


def test_a_refused_token_of_the_environment(
    remote: Portico, gateway: Gateway, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "a.txt").write_text("1")
    monkeypatch.setenv("PORTICO_TOKEN", "wrong")
    for command in (["ls"], ["put", "a.txt", "/"], ["get", "/a.txt"]):
        outcome = remote(*command)
        assert (outcome.code, outcome.err.count("\n")) == (1, 1), outcome.err
        assert "PORTICO_TOKEN" in outcome.err
    assert remote("ls", "--profile", "default").code == 0


def test_an_invitation_has_the_address_that_serve_printed(gateway: Gateway) -> None:
    made = gateway.command("user", "add", "invited", "--invite")
    assert f"within 7 days: {gateway.url}/invite#" in made
    assert "server.public-url" not in made
    gateway.command("user", "delete", "invited")
