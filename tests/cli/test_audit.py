import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from portico.cli.administration.home import my_name, prepare

from .conftest import Portico

PASSWORD = "canary-password"


@pytest.fixture
def file(home: Path) -> Path:
    return home / "audit.log"


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


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
    assert [json.loads(line)["action"] for line in done.stderr.splitlines()] == ["connection.add", "user.add"]
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
    assert table[0].split() == ["time", "node", "user", "client", "action", "outcome", "subject"]
    assert table[1].split()[1:] == ["one", f"os:{my_name()}", "user.add", "done", "ann"]
    assert portico("audit", "list", "--action", "nothing").out == "No audit lines match.\n"
    for wrong in (("--limit", "0"), ("--limit", "x"), ("--since", "soon")):
        assert portico("audit", "list", *wrong).code == 2
