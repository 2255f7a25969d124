"""The options that limit users and groups: until when, and from where, an account may be used."""

from collections.abc import Iterable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from portico.cli.console.exits import UsageMistake
from portico.cli.console.parser import option
from portico.model import timestamps
from portico.runtime import clock
from portico.settings import parsers

if TYPE_CHECKING:
    from portico.store.reach import Network

_NEVER = "never"
_ANYWHERE = "any"
_NOT_GIVEN: Final = object()
"""The default: None means never."""


def _moment(text: str) -> datetime | None:
    if text == _NEVER:
        return None
    try:
        if len(text) == len("2027-01-31") and text[4] == "-":
            return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
        if "T" in text:
            return timestamps.parse(text)
        return clock.to_datetime(clock.now() + clock.milliseconds(parsers.duration(text)))
    except ValueError:
        raise UsageMistake(
            f"--expires: {text!r} is not a valid time; use a duration such as 90d, a date such as 2027-01-31, or {_NEVER}."
        ) from None


def _networks(text: str) -> "list[Network]":
    from portico.accounts.limits import parse_network

    return [] if text == _ANYWHERE else [parse_network(each) for each in text.replace(",", " ").split()]


LIMIT_OPTIONS = (
    option(
        "--expires",
        metavar="TIME",
        default=_NOT_GIVEN,
        convert=_moment,
        help=f"When accounts stop working: a duration such as 90d, a date such as 2027-01-31 (00:00 UTC), or {_NEVER}.",
    ),
    option(
        "--addresses",
        metavar="LIST",
        default=_NOT_GIVEN,
        convert=_networks,
        help=f"The only addresses and ranges to accept, such as 10.0.0.0/8; {_ANYWHERE} removes the limit.",
    ),
)


def given_limits(options: SimpleNamespace) -> dict[str, Any]:
    """The limits that were given, as keywords."""
    found = {"expires_at": options.expires, "addresses": options.addresses}
    return {name: value for name, value in found.items() if value is not _NOT_GIVEN}


def changed_names(changes: Iterable[str]) -> list[str]:
    """The names of what changes, for the audit log: as the options are called."""
    return [name.removesuffix("_at").removeprefix("new_") for name in changes]
