import asyncio
import csv
import io
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from portico.cli.administration import audit
from portico.cli.administration.home import my_name, prepare
from portico.cli.main import run
from portico.model.paths import Path as StoragePath
from portico.model.paths import Place
from portico.observability.audit import AuditLine
from portico.store.database import Database
from portico.store.journal import Journal
from tests.servers.postgres import PostgresServer

from .conftest import Portico, audit_lines

PASSWORD = "canary-password"


@pytest.fixture
def file(home: Path) -> Path:
    return home / "audit.log"


def lines(file: Path) -> list[dict[str, Any]]:
    return audit_lines(file.read_text())


def test_each_change_by_a_command_has_a_line(portico: Portico, home: Path, file: Path) -> None:
    def call(*arguments: str, stdin: str = "") -> None:
        portico(*arguments, stdin=stdin)

    call("user", "add", "ann", "--password-stdin", stdin=PASSWORD)
    call("user", "add", "ANN", "--password-stdin", stdin=PASSWORD)
    call("user", "set", "ann", "--rights", "list", "--root", "/team", "--password-stdin", stdin=PASSWORD + "2")
    call("user", "password", "ann", "--password-stdin", stdin=PASSWORD + "3")
    call("user", "disable", "ann")
    call("user", "enable", "ann")
    call("user", "delete", "ann")
    call("user", "delete", "ann")
    call(
        *("connection", "add", "cloud", "--kind", "s3", "--option", "bucket=b", "--secret-stdin"),
        stdin="access-key-id=id\nsecret-access-key=canary-secret\n",
    )
    call("connection", "set", "cloud", "--option", "region=eu")
    call("connection", "delete", "cloud")
    for looking in (("user", "list"), ("connection", "show", "local"), ("config", "check")):
        assert portico(*looking).code == 0
    reported = [(each["action"], each["subject"], each.get("changed"), each["outcome"]) for each in lines(file)]
    assert reported == [
        ("connection.add", "local", None, "done"),
        ("user.add", "ann", None, "done"),
        ("user.add", "ANN", None, "already-exists"),
        ("user.set", "ann", ["password", "rights", "root"], "done"),
        ("user.password", "ann", None, "done"),
        ("user.disable", "ann", None, "done"),
        ("user.enable", "ann", None, "done"),
        ("user.delete", "ann", None, "done"),
        ("user.delete", "ann", None, "not-found"),
        ("connection.add", "cloud", ["access-key-id", "bucket", "secret-access-key"], "done"),
        ("connection.set", "cloud", ["region"], "done"),
        ("connection.delete", "cloud", None, "done"),
    ]
    assert {each["user"] for each in lines(file)} == {f"os:{my_name()}"}
    assert "canary" not in file.read_text()


