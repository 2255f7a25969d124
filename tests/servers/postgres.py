"""A private PostgreSQL server: a data folder and a port of its own."""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from ..gateways import free_port, wait_until
from . import apt
from .memory import data_folder

USER = "portico"
PASSWORD = "p@ss/word"
"""Needs escapes in a URL."""


def binaries() -> Path | None:
    """The folder of the newest version's programs; Debian does not put them on the PATH."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max((program.parent for program in versions), key=lambda folder: folder.parent.name, default=None)


class PostgresServer:
    """Runs as an ordinary user, as PostgreSQL demands. Commits are not synced: no test cuts the power."""

    def __init__(self, folder: Path, *options: str) -> None:
        apt.ensured("postgresql", lambda: binaries() is not None)
        found = binaries()
        assert found
        self._programs = found
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        self.port = free_port()
        self._own()
        self._run(
            # A scram handshake would take most of the time of a short test.
            "initdb", "--pgdata", self._data, "--username", USER, "--auth-host=md5", "--auth-local=trust",
            "--pwfile", self._password_file(), "--encoding=UTF8", "--locale=C", "--no-sync",
        )  # fmt: skip

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "fsync": "off",
            "shared_buffers": "16MB",
            "max_wal_size": "64MB",
            "max_connections": "60",
            "log_min_messages": "fatal",
        }
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *options, *self._options],
                stdout=log,
                stderr=log,
                **self._identity(),
            )
        wait_until(self._answers, "PostgreSQL answers")

    def stop(self, number: int = signal.SIGINT) -> None:
        """By default end all connections at once, as a restart does."""
        if self._process:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Stop all of its processes, as a machine that hangs does."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def url(self, database: str = "postgres") -> str:
        password = PASSWORD.replace("@", "%40").replace("/", "%2F")
        return f"postgresql://{USER}:{password}@127.0.0.1:{self.port}/{database}"

    def new_database(self, template: str = "template0") -> str:
        """The URL of a new database, a copy of `template`."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Hundreds of them, at 8 MB each, would fill the memory in which they are."""
        self.execute(f"DROP DATABASE IF EXISTS {url.rpartition('/')[2]} WITH (FORCE)")

    def execute(self, statement: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)

    def _answers(self) -> bool:
        assert self._process
        assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _signal_all(self, number: int) -> None:
        assert self._process
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for each in (self._process.pid, *map(int, children)):
            os.kill(each, number)

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    def _password_file(self) -> str:
        file = self._folder / "password"
        file.write_text(PASSWORD + "\n")
        return str(file)

    def _own(self) -> None:
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(self._folder, account.pw_uid, account.pw_gid)

    def _identity(self) -> dict[str, Any]:
        return {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self._folder,
            **self._identity(),
        )


@contextmanager
def running_postgres(*options: str) -> Iterator[PostgresServer]:
    # Not below pytest's folders, which only their owner may enter.
    with tempfile.TemporaryDirectory(prefix="portico-postgres-", dir=data_folder()) as folder:
        server = PostgresServer(Path(folder), *options)
        server.start()
        try:
            yield server
        finally:
            server.stop()
