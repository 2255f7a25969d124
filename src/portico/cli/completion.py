"""`portico completion`: what the shell offers for the next word, including paths on the gateway.

The scripts pass the line up to the cursor, and get the candidates for its last word, or `:files` for local files.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace

from portico.cli.console.exits import UsageMistake
from portico.cli.console.parser import Argument, Command, Group, Parser, argument, one_of, option

BASH = r"""# Completion of portico for bash.
_portico() {
    local line=${COMP_LINE:0:COMP_POINT} current=${COMP_WORDS[COMP_CWORD]} word cut
    COMPREPLY=()
    # bash also splits words at colons and equals signs; the part before the last of them is already on the line.
    cut=${line##*[[:space:]]}
    cut=${cut%"$current"}
    while IFS= read -r word; do
        if [[ $word == :files ]]; then
            compopt -o filenames 2>/dev/null
            while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
            continue
        fi
        [[ $word == */ ]] && compopt -o nospace 2>/dev/null
        if [[ $current != [\"\']* ]]; then printf -v word %q "$word"; fi
        COMPREPLY+=("${word#"$cut"}")
    done < <(command portico completion --line="$line" 2>/dev/null)
}
complete -F _portico portico
"""
ZSH = r"""# Completion of portico for zsh.
_portico() {
    local -a words_found folders
    local word
    for word in "${(@f)$(command portico completion --line="${LBUFFER}" 2>/dev/null)}"; do
        case $word in
            '') ;;
            :files) _files ;;
            */) folders+=("$word") ;;
            *) words_found+=("$word") ;;
        esac
    done
    (( $#folders )) && compadd -S '' -- "${folders[@]}"
    (( $#words_found )) && compadd -- "${words_found[@]}"
}
compdef _portico portico
"""
FISH = r"""# Completion of portico for fish.
function __portico_candidates
    for word in (command portico completion --line=(commandline -cp) 2>/dev/null)
        if test "$word" = ":files"
            __fish_complete_path (commandline -ct)
        else
            echo $word
        end
    end
end
complete -c portico -f -a '(__portico_candidates)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
FILES = ":files"
"""In place of a word: complete local files."""

_TIMEOUT_SECONDS = 3.0
_MAX_CANDIDATES = 1000
_REMOTE_PATHS = ("ls", "find", "cat", "mkdir", "mv", "cp", "rm")
_HOME = "--home"


def completion(options: SimpleNamespace) -> None:
    if options.line is None:
        if options.shell is None:
            raise UsageMistake(f"The shell is missing; use one of {', '.join(SCRIPTS)}.")
        print(SCRIPTS[options.shell], end="")
        return
    # Errors must not appear between the letters of somebody who is typing.
    with contextlib.suppress(Exception), open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        for word in candidates(words_of(options.line)):
            print(word)


def words_of(line: str) -> list[str]:
    """The words of a command line, split as a shell does; the last one may be unfinished."""
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
    """The whole words that could replace the last one."""
    from portico.cli.commands import COMMANDS, load

    *before, current = words[1:] or [""]
    if before and before[-1] == _HOME:
        yield FILES
        return
    before = _without_home(before)
    if not before:
        yield from _beginning(COMMANDS, current)
        return
    name, *rest = before
    command = load(name)
    if isinstance(command, Group):
        if not rest:
            yield from _beginning(command.commands, current)
            return
        command, rest = command.commands[rest[0]], rest[1:]
    yield from _of_command(name, Parser(command, name), rest, current)


def _of_command(name: str, parser: Parser, before: list[str], current: str) -> Iterator[str]:
    with_value = {option: action for option, action in parser.options.items() if not action.is_flag}
    if before and before[-1] in with_value:
        yield from _values(with_value[before[-1]], current)
        return
    if current.startswith("-"):
        yield from _beginning(sorted(name for name, option in parser.options.items() if not option.hidden), current)
        return
    arguments = _arguments(before, with_value)
    if len(arguments) < len(parser.arguments):
        yield from _values(parser.arguments[len(arguments)], current)
    else:
        yield from _paths(name, arguments, current, _value_of("--profile", before))


def _values(option: Argument, current: str) -> Iterable[str]:
    if option.metavar == "FILE":
        return [FILES]
    if option.dest == "profile":
        from portico.client.auth import profiles

        return _beginning(profiles.names(), current)
    return _beginning(option.choices, current)


def _paths(command: str, arguments: list[str], current: str, profile: str | None) -> Iterator[str]:
    if command in _REMOTE_PATHS:
        local = False
    elif command == "sync":
        local = arguments[0] == ("up" if len(arguments) == 1 else "down")
    elif command == "put":  # a leading slash: more likely the target than another source
        local = not arguments or not (current == "" or current.startswith("/"))
    elif command == "get":
        local = bool(arguments) and not current.startswith("/")
    else:
        return
    if local:
        yield FILES
    else:
        yield from _remote(current, profile)


def _remote(current: str, profile: str | None) -> Iterator[str]:
    """Paths on the gateway with this prefix; folders end with a slash."""
    from portico.cli.remote.connect import connect

    folder, slash, prefix = current.rpartition("/")
    with connect(SimpleNamespace(profile=profile), timeout=_TIMEOUT_SECONDS, attempts=1) as client:
        found = 0
        for entry in client.list(f"{folder}/"):
            if entry.name.startswith(prefix):
                yield f"{folder}{slash or '/'}{entry.name}{'/' * entry.is_folder}"
                found += 1
                if found == _MAX_CANDIDATES:
                    return


def _arguments(words: list[str], with_value: Mapping[str, object]) -> list[str]:
    """The words that are neither options nor values of options."""
    return [
        word
        for before, word in zip(["", *words], words, strict=False)
        if not word.startswith("-") and before not in with_value
    ]


def _without_home(words: list[str]) -> list[str]:
    at = words.index(_HOME) if _HOME in words else len(words)
    return [word for word in words[:at] + words[at + 2 :] if not word.startswith(f"{_HOME}=")]


def _value_of(option: str, words: list[str]) -> str | None:
    at = words.index(option) + 1 if option in words else len(words)
    return words[at] if at < len(words) else None


def _beginning(words: Iterable[str], current: str) -> Iterator[str]:
    return (word for word in words if word.startswith(current))


_SHELL = one_of(tuple(SCRIPTS), "Completion isn't available for {}; use bash, zsh or fish.")
_OPTIONS = (
    argument("shell", "SHELL", optional=True, choices=tuple(SCRIPTS), convert=_SHELL, help="bash, zsh or fish."),
    option("--line", hidden=True, metavar="TEXT", help="The line up to the cursor, for the scripts."),
)


COMMANDS = {
    "completion": Command(
        completion,
        "Print a script that completes commands, options and paths on the gateway.",
        _OPTIONS,
        '  bash:  eval "$(portico completion bash)"    in ~/.bashrc\n'
        '  zsh:   eval "$(portico completion zsh)"     in ~/.zshrc, after compinit\n'
        "  fish:  portico completion fish | source     in ~/.config/fish/config.fish",
    )
}
