"""Uploads of one large file and of many small ones, to a folder, to an S3 that discards them and to a real one."""

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from boto3.s3.transfer import TransferConfig  # type: ignore[import-untyped]

from bench.buckets import BUCKET, Bucket, RcloneBucket, Weed, client, weed_program
from bench.load import Target, hammer, request
from bench.processes import Process, apart
from bench.servers import FILES, Copyparty, Home, Nginx, Portico, RcloneRcd, form, form_of, nginx_program
from bench.stores import CannedStore
from bench.streams import Sending, send
from bench.table import Contestant, Figure, Line, Sample, in_turns, rate_line
from bench.workspace import GIB, Workspace, say

GROUP = "uploads"
SMALL = 10 * 1024
COUNT = 1000
CONTENT = bytes(range(256)) * (SMALL // 256)
COPYPARTY, RCLONE = "copyparty", "rclone rcd"
_BARE = ", bare"
"""The label of a peer that runs without its checksums."""
_BETTER = f"the better of {COPYPARTY} and {RCLONE}"
NOTES = {
    "Portico": "Portico serves folders with 2 workers, as many as there are cores, and syncs every file and its folder before it answers; no peer does.",
    "copyparty": "copyparty takes PUT; 'bare' runs without checksums (--put-ck no).",
    "rclone rcd": "rclone rcd: operations/uploadfile, 8 transfers; 'bare', and always to S3, without checksums; to S3 with parts of 16 MiB, 8 at once, unsigned.",
    "nginx-dav": "nginx-dav takes PUT, 2 workers, its temporary files beside their target, so that it renames.",
    "boto3 straight": "boto3: upload_file, as `aws s3 cp` does it (the same s3transfer), with its own defaults.",
}


def measure(work: Workspace, quick: bool) -> list[Line]:
    lines = []
    for tls in (False, True):
        lines += _to_folder(work, tls, quick)
    for tls in (False, True):
        lines += _to_swallowing(work, tls, quick)
    # By TLS, as every service in the cloud is spoken to.
    encrypted = partial(RcloneBucket, tls=True)
    lines += _to_bucket(work, encrypted, GIB, {"a direct PUT (curl -T)": 0.85, "rclone rcd": 1.8}, quick)
    if weed_program():
        # On few cores it is itself what all wait for, so it sets no goal and gets less to do.
        lines += _to_bucket(work, Weed, GIB // 4, {}, quick)
    return lines


class Places:
    """A folder for each server, emptied after each round."""

    def __init__(self, work: Workspace, name: str) -> None:
        self._top = work.make(name)

    def folder(self, name: str) -> Path:
        folder = self._top / name
        folder.mkdir(exist_ok=True)
        return folder

    def empty(self) -> None:
        for folder in self._top.iterdir():
            for entry in folder.iterdir():
                if not entry.name.startswith("."):
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def close(self) -> None:
        shutil.rmtree(self._top, ignore_errors=True)


Recipe = Callable[[str], Sending]
"""The upload of one large file under a name."""


def posted(path: str, headers: dict[str, str], field: str = "data") -> Recipe:
    def recipe(name: str) -> Sending:
        more, before, after = form(name, field=field)
        return Sending("POST", path, {**headers, **more}, before, after)

    return recipe


def put(path: str, headers: dict[str, str] | None = None) -> Recipe:
    return lambda name: Sending("PUT", f"{path}/{name}", headers or {})


def large(
    server: Process,
    target: Target,
    recipe: Recipe,
    source: str,
    size: int,
    at_once: int,
    tidy: Callable[[], None],
    name: str = "large",
) -> Contestant:
    def work() -> Sample:
        names = [name] if at_once == 1 else [f"{number}-{name}" for number in range(at_once)]
        seconds = apart(send, target, [recipe(each) for each in names], source, size)
        return Sample(size * at_once / seconds / 1e6)

    return Contestant(work, server, tidy)


def small(
    server: Process,
    target: Target,
    requests: Sequence[bytes],
    connections: int,
    tidy: Callable[[], None],
    files: int = COUNT,
) -> Contestant:
    def work() -> Sample:
        rates = apart(hammer, target, requests, connections)
        return Sample(rates.rate * files / len(requests), {"p50 ms": rates.p50 * 1000, "p99 ms": rates.p99 * 1000})

    return Contestant(work, server, tidy)


def small_requests(recipe: Recipe, count: int = COUNT) -> list[bytes]:
    """Each a whole request for one small file."""
    sendings = [recipe(f"small-{number:04d}.bin") for number in range(count)]
    return [sending.head(SMALL) + CONTENT + sending.after for sending in sendings]


def _to_folder(work: Workspace, tls: bool, quick: bool) -> list[Line]:
    over = "TLS" if tls else "plain"
    places = Places(work, f"uploads-{over}")
    home = Home(work, f"home-uploads-{over}")
    home.add("up", "local", folder=str(places.folder("portico")))
    gateway = Portico(home, tls=tls, workers=2)
    servers: dict[str, Any] = {"Portico": gateway}
    recipes = {"Portico": posted(f"{FILES}/", gateway.bearer("up"))}
    for way in ("", _BARE):
        name = COPYPARTY + way
        servers[name] = Copyparty(work, places.folder(name), tls=tls, as_it_comes=not way)
        recipes[name] = put("")
        name = RCLONE + way
        servers[name] = RcloneRcd(work, tls=tls, as_it_comes=not way)
        recipes[name] = posted(f"/operations/uploadfile?fs={quote(str(places.folder(name)))}&remote=", {})
    if nginx_program():
        servers["nginx-dav"] = Nginx(work, places.folder("nginx"), tls=tls)
        recipes["nginx-dav"] = put("")
    rounds = 1 if quick else 3
    source = work.source(GIB)
    lines: list[Line] = []
    try:
        for at_once in (1, 8):
            size = GIB // at_once
            say(f"uploads: 1 GiB to a folder, {over}, {at_once} at once")
            figures = in_turns(
                rounds if at_once == 1 else 1,
                "MB/s",
                {
                    name: large(server, server.target, recipes[name], source, size, at_once, places.empty)
                    for name, server in servers.items()
                    if at_once == 1 or not name.endswith(_BARE)
                },
            )
            what = f"1 GiB to a folder, {over}" if at_once == 1 else f"8 × 128 MiB at once to a folder, {over}"
            lines += _against(what, figures, _folder_goals(tls, at_once))
        lines += _small_to_folder(servers, recipes, over, rounds, places)
    finally:
        for server in servers.values():
            server.stop()
        places.close()
    return lines


def _folder_goals(tls: bool, at_once: int) -> dict[str, float]:
    if at_once > 1:
        return {}
    return {"nginx-dav": 0.95} if tls else {_BETTER: 2.5}


def _against(what: str, figures: dict[str, Figure], goals: dict[str, float], note: str = "") -> list[Line]:
    """Ours against each of the others, and against the better of the two that keep users' files, as they come and bare."""
    ours = figures["Portico"]
    others = {name: figure for name, figure in figures.items() if name != "Portico"}
    lines = [
        rate_line(GROUP, what, ours, name, figure, goals.get(name), note or NOTES.get(name.removesuffix(_BARE), ""))
        for name, figure in others.items()
    ]
    for way in (_BARE, ""):
        peers = [figures[name + way] for name in (COPYPARTY, RCLONE) if name + way in figures]
        if len(peers) == 2 and _BETTER in goals:
            best = max(peers, key=lambda figure: figure.value)
            lines.insert(0, rate_line(GROUP, what, ours, _BETTER + way, best, goals.get(_BETTER + way), note))
    return lines


def _small_to_folder(
    servers: dict[str, Any], recipes: dict[str, Recipe], over: str, rounds: int, places: Places
) -> list[Line]:
    lines: list[Line] = []
    requests = {name: small_requests(recipes[name]) for name in servers}
    for connections in (1, 8) if over == "plain" else (8,):
        say(f"uploads: 1,000 × 10 KiB to a folder, {over}, {connections} connections")
        contestants = {
            name: small(server, server.target, requests[name], connections, places.empty)
            for name, server in servers.items()
            if connections == 8 or not name.endswith(_BARE)
        }
        figures = in_turns(rounds, "files/s", contestants)
        what = f"1,000 × 10 KiB, one request each, {connections} connection{'s' * (connections > 1)}, {over}"
        goals = {_BETTER: 1.1} if connections == 8 and over == "plain" else {}
        lines += _against(what, figures, goals)
    together = {}
    for name in ("Portico", RCLONE):
        sending = recipes[name]("x")
        batches = []
        for start in range(0, COUNT, 100):
            headers, body = form_of((f"small-{number:04d}.bin", CONTENT) for number in range(start, start + 100))
            batches.append(request("POST", sending.path, {**sending.headers, **headers}, body))
        together[name] = small(servers[name], servers[name].target, batches, 1, places.empty)
    figures = in_turns(rounds, "files/s", together)
    return [*lines, *_against(f"1,000 × 10 KiB, 100 files a request, {over}", figures, {})]


def curl(url: str, source: str) -> Contestant:
    """`curl -T` straight to the store."""

    def work() -> Sample:
        done = subprocess.run(
            ["curl", "-sSk", "-T", source, "-o", "/dev/null", "-w", "%{http_code} %{time_total} %{size_upload}", url],
            capture_output=True,
            text=True,
        )
        if not done.stdout.startswith("200"):
            raise RuntimeError(f"curl -T failed: {done.stdout} {done.stderr}")
        _, seconds, size = done.stdout.split()
        return Sample(float(size) / float(seconds) / 1e6)

    return Contestant(work)


def _boto3_large(url: str, verify: str | None, source: str, key: str) -> float:
    store = client(url, verify)
    began = time.perf_counter()
    store.upload_file(source, BUCKET, key, Config=TransferConfig())
    return time.perf_counter() - began


def _boto3_small(url: str, verify: str | None, at_once: int) -> float:
    store = client(url, verify)
    content = bytes(SMALL)
    began = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda number: store.put_object(Bucket=BUCKET, Key=f"b/{number}", Body=content), range(COUNT)))
    return time.perf_counter() - began


