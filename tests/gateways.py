"""A real gateway process, as an administrator starts it, and what a test does to it from outside."""

import atexit
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import ssl
import tempfile
import time
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
from argon2 import PasswordHasher

from .cheap_argon2 import LEAST_KIB
from .fork_server import ForkedProcess, run

WAIT = 180.0
"""Seconds after which a wait is a hang. Nothing is expected to take this long, even on a busy machine."""


class Gateway:
    """`portico serve` on a free port of the loopback address, with a home of its own that outlives restarts."""

    def __init__(self, home: Path, *flags: str, tls: bool = False, settings: dict[str, str] | None = None) -> None:
        self.home = home
        self.settings = settings or {}
        """Given by the environment, under the names that they have there."""
        self.port = free_port()
        self.flags = (*flags, *(["--tls", "auto"] if tls else []))
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.certificate = home / "tls" / "certificate.pem" if tls else None
        self.process: ForkedProcess | None = None
        self._portico = ["-m", "portico", "--home", str(home)]

    @property
    def output(self) -> str:
        return (self.home.parent / "output.txt").read_text()

    @property
    def files(self) -> Path:
        return self.home / "files"

    @property
    def password(self) -> str:
        """Of the user `web`."""
        return (self.home / "web-password.txt").read_text().strip()

    @property
    def staged(self) -> list[str]:
        """What lies in the staging folder."""
        folder = self.files / ".portico~staging"
        return os.listdir(folder) if folder.exists() else []

    def empty_root(self) -> Path:
        """The folder of the user `web`, with nothing in it, nor on its way into it from somebody who was interrupted and
        whom the gateway still believes to be there. (An upload whose first bytes it has not read yet is not seen.)"""
        root = self.files / "web"

        def emptied() -> bool:
            if self.staged:
                return False
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir(parents=True, exist_ok=True)
            return not os.listdir(root)

        wait_until(emptied, "the user's folder can be emptied")
        return root

    def start(self) -> None:
        """Start it. A new home is a copy of one that was set up before, unless it shares a database."""
        environment = {**os.environ, **self.settings}
        if not self.home.exists() and "PORTICO_DATABASE_URL" not in environment:
            shutil.copytree(_home_to_copy(), self.home)
        output = self.home.parent / "output.txt"
        output.write_bytes(b"")
        self.process = ForkedProcess(
            [*self._portico, "serve", "--port", str(self.port), *self.flags], stdout=str(output), env=environment
        )
        try:
            wait_until(self._has_started, "the gateway has started")
        except BaseException:
            if self.process.poll() is None:
                self.kill()
            raise

    def _has_started(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.output
        return "Stop it with" in self.output or "Ctrl" in self.output

    def answers(self) -> bool:
        try:
            with self.client() as client:
                return client.get("/healthz").status_code == 200
        except httpx2.TransportError:
            return False

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT)

    def kill(self) -> None:
        """SIGKILL to the whole gateway, workers first: nobody gets a word in, and nobody starts another worker."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)
        workers = self.workers()
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        self.process.kill()
        self.process.wait(WAIT)
        wait_until(lambda: not any(map(lives, workers)), "the workers are gone, and their port is free")

    def workers(self) -> list[int]:
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(child) for child in children.split()]

    def command(self, *arguments: str, stdin: str = "") -> str:
        """`portico …` on this gateway's home."""
        return run([*self._portico, *arguments], stdin=stdin, env={**os.environ, **self.settings})

    def sign_in(self, profile: str = "default", user: str = "web", password: str | None = None) -> None:
        """`portico login`, with the profiles of the current user."""
        secret = password or self.password
        self.command("login", self.url, "--user", user, "--profile", profile, "--password-stdin", stdin=secret)

    def client(self, **options: Any) -> httpx2.Client:
        """A client without a token."""
        verify = ssl.create_default_context(cafile=self.certificate) if self.certificate else True
        return httpx2.Client(base_url=self.url, verify=verify, timeout=WAIT, **options)

    def signed_in(self, **options: Any) -> httpx2.Client:
        client = self.client(**options)
        client.headers["Authorization"] = f"Bearer {self.login()['access_token']}"
        return client

    def login(self, user: str = "web", password: str | None = None) -> dict[str, Any]:
        properties = (self.home / "application.properties").read_text()
        credentials = tuple(
            re.findall(rf"^security\.client-{word}=(.*)$", properties, re.MULTILINE)[0] for word in ("id", "secret")
        )
        form = {"grant_type": "password", "username": user, "password": password or self.password}
        with self.client() as client:
            answer = client.post("/backend/login", data=form, auth=credentials)
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body


_SET_UP = """
import sys
from pathlib import Path
from portico.cli.administration.home_setup import undone_on_failure
from portico.cli.administration.serve import _prepare
with undone_on_failure(Path(sys.argv[1])):
    _prepare(Path(sys.argv[1]), {"server.port": sys.argv[2]})
"""


@cache
def _home_to_copy() -> Path:
    """A home that was set up by a first start. The password of `web` is an ordinary one, but cheap to verify."""
    folder = Path(tempfile.mkdtemp(prefix="portico-home-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    home = folder / "home"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PORTICO_")}
    run(["-c", _SET_UP, str(home), str(free_port())], stdin="", env=environment)
    password = (home / "web-password.txt").read_text().strip()
    hashed = PasswordHasher(time_cost=1, memory_cost=LEAST_KIB, parallelism=1).hash(password)
    with closing(sqlite3.connect(home / "portico.db")) as database, database:
        database.execute("UPDATE users SET password_hash = ?", [hashed])
    return home


FILES = "/backend/1.0.0/filesystem"


def names(client: httpx2.Client, path: str = "") -> list[str]:
    """The names in a folder, without the folder's own entry."""
    answer = client.get(f"{FILES}/{path}?size=5000")
    assert answer.status_code == 200, answer.text
    return [entry["name"] for entry in answer.json()["content"] if not entry["isCurrentFolder"]]


class RunningUpload:
    """An upload of one file after the other over a raw connection, as far as the test lets it go."""

    def __init__(self, gateway: Gateway, token: str) -> None:
        self._connection = socket.create_connection(("127.0.0.1", gateway.port), WAIT)
        self._connection.sendall(
            f"POST {FILES}/ HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )

    def begin(self, name: str, content: bytes) -> None:
        """The next file, without its end."""
        head = f'\r\n--b\r\nContent-Disposition: form-data; name="data"; filename="{name}"\r\n\r\n'
        self._send(head.encode() + content)

    def finish(self) -> int:
        """The closing boundary; the status of the answer."""
        self._send(b"\r\n--b--\r\n")
        self._connection.sendall(b"0\r\n\r\n")
        answer = self._connection.recv(2**16)
        self.vanish()
        return int(answer.split()[1])

    def half_close(self) -> bytes:
        """Send nothing more, but listen; all of the answer."""
        self._connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := self._connection.recv(2**16):
            answer += piece
        self.vanish()
        return answer

    def vanish(self) -> None:
        self._connection.close()

    def _send(self, content: bytes) -> None:
        self._connection.sendall(b"%x\r\n%b\r\n" % (len(content), content))


def wait_until(condition: Any, what: str) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end, f"it should be that {what}"
        time.sleep(0.02)


def lives(process: int) -> bool:
    """Whether a thread of it is left, and with it the sockets."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z" or len(os.listdir(f"/proc/{process}/task")) > 1
    except OSError:
        return False


def free_port() -> int:
    """Not one that the system gives to connections: a client that tries a gateway while it restarts could get its port."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
