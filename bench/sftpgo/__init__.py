"""Portico beside SFTPGo, line by line: `make bench ARGS=sftpgo`."""

from collections.abc import Iterator

from bench.processes import Process
from bench.sftpgo import downloads, footprint, listing, uploads
from bench.sftpgo.arena import Plan
from bench.sftpgo.peer import missing
from bench.table import Line
from bench.workspace import Workspace

LINES = {**listing.LINES, **uploads.LINES, **downloads.LINES, **footprint.LINES}
"""By the names that choose them."""


def measure(
    work: Workspace,
    quick: bool,
    *,
    rounds: int | None = None,
    lines: frozenset[str] = frozenset(),
    request_log: bool = False,
) -> Iterator[Line]:
    """If one subject fails, the others are measured before that is raised."""
    plan = Plan(work, rounds or (2 if quick else 5), lines, request_log, 0.5 if quick else 1.0, missing())
    failures = []
    for subject in (listing, uploads, downloads, footprint):
        if plan.wants(*subject.LINES):
            try:
                yield from subject.measure(plan)
            except Exception as error:
                failures.append(f"{subject.__name__}: {error}")
                Process.stop_all()
    if failures:
        raise RuntimeError("; ".join(failures))