def _to_swallowing(work: Workspace, tls: bool, quick: bool) -> list[Line]:
    over = "TLS on both sides" if tls else "plain"
    say(f"uploads: to a swallowing S3, {over}")
    verify = str(work.certificate) if tls else None
    source, rounds = work.source(GIB), 1 if quick else 3
    store = CannedStore(work, tls=tls)
    home = Home(work, f"home-swallow-{tls}")
    home.add("s3", "s3", **store.s3)
    gateway, rclone = Portico(home, tls=tls), RcloneRcd(work, tls=tls, stores={"store": store.url})
    headers = gateway.bearer("s3")
    ours = posted(f"{FILES}/up", headers)
    theirs = posted(f"/operations/uploadfile?fs=store:{BUCKET}&remote=up", {})
    sized = f"sized-{GIB}"

    def boto() -> Sample:
        return Sample(GIB / apart(_boto3_large, store.url, verify, source, "up/boto3") / 1e6)

    nothing = lambda: None  # noqa: E731 - the store keeps nothing
    lines = []
    try:
        figures = in_turns(
            rounds,
            "MB/s",
            {
                "Portico": large(gateway, gateway.target, ours, source, GIB, 1, nothing),
                "curl -T straight": curl(f"{store.url}/{BUCKET}/up/curl", source),
                "rclone rcd": large(rclone, rclone.target, theirs, source, GIB, 1, nothing, sized),
                "boto3 straight": Contestant(boto),
            },
        )
        goals = {"curl -T straight": 0.42} if tls else {}
        lines += _against(f"1 GiB to a swallowing S3, {over}", figures, goals)
        if not quick:
            size = GIB // 8
            eight = {
                "Portico": large(gateway, gateway.target, ours, source, size, 8, nothing),
                "rclone rcd": large(rclone, rclone.target, theirs, source, size, 8, nothing, f"sized-{size}"),
            }
            lines += _against(f"8 × 128 MiB at once to a swallowing S3, {over}", in_turns(1, "MB/s", eight), {})
        lines += _small_to_swallowing(gateway, rclone, ours, theirs, store, verify, over)
    finally:
        for server in (gateway, rclone, store):
            server.stop()
    return lines


