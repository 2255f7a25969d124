"""Timestamps in the API's format, `2026-11-14T09:30:00.000Z`.

Entries carry the text: services send nearly this form, and parsing and formatting a thousand of them dominated the cost
of a page.
"""

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,12}))?")
_LATEST = 253_402_300_799_999  # milliseconds: the end of the year 9999
_MILLISECONDS = [f"{millisecond:03}Z" for millisecond in range(1000)]


def from_epoch(milliseconds: int) -> str:
    """Milliseconds since 1970 as text; values outside the calendar are clamped."""
    if not 0 <= milliseconds <= _LATEST:
        milliseconds = min(max(milliseconds, 0), _LATEST)
    seconds = milliseconds // 1000
    return _second(seconds) + _MILLISECONDS[milliseconds - seconds * 1000]


def from_epochs(milliseconds: list[int]) -> list[str]:
    """As `from_epoch`, for a whole page: without a call for each."""
    if milliseconds and not 0 <= min(milliseconds) <= max(milliseconds) <= _LATEST:
        return list(map(from_epoch, milliseconds))
    return [_second(moment // 1000) + _MILLISECONDS[moment % 1000] for moment in milliseconds]


@lru_cache(maxsize=65_536)  # the files of a folder were mostly made in a few bursts
def _second(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    return f"{_day(days)}{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}."


@lru_cache(maxsize=4096)
def _day(days: int) -> str:
    return (date(1970, 1, 1) + timedelta(days)).isoformat() + "T"


def from_datetime(moment: datetime) -> str:
    """An aware datetime as text; `ValueError` if it is out of range in UTC."""
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{moment} is beyond the calendar") from None
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def from_iso(text: str) -> str:
    """Normalize an ISO 8601 time, in UTC unless it has a zone; `ValueError` if it is not valid."""
    return from_isos([text])[0]


def from_isos(texts: list[str]) -> list[str]:
    """As `from_iso`, for a whole page.

    Texts that all have this module's format are validated and returned unchanged: formatting a time takes ten times as
    long as parsing it.
    """
    moments = list(map(datetime.fromisoformat, texts))
    together, number = "".join(texts), len(texts)
    if len(together) == 24 * number and all(
        together[offset::24] == mark * number for offset, mark in ((7, "-"), (10, "T"), (19, "."), (23, "Z"))
    ):
        return texts
    return [_written(text, moment) for text, moment in zip(texts, moments, strict=True)]


def _written(text: str, moment: datetime) -> str:
    if text[7:11:3] == "-T" and text[-1] == "Z":
        if len(text) >= 24 and text[19] == ".":  # some services have seven digits there
            return text[:23] + "Z"
        if len(text) == 20:
            return text[:19] + ".000Z"
    return from_datetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def parse(text: str) -> datetime:
    """A time that a client sent: ISO 8601, in UTC unless it has a zone, or seconds since 1970, with or without decimals.

    `ValueError` if it is neither, or before 1970.
    """
    if seconds := _SECONDS.fullmatch(text):
        try:
            moment = _EPOCH + timedelta(seconds=int(seconds[1]), microseconds=int(f"{seconds[2] or '':0<6.6}"))
        except OverflowError:
            raise ValueError(f"{text} is beyond the calendar") from None
    else:
        moment = datetime.fromisoformat(text)
        try:
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except OverflowError:
            raise ValueError(f"{text} is beyond the calendar") from None
    if moment < _EPOCH:
        raise ValueError(f"{text} is before 1970")
    return moment


def to_datetime(text: str) -> datetime:
    return datetime.fromisoformat(text)
