import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from portico import __version__
from portico.cli.administration import banner, users
from portico.cli.administration.home import SET_UP_MARK, prepare
from portico.cli.administration.serve import _absolute
from portico.cli.commands import COMMANDS, load
from portico.cli.console.parser import Command, Group, Parser
from portico.cli.main import run
from portico.model.errors import Unavailable
from portico.server import bind_address
from portico.server.certificates import Certificate
from portico.settings.settings import Settings

from .conftest import Portico

HEAVY = ("granian", "litestar", "sqlalchemy", "rich", "cryptography")


def test_the_version(portico: Portico) -> None:
    assert portico("--version").out == f"portico {__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    script = f"""
import sys
from portico.cli.main import run
for arguments in ("--help", "user --help", "connection add --help", "serve --help"):
    run(arguments.split())
    print("end of", arguments)
print([name for name in {HEAVY!r} if sys.modules.get(name)], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.count("Usage: portico") == done.stdout.count("end of") == 4
    assert done.stderr == "[]\n"


def parsers() -> Iterator[Parser]:
    for name in COMMANDS:
        command = load(name)
        if isinstance(command, Command):
            yield Parser(command, f"portico {name}")
        else:
            for inner, one in command.commands.items():
                yield Parser(one, f"portico {name} {inner}")


@pytest.mark.parametrize("parser", list(parsers()), ids=lambda parser: parser.prog)
def test_every_command_describes_its_options(portico: Portico, parser: Parser) -> None:
    outcome = portico(*parser.prog.split()[1:], "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"Usage: {parser.prog} ")
    assert all(name in outcome.out for name, option in parser.options.items() if not option.hidden)
    assert all(argument.help for argument in parser.arguments)
    assert parser.paths is None or parser.paths.help
    assert all(action.help for action in parser.options.values())


@pytest.mark.parametrize("group", ["user", "connection", "config", "cluster"])
def test_a_group_lists_its_commands(portico: Portico, group: str) -> None:
    helped, bare = portico(group, "--help"), portico(group)
    assert (helped.code, bare.code, bare.out) == (0, 2, "")
    assert helped.out == bare.err
    commands = load(group)
    assert isinstance(commands, Group)
    assert all(f"\n  {name} " in helped.out for name in commands.commands)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("lst",), "Unknown command 'lst', did you mean 'ls'? See 'portico --help'."),
        (("frobnicate",), "Unknown command 'frobnicate'; see 'portico --help'."),
        (("--versoin",), "Unknown option '--versoin', did you mean '--version'? See 'portico --help'."),
        (("user", "lst"), "Unknown command 'lst', did you mean 'list'? See 'portico user --help'."),
        (("user", "--wrong"), "Unknown option '--wrong'; see 'portico user --help'."),
        (("user", "list", "--jsno"), "Unknown option '--jsno', did you mean '--json'? See 'portico user list --help'."),
        (("user", "list", "anna"), "Unexpected argument 'anna'; see 'portico user list --help'."),
        (("user", "show"), "NAME is missing; see 'portico user show --help'."),
        (("put", "-n", "--rename", "a", "b"), "--no-clobber and --rename can't be combined; see 'portico put --help'."),
        (("put", "a"), "The target is missing; see 'portico put --help'."),
        (("cat",), "A path is missing; see 'portico cat --help'."),
        (("rm", "-rf", "/x"), "Unknown option '-f'; see 'portico rm --help'."),
        (("put", "-rv", "a", "b"), "Unknown option '-v'; see 'portico put --help'."),
        (("ls", "-al"), "Unknown option '-a'; see 'portico ls --help'."),
        (("ls", "-long"), "Unknown option '-long', did you mean '--long'? See 'portico ls --help'."),
        (("ls", "--json=1"), "--json takes no value; see 'portico ls --help'."),
        (
            ("sync",),
            "The direction is missing; write 'up' or 'down', then the source and the target; see 'portico sync --help'.",
        ),
        (("sync", "sideways", "a", "b"), "'sideways' is not a direction; use 'up' or 'down'."),
        (("sync", "up", "a"), "The target is missing; see 'portico sync --help'."),
        (("completion", "tcsh"), "Completion isn't available for 'tcsh'; use bash, zsh or fish."),
        (("put", "-j"), "--jobs needs a number; write --jobs N."),
        (("put", "-j", "abc", "a", "b"), "--jobs must be a whole number from 1 to 64."),
        (("put", "-j", "-1", "a", "b"), "--jobs must be a whole number from 1 to 64."),
        (("put", "-j65", "a", "b"), "--jobs must be a whole number from 1 to 64."),
        (("ls", "--profile"), "--profile needs a value; write --profile NAME."),
        (("ls", "--profile", "--long"), "--profile needs a value; write --profile NAME."),
        (("user", "add"), "NAME is missing; see 'portico user add --help'."),
        (
            ("connection", "add", "x"),
            ("--kind is missing; use local, s3, azure-blob, azure-files or gcs; see 'portico connection add --help'."),
        ),
        (("connection", "add", "x", "--kind", "s3", "--option", "=v"), "Write --option KEY=VALUE."),
        (("ls", "--bogus"), "Unknown option '--bogus'; see 'portico ls --help'."),
        (("ls", "--json", "--jsn"), "Unknown option '--jsn'; see 'portico ls --help'."),
        (
            ("get", "--contin", "/a"),
            "Unknown option '--contin', did you mean '--continue-on-error'? See 'portico get --help'.",
        ),
        (("--profile", "default", "ls"), "--profile must follow the command: portico COMMAND --profile NAME."),
        (("help", "lst"), "Unknown command 'lst', did you mean 'ls'? See 'portico --help'."),
        (
            ("user", "add", "bob", "--generate", "--password-stdin"),
            "--password-stdin and --generate can't be combined; see 'portico user add --help'.",
        ),
        (
            ("user", "add", "bob", "--rights", ""),
            "--rights is empty; give some of list, download, upload, overwrite, replace, delete, share.",
        ),
        (("get", "-r", "/reports/.", "-"), "A folder can't be written to standard output; choose a file."),
        (
            ("ls", "--profile", "nope"),
            "You aren't signed in with the profile nope; sign in with 'portico login URL --profile nope'.",
        ),
    ],
)
def test_a_mistake_gets_a_helpful_sentence(portico: Portico, arguments: tuple[str, ...], sentence: str) -> None:
    outcome = portico(*arguments)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"{sentence}\n")


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("upload", "put"),
        ("download", "get"),
        ("delete", "rm"),
        ("remove", "rm"),
        ("move", "mv"),
        ("rename", "mv"),
        ("copy", "cp"),
        ("list", "ls"),
    ],
)
def test_a_synonym_suggests_the_command(portico: Portico, word: str, command: str) -> None:
    outcome = portico(word)
    assert outcome.code == 2
    assert f"did you mean '{command}'?" in outcome.err


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        (("user", "rename"), None),
        (("user", "remove"), "delete"),
        (("user", "create"), "add"),
        (("user", "enabel"), "enable"),
        (("trash", "delete"), "remove"),
        (("key", "delete"), "end"),
    ],
)
def test_a_word_with_a_meaning_is_no_misspelling(
    portico: Portico, words: tuple[str, ...], suggested: str | None
) -> None:
    outcome = portico(*words)
    assert outcome.code == 2
    found = re.search("did you mean '(.*?)'", outcome.err)
    assert (found[1] if found else None) == suggested


