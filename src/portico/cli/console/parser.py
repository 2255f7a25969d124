"""The argument parser of all commands.

It is not argparse's, whose messages and usage lines differ between versions of Python.
"""

import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

from portico.cli.console.exits import UsageMistake

_OPTION = re.compile(r"--?[^\s\d]")
"""How options start. Other words with a dash, such as `-`, `-1` and `- notes.txt`, are arguments."""
HOME_HELP = "The gateway's home folder. Default: PORTICO_HOME, or your user data folder."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Argument:
    """An option, or a positional argument."""

    names: tuple[str, ...] = ()
    """The spellings of an option."""
    dest: str
    help: str
    metavar: str = ""
    default: Any = None
    is_flag: bool = False
    repeatable: bool = False
    hidden: bool = False
    """Accepted, but not in the help."""
    missing: str = ""
    """The error if it is not given; empty if it is optional."""
    choices: Sequence[str] = ()
    """What completion offers; `convert` checks."""
    convert: Callable[[str], Any] = str
    """Turns the text into the value; raises `UsageMistake`."""

    @property
    def name(self) -> str:
        return self.names[-1] if self.names else self.metavar


def option(*names: str, dest: str = "", **fields: Any) -> Argument:
    return Argument(names=names, dest=dest or names[-1].removeprefix("--").replace("-", "_"), **fields)


def flag(*names: str, **fields: Any) -> Argument:
    return option(*names, is_flag=True, default=False, **fields)


def argument(dest: str, metavar: str, *, optional: bool = False, **fields: Any) -> Argument:
    if not optional:
        fields.setdefault("missing", f"{metavar} is missing")
    return Argument(dest=dest, metavar=metavar, **fields)


def whole_number(name: str, most: int) -> Callable[[str], int]:
    """What converts the value of the option `name`: a number from 1 on."""

    def convert(text: str) -> int:
        if text.isascii() and text.isdecimal() and len(text) <= len(str(most)) and 1 <= int(text) <= most:
            return int(text)
        raise UsageMistake(f"{name} must be a whole number from 1 to {most}.")

    return convert


def one_of(words: Sequence[str], mistake: str) -> Callable[[str], str]:
    """What converts a value that must be one of the words; `mistake` says so, with `{}` for what was given."""

    def convert(text: str) -> str:
        if text not in words:
            raise UsageMistake(mistake.format(repr(text)))
        return text

    return convert


class Paths(NamedTuple):
    """Any number of paths, or of what the `noun` says, but `at_least` so many."""

    usage: str
    help: Mapping[str, str]
    at_least: int
    noun: str = "path"


class Exclusive(NamedTuple):
    """Two flags, such as `--no-clobber` and `--rename`, that exclude each other."""

    first: str
    second: str


class Command(NamedTuple):
    run: Callable[[SimpleNamespace], int | None]
    """Does the work; returns the exit code, None for success."""
    description: str
    arguments: Sequence[Argument | Paths | Exclusive] = ()
    epilog: str = ""
    short_help: bool = True
    """Whether `-h` means `--help`."""
    defaults: Mapping[str, Any] = {}
    """Options that the work looks at, and that this command does not have."""


