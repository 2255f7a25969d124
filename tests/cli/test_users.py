import asyncio
import getpass
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest
from sqlalchemy import select

from portico.accounts.passwords import Passwords
from portico.accounts.throttle import Throttle, attempt_of
from portico.accounts.users import Users
from portico.cli.administration import users
from portico.cli.administration.home import PASSWORD_FILE, SET_UP_MARK
from portico.cli.console import terminal
from portico.store.database import Database
from portico.store.tables import attempts

from .conftest import PASSWORD, Portico, audit_lines


def test_left_out_values(anna: Portico) -> None:
    user = anna("user", "show", "ANNA", "--json").data
    assert {key: user[key] for key in ("name", "connection", "root", "rights", "disabled")} == {
        "name": "anna",
        "connection": "local",
        "root": "/anna",
        "rights": ["list", "download", "upload", "overwrite"],
        "disabled": False,
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", user["createdAt"])


def test_all_flags(anna: Portico) -> None:
    arguments = ("--connection", "local", "--root", "team/a/", "--rights", "list,download", "--password-stdin")
    assert anna("user", "add", "bob", *arguments, stdin=PASSWORD).code == 0
    user = anna("user", "show", "bob", "--json").data
    assert (user["root"], user["rights"]) == ("/team/a", ["list", "download"])


def test_a_made_up_password_is_shown_once(anna: Portico) -> None:
    added = anna("user", "add", "bob")
    assert re.search(r"shown only once: (\w{5}-){3}\w{5}\n$", added.out)
    assert "shown only" not in anna("user", "show", "bob").out
    assert "shown only once" in anna("user", "password", "bob", "--generate").out


def test_lists(anna: Portico) -> None:
    anna("user", "add", "Bob")
    assert [user["name"] for user in anna("user", "list", "--json").lines] == ["anna", "Bob"]
    lines = anna("user", "list").out.splitlines()
    assert lines[0].split() == ["name", "path", "connection", "folder", "rights", "group", "disabled"]
    assert lines[1].split()[:4] == ["anna", "/", "local", "/anna"]


def test_no_users_yet(anna: Portico) -> None:
    anna("user", "delete", "anna")
    assert anna("user", "list", "--json").lines == []
    assert "no Web Users yet" in anna("user", "list").out


def test_set_changes_only_what_is_given(anna: Portico) -> None:
    assert anna("user", "set", "anna", "--rights", "list").code == 0
    assert anna("user", "set", "anna", "--root", "/b").code == 0
    before = anna("user", "show", "anna", "--json").data
    assert (before["rights"], before["root"]) == (["list"], "/b")
    assert anna("user", "set", "anna", "--password-stdin", stdin="another one").code == 0
    after = anna("user", "show", "anna", "--json").data
    assert after.pop("passwordChangedAt") >= before.pop("passwordChangedAt")
    assert after == before
    assert anna("user", "set", "anna").code == 2


def test_disable_and_enable(anna: Portico) -> None:
    assert anna("user", "disable", "anna").code == 0
    assert anna("user", "show", "anna", "--json").data["disabled"] is True
    assert anna("user", "enable", "anna").code == 0
    assert anna("user", "show", "anna", "--json").data["disabled"] is False


@pytest.mark.parametrize("command", ["show", "disable", "enable", "delete"])
def test_an_unknown_user(anna: Portico, command: str) -> None:
    outcome = anna("user", command, "nobody")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert "nobody" in outcome.err


def test_an_unknown_user_is_reported_before_a_password_is_asked(anna: Portico) -> None:
    assert anna("user", "password", "nobody", "--generate").code == 1
    assert anna("user", "set", "nobody", "--rights", "list").code == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("add", "anna"), 1),
        (("add", "Anna"), 1),
        (("add", ".bob"), 2),
        (("add", "a/b"), 2),
        (("add", "b", "--root", "/a/../b"), 2),
        (("add", "b", "--rights", "list,fly"), 2),
        (("add", "b", "--connection", "none"), 1),
        (("add", "b", "--password-stdin", "--generate"), 2),
        (("add",), 2),
        (("add", "b", "--wrong"), 2),
        (("password", "anna"), 2),
        (("nothing",), 2),
    ],
)
def test_refusals_are_one_sentence(anna: Portico, arguments: Sequence[str], code: int) -> None:
    outcome = anna("user", *arguments)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (code, "", 1)


