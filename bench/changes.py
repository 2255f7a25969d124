"""New, replaced and deleted files on a disk, beside SFTPGo, by wrk. `make bench ARGS=changes`."""

import shutil
from collections.abc import Callable
from pathlib import Path

from bench.outside import wrk_of
from bench.servers import FILES
from bench.sftpgo.arena import OURS, Arena, Plan
from bench.sftpgo.peer import FILES as THEIR_FILES
from bench.sftpgo.peer import UPLOAD, missing
from bench.table import Contestant, Figure, Line, rate_line
from bench.uploads import Places
from bench.workspace import Workspace, say

GROUP = "changes"
SIZE = 2048
_REPLACED = 400
_AT_MOST = 4000
"""Files that are deleted in a second, at most."""
_GOAL = 0.5
_NOTE = "Portico syncs what it stores, keeps what was replaced or deleted, and records it; SFTPGo does none of it."


def measure(work: Workspace, quick: bool) -> list[Line]:
    if not shutil.which("wrk"):
        say("changes: wrk is not installed (apt-get install wrk)")
        return []
    plan = Plan(work, 2 if quick else 5, seconds=2.0 if quick else 4.0, missing=missing(), group=GROUP)
    places = Places(work, "changes")
    folder = places.folder(OURS)
    for name in ("new", "replaced", "deleted"):
        (folder / name).mkdir()
    for number in range(_REPLACED):
        (folder / "replaced" / str(number)).write_bytes(bytes(SIZE))
    try:
        with Arena(plan, "changes", folder) as arena:
            arena.add_portico()
            arena.add_sftpgo()
            figures = {
                "new": _run(arena, "new", "new"),
                "replaced": _run(arena, "replaced", str(_REPLACED)),
                "deleted": _run(arena, "deleted", "numbers"),
            }
    finally:
        places.close()
    lines: list[Line] = []
    for what, found in figures.items():
        lines += plan.rates(f"{what}, 2 KB, 8 connections", found, note=_NOTE)
    new = figures["new"][OURS]
    for what in ("replaced", "deleted"):
        lines.append(rate_line(GROUP, f"{what}, beside new ones", figures[what][OURS], "new", new, _GOAL))
    return lines


def _run(arena: Arena, what: str, names: str) -> dict[str, Figure]:
    contestants = {}
    for name in arena.servers:
        if what == "deleted":
            start = ("DELETE", f"{FILES}/deleted/" if name == OURS else f"{THEIR_FILES}?path=/deleted/")
        else:
            start = ("PUT", f"{FILES}/{what}/") if name == OURS else ("POST", f"{UPLOAD}?path=/{what}/")
        token = arena.headers[name]["Authorization"].removeprefix("Bearer ")
        send = wrk_of(arena, name, "/", *start, token, names, str(SIZE))
        fill = _filler(arena.top / "deleted", int(_AT_MOST * arena.plan.seconds)) if what == "deleted" else None
        contestants[name] = _filled(send, fill) if fill else send
    return arena.plan.run("req/s", contestants, what)


def _filler(folder: Path, number: int) -> Callable[[], None]:
    def fill() -> None:
        for each in range(1, number + 1):
            (folder / str(each)).write_bytes(bytes(SIZE))

    return fill


def _filled(send: Contestant, fill: Callable[[], None]) -> Contestant:
    fill()
    return Contestant(send.work, send.server, tidy=fill)