def test_where_it_is_required_a_command_changes_nothing_without_it(
    portico: Portico, home: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert portico("user", "add", "ann", "--password-stdin", stdin=PASSWORD).code == 0
    monkeypatch.setenv("PORTICO_AUDIT_REQUIRED", "true")
    file.unlink()
    file.mkdir()
    outcome = portico("user", "disable", "ann")
    assert (outcome.code, outcome.out) == (5, "")
    assert "audit log" in outcome.err.lower()
    assert portico("user", "show", "ann", "--json").data["disabled"] is False


def test_otherwise_it_warns(portico: Portico, home: Path, file: Path) -> None:
    portico("user", "add", "ann", "--password-stdin", stdin=PASSWORD)
    file.unlink()
    file.mkdir()
    outcome = portico("user", "disable", "ann")
    assert (outcome.code, outcome.out) == (0, "Disabled the Web User ann.\n")
    assert outcome.err == "Warning: the audit log can't be written (Is a directory).\n"


def test_on_standard_output_a_command_keeps_its_own_clean(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "portico", "--home", str(home), "user", "add", "ann", "--password-stdin"],
        input=PASSWORD,
        env={**os.environ, "PORTICO_AUDIT_LOG": "stdout"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"action"' not in done.stdout
    assert [line["action"] for line in audit_lines(done.stderr)] == ["connection.add", "user.add"]
    assert not (home / "audit.log").exists()


def test_config_check_tries_the_log(portico: Portico, home: Path, file: Path) -> None:
    prepare(home)
    file.mkdir()
    outcome = portico("config", "check")
    assert outcome.code != 0
    assert f"audit log {file} (the setting audit.log) can't be written" in outcome.err


def test_serve_says_that_the_metrics_have_no_place(
    portico: Portico, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTICO_METRICS_ADDRESS", "192.0.2.1:9464")
    outcome = portico("serve")
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert "metrics.address" in outcome.err
    assert not (home / "portico.db").exists()


def test_the_journal_is_searched(portico: Portico, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTICO_NODE_NAME", "one")
    portico("user", "add", "ann", "--password-stdin", stdin=PASSWORD)
    portico("user", "disable", "ann")
    found = portico("audit", "list", "--json").lines
    assert [(each["action"], each["subject"], each["node"]) for each in found] == [
        ("connection.add", "local", "one"),
        ("user.add", "ann", "one"),
        ("user.disable", "ann", "one"),
    ]
    assert found == lines(home / "audit.log")
    (last,) = portico("audit", "list", "--limit", "1", "--since", "1d", "--user", f"OS:{my_name()}", "--json").lines
    assert last["action"] == "user.disable"
    table = portico("audit", "list", "--action", "user.add").out.splitlines()
    assert table[0].split() == ["time", "node", "user", "through", "client", "action", "outcome", "subject"]
    assert table[1].split()[1:] == ["one", f"os:{my_name()}", "user.add", "done", "ann"]
    limited = portico("audit", "list", "--limit", "2")
    assert limited.err == "Only the newest 2 lines are shown. For more, use --limit, or --all with --format csv.\n"
    assert portico("audit", "list", "--limit", "3").err == ""
    assert portico("audit", "list", "--limit", "2", "--json").err == ""
    assert portico("audit", "list", "--action", "nothing").out == "No audit lines match.\n"
    for wrong in (("--limit", "0"), ("--limit", "x"), ("--since", "soon"), ("--since", "2h", "--until", "3h")):
        assert portico("audit", "list", *wrong).code == 2
    unknown = portico("audit", "list", "--connection", "none")
    assert (unknown.code, unknown.out) == (1, "")


def record(home: Path, *changes: tuple[AuditLine, Place]) -> None:
    async def work() -> None:
        database = Database(f"sqlite:///{home / 'portico.db'}")
        journal = Journal(database, node="one")
        for line, place in changes:
            recording = journal.recording(line)
            recording.concern(place)
            await recording.begin()
            await recording.settle("done")
        await journal.close()
        await database.close()

    asyncio.run(work())


def upload(path: str, **fields: Any) -> AuditLine:
    return AuditLine(action="upload", path=path, **fields)


def place(connection: str, path: str) -> Place:
    return Place(connection, StoragePath.parse(path))


def test_the_table_names_the_key_the_session_or_the_link(anna: Portico, home: Path) -> None:
    given = ({"key": "k1", "link": "l1"}, {"session": "s1"}, {"link": "l1"})
    record(home, *((upload("/f", user="anna", **each), place("local", "/anna/f")) for each in given))
    table = anna("audit", "list", "--user", "anna", "--action", "upload").out
    assert re.findall(r"anna  (\S+ \S+)", table) == ["key k1", "session s1", "link l1"]


def test_lines_about_a_folder_of_a_connection(anna: Portico, home: Path) -> None:
    anna(
        *("connection", "add", "cloud", "--kind", "s3", "--option", "bucket=b"),
        *("--option", "prefix=top/team", "--secret-stdin"),
        stdin="access-key-id=id\nsecret-access-key=secret\n",
    )
    record(
        home,
        (upload("/1"), place("cloud", "/top/team/a/b.txt")),
        (upload("/2"), place("cloud", "/top/team/a")),
        (upload("/3"), place("cloud", "/top/team/ab")),
        (upload("/4"), place("cloud", "/a/b.txt")),
        (upload("/5"), place("local", "/a/b.txt")),
        (upload("/6"), place("deleted", "/a/b.txt")),
    )

    def paths(*options: str) -> list[str]:
        return [line["path"] for line in anna("audit", "list", "--json", *options).lines]

    assert paths("--connection", "cloud") == ["/1", "/2", "/3"]
    assert paths("--connection", "cloud", "--below", "/a/") == ["/1", "/2"]
    assert paths("--connection", "cloud", "--path", "/a") == ["/2"]
    assert paths("--connection", "cloud", "--below", "a", "--limit", "1") == ["/2"]
    assert paths("--connection", "deleted", "--below", "/a") == ["/6"]
    for wrong in (("--below", "/a"), ("--connection", "cloud", "--below", "/a", "--path", "/a")):
        assert anna("audit", "list", *wrong).code == 2


def test_filters_and_times(anna: Portico, home: Path) -> None:
    record(
        home,
        (upload("/1", key="k", link="l", session="s", client="192.0.2.1"), place("local", "/1")),
        (upload("/2"), place("local", "/2")),
    )
    for words in (
        ("--key", "k"),
        ("--link", "l"),
        ("--session", "s"),
        ("--address", "192.0.2.1"),
        ("--link", "l", "--outcome", "done", "--since", "2020-01-31", "--until", "2999-01-31T09:00+02:00"),
    ):
        assert [line["path"] for line in anna("audit", "list", "--json", *words).lines] == ["/1"]
    assert anna("audit", "list", "--until", "2020-01-31").out == "No audit lines match.\n"
    assert anna("audit", "list", "--since", "2999-01-31").out == "No audit lines match.\n"
    assert anna("audit", "list", "--until", "1h").out == "No audit lines match.\n"
    for wrong in ("2027-99-99", "-1", "soon"):
        assert anna("audit", "list", f"--until={wrong}").code == 2


def test_all_lines_are_exported_page_by_page(anna: Portico, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_PAGE", 2)
    record(home, *((upload(f"/{number}ü", user="ann"), place("local", f"/{number}")) for number in range(5)))
    newest_first = [f"/{number}ü" for number in range(4, -1, -1)]
    exported = anna("audit", "list", "--user", "ann", "--all", "--format", "jsonl")
    assert [line["path"] for line in exported.lines] == newest_first
    assert exported.lines[0].keys() == {"time", "node", "user", "action", "path", "outcome"}
    table = list(csv.DictReader(io.StringIO(anna("audit", "list", "--user", "ann", "--all", "--format", "csv").out)))
    assert [line["path"] for line in table] == newest_first
    three = anna("audit", "list", "--limit", "3", "--format", "jsonl").lines
    assert [line["path"] for line in three] == newest_first[:3]
    assert [line["path"] for line in anna("audit", "list", "--limit", "3", "--json").lines] == newest_first[2::-1]
    assert anna("audit", "list", "--format", "json").out == anna("audit", "list", "--json").out
    for wrong in (("--all",), ("--all", "--json"), ("--format", "xml"), ("--json", "--format", "csv")):
        assert anna("audit", "list", *wrong).code == 2


def test_a_spreadsheet_finds_no_formula_in_an_export(anna: Portico, home: Path) -> None:
    lines = [
        upload("/a", guest="=1+1", changed=["=x", "y"], bytes=7),
        upload("/b", guest='+a,"b"\n'),
        upload("/c", guest="-a", link="@l"),
        upload("/d", guest="\ta", folder="\ra"),
        upload("/e", guest="a=1", folder="\u202egpj"),
    ]
    record(home, *((line, place("local", "/a")) for line in lines))
    out = anna("audit", "list", "--connection", "local", "--all", "--format", "csv").out
    assert out.startswith("time,node,request_id,user,key,")
    found = list(csv.DictReader(io.StringIO(out)))[::-1]
    assert [line["guest"][:2] for line in found] == ["'=", "'+", "'-", "\\u", "a="]
    assert (found[0]["changed"], found[0]["bytes"], found[2]["link"]) == ("'=x y", "7", "'@l")
    assert (found[1]["path"], found[4]["folder"]) == ("/b", "\\u202egpj")
    assert {character for character in out if ord(character) < 32} == {"\n"}


# Verification


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def first_home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str | None]:
    """A home to copy, and its database if that is on PostgreSQL. The journal has 16 lines, of as many commands."""
    home = tmp_path_factory.mktemp("journal") / "home"
    toggles, url = ["disable", "enable"] * 7, None
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "postgresql":
            server: PostgresServer = request.getfixturevalue("postgres")
            url = server.new_database()
            patch.setenv("PORTICO_DATABASE_URL", url)
            toggles.append("disable")  # in place of the line with the connection of a new home
            assert run(["--home", str(home), "migrate"]) == 0
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PASSWORD.encode())))
        for words in (["add", "ann", "--no-root", "--password-stdin"], *([toggle, "ann"] for toggle in toggles)):
            assert run(["--home", str(home), "user", *words]) == 0
    return home, url and url.rpartition("/")[2]


@pytest.fixture
def tamper(
    request: pytest.FixtureRequest,
    first_home: tuple[Path, str | None],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[[str], None]:
    """Changes the database of a gateway behind its back."""
    original, template = first_home
    shutil.copytree(original, home)
    connect: Callable[[], Any] = partial(sqlite3.connect, home / "portico.db")
    if template:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.new_database(template)
        monkeypatch.setenv("PORTICO_DATABASE_URL", url)
        connect = partial(psycopg.connect, url)
    capsys.readouterr()

    def change(statements: str) -> None:
        with closing(connect()) as connection:
            for statement in statements.split(";"):
                connection.execute(statement)
            connection.commit()

    return change


UNCHAIN = """
UPDATE journal SET chain = NULL, position = NULL, previous = NULL, hash = NULL;
DELETE FROM journal_proofs
"""
SWAP_NUMBERS = """
UPDATE journal SET number = 12 - number - 100 WHERE number IN (3, 9);
UPDATE journal SET number = number + 100 WHERE number < 0
"""
SWAP_LINES = """
CREATE TEMPORARY TABLE old AS SELECT number, line FROM journal;
UPDATE journal SET line = (SELECT line FROM old WHERE old.number = 19 - journal.number) WHERE number IN (7, 12)
"""


def test_a_journal_that_nobody_touched_is_verified(portico: Portico, tamper: Callable[[str], None], home: Path) -> None:
    outcome = portico("audit", "verify")
    assert (outcome.code, outcome.err) == (0, "")
    verified, compared = outcome.out.splitlines()
    assert re.fullmatch(r"Verified 16 lines of 1[56] processes, from 2\S+Z to 2\S+Z: no findings\.", verified)
    assert compared == f"Compared with the checkpoints in {home / 'audit.log'}."
    [summary] = portico("audit", "verify", "--json", "--no-log").lines
    assert {"lines": 16, "unproven": 0, "before": 0, "findings": 0, "logs": []}.items() <= summary.items()


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("DELETE FROM journal WHERE number = 5", [("removed", 5, 5)]),
        ("UPDATE journal SET line = replace(line, 'ann', 'bob') WHERE number = 6", [("changed", 6, 6)]),
        ("UPDATE journal SET action = 'x', at = at + 1 WHERE number = 16", [("changed", 16, 16)]),
        (SWAP_NUMBERS, [("reordered", 3, 9)]),
        (SWAP_LINES, [("reordered", 7, 12)]),
        ("DELETE FROM journal WHERE number > 6", [("cut", 7, 16)]),
        ("DELETE FROM journal", [("cut", 1, 16)]),
        (UNCHAIN, [("checkpoint-missing", None, None)]),
        ("DELETE FROM journal; DELETE FROM journal_proofs", [("checkpoint-missing", None, None)]),
    ],
)
def test_what_was_done_to_the_journal_is_named(
    portico: Portico, tamper: Callable[[str], None], statements: str, expected: list[tuple[str, int | None, int]]
) -> None:
    tamper(statements)
    outcome = portico("audit", "verify", "--json", "--no-log")
    assert outcome.code == 1
    *findings, summary = outcome.lines
    assert [(each["finding"], each["first"], each["last"]) for each in findings] == expected
    assert summary["findings"] == len(expected)
    table = portico("audit", "verify", "--no-log")
    assert table.code == 1
    assert table.out.splitlines()[: len(expected)] == [each["text"] for each in findings]


