"""Modification times as rclone writes them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from portico.providers.objects import service as times

MOMENT = datetime(2019, 5, 4, 3, 2, 1, 123_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "seconds", "date"),
    [
        (MOMENT, "1556938921.123", "2019-05-04T03:02:01.123000000Z"),
        (MOMENT.replace(microsecond=0), "1556938921", "2019-05-04T03:02:01.000000000Z"),
        (datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC), "-0.5", "1969-12-31T23:59:59.500000000Z"),
        (MOMENT.astimezone(timezone(timedelta(hours=2))), "1556938921.123", "2019-05-04T03:02:01.123000000Z"),
    ],
)
def test_both_forms(moment: datetime, seconds: str, date: str) -> None:
    assert (times.as_seconds(moment), times.as_rfc3339(moment)) == (seconds, date)


@pytest.mark.parametrize(
    "text",
    ["1556938921.123", "1556938921.123456789", "2019-05-04T03:02:01.123456789Z", "2019-05-04T05:02:01.123+02:00"],
)
def test_what_rclone_wrote_is_read(text: str) -> None:
    assert times.read(text) == "2019-05-04T03:02:01.123Z"


@pytest.mark.parametrize("text", [None, "", "yesterday", "1e9", "9" * 100, "12:30", "NaN", "2019-13-45T00:00:00Z"])
def test_what_is_no_time_is_ignored(text: str | None) -> None:
    assert times.read(text) is None