class Parser:
    def __init__(self, command: Command, prog: str, *, with_home: bool = False) -> None:
        """`with_home` describes `--home`, which is taken out of the words before they are parsed."""
        self.prog, self.description, self.epilog = prog, command.description, command.epilog
        self._help = flag(*(["-h"] if command.short_help else []), "--help", help="Show this help.")
        home = [option("--home", metavar="DIR", help=HOME_HELP)] if with_home else []
        declared = [self._help, *command.arguments, *home]
        known = [each for each in declared if isinstance(each, Argument)]
        self.options = {name: each for each in known for name in each.names}
        self.arguments = [each for each in known if not each.names]
        """The positional arguments before the paths."""
        self.paths = next((each for each in declared if isinstance(each, Paths)), None)
        self.exclusive = [
            (self.options[each.first], self.options[each.second]) for each in declared if isinstance(each, Exclusive)
        ]
        self._defaults = command.defaults

    def parse(self, words: Sequence[str]) -> SimpleNamespace | None:
        """The options and arguments, in any order; None if help is wanted instead. After `--`, there are no options."""
        end = words.index("--") if "--" in words else len(words)
        if any(word in self._help.names for word in words[:end]):
            return None
        known = [*self.options.values(), *self.arguments]
        options = SimpleNamespace(**{each.dest: each.default for each in known} | dict(self._defaults))
        texts: list[str] = []
        given: set[Argument] = set()
        waiting = list(words[:end])[::-1]
        while waiting:
            word = waiting.pop()
            if not _OPTION.match(word):
                texts.append(word)
                continue
            for option, text in self._options_of(word, words[:end]):
                given.add(option)
                value = self._value(option, text, waiting)
                value = [*getattr(options, option.dest), value] if option.repeatable else value
                setattr(options, option.dest, value)
        self._store_arguments(options, [*texts, *words[end + 1 :]], given)
        for first, second in self.exclusive:
            if getattr(options, first.dest) and getattr(options, second.dest):
                self.error(f"{first.name} and {second.name} can't be combined")
        return options

    def error(self, message: str) -> NoReturn:
        raise UsageMistake(usage_sentence(message, self.prog))

    def _options_of(self, word: str, words: Sequence[str]) -> Iterable[tuple[Argument, str | None]]:
        """The options in a word, such as `--jobs=4`, `-j4` or `-rn`, each with its value if the word has one."""
        name, separator, text = word.partition("=")
        if name in self.options:
            yield self.options[name], text if separator else None
            return
        if word.startswith("--") or f"-{name}" in self.options:
            self._no_such_option(name, words)
        for index, letter in enumerate(word[1:], start=2):
            option = self.options.get(f"-{letter}")
            if option is None:
                self._no_such_option(f"-{letter}", words)
            if not option.is_flag:
                yield option, word[index:].removeprefix("=") or None
                return
            yield option, None

    def _no_such_option(self, name: str, words: Sequence[str]) -> NoReturn:
        used = {self.options.get(word.partition("=")[0]) for word in words}
        known = [
            name
            for name, option in self.options.items()
            if not option.hidden and (option.repeatable or option not in used)
        ]
        self.error(no_such("option", name, known))

    def _value(self, option: Argument, text: str | None, waiting: list[str]) -> Any:
        if option.is_flag:
            if text is not None:
                self.error(f"{option.name} takes no value")
            return True
        if text is None:
            if not waiting or _OPTION.match(waiting[-1]):
                kind = "number" if option.metavar == "N" else "value"
                raise UsageMistake(f"{option.name} needs a {kind}; write {option.name} {option.metavar}.")
            text = waiting.pop()
        return option.convert(text)

    def _store_arguments(self, options: SimpleNamespace, texts: list[str], given: set[Argument]) -> None:
        for argument, text in zip(self.arguments, texts, strict=False):
            setattr(options, argument.dest, argument.convert(text))
            given.add(argument)
        for each in [*self.arguments, *self.options.values()]:
            if each.missing and each not in given:
                self.error(each.missing)
        paths = texts[len(self.arguments) :]
        if self.paths is None:
            if paths:
                self.error(f"unexpected argument {paths[0]!r}")
            return
        if len(paths) < self.paths.at_least:
            self.error("the target is missing" if paths else f"a {self.paths.noun} is missing")
        options.paths = paths


class Group(NamedTuple):
    """Commands under one name, such as `portico user add` and `portico user list`."""

    description: str
    commands: Mapping[str, Command]
    epilog: str = ""

    def find(self, prog: str, word: str) -> Command:
        if word in self.commands:
            return self.commands[word]
        raise unknown(word, self.commands, ("--help", "--home"), prog)


_SYNONYMS = (
    ("put", "upload"),
    ("get", "download"),
    ("rm", "delete", "remove", "end"),
    ("mv", "move", "rename"),
    ("cp", "copy"),
    ("ls", "list", "dir"),
    ("find", "search"),
    ("add", "create", "new"),
    ("set", "change", "update"),
)
"""Words with one meaning. A word that has one is not taken for a misspelling of another: `rename` is not `enable`."""
_MIN_SIMILARITY = 0.65
_SHORTEST_PREFIX = 2


def no_such(what: str, word: str, known: Iterable[str]) -> str:
    close = suggestion(word, list(known))
    return f"unknown {what} {word!r}" + (f", did you mean {close!r}?" if close else "")


def unknown(word: str, commands: Iterable[str], options: Iterable[str], prog: str) -> UsageMistake:
    what, known = ("option", options) if word.startswith("-") else ("command", commands)
    return UsageMistake(usage_sentence(no_such(what, word, known), prog))


