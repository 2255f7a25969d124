import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from sqlalchemy import select

from portico.accounts.attempts import attempt_of
from portico.accounts.passwords import Passwords
from portico.accounts.throttle import Throttle
from portico.accounts.users import Users
from portico.cli import terminal, users
from portico.cli.home import PASSWORD_FILE, SET_UP_MARK
from portico.store.database import Database
from portico.store.tables import attempts

from .conftest import Portico

PASSWORD = "correct horse"


@pytest.fixture
def anna(portico: Portico) -> Portico:
    assert portico("user", "add", "anna", "--password-stdin", stdin=f"{PASSWORD}\n").code == 0
    return portico


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


def test_all_flags(portico: Portico) -> None:
    arguments = (
        "--connection",
        "local",
        "--root",
        "team/a/",
        "--rights",
        "list,download",
        "--password-stdin",
    )
    assert portico("user", "add", "bob", *arguments, stdin=PASSWORD).code == 0
    user = portico("user", "show", "bob", "--json").data
    assert (user["root"], user["rights"]) == ("/team/a", ["list", "download"])


def test_a_made_up_password_is_shown_once(portico: Portico) -> None:
    added = portico("user", "add", "bob")
    assert re.search(r"shown only now: (\w{5}-){3}\w{5}\n$", added.out)
    assert "shown only" not in portico("user", "show", "bob").out
    assert "shown only now" in portico("user", "password", "bob", "--generate").out


def test_lists(anna: Portico) -> None:
    anna("user", "add", "Bob")
    assert [user["name"] for user in anna("user", "list", "--json").data] == ["anna", "Bob"]
    lines = anna("user", "list").out.splitlines()
    assert lines[0].split() == ["name", "connection", "root", "rights", "disabled"]
    assert lines[1].split()[:3] == ["anna", "local", "/anna"]


def test_no_users_yet(portico: Portico, anna: Portico) -> None:
    anna("user", "delete", "anna")
    assert portico("user", "list", "--json").data == []
    assert "no Web User yet" in portico("user", "list").out


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


def test_an_unknown_user_is_told_before_a_password_is_asked(anna: Portico) -> None:
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
def test_passwords_that_are_refused(portico: Portico, password: str) -> None:
    outcome = portico("user", "add", "bob", "--password-stdin", stdin=password)
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
            row = (
                await connection.execute(text("SELECT * FROM users WHERE id = :id"), {"id": user.id})
            ).mappings()
            hashed = next(str(value) for value in row.one().values() if str(value).startswith("$argon2"))
        return await passwords.verify(hashed, password)
    finally:
        passwords.close()
        await database.close()


def test_a_terminal_is_asked(portico: Portico, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(text: str, **options: object) -> str:
        asked.append((text, options["hide_input"], bool(options["confirmation_prompt"])))
        return PASSWORD

    monkeypatch.setattr(users, "at_terminal", lambda: True)
    monkeypatch.setattr(typer, "prompt", answer)
    assert "shown" not in portico("user", "add", "bob").out
    assert portico("user", "password", "bob").code == 0
    assert asked == [("Password", True, True)] * 2


def command(home: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "portico", "--home", str(home), *words]


@pytest.mark.parametrize("how", ["a pipe", "a pipe that says nothing yet", "a file"])
def test_no_password_is_made_up_while_one_is_piped_in(home: Path, tmp_path: Path, how: str) -> None:
    (tmp_path / "password").write_text(PASSWORD)
    with (tmp_path / "password").open() as file:
        adding = subprocess.Popen(
            command(home, "user", "add", "bob"),
            stdin=file if how == "a file" else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    if how == "a pipe that says nothing yet":
        assert adding.wait(60) == 2  # nobody waits for a password that may never come
    out, err = adding.communicate(PASSWORD if how == "a pipe" else None, timeout=60)
    assert (adding.returncode, out, err.count("\n")) == (2, "", 1)
    assert "--password-stdin" in err
    assert "--generate" in err
    assert not home.exists()


@pytest.mark.parametrize("stdin", [subprocess.DEVNULL, None])
def test_a_password_is_made_up_where_nothing_is_piped_in(
    home: Path, tmp_path: Path, stdin: int | None
) -> None:
    (tmp_path / "empty").touch()
    with (tmp_path / "empty").open() as empty:
        done = subprocess.run(
            command(home, "user", "add", "bob"),
            stdin=empty if stdin is None else stdin,
            capture_output=True,
            text=True,
            check=True,
        )
    assert "shown only now" in done.stdout


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


def test_secrets_that_were_piped_in_vain_are_told(home: Path) -> None:
    words = ("connection", "add", "cloud", "--kind", "s3", "--option", "bucket=b")
    done = subprocess.run(
        command(home, *words), input="secret-access-key=x\n", capture_output=True, text=True, check=True
    )
    assert "--secret-stdin" in done.stderr


@pytest.mark.parametrize(
    "words", [("password", "WEB", "--generate"), ("delete", "web"), ("set", "web", "--password-stdin")]
)
def test_the_password_file_goes_with_its_password(portico: Portico, home: Path, words: Sequence[str]) -> None:
    portico("user", "add", "web")
    (home / PASSWORD_FILE).write_text("old")
    assert portico("user", *words, stdin=PASSWORD).code == 0
    assert not (home / PASSWORD_FILE).exists()


def test_only_add_makes_a_home(portico: Portico, home: Path) -> None:
    outcome = portico("user", "list")
    assert outcome.code == 1
    assert "serve" in outcome.err
    assert not home.exists()
    assert portico("user", "add", "bob").code == 0
    assert not (home / SET_UP_MARK).exists()
    assert [connection["name"] for connection in portico("connection", "list", "--json").data] == ["local"]


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
    actions = [json.loads(line)["action"] for line in (home / "audit.log").read_text().splitlines()]
    assert actions[-3:] == ["user.unlock", "user.password", "user.unlock"]


def test_unlocking_says_what_is_wrong(anna: Portico) -> None:
    assert "no user 'carl'" in anna("user", "unlock", "carl").err
    mistaken = anna("user", "unlock", "anna", "--address", "the office")
    assert mistaken.code == 2
    assert "no IP address" in mistaken.err