@pytest.mark.parametrize(
    ("statements", "before", "expected"),
    [(UNCHAIN, 2, ("unchained", 1, 2)), ("DELETE FROM journal; DELETE FROM journal_proofs", 0, ("cut", 2, 2))],
)
def test_the_log_shows_what_the_next_line_hides(
    portico: Portico, home: Path, statements: str, before: int, expected: tuple[object, ...]
) -> None:
    portico("user", "add", "ann", "--password-stdin", stdin=PASSWORD)
    with closing(sqlite3.connect(home / "portico.db")) as database:
        database.executescript(statements)
    portico("user", "disable", "ann")
    alone = portico("audit", "verify", "--no-log")
    assert alone.code == 0
    assert (f"{before} lines are from before lines were chained, which began at 2" in alone.out) == bool(before)
    assert "Not compared with an audit log" in alone.err
    *findings, _ = portico("audit", "verify", "--json").lines
    assert expected in [(each["finding"], each["first"], each["last"]) for each in findings]
    (home / "audit.log").unlink()
    gone = portico("audit", "verify")
    assert gone.err.startswith(
        f"Warning: the audit log {home / 'audit.log'} can't be read (No such file or directory)."
    )


def test_without_the_secret_key_nothing_is_verified_and_no_key_is_made(anna: Portico, home: Path) -> None:
    (home / "secret.key").unlink()
    outcome = anna("audit", "verify")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("The secret key is missing; the journal can be verified only where the key is.")
    assert not (home / "secret.key").exists()


