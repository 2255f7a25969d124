from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.model import timestamps

MOMENT = "2026-11-14T09:30:05.123Z"


@given(st.integers(0, 253_402_300_799_999))
def test_an_epoch_is_written_as_datetime_would(milliseconds: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    assert timestamps.from_epoch(milliseconds) == timestamps.from_datetime(moment)
    assert timestamps.to_datetime(timestamps.from_epoch(milliseconds)) == moment


@given(st.lists(st.integers(-(2**63), 2**63) | st.integers(0, 253_402_300_799_999)))
def test_many_epochs_are_written_as_each(moments: list[int]) -> None:
    assert timestamps.from_epochs(moments) == [timestamps.from_epoch(moment) for moment in moments]


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(-1, "1970-01-01T00:00:00.000Z"), (2**63, "9999-12-31T23:59:59.999Z")]
)
def test_what_no_calendar_holds_is_moved_to_its_end(milliseconds: int, text: str) -> None:
    assert timestamps.from_epoch(milliseconds) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MOMENT, MOMENT),
        ("2026-11-14T09:30:05.1234567Z", MOMENT),
        ("2026-11-14T09:30:05Z", "2026-11-14T09:30:05.000Z"),
        ("2026-11-14T10:30:05.123+01:00", MOMENT),
        ("2026-11-14T09:30:05.123", MOMENT),
        ("2026-11-14 09:30:05.123456+00:00", MOMENT),
    ],
)
def test_iso_text_takes_our_form(text: str, expected: str) -> None:
    assert timestamps.from_iso(text) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00Z"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        timestamps.from_iso(text)


def test_a_datetime_of_any_zone_is_written_in_utc() -> None:
    moment = datetime(2026, 11, 14, 10, 30, 5, 123_999, tzinfo=timezone(timedelta(hours=1)))
    assert timestamps.from_datetime(moment) == MOMENT


@pytest.mark.parametrize(
    "text", ["AAAAAAAAAATAAAAAAAA.AAAZ", "2026-02-31T09:30:00.000Z", "0001-01-01T00:00:00+23:59", ""]
)
def test_what_only_looks_like_a_moment(text: str) -> None:
    for page in ([text], ["2026-11-14T09:30:00.000Z", text]):
        with pytest.raises(ValueError):  # noqa: PT011
            timestamps.from_isos(page)


def test_a_page_of_moments_in_several_forms() -> None:
    forms = [
        "2026-11-14T09:30:00.000Z",
        "2026-11-14T09:30:00.0001234Z",
        "2026-11-14T09:30:00Z",
        "2026-W46-6T09:30:00.000Z",
    ]
    assert timestamps.from_isos(forms) == ["2026-11-14T09:30:00.000Z"] * 4
    assert timestamps.from_isos(forms[:1] * 3) == forms[:1] * 3


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("0", datetime(1970, 1, 1, tzinfo=UTC)),
        ("1000000000.1234567", datetime(2001, 9, 9, 1, 46, 40, 123456, UTC)),
        ("2001-09-09T03:46:40+02:00", datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)),
        ("2001-09-09", datetime(2001, 9, 9, tzinfo=UTC)),
    ],
)
def test_a_time_that_a_client_sent(text: str, moment: datetime) -> None:
    assert timestamps.parse(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "-1", "1e3", "١", "999999999999", "1969-12-31T23:59:59Z", "0001-01-01"),
        *("9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00"),
    ],
)
def test_a_time_that_no_client_should_send(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        timestamps.parse(text)
