"""New, replaced and deleted files, beside SFTPGo, by wrk: with SQLite and PostgreSQL, one worker and two, and a full trash.
`make bench ARGS=changes`. All of it is on the disk that holds the checkout."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import create_engine, insert
from sqlalchemy.engine import make_url
from tests.servers import postgres

from bench.outside import wrk_of
from bench.servers import FILES, Home, Portico
from bench.sftpgo.arena import OURS, Arena, Plan
from bench.sftpgo.peer import FILES as THEIR_FILES
from bench.sftpgo.peer import UPLOAD, missing
from bench.table import Contestant, Figure, Line, in_turns, rate_line
from bench.workspace import Workspace, say
from portico.accounts.vault import SecretKey
from portico.model.paths import TRASH
from portico.store.tables import trash

GROUP = "changes"
SIZE = 2048
_REPLACED = 400
_AT_MOST = 1500
"""Files that are deleted in a second, at most."""
_UNDER_WAY_SECONDS = 1.0
"""When wrk has stopped, the server still deletes some files, which must not be new ones."""
_IN_TRASH = 1_000_000
_GOAL = 0.5
_DAY = 86_400_000
_NOTE = "Portico syncs what it stores, keeps what was replaced or deleted, and records it; SFTPGo does none of it."


@dataclass(frozen=True)
class Setup:
    name: str
    workers: int = 2
    in_trash: int = 0
    has_peer: bool = False


def measure(work: Workspace, quick: bool) -> Iterator[Line]:
    if not shutil.which("wrk"):
        say("changes: wrk is not installed (apt-get install wrk)")
        return
    plan = Plan(work, 2 if quick else 5, seconds=2.0 if quick else 4.0, missing=missing(), group=GROUP)
    full = _IN_TRASH // 10 if quick else _IN_TRASH
    setups = [
        Setup("2 workers", has_peer=True),
        Setup("1 worker", workers=1),
        Setup(f"{full:,} in the trash", in_trash=full),
    ]
    for setup in setups:
        with _place(work) as place:
            yield from _measured(plan, setup, place, None)
    if postgres.binaries() is None:
        say("changes: PostgreSQL is not installed (apt-get install postgresql), so its lines are left out")
        return
    for setup in setups:
        with _place(work) as place, _place(work) as data:
            server = postgres.PostgresServer(
                data, "-c", "fsync=on", "-c", "shared_buffers=128MB", "-c", "max_wal_size=1GB"
            )
            server.start()
            try:
                setup = Setup(f"PostgreSQL, {setup.name}", setup.workers, setup.in_trash)
                yield from _measured(plan, setup, place, server.new_database())
            finally:
                server.stop()


@contextmanager
def _place(work: Workspace) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="changes-", dir=work.kept))
    place.chmod(0o755)  # PostgreSQL runs as another user
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _measured(plan: Plan, setup: Setup, place: Path, database: str | None) -> Iterator[Line]:
    folder = place / "files"
    for name in ("new", "replaced", "deleted"):
        (folder / name).mkdir(parents=True)
    with Arena(plan, place.name, folder) as arena:
        settings = (
            {"PORTICO_DATABASE_URL": database, "PORTICO_SECRET_KEY": SecretKey.generate().text()} if database else {}
        )
        home = Home(plan.work, place.name, settings)
        home.folder = place / "home"
        home.add("bench", "local", folder=str(folder))
        if setup.in_trash:
            say(f"changes: {setup.in_trash:,} files into the trash")
            _fill_trash(folder / TRASH, database or f"sqlite:///{home.folder}/portico.db", setup.in_trash)
        arena.servers[OURS] = Portico(home, workers=setup.workers)
        arena.headers[OURS] = {"Authorization": f"Bearer {home.key('bench')}"}
        if setup.has_peer:
            arena.add_sftpgo()
        found = {name: _rates(arena, name, setup) for name in arena.servers}
    ours = found[OURS]
    for what, figure in ours.items():
        title = f"{what}, {setup.name}"
        if setup.has_peer:
            yield from plan.rates(title, {name: rates[what] for name, rates in found.items()}, note=_NOTE)
        if what != "new":
            yield rate_line(GROUP, f"{title}, beside new ones", figure, "new", ours["new"], _GOAL)


def _rates(arena: Arena, name: str, setup: Setup) -> dict[str, Figure]:
    """Of one server, in turns."""
    say(f"changes: {name}, {setup.name}")
    names = {"new": "new", "replaced": str(_REPLACED), "deleted": "numbers"}
    contestants = {}
    for what, pattern in names.items():
        if what == "deleted":
            start = ("DELETE", f"{FILES}/deleted/" if name == OURS else f"{THEIR_FILES}?path=/deleted/")
        else:
            start = ("PUT", f"{FILES}/{what}/") if name == OURS else ("POST", f"{UPLOAD}?path=/{what}/")
        token = arena.headers[name]["Authorization"].removeprefix("Bearer ")
        contestants[what] = wrk_of(arena, name, "/", *start, token, pattern, str(SIZE))
    _filler(arena.top / "replaced", _REPLACED)()
    contestants["deleted"] = _filled(
        contestants["deleted"], _filler(arena.top / "deleted", int(_AT_MOST * arena.plan.seconds))
    )
    return in_turns(arena.plan.rounds, "req/s", contestants)


def _filler(folder: Path, number: int) -> Callable[[], None]:
    def fill() -> None:
        for each in range(number + 1):
            (folder / str(each)).write_bytes(bytes(SIZE))
        os.sync()  # the next round does not pay for this

    return fill


def _filled(send: Contestant, fill: Callable[[], None]) -> Contestant:
    def tidy() -> None:
        time.sleep(_UNDER_WAY_SECONDS)
        fill()

    fill()
    return Contestant(send.work, send.server, tidy=tidy)


def _fill_trash(folder: Path, url: str, number: int) -> None:
    parsed = make_url(url)
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    folder.mkdir()
    engine, now = create_engine(parsed), time.time_ns() // 1_000_000
    for start in range(0, number, 10_000):
        ids = [f"{now - each:012x}{each:012x}" for each in range(start, min(start + 10_000, number))]
        for trash_id in ids:
            os.close(os.open(folder / trash_id, os.O_CREAT | os.O_WRONLY))
        with engine.begin() as connection:
            connection.execute(insert(trash), [_row(trash_id, now) for trash_id in ids])
    engine.dispose()
    os.sync()


def _row(trash_id: str, now: int) -> dict[str, object]:
    return {
        "id": trash_id,
        "connection": "bench",
        "path": f"/deleted/{trash_id}",
        "is_folder": False,
        "size": 0,
        "reason": "deleted",
        "status": "kept",
        "user": "bench",
        "deleted_at": now,
        "expires_at": now + 30 * _DAY,
    }
