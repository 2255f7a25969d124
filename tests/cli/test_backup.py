"""`portico backup`, `restore` and `migrate-database`."""

import asyncio
import getpass
import io
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine, text

from portico.cli.administration.home import PASSWORD_FILE, SET_UP_MARK
from portico.cli.main import run
from portico.settings.settings import PROPERTIES_FILE
from portico.store.backup_file import Facts, write
from portico.store.dump import Batch, Content
from portico.store.schema import newest_revision
from tests.servers.postgres import PostgresServer
from tests.store.next_version import next_version

from .conftest import Outcome, Portico

SECRET = "canary-secret-key"


@pytest.fixture
def with_cloud(anna: Portico) -> Portico:
    """A home with a connection that has credentials, and a relative path."""
    secrets = f"access-key-id=AKIA\nsecret-access-key={SECRET}\n"
    added = anna(
        *("connection", "add", "cloud", "--kind", "s3", "--option", "bucket=b", "--option", "region=eu-central-1"),
        "--secret-stdin",
        stdin=secrets,
    )
    assert added.code == 0, added.err
    return anna


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "portico.backup"


@pytest.fixture
def elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Portico:
    """The command on a new home."""

    def call(*arguments: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        code = run(["--home", str(tmp_path / "elsewhere"), *arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


def test_a_backup_is_restored_in_a_new_home(
    with_cloud: Portico, elsewhere: Portico, home: Path, file: Path, tmp_path: Path
) -> None:
    made = with_cloud("backup", str(file))
    assert (made.code, made.err) == (0, "")
    assert f"Wrote a backup to {file}, without the secret key.\n" in made.out
    assert re.search(r"^users +1$", made.out, re.MULTILINE)
    assert file.stat().st_mode & 0o777 == 0o600
    refused = elsewhere("restore", str(file))
    assert (refused.code, refused.out) == (1, "")
    assert "This node lacks the secret key of the backup" in refused.err
    new = tmp_path / "elsewhere"
    assert not new.exists()
    new.mkdir()
    shutil.copy(home / "secret.key", new)
    done = elsewhere("restore", str(file))
    assert (done.code, done.err) == (0, "")
    assert "All users must sign in again." in done.out
    assert (new / SET_UP_MARK).exists()
    assert elsewhere("user", "show", "anna", "--json").data == with_cloud("user", "show", "anna", "--json").data
    shown = elsewhere("connection", "show", "local", "--json").data
    assert shown["options"] == {"folder": str(new / "files")}
    assert elsewhere("connection", "set", "cloud", "--option", "bucket=c").code == 0  # opens the credentials


def test_a_backup_with_the_key_is_complete(
    with_cloud: Portico, elsewhere: Portico, home: Path, file: Path, tmp_path: Path
) -> None:
    made = with_cloud("backup", str(file), "--with-key", "--passphrase-stdin", stdin="correct horse\n")
    assert (made.code, made.err) == (0, "")
    assert f"Wrote an encrypted backup to {file}.\n" in made.out
    for secret in (SECRET, (home / "secret.key").read_text().strip()):
        assert secret.encode() not in file.read_bytes()
    new = tmp_path / "elsewhere"
    wrong = elsewhere("restore", str(file), "--passphrase-stdin", stdin="wrong horse")
    assert (wrong.code, wrong.out) == (1, "")
    assert "The passphrase is wrong" in wrong.err
    asked = elsewhere("restore", str(file))
    assert asked.code == 2
    assert "--passphrase-stdin" in asked.err
    assert not new.exists()
    assert elsewhere("restore", str(file), "--passphrase-stdin", stdin="correct horse").code == 0
    for name in (PROPERTIES_FILE, "secret.key"):
        assert (new / name).read_text() == (home / name).read_text()
        assert (new / name).stat().st_mode & 0o777 == 0o600
    assert elsewhere("connection", "set", "cloud", "--option", "bucket=c").code == 0


def test_an_unencrypted_key_is_warned_of(anna: Portico, file: Path) -> None:
    made = anna("backup", str(file), "--with-key")
    assert made.code == 0
    assert made.err.startswith("Warning: the backup contains the secret key and is not encrypted")


def test_the_passphrase_is_prompted_for(anna: Portico, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = anna("backup", str(file), "--encrypt")
    assert (refused.code, refused.out) == (2, "")
    assert "--passphrase-stdin" in refused.err
    answers = iter(["short", "correct horse", "wrong", "correct horse", "correct horse", "correct horse"])
    monkeypatch.setattr(getpass, "getpass", lambda _: next(answers))
    monkeypatch.setattr("portico.cli.administration.backup.at_terminal", lambda: True)
    monkeypatch.setattr("portico.cli.administration.restore.at_terminal", lambda: True)
    made = anna("backup", str(file), "--encrypt")
    assert made.code == 0
    assert made.err.splitlines() == [
        "The passphrase is too short; it needs at least 8 characters.",
        "The passphrases don't match. Try again.",
    ]
    assert anna("restore", str(file), "--replace", "--yes").code == 0
    assert anna("backup", str(file), "--passphrase-stdin", stdin="short").code == 2


def test_nothing_is_replaced_while_a_node_runs(anna: Portico, home: Path, file: Path) -> None:
    assert anna("backup", str(file)).code == 0
    engine = create_engine(f"sqlite:///{home / 'portico.db'}")
    with engine.begin() as connection:
        row = "'node:1', 'other-1-1@here', 4000000000000"
        connection.execute(text(f"INSERT INTO leases (name, owner, owned_until) VALUES ({row})"))
    engine.dispose()
    refused = anna("restore", str(file), "--replace", "--yes")
    assert (refused.code, refused.out) == (1, "")
    assert "The node here is running on the database" in refused.err
    assert anna("restore", str(file), "--replace", "--yes", "--force").code == 0


def test_a_database_with_users_is_replaced_only_if_confirmed(
    anna: Portico, home: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert anna("backup", str(file)).code == 0
    assert anna("user", "add", "later", "--generate").code == 0
    (home / PASSWORD_FILE).write_text("old")
    refused = anna("restore", str(file))
    assert refused.code == 1
    assert "is not empty" in refused.err
    assert "add --replace" in refused.err
    unconfirmed = anna("restore", str(file), "--replace")
    assert unconfirmed.code == 2
    assert "add --yes" in unconfirmed.err
    monkeypatch.setattr("portico.cli.console.terminal.at_terminal", lambda: True)
    assert anna("restore", str(file), "--replace", stdin="no\n").code == 130
    assert "later" in anna("user", "list").out
    assert (home / PASSWORD_FILE).exists()
    confirmed = anna("restore", str(file), "--replace", stdin="yes\n")
    assert confirmed.code == 0
    assert f"All users and connections in {home / 'portico.db'} will be replaced" in confirmed.err
    assert [user["name"] for user in anna("user", "list", "--json").lines] == ["anna"]
    assert not (home / PASSWORD_FILE).exists()
    assert '"action":"restore"' in (home / "audit.log").read_text()


def test_another_key_is_refused_unless_the_key_is_lost(
    with_cloud: Portico, elsewhere: Portico, file: Path, tmp_path: Path
) -> None:
    assert with_cloud("backup", str(file)).code == 0
    assert elsewhere("user", "add", "bob", "--generate").code == 0
    key = (tmp_path / "elsewhere" / "secret.key").read_text()
    refused = elsewhere("restore", str(file), "--replace", "--yes")
    assert refused.code == 1
    assert "This node's secret key is not the one of the gateway that the backup is of" in refused.err
    assert "--lost-key" in refused.err
    assert [user["name"] for user in elsewhere("user", "list", "--json").lines] == ["bob"]
    assert elsewhere("restore", str(file), "--replace", "--yes", "--lost-key").code == 0
    assert [user["name"] for user in elsewhere("user", "list", "--json").lines] == ["anna"]
    assert (tmp_path / "elsewhere" / "secret.key").read_text() == key


def test_a_damaged_backup_changes_nothing(anna: Portico, home: Path, file: Path) -> None:
    assert anna("backup", str(file)).code == 0
    file.write_bytes(file.read_bytes()[:-10])
    before = anna("user", "list").out
    for _ in range(2):
        outcome = anna("restore", str(file), "--replace", "--yes")
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
        assert "nothing was changed" in outcome.err
        file.write_text("something else")
    assert anna("user", "list").out == before


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("backup", "-"), 2, "can't be written to standard output"),
        (("backup", "/"), 2, "is a folder"),
        (("backup", "/nowhere/at/all/file"), 3, "The folder /nowhere/at/all doesn't exist"),
        (("backup", "/proc/portico.backup"), 1, "The backup /proc/portico.backup can't be written"),
        (("restore", "/nowhere/file"), 4, "The file /nowhere/file doesn't exist."),
        (("backup",), 2, "FILE is missing"),
        (("migrate-database", "sqlite:///a", "mysql://user:canary@b"), 2, "is not a database URL"),
        (("migrate-database", "", "sqlite:///a"), 2, "is not a database URL"),
        (("migrate-database", "sqlite:///a", "sqlite:///./a"), 2, "the same database"),
        (("migrate-database", "sqlite:////nowhere/a", "sqlite:////nowhere/b"), 5, "/nowhere/a can't be used"),
    ],
)
def test_mistakes_get_a_sentence(anna: Portico, arguments: tuple[str, ...], code: int, words: str) -> None:
    outcome = anna(*arguments)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (code, "", 1)
    assert words in outcome.err
    assert "canary" not in outcome.err


def test_a_home_without_a_key_cannot_include_it(anna: Portico, home: Path, file: Path) -> None:
    (home / "secret.key").unlink()
    outcome = anna("backup", str(file), "--with-key")
    assert outcome.code == 1
    assert "secret.key doesn't exist yet" in outcome.err
    assert not file.exists()
    assert not (home / "secret.key").exists()
    assert anna("backup", str(file)).code == 0


def test_a_database_is_saved_before_it_is_migrated(anna: Portico, home: Path, file: Path, tmp_path: Path) -> None:
    newest = newest_revision()
    engine = create_engine(f"sqlite:///{home / 'portico.db'}")
    with next_version(tmp_path):
        assert anna("backup", str(file)).code == 0
        with engine.begin() as connection:
            assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == newest
            connection.execute(text("""UPDATE users SET reach = '{"mounts":[]}'"""))
        engine.dispose()
        assert anna("restore", str(file), "--replace", "--yes").code == 0
        assert anna("user", "show", "anna", "--json").data["root"] == "/anna"


def test_from_sqlite_to_postgresql_and_back(
    with_cloud: Portico, home: Path, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, file = postgres.new_database(), f"sqlite:///{home / 'portico.db'}"
    users = with_cloud("user", "list", "--json").lines
    moved = with_cloud("migrate-database", file, url)
    assert (moved.code, moved.err) == (0, "")
    assert re.search(r"^users +1$", moved.out, re.MULTILINE)
    assert "the same number of rows" in moved.out
    assert "These paths are now absolute and must be the same on every node: local." in moved.out
    assert "set database.url" in moved.out
    assert "p%40ss" not in moved.out
    again = with_cloud("migrate-database", file, url)
    assert again.code == 1
    assert "is not empty" in again.err

    monkeypatch.setenv("PORTICO_DATABASE_URL", url)
    assert with_cloud("user", "list", "--json").lines == users
    shown = with_cloud("connection", "show", "local", "--json").data
    assert shown["options"] == {"folder": str(home / "files")}
    assert with_cloud("user", "add", "bob", "--generate").code == 0
    assert with_cloud("connection", "set", "cloud", "--option", "bucket=c").code == 0
    with psycopg.connect(url) as connection:
        stored = connection.execute("SELECT options FROM connections WHERE name = 'local'").fetchone()
    assert str(home / "files") in str(stored)

    monkeypatch.delenv("PORTICO_DATABASE_URL")
    back = tmp_path / "back.db"
    done = with_cloud("migrate-database", url, f"sqlite:///{back}")
    assert done.code == 0
    assert "security.client-id" in done.out
    os.replace(back, home / "portico.db")
    for leftover in home.glob("portico.db-*"):
        leftover.unlink()
    assert [user["name"] for user in with_cloud("user", "list", "--json").lines] == ["anna", "bob"]


def test_a_copied_database_belongs_to_the_same_key(
    with_cloud: Portico, home: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, file = postgres.new_database(), f"sqlite:///{home / 'portico.db'}"
    engine = create_engine(file)
    with engine.begin() as connection:  # as the version before has left it
        connection.execute(text("DELETE FROM cluster WHERE name = 'secret-key'"))
    engine.dispose()
    key = home / "secret.key"
    right = key.read_text()
    key.write_text("A" * 43)
    assert "is not the one of the database to copy" in with_cloud("migrate-database", file, url).err
    key.unlink()
    assert "add --lost-key" in with_cloud("migrate-database", file, url).err
    assert with_cloud("migrate-database", file, postgres.new_database(), "--lost-key").code == 0
    key.write_text(right)
    assert with_cloud("migrate-database", file, url).code == 0
    monkeypatch.setenv("PORTICO_DATABASE_URL", url)
    key.unlink()
    assert "This node lacks the secret key" in with_cloud("user", "list").err
    assert not key.exists()
    key.write_text(right)
    assert with_cloud("connection", "show", "cloud").code == 0


def test_a_backup_of_one_node_that_is_restored_for_several_belongs_to_the_same_key(
    anna: Portico, home: Path, file: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert anna("backup", str(file)).code == 0
    monkeypatch.setenv("PORTICO_DATABASE_URL", postgres.new_database())
    assert anna("restore", str(file)).code == 0
    (home / "secret.key").unlink()
    assert "This node lacks the secret key" in anna("user", "list").err


def test_a_shared_database_is_saved_and_restored(
    portico: Portico, home: Path, postgres: PostgresServer, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTICO_DATABASE_URL", postgres.new_database())
    (home / "files").mkdir(parents=True)
    folder = f"folder={home / 'files'}"
    assert portico("migrate").code == 0
    assert portico("connection", "add", "disk", "--kind", "local", "--option", folder).code == 0
    assert portico("user", "add", "bob", "--connection", "disk", "--generate").code == 0
    assert portico("backup", str(file), "--with-key", "--passphrase-stdin", stdin="correct horse").code == 0
    key = (home / "secret.key").read_text()

    (home / "secret.key").unlink()
    assert "secret.key doesn't exist yet" in portico("backup", str(file), "--with-key").err
    monkeypatch.setenv("PORTICO_SECRET_KEY", "A" * 43)
    differs = portico("backup", str(file), "--with-key")
    assert differs.code == 1
    assert "This node's secret key is not the one of the gateway behind the database" in differs.err
    monkeypatch.delenv("PORTICO_SECRET_KEY")

    monkeypatch.setenv("PORTICO_DATABASE_URL", postgres.new_database())
    assert portico("restore", str(file), "--passphrase-stdin", stdin="correct horse").code == 0
    assert (home / "secret.key").read_text() == key
    assert [user["name"] for user in portico("user", "list", "--json").lines] == ["bob"]
    assert portico("cluster", "show", "--json").data["secretKey"] is not None


def test_a_failed_restore_does_not_leave_the_key(
    anna: Portico, home: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert anna("backup", str(file), "--with-key").code == 0
    (home / "secret.key").unlink()
    (home / SET_UP_MARK).touch()
    assert anna("restore", str(file)).code == 1  # not empty
    assert not (home / "secret.key").exists()


def test_a_backup_with_a_row_twice_is_damaged(anna: Portico, tmp_path: Path) -> None:
    facts = Facts("1.0", newest_revision(), "2026-03-01T10:00:00.000Z", None)

    async def twice() -> AsyncIterator[Batch]:
        yield Batch("cluster", ("name", "value"), [("n", "v"), ("n", "v")])

    file = tmp_path / "b"
    asyncio.run(write(file, facts, Content(newest_revision(), twice), None))
    outcome = anna("restore", str(file), "--replace", "--yes")
    assert (outcome.code, outcome.err) == (
        1,
        f"The file {file} is damaged: it has rows that don't fit the table 'cluster'; nothing was changed.\n",
    )
    assert "anna" in anna("user", "list").out


def test_a_variable_that_keeps_programs_out_is_warned_of(
    anna: Portico, elsewhere: Portico, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert anna("backup", str(file), "--with-key").code == 0
    monkeypatch.setenv("PORTICO_SECURITY_CLIENT_ID", "another-client")
    restored = elsewhere("restore", str(file))
    assert restored.code == 0
    assert restored.err == (
        "Warning: programs can't sign in, because PORTICO_SECURITY_CLIENT_ID differs from the security.client-id they use; "
        "remove the variable.\n"
    )


def test_a_restore_that_fails_changes_no_settings(
    anna: Portico, elsewhere: Portico, file: Path, tmp_path: Path
) -> None:
    assert anna("backup", str(file), "--with-key").code == 0
    assert elsewhere("user", "add", "bob", "--generate").code == 0
    settings = tmp_path / "elsewhere" / PROPERTIES_FILE
    before = settings.read_text()
    assert elsewhere("restore", str(file)).code == 1  # it is not empty
    assert settings.read_text() == before


def test_a_restore_into_sqlite_is_chosen_by_an_empty_settings_file(
    anna: Portico, elsewhere: Portico, home: Path, file: Path, tmp_path: Path
) -> None:
    settings = home / PROPERTIES_FILE
    settings.write_text(settings.read_text() + "\naudit.log=off\n")
    assert anna("backup", str(file), "--with-key").code == 0
    new = tmp_path / "elsewhere"
    new.mkdir()
    (new / PROPERTIES_FILE).touch()
    restored = elsewhere("restore", str(file))
    assert (restored.code, restored.err) == (0, "")
    assert "Set security.client-id and security.client-secret in" in restored.out
    lines = (new / PROPERTIES_FILE).read_text().splitlines()
    assert [line.partition("=")[0] for line in lines] == ["security.client-id", "security.client-secret"]
    assert set(lines) <= set(settings.read_text().splitlines())