def suggestion(word: str, known: list[str]) -> str | None:
    from difflib import get_close_matches

    for meaning in _SYNONYMS:
        if word in meaning:
            return next((each for each in meaning if each in known), None)
    letters = word.lstrip("-")
    if len(letters) < _SHORTEST_PREFIX:
        return None
    candidates = {each.lstrip("-"): each for each in known if len(each.lstrip("-")) >= _SHORTEST_PREFIX}
    longer = sorted((each for each in candidates if each.startswith(letters)), key=len)
    if longer and all(each.startswith(longer[0]) for each in longer):
        return candidates[longer[0]]
    close = get_close_matches(letters, candidates, n=1, cutoff=_MIN_SIMILARITY)
    return candidates[close[0]] if close else None


def usage_sentence(message: str, prog: str) -> str:
    message = f"{message[:1].upper()}{message[1:].rstrip('.')}"
    return f"{message} See '{prog} --help'." if message.endswith("?") else f"{message}; see '{prog} --help'."


_MIN_WIDTH, _MAX_WIDTH = 40, 100
_MAX_TERM_WIDTH = 26
_SPACE = "\N{NO-BREAK SPACE}"


def of_command(parser: Parser) -> str:
    arguments = {argument.metavar: argument.help for argument in parser.arguments}
    arguments |= parser.paths.help if parser.paths else {}
    options = {f"{', '.join(each.names)} {each.metavar}".rstrip(): each.help for each in _shown(parser)}
    parts = " ".join(part.replace(" ", _SPACE) for part in _usage_parts(parser))  # break only between parts
    usage = _filled(parts, f"Usage: {parser.prog} ", break_long_words=False).replace(_SPACE, " ")
    return paragraphs(
        usage, parser.description, table("Arguments:", arguments), table("Options:", options), parser.epilog
    )


def of_group(group: Group, prog: str, *, with_home: bool) -> str:
    summaries = {name: command.description.partition("\n")[0] for name, command in group.commands.items()}
    return paragraphs(
        f"Usage: {prog} COMMAND …",
        group.description,
        table("Commands:", summaries),
        table("Options:", {"--home DIR": HOME_HELP} if with_home else {}),
        group.epilog,
        f"For help with a command, run '{prog} COMMAND --help'.",
    )


def paragraphs(*texts: str) -> str:
    """The texts, wrapped to the terminal. Paragraphs with indented lines, such as tables, stay as they are."""
    each = [paragraph for text in texts if text for paragraph in text.split("\n\n")]
    return "\n\n".join(
        paragraph if "\n  " in f"\n{paragraph}" else textwrap.fill(paragraph, _width(), break_on_hyphens=False)
        for paragraph in each
    )


def table(title: str, rows: Mapping[str, str], max_term_width: int = _MAX_TERM_WIDTH) -> str:
    """Two columns: terms and their texts. A term longer than `max_term_width` has its text on the next line."""
    if not rows:
        return ""
    indent = " " * (min(max(map(len, rows)), max_term_width) + 4)
    lines = [title]
    for term, text in rows.items():
        start = f"  {term}"
        if len(term) > max_term_width:
            lines.append(start)
            start = ""
        lines.append(_filled(text, start.ljust(len(indent))))
    return "\n".join(lines)


def _filled(text: str, start: str, *, break_long_words: bool = True) -> str:
    """The text, wrapped after its start."""
    width, indent = max(_width(), len(start) + _MIN_WIDTH // 2), " " * len(start)
    return textwrap.fill(
        text,
        width,
        initial_indent=start,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=break_long_words,
    )


def _usage_parts(parser: Parser) -> Iterator[str]:
    groups: dict[Argument, tuple[Argument, ...]] = {}
    for pair in parser.exclusive:
        group = tuple(dict.fromkeys(each for option in pair for each in groups.get(option, (option,))))
        groups |= dict.fromkeys(group, group)
    done: set[Argument] = set()
    for option in _shown(parser):
        alternatives = groups.get(option, (option,))
        if option not in done:
            text = " | ".join(
                f"{each.names[0]} {each.metavar}".rstrip() + " …" * each.repeatable for each in alternatives
            )
            yield text if option.missing else f"[{text}]"
        done.update(alternatives)
    for argument in parser.arguments:
        yield argument.metavar if argument.missing else f"[{argument.metavar}]"
    if parser.paths:
        yield parser.paths.usage


def _shown(parser: Parser) -> list[Argument]:
    return [option for option in dict.fromkeys(parser.options.values()) if not option.hidden]


def _width() -> int:
    return max(_MIN_WIDTH, min(shutil.get_terminal_size().columns, _MAX_WIDTH))