@pytest.mark.parametrize("password", ["short", "", "x" * 1025])
def test_passwords_that_are_refused(anna: Portico, password: str) -> None:
    outcome = anna("user", "add", "bob", "--password-stdin", stdin=password)
    assert outcome.code == 2
    assert not password or password not in outcome.err


def test_only_the_closing_line_end_is_taken_off_a_password(anna: Portico, home: Path) -> None:
    anna("user", "password", "anna", "--password-stdin", stdin=" spaces stay \r\n")
    assert asyncio.run(_verifies(home, " spaces stay "))
    assert not asyncio.run(_verifies(home, "spaces stay"))


async def _verifies(home: Path, password: str) -> bool:
    from sqlalchemy import text

    database, passwords = Database(f"sqlite+aiosqlite:///{home}/portico.db"), Passwords()
    try:
        user = await Users(database, passwords).get("anna")
        async with database.connect() as connection:
            row = (await connection.execute(text("SELECT * FROM users WHERE id = :id"), {"id": user.id})).mappings()
            hashed = next(str(value) for value in row.one().values() if str(value).startswith("$argon2"))
        return await passwords.verify(hashed, password)
    finally:
        passwords.close()
        await database.close()


def test_a_terminal_is_asked(anna: Portico, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return answers.pop(0)

    monkeypatch.setattr(users, "at_terminal", lambda: True)
    monkeypatch.setattr(getpass, "getpass", answer)
    answers = [PASSWORD, PASSWORD]
    assert "shown" not in anna("user", "add", "bob").out
    answers = ["", PASSWORD, "a slip of the finger", PASSWORD, PASSWORD]
    outcome = anna("user", "password", "bob")
    assert (outcome.code, outcome.err) == (0, "The passwords don't match. Try again.\n")
    first, second = "Password: ", "Repeat the password: "
    assert asked == [first, second, first, first, second, first, second]


def test_only_a_new_user_needs_rights(anna: Portico) -> None:
    assert anna("user", "add", "bob", "--rights", ",", "--generate").code == 2
    assert anna("user", "set", "anna", "--rights", "").code == 0
    assert anna("user", "show", "anna", "--json").data["rights"] == []


def test_a_short_password_is_refused_at_once(anna: Portico, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return answers.pop(0)

    monkeypatch.setattr(users, "at_terminal", lambda: True)
    monkeypatch.setattr(getpass, "getpass", answer)
    answers = ["short", PASSWORD, PASSWORD]
    outcome = anna("user", "add", "bob")
    assert (outcome.code, outcome.err.count("\n")) == (0, 1)
    assert "password" in outcome.err
    assert asked == ["Password: ", "Password: ", "Repeat the password: "]


def test_a_prompt_that_is_left_ends_the_command(portico: Portico, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr(users, "at_terminal", lambda: True)
    monkeypatch.setattr(getpass, "getpass", leave)
    outcome = portico("user", "add", "bob")
    assert (outcome.code, outcome.err) == (130, "Interrupted.\n")


@contextmanager
def standard_input(tmp_path: Path, how: str) -> Iterator[TextIO]:
    file = tmp_path / "input"
    file.write_text("" if how == "an empty file" else PASSWORD)
    reading, writing = os.pipe()
    if how == "a pipe":
        os.write(writing, PASSWORD.encode())
    with open(reading) as pipe, open(writing, "w"), file.open() as opened, open(os.devnull) as nothing:
        yield {"an empty file": opened, "a file": opened, "nothing": nothing}.get(how, pipe)


@pytest.mark.parametrize("how", ["a pipe", "a pipe that says nothing yet", "a file"])
def test_no_password_is_made_up_while_one_is_piped_in(portico: Portico, home: Path, tmp_path: Path, how: str) -> None:
    with standard_input(tmp_path, how) as stdin:
        outcome = portico("user", "add", "bob", stdin=stdin)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "--password-stdin" in outcome.err
    assert "--generate" in outcome.err
    assert not home.exists()


@pytest.mark.parametrize("how", ["nothing", "an empty file"])
def test_a_password_is_made_up_where_nothing_is_piped_in(anna: Portico, tmp_path: Path, how: str) -> None:
    with standard_input(tmp_path, how) as stdin:
        assert "shown only once" in anna("user", "add", "bob", stdin=stdin).out


def test_a_pipe_that_has_ended_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with open(reading) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert terminal.something_is_piped(wait=0)
        os.write(writing, b"secret")
        assert terminal.something_is_piped()
        assert stream.read(6) == "secret"
        os.close(writing)
        assert not terminal.something_is_piped()
    assert not terminal.something_is_piped()


def test_secrets_that_were_piped_in_vain_are_reported(anna: Portico, tmp_path: Path) -> None:
    words = ("connection", "add", "cloud", "--kind", "s3", "--option", "bucket=b")
    with standard_input(tmp_path, "a pipe") as stdin:
        outcome = anna(*words, stdin=stdin)
    assert outcome.code == 0
    assert "--secret-stdin" in outcome.err


@pytest.mark.parametrize(
    "words", [("password", "WEB", "--generate"), ("delete", "web"), ("set", "web", "--password-stdin")]
)
def test_the_password_file_goes_with_its_password(anna: Portico, home: Path, words: Sequence[str]) -> None:
    anna("user", "add", "web")
    (home / PASSWORD_FILE).write_text("old")
    assert anna("user", *words, stdin=PASSWORD).code == 0
    assert not (home / PASSWORD_FILE).exists()


def test_only_add_makes_a_home(portico: Portico, home: Path) -> None:
    outcome = portico("user", "list")
    assert outcome.code == 1
    assert "serve" in outcome.err
    assert not home.exists()
    assert portico("user", "add", "bob").code == 0
    assert not (home / SET_UP_MARK).exists()
    assert [connection["name"] for connection in portico("connection", "list", "--json").lines] == ["local"]


def failures(home: Path) -> list[int]:
    async def read() -> list[int]:
        database = Database(f"sqlite:///{home / 'portico.db'}")
        async with database.connect() as reading:
            found = (await reading.execute(select(attempts.c.failures).order_by(attempts.c.failures))).all()
        await database.close()
        return [row.failures for row in found]

    return asyncio.run(read())


def fail(home: Path, name: str, times: int) -> None:
    async def write() -> None:
        database = Database(f"sqlite:///{home / 'portico.db'}")
        throttle = Throttle(database)
        for _ in range(times):
            await throttle.failed(attempt_of(name, "192.0.2.7"))
        await database.close()

    asyncio.run(write())


def test_a_new_password_or_unlocking_clears_the_failed_sign_ins(anna: Portico, home: Path) -> None:
    fail(home, "anna", 10)
    fail(home, "bob", 2)
    assert failures(home) == [2, 10, 12]
    assert anna("user", "unlock", "ANNA").out == "Cleared the failed sign-ins of ANNA.\n"
    assert failures(home) == [0, 2, 12]
    fail(home, "anna", 3)
    assert anna("user", "password", "anna", "--password-stdin", stdin="another password").code == 0
    assert failures(home) == [0, 2, 15]
    fail(home, "anna", 1)
    assert anna("user", "unlock", "anna", "--address", "192.0.2.7").code == 0
    assert failures(home) == [0, 0, 2]
    actions = [line["action"] for line in audit_lines((home / "audit.log").read_text())]
    assert actions[-3:] == ["user.unlock", "user.password", "user.unlock"]


def test_unlocking_says_what_is_wrong(anna: Portico) -> None:
    assert "The user 'carl' doesn't exist" in anna("user", "unlock", "carl").err
    mistaken = anna("user", "unlock", "anna", "--address", "the office")
    assert mistaken.code == 2
    assert "not an IP address" in mistaken.err
