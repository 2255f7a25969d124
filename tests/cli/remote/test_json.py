"""`--json` has one form, whatever the command: an object per line, names in camelCase, times in UTC with a Z."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from portico.cli.commands import COMMANDS, load
from portico.cli.console.parser import Command, Group, Parser

from ...gateways import FILES, Gateway
from ..conftest import Portico
from .conftest import make

_NAME = re.compile("[a-z][a-zA-Z0-9]*")
_OPTION = re.compile("[a-z-]+")
"""What the keys of a connection's `options` look like: they are data."""
_LIKE_A_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:.*")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")


@pytest.fixture
def home(running: Gateway) -> Path:
    return running.home


@pytest.fixture(scope="module")
def users(running: Gateway) -> Iterator[None]:
    """`web` may share, and there is a `guest`."""
    running.command("user", "set", "web", "--rights", "list,download,upload,overwrite,share")
    running.command("user", "add", "guest", "--generate")
    yield
    running.command("user", "set", "web", "--rights", "list,download,upload,overwrite")
    running.command("user", "delete", "guest")


@pytest.fixture
def web(users: None, remote: Portico, gateway: Gateway, there: Path, here: Path) -> Portico:
    """The command, on the gateway's own home and signed in as `web`, with some files."""
    make(there, a="a", b="b", folder__c="c")
    (here / "up" / "empty").mkdir(parents=True)
    make(here / "up", d="d")
    return remote


def _link(web: Portico) -> str:
    return str(web("share", "add", "/a.txt", "--expires", "7d", "--json").data["id"])


def _opened_link(web: Portico) -> str:
    from portico.client import Client

    link = web("share", "add", "/a.txt", "--json").data
    url, _, _ = link["address"].partition("/s/")
    with Client(url) as guest:
        guest.open_link(link["address"], name="Anna")
    return str(link["id"])


def _with_receipt(web: Portico) -> list[str]:
    assert web("receipt", "key").code == 0
    Path("receipt").write_text(web("put", "--json", "up/d.txt", "/d.txt").out)
    return ["receipt", "verify", "up/d.txt", "receipt"]


def _with_policy(web: Portico) -> list[str]:
    Path("policy.yaml").write_text("users:\n  made:\n    expires: 2040-01-31\n")
    return ["apply", "policy.yaml", "--yes"]


def _after(first: str, then: str) -> Callable[[Portico], list[str]]:
    def prepared(web: Portico) -> list[str]:
        outcome = web(*first.split())
        assert outcome.code == 0, outcome.err
        return then.split()

    return prepared


CALLS: dict[str, list[str] | Callable[[Portico], list[str]]] = {
    "user add": ["user", "add", "json", "--invite"],
    "user list": ["user", "list"],
    "user show": ["user", "show", "web"],
    "user password": ["user", "password", "guest", "--password-stdin"],
    "user invite": ["user", "invite", "guest"],
    "group list": _after("group add team --expires 9d", "group list"),
    "group show": _after("group add crew --expires 9d", "group show crew"),
    "mount list": ["mount", "list"],
    "apply": _with_policy,
    "explain": ["explain", "web", "/a.txt"],
    "who": ["who", "local", "/web"],
    "key add": ["key", "add", "web", "--name", "k", "--expires", "1d"],
    "key list": _after("key add web --name l --expires 1d", "key list"),
    "connection list": ["connection", "list"],
    "connection show": ["connection", "show", "local"],
    "connection test": ["connection", "test", "local"],
    "uploads list": ["uploads", "list"],
    "audit list": ["audit", "list"],
    "audit verify": ["audit", "verify"],
    "rewind": _after("rm /a.txt", "rewind --user web --since 1h --dry-run"),
    "held list": _after("rm --permanent /a.txt", "held list"),
    "cluster show": ["cluster", "show"],
    "whoami": ["whoami"],
    "ls": ["ls", "-R", "/"],
    "find": ["find", "/", "--name", "txt"],
    "put": ["put", "-r", "up", "/new"],
    "get": ["get", "-r", "/folder", "."],
    "sync": ["sync", "up", "--delete", "up", "/folder"],
    "mkdir": ["mkdir", "/made"],
    "mv": ["mv", "/a.txt", "/moved.txt"],
    "cp": ["cp", "-r", "/folder", "/copied"],
    "rm": ["rm", "-r", "/folder", "/a.txt"],
    "jobs list": ["jobs", "list"],
    "trash list": _after("rm /a.txt", "trash list"),
    "trash restore": _after("rm /a.txt", "trash restore /a.txt"),
    "share add": ["share", "add", "/a.txt", "--expires", "7d"],
    "share list": _after("share add /a.txt --expires 7d", "share list"),
    "share address": lambda web: ["share", "address", _link(web)],
    "share log": lambda web: ["share", "log", _opened_link(web)],
    "receipt verify": _with_receipt,
}
MORE = {
    "put --dry-run": ["put", "--dry-run", "-r", "up", "/new"],
    "get --dry-run": ["get", "--dry-run", "-r", "/folder", "."],
    "get --zip": ["get", "--zip", "/folder", "."],
    "get --zip --dry-run": ["get", "--zip", "--dry-run", "/folder", "."],
    "sync down": ["sync", "down", "--delete", "/folder", "up"],
    "sync --dry-run": ["sync", "up", "--dry-run", "--delete", "up", "/folder"],
    "rm --dry-run": ["rm", "--dry-run", "-r", "/folder"],
}


