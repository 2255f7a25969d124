"""Downloads of 1 GiB, from a folder, from a store that sends random bytes, and from a real one."""

import shutil
import subprocess
from typing import Any

from bench.buckets import BUCKET, real_bucket
from bench.load import Target, request
from bench.processes import Process, apart
from bench.servers import FILES, Copyparty, Home, Nginx, Portico, RcloneRcd, nginx_program
from bench.stores import CannedStore
from bench.streams import fetch
from bench.table import Contestant, Figure, Line, Sample, in_turns, rate_line
from bench.workspace import GIB, Workspace, say

GROUP = "downloads"


def measure(work: Workspace, quick: bool) -> list[Line]:
    lines = []
    for tls in (False, True):
        lines += _from_folder(work, tls, quick)
        lines += _from_noise(work, tls, quick)
    return lines + _from_bucket(work, quick)


def _fetched(server: Process, target: Target, content: bytes, size: int, at_once: int = 1) -> Contestant:
    return Contestant(lambda: Sample(size * at_once / apart(fetch, target, [content] * at_once) / 1e6), server)


def _against(what: str, figures: dict[str, Figure]) -> list[Line]:
    ours = figures["Portico"]
    return [rate_line(GROUP, what, ours, name, figures[name]) for name in figures if name != "Portico"]


def _from_folder(work: Workspace, tls: bool, quick: bool) -> list[Line]:
    over = "TLS" if tls else "plain"
    folder = work.make(f"downloads-{over}")
    for name, size in (("large", GIB), ("eighth", GIB // 8)):
        shutil.copyfile(work.source(size), folder / name)
    home = Home(work, f"home-downloads-{over}")
    home.add("down", "local", folder=str(folder))
    gateway = Portico(home, tls=tls)
    servers: dict[str, Any] = {
        "Portico": gateway,
        "copyparty": Copyparty(work, folder, tls=tls),
        "rclone rcd": RcloneRcd(work, tls=tls),
    }
    prefixes = {"Portico": f"{FILES}/", "copyparty": "/", "rclone rcd": f"/%5B{folder}%5D/", "nginx": "/"}
    if nginx_program():
        servers["nginx"] = Nginx(work, folder, tls=tls)
    headers = gateway.bearer("down")
    lines = []
    try:
        for at_once, name, size in ((1, "large", GIB), (8, "eighth", GIB // 8)):
            say(f"downloads: from a folder, {over}, {at_once} at once")
            contestants = {}
            for server, prefix in prefixes.items():
                if server in servers:
                    content = request("GET", prefix + name, headers if server == "Portico" else {})
                    contestants[server] = _fetched(servers[server], servers[server].target, content, size, at_once)
            figures = in_turns(1 if quick else 3, "MB/s", contestants)
            what = f"1 GiB from a folder, {over}" if at_once == 1 else f"8 × 128 MiB at once from a folder, {over}"
            lines += _against(what, figures)
    finally:
        for server in servers.values():
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return lines


def curl(url: str) -> Contestant:
    """Straight from the store."""

    def work() -> Sample:
        done = subprocess.run(
            ["curl", "-sSk", "-o", "/dev/null", "-w", "%{http_code} %{time_total} %{size_download}", url],
            capture_output=True,
            text=True,
        )
        if not done.stdout.startswith("200"):
            raise RuntimeError(f"curl failed: {done.stdout} {done.stderr}")
        _, seconds, size = done.stdout.split()
        return Sample(float(size) / float(seconds) / 1e6)

    return Contestant(work)


def _from_noise(work: Workspace, tls: bool, quick: bool) -> list[Line]:
    over = "TLS on both sides" if tls else "plain"
    say(f"downloads: from a canned S3, {over}")
    store = CannedStore(work, tls=tls)
    home = Home(work, f"home-noise-{tls}")
    home.add("s3", "s3", **store.s3)
    gateway, rclone = Portico(home, tls=tls), RcloneRcd(work, tls=tls, stores={"store": store.url})
    key = f"sized-{GIB}"
    ours = request("GET", f"{FILES}/{key}?action=DOWNLOAD", gateway.bearer("s3"))
    theirs = request("GET", f"/%5Bstore:{BUCKET}%5D/{key}")
    try:
        figures = in_turns(
            1 if quick else 2,
            "MB/s",
            {
                "Portico": _fetched(gateway, gateway.target, ours, GIB),
                "curl straight": curl(f"{store.url}/{BUCKET}/{key}"),
                "rclone rcd": _fetched(rclone, rclone.target, theirs, GIB),
            },
        )
    finally:
        for server in (gateway, rclone, store):
            server.stop()
    return _against(f"1 GiB from a canned S3, {over}", figures)


def _from_bucket(work: Workspace, quick: bool) -> list[Line]:
    bucket = real_bucket(work)
    say(f"downloads: from a real S3, {bucket.name}")
    home = Home(work, f"home-down-{bucket.port}")
    home.add("s3", "s3", **bucket.s3)
    gateway, rclone = Portico(home), RcloneRcd(work, stores={"store": bucket.url})
    size = GIB // 4
    ours = request("GET", f"{FILES}/large?action=DOWNLOAD", gateway.bearer("s3"))
    theirs = request("GET", f"/%5Bstore:{BUCKET}%5D/large")
    try:
        bucket.client().upload_file(work.source(size), BUCKET, "large")
        figures = in_turns(
            1 if quick else 2,
            "MB/s",
            {
                "Portico": _fetched(gateway, gateway.target, ours, size),
                "curl straight": curl(bucket.signed("get_object", Key="large")),
                "rclone rcd": _fetched(rclone, rclone.target, theirs, size),
            },
        )
    finally:
        for server in (gateway, rclone, bucket):
            server.stop()
        shutil.rmtree(bucket.folder, ignore_errors=True)
    return _against(f"256 MiB from a real S3 ({bucket.name})", figures)
