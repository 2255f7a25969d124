"""The start, and memory: of all processes together, shared pages in proportion (PSS)."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from bench.load import exchange, request
from bench.processes import Process
from bench.servers import FILES, Home, Portico
from bench.sftpgo.arena import GROUP, NOTES, OURS, SFTPGO, Arena, Plan
from bench.sftpgo.peer import DIRS, Sftpgo
from bench.sftpgo.uploads import raw
from bench.table import Contestant, Figure, Line, Sample, share_line
from bench.uploads import Places, Recipe

LINES = {
    "start": "start to the first answer",
    "memory-idle": "idle memory, one worker",
    "memory-uploads": "memory of each of 64 uploads at once to a folder",
}
_AT_ONCE = 64
_PIECE, _PIECES = 256 * 1024, 32
_DECLARED = 64 * 2**20
_ALLOWED = "the most allowed"
_START = "Start: from the start of the process to the answer of /healthz, on a home that was there before."
_MEMORY = (
    "Memory: PSS of all processes of a server, so that none is left out and no shared page is counted twice. Idle: after"
    " a sign-in and a listing. Programs of the same Python that run elsewhere on the machine make Portico look smaller."
)


def measure(plan: Plan) -> list[Line]:
    lines: list[Line] = []
    if plan.wants("start"):
        lines += _start(plan)
    if plan.wants("memory-uploads", "memory-idle"):
        lines += _memory(plan)
    return lines


def _start(plan: Plan) -> list[Line]:
    folder = plan.work.make("sftpgo-start")
    home = Home(plan.work, "home-start")
    home.add("bench", "local", folder=str(folder))
    Portico(home).stop()
    makers: dict[str, Callable[[], Any]] = {OURS: partial(Portico, home)}
    if not plan.missing:
        first = Sftpgo(plan.work, folder, web=True)
        first.stop()
        makers[SFTPGO] = partial(Sftpgo, plan.work, folder, web=True, home=first.home)
    contestants = {name: Contestant(partial(started, make)) for name, make in makers.items()}
    figures = {
        name: replace(figure, cpu=figure.extra["cpu"])
        for name, figure in plan.run("s", contestants, LINES["start"]).items()
    }
    return [
        share_line(GROUP, LINES["start"], figures[OURS], _ALLOWED, Figure(0.5, "s"), 1.0, _START),
        *plan.times(LINES["start"], figures),
    ]


def started(make: Callable[[], Any]) -> Sample:
    """Seconds from the start of a process to its first answer."""
    began = time.perf_counter()
    server = make()
    try:
        with server.target.connect() as connection:
            exchange(connection, request("GET", "/healthz"))
        return Sample(time.perf_counter() - began, {"cpu": server.usage().cpu})
    finally:
        server.stop()


def _memory(plan: Plan) -> list[Line]:
    idle: dict[str, list[float]] = {}
    running: dict[str, list[float]] = {}
    for number in range(min(3, plan.rounds)):
        places = Places(plan.work, f"sftpgo-memory-{number}")
        try:
            with Arena(plan, f"memory-{number}", places.folder(OURS), workers=1) as arena:
                arena.add_portico()
                arena.add_sftpgo(folder=places.folder(SFTPGO), web=True)
                for name, server in arena.servers.items():
                    listing = f"{FILES}/" if name == OURS else f"{DIRS}?path=/"
                    with server.target.connect() as connection:
                        exchange(connection, request("GET", listing, arena.headers[name]))
                time.sleep(2)  # until what the start needed is given back
                for name, server in arena.servers.items():
                    idle.setdefault(name, []).append(server.proportional())
                    if plan.wants("memory-uploads"):
                        recipe = raw(name, arena.headers[name])
                        running.setdefault(name, []).append(per_upload(server, server.target, recipe))
        finally:
            places.close()
    lines = []
    for line, found, goal in (("memory-idle", idle, 80.0), ("memory-uploads", running, 0.25)):
        if plan.wants(line):
            figures = {name: _figure(values) for name, values in found.items()}
            allowed = Figure(goal, "MiB")
            lines.append(share_line(GROUP, LINES[line], figures[OURS], _ALLOWED, allowed, 1.0, _MEMORY))
            if SFTPGO in figures:
                lines.append(share_line(GROUP, LINES[line], figures[OURS], SFTPGO, figures[SFTPGO], note=NOTES[SFTPGO]))
    return lines


def _figure(values: list[float]) -> Figure:
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2]
    return Figure(middle, "MiB", rounds=len(ordered), low=ordered[0], high=ordered[-1])


def per_upload(server: Process, target: Any, recipe: Recipe) -> float:
    """MiB that each of many uploads adds at most while all of them send at once."""

    def begun(name: str) -> Any:
        connection = target.connect()
        connection.sendall(recipe(name).head(_DECLARED))
        return connection

    def send(connections: list[Any], pieces: int) -> None:
        for _ in range(pieces):
            for connection in connections:
                connection.sendall(piece)

    piece = bytes(_PIECE)
    connections = [begun("first")]
    send(connections, _PIECES)
    time.sleep(0.5)
    before = server.proportional()
    most, done = before, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.02):
            most = max(most, server.proportional())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        more = [begun(f"running-{number}") for number in range(_AT_ONCE)]
        connections += more
        send(more, _PIECES)
        time.sleep(0.2)
    finally:
        done.set()
        watcher.join()
        for connection in connections:
            connection.close()
    return (most - before) / _AT_ONCE
