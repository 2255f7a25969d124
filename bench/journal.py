"""Searches of a journal with a million rows, its retention beside 1,000 changes a second, and what the lines of downloads
cost. `make bench ARGS=journal`."""

import asyncio
import itertools
import random
import shutil
import statistics
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path as FilePath
from typing import Any

from sqlalchemy import create_engine, func, insert, select, text

from bench.outside import measured, parsed
from bench.processes import ROOT
from bench.servers import FILES, Home, Portico
from bench.table import Contestant, Figure, Line, Sample, in_turns, rate_line, share_line
from bench.workspace import Workspace, say
from portico.model import timestamps
from portico.model.paths import Path, Place
from portico.observability.audit import AuditLine, encode
from portico.store.database import Database
from portico.store.journal import Journal
from portico.store.journal_retention import remove_rows
from portico.store.journal_search import Search, find
from portico.store.schema import migrate
from portico.store.signatures import Signer
from portico.store.tables import journal

GROUP = "journal"
ROWS = 1_000_000
DAYS = 90
_ALLOWED_MS = 200.0
_CHANGES = 1000
"""Each second."""
_AT_ONCE = 10
_DAY = 86_400_000
_ACTIONS = ("upload", "download", "move", "copy", "delete", "mkdir", "sign-in")
_WEIGHTS = (40, 30, 5, 5, 10, 5, 5)
_SMALL = 2048
_SMALL_FILES = 100_000
_ROUNDS = 5
_NOTE = "A page of 100 lines, by `find`; the most of all rounds is in parentheses."


def measure(work: Workspace, quick: bool) -> Iterator[Line]:
    rows = ROWS // 10 if quick else ROWS
    file = work.make("journal") / "portico.db"
    say(f"journal: {rows:,} rows")
    now = _fill(file, rows)
    yield from asyncio.run(_searches(file, now, 5 if quick else 15))
    yield from asyncio.run(_retention(file, 3 if quick else 20))
    yield from _downloads(work, quick)


def _fill(file: FilePath, rows: int) -> int:
    """Returns the time of the last row. Half of them are of one user; an old folder has no new ones."""
    url, now = f"sqlite:///{file}", time.time_ns() // 1_000_000
    migrate(url)
    engine = create_engine(url)
    with engine.begin() as connection:
        found = text("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'journal' AND sql <> ''")
        indexes = [*connection.execute(found)]
        for name, _ in indexes:  # filled afterwards, they take a fraction of the time
            connection.execute(text(f"DROP INDEX {name}"))
        chosen = random.Random(7)
        for start in range(1, rows + 1, 10_000):
            numbers = range(start, min(start + 10_000, rows + 1))
            connection.execute(insert(journal), [_row(number, rows, now, chosen) for number in numbers])
        for _, made in indexes:
            connection.execute(text(made))
    engine.dispose()
    return now


