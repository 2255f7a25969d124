"""Listings: of folders that have just changed, that change all the time, of many folders in turn, and at rest."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.listing import walk
from bench.load import Rates, Target, body_of, exchange, hammer, request
from bench.servers import FILES
from bench.sftpgo.arena import OURS, SFTPGO, Arena, Plan
from bench.sftpgo.peer import DIRS
from bench.table import Contestant, Line, Sample
from bench.workspace import Workspace

LINES = {
    "list-changed": "list 1,000, changed just before, 1 connection",
    "walk-changed": "walk of 100,000 in pages of 1,000, changed just before",
    "walk-busy": "walk of 100,000 in pages of 1,000, a file comes and goes every 0.2 s",
    "walk-rest": "walk of 100,000 in pages of 1,000, at rest",
    "stream-changed": "walk of 100,000 in one response, changed just before",
    "stream-busy": "walk of 100,000 in one response, a file comes and goes every 0.2 s",
    "stream-rest": "walk of 100,000 in one response, at rest",
    "list-warm": "list 1,000, the same folder again and again, 8 connections",
    "folders": "list 100 folders of 200 in turn, 8 connections",
    "folders-changed": "list 100 folders of 200 in turn, each changed just before, 1 connection",
}
LINES_TYPE = "application/x-ndjson"
_COUNT = 100_000
_FOLDERS, _EACH = 100, 200
_WALKS = tuple(name for name in LINES if name.startswith(("walk-", "stream-")))
_WALK = "SFTPGo knows no pages: it sends a whole folder in one answer, not sorted."
_PAUSE = 0.2
_TRUSTED_SECONDS = 2.5
"""After that, a folder is at rest for everybody."""


@dataclass(frozen=True, slots=True)
class Changed:
    """Listings of folders that changed just before."""

    rate: float
    count: int
    stale: int
    """Answers that did not show the change."""


def measure(plan: Plan) -> list[Line]:
    lines: list[Line] = []
    if plan.wants("list-changed", *_WALKS, "folders-changed"):
        with _arena(plan, "listing", workers=1) as arena:
            if plan.wants("list-changed"):
                lines += _changed(arena, plan, "list-changed", [plan.work.big_folder(1000)], 1.2)
            for name in _WALKS:
                if plan.wants(name):
                    lines += _walk(arena, plan, name)
            if plan.wants("folders-changed"):
                lines += _changed(arena, plan, "folders-changed", many_folders(plan.work), None)
    if plan.wants("list-warm", "folders"):
        with _arena(plan, "listing-many", workers=2) as arena:
            if plan.wants("list-warm"):
                lines += _hammered(arena, plan, "list-warm", [plan.work.big_folder(1000)])
            if plan.wants("folders"):
                lines += _hammered(arena, plan, "folders", many_folders(plan.work))
    return lines


def _arena(plan: Plan, name: str, workers: int) -> Arena:
    arena = Arena(plan, name, plan.work.kept, workers=workers)
    arena.add_portico()
    arena.add_sftpgo()
    return arena


def many_folders(work: Workspace) -> list[Path]:
    """Built once and kept, as the big ones are."""
    top = work.kept / f"folders-{_FOLDERS}-{_EACH}"
    mark = top.with_suffix(".built")
    folders = [top / f"folder-{number:03d}" for number in range(_FOLDERS)]
    if not mark.exists():
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(_EACH):
                (folder / f"file-{number:04d}.txt").touch()
        mark.touch()
    _settle(folders[-1])
    return folders


def _settle(folder: Path) -> None:
    time.sleep(max(0.0, folder.stat().st_mtime + _TRUSTED_SECONDS - time.time()))


def listing(arena: Arena, name: str, folder: Path, size: int = 1000) -> bytes:
    """The request for all of a folder, if it has no more than `size` entries."""
    path = str(folder.relative_to(arena.top))
    address = f"{FILES}/{path}?size={size}" if name == OURS else f"{DIRS}?path=/{path}"
    return request("GET", address, arena.headers[name])


@contextmanager
def renamed(folder: Path) -> Iterator[Callable[[], str]]:
    """A function that renames a file of the folder, and says its new name. It has its old one again at the end."""
    original = min(entry.name for entry in os.scandir(folder))
    names = cycle([f"{original}.a", f"{original}.b"])
    current = original

    def rename() -> str:
        nonlocal current
        new = next(names)
        os.rename(folder / current, folder / new)
        current = new
        return new

    try:
        yield rename
    finally:
        os.rename(folder / current, folder / original)


def list_changed(target: Target, contents: Sequence[tuple[Path, bytes]], seconds: float) -> Changed:
    """List folders in turn over one connection, each changed just before. Only the listings are timed."""
    took, count, stale = 0.0, 0, 0
    with ExitStack() as stack:
        connection = stack.enter_context(target.connect())
        changes = [(stack.enter_context(renamed(folder)), content) for folder, content in contents]
        end = time.monotonic() + seconds
        for rename, content in cycle(changes):
            if time.monotonic() > end:
                break
            name = rename().encode()
            began = time.perf_counter()
            answer = exchange(connection, content)
            took += time.perf_counter() - began
            count += 1
            stale += b'"' + name + b'"' not in body_of(answer)
    return Changed(count / took, count, stale)


def _changed(arena: Arena, plan: Plan, line: str, folders: list[Path], goal: float | None) -> list[Line]:
    def sample(found: Changed) -> Sample:
        return Sample(found.rate, {"stale": found.stale}, found.count)

    contestants = {
        name: arena.contestant(
            name,
            list_changed,
            server.target,
            [(folder, listing(arena, name, folder)) for folder in folders],
            plan.seconds,
            sample=sample,
        )
        for name, server in arena.servers.items()
    }
    figures = plan.run("req/s", contestants, LINES[line])
    stale = {name: figure.extra["stale"] for name, figure in figures.items() if figure.extra["stale"]}
    note = f"{line}: answers without the change, in a round: {stale}" if stale else ""
    return plan.rates(LINES[line], figures, {SFTPGO: goal} if goal else {}, note=note)


def _hammered(arena: Arena, plan: Plan, line: str, folders: list[Path]) -> list[Line]:
    def sample(found: Rates) -> Sample:
        return Sample(found.rate, {"p99 ms": found.p99 * 1000}, found.count)

    contestants = {}
    for name, server in arena.servers.items():
        contents = [listing(arena, name, folder) for folder in folders]
        hammer(server.target, contents * 2, 8)
        contestants[name] = arena.contestant(name, hammer, server.target, contents, 8, plan.seconds, sample=sample)
    return plan.rates(LINES[line], plan.run("req/s", contestants, LINES[line]), {SFTPGO: 1.0})


def _walk(arena: Arena, plan: Plan, line: str) -> list[Line]:
    folder = plan.work.big_folder(_COUNT)
    busy, streamed = line.endswith("-busy"), line.startswith("stream-")

    def prepared(work: Callable[[], Sample]) -> Sample:
        if busy:
            with coming_and_going(folder):
                return work()
        if line.endswith("-changed"):
            with renamed(folder) as rename:
                rename()
                return work()
        _settle(folder)
        return work()

    def sample(found: tuple[float, int]) -> Sample:
        seconds, entries = found
        if not _COUNT <= entries <= _COUNT + busy:
            raise RuntimeError(f"the walk found {entries} of {_COUNT} entries")
        return Sample(seconds, requests=1)

    contestants = {}
    for name, server in arena.servers.items():
        path = f"{FILES}/{folder.name}"
        work: tuple[Any, ...] = (list_all, server.target, listing(arena, name, folder))
        if name == OURS and streamed:
            work = stream, server.target, request("GET", path, {**arena.headers[name], "Accept": LINES_TYPE})
        elif name == OURS:
            work = walk, server.target, path, arena.headers[name], 1000
        plain = arena.contestant(name, *work, sample=sample)
        contestants[name] = Contestant(partial(prepared, plain.work), server)
    goal = 1.2 if line.endswith("-rest") else 1.0
    return plan.times(LINES[line], plan.run("s", contestants, LINES[line]), {SFTPGO: goal}, note=_WALK)


def list_all(target: Target, content: bytes) -> tuple[float, int]:
    """Seconds for SFTPGo's answer, and the entries in it."""
    began = time.perf_counter()
    with target.connect() as connection:
        answer = exchange(connection, content)
    seconds = time.perf_counter() - began
    return seconds, body_of(answer).count(b'"name":')


def stream(target: Target, content: bytes) -> tuple[float, int]:
    """Seconds for a whole folder in one response of Portico, and the entries in it."""
    began = time.perf_counter()
    with target.connect() as connection:
        answer = exchange(connection, content)
    seconds = time.perf_counter() - began
    body = body_of(answer)
    if not body.endswith(b'{"end":true}\n'):
        raise RuntimeError(f"the listing is not complete: {body[-400:].decode('latin-1')}")
    return seconds, body.count(b'"exists":') - 1  # the folder's own entry is none of its files


@contextmanager
def coming_and_going(folder: Path) -> Iterator[None]:
    """A file comes to the folder and goes again while the block runs."""
    process = get_context("fork").Process(target=_come_and_go, args=(folder / "zz-coming-and-going",))
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()
        (folder / "zz-coming-and-going").unlink(missing_ok=True)


def _come_and_go(file: Path) -> None:
    while True:
        file.touch()
        time.sleep(_PAUSE)
        file.unlink()
        time.sleep(_PAUSE)
