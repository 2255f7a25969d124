"""The layout of help texts."""

import shutil
import textwrap
from collections.abc import Iterator, Mapping

from portico.cli.parser import HOME_HELP, Argument, Group, Parser

_MIN_WIDTH, _MAX_WIDTH = 40, 100
_MAX_TERM_WIDTH = 26
_SPACE = "\N{NO-BREAK SPACE}"


def of_command(parser: Parser) -> str:
    arguments = {argument.metavar: argument.help for argument in parser.arguments} | dict(parser.paths_help)
    options = {_term(option): option.help for option in _shown(parser)}
    return paragraphs(
        _usage(parser),
        parser.description,
        table("Arguments:", arguments),
        table("Options:", options),
        parser.epilog,
    )


def of_group(group: Group, prog: str, *, with_home: bool) -> str:
    summaries = {name: command.description.partition("\n")[0] for name, command in group.commands.items()}
    return paragraphs(
        f"Usage: {prog} COMMAND …",
        group.description,
        table("Commands:", summaries),
        table("Options:", {"--home DIR": HOME_HELP} if with_home else {}),
        group.epilog,
        f"'{prog} COMMAND --help' describes a command.",
    )


def paragraphs(*texts: str) -> str:
    """The texts, wrapped to the terminal. Paragraphs with indented lines, such as tables, stay as they are."""
    each = [paragraph for text in texts if text for paragraph in text.split("\n\n")]
    return "\n\n".join(
        paragraph
        if "\n  " in f"\n{paragraph}"
        else textwrap.fill(paragraph, _width(), break_on_hyphens=False)
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
        lines.append(
            textwrap.fill(
                text,
                max(_width(), len(indent) + _MIN_WIDTH // 2),
                initial_indent=start.ljust(len(indent)),
                subsequent_indent=indent,
                break_on_hyphens=False,
            )
        )
    return "\n".join(lines)


def _usage(parser: Parser) -> str:
    indent = " " * len(f"Usage: {parser.prog} ")
    parts = (part.replace(" ", _SPACE) for part in _usage_parts(parser))  # break only between parts
    text = textwrap.fill(
        " ".join(parts),
        max(_width(), len(indent) + _MIN_WIDTH // 2),
        initial_indent=f"Usage: {parser.prog} ",
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return text.replace(_SPACE, " ")


def _usage_parts(parser: Parser) -> Iterator[str]:
    groups: dict[Argument, tuple[Argument, ...]] = {}
    for pair in parser.exclusive:
        group = tuple(dict.fromkeys(each for option in pair for each in groups.get(option, (option,))))
        groups |= dict.fromkeys(group, group)
    done: set[Argument] = set()
    for option in _shown(parser):
        alternatives = groups.get(option, (option,))
        if option not in done:
            text = " | ".join(_short(each) for each in alternatives)
            yield text if option.missing else f"[{text}]"
        done.update(alternatives)
    for argument in parser.arguments:
        yield argument.metavar if argument.missing else f"[{argument.metavar}]"
    if parser.paths_usage:
        yield parser.paths_usage


def _shown(parser: Parser) -> list[Argument]:
    return [option for option in dict.fromkeys(parser.options.values()) if not option.hidden]


def _short(option: Argument) -> str:
    text = f"{option.names[0]} {option.metavar}".rstrip()
    return f"{text} …" if option.repeatable else text


def _term(option: Argument) -> str:
    return f"{', '.join(option.names)} {option.metavar}".rstrip()


def _width() -> int:
    return max(_MIN_WIDTH, min(shutil.get_terminal_size().columns, _MAX_WIDTH))
