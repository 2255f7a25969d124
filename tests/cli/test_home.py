import errno
import os
import shutil
import socket
from ipaddress import ip_address
from pathlib import Path

import pytest

from portico.cli.administration import home as homes
from portico.cli.administration.accounts import Accounts, with_settings
from portico.cli.administration.home import HomeUnusable, default_home, existing, find_home, prepare
from portico.cli.administration.home_setup import add_first_user, add_local_connection, generate_password
from portico.runtime.private_files import write_private
from portico.server import bind_address
from portico.server.bind_address import AddressUnusable


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_where_the_home_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/u")
    assert find_home(str(tmp_path), {"PORTICO_HOME": "/other"}) == tmp_path
    assert find_home(None, {"PORTICO_HOME": "/other"}) == Path("/other")
    assert default_home({}, "linux") == Path("/u/.local/share/portico")
    assert default_home({"XDG_DATA_HOME": "/data"}, "linux") == Path("/data/portico")
    assert default_home({"XDG_DATA_HOME": "relative"}, "linux") == Path("/u/.local/share/portico")
    assert default_home({}, "darwin") == Path("/u/Library/Application Support/portico")
    assert default_home({"LOCALAPPDATA": "/c"}, "win32") == Path("/c/portico")


def test_a_new_home_is_private_and_stays_as_it_is(tmp_path: Path) -> None:
    settings = prepare(tmp_path / "new" / "home")
    assert mode(settings.home) == 0o700
    assert mode(settings.properties_file) == 0o600
    assert prepare(settings.home) == settings
    assert prepare(tmp_path / "second").client_secret != settings.client_secret


def test_homes_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HomeUnusable, match="is a file"):
        prepare(tmp_path / "file")
    with pytest.raises(HomeUnusable, match="is a file"):
        existing(tmp_path / "file")
    with pytest.raises(HomeUnusable, match="can't be created"):
        prepare(tmp_path / "file" / "below")
    with pytest.raises(HomeUnusable, match="doesn't exist yet"):
        existing(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    with pytest.raises(HomeUnusable, match="database URL"):
        prepare(tmp_path / "a?b")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(HomeUnusable, match="can't write to"):
        prepare(tmp_path)


def test_a_home_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(homes, "_my_id", lambda: owner + 1)
    if owner == 0:
        os.chown(tmp_path, 12345, -1)
    with pytest.raises(HomeUnusable, match="belongs to the user"):
        prepare(tmp_path)


def test_a_lock_that_cannot_be_opened_is_not_another_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", denied)  # root may open everything
    with pytest.raises(HomeUnusable, match=r"/\.serving can't be opened for writing \(Permission denied\)"):
        homes.claim(tmp_path)


def test_a_private_file_is_written_whole(tmp_path: Path) -> None:
    file = tmp_path / "f"
    write_private(file, "one")
    write_private(file, "two", replace=False)
    assert file.read_text() == "one"
    write_private(file, "three")
    assert (file.read_text(), mode(file), list(tmp_path.iterdir())) == ("three", 0o600, [file])


def test_passwords_are_readable_and_differ() -> None:
    passwords = {generate_password() for _ in range(100)}
    assert len(passwords) == 100
    assert all(len(word) == 23 and set(word) <= set("abcdefghjkmnpqrstuvwxyz23456789-") for word in passwords)


async def first_start(accounts: Accounts) -> str | None:
    await add_local_connection(accounts)
    return await add_first_user(accounts)


async def names(accounts: Accounts) -> list[str]:
    return [user.name for user in await accounts.users.list()]


def test_the_first_start(tmp_path: Path) -> None:
    settings = prepare(tmp_path / "home")
    password = with_settings(settings, first_start)
    file = settings.home / homes.PASSWORD_FILE
    assert (file.read_text().strip(), mode(file)) == (password, 0o600)
    assert mode(settings.files_folder) == 0o700
    assert mode(settings.files_folder / "web") == 0o700
    assert with_settings(settings, names) == ["web"]
    assert with_settings(settings, first_start) is None
    connection = with_settings(settings, lambda accounts: accounts.connections.get("local"))
    assert connection.options == {"folder": str(settings.files_folder)}


def test_a_vanished_files_folder_is_not_replaced_by_an_empty_one(tmp_path: Path) -> None:
    settings = prepare(tmp_path / "home")
    with_settings(settings, first_start)
    shutil.rmtree(settings.files_folder)
    with_settings(prepare(settings.home), first_start)
    assert not settings.files_folder.exists()


def test_a_file_where_the_files_are_to_be_kept_is_reported(tmp_path: Path) -> None:
    settings = prepare(tmp_path / "home")
    settings.files_folder.touch()
    with pytest.raises(HomeUnusable, match=r"files is a file.*move the file away"):
        with_settings(settings, first_start)


def test_a_start_that_was_killed_halfway_is_completed(tmp_path: Path) -> None:
    settings = prepare(tmp_path / "home")
    with_settings(settings, add_local_connection)
    write_private(settings.home / homes.PASSWORD_FILE, "stale\n")
    password = with_settings(settings, first_start)
    assert (settings.home / homes.PASSWORD_FILE).read_text().strip() == password
    assert with_settings(settings, names) == ["web"]


def test_a_deleted_first_user_does_not_come_back(tmp_path: Path) -> None:
    settings = prepare(tmp_path / "home")
    with_settings(settings, first_start)
    with_settings(settings, lambda accounts: accounts.users.delete("web"))
    assert with_settings(settings, first_start) is None
    assert with_settings(settings, names) == []


def test_a_home_with_users_gets_no_other(tmp_path: Path) -> None:
    settings = prepare(tmp_path / "home")
    with_settings(settings, add_local_connection)
    with_settings(settings, lambda accounts: accounts.users.add("anna", "long enough"))
    assert with_settings(settings, first_start) is None
    assert with_settings(settings, names) == ["anna"]


@pytest.mark.parametrize(("address", "safe"), [("127.0.0.9", True), ("::1", True), ("::ffff:127.0.0.1", True)])
def test_loopback_needs_no_protection(address: str, safe: bool) -> None:
    assert bind_address.is_loopback(ip_address(address)) is safe
    bind_address.check_exposure(ip_address(address), protected=False)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1", "::ffff:192.0.2.1"])
def test_other_addresses_need_tls_or_a_proxy(address: str) -> None:
    bind_address.check_exposure(ip_address(address), protected=True)
    with pytest.raises(AddressUnusable, match=r"--tls auto.*--behind-proxy"):
        bind_address.check_exposure(ip_address(address), protected=False)


@pytest.mark.parametrize("option", [socket.SO_REUSEADDR, socket.SO_REUSEPORT])
def test_a_port_in_use_is_noticed(option: int) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, option, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(AddressUnusable, match=rf"Another program uses port {port} .*--port"):
            bind_address.check_free(ip_address("127.0.0.1"), port)
    bind_address.check_free(ip_address("127.0.0.1"), port)


def test_an_address_of_another_machine() -> None:
    with pytest.raises(AddressUnusable, match="not an address of this machine"):
        bind_address.check_free(ip_address("192.0.2.1"), 18099)
    with pytest.raises(AddressUnusable, match="can't be resolved"):
        bind_address.resolve("no-such-host.invalid")


def test_a_port_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(AddressUnusable, match="CAP_NET_BIND_SERVICE"):
        bind_address.check_free(ip_address("127.0.0.1"), 80)
