"""What users do with files on a local folder, beside SFTPGo, and what only Portico has: `make bench ARGS=operations`.
The table in docs/performance.md says which line measures which operation of the API."""

import base64
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench import account
from bench.dialects import PorticoDialect, SftpgoDialect
from bench.load import Rates, body_of, exchange, hammer, request
from bench.servers import FILES, PASSWORD, Home, Portico, basic
from bench.sftpgo.arena import OURS, SFTPGO, Arena, Plan
from bench.sftpgo.peer import SHARES, TOKEN, USER, USER_SHARES, Sftpgo, missing
from bench.table import Contestant, Line, Sample
from bench.workspace import Workspace

GROUP = "operations"
LINES = {
    "new": "upload, new name",
    "replace": "upload, replacing",
    "move": "move a file",
    "copy": "copy a file",
    "delete": "delete a file",
    "make-folder": "make a folder",
    "stat": "metadata of a file (SFTPGo: list a folder with one file)",
    "search": "search 10,000 files for a name (SFTPGo: list them)",
    "zip-small": "ZIP of 2,000 files of 20 KB",
    "zip-large": "ZIP of 4 files of 64 MiB",
    "tus-small": "tus with a small file in one request (SFTPGo: raw body)",
    "link": "download 10 KiB by a link",
    "key": "download 10 KiB by an API key",
    "sign-in": "sign in",
    "first-listing": "sign in and list 100 files after a start",
    **account.LINES,
}
SIZE = 2048
_CONTENT = bytes(range(256)) * (SIZE // 256)
_COUNT = 1000
"""Requests of a round."""
_CONNECTIONS = 8
_REPLACED = 200
_ZIPPED, _ZIPPED_SIZE = 2000, 20_000
_LARGE, _LARGE_SIZE = 4, 64 * 2**20
_SEARCHED = 10_000
_GOALS: dict[str, float | None] = {
    **dict.fromkeys(("move", "copy", "zip-small"), 0.8),
    **dict.fromkeys(("new", "replace", "delete", "sign-in")),
}
"""Where it isn't 1. New, replaced and deleted files have theirs in another group, and SFTPGo remembers passwords."""
_NOTE = "On the disk of the checkout, 8 connections, files of 2 KB. Portico syncs what it changes, keeps what was replaced or deleted, and records it; SFTPGo does none of it."
_API = "/backend/1.0.0"


def measure(
    work: Workspace, quick: bool, lines: frozenset[str] = frozenset(), rounds: int | None = None
) -> Iterator[Line]:
    plan = Plan(work, rounds or (2 if quick else 5), lines, missing=missing(), group=GROUP)
    with _place(work) as place:
        folder = place / "files"
        folder.mkdir()
        with Arena(plan, place.name, folder) as arena:
            home = Home(work, place.name)
            home.folder = place / "home"
            home.add("bench", "local", folder=str(folder))
            home.command("user", "set", "bench", "--rights", "list,download,upload,overwrite,delete,share")
            arena.servers[OURS] = portico = Portico(home, workers=2)
            arena.headers[OURS] = {"Authorization": f"Bearer {home.key('bench')}"}
            arena.add_sftpgo()
            bench = _Bench(arena, PorticoDialect(arena.headers[OURS]), portico)
            for name, contestants in bench.contestants().items():
                if plan.wants(name):
                    yield from _compared(plan, name, contestants)
            if plan.wants("sign-in"):
                yield from _compared(plan, "sign-in", bench.sign_ins)
            for name, measured in {account.READS: account.read, account.CHANGES: account.change}.items():
                if plan.wants(name):
                    yield Line(GROUP, LINES[name], measured(arena, portico))
    if plan.wants("first-listing"):
        yield from _first_listing(plan)


@contextmanager
def _place(work: Workspace) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="operations-", dir=work.kept))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _compared(plan: Plan, name: str, make: Callable[[], dict[str, Contestant]]) -> Iterator[Line]:
    unit = "MB/s" if name.startswith("zip") else "req/s"
    figures = plan.run(unit, make(), LINES[name])
    goal = _GOALS.get(name, 1.0)
    yield from plan.rates(LINES[name], figures, {SFTPGO: goal} if goal else {}, note=_NOTE)


