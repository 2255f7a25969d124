"""A restore drill: a program keeps its credentials while the gateway behind it is restored into another database."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from portico.accounts.vault import SecretKey
from portico.api.shares import LINKS, SHARE_SESSIONS

from ..gateways import FILES, Gateway, names
from ..servers.postgres import PostgresServer

PASSWORD = "correct horse"
PASSPHRASE = "battery staple"
RIGHTS = "list,download,upload,overwrite,share"
CLIENT = {
    "PORTICO_SECURITY_CLIENT_ID": "client-of-the-variables",
    "PORTICO_SECURITY_CLIENT_SECRET": "secret-of-the-variables",
}
Open = Callable[..., Gateway]


@pytest.fixture
def open_gateway(tmp_path: Path, postgres: PostgresServer) -> Iterator[Open]:
    """Gateways with a home of their own, which does not exist yet, on SQLite or a new PostgreSQL database."""
    opened: list[Gateway] = []

    def open_one(kind: str, **settings: str) -> Gateway:
        folder = tmp_path / f"gateway-{len(opened)}"
        folder.mkdir()
        if kind == "postgres":
            settings["PORTICO_DATABASE_URL"] = postgres.new_database()
        opened.append(Gateway(folder / "home", settings=settings))
        return opened[-1]

    yield open_one
    for gateway in opened:
        if gateway.process and gateway.process.poll() is None:
            gateway.kill()


@dataclass
class Program:
    """What a program of a partner has in its configuration, and nothing else."""

    client: tuple[str, str]
    key: str
    refresh_token: str
    cursor: str
    link: str

    @classmethod
    def set_up(cls, gateway: Gateway, folder: Path) -> "Program":
        folder.mkdir()
        gateway.command("connection", "add", "shared", "--kind", "local", "--option", f"folder={folder}")
        gateway.command(
            *("user", "add", "ann", "--connection", "shared", "--rights", RIGHTS, "--password-stdin"), stdin=PASSWORD
        )
        key = gateway.command("key", "add", "ann", "--name", "drill").split()[-1]
        with gateway.client() as http:
            config = http.get("/config.js").text
            client = (re.findall('clientId = "([^"]+)"', config)[0], re.findall('clientSecret = "([^"]+)"', config)[0])
            tokens = sign_in(http, client).json()
            http.headers["Authorization"] = f"Bearer {tokens['access_token']}"
            for name in ("a", "b", "c"):
                assert http.post(f"{FILES}/box", files={"data": (name, name.encode())}).status_code == 204
            cursor = http.get(f"{FILES}/box?size=2").json()["nextCursor"]
            link = http.post(LINKS, json={"path": "/box", "kind": "download"}).json()["token"]
        return cls(client, key, tokens["refresh_token"], cursor, link)

    def check(self, gateway: Gateway, *, session: bool) -> None:
        """Everything works as before; the session only if the backup has sessions."""
        with gateway.client() as http:
            by_password = sign_in(http, self.client)
            assert by_password.status_code == 200, by_password.text
            form = {"grant_type": "refresh_token", "refresh_token": self.refresh_token}
            refreshed = http.post("/backend/login", data=form, auth=self.client)
            assert refreshed.status_code == (200 if session else 400), refreshed.text
            if session:
                self.refresh_token = refreshed.json()["refresh_token"]
            else:
                assert refreshed.json()["error"] == "invalid_grant"  # and the program uses its password
            http.headers["Authorization"] = f"Bearer {by_password.json()['access_token']}"
            page = http.get(f"{FILES}/box", params={"cursor": self.cursor})
            assert [entry["name"] for entry in page.json()["content"]] == ["c"], page.text
            http.headers["Authorization"] = f"Bearer {self.key}"
            assert http.get(f"{FILES}/box/a").content == b"a"
            visit = http.post(SHARE_SESSIONS, json={"link": self.link})
            assert visit.status_code == 201, visit.text
            http.headers["Authorization"] = f"Bearer {visit.json()['token']}"
            assert names(http) == ["a", "b", "c"]


def sign_in(http: httpx2.Client, client: tuple[str, str]) -> httpx2.Response:
    form = {"grant_type": "password", "username": "ann", "password": PASSWORD}
    return http.post("/backend/login", data=form, auth=client)


@pytest.mark.parametrize(
    ("source", "target", "set_up_by"),
    [
        ("sqlite", "postgres", "file"),
        pytest.param("postgres", "sqlite", "file", marks=pytest.mark.thorough),
        ("postgres", "sqlite", "variables"),
        pytest.param("sqlite", "sqlite", "file", marks=pytest.mark.thorough),
    ],
)
def test_a_program_keeps_its_credentials(
    open_gateway: Open, tmp_path: Path, source: str, target: str, set_up_by: str
) -> None:
    """From a node that is set up by variables, too: the home of the target is empty, and has no variables of the client."""
    variables = {**CLIENT, "PORTICO_SECRET_KEY": SecretKey.generate().text()}
    before = open_gateway(source, **(variables if set_up_by == "variables" else {}))
    before.start()
    program = Program.set_up(before, tmp_path / "shared")
    if set_up_by == "variables":
        assert program.client == tuple(CLIENT.values())
    file = str(tmp_path / "portico.backup")
    before.command("backup", file, "--with-key", "--passphrase-stdin", stdin=PASSPHRASE)
    before.stop()

    after = open_gateway(target)
    after.command("restore", file, "--passphrase-stdin", stdin=PASSPHRASE)
    after.start()
    program.check(after, session=False)


def test_a_program_keeps_its_session_if_the_backup_has_sessions(open_gateway: Open, tmp_path: Path) -> None:
    """There and back, with the secret key of the environment, and not of the backup."""
    key = {"PORTICO_SECRET_KEY": SecretKey.generate().text()}
    gateway = open_gateway("sqlite", **key)
    gateway.start()
    program = Program.set_up(gateway, tmp_path / "shared")
    file = str(tmp_path / "portico.backup")
    for kind in ("postgres", "sqlite"):
        gateway.command("backup", file, "--with-sessions")
        gateway.stop()
        gateway = open_gateway(kind, **key)
        gateway.command("restore", file)
        gateway.start()
        program.check(gateway, session=True)


def test_a_gateway_that_was_started_before_the_restore_gets_the_client_of_the_backup(
    open_gateway: Open, tmp_path: Path
) -> None:
    key = {"PORTICO_SECRET_KEY": SecretKey.generate().text()}
    before, after = open_gateway("postgres", **key), open_gateway("sqlite", **key)
    before.start()
    program = Program.set_up(before, tmp_path / "shared")
    file = str(tmp_path / "portico.backup")
    before.command("backup", file)
    before.stop()
    after.start()
    after.stop()
    said = after.command("restore", file, "--replace", "--yes")
    assert "security.client-id and security.client-secret" in said
    after.start()
    program.check(after, session=False)


def test_a_database_that_is_copied_takes_the_client_along(open_gateway: Open, tmp_path: Path) -> None:
    """`migrate-database`, there with a client by variables, and back without any."""
    key = {"PORTICO_SECRET_KEY": SecretKey.generate().text()}
    one = open_gateway("sqlite", **CLIENT, **key)
    one.start()
    program = Program.set_up(one, tmp_path / "shared")
    one.stop()
    two = open_gateway("postgres", **key)
    shared, home = two.settings["PORTICO_DATABASE_URL"], f"sqlite:///{one.home / 'portico.db'}"
    one.command("migrate-database", home, shared)
    two.start()
    program.check(two, session=True)
    two.stop()

    back = open_gateway("sqlite", **key)
    back.home.mkdir()
    back.command("migrate-database", shared, f"sqlite:///{back.home / 'portico.db'}")
    back.start()
    program.check(back, session=True)
