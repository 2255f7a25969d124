"""Uploads: raw bodies against raw bodies, forms against forms, durable against durable."""

import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.load import Rates, Target, exchange, hammer
from bench.servers import FILES
from bench.sftpgo.arena import ATOMIC, MEMORY, NGINX, OURS, SFTPGO, Arena, Plan
from bench.sftpgo.peer import FILES as THEIR_FILES
from bench.sftpgo.peer import UPLOAD
from bench.streams import Sending, send
from bench.table import Contestant, Line, Sample
from bench.uploads import Places, Recipe, posted, put, small_requests
from bench.workspace import GIB

LINES = {
    "upload": "1 GiB to tmpfs, plain, raw body",
    "upload-form": "1 GiB to tmpfs, plain, form",
    "uploads-8": "8 × 128 MiB at once to tmpfs, raw bodies",
    "small-uploads": "1,000 × 10 KiB to tmpfs, raw bodies, 8 connections",
    "upload-tls": "1 GiB to tmpfs, TLS, raw body",
    "upload-disk": "1 GiB to a disk, durable, raw body",
    "small-disk": "500 × 10 KiB to a disk, durable, raw bodies, 8 connections",
}
AT_END = f"{SFTPGO}, synced at the end"
_DURABLE = "Durable: Portico has synced the file and its folder before it answers. What other servers have not synced, the client syncs within the time: after each answer, or ('synced at the end') all files and then their folder after the last answer."
_FILES = 500


def measure(plan: Plan) -> list[Line]:
    lines: list[Line] = []
    if plan.wants("upload", "upload-form", "uploads-8", "small-uploads"):
        lines += _to_memory(plan)
    if plan.wants("upload-tls"):
        lines += _over_tls(plan)
    if plan.wants("upload-disk", "small-disk"):
        lines += _to_disk(plan)
    return lines


def raw(name: str, headers: dict[str, str]) -> Recipe:
    """The upload of a file as the body of a request."""
    if name.startswith(SFTPGO):
        return lambda file: Sending("POST", f"{UPLOAD}?path=/{file}", headers)
    return put(FILES if name == OURS else "", headers)


def form(name: str, headers: dict[str, str]) -> Recipe:
    if name == OURS:
        return posted(f"{FILES}/", headers)
    return posted(f"{THEIR_FILES}?path=/", headers, "filenames")


def sync(*files: str) -> None:
    """Make files durable, and then their places in their folders."""
    for path in (*files, *dict.fromkeys(os.path.dirname(file) for file in files)):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sent(target: Target, sendings: Sequence[Sending], source: str, size: int, to_sync: Sequence[str]) -> float:
    """Seconds until all of these are answered, and synced where their server does not."""
    seconds = send(target, sendings, source, size)
    began = time.perf_counter()
    sync(*to_sync)
    return seconds + time.perf_counter() - began


def sent_durably(
    target: Target, requests: Sequence[bytes], to_sync: Sequence[str], at_end: bool, connections: int
) -> float:
    """Seconds for all of these over so many connections. After each answer its file is synced, or all at the end."""
    failures: list[BaseException] = []

    def converse(first: int) -> None:
        try:
            with target.connect() as connection:
                for number in range(first, len(requests), connections):
                    exchange(connection, requests[number])
                    if to_sync and not at_end:
                        sync(to_sync[number])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=converse, args=(first,)) for first in range(connections)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    if at_end:
        sync(*to_sync)
    return time.perf_counter() - began


def _arena(plan: Plan, name: str, places: Places, *, tls: bool = False, atomic: bool = False) -> Arena:
    arena = Arena(plan, name, places.folder("portico"), tls=tls)
    arena.add_portico()
    arena.add_sftpgo(folder=places.folder(SFTPGO))
    if atomic:
        arena.add_sftpgo(ATOMIC, folder=places.folder(ATOMIC), atomic=True)
    temporary = places.folder(NGINX) / ".temporary"
    temporary.mkdir()
    arena.add_nginx(places.folder(NGINX), temporary)
    return arena


def _large(
    arena: Arena,
    recipes: dict[str, Recipe],
    places: Places,
    *,
    at_once: int = 1,
    durable: bool = False,
    tidy: Callable[[], None] | None = None,
) -> dict[str, Contestant]:
    size = GIB // at_once
    source = arena.work.source(GIB)
    files = [f"large-{number}" for number in range(at_once)]

    def sample(seconds: float) -> Sample:
        return Sample(size * at_once / seconds / 1e6, requests=at_once)

    return {
        name: arena.contestant(
            name,
            sent,
            arena.servers[name].target,
            [recipe(file) for file in files],
            source,
            size,
            [str(places.folder(name) / file) for file in files] if durable and name != OURS else [],
            sample=sample,
            tidy=tidy or places.empty,
        )
        for name, recipe in recipes.items()
    }


