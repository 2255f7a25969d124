import gc
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from portico import __version__
from portico.cli import listening, screen, users
from portico.cli.home import SET_UP_MARK, prepare
from portico.cli.main import run
from portico.cli.serve import _absolute
from portico.cli.tls import Certificate
from portico.errors import Unavailable

from .conftest import Portico

HEAVY = ("granian", "litestar", "sqlalchemy", "pydantic", "rich", "cryptography")


def test_the_version(portico: Portico) -> None:
    assert portico("--version").out == f"portico {__version__}\n"


@pytest.mark.parametrize(
    "arguments", [("--help",), ("user", "--help"), ("connection", "add", "--help"), ("serve", "--help")]
)
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    script = f"""
import sys
from portico.cli.main import run
run({list(arguments)!r})
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "Usage: portico" in done.stdout
    # Typer itself needs pydantic as soon as an argument below a group is looked at.
    assert done.stderr.strip() in ("[]", "['pydantic']")


NOT_FOR_ADMINISTRATION = (
    "alembic",
    "aiosqlite",
    "granian",
    "portico.client",
    "rich",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.orm",
    "starlette",
    "structlog",
)


@pytest.mark.parametrize(
    "arguments",
    [
        ("user", "list"),
        ("user", "set", "anna", "--rights", "list"),
        ("connection", "show", "local"),
    ],
)
def test_administration_imports_neither_the_migrations_nor_the_server(
    portico: Portico, home: Path, arguments: tuple[str, ...]
) -> None:
    assert portico("user", "add", "anna", "--generate").code == 0
    script = f"""
