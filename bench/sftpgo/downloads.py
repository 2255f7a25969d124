"""Downloads: of one large file, of many small ones, and from S3."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from bench.buckets import BUCKET, real_bucket
from bench.load import Rates, Target, hammer, request
from bench.servers import FILES
from bench.sftpgo.arena import ATOMIC, MEMORY, NGINX, OURS, RCLONE, RCLONE_USER, SFTPGO, Arena, Plan
from bench.sftpgo.peer import FILES as THEIR_FILES
from bench.streams import fetch
from bench.table import Contestant, Line, Sample
from bench.workspace import GIB

LINES = {
    "download": "1 GiB from a folder, plain",
    "download-tls": "1 GiB from a folder, TLS",
    "small-downloads": "10 KiB downloads, 8 connections",
    "s3-download": "512 MiB from S3",
}
SMALL = 10 * 1024
_COUNT = 200
_DISCARDED = "The client of plain downloads lets the kernel drop the bytes instead of copying them."


def measure(plan: Plan) -> list[Line]:
    lines: list[Line] = []
    folder = plan.work.make("sftpgo-downloads")
    if plan.wants("download", "download-tls"):
        shutil.copyfile(plan.work.source(GIB), folder / "large")
    for number in range(_COUNT):
        (folder / f"small-{number}").write_bytes(bytes(SMALL))
    try:
        if plan.wants("download", "small-downloads"):
            with Arena(plan, "downloads", folder) as arena:
                lines += _plain(arena, plan)
        if plan.wants("download-tls"):
            with Arena(plan, "downloads-tls", folder, tls=True) as arena:
                lines += _large(arena, plan, "download-tls", 1.2)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if plan.wants("s3-download"):
        lines += _from_bucket(plan)
    return lines


def address(name: str, folder: Path | str, file: str) -> str:
    """Where a peer has this file of a folder, or of a remote `store:bucket`."""
    if name == OURS:
        return f"{FILES}/{file}?action=DOWNLOAD"
    if name in (SFTPGO, MEMORY, ATOMIC):
        return f"{THEIR_FILES}?path=/{file}"
    return f"/%5B{folder}%5D/{file}" if name in (RCLONE, RCLONE_USER) else f"/{file}"


def fetched(target: Target, contents: Sequence[bytes]) -> float:
    return fetch(target, contents, True)


def _contestants(arena: Arena, place: Path | str, file: str, size: int) -> dict[str, Contestant]:
    def sample(seconds: float) -> Sample:
        return Sample(size / seconds / 1e6, requests=1)

    return {
        name: arena.contestant(
            name,
            fetched,
            server.target,
            [request("GET", address(name, place, file), arena.headers[name])],
            sample=sample,
        )
        for name, server in arena.servers.items()
    }


def _large(arena: Arena, plan: Plan, line: str, goal: float) -> list[Line]:
    if not arena.servers:
        arena.add_portico()
        arena.add_sftpgo()
        arena.add_nginx()
    contestants = {
        name: contestant
        for name, contestant in _contestants(arena, arena.top, "large", GIB).items()
        if name in (OURS, SFTPGO, NGINX)
    }
    figures = plan.run("MB/s", contestants, LINES[line])
    return plan.rates(LINES[line], figures, {SFTPGO: goal}, note="" if arena.tls else _DISCARDED)


def _plain(arena: Arena, plan: Plan) -> list[Line]:
    arena.add_portico()
    arena.add_sftpgo()
    arena.add_nginx()
    lines = _large(arena, plan, "download", 1.1) if plan.wants("download") else []
    if not plan.wants("small-downloads"):
        return lines
    arena.add_sftpgo(MEMORY, users_in_memory=True)
    arena.add_rclone()
    arena.add_rclone(RCLONE_USER)

    def sample(found: Rates) -> Sample:
        return Sample(found.rate, {"p99 ms": found.p99 * 1000}, found.count)

    contestants = {}
    for name, server in arena.servers.items():
        contents = [
            request("GET", address(name, arena.top, f"small-{number}"), arena.headers[name]) for number in range(_COUNT)
        ]
        hammer(server.target, contents, 8)
        contestants[name] = arena.contestant(name, hammer, server.target, contents, 8, plan.seconds, sample=sample)
    figures = plan.run("req/s", contestants, LINES["small-downloads"])
    return lines + plan.rates(LINES["small-downloads"], figures, {SFTPGO: 1.5, RCLONE: 1.1, RCLONE_USER: 1.1})


def _from_bucket(plan: Plan) -> list[Line]:
    bucket = real_bucket(plan.work)
    size = GIB // 2
    try:
        bucket.client().upload_file(plan.work.source(size), BUCKET, "large")
        with Arena(plan, "s3", bucket.folder, workers=1) as arena:
            arena.add_portico(s3=bucket.s3)
            arena.add_sftpgo(folder=plan.work.make("sftpgo-s3"), bucket=bucket.s3)
            arena.add_rclone(stores={"store": bucket.url})
            contestants = _contestants(arena, f"store:{BUCKET}", "large", size)
            what = f"{LINES['s3-download']} ({bucket.name})"
            figures = plan.run("MB/s", contestants, what)
    finally:
        bucket.stop()
        shutil.rmtree(bucket.folder, ignore_errors=True)
    return plan.rates(what, figures, {RCLONE: 1.0})