def test_help_of_serve_has_the_defaults_of_the_settings(portico: Portico) -> None:
    text = " ".join(portico("serve", "--help").out.split())
    for name in ("host", "port", "tls", "workers"):
        default = Settings.__dataclass_fields__[name].default
        assert re.search(rf"--{name} [^-].*?Default: {re.escape(str(default))}\.", text), name


def test_help_and_version_are_commands_too(portico: Portico) -> None:
    assert portico("version") == portico("--version")
    assert portico("help") == portico("--help") == portico()
    assert portico("help", "ls") == portico("ls", "--help")
    assert portico("help", "user", "add") == portico("user", "add", "--help")


@pytest.mark.parametrize(
    ("command", "end"),
    [
        ("put", "SOURCE … TARGET"),
        ("get", "SOURCE … [TARGET]"),
        ("sync", "up|down SOURCE TARGET"),
        ("mv", "SOURCE … TARGET"),
        ("cp", "SOURCE … TARGET"),
        ("cat", "PATH …"),
        ("mkdir", "PATH …"),
        ("rm", "PATH …"),
        ("ls", "[PATH …]"),
        ("login", "[URL]"),
        ("user add", "NAME"),
    ],
)
def test_the_usage_ends_with_the_arguments(portico: Portico, command: str, end: str) -> None:
    usage, _, rest = portico(*command.split(), "--help").out.partition("\n\n")
    assert " ".join(usage.split()).endswith(f"] {end}")
    arguments = rest.partition("Arguments:\n")[2].partition("\n\n")[0]
    for word in end.translate({ord(mark): None for mark in "[]…"}).split():
        assert f"  {word} " in arguments


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("put", "[-n | --rename]"),
        ("user add", "[--password-stdin | --generate | --invite]"),
        ("connection add", " --kind KIND [--option KEY=VALUE …]"),
        ("serve", "[--home DIR]"),
    ],
)
def test_the_usage_shows_what_belongs_together(
    portico: Portico, command: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert part in portico(*command.split(), "--help").out


@pytest.mark.parametrize("columns", [70, 80, 200])
@pytest.mark.parametrize("command", ["", "put", "get", "user", "user add", "serve", "login"])
def test_help_fits_the_terminal(portico: Portico, monkeypatch: pytest.MonkeyPatch, columns: int, command: str) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = portico(*command.split(), "--help").out.splitlines()
    longest = max(len(line) for line in lines if not line.startswith("  portico "))
    assert longest <= min(columns, 100)


def test_the_kind_of_a_connection_is_not_offered_for_change(anna: Portico) -> None:
    assert "--kind" not in anna("connection", "set", "--help").out
    assert "can't be changed" in anna("connection", "set", "local", "--kind", "s3").err


@pytest.mark.parametrize("word", ["-", "-1", "- notes.txt"])
def test_not_every_dash_begins_an_option(word: str) -> None:
    command = load("rm")
    assert isinstance(command, Command)
    parsed = Parser(command, "portico rm").parse(["-rc", word, "--", "-r"])
    assert parsed is not None
    assert (parsed.paths, parsed.recursive, parsed.goes_on) == ([word, "-r"], True, True)


@pytest.mark.parametrize("words", [["-j4"], ["-j", "4"], ["-j=4"], ["--jobs", "4"], ["--jobs=4"], ["-rj4"]])
def test_spellings_of_a_value(words: list[str]) -> None:
    command = load("put")
    assert isinstance(command, Command)
    parsed = Parser(command, "portico put").parse(["a", *words, "b"])
    assert parsed is not None
    assert (parsed.paths, parsed.jobs) == (["a", "b"], 4)


def test_names_may_begin_with_a_dash(anna: Portico) -> None:
    assert anna("user", "add", "--generate", "--", "-anna").code == 0
    assert anna("user", "show", "--", "-anna").code == 0


NOT_FOR_ADMINISTRATION = (
    "alembic",
    "aiosqlite",
    "cryptography.x509",
    "granian",
    "portico.client",
    "psycopg",
    "rich",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.orm",
    "starlette",
    "structlog",
)


def test_administration_imports_neither_the_migrations_nor_the_server(anna: Portico, home: Path) -> None:
    commands = ("user list", "user set anna --rights list", "connection show local", "config check", "cluster show")
    script = f"""
import sys
from portico.cli.main import run
for command in {commands!r}:
    assert run(["--home", {str(home)!r}, *command.split()]) == 0
    print(command, [name for name in {NOT_FOR_ADMINISTRATION!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "".join(f"{command} []\n" for command in commands)


@pytest.mark.parametrize("command", [("serve", "--port", "1"), ("user", "list"), ("user", "add", "bob")])
def test_a_home_whose_database_was_emptied_says_what_to_do(
    anna: Portico, home: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bind_address, "check_free", lambda *_: None)
    (home / SET_UP_MARK).touch()
    (home / "portico.db").write_bytes(b"")
    outcome = anna(*command)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert "restore it from a backup" in outcome.err
    assert str(home / SET_UP_MARK) in outcome.err
    assert (home / "portico.db").read_bytes() == b""


def test_as_a_module(tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "portico", "config", "check", "--home", str(tmp_path / "none")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


def test_the_home_option_may_be_given_anywhere(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare(home)
    for arguments in (["config", "check", "--home", str(home)], ["config", f"--home={home}", "check"]):
        assert run(arguments) == 0
    assert run(["config", "check", "--home"]) == 2
    assert "--home needs a folder" in capsys.readouterr().err


def test_old_names_of_settings_are_refused(portico: Portico, home: Path) -> None:
    settings = prepare(home)
    with settings.properties_file.open("a") as file:
        file.write("trash.keep=7d\n")
    for arguments in (("config", "check"), ("serve", "--port", "1")):
        outcome = portico(*arguments)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
        assert outcome.err.endswith("trash.keep: was renamed; use trash.retention\n")


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
def test_other_exit_codes(portico: Portico, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(users, "read_accounts", fail)
    outcome = portico("user", "list")
    assert (outcome.code, outcome.err.count("\n")) == (code, 1)


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (("--host", "0.0.0.0"), "--behind-proxy", 1),
        (("--host", "192.0.2.1", "--tls", "auto"), "not an address of this machine", 1),
        (("--tls", "none.pem,key.pem"), "does not exist", 1),
        (("--port", "many"), "--port must be a whole number from 1 to 65535.", 2),
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


def start(home: Path, address: str = "127.0.0.1", **values: object) -> banner.Startup:
    given: dict[str, Any] = {k: v for k, v in values.items() if k in ("behind_proxy", "port")}
    settings = replace(prepare(home), **given)
    rest = {k: v for k, v in values.items() if k in ("certificate", "password", "password_file")}
    return banner.Startup(settings, ip_address(address), user="web", **{"certificate": None, **rest})  # type: ignore[arg-type]


def certificate(*names: str, self_signed: bool) -> Certificate:
    expires = datetime.now(UTC) + timedelta(days=9)
    return Certificate(Path("/c d.pem"), Path("/k.pem"), "AB:CD", names, expires, self_signed, (b"", b""))


def test_where_the_screen_says_it_is(home: Path) -> None:
    own = certificate("localhost", self_signed=True)
    bought = certificate("*.example.org", "files.example.org", self_signed=False)
    assert banner.url(start(home)) == "http://127.0.0.1:8080"
    assert banner.url(start(home, "::1", port=80)) == "http://[::1]"
    assert banner.url(start(home, "0.0.0.0", certificate=own, port=443)) == "https://localhost"
    assert banner.url(start(home, "0.0.0.0", certificate=bought)) == "https://files.example.org:8080"


def test_which_address_works_on_this_machine_only(home: Path) -> None:
    bought = certificate("*.example.org", "files.example.org", self_signed=False)
    local = certificate("localhost", "127.0.0.1", self_signed=True)
    assert not banner.is_local(start(home))
    assert banner.is_local(start(home, "0.0.0.0", certificate=local))
    assert banner.is_local(start(home, "::", certificate=local))
    assert not banner.is_local(start(home, "0.0.0.0", certificate=bought))
    assert not banner.is_local(start(home, "192.0.2.1", certificate=local))
    public = start(home, "0.0.0.0", certificate=local)
    assert not banner.is_local(replace(public, settings=replace(public.settings, public_url="http://localhost")))


def test_the_screen(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    banner.show(start(home, password="pass-word"))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "pass-word   (shown only once)" in shown
    assert "/backend/docs" in shown

    banner.show(start(home))
    assert "user password web" in capsys.readouterr().out

    banner.show(start(home, certificate=certificate("localhost", self_signed=True), password_file=Path("/p q")))
    shown = capsys.readouterr().out
    assert "--cacert '/c d.pem'" in shown
    assert "AB:CD" in shown
    assert "\"password=$(cat '/p q')\"" in shown

    banner.show(start(home, behind_proxy=(ip_network("10.0.0.0/8"),)))
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
    assert outcome.err.startswith(f"The database postgresql://127.0.0.1:{port}/portico can't be used; check ")
    assert "canary" not in outcome.err
    assert outcome.err.count("\n") == 1


def test_the_help_of_a_group_names_the_home_of_a_gateway_only(capsys: pytest.CaptureFixture[str]) -> None:
    for group, has_home in (("user", True), ("key", True), ("share", False), ("receipt", False), ("trash", False)):
        assert run([group, "--help"]) == 0
        assert ("--home" in capsys.readouterr().out) is has_home, group
