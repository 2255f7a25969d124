"""What a byte costs: large transfers against a bare application on the same HTTP server, in processor time."""

import shutil
from functools import partial
from typing import Any

from bench.bare import BareServer
from bench.load import Target, request
from bench.servers import FILES, Home, Portico
from bench.streams import fetch
from bench.table import Contestant, Figure, Line, Sample, in_turns, share_line
from bench.uploads import Places, Recipe, large, posted, put
from bench.workspace import GIB, Workspace, say

GROUP = "transfers"
PUT, FORM, BARE = "PUT", "form", "a bare application"
GOALS = {PUT: 1.1, FORM: 1.25}
_NOTE = "The bare application runs on the same server with the same buffers: it writes each chunk as it comes, syncs the file and responds, and checks nothing."


def measure(work: Workspace, quick: bool) -> list[Line]:
    return [line for tls in (False, True) for line in _measure(work, tls, 1 if quick else 5)]


def _measure(work: Workspace, tls: bool, rounds: int) -> list[Line]:
    over = "over TLS" if tls else "plain"
    places = Places(work, f"transfers-{tls}")
    home = Home(work, f"home-transfers-{tls}")
    home.add("up", "local", folder=str(places.folder("portico")))
    gateway = Portico(home, tls=tls, workers=2)
    bare = BareServer(work, places.folder("bare"), tls=tls)
    source, bearer = work.source(GIB), gateway.bearer("up")
    servers: dict[str, Any] = {PUT: gateway, FORM: gateway, BARE: bare}
    recipes: dict[str, Recipe] = {PUT: put(FILES, bearer), FORM: posted(f"{FILES}/", bearer), BARE: put("")}
    lines: list[Line] = []
    try:
        for at_once in (1, 8):
            what = f"1 GiB, {over}" if at_once == 1 else f"8 × 128 MiB at once, {over}"
            say(f"transfers: {what}")
            figures = in_turns(
                rounds,
                "MB/s",
                {
                    name: large(server, server.target, recipes[name], source, GIB // at_once, at_once, places.empty)
                    for name, server in servers.items()
                },
            )
            lines += [
                _processor(f"{name} of {what}", figures[name], figures[BARE], goal) for name, goal in GOALS.items()
            ]
        say(f"transfers: download of 1 GiB, {over}")
        for folder in ("portico", "bare"):
            shutil.copyfile(source, places.folder(folder) / "large")
        ours = request("GET", f"{FILES}/large?action=DOWNLOAD", bearer)
        figures = in_turns(
            rounds,
            "MB/s",
            {
                PUT: Contestant(partial(_fetched, gateway.target, ours), gateway),
                BARE: Contestant(partial(_fetched, bare.target, request("GET", "/large", {})), bare),
            },
        )
        return [*lines, _processor(f"download of 1 GiB, {over}", figures[PUT], figures[BARE], 1.1)]
    finally:
        gateway.stop()
        bare.stop()
        places.close()


def _fetched(target: Target, content: bytes) -> Sample:
    return Sample(GIB / fetch(target, [content], True) / 1e6)


def _processor(what: str, ours: Figure, theirs: Figure, goal: float) -> Line:
    rates = f"{what} ({ours} against {theirs})"
    mine, its = Figure(ours.cpu, "CPU s"), Figure(theirs.cpu, "CPU s")
    return share_line(GROUP, rates, mine, BARE, its, goal, _NOTE)
