"""Uploads by PUT against forms and against peers, with and without a digest, to a folder."""

from typing import Any

from bench.load import Target
from bench.processes import apart
from bench.resumable import send_parts
from bench.servers import FILES, Copyparty, Home, Portico, RcloneRcd
from bench.table import Contestant, Line, Sample, in_turns, rate_line
from bench.uploads import Places, Recipe, large, posted, put, small, small_requests
from bench.workspace import GIB, Workspace, say

GROUP = "puts"
OURS, FORM, DIGEST, RECEIPT = "PUT", "the form", "PUT with a digest", "PUT with a receipt"
PEERS = {"copyparty": "as it comes: it hashes, too", "rclone rcd": "as it comes: it hashes, too"}
GOALS = {FORM: 1.3}
SMALL_GOALS = {FORM: 1.4}
TUS, PART, TUS_GOAL = "tus in parts of 8 MiB", 8 * 2**20, 0.85


def _by_tus(target: Target, headers: dict[str, str], source: str) -> Sample:
    return Sample(GIB / apart(send_parts, target, headers, "parts", source, GIB, PART) / 1e6)


def measure(work: Workspace, quick: bool) -> list[Line]:
    places = Places(work, "puts")
    home = Home(work, "home-puts")
    home.add("up", "local", folder=str(places.folder("portico")))
    gateway = Portico(home, workers=2)
    bearer = gateway.bearer("up")
    servers: dict[str, Any] = dict.fromkeys((OURS, FORM, DIGEST, RECEIPT), gateway)
    recipes: dict[str, Recipe] = {
        OURS: put(FILES, bearer),
        FORM: posted(f"{FILES}/", bearer),
        DIGEST: put(FILES, {**bearer, "Want-Repr-Digest": "sha-256=1"}),
        RECEIPT: put(FILES, {**bearer, "Prefer": "return=representation"}),
    }
    servers["copyparty"] = Copyparty(work, places.folder("copyparty"), as_it_comes=True)
    recipes["copyparty"] = put("")
    servers["rclone rcd"] = RcloneRcd(work, as_it_comes=True)
    place = places.folder("rclone")
    recipes["rclone rcd"] = posted(f"/operations/uploadfile?fs={place}&remote=", {})
    source, rounds = work.source(GIB), 1 if quick else 3
    try:
        say("puts: 1 GiB to a folder")
        figures = in_turns(
            rounds,
            "MB/s",
            {
                name: large(server, server.target, recipes[name], source, GIB, 1, places.empty)
                for name, server in servers.items()
            }
            | {TUS: Contestant(lambda: _by_tus(gateway.target, bearer, source), gateway, places.empty)},
        )
        by_tus = figures.pop(TUS)
        lines = [rate_line(GROUP, f"1 GiB by {TUS}", by_tus, OURS, figures[OURS], TUS_GOAL)]
        lines += [
            rate_line(GROUP, "1 GiB to a folder", figures[OURS], name, figure, GOALS.get(name), PEERS.get(name, ""))
            for name, figure in figures.items()
            if name != OURS
        ]
        say("puts: 1,000 × 10 KiB to a folder, 8 connections")
        figures = in_turns(
            rounds,
            "files/s",
            {
                name: small(server, server.target, small_requests(recipes[name]), 8, places.empty)
                for name, server in servers.items()
            },
        )
        what = "1,000 × 10 KiB, 8 connections"
        return lines + [
            rate_line(GROUP, what, figures[OURS], name, figure, SMALL_GOALS.get(name), PEERS.get(name, ""))
            for name, figure in figures.items()
            if name != OURS
        ]
    finally:
        for server in dict.fromkeys(servers.values()):
            server.stop()
        places.close()