def _row(number: int, rows: int, now: int, chosen: random.Random) -> dict[str, Any]:
    other = chosen.randrange(200)
    user, action = "robot" if number % 2 else f"user-{other}", chosen.choices(_ACTIONS, _WEIGHTS)[0]
    if number % 4 == 0:
        action = "restore"  # never by the robot
    if number % (rows // 10) == 7:
        action = "trash.remove"
    path = (
        f"/team-{other % 20}/project-{chosen.randrange(50)}/folder-{chosen.randrange(20)}/{chosen.randrange(1000)}.pdf"
    )
    if number < rows * 0.3 and number % 3 == 0:
        path = f"/old{path}"
    if number % (rows // 10) < 3:
        path = f"/rare{path}"
    is_about_files, has_target = action != "sign-in", action in ("move", "copy")
    at = now - round(DAYS * _DAY * (rows - number) / rows)
    line = AuditLine(
        time=timestamps.from_epoch(at),
        request_id="0f8e6c1d2b3a4958",
        user=user,
        session=f"{chosen.randrange(5000):016}",
        client=f"192.0.2.{other}",
        action=action,
        path=path,
        outcome="forbidden" if number % 50 == 0 else "done",
    )
    return {
        "number": number,
        "change": f"{number:032}" if is_about_files else None,
        "at": at,
        "node": "one",
        "user": user,
        "key": f"key-{other}" if number % 10 == 0 else None,
        "link": f"link-{other}" if number % 20 == 0 else None,
        "session": line.session,
        "address": line.client,
        "action": action,
        "outcome": line.outcome,
        "connection": "local" if is_about_files else None,
        "place": path if is_about_files else None,
        "to_connection": "local" if has_target else None,
        "target": f"{path}.2" if has_target else None,
        "kept": None,
        "before": None,
        "after": '{"size":52113,"etag":"0123456789abcdef","modified":"2026-03-01T10:00:00.000Z"}',
        "line": encode(line).decode(),
    }


def _below(path: str) -> dict[str, Any]:
    return {"place": Place("local", Path.parse(path)), "is_below": True}


def _kinds(now: int) -> dict[str, dict[str, Any]]:
    day = {"since": now - 50 * _DAY, "until": now - 49 * _DAY}
    return {
        "newest": {},
        "user": {"user": "user-7"},
        "user with half of all rows": {"user": "robot"},
        "key": {"key": "key-10"},
        "link": {"link": "link-20"},
        "session": {"session": f"{77:016}"},
        "address": {"address": "192.0.2.7"},
        "action": {"action": "move"},
        "outcome": {"outcome": "forbidden"},
        "a day": day,
        "a day and a user": {"user": "user-7", **day},
        "user and rare action": {"user": "robot", "action": "trash.remove"},
        "user and action without a row in common": {"user": "robot", "action": "restore"},
        "file": {"place": Place("local", Path.parse("/team-3/project-1/folder-1/7.pdf"))},
        "below the top": _below("/"),
        "below a folder with few rows": _below("/rare"),
        "below a folder with 5 % of all rows": _below("/team-3"),
        "below a folder with only old rows": _below("/old"),
        "below a folder without rows": _below("/none"),
        "below the top, and a user": {**_below("/"), "user": "user-7"},
        "below an old folder, and a user": {**_below("/old"), "user": "robot"},
        "below a folder, and an action": {**_below("/team-3"), "action": "trash.remove"},
    }


async def _searches(file: FilePath, now: int, rounds: int) -> list[Line]:
    database, allowed = Database(f"sqlite:///{file}"), Figure(_ALLOWED_MS, "ms allowed")
    lines = []
    for what, wanted in _kinds(now).items():
        took = []
        for _ in range(rounds):
            begin = time.perf_counter()
            page = await find(database, Search(**wanted), size=100)
            took.append((time.perf_counter() - begin) * 1000)
        figure = Figure(statistics.median(took), "ms", rounds=rounds, low=min(took), high=max(took))
        lines.append(share_line(GROUP, f"{what}: {len(page.lines)} lines", figure, "", allowed, 1.0, _NOTE))
    await database.close()
    return lines


async def _retention(file: FilePath, seconds: int) -> list[Line]:
    """Half of the rows are too old; while they go, others come."""
    database = Database(f"sqlite:///{file}")
    signer = Signer(bytes(32))
    one = Journal(database, node="one", signer=signer)
    before = await database.first(select(func.count()).select_from(journal))
    took: list[float] = []
    sweep = asyncio.create_task(remove_rows(database, timedelta(days=DAYS / 2), signer))
    begin = time.perf_counter()
    pending: set[asyncio.Task[None]] = set()
    for number in range(seconds * _CHANGES // _AT_ONCE):
        await asyncio.sleep(begin + number * _AT_ONCE / _CHANGES - time.perf_counter())
        for _ in range(_AT_ONCE):
            task = asyncio.create_task(_change(one, took))
            pending.add(task)
            task.add_done_callback(pending.discard)
        if sweep.done():
            break
    await asyncio.gather(*pending)
    lasted = time.perf_counter() - begin
    sweep.cancel()
    await asyncio.wait({sweep})
    await one.close()
    after = await database.first(select(func.count()).select_from(journal))
    await database.close()
    assert before
    assert after
    removed = (before[0] + len(took) - after[0]) / lasted
    took.sort()
    settled = Figure(len(took) / lasted, "changes/s", extra={"p99 ms": took[len(took) * 99 // 100] * 1000})
    return [
        rate_line(GROUP, "old rows removed meanwhile", Figure(removed, "rows/s"), "changes", settled, 1.0),
        rate_line(GROUP, "changes recorded meanwhile", settled, "wanted", Figure(_CHANGES, "changes/s"), 0.95),
    ]


async def _change(one: Journal, took: list[float]) -> None:
    begin = time.perf_counter()
    recording = one.recording(AuditLine(action="upload", user="ann", path="/a/b.txt", client="192.0.2.1"))
    recording.concern(Place("local", Path.parse(f"/a/{len(took)}.txt")))
    await recording.begin()
    await recording.settle("done")
    took.append(time.perf_counter() - begin)


def _downloads(work: Workspace, quick: bool) -> list[Line]:
    if not shutil.which("wrk"):
        say("journal: wrk is not installed (apt-get install wrk), so downloads are left out")
        return []
    folder = work.make("downloads")
    count = _SMALL_FILES // 10 if quick else _SMALL_FILES
    for number in range(count):
        (folder / str(number)).write_bytes(bytes(_SMALL))
    servers = {}
    for name, setting in (("recorded", "true"), ("not recorded", "false")):
        home = Home(work, f"home-{setting}", {"PORTICO_JOURNAL_DOWNLOADS": setting})
        home.add("bench", "local", folder=str(folder))
        servers[name] = Portico(home)
    lines = []
    for what, different in (("one file", 1), ("many files, each once", count)):
        contestants = {name: _wrk(server, different, 2 if quick else 4) for name, server in servers.items()}
        found = in_turns(2 if quick else _ROUNDS, "req/s", contestants)
        what = f"downloads of {what}, 2 KB, 8 connections"
        lines.append(rate_line(GROUP, what, found["recorded"], "not recorded", found["not recorded"], 0.9))
    for server in servers.values():
        server.stop()
    return lines


def _wrk(server: Portico, count: int, seconds: int) -> Contestant:
    token = server.bearer("bench")["Authorization"].removeprefix("Bearer ")
    rounds = itertools.count()

    def work() -> Sample:
        first = next(rounds) * count // _ROUNDS  # each round has files of its own
        script = ("GET", f"{FILES}/", token, str(count), "0", str(first))
        command = ["wrk", "-t1", "-c8", f"-d{seconds}s", "-s", str(ROOT / "bench" / "put.lua"), f"{server.target.url}/"]
        output, client = measured([*command, "--", *script])
        rate, requests = parsed(output)
        return Sample(rate, requests=requests, client=client)

    return Contestant(work, server)
