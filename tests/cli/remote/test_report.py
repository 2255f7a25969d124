"""What is counted while files are on their way."""

from types import SimpleNamespace

import pytest

from portico.cli.remote.report import Report

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