def commands() -> Iterator[tuple[str, Command]]:
    for name in COMMANDS:
        command = load(name)
        if isinstance(command, Group):
            yield from ((f"{name} {each}", one) for each, one in command.commands.items())
        else:
            yield name, command


def test_every_command_with_the_option_is_tried() -> None:
    assert {name for name, command in commands() if "--json" in Parser(command, name).options} == {*CALLS}


def test_the_option_is_the_same_everywhere() -> None:
    options = [Parser(command, name).options.get("--json") for name, command in commands()]
    assert {(option.dest, option.help) for option in options if option} == {
        ("as_json", "Print JSON, one object per line.")
    }


@pytest.mark.parametrize("name", [*CALLS, *MORE])
def test_each_line_is_an_object_of_the_same_form(web: Portico, gateway: Gateway, name: str) -> None:
    with gateway.signed_in() as client:
        client.post(
            "/backend/1.0.0/uploads",
            headers={
                "Tus-Resumable": "1.0.0",
                "Upload-Length": "10",
                "Upload-Metadata": "path L3VwbG9hZC5iaW4=,filename dXBsb2FkLmJpbg==",
            },
        ).raise_for_status()
        client.post(
            f"{FILES}/folder", params={"action": "COPY", "target": "/job"}, headers={"Prefer": "respond-async, wait=0"}
        ).raise_for_status()
    call = (CALLS | MORE)[name]
    words = call(web) if callable(call) else call
    outcome = web(*words, "--json", stdin="another password")
    assert outcome.code == 0, outcome.err
    assert outcome.lines, "there is data to look at"
    for line in outcome.lines:
        assert isinstance(line, dict), "an object"
        check(line)
    if "--dry-run" in words:
        assert all(line["dryRun"] for line in outcome.lines)


def check(value: Any, names: re.Pattern[str] = _NAME) -> None:
    if isinstance(value, dict):
        for name, each in value.items():
            assert names.fullmatch(name), f"{name} is not in camelCase"
            check(each, _OPTION if name == "options" else _NAME)
    elif isinstance(value, list):
        for each in value:
            check(each)
    elif isinstance(value, str) and _LIKE_A_TIME.fullmatch(value):
        assert _TIME.fullmatch(value), f"{value} is not in UTC with milliseconds"


def test_content_and_facts_do_not_share_standard_output(web: Portico) -> None:
    for words in (("get", "/a.txt", "-"), ("get", "--zip", "/folder", "-")):
        outcome = web(*words, "--json")
        assert (outcome.code, outcome.out) == (2, "")
        assert "--json can't be combined with standard output" in outcome.err


def test_deceptive_names_are_escaped(web: Portico, there: Path) -> None:
    name = "Rechnung\u202efdp.exe"
    (there / name).touch()
    outcome = web("find", "--name", "Rechnung", "--json")
    assert "Rechnung\\u202efdp.exe" in outcome.out
    assert outcome.data["name"] == name
