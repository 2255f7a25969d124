"""A first start that fails leaves nothing behind, and what was there before as it was."""

import fcntl
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from portico.cli.administration import serve
from portico.cli.administration.home import PASSWORD_FILE, SET_UP_MARK, HomeUnusable, prepare
from portico.cli.administration.home_setup import undone_on_failure
from portico.cli.main import run
from portico.model.errors import Unavailable

from .conftest import Portico

FAILURES: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "a bad flag": (("--port", "many"), {}),
    "an unknown flag": (("--prot", "1"), {}),
    "an address without protection": (("--host", "0.0.0.0"), {}),
    "an address of another machine": (("--host", "192.0.2.1", "--tls", "auto"), {}),
    "a port that is taken": (("--port", "TAKEN"), {}),
    "a certificate that is missing": (("--tls", "none.pem,key.pem"), {}),
    "a certificate that is none": (("--tls", "NO-PEM,NO-PEM"), {}),
    "a database of an unknown kind": ((), {"PORTICO_DATABASE_URL": "mysql://host/name"}),
    "a database without its folder": ((), {"PORTICO_DATABASE_URL": "sqlite:////nowhere/portico.db"}),
    "a database that does not answer": ((), {"PORTICO_DATABASE_URL": "postgresql://127.0.0.1:TAKEN/x"}),
    "a malformed key": ((), {"PORTICO_SECRET_KEY": "abc"}),
    "an unknown setting": ((), {"PORTICO_SERVER_PROT": "1"}),
    "metrics at a port that is taken": ((), {"PORTICO_METRICS_ADDRESS": "127.0.0.1:TAKEN"}),
    "a required audit log that cannot be written": (
        (),
        {"PORTICO_AUDIT_REQUIRED": "true", "PORTICO_AUDIT_LOG": "/dev/full"},
    ),
}


class Failure(Exception):
    pass


@contextmanager
def failing() -> Iterator[None]:
    with pytest.raises(Failure):
        yield


Tree = dict[str, tuple[int, bytes]]


