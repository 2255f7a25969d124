"""Names with direction overrides and invisible characters, in everything that commands print."""

import json
from pathlib import Path

from ...names import DECEPTIVE, HONEST
from ..conftest import Portico

LIE, SHOWN = next(iter(DECEPTIVE.items()))


def test_names_are_shown_for_what_they_are(remote: Portico, there: Path, here: Path) -> None:
    there.mkdir(exist_ok=True)
    (there / LIE).mkdir()
    for name in (LIE, *HONEST):
        (there / LIE / name).write_text("x")
    (here / LIE).write_text("y")
    (here / "into").mkdir()
    commands: list[tuple[str, ...]] = [
        ("ls",),
        ("ls", "-l", LIE, "/"),
        ("ls", "-R"),
        ("find", "--name", "*fdp*"),
        ("sync", "up", ".", f"/{LIE}", "--delete", "--dry-run"),
        ("sync", "down", "/", "into", "--dry-run"),
        ("get", LIE, "into", "--dry-run"),
        ("get", "--zip", LIE, "into"),
        ("put", LIE, f"/{LIE}/", "--rename"),
        ("put", LIE, f"/{LIE}", "--dry-run"),
        ("cp", f"/{LIE}/{LIE}", f"/{LIE}/{HONEST[0]}", "--no-clobber"),
        ("rm", LIE),
        ("rm", "-r", LIE, "--dry-run"),
        ("rm", f"{LIE}/none{LIE}"),
        ("cat", LIE),
        ("rm", f"{LIE}/{LIE}"),
        ("trash", "list"),
        ("trash", "restore", f"/{LIE}/{LIE}"),
        ("trash", "restore", f"/{LIE}"),
    ]
    for command in commands:
        outcome = remote(*command)
        text = outcome.out + outcome.err
        assert "\u202e" not in text, command
        if outcome.err or outcome.out:
            assert SHOWN in text, (command, text)
    for name in HONEST:
        assert name in remote("ls", LIE).out.splitlines()
    listed = [json.loads(line)["name"] for line in remote("ls", "--json", LIE).out.splitlines()]
    assert LIE in listed
