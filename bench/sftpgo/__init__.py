"""Portico beside SFTPGo, line by line: `make bench ARGS=sftpgo`."""

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
) -> list[Line]:
    plan = Plan(work, rounds or (2 if quick else 5), lines, request_log, 0.5 if quick else 1.0, missing())
    found: list[Line] = []
    for subject in (listing, uploads, downloads, footprint):
        if plan.wants(*subject.LINES):
            found += subject.measure(plan)
    return found
