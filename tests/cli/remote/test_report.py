"""What is counted while files are on their way."""

from types import SimpleNamespace

import pytest

from portico.cli.remote.report import Report, bare

OPTIONS = SimpleNamespace(quiet=True, goes_on=False, dry_run=False, no_clobber=False)


@pytest.mark.parametrize(
    ("word", "reports", "running"),
    [
        ("downloaded", [(0, None), (3, 8), (8, 8)], 0),
        ("downloaded", [(8, 8)], 0),
        ("uploaded", [(0, 8), (3, 8), (8, 8), (8, 8)], 1),
        ("uploaded", [(8, 8)], 0),
    ],
)
def test_each_file_counts_once(word: str, reports: list[tuple[int, int | None]], running: int) -> None:
    report = Report(word, OPTIONS)
    for number in range(3):
        for done, total in reports:
            report.progress(f"/{number}", done, total)
    assert report.state() == (3, 24)
    assert len(report._running) == 3 * running


def test_what_an_earlier_run_has_sent_is_not_counted_as_sent_now() -> None:
    report = Report("uploaded", OPTIONS)
    report.resume("/a", 6, 8)
    assert (report.state(), report.moved_bytes) == ((0, 6), 0)
    for done in (6, 7, 8, 8):
        report.progress("/a", done, 8)
    assert (report.state(), report.moved_bytes) == ((1, 8), 2)
    report.resume("/b", 6, 8)
    report.progress("/b", 0, 8)  # begun anew
    report.progress("/b", 5, 8)
    assert (report.state(), report.moved_bytes) == ((1, 13), 7)


def test_etags_have_no_quotes() -> None:
    assert (bare('"9ae1-18e8"'), bare(None)) == ("9ae1-18e8", None)
