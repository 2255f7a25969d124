"""`portico completion`: what could come next on a command line, paths at the gateway included.

The scripts hand over the line up to the cursor. They get back the words that could stand in place of its last one, or
are told to offer local files.
"""

import contextlib
import os
import re
from argparse import Namespace
from collections.abc import Iterable, Iterator

from portico.cli.exits import DONE, UsageMistake
from portico.cli.remote.arguments import SHELLS, parser_of
from portico.cli.remote.scripts import SCRIPTS
from portico.client import profiles

FILES = ":files"
"""In place of a word: local files could come here."""

_SECONDS = 3.0
_MOST = 1000
_GROUPS = {
    "user": "add set list show password disable enable delete",
    "connection": "add set list show test delete",
    "config": "check",
    "sync": "up down",
    "completion": " ".join(SHELLS),
}
_REMOTE = ("ls", "cat", "mkdir", "mv", "cp", "rm")
_FILE_OPTIONS = ("--home", "--ca")


def completion(options: Namespace) -> int:
    if options.line is None:
        if options.shell is None:
            raise UsageMistake(f"Name the shell: {', '.join(SHELLS)}.")
        print(SCRIPTS[options.shell], end="")
        return DONE
    # Whoever is typing wants no complaints between the letters.
    with (
        contextlib.suppress(Exception),
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stderr(nowhere),
    ):
        for word in candidates(words_of(options.line)):
            print(word)
    return DONE


def words_of(line: str) -> list[str]:
    """The words of a command line up to the cursor, as the shell would read them; the last may be unfinished."""
    words: list[str] = [""]
    quote = ""
    for part in re.finditer(r"\\(.)|(['\"])|(\s+)|(.)", line, re.DOTALL):
        escaped, mark, blank, sign = part.groups()
        if escaped is not None:
            words[-1] += escaped if quote != "'" else f"\\{escaped}"
        elif mark and quote in ("", mark):
            quote = "" if quote else mark
        elif blank and not quote:
            words.append("")
        else:
            words[-1] += mark or blank or sign
    return words


def candidates(words: list[str]) -> Iterator[str]:
    """Whole words that could stand in place of the last."""
    from portico.cli.main import COMMANDS

    *before, current = words[1:] or [""]
    if before and before[-1] in _FILE_OPTIONS:
        yield FILES
        return
    if before and before[-1] == "--profile":
        yield from _beginning(profiles.names(), current)
        return
    command = next((word for word in before if word in COMMANDS), None)
    if command is None:
        yield from _beginning(COMMANDS, current)
        return
    arguments = _arguments(before[before.index(command) + 1 :])
    if current.startswith("-"):
        if not COMMANDS[command].needs_server:
            yield from _beginning(sorted(parser_of(command)._option_string_actions), current)
    elif command in _GROUPS and not arguments:
        yield from _beginning(_GROUPS[command].split(), current)
    else:
        yield from _paths(command, arguments, current, _named_profile(before))


def _paths(command: str, arguments: list[str], current: str, profile: str | None) -> Iterator[str]:
    if command in _REMOTE:
        here = False
    elif command == "sync":
        here = arguments[0] == ("up" if len(arguments) == 1 else "down")
    elif command == "put":  # a slash in front: more likely the target than one more source
        here = not arguments or not (current == "" or current.startswith("/"))
    elif command == "get":
        here = bool(arguments) and not current.startswith("/")
    else:
        return
    if here:
        yield FILES
    else:
        yield from _remote(current, profile)


def _remote(current: str, profile: str | None) -> Iterator[str]:
    """Paths at the gateway that begin like this; folders end with a slash."""
    from portico.cli.remote.opening import connect

    folder, slash, prefix = current.rpartition("/")
    with connect(Namespace(profile=profile), timeout=_SECONDS, attempts=1) as client:
        found = 0
        for entry in client.list(f"{folder}/"):
            if entry.name.startswith(prefix):
                yield f"{folder}{slash or '/'}{entry.name}{'/' * entry.is_folder}"
                found += 1
                if found == _MOST:
                    return


def _arguments(words: list[str]) -> list[str]:
    """Those that are neither options nor values of options."""
    return [
        word
        for before, word in zip(["", *words], words, strict=False)
        if not word.startswith("-")
        and before not in ("--profile", "--jobs", "-j", "--user", "-u", *_FILE_OPTIONS)
    ]


def _named_profile(words: list[str]) -> str | None:
    at = words.index("--profile") + 1 if "--profile" in words else len(words)
    return words[at] if at < len(words) else None


def _beginning(words: Iterable[str], current: str) -> Iterator[str]:
    return (word for word in words if word.startswith(current))