class _Bench:
    def __init__(self, arena: Arena, ours: PorticoDialect, portico: Portico) -> None:
        self._arena = arena
        self._ours = ours
        self._portico = portico
        self._theirs = SftpgoDialect(arena.headers[SFTPGO]) if SFTPGO in arena.headers else None

    def contestants(self) -> dict[str, Callable[[], dict[str, Contestant]]]:
        return {
            "new": lambda: self._each(lambda ask, top: [ask.upload(f"{top}/new-{n}", _CONTENT) for n in _numbers()]),
            "replace": lambda: self._each(
                lambda ask, top: [ask.upload(f"{top}/{n % _REPLACED}", _CONTENT) for n in _numbers()], _REPLACED
            ),
            "move": lambda: self._each(
                lambda ask, top: [ask.move(f"{top}/{n}", f"{top}/moved-{n}") for n in _numbers()], _COUNT
            ),
            "copy": lambda: self._each(
                lambda ask, top: [ask.copy(f"{top}/{n}", f"{top}/copied-{n}") for n in _numbers()], _COUNT
            ),
            "delete": lambda: self._each(lambda ask, top: [ask.delete(f"{top}/{n}") for n in _numbers()], _COUNT),
            "make-folder": lambda: self._each(
                lambda ask, top: [ask.make_folder(f"{top}/folder-{n}") for n in _numbers()]
            ),
            "stat": lambda: self._each(
                lambda ask, top: [ask.stat(f"{top}/0") if ask is self._ours else ask.list_folder(top)] * _COUNT, 1
            ),
            "tus-small": lambda: self._each(
                lambda ask, top: [
                    self._created(f"{top}/new-{n}") if ask is self._ours else ask.upload(f"{top}/new-{n}", _CONTENT)
                    for n in _numbers()
                ]
            ),
            "search": self._search,
            "zip-small": partial(self._zips, _ZIPPED, _ZIPPED_SIZE),
            "zip-large": partial(self._zips, _LARGE, _LARGE_SIZE),
            "link": self._by_link,
            "key": self._by_key,
        }

    def _each(self, make: Callable[[Any, str], list[bytes]], files: int = 0) -> dict[str, Contestant]:
        """Requests of each server in a folder of its own, which has so many files before each round."""
        found = {}
        for name, ask in self._dialects().items():
            top = self._arena.top / name
            fill = partial(_filled, top, files)
            fill()
            found[name] = self._hammered(name, make(ask, f"/{name}"), tidy=fill)
        return found

    def _dialects(self) -> dict[str, Any]:
        return {OURS: self._ours} | ({SFTPGO: self._theirs} if self._theirs else {})

    def _hammered(self, name: str, requests: Sequence[bytes], tidy: Callable[[], None] | None = None) -> Contestant:
        server = self._arena.servers[name]
        return self._arena.contestant(name, hammer, server.target, requests, _CONNECTIONS, sample=_rate, tidy=tidy)

    def _created(self, path: str) -> bytes:
        pairs = (("folder", path.rpartition("/")[0]), ("filename", path.rpartition("/")[2]))
        metadata = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in pairs)
        headers = {
            **self._arena.headers[OURS],
            "Tus-Resumable": "1.0.0",
            "Upload-Length": str(SIZE),
            "Upload-Metadata": metadata,
            "Content-Type": "application/offset+octet-stream",
        }
        return request("POST", f"{_API}/uploads", headers, _CONTENT)

    def _search(self) -> dict[str, Contestant]:
        _filled(self._arena.top / "searched", _SEARCHED, 0)
        time.sleep(2.5)  # as long as a folder that has just changed is read again
        found = request("GET", f"{FILES}/searched?action=SEARCH&name=4711", self._arena.headers[OURS])
        requests = {OURS: found} | ({SFTPGO: self._theirs.list_folder("/searched")} if self._theirs else {})
        return {name: self._hammered(name, [content] * 24) for name, content in requests.items()}

    def _zips(self, count: int, size: int) -> dict[str, Contestant]:
        top = self._arena.top / f"zipped-{count}"
        _filled(top, count, size)
        return {
            name: self._arena.contestant(
                name,
                hammer,
                self._arena.servers[name].target,
                [ask.zip(f"/{top.name}")],
                1,
                sample=lambda found: Sample(count * size * found.rate / 1e6, requests=1),
            )
            for name, ask in self._dialects().items()
        }

    def _by_link(self) -> dict[str, Contestant]:
        _filled(self._arena.top / "linked", 1, 10_240)
        session = self._portico.bearer("bench")
        link = self._asked("POST", "/account/links", session, path="/linked", kind="download")
        guest = self._asked("POST", "/share-sessions", {}, link=link["address"])
        contents = {OURS: PorticoDialect({"Authorization": f"Bearer {guest['token']}"}).download("/0")}
        if self._theirs:
            body = json.dumps({"name": "bench", "paths": ["/linked"], "scope": 1}).encode()
            said = self._exchanged(SFTPGO, "POST", USER_SHARES, body)
            share = said.partition(b"X-Object-Id: ")[2].partition(b"\r\n")[0].decode()
            contents[SFTPGO] = request("GET", f"{SHARES}/{share}/files?path=/0")
        return {name: self._hammered(name, [content] * _COUNT) for name, content in contents.items()}

    def _by_key(self) -> dict[str, Contestant]:
        _filled(self._arena.top / "keyed", 1, 10_240)
        contents = {OURS: self._ours.download("/keyed/0")}
        if self._theirs:
            headers = {"X-SFTPGO-API-KEY": self._arena.servers[SFTPGO].api_key()}
            contents[SFTPGO] = SftpgoDialect(headers).download("/keyed/0")
        return {name: self._hammered(name, [content] * _COUNT) for name, content in contents.items()}

    def sign_ins(self) -> dict[str, Contestant]:
        headers, body = self._portico.login_request("bench")
        contents = {OURS: request("POST", "/backend/login", headers, body)}
        if self._theirs:
            contents[SFTPGO] = request("GET", TOKEN, basic(USER, PASSWORD))
        return {name: self._hammered(name, [content] * 30) for name, content in contents.items()}

    def _asked(self, method: str, path: str, headers: dict[str, str] | None = None, /, **values: Any) -> Any:
        body = json.dumps(values).encode() if values else b""
        answer = self._exchanged(OURS, method, f"{_API}{path}", body, headers)
        return json.loads(body_of(answer) or b"null")

    def _exchanged(
        self, name: str, method: str, path: str, body: bytes, headers: dict[str, str] | None = None
    ) -> bytes:
        headers = {"Content-Type": "application/json", **(self._arena.headers[name] if headers is None else headers)}
        with self._arena.servers[name].target.connect() as connection:
            return exchange(connection, request(method, path, headers, body))


