"""One page of 1000 from object stores: against the SDKs, the store's raw bytes, and `rclone rcd`."""

import json
import shutil
from urllib.parse import urlsplit

from bench import sdks
from bench.buckets import BUCKET, Bucket, RcloneBucket, Weed, weed_program
from bench.canned import ENTRIES, FOLDER
from bench.listing import hammered, latency
from bench.load import hammer, request
from bench.processes import apart
from bench.servers import FILES, Home, Portico, RcloneRcd
from bench.stores import CannedStore
from bench.table import Figure, Line, in_turns, rate_line, share_line, time_line
from bench.workspace import Workspace, say

GROUP = "object stores, one page of 1000"
_GOALS = {"S3": 15.0}
_WORKERS = "Portico serves these pages with 2 workers, as many as there are cores; rclone uses all cores by itself."
_PEERS = {"S3": "aiobotocore", "Blob": "azure-storage-blob", "GCS": "gcloud-aio-storage"}
_RAW = {
    "S3": f"/{BUCKET}?list-type=2&prefix={FOLDER}&delimiter=/",
    "Blob": f"/account/{BUCKET}?restype=container&comp=list&prefix={FOLDER}&delimiter=/",
    "GCS": f"/storage/v1/b/{BUCKET}/o?prefix={FOLDER}&delimiter=/&fields=trimmed",
}


def measure(work: Workspace, quick: bool) -> list[Line]:
    store = CannedStore(work)
    try:
        lines = _cpu(store, 6 if quick else 12)
        lines += _canned(work, store, quick)
    finally:
        store.stop()
    kinds = [Weed] if weed_program() else []
    for kind in (*kinds, RcloneBucket):
        lines += _real(work, kind(work), quick)
    return lines


def _cpu(store: CannedStore, rounds: int) -> list[Line]:
    say("object stores: CPU against the SDKs")
    lines = []
    for name, (ours, theirs, our_reading, their_reading) in apart(sdks.compare, store.url, rounds).items():
        note = "CPU of a page: the provider and the answer's bytes, in one process with the SDK and in turns; 'from the first byte' leaves out the asking, which is the SDK's on both sides."
        for what, mine, sdk in (("the whole call", ours, theirs), ("from the first byte", our_reading, their_reading)):
            goal = _GOALS.get(name) if what == "the whole call" else None
            lines.append(
                time_line(
                    GROUP,
                    f"{name}, CPU, {what}",
                    Figure(mine * 1000, "ms CPU"),
                    _PEERS[name],
                    Figure(sdk * 1000, "ms CPU"),
                    goal,
                    note,
                )
            )
    return lines


def _canned(work: Workspace, store: CannedStore, quick: bool) -> list[Line]:
    say("object stores: pages through Portico from a canned store")
    home = Home(work, "home-canned")
    home.add("S3", "s3", **store.s3)
    home.add("Blob", "azure-blob", container=BUCKET, account_url=f"{store.url}/account", account_key=sdks.BLOB_KEY)
    home.add("GCS", "gcs", bucket=BUCKET, endpoint_url=store.url, anonymous="true")
    gateway, rclone = Portico(home, workers=2), RcloneRcd(work, stores={"store": store.url})
    seconds, rounds = (0.4, 1) if quick else (0.8, 3)
    lines: list[Line] = []
    try:
        for name, raw in _RAW.items():
            content = request("GET", f"{FILES}/{FOLDER}?size={ENTRIES}", gateway.bearer(name))
            apart(hammer, gateway.target, [content], 1, 0.3)
            before = store.calls
            apart(hammer, gateway.target, [content], 1)
            calls = store.calls - before
            figures = in_turns(
                rounds,
                "ms",
                {
                    "Portico": latency(gateway, gateway.target, content, seconds),
                    "raw": latency(None, store.target, request("GET", raw), seconds / 2),
                },
            )
            lines.append(
                share_line(
                    GROUP, f"{name}, latency, canned", figures["Portico"], "the raw page from the store", figures["raw"]
                )
            )
            lines.append(Line(GROUP, f"{name}, calls to the store for a page", Figure(calls, "calls")))
            loads = {"Portico": hammered(gateway, gateway.target, content, 8, seconds)}
            if name == "S3":
                loads["rclone rcd"] = hammered(rclone, rclone.target, _rclone_list(), 8, seconds)
            figures = in_turns(rounds, "req/s", loads)
            if name == "S3":
                lines.append(
                    rate_line(
                        GROUP,
                        "S3, 8 connections, canned",
                        figures["Portico"],
                        "rclone rcd, cheapest",
                        figures["rclone rcd"],
                        2.0,
                        _WORKERS,
                    )
                )
            else:
                lines.append(Line(GROUP, f"{name}, 8 connections, canned", figures["Portico"]))
    finally:
        gateway.stop()
        rclone.stop()
    return lines


def _rclone_list() -> bytes:
    options = {"noModTime": True, "noMimeType": True}
    body = json.dumps({"fs": f"store:{BUCKET}", "remote": FOLDER.rstrip("/"), "opt": options}).encode()
    return request("POST", "/operations/list", {"Content-Type": "application/json"}, body)


def _real(work: Workspace, bucket: Bucket, quick: bool) -> list[Line]:
    say(f"object stores: pages through Portico from {bucket.name}")
    home = Home(work, f"home-real-{bucket.port}")
    home.add("s3", "s3", **bucket.s3)
    gateway, rclone = Portico(home, workers=2), RcloneRcd(work, stores={"store": bucket.url})
    seconds, rounds = (0.5, 1) if quick else (1.0, 3)
    try:
        store = bucket.client()
        for number in range(ENTRIES):
            store.put_object(Bucket=BUCKET, Key=f"{FOLDER}report-{number:06d}.csv", Body=b"figures")
        page = bucket.signed("list_objects_v2", Prefix=FOLDER, Delimiter="/", MaxKeys=ENTRIES, EncodingType="url")
        parts = urlsplit(page)
        raw = request("GET", f"{parts.path}?{parts.query}", {"Host": parts.netloc}).replace(b"Host: localhost\r\n", b"")
        content = request("GET", f"{FILES}/{FOLDER}?size={ENTRIES}", gateway.bearer("s3"))
        apart(hammer, gateway.target, [content], 1, 0.3)
        latencies = in_turns(
            rounds,
            "ms",
            {
                "Portico": latency(gateway, gateway.target, content, seconds),
                "raw": latency(None, bucket.target, raw, seconds),
            },
        )
        rates = in_turns(
            rounds,
            "req/s",
            {
                "Portico": hammered(gateway, gateway.target, content, 8, seconds),
                "rclone rcd": hammered(rclone, rclone.target, _rclone_list(), 8, seconds),
            },
        )
    finally:
        for server in (gateway, rclone, bucket):
            server.stop()
        shutil.rmtree(bucket.folder, ignore_errors=True)
    return [
        share_line(
            GROUP,
            f"S3, latency, {bucket.name}",
            latencies["Portico"],
            "the raw page from the store",
            latencies["raw"],
            1.25,
        ),
        rate_line(
            GROUP, f"S3, 8 connections, {bucket.name}", rates["Portico"], "rclone rcd, cheapest", rates["rclone rcd"]
        ),
    ]
