"""Listing local folders, against `rclone rcd` and a bare reading of the names."""

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from bench.load import Rates, Target, hammer, request
from bench.processes import Process, apart
from bench.servers import FILES, Home, Portico, RcloneRcd
from bench.table import BUDGET, Contestant, Figure, Line, Sample, in_turns, rate_line, share_line, time_line
from bench.watchdog import longest_gap, pulses
from bench.workspace import Workspace, say

GROUP = "listing"
_CHEAPEST = {"noModTime": True, "noMimeType": True}
_CURSOR = re.compile(rb'"nextCursor":"([^"]+)"')
_NOTE = (
    "rclone rcd lists with noModTime and noMimeType, its cheapest; 'full' asks for the times and types that Portico"
    " gives. It knows no pages: it sends the whole folder."
)


def measure(work: Workspace, quick: bool) -> list[Line]:
    home = Home(work, "listing")
    home.add("files", "local", folder=str(work.kept))
    rclone = RcloneRcd(work)
    try:
        lines = _small(work, home, rclone, quick)
        lines += _many_connections(work, home, rclone, quick)
        lines += _walk(work, home, rclone, quick)
        lines += _million(work, home, rclone, quick)
    finally:
        rclone.stop()
    return lines


def page(gateway: Portico, folder: str, size: int, cursor: str = "") -> bytes:
    query = f"?size={size}" + (f"&cursor={cursor}" if cursor else "")
    return request("GET", f"{FILES}/{folder}{query}", gateway.bearer("files"))


def all_of(folder: Path, options: dict[str, bool]) -> bytes:
    """rclone's listing of a folder."""
    body = json.dumps({"fs": str(folder.parent), "remote": folder.name, "opt": options}).encode()
    return request("POST", "/operations/list", {"Content-Type": "application/json"}, body)


def sample(rates: Rates) -> Sample:
    extra = {"p50 ms": rates.p50 * 1000, "p99 ms": rates.p99 * 1000, "worst ms": rates.worst * 1000}
    return Sample(rates.rate, {**extra, "requests": rates.count, "bytes": rates.size})


def hammered(server: Process, target: Target, content: bytes, connections: int, seconds: float) -> Contestant:
    return Contestant(lambda: sample(apart(hammer, target, [content], connections, seconds)), server)


def latency(server: Process | None, target: Target, content: bytes, seconds: float) -> Contestant:
    """The median of one request after the other."""

    def work() -> Sample:
        rates = apart(hammer, target, [content], 1, seconds)
        return Sample(rates.p50 * 1000, {"p99 ms": rates.p99 * 1000})

    return Contestant(work, server)


def _small(work: Workspace, home: Home, rclone: RcloneRcd, quick: bool) -> list[Line]:
    say("listing: pages of 250 and 1000 of a folder of 1,000")
    folder = work.big_folder(1000)
    seconds, rounds = (0.5, 2) if quick else (1.0, 3)
    gateway = Portico(home)
    try:
        contents = {size: page(gateway, folder.name, size) for size in (250, 1000)}
        for content in contents.values():
            apart(hammer, gateway.target, [content], 8, 0.3)
        figures = in_turns(
            rounds,
            "req/s",
            {
                "250": hammered(gateway, gateway.target, contents[250], 8, seconds),
                "cheapest": hammered(rclone, rclone.target, all_of(folder, _CHEAPEST), 8, seconds),
                "1000": hammered(gateway, gateway.target, contents[1000], 8, seconds),
                "full": hammered(rclone, rclone.target, all_of(folder, {}), 8, seconds),
            },
        )
    finally:
        gateway.stop()
    goals = {"250": 6.0, "1000": 2.0}
    return [
        rate_line(
            GROUP,
            f"page of {size}, warm, of 1,000",
            figures[size],
            f"rclone rcd, {how}",
            figures[how],
            goals[size] if how == "cheapest" else None,
            _NOTE,
        )
        for size in goals
        for how in ("cheapest", "full")
    ]


