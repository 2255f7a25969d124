"""`portico key`, and `portico user invite`."""

import re
from pathlib import Path

from portico.accounts.api_keys import is_key
from portico.cli.administration import home as homes

from .conftest import Portico


def test_keys_are_added_shown_and_ended(anna: Portico, home: Path) -> None:
    assert anna("key", "list").out.startswith("There are no keys yet")
    scope = ("--rights", "list,upload", "--folder", "in", "--addresses", "10.0.0.0/8 ::1", "--expires", "90d")
    added = anna("key", "add", "ANNA", "--name", "backup", *scope)
    [text] = re.findall(r"shown only once: (\S+)\n", added.out)
    assert is_key(text)
    [key] = anna("key", "list", "--json").lines
    assert {**key, "id": "", "expiresAt": ""} == {
        "user": "anna",
        "id": "",
        "name": "backup",
        "rights": ["list", "upload"],
        "folder": "/in",
        "addresses": ["10.0.0.0/8", "::1/128"],
        "expiresAt": "",
        "lastUsedAt": None,
        "lastUsedFrom": None,
    }
    assert is_key(anna("key", "add", "anna", "--name", "all", "--json").data["key"])
    assert anna("key", "end", "anna", key["id"]).out == "Ended the key backup of ANNA.\n".replace("ANNA", "anna")
    assert [each["name"] for each in anna("key", "list", "anna", "--json").lines] == ["all"]
    for words, sentence in (
        (("key", "add", "anna"), "--name is missing"),
        (("key", "add", "bob", "--name", "x"), "The user 'bob' doesn't exist"),
        (("key", "add", "anna", "--name", "x", "--rights", "fly"), "'fly' is not a right"),
        (("key", "add", "anna", "--name", "x", "--addresses", "here"), "not a valid address or range"),
        (("key", "add", "anna", "--name", "x", "--expires", "soon"), "must be seconds or a time"),
        (
            ("key", "end", "anna", key["id"]),
            f"anna has no key '{key['id']}'; list the ids with 'portico key list anna'",
        ),
        (("key", "end", "anna", "all"), "'all' is the key's name, but its id is needed: portico key end anna "),
        (("key", "end", "all"), "ID is missing; list the ids with 'portico key list USER'"),
    ):
        outcome = anna(*words)
        assert outcome.code != 0
        assert sentence in outcome.err
    assert text not in b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file()).decode("latin-1")


def test_an_invitation_does_not_hide_that_its_address_is_local(anna: Portico, home: Path) -> None:
    """As after `serve --host 0.0.0.0 --tls auto`, and in a container."""
    url = "https://127.0.0.1:8443"
    homes.remember_address(home, url, is_local=True)
    shown = anna("user", "invite", "anna").out
    assert f"7 days: {url}/invite#" in shown
    assert f"{url} works only on the gateway's machine; replace it with your gateway's address" in shown
    assert "server.public-url" in shown
    homes.remember_address(home, url)
    assert "server.public-url" not in anna("user", "invite", "anna").out


def test_an_invitation_is_a_link(anna: Portico, home: Path) -> None:
    added = anna("user", "add", "bob", "--invite")
    assert added.code == 0, added.err
    [first] = re.findall(r"7 days: /invite#(\S{43})\n", added.out)
    with (home / "application.properties").open("a") as properties:
        properties.write("\nserver.public-url=https://files.example.com\n")
    [second] = re.findall(r"7 days: https://files\.example\.com/invite#(\S{43})\n", anna("user", "invite", "BOB").out)
    assert first != second
    assert "server.public-url" not in anna("user", "invite", "bob").out
    assert "The user" in anna("user", "invite", "carol").err
    anna("user", "disable", "bob")
    assert "is disabled" in anna("user", "invite", "bob").err
    assert anna("user", "add", "carol", "--invite", "--generate").code != 0
