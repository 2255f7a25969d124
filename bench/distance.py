"""Portico, SFTPGo and rclone in front of one store that is far away: `make bench ARGS=distance`. What users wait for
then are the calls that follow each other, so the calls are counted, too."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from bench.buckets import BUCKET, Bucket, real_bucket
from bench.dialects import Dialect, PorticoDialect, RcloneDialect, SftpgoDialect
from bench.far_away import FarAway
from bench.load import exchange
from bench.processes import Process
from bench.servers import Home, Portico, RcloneRcd
from bench.sftpgo.arena import NO_TRASH, OURS, RCLONE, SFTPGO
from bench.sftpgo.peer import Sftpgo, missing
from bench.stores import s3_options
from bench.table import Contestant, Figure, Line, Sample, in_turns, time_line
from bench.workspace import Workspace, say

GROUP = "at a distance"
MILLISECONDS = 30.0
_CONTENT = bytes(range(256)) * 40
_FILES = [(f"{number}.bin", _CONTENT) for number in range(10)]
_LISTED = 1000
_QUIET_SECONDS = 0.2
"""After an answer, for calls that nobody waits for."""
_NOTE = (
    "The store is behind a proxy that adds 30 ms to each round trip; files of 10 KB, one request at a time, one worker."
    " 'ms in 4 calls': medians. rclone's mkdir does nothing, because a bucket has no folders, and its list is without times, for which it would ask for each file."
)

Operation = Callable[[Dialect, str, int], bytes]
"""The request of a round, below the contestant's own folder."""
OPERATIONS: dict[str, Operation] = {
    "list 1,000": lambda ask, top, number: ask.list_folder("/listed"),
    "upload, new name": lambda ask, top, number: ask.upload(f"{top}/new/{number}.bin", _CONTENT),
    "upload, replacing": lambda ask, top, number: ask.upload(f"{top}/read/replaced.bin", _CONTENT),
    "form of 10 files": lambda ask, top, number: ask.form(f"{top}/form/{number}", _FILES),
    "download": lambda ask, top, number: ask.download(f"{top}/read/read.bin"),
    "a range": lambda ask, top, number: ask.download(f"{top}/read/read.bin", "1000-1999"),
    "copy a file": lambda ask, top, number: ask.copy(f"{top}/read/read.bin", f"{top}/copied/{number}.bin"),
    "move a file": lambda ask, top, number: ask.move(f"{top}/move/{number}.bin", f"{top}/moved/{number}.bin"),
    "delete a file": lambda ask, top, number: ask.delete(f"{top}/delete/{number}.bin"),
    "make a folder": lambda ask, top, number: ask.make_folder(f"{top}/made/{number}"),
}


@dataclass(frozen=True)
class Server:
    process: Any
    ask: Dialect
    top: str


def measure(work: Workspace, quick: bool) -> Iterator[Line]:
    rounds = 3 if quick else 9
    rows: list[str] = []
    """For docs/performance.md."""
    store = real_bucket(work)
    proxy = FarAway(work, store.target, MILLISECONDS)
    try:
        servers = _servers(work, proxy)
        _fill(store, list(servers.values()), rounds)
        for what, operation in OPERATIONS.items():
            say(f"{GROUP}: {what}")
            figures = in_turns(rounds, "ms", {name: _contestant(proxy, servers[name], operation) for name in servers})
            rows.append(_row(what, figures))
            yield from _lines(what, {name: _with_calls(figure) for name, figure in figures.items()})
        print("\n".join([*_head(list(servers)), *rows]))
    finally:
        Process.stop_all()


def _servers(work: Workspace, proxy: FarAway) -> dict[str, Server]:
    options = s3_options(proxy.target.url)
    servers: dict[str, Server] = {}
    for name, settings in {OURS: {}, NO_TRASH: {"PORTICO_TRASH_RETENTION": "0"}}.items():
        top = f"/portico-{len(servers)}"
        home = Home(work, f"home{top.replace('/', '-')}", settings)
        home.add("bench", "s3", **options)
        portico = Portico(home)
        servers[name] = Server(portico, PorticoDialect(portico.bearer("bench")), top)
    if reason := missing():
        say(f"{GROUP}: {reason}")
    else:
        sftpgo = Sftpgo(work, work.make("sftpgo-buffers"), bucket=options)
        servers[SFTPGO] = Server(sftpgo, SftpgoDialect(sftpgo.bearer()), "/sftpgo")
    rclone = RcloneRcd(work, stores={"store": proxy.target.url}, as_it_comes=True)
    servers[RCLONE] = Server(rclone, RcloneDialect(f"store:{BUCKET}"), "/rclone")
    return servers


def _fill(store: Bucket, servers: list[Server], rounds: int) -> None:
    client = store.client()
    keys = [f"listed/{number:04d}.bin" for number in range(_LISTED)]
    for server in servers:
        top = server.top[1:]
        keys += [f"{top}/{name}" for name in ("read/read.bin", "read/replaced.bin")]
        # A file that stays: where a store keeps folders, they are not to come and go with what is measured.
        keys += [f"{top}/{name}/stays.bin" for name in ("new", "form", "copied", "moved", "made", "move", "delete")]
        keys += [f"{top}/{name}/{number}.bin" for name in ("move", "delete") for number in range(rounds + 1)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: client.put_object(Bucket=BUCKET, Key=key, Body=_CONTENT), keys))


def _contestant(proxy: FarAway, server: Server, operation: Operation) -> Contestant:
    """Its connections to the store are open after a first round, which does not count."""
    round_number = 0

    def work() -> Sample:
        nonlocal round_number
        content = operation(server.ask, server.top, round_number)
        round_number += 1
        with server.process.target.connect() as connection:
            calls, began = proxy.calls, time.perf_counter()
            exchange(connection, content)
            seconds = time.perf_counter() - began
        time.sleep(_QUIET_SECONDS)
        return Sample(1000 * seconds, {"calls": proxy.calls - calls})

    work()
    return Contestant(work, server.process)


def _head(names: list[str]) -> list[str]:
    return [f"| 10 KB files; ms (calls) | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]


def _row(what: str, figures: dict[str, Figure]) -> str:
    cells = (f"{figure.value:,.0f} ({figure.extra['calls']:g})" for figure in figures.values())
    return f"| {what} | {' | '.join(cells)} |"


def _with_calls(figure: Figure) -> Figure:
    calls = figure.extra["calls"]
    return replace(figure, unit=f"ms in {calls:g} call{'s' * (calls != 1)}")


def _lines(what: str, figures: dict[str, Figure]) -> Iterator[Line]:
    for name in (OURS, NO_TRASH):
        title = what if name == OURS else f"{what}, without trash"
        for peer in (SFTPGO, RCLONE):
            if peer in figures:
                yield time_line(GROUP, title, figures[name], peer, figures[peer], note=_NOTE)
