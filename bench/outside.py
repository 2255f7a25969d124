"""The same comparison with load generators that are not part of the project: wrk for many small requests, curl for
one large file. `make bench ARGS=outside`."""

import os
import re
import resource
import shutil
import subprocess
from collections.abc import Callable, Sequence

from bench.processes import ROOT
from bench.servers import FILES
from bench.sftpgo.arena import MEMORY, NGINX, OURS, SFTPGO, Arena, Plan
from bench.sftpgo.downloads import SMALL, address
from bench.sftpgo.listing import listing
from bench.sftpgo.peer import UPLOAD, missing
from bench.table import Contestant, Line, Sample
from bench.uploads import Places
from bench.workspace import GIB, Workspace, say

GROUP = "against SFTPGo, by wrk and curl"
_RATE = re.compile(r"^Requests/sec:\s*([\d.]+)", re.MULTILINE)
_COUNT = re.compile(r"^\s*(\d+) requests in", re.MULTILINE)
_WRONG = re.compile(r"^\s*(?:Non-2xx or 3xx responses|Socket errors):.*", re.MULTILINE)
_CONNECTIONS = 8
_SECONDS = 60
_UNSYNCED = "Portico syncs each of these files and its folder, SFTPGo none; on tmpfs that costs next to nothing."


def measure(work: Workspace, quick: bool) -> list[Line]:
    seconds = 1.0 if quick else 2.0
    plan = Plan(work, 2 if quick else 5, seconds=seconds, missing=missing(), group=GROUP)
    places = Places(work, "outside")
    folder = places.folder(OURS)
    for name in ("listed", "new"):
        (folder / name).mkdir()
    for number in range(1000):
        (folder / "listed" / f"file-{number:04d}").touch()
    (folder / "small").write_bytes(bytes(SMALL))
    shutil.copyfile(work.source(GIB), folder / "large")
    lines: list[Line] = []
    try:
        with Arena(plan, "outside", folder) as arena:
            arena.add_portico()
            arena.add_sftpgo()
            arena.add_nginx()
            lines += _by_curl(arena, plan)
            if shutil.which("wrk"):
                arena.add_sftpgo(MEMORY, users_in_memory=True)
                lines += _by_wrk(arena, plan)
            else:
                say("outside: wrk is not installed (apt-get install wrk), so many small requests are left out")
    finally:
        places.close()
    return lines


def parsed(output: str) -> tuple[float, int]:
    """wrk's requests per second, and how many there were."""
    if wrong := _WRONG.search(output):
        raise RuntimeError(f"wrk: {wrong[0].strip()}")
    rate, count = _RATE.search(output), _COUNT.search(output)
    if not rate or not count:
        raise RuntimeError(f"wrk said: {output[-500:]}")
    if count[1] == "0":
        raise RuntimeError("wrk: not one request was answered")
    return float(rate[1]), int(count[1])


def measured(command: Sequence[str]) -> tuple[str, float]:
    """What a program says, and its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stdout[-500:]} {done.stderr[-500:]}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _by_curl(arena: Arena, plan: Plan) -> list[Line]:
    def curl(name: str, path: str, *options: str, tidy: Callable[[], None] | None = None) -> Contestant:
        headers = [word for pair in arena.headers[name].items() for word in ("-H", ": ".join(pair))]
        written = "%{http_code} %{time_total} %{size_upload} %{size_download}"
        command = ["curl", "-sS", *options, *headers, "-o", os.devnull, "-w", written]

        def work() -> Sample:
            output, client = measured([*command, arena.servers[name].target.url + path])
            status, seconds, *sizes = output.split()
            if not status.startswith("2"):
                raise RuntimeError(f"curl: {name} answered {status}")
            return Sample(max(map(float, sizes)) / float(seconds) / 1e6, requests=1, client=client)

        return Contestant(work, arena.servers[name], tidy)

    def remove() -> None:
        (arena.top / "new" / "large").unlink()

    what = "1 GiB from tmpfs, by curl"
    fetched = {name: curl(name, address(name, arena.top, "large")) for name in arena.servers}
    lines = plan.rates(what, plan.run("MB/s", fetched, what))
    what = "1 GiB to tmpfs, raw body, by curl -T"
    paths = {
        OURS: ("PUT", f"{FILES}/new/large"),
        SFTPGO: ("POST", f"{UPLOAD}?path=/new/large"),
        NGINX: ("PUT", "/new/large"),
    }
    sent = {
        name: curl(name, paths[name][1], "-X", paths[name][0], "-T", arena.work.source(GIB), tidy=remove)
        for name in arena.servers
    }
    return lines + plan.rates(what, plan.run("MB/s", sent, what))


def wrk_of(arena: Arena, name: str, path: str, *script: str) -> Contestant:
    """Requests for a path, or, with the arguments of `put.lua`, changes."""
    headers = [word for pair in arena.headers[name].items() for word in ("-H", ": ".join(pair))]
    options = ["-t1", f"-c{_CONNECTIONS}", f"-d{arena.plan.seconds:.0f}s", *headers]
    if script:
        options += ["-s", str(ROOT / "bench" / "put.lua")]
    address = arena.servers[name].target.url + path

    def work() -> Sample:
        output, client = measured(["wrk", *options, address, *(["--", *script] if script else [])])
        rate, count = parsed(output)
        return Sample(rate, requests=count, client=client)

    return Contestant(work, arena.servers[name])


def _by_wrk(arena: Arena, plan: Plan) -> list[Line]:
    def compared(what: str, contestants: dict[str, Contestant], note: str = "") -> list[Line]:
        return plan.rates(what, plan.run("req/s", contestants, what), note=note)

    peers = [name for name in arena.servers if name != NGINX]
    pages = {name: listing(arena, name, arena.top / "listed").split()[1].decode() for name in peers}
    lines = compared("list 1,000, 8 connections, by wrk", {name: wrk_of(arena, name, pages[name]) for name in peers})
    small = {name: wrk_of(arena, name, address(name, arena.top, "small")) for name in arena.servers}
    lines += compared("10 KiB downloads, 8 connections, by wrk", small)
    puts = {}
    for name in peers:
        token = arena.headers[name]["Authorization"].removeprefix("Bearer ")
        start = ("PUT", f"{FILES}/new/") if name == OURS else ("POST", f"{UPLOAD}?path=/new/")
        puts[name] = wrk_of(arena, name, "/", *start, token)
    return lines + compared("10 KiB uploads to tmpfs, 8 connections, by wrk", puts, _UNSYNCED)