def _first_listing(plan: Plan) -> Iterator[Line]:
    folder = plan.work.make("first-listing")
    _filled(folder, 100, 0)
    home = Home(plan.work, "home-first-listing")
    home.add("bench", "local", folder=str(folder))
    Portico(home).stop()
    makers: dict[str, Callable[[], Any]] = {OURS: partial(Portico, home)}
    dialects: dict[str, Any] = {OURS: PorticoDialect}
    if not plan.missing:
        first = Sftpgo(plan.work, folder, web=True)
        first.stop()
        makers[SFTPGO] = partial(Sftpgo, plan.work, folder, web=True, home=first.home)
        dialects[SFTPGO] = SftpgoDialect

    def seconds(name: str) -> Sample:
        began = time.perf_counter()
        server = makers[name]()
        try:
            headers = server.bearer("bench") if name == OURS else server.bearer()
            with server.target.connect() as connection:
                exchange(connection, dialects[name](headers).list_folder("/"))
            return Sample(time.perf_counter() - began)
        finally:
            server.stop()

    contestants = {name: Contestant(partial(seconds, name)) for name in makers}
    what = LINES["first-listing"]
    yield from plan.times(what, plan.run("s", contestants, what), {SFTPGO: 1.0})


def _numbers() -> range:
    return range(_COUNT)


def _rate(found: Rates) -> Sample:
    return Sample(found.rate, {"p99 ms": found.p99 * 1000}, found.count)


def _filled(folder: Path, count: int, size: int = SIZE) -> None:
    """The folder has these files, and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    content = os.urandom(min(size, 2**20)) * max(1, size >> 20) if size else b""
    for number in range(count):
        (folder / str(number)).write_bytes(content[:size])
    os.sync()  # the next round does not pay for this