def tree(folder: Path) -> Tree:
    """Every file and folder below, with its mode and content."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    }


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which another program listens that answers nobody."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.fixture(params=FAILURES)
def failing_start(
    request: pytest.FixtureRequest, taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, ...]:
    no_pem = tmp_path / "no.pem"
    no_pem.write_text("nothing of the kind")
    flags, environment = FAILURES[request.param]

    def filled(text: str) -> str:
        return text.replace("TAKEN", str(taken)).replace("NO-PEM", str(no_pem))

    for name, value in environment.items():
        monkeypatch.setenv(name, filled(value))
    monkeypatch.setattr(
        "portico.store.database.Database.__init__.__kwdefaults__",
        {"wait": 0.2, "connections": 5, "blocking": False, "foreign_keys": True},
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    chosen = tuple(map(filled, flags))
    return ("serve", *chosen) if "--port" in chosen else ("serve", *chosen, "--port", str(port))


def test_nothing_is_left_of_a_new_home(portico: Portico, home: Path, failing_start: tuple[str, ...]) -> None:
    outcome = portico(*failing_start)
    assert outcome.code != 0
    assert (outcome.out, outcome.err.count("\n")) == ("", 1)
    assert not home.exists()


def test_what_was_there_stays_as_it_was(portico: Portico, home: Path, failing_start: tuple[str, ...]) -> None:
    home.mkdir()
    (home / "application.properties").write_text("security.client-id=a\nsecurity.client-secret=b\n")
    (home / "tls").mkdir()
    (home / "mine.txt").write_text("mine")
    before = tree(home)
    assert portico(*failing_start).code != 0
    assert tree(home) == before


def test_a_home_with_users_keeps_them_when_its_first_start_fails(portico: Portico, home: Path) -> None:
    assert portico("user", "add", "anna", "--generate").code == 0
    before = tree(home)
    assert portico("serve", "--port", "many").code == 2
    assert tree(home) == before
    assert [user["name"] for user in portico("user", "list", "--json").lines] == ["anna"]


def test_folders_on_the_way_to_the_home_go_with_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert run(["serve", "--home", str(tmp_path / "data" / "new" / "home"), "--port", "many"]) == 2
    assert os.listdir(tmp_path / "data") == []


def test_a_place_that_cannot_be_written_is_left_alone(
    portico: Portico, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir()
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert "can't write to" in portico("serve").err
    assert os.listdir(home) == []
    home.rmdir()
    home.write_text("a file")
    assert "is a file" in portico("serve").err
    assert home.read_text() == "a file"


def test_a_disk_that_fills_up_on_the_way_leaves_nothing(
    portico: Portico, home: Path, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    async def full(*_: object) -> None:
        raise Unavailable("The disk is full.")

    monkeypatch.setattr(serve, "add_first_user", full)
    monkeypatch.setattr("portico.server.bind_address.check_free", lambda *_: None)
    assert "The disk is full." in portico("serve", "--tls", "auto").err
    assert not home.exists()


@pytest.mark.parametrize(
    "command",
    [
        ("user", "add", "bob", "--password-stdin"),
        ("user", "add", "bob", "--connection", "none", "--generate"),
        ("connection", "add", "a b", "--kind", "local", "--option", "folder=/x"),
    ],
)
def test_a_command_that_fails_makes_no_home(portico: Portico, home: Path, command: tuple[str, ...]) -> None:
    assert portico(*command, stdin="short").code != 0
    assert not home.exists()


def test_what_users_stored_is_never_removed(home: Path) -> None:
    with failing(), undone_on_failure(home):
        prepare(home)
        (home / "files" / "web").mkdir(parents=True)
        (home / "files" / "web" / "precious").touch()
        raise Failure
    assert tree(home).keys() == {"files", "files/web", "files/web/precious"}


def test_a_home_that_was_set_up_meanwhile_stays(home: Path) -> None:
    with failing(), undone_on_failure(home):
        prepare(home)
        (home / SET_UP_MARK).touch()
        raise Failure
    assert {path.name for path in home.iterdir()} == {SET_UP_MARK, "application.properties"}


@pytest.mark.parametrize("first_fails", [False, True])
def test_of_two_first_starts_the_second_waits_for_the_first(
    home: Path, first_fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = threading.Event()
    inside: list[str] = []

    def watched(lock: int, operation: int, flock: Callable[[int, int], None] = fcntl.flock) -> None:
        if threading.current_thread() is second:
            waiting.set()
        flock(lock, operation)

    def start() -> None:
        with undone_on_failure(home):
            inside.append("second")
            prepare(home)

    second = threading.Thread(target=start)
    monkeypatch.setattr(fcntl, "flock", watched)
    with failing() if first_fails else nullcontext(), undone_on_failure(home):
        prepare(home)
        second.start()
        assert waiting.wait(20)
        inside.append("first")
        if first_fails:
            raise Failure
    second.join(20)
    assert inside == ["first", "second"]
    assert (home / "application.properties").exists()


def test_a_password_that_was_never_shown_is_in_its_file(
    portico: Portico, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal, too: the server may fail between the first user and the screen."""

    class Failing:
        def __init__(self, *_: object) -> None:
            pass

        def run(self, **_: object) -> None:
            raise HomeUnusable("The workers fail.")

    monkeypatch.setattr("portico.server.processes.Server", Failing)
    monkeypatch.setattr("portico.server.bind_address.check_free", lambda *_: None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "The workers fail." in portico("serve").err
    assert len((home / PASSWORD_FILE).read_text()) == 24


def test_a_password_that_was_shown_is_not_in_its_file(
    portico: Portico, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ready:
        def __init__(self, *_: object) -> None:
            pass

        def run(self, on_ready: Callable[[], None]) -> None:
            on_ready()

    monkeypatch.setattr("portico.server.processes.Server", Ready)
    monkeypatch.setattr("portico.server.bind_address.check_free", lambda *_: None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "(shown only once)" in portico("serve").out
    assert not (home / PASSWORD_FILE).exists()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert "unchanged; set a new one" in portico("serve").out


def test_the_log_of_a_database_that_was_there_stays(home: Path) -> None:
    """Another command may be writing to it."""
    home.mkdir()
    (home / "portico.db").touch()
    with failing(), undone_on_failure(home):
        (home / "portico.db-wal").touch()
        (home / "secret.key").touch()
        raise Failure
    assert sorted(os.listdir(home)) == ["portico.db", "portico.db-wal"]
