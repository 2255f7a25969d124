"""Tables and JSON on standard output."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from portico.visible_text import visible

Facts = Mapping[str, object]
"""The fields of one item, by their names in JSON."""


def show_list(rows: Sequence[Facts], *, as_json: bool, empty: str) -> None:
    if as_json:
        _print_json(rows)
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
        _print_json(facts)
        return
    width = max(len(_title(key)) for key in facts)
    for key, value in facts.items():
        print(f"{_title(key).ljust(width)}  {_text(value)}".rstrip())


def timestamp(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def _title(key: str) -> str:
    """`passwordChangedAt` as `password changed at`."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in key)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        value = ", ".join(f"{key}={text}" for key, text in value.items())
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    return visible(str(value))