def _to_memory(plan: Plan) -> list[Line]:
    places = Places(plan.work, "sftpgo-uploads")
    lines: list[Line] = []
    try:
        with _arena(plan, "uploads", places) as arena:
            bodies = {name: raw(name, arena.headers[name]) for name in arena.servers}
            if plan.wants("upload"):
                figures = plan.run("MB/s", _large(arena, bodies, places), LINES["upload"])
                lines += plan.rates(LINES["upload"], figures, {SFTPGO: 1.0}, 1.0)
            if plan.wants("upload-form"):
                forms = {name: form(name, arena.headers[name]) for name in arena.servers if name != NGINX}
                figures = plan.run("MB/s", _large(arena, forms, places), LINES["upload-form"])
                lines += plan.rates(LINES["upload-form"], figures, {SFTPGO: 1.0})
            if plan.wants("uploads-8"):
                figures = plan.run("MB/s", _large(arena, bodies, places, at_once=8), LINES["uploads-8"])
                lines += plan.rates(LINES["uploads-8"], figures, {SFTPGO: 0.9})
            if plan.wants("small-uploads"):
                arena.add_sftpgo(MEMORY, folder=places.folder(MEMORY), users_in_memory=True)
                contestants = _hammered(arena, places)
                figures = plan.run("files/s", contestants, LINES["small-uploads"])
                lines += plan.rates(LINES["small-uploads"], figures)
    finally:
        places.close()
    return lines


def _hammered(arena: Arena, places: Places) -> dict[str, Contestant]:
    def sample(found: Rates) -> Sample:
        return Sample(found.rate, {"p99 ms": found.p99 * 1000}, found.count)

    return {
        name: arena.contestant(
            name,
            hammer,
            server.target,
            small_requests(raw(name, arena.headers[name])),
            8,
            sample=sample,
            tidy=places.empty,
        )
        for name, server in arena.servers.items()
    }


def _over_tls(plan: Plan) -> list[Line]:
    places = Places(plan.work, "sftpgo-uploads-tls")
    try:
        with _arena(plan, "uploads-tls", places, tls=True) as arena:
            bodies = {name: raw(name, arena.headers[name]) for name in arena.servers}
            figures = plan.run("MB/s", _large(arena, bodies, places), LINES["upload-tls"])
    finally:
        places.close()
    return plan.rates(LINES["upload-tls"], figures, {SFTPGO: 0.9})


class Disk(Places):
    """Folders on the disk that the checkout is on. What was written is flushed before the next one's turn."""

    def __init__(self, kept: Path) -> None:
        self._top = Path(tempfile.mkdtemp(prefix="durable-", dir=kept))

    def empty(self) -> None:
        super().empty()
        os.sync()


def _to_disk(plan: Plan) -> list[Line]:
    places = Disk(plan.work.kept)
    lines: list[Line] = []
    try:
        with _arena(plan, "uploads-disk", places, atomic=True) as arena:
            bodies = {name: raw(name, arena.headers[name]) for name in arena.servers}
            os.sync()
            if plan.wants("upload-disk"):
                several = {name: bodies[name] for name in bodies if name != ATOMIC}
                figures = plan.run("MB/s", _large(arena, several, places, durable=True), LINES["upload-disk"])
                lines += plan.rates(LINES["upload-disk"], figures, {SFTPGO: 1.0}, 1.0, _DURABLE)
            if plan.wants("small-disk"):
                figures = plan.run("files/s", _small(arena, bodies, places), LINES["small-disk"])
                lines += plan.rates(LINES["small-disk"], figures, {SFTPGO: 1.0}, 1.0, _DURABLE)
    finally:
        places.close()
    return lines


def _small(arena: Arena, recipes: dict[str, Recipe], places: Places) -> dict[str, Contestant]:
    def sample(seconds: float) -> Sample:
        return Sample(_FILES / seconds, requests=_FILES)

    def contestant(name: str, at_end: bool = False) -> Contestant:
        files = [str(places.folder(name) / f"small-{number:04d}.bin") for number in range(_FILES)]
        return arena.contestant(
            name,
            sent_durably,
            arena.servers[name].target,
            small_requests(recipes[name], _FILES),
            [] if name == OURS else files,
            at_end,
            8,
            sample=sample,
            tidy=places.empty,
        )

    contestants = {name: contestant(name) for name in recipes}
    if SFTPGO in recipes:
        contestants[AT_END] = contestant(SFTPGO, at_end=True)
    return contestants
