"""Tables and JSON on standard output.

Every `--json` of the command has one form, that of `print_json`: an object on each line, whatever the command.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from portico.cli.console.parser import flag
from portico.cli.console.terminal import speaks_unicode, standard_output
from portico.model import timestamps
from portico.model.visible_text import visible

Facts = Mapping[str, object]
"""The fields of one item, by their names in JSON."""


JSON = flag("--json", dest="as_json", help="Print JSON, one object per line.")


def print_json(facts: Facts) -> None:
    """Print one object as a line: names in camelCase, times in UTC with a Z, null for what has no value.

    Deceptive characters are escaped, which means the same to a program. In one write, since several threads print.
    """
    out = standard_output()
    out.write(visible(json.dumps(_jsonable(facts), ensure_ascii=not speaks_unicode(out))) + "\n")


def tell(text: str, facts: Facts, *, as_json: bool) -> None:
    """Print the text, or instead of it what it says, as JSON."""
    if as_json:
        print_json(facts)
    else:
        print(visible(text))


def _jsonable(value: object) -> object:
    if isinstance(value, Mapping):
        return {_camel(key): _jsonable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(each) for each in value]
    return timestamps.from_datetime(value) if isinstance(value, datetime) else value


def _camel(key: str) -> str:
    """`expires_at` as `expiresAt`."""
    first, *others = key.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)


def show_list(rows: Sequence[Facts], *, as_json: bool, empty: str) -> None:
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        titles = [_title(key) for key in rows[0]]
        table = [titles, *([_text(value) for value in row.values()] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for line in table:
            print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    else:
        print(empty)


def show_one(facts: Facts, *, as_json: bool) -> None:
    if as_json:
        print_json(facts)
        return
    width = max(len(_title(key)) for key in facts)
    for key, value in facts.items():
        print(f"{_title(key).ljust(width)}  {_text(value)}".rstrip())


def _title(key: str) -> str:
    """`passwordChangedAt` as `password changed at`."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in _camel(key))


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return timestamps.from_datetime(value)
    if isinstance(value, Mapping):
        value = ", ".join(f"{key}={text}" for key, text in value.items())
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    return visible(str(value))