def _small_to_swallowing(
    gateway: Portico, rclone: RcloneRcd, ours: Recipe, theirs: Recipe, store: CannedStore, verify: str | None, over: str
) -> list[Line]:
    content = bytes(SMALL)

    def whole(recipe: Recipe, name: str) -> bytes:
        sending = recipe(name)
        return sending.head(SMALL) + content + sending.after

    requests = {
        "Portico": [whole(ours, f"small-{number}") for number in range(COUNT)],
        "rclone rcd": [whole(theirs, f"{number}-sized-{SMALL}") for number in range(COUNT)],
    }
    nothing = lambda: None  # noqa: E731
    figures = in_turns(
        1,
        "files/s",
        {
            "Portico": small(gateway, gateway.target, requests["Portico"], 8, nothing),
            "rclone rcd": small(rclone, rclone.target, requests["rclone rcd"], 8, nothing),
            "boto3 straight, 8 threads": Contestant(lambda: Sample(COUNT / apart(_boto3_small, store.url, verify, 8))),
        },
    )
    lines = _against(f"1,000 × 10 KiB to a swallowing S3, 8 connections, {over}", figures, {})
    if not verify:
        before = store.calls
        apart(hammer, gateway.target, [whole(ours, "one-more")], 1)
        lines.append(Line(GROUP, "calls to S3 for an upload of 10 KiB", Figure(store.calls - before, "calls")))
    return lines


