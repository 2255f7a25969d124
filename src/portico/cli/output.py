"""Data on standard output, for people or as JSON."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

Facts = Mapping[str, object]
"""What is shown of one thing, by its name in JSON."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


def show_list(rows: Sequence[Facts], *, as_json: bool, empty: str) -> None:
    if as_json:
        _print_json(rows)
    elif rows:
        titles = [_title(key) for key in rows[0]]
        table = [titles, *([_text(value) for value in row.values()] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for line in table:
            typer.echo(
                "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
            )
    else:
        typer.echo(empty)


def show_one(facts: Facts, *, as_json: bool) -> None:
    if as_json:
        _print_json(facts)
        return
    width = max(len(_title(key)) for key in facts)
    for key, value in facts.items():
        typer.echo(f"{_title(key).ljust(width)}  {_text(value)}".rstrip())


def timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _title(key: str) -> str:
    """`passwordChangedAt` as `password changed at`."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in key)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={text}" for key, text in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return str(value)
