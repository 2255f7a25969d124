"""`portico migrate`, and starts and commands that may not migrate."""

from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from portico.cli.administration.home import prepare
from portico.server import bind_address
from portico.store.schema import newest_revision
from tests.servers.postgres import PostgresServer
from tests.store.next_version import NEXT, next_version

from .conftest import Portico

NEWEST = newest_revision()


def pretend(home: Path, *statements: str) -> None:
    engine = create_engine(f"sqlite:///{home / 'portico.db'}")
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def test_migrate_says_from_which_revision_to_which(anna: Portico, tmp_path: Path) -> None:
    with next_version(tmp_path):
        assert anna("migrate").out == f"Migrated the database from schema {NEWEST} to {NEXT}.\n"
        assert anna("migrate").out == f"Nothing to do: the database already has schema {NEXT}.\n"
        assert "anna" in anna("user", "list").out


@pytest.mark.parametrize("command", ["migrate", "serve --port 1", "user list", "user disable anna", "backup b"])
def test_an_older_database_is_refused_with_one_sentence(
    anna: Portico, home: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bind_address, "check_free", lambda *_: None)
    pretend(home, "UPDATE alembic_version SET version_num = '0009'")
    outcome = anna(*command.split())
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert "too old for this version of Portico (schema 0009): migrate or restore it with commit " in outcome.err


def test_migrate_prepares_an_empty_database(
    portico: Portico, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTICO_DATABASE_URL", postgres.new_database())
    monkeypatch.setenv("PORTICO_DATABASE_MIGRATE", "false")
    outcome = portico("user", "add", "bob", "--generate")
    assert outcome.code == 1
    assert "run 'portico migrate' once" in outcome.err
    assert portico("migrate").out == f"The database was empty; created the tables of schema {NEWEST}.\n"
    assert "Nothing to do" in portico("migrate").out
    assert portico("user", "list").code == 0


def test_a_newer_database_that_can_be_used_needs_nothing(anna: Portico, home: Path) -> None:
    pretend(home, "UPDATE alembic_version SET version_num = '9999'")
    outcome = anna("migrate")
    assert (outcome.code, outcome.err) == (0, "")
    assert "schema 9999 of a newer version" in outcome.out
    assert anna("user", "list").code == 0


@pytest.mark.parametrize("command", ["migrate", "user list", "serve --port 1", "serve --port 1 --no-migrate"])
def test_a_newer_database_that_cannot_be_used_is_refused_with_the_sentence(
    anna: Portico, home: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bind_address, "check_free", lambda *_: None)
    pretend(
        home,
        "UPDATE alembic_version SET version_num = '9999'",
        "UPDATE cluster SET value = '9999' WHERE name = 'oldest-code'",
    )
    outcome = anna(*command.split())
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert outcome.err.startswith("The database was created by a newer version of Portico; start that version")


def test_a_database_is_not_migrated_unless_wanted(
    anna: Portico, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bind_address, "check_free", lambda *_: None)
    with next_version(tmp_path):
        started = anna("serve", "--port", "1", "--no-migrate")
        monkeypatch.setenv("PORTICO_DATABASE_MIGRATE", "false")
        for outcome in (started, anna("user", "disable", "anna")):
            assert (outcome.code, outcome.out) == (1, "")
            assert f"lacks the schema {NEXT}" in outcome.err
            assert "run 'portico migrate' once" in outcome.err
        assert f"from schema {NEWEST}" in anna("migrate").out
        assert anna("user", "list").code == 0


READING = (
    *("user list", "user show anna", "key list", "key list anna", "uploads list", "audit list"),
    *("connection list", "connection show local", "connection test local", "cluster show", "config check"),
)


@pytest.mark.parametrize("command", READING)
def test_a_command_that_reads_does_not_migrate(anna: Portico, command: str, tmp_path: Path) -> None:
    with next_version(tmp_path):
        outcome = anna(*command.split())
        assert (outcome.code, outcome.err) == (0, "")
        assert f"from schema {NEWEST}" in anna("migrate").out


def test_a_command_that_reads_what_a_migration_adds_names_the_command(
    anna: Portico, home: Path, tmp_path: Path
) -> None:
    pretend(home, "DROP TABLE api_keys")
    with next_version(tmp_path):
        outcome = anna("key", "list")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        f"The database {home / 'portico.db'} lacks the schema {NEXT} that this version of Portico needs; "
        "run 'portico migrate' once.\n"
    )


def test_a_command_that_reads_says_that_the_database_is_gone(anna: Portico, home: Path) -> None:
    (home / ".set-up").touch()
    for file in home.glob("portico.db*"):
        file.unlink()
    assert "although this gateway was set up before" in anna("user", "list").err
    assert not (home / "portico.db").exists()


@pytest.mark.parametrize(
    "command",
    [
        "user disable anna",
        "key add anna --name backup",
        "cluster forget --yes",
        "connection add c --kind local --option folder=/tmp",
    ],
)
def test_a_command_that_changes_something_migrates_and_says_so(anna: Portico, command: str, tmp_path: Path) -> None:
    with next_version(tmp_path):
        outcome = anna(*command.split())
        assert outcome.code == 0
        assert f"Migrated the database from schema {NEWEST} to {NEXT}.\n" in outcome.err
        assert "Nothing to do" in anna("migrate").out


def test_a_failed_migration_of_a_new_home_leaves_nothing(
    portico: Portico, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTICO_DATABASE_URL", "sqlite:////nowhere/portico.db")
    outcome = portico("migrate")
    assert outcome.code == 5
    assert "can't be opened" in outcome.err
    assert not home.exists()


@pytest.mark.parametrize("command", ["migrate", "serve --port 1", "connection add c --kind local --option folder=/"])
def test_a_database_of_somebody_else_is_one_sentence(
    portico: Portico, postgres: PostgresServer, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bind_address, "check_free", lambda *_: None)
    name = postgres.new_database().rpartition("/")[2]
    postgres.execute(f"CREATE ROLE role_{name} LOGIN PASSWORD 'secret'")
    monkeypatch.setenv("PORTICO_DATABASE_URL", f"postgresql://role_{name}:secret@127.0.0.1:{postgres.port}/{name}")
    outcome = portico(*command.split())
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        "The role in database.url can't do this (permission denied for schema public): "
        "make it the owner of the database and its tables.\n"
    )


@pytest.mark.parametrize("mistake", ["h:99999/n", "h/n?sslmode=bogus", "ss@h/n"])
def test_config_check_finds_a_mistake_in_the_url(
    portico: Portico, home: Path, mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(home)
    monkeypatch.setenv("PORTICO_DATABASE_URL", f"postgresql://u:p@{mistake}")
    outcome = portico("config", "check")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith("The URL in database.url is not valid: ")
