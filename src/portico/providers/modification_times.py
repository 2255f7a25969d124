"""Modification times in the metadata of objects, in the forms that rclone reads and writes."""

import re
from datetime import UTC, datetime, timedelta

from portico import timestamps

MTIME = "mtime"
"""The name of the metadata, in every service."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = re.compile(r"(-?)([0-9]{1,12})(?:\.([0-9]{1,9}))?")
_MAX_TEXT = 64


def as_seconds(moment: datetime) -> str:
    """Decimal seconds since 1970, for S3: `1556938921.123`."""
    microseconds = (moment - _EPOCH) // timedelta(microseconds=1)
    whole, fraction = divmod(abs(microseconds), 1_000_000)
    text = f"{whole}.{fraction:06}".rstrip("0").removesuffix(".")
    return f"-{text}" if microseconds < 0 else text


def as_rfc3339(moment: datetime) -> str:
    """A date with nine digits of a second, for Azure Blob and Google Cloud Storage."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}000Z"


def read(text: str | None) -> str | None:
    """Either form as `timestamps` writes it; None if it is missing or neither."""
    if text is None or len(text) > _MAX_TEXT:
        return None
    if number := _SECONDS.fullmatch(text):
        sign, seconds, fraction = number.groups()
        milliseconds = int(seconds) * 1000 + int((fraction or "").ljust(3, "0")[:3])
        return timestamps.from_epoch(-milliseconds if sign else milliseconds)
    try:
        return timestamps.from_iso(text)
    except ValueError:
        return None