def _many_connections(work: Workspace, home: Home, rclone: RcloneRcd, quick: bool) -> list[Line]:
    folder = work.big_folder(1000)
    seconds, rounds = (0.5, 1) if quick else (1.0, 2)
    gateways = {workers: Portico(home, workers=workers) for workers in (1, 2)}
    lines = []
    try:
        for connections in (8, 64):
            say(f"listing: {connections} connections, 1 and 2 workers")
            contestants = {
                str(workers): hammered(gateway, gateway.target, page(gateway, folder.name, 250), connections, seconds)
                for workers, gateway in gateways.items()
            }
            content = all_of(folder, _CHEAPEST)
            contestants["rclone"] = hammered(rclone, rclone.target, content, connections, seconds)
            figures = in_turns(rounds, "req/s", contestants)
            lines += [
                rate_line(
                    GROUP,
                    f"page of 250 of 1,000, {connections} connections, {workers} worker{'s' * (workers > 1)}",
                    figures[str(workers)],
                    "rclone rcd, cheapest",
                    figures["rclone"],
                )
                for workers in gateways
            ]
    finally:
        for gateway in gateways.values():
            gateway.stop()
    return lines


def walk(target: Target, path: str, headers: dict[str, str], size: int) -> tuple[float, int]:
    """Seconds to read a folder to its end, and how many entries came."""
    cursor, count = "", 0
    began = time.perf_counter()
    with target.connect() as connection:
        while True:
            query = f"?size={size}" + (f"&cursor={cursor}" if cursor else "")
            connection.sendall(request("GET", path + query, headers))
            answer = bytearray()
            length = -1
            while length < 0 or len(answer) < length:
                answer += connection.recv(2**20)
                end = answer.find(b"\r\n\r\n")
                if length < 0 and end > 0:
                    found = re.search(rb"content-length: *(\d+)", answer[:end], re.IGNORECASE)
                    if answer[9:12] != b"200" or not found:
                        raise RuntimeError(answer[:400].decode("latin-1"))
                    length = end + 4 + int(found[1])
            count += answer.count(b'"exists":')
            found = _CURSOR.search(answer)
            if not found:
                return time.perf_counter() - began, count - 1  # the folder's own entry is none of its files
            cursor = found[1].decode()


def timed(target: Target, content: bytes) -> float:
    """Seconds that one request takes."""
    return hammer(target, [content], 1).worst


def _walk(work: Workspace, home: Home, rclone: RcloneRcd, quick: bool) -> list[Line]:
    count = 100_000
    folder = work.big_folder(count)
    say("listing: a walk through 100,000 in pages of 1000")
    rounds = 1 if quick else 3
    gateway, fresh = Portico(home), RcloneRcd(work)  # a peer whose memory has not grown yet
    path, headers = f"{FILES}/{folder.name}", gateway.bearer("files")

    def walked() -> Sample:
        seconds, entries = apart(walk, gateway.target, path, headers, 1000)
        if entries != count:
            raise RuntimeError(f"the walk found {entries} of {count} entries")
        return Sample(seconds)

    def listed(options: dict[str, bool]) -> Callable[[], Sample]:
        return lambda: Sample(apart(timed, fresh.target, all_of(folder, options)))

    before = {}
    try:
        for server, content in (
            (gateway, page(gateway, "files-1000", 1000)),
            (fresh, all_of(folder.with_name("files-1000"), {})),
        ):
            apart(timed, server.target, content)
            before[server.name] = server.memory()
        first = Sample(apart(timed, gateway.target, page(gateway, folder.name, 250)))
        figures = in_turns(
            rounds,
            "s",
            {
                "walk": Contestant(walked, gateway),
                "cheapest": Contestant(listed(_CHEAPEST), fresh),
                "full": Contestant(listed({}), fresh),
            },
        )
        warm = in_turns(
            rounds,
            "req/s",
            {
                str(size): hammered(gateway, gateway.target, page(gateway, folder.name, size), 8, 0.5)
                for size in (250, 1000)
            },
        )
    finally:
        gateway.stop()
        fresh.stop()
    ours, theirs = figures["walk"], figures["cheapest"]
    memory = share_line(
        GROUP,
        "  … its memory, above what it had before",
        Figure(ours.peak - before[gateway.name], "MiB"),
        "rclone rcd, cheapest",
        Figure(theirs.peak - before[fresh.name], "MiB"),
        0.1,
        "Memory of a walk: by how much the serving process grew at most since it had listed 1,000 files, the snapshot of the 100,000 included.",
    )
    what = "walk of 100,000 in pages of 1000"
    return [
        time_line(GROUP, what, ours, "rclone rcd, cheapest", theirs, 1.5),
        time_line(GROUP, what, ours, "rclone rcd, full", figures["full"]),
        memory,
        Line(GROUP, "page of 250 of 100,000, cold (once)", Figure(first.value * 1000, "ms")),
        *(Line(GROUP, f"page of {size} of 100,000, warm, 8 connections", warm[size]) for size in warm),
    ]