def test_the_log_shows_that_the_whole_database_was_put_back(portico: Portico, home: Path, tmp_path: Path) -> None:
    portico("user", "add", "ann", "--password-stdin", stdin=PASSWORD)
    shutil.copy(home / "portico.db", tmp_path)
    portico("user", "disable", "ann")
    shutil.copy(tmp_path / "portico.db", home)
    assert portico("audit", "verify", "--no-log").code == 0
    log = home / "audit.log"
    log.write_bytes(log.read_bytes() + b'{"checkpoint"\n{"checkpoint":1}\n"checkpoint')
    *findings, _ = portico("audit", "verify", "--log", str(log), "--json").lines
    assert [(each["finding"], each["last"]) for each in findings] == [("forged", None), ("cut", 3)]
    outcome = portico("audit", "verify", "--log", str(home / "nothing"))
    assert (outcome.code, outcome.out) == (4, "")
    assert "nothing can't be read: No such file or directory." in outcome.err


def test_a_backup_with_another_key_begins_anew(portico: Portico, home: Path, tmp_path: Path) -> None:
    portico("user", "add", "ann", "--password-stdin", stdin=PASSWORD)
    backup = str(tmp_path / "backup")
    assert portico("backup", backup).code == 0
    assert portico("restore", backup, "--replace", "--yes").code == 0
    [summary] = portico("audit", "verify", "--no-log", "--json").lines
    assert (summary["lines"], summary["before"], summary["unproven"]) == (3, 0, 0)
    (home / "secret.key").unlink()
    portico("user", "disable", "ann")
    outcome = portico("audit", "verify")
    assert outcome.code == 1
    assert "isn't signed with this gateway's key" in outcome.out
    assert portico("restore", backup, "--replace", "--yes", "--lost-key").code == 0
    [summary] = portico("audit", "verify", "--no-log", "--json").lines
    assert (summary["lines"], summary["before"], summary["findings"]) == (1, 2, 0)