def _to_bucket(
    work: Workspace, kind: Callable[[Workspace], Bucket], size: int, goals: dict[str, float], quick: bool
) -> list[Line]:
    bucket = kind(work)
    what = "1 GiB" if size == GIB else f"{size >> 20} MiB"
    say(f"uploads: {what} to a real S3, {bucket.name}")
    source, rounds = work.source(size), 1 if quick else 2
    home = Home(work, f"home-{bucket.port}")
    home.add("s3", "s3", **bucket.s3)
    gateway, rclone = Portico(home), RcloneRcd(work, stores={"store": bucket.url})
    store = bucket.client()

    def remove() -> None:
        for entry in store.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
            store.delete_object(Bucket=BUCKET, Key=entry["Key"])

    def boto() -> Sample:
        return Sample(size / apart(_boto3_large, bucket.url, bucket.certificate, source, "boto3") / 1e6)

    straight = curl(bucket.signed("put_object", Key="curl"), source)
    theirs = posted(f"/operations/uploadfile?fs=store:{BUCKET}&remote=", {})
    ours = posted(f"{FILES}/", gateway.bearer("s3"))
    try:
        figures = in_turns(
            rounds,
            "MB/s",
            {
                "Portico": large(gateway, gateway.target, ours, source, size, 1, remove),
                "a direct PUT (curl -T)": Contestant(straight.work, None, remove),
                "rclone rcd": large(rclone, rclone.target, theirs, source, size, 1, remove),
                "boto3 straight": Contestant(boto, None, remove),
            },
        )
    finally:
        for server in (gateway, rclone, bucket):
            server.stop()
        shutil.rmtree(bucket.folder, ignore_errors=True)
    return _against(f"{what} to a real S3 ({bucket.name})", figures, goals)