def scan(folder: str) -> float:
    """Seconds for the bare names."""
    began = time.perf_counter()
    with os.scandir(folder) as entries:
        sum(1 for _ in entries)
    return time.perf_counter() - began


def _million(work: Workspace, home: Home, rclone: RcloneRcd, quick: bool) -> list[Line]:
    count = 1_000_000
    folder, smaller = work.big_folder(count), work.big_folder(10_000)
    say("listing: a folder of 1,000,000, cold and warm")
    rounds = 1 if quick else 3
    apart(scan, str(folder))  # so that the disk's cache is warm for all
    stalls: list[float] = []
    usages: list[tuple[float, float]] = []
    warm: list[dict[str, Figure]] = []

    def cold() -> Sample:
        gateway = Portico(home)
        try:
            content = page(gateway, folder.name, 250)
            # What is cold is the folder, not the code.
            apart(timed, gateway.target, page(gateway, "files-1000", 250))
            gateway.mark()
            with pulses(gateway.target) as heart:
                seconds = apart(timed, gateway.target, content)
            stalls.append(heart.longest)
            used = gateway.usage()
            usages.append((used.cpu, used.peak))
            contents = {name: page(gateway, name, 250) for name in (folder.name, smaller.name)}
            for warmed in contents.values():
                apart(timed, gateway.target, warmed)
            warm.append(
                in_turns(
                    6, "ms", {name: latency(None, gateway.target, warmed, 0.2) for name, warmed in contents.items()}
                )
            )
        finally:
            gateway.stop()
        return Sample(seconds)

    figures = in_turns(
        rounds, "s", {"cold": Contestant(cold), "scandir": Contestant(lambda: Sample(apart(scan, str(folder))))}
    )
    listed = in_turns(
        1, "s", {"rclone": Contestant(lambda: Sample(apart(timed, rclone.target, all_of(folder, _CHEAPEST))), rclone)}
    )
    usages.sort()
    cpu, peak = usages[len(usages) // 2]
    ours = Figure(figures["cold"].value, "s", cpu, peak)
    pages = sorted(warm, key=lambda round_: round_[folder.name].value)[len(warm) // 2]
    gap = max(apart(longest_gap, str(folder)) for _ in range(min(2, rounds)))
    walked = [] if quick or BUDGET.spent else _walked(home, folder)
    return [
        share_line(GROUP, "first page of 1,000,000, cold", ours, "os.scandir of it", figures["scandir"], 1.6),
        time_line(GROUP, "first page of 1,000,000, cold", ours, "rclone rcd, cheapest", listed["rclone"], 14),
        share_line(
            GROUP, "page of 250 of 1,000,000, warm", pages[folder.name], "the same of 10,000", pages[smaller.name], 1.1
        ),
        share_line(
            GROUP,
            "longest silence of the event loop meanwhile",
            Figure(max(stalls) * 1000, "ms"),
            "the most allowed",
            Figure(100, "ms"),
            1.0,
            "Silence: /healthz is asked every 5 ms over an open connection while the folder is read cold; the longest answer of all rounds.",
        ),
        Line(GROUP, "  … the same by a ticker in its process", Figure(gap * 1000, "ms")),
        *walked,
    ]


def _walked(home: Home, folder: Path) -> list[Line]:
    gateway = Portico(home)
    try:
        arguments = (gateway.target, f"{FILES}/{folder.name}", gateway.bearer("files"), 1000)
        figures = in_turns(1, "s", {"walk": Contestant(lambda: Sample(apart(walk, *arguments)[0]), gateway)})
    finally:
        gateway.stop()
    return [Line(GROUP, "walk of 1,000,000 in pages of 1000, cold", figures["walk"])]