import sys
from portico.cli.main import run
assert run(["--home", {str(home)!r}, *{arguments!r}]) == 0
print([name for name in {NOT_FOR_ADMINISTRATION!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_administration_leaves_the_collector_as_it_was(portico: Portico) -> None:
    assert portico("user", "add", "anna", "--generate").code == 0
    assert gc.isenabled()


@pytest.mark.parametrize("command", [("serve", "--port", "1"), ("user", "list"), ("user", "add", "bob")])
def test_a_home_whose_database_was_emptied_says_what_to_do(
    portico: Portico, home: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "check_free", lambda *_: None)
    assert portico("user", "add", "anna", "--generate").code == 0
    (home / SET_UP_MARK).touch()
    (home / "portico.db").write_bytes(b"")
    outcome = portico(*command)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert "restore it from a backup" in outcome.err
    assert str(home / SET_UP_MARK) in outcome.err
    assert (home / "portico.db").read_bytes() == b""


def test_as_a_module(tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "portico", "config", "check", "--home", str(tmp_path / "none")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


def test_the_home_may_stand_anywhere(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare(home)
    for arguments in (["config", "check", "--home", str(home)], ["config", f"--home={home}", "check"]):
        assert run(arguments) == 0
    assert run(["config", "check", "--home"]) == 2
    assert "--home needs a folder" in capsys.readouterr().err


def test_config_check(portico: Portico, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = prepare(home)
    assert portico("config", "check").out == f"{settings.properties_file}: no mistakes\n"
    with settings.properties_file.open("a") as file:
        file.write("server.prot=1\nlog.level=loud\n")
    monkeypatch.setenv("PORTICO_SERVER_PORT", "many")
    last = len(settings.properties_file.read_text().splitlines())
    outcome = portico("config", "check")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.splitlines() == [
        "PORTICO_SERVER_PORT: must be a whole number from 1 to 65535",
        f"{settings.properties_file}:{last - 1}: server.prot: is not a setting; did you mean server.port?",
        f"{settings.properties_file}:{last}: log.level: must be one of debug, info, warning, error",
    ]


@pytest.mark.parametrize(("error", "code"), [(Unavailable("Busy."), 5), (KeyboardInterrupt(), 130)])
def test_other_exit_codes(
    portico: Portico, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(users, "with_accounts", fail)
    outcome = portico("user", "list")
    assert (outcome.code, outcome.err.count("\n")) == (code, 1)


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (("--host", "0.0.0.0"), "--behind-proxy", 1),
        (("--host", "192.0.2.1", "--tls", "auto"), "not an address of this machine", 1),
        (("--tls", "none.pem,key.pem"), "does not exist", 1),
        (("--port", "many"), "--port: must be", 2),
    ],
)
def test_serve_refuses_before_it_makes_a_user(
    portico: Portico, home: Path, arguments: tuple[str, ...], words: str, code: int
) -> None:
    outcome = portico("serve", *arguments)
    assert outcome.code == code
    assert words in outcome.err
    assert outcome.err.count("\n") == 1
    assert not (home / "portico.db").exists()


def test_files_on_the_command_line_are_meant_from_here() -> None:
    assert _absolute("c.pem, /k.pem") == f"{os.getcwd()}/c.pem,/k.pem"
    assert _absolute("auto") == "auto"


def start(home: Path, address: str = "127.0.0.1", **values: object) -> screen.Start:
    settings = prepare(home).model_copy(
        update={k: v for k, v in values.items() if k in ("behind_proxy", "port")}
    )
    rest = {k: v for k, v in values.items() if k in ("certificate", "password", "password_file")}
    return screen.Start(settings, ip_address(address), user="web", **{"certificate": None, **rest})  # type: ignore[arg-type]


def certificate(*names: str, self_signed: bool) -> Certificate:
    expires = datetime.now(UTC) + timedelta(days=9)
    return Certificate(Path("/c d.pem"), Path("/k.pem"), "AB:CD", names, expires, self_signed)


def test_where_the_screen_says_it_is(home: Path) -> None:
    own = certificate("localhost", self_signed=True)
    bought = certificate("*.example.org", "files.example.org", self_signed=False)
    assert screen.url(start(home)) == "http://127.0.0.1:8080"
    assert screen.url(start(home, "::1", port=80)) == "http://[::1]"
    assert screen.url(start(home, "0.0.0.0", certificate=own, port=443)) == "https://localhost"
    assert screen.url(start(home, "0.0.0.0", certificate=bought)) == "https://files.example.org:8080"


def test_the_screen(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    screen.show(start(home, password="pass-word"))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "pass-word   (shown only this once)" in shown
    assert "/backend/docs" in shown

    screen.show(start(home))
    assert "user password web" in capsys.readouterr().out

    screen.show(
        start(home, certificate=certificate("localhost", self_signed=True), password_file=Path("/p q"))
    )
    shown = capsys.readouterr().out
    assert "--cacert '/c d.pem'" in shown
    assert "AB:CD" in shown
    assert "\"password=$(cat '/p q')\"" in shown

    screen.show(start(home, behind_proxy=(ip_network("10.0.0.0/8"),)))
    assert "YOUR-PROXY/backend/login" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("PORTICO_SERVER_TLS", "missing.pem,missing.key", "does not exist"),
        ("PORTICO_SECRET_KEY", "abc", "PORTICO_SECRET_KEY"),
        ("PORTICO_HOEM", "/elsewhere", "did you mean PORTICO_HOME"),
    ],
)
def test_config_check_looks_beyond_the_file(
    portico: Portico, home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, words: str
) -> None:
    prepare(home)
    monkeypatch.setenv(variable, value)
    result = portico("config", "check")
    assert result.code == 1
    assert words in result.err


def test_a_database_out_of_reach_is_named_in_one_sentence(
    portico: Portico, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(home)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    monkeypatch.setenv("PORTICO_DATABASE_URL", f"postgresql://canary:canary@127.0.0.1:{port}/portico")
    outcome = portico("user", "list")
    assert outcome.code == 5
    assert outcome.err.startswith(
        f"The database postgresql://127.0.0.1:{port}/portico cannot be used; check "
    )
    assert "canary" not in outcome.err
    assert outcome.err.count("\n") == 1
