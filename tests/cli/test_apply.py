import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import jsonschema
import pytest

from portico.accounts.policy.document import Mistakes, parse
from portico.cli.administration import apply

from ..servers.postgres import PostgresServer
from .conftest import PASSWORD, Portico, audit_lines

EXAMPLE = Path(__file__).parents[2] / "docs" / "company.yaml"
SECRETS = {
    "ARCHIVE_KEY_ID": "AKIAEXAMPLE",
    "ARCHIVE_SECRET": "top secret",
    "EXCHANGE_KEY": "dG9wIHNlY3JldA==",
    "SCANNER_PASSWORD": "correct horse",
}
NOTHING = "Nothing to do.\n"


@pytest.fixture
def company(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example, with a folder that exists, and its secrets in the environment."""
    folder = tmp_path / "srv"
    folder.mkdir()
    file = tmp_path / "company.yaml"
    file.write_text(EXAMPLE.read_text().replace("/srv/files", str(folder)))
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    return file


def policy_file(folder: Path, text: str) -> str:
    file = folder / "policy.yaml"
    file.write_text(text)
    return str(file)


def test_a_company_in_one_file(portico: Portico, company: Path) -> None:
    applied = portico("apply", str(company), "--yes")
    assert (applied.code, applied.err) == (0, "")
    assert not any(secret in applied.out for secret in SECRETS.values())
    assert "  + archive: s3\n" in applied.out
    assert "  + hr: mounts: +/hr; members: +anna, +bo\n" in applied.out
    assert "  2 users gain list, download, upload and overwrite on /hr (anna, bo).\n" in applied.out
    assert "  finn" not in applied.out.partition("Access")[2], "who is disabled has no access and no invitation"
    assert len(re.findall(r"^  (\w+) +/invite#\S{43}$", applied.out, re.M)) == 8
    assert portico("apply", str(company), "--yes").out == NOTHING
    assert portico("apply", str(company), "--prune").out == NOTHING

    company.write_text(company.read_text().replace("members: [anna, bo]\n", "members: [anna, chi]\n"))
    tests = portico("apply", str(company), "--yes")
    assert tests.code == 2
    line = company.read_text().splitlines().index("  - chi cannot upload to /hr") + 1
    assert tests.err == (
        f"{company}:{line}: The test 'chi cannot upload to /hr' fails. chi can upload /hr: the mount /hr of the group 'hr' "
        "gives list, download, upload and overwrite.\n"
    )
    company.write_text(company.read_text().replace("  - chi cannot upload to /hr\n", ""))
    again = portico("apply", str(company), "--yes")
    assert again.out == (
        "Groups\n"
        "  ~ hr: members: +chi, -bo\n"
        "\n"
        "Access\n"
        "  chi gains upload and overwrite on /hr.\n"
        "  bo loses upload and overwrite on /hr.\n"
        "  /hr leads to files/hr/public instead of files/hr for bo.\n"
        "  /hr leads to files/hr instead of files/hr/public for chi.\n"
        "\n"
        "Applied.\n"
    )
    assert portico("apply", str(company)).out == NOTHING


def test_a_shared_database(
    portico: Portico, company: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTICO_DATABASE_URL", postgres.new_database())
    applied = portico("apply", str(company), "--yes")
    assert applied.code == 0
    assert applied.out.endswith("set server.public-url.\n")
    assert portico("apply", str(company), "--prune").out == NOTHING
    secret = {**SECRETS, "EXCHANGE_KEY": "b3RoZXI="}
    monkeypatch.setenv("EXCHANGE_KEY", secret["EXCHANGE_KEY"])
    changed = portico("apply", str(company), "--yes")
    assert changed.out == ("Connections\n  ~ exchange: account-key changed\n\nAccess\n  No changes.\n\nApplied.\n")
    company.write_text("users: {scanner: {}}")
    assert portico("apply", str(company), "--prune", "--yes").code == 0
    assert portico("export").out.partition("users:")[2] == "\n  scanner: {}\n"


def test_ctrl_c_at_the_question(anna: Portico, home: Path, tmp_path: Path) -> None:
    file = policy_file(tmp_path, "users: {bo: {}}")
    control, terminal = os.openpty()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-m", "portico", "--home", str(home), "apply", file]
    command = subprocess.Popen(
        words, env=environment, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
    )
    os.close(terminal)
    shown = b""
    while b"Type yes to continue: " not in shown:
        shown += os.read(control, 4096)
    assert b"No changes." in shown
    command.send_signal(signal.SIGINT)
    assert command.wait(20) == 130
    assert b"Interrupted." in os.read(control, 4096)
    os.close(control)
    assert "bo: {}" not in anna("export").out


def test_what_is_exported_changes_nothing(portico: Portico, company: Path, tmp_path: Path) -> None:
    assert portico("apply", str(company), "--yes").code == 0
    exported = portico("export")
    assert not any(secret in exported.out for name, secret in SECRETS.items() if name != "ARCHIVE_KEY_ID")
    assert "secret-access-key: ${stored}\n" in exported.out
    assert portico("apply", policy_file(tmp_path, exported.out), "--prune").out == NOTHING
    schema = portico("export", "--schema").out
    for text in (exported.out, EXAMPLE.read_text()):
        jsonschema.validate(parse(text, Mistakes("")).plain, json.loads(schema))
    assert portico("export").out == exported.out


def test_a_dry_run_changes_nothing(anna: Portico, tmp_path: Path) -> None:
    before = anna("export").out
    file = policy_file(tmp_path, "users: {bo: {mounts: {/: {connection: local, rights: [list]}}}}")
    dry = anna("apply", file, "--dry-run")
    assert dry.out == "Users\n  + bo: mounts: +/\n\nAccess\n  bo gains list on /.\n"
    assert anna("export").out == before
    lines = anna("apply", file, "--dry-run", "--json").lines
    assert lines == [
        {"action": "add", "type": "user", "name": "bo", "details": ["mounts: +/"], "dryRun": True},
        {
            "action": "access",
            "change": "gains",
            "users": ["bo"],
            "rights": ["list"],
            "everything": False,
            "paths": [{"path": "/", "except": []}],
            "before": None,
            "after": None,
            "text": "bo gains list on /.",
            "dryRun": True,
        },
    ]
    invitation = anna("apply", file, "--json", "--yes").lines[-1]
    assert (invitation["action"], invitation["name"]) == ("invite", "bo")
    assert anna("apply", file, "--json").lines == []


def test_without_a_terminal_it_refuses_without_yes(anna: Portico, tmp_path: Path) -> None:
    refused = anna("apply", policy_file(tmp_path, "users: {bo: {}}"))
    assert refused.code == 2
    assert refused.err == "Apply these changes? Standard input is not a terminal: add --yes to confirm.\n"
    assert "+ bo" in refused.out
    assert "bo: {}" not in anna("export").out


@pytest.mark.parametrize(("answer", "code"), [("yes\n", 0), ("no\n", 130), ("", 130)])
def test_on_a_terminal_it_asks(
    anna: Portico, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    monkeypatch.setattr("portico.cli.console.terminal.at_terminal", lambda: True)
    asked = anna("apply", policy_file(tmp_path, "users: {bo: {}}"), stdin=answer)
    assert asked.err.startswith("Apply these changes? Type yes to continue: ")
    assert asked.code == code
    assert ("bo: {}" in anna("export").out) is (code == 0)


def test_standard_input(anna: Portico) -> None:
    assert anna("apply", "-", "--yes", stdin="users: {bo: {}}").code == 0
    assert anna("apply", "-", stdin="users: {bo: {}}").out == NOTHING
    assert anna("apply", "-", stdin="user: {}").err == ("standard input:1: Unknown key 'user'; did you mean 'users'?\n")
    assert anna("apply", "-", stdin="").out == NOTHING
    assert anna("apply", "-", "--prune", stdin="").err == (
        "standard input has no connections, groups or users, so --prune would remove everything that apply has created.\n"
    )


def test_files_that_cannot_be_read(anna: Portico, tmp_path: Path) -> None:
    assert anna("apply", "missing.yaml").err == "missing.yaml: No such file or directory.\n"
    (tmp_path / "x").write_bytes(b"\xff")
    assert anna("apply", str(tmp_path / "x")).err == f"{tmp_path}/x is not valid UTF-8; encode it as UTF-8.\n"
    os.truncate(tmp_path / "x", 5 * 1024 * 1024)
    assert anna("apply", str(tmp_path / "x")).err == f"{tmp_path}/x is larger than 4 MiB; split it.\n"


def test_passwords_of_new_users(anna: Portico, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = policy_file(tmp_path, "users:\n  bo: {password: '${env:BO}'}\n  anna: {password: '${env:ANNA}'}")
    missing = anna("apply", file, "--yes")
    assert missing.err == f"{file}:2: The environment variable BO isn't set; set it and try again.\n"
    monkeypatch.setenv("BO", "x")
    assert anna("apply", file, "--yes").err.startswith(f"{file}:2: A password must have ")
    monkeypatch.setenv("BO", PASSWORD)
    applied = anna("apply", file, "--yes")
    assert applied.code == 0
    assert "invite#" not in applied.out
    monkeypatch.delenv("BO")  # for who is there, it isn't looked at
    assert anna("apply", file, "--yes").out == NOTHING


def test_pruning(anna: Portico, tmp_path: Path) -> None:
    file = policy_file(
        tmp_path,
        "groups: {g: {members: [bo, anna], mounts: {/g: {connection: local, folder: /g, rights: [list]}}}}\n"
        "users: {bo: {}, carl: {}}",
    )
    assert anna("apply", file, "--yes").code == 0
    assert anna("key", "add", "bo", "--name", "backup").code == 0
    file = policy_file(tmp_path, "users: {carl: {}}")
    assert anna("apply", file).out == NOTHING
    pruned = anna("apply", file, "--prune", "--yes")
    assert pruned.out == (
        "Groups\n  - g\n\nUsers\n  - bo: ends 1 API key (backup)\n\nAccess\n"
        "  anna gains download, upload and overwrite on /g.\n"
        "  bo loses all access to /g.\n"
        "  /g leads to local/{user}/g instead of local/g for anna.\n\nApplied.\n"
    )
    assert re.findall(r"^  (\w+):", anna("export").out.partition("users:")[2], re.M) == ["anna", "carl"]


def test_local_folders_are_checked_as_by_connection_add(anna: Portico, tmp_path: Path) -> None:
    text = f"connections: {{new: {{kind: local, options: {{folder: {tmp_path}/new}}}}}}"
    file = policy_file(tmp_path, text)
    missing = anna("apply", file, "--yes")
    assert missing.code == 0
    assert missing.err.startswith(f"Warning: The folder {tmp_path}/new of the connection new ")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / ".portico~volume").write_text("damaged\n\n")
    file = policy_file(tmp_path, text.replace("new:", "newer:"))
    damaged = anna("apply", file, "--yes")
    assert damaged.code == 1
    assert "remove that file, or choose another folder" in damaged.err
    (tmp_path / "new" / ".portico~volume").unlink()
    assert anna("apply", file, "--yes").err == ""
    assert (tmp_path / "new" / ".portico~volume").exists()


def test_a_folder_that_has_files_already(anna: Portico, home: Path, tmp_path: Path) -> None:
    file = policy_file(
        tmp_path,
        "groups:\n  g: {members: [bo], mounts: {/home: {connection: local, folder: '/homes/{user}', rights: [list]}}}\n"
        "users:\n  bo: {}",
    )
    (home / "files" / "homes" / "bo").mkdir(parents=True)
    (home / "files" / "homes" / "bo" / "old.txt").touch()
    sentence = (
        "These folders already have files: /homes/bo in local (for 'bo'). "
        "If these files are meant for the user, add --existing-folder.\n"
    )
    dry = anna("apply", file, "--dry-run")
    assert (dry.code, dry.err) == (0, f"Warning: {sentence}")
    refused = anna("apply", file, "--yes")
    assert (refused.code, refused.err) == (1, sentence)
    assert "bo: {}" not in anna("export").out
    assert anna("apply", file, "--yes", "--existing-folder").code == 0
    assert anna("apply", file, "--yes").out == NOTHING
    # The user has the folder already.
    policy_file(
        tmp_path, "users:\n  bo: {mounts: {/mine: {connection: local, folder: '/homes/{user}', rights: [list]}}}"
    )
    assert anna("apply", file, "--yes").code == 0


def test_a_home_that_is_reached_by_a_link(anna: Portico, home: Path, tmp_path: Path) -> None:
    real = tmp_path / "real"
    home.rename(real)
    home.symlink_to(real)
    file = policy_file(tmp_path, f"connections: {{local: {{kind: local, options: {{folder: {real}/files}}}}}}")
    assert anna("apply", file).out == NOTHING


def test_audit_lines(anna: Portico, home: Path, tmp_path: Path) -> None:
    file = policy_file(tmp_path, "groups: {g: {members: [anna]}}\nusers: {bo: {}}")
    assert anna("apply", file, "--yes").code == 0
    policy_file(tmp_path, "groups: {g: {members: []}}\nusers: {bo: {disabled: true}}")
    assert anna("apply", file, "--yes").code == 0
    lines = audit_lines((home / "audit.log").read_text())
    assert [(each["action"], each["subject"], each.get("changed"), each["outcome"]) for each in lines][-4:] == [
        ("group.add", "g", None, "done"),
        ("user.add", "bo", None, "done"),
        ("group.set", "g", ["members"], "done"),
        ("user.set", "bo", ["disabled"], "done"),
    ]


def test_state_that_changed_since_the_plan(
    anna: Portico, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    def meanwhile(question: str, *, yes: bool) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "portico", "--home", str(home), "user", "disable", "anna"]
        subprocess.run(command, check=True, env=environment, capture_output=True)

    monkeypatch.setattr(apply, "confirm", meanwhile)
    changed = anna("apply", policy_file(tmp_path, "users: {bo: {}}"))
    assert changed.code == 1
    assert changed.err == "Connections, groups or users have changed in the meantime. Run the command again.\n"
    assert "bo: {}" not in anna("export").out


def running(home: Path, *arguments: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "portico", "--home", str(home), *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_at_once(anna: Portico, home: Path, tmp_path: Path) -> None:
    """One wins, and the other either finds its plan out of date or changes what the first one made."""
    files = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        users = "\n".join(f"  {name}{number}: {{}}" for number in range(20))
        text = f"groups:\n  g: {{members: [{name}0], mounts: {{/{name}: {{connection: local, rights: [list]}}}}}}\nusers:\n{users}"
        files.append(policy_file(tmp_path / name, text))
    commands = [running(home, "apply", file, "--yes") for file in files]
    outcomes = [(*command.communicate(timeout=60), command.returncode) for command in commands]
    assert 0 in {code for *_, code in outcomes}
    for _, error, code in outcomes:
        assert code == 0 or "have changed in the meantime" in error
    exported = anna("export").out
    [path] = re.findall(r"^      /(\w+): ", exported.partition("groups:")[2].partition("users:")[0], re.M)
    assert f"members: [{path}0]" in exported


@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.thorough)])
def test_killed_while_it_applies(anna: Portico, home: Path, tmp_path: Path, kills: int) -> None:
    names = [f"u{number}" for number in range(60)]

    def file(rights: str) -> str:
        users = "\n".join(f"  {name}: {{mounts: {{/: {{connection: local, rights: [{rights}]}}}}}}" for name in names)
        group = f"  {rights}: {{members: [{', '.join(names)}]}}"
        return policy_file(tmp_path, f"groups:\n{group}\nusers:\n{users}\n")

    assert anna("apply", file("list"), "--yes").code == 0
    had, random = "list", Random(27)
    for _ in range(kills):
        wanted = "download" if had == "list" else "list"
        command = running(home, "apply", file(wanted), "--prune", "--yes")
        assert command.stdout
        assert command.stdout.readline() == "Groups\n", "the plan: it is about to be applied"
        try:
            command.wait(random.uniform(0, 0.6))
        except subprocess.TimeoutExpired:
            command.send_signal(signal.SIGKILL)
        command.communicate()
        groups, _, users = anna("export").out.partition("groups:")[2].partition("users:")
        [had] = re.findall(r"^  (\w+):$", groups, re.M)
        assert users.count(f"/: {{connection: local, rights: [{had}]}}") == len(names)
    assert anna("apply", file("upload"), "--prune", "--yes").code == 0
    assert anna("apply", file("upload"), "--prune").out == NOTHING
