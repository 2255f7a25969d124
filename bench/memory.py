"""Memory: of idle connections, of running uploads, and of 64 large ones to a store that cannot keep up."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from bench.load import Target, request
from bench.processes import Process
from bench.servers import FILES, Copyparty, Home, Nginx, Portico, RcloneRcd, nginx_program
from bench.stores import CannedStore
from bench.streams import Sending
from bench.table import Figure, Line, share_line
from bench.uploads import posted, put
from bench.workspace import GIB, Workspace, say

GROUP = "memory"
_IDLE = 500
_RUNNING = 32
_AT_ONCE = 64
_SLOW = 1_000_000
"""Bytes a second that the slow store accepts on one connection."""


def measure(work: Workspace, quick: bool) -> list[Line]:
    return [*_connections_and_uploads(work), *_slow_store(work, 10.0 if quick else 25.0)]


def _connections_and_uploads(work: Workspace) -> list[Line]:
    say("memory: idle connections and running uploads")
    folder = work.make("memory")
    home = Home(work, "home-memory")
    home.add("up", "local", folder=str(folder))
    gateway = Portico(home)
    copyparty = Copyparty(work, work.make("memory-copyparty"))
    rclone = RcloneRcd(work)
    rclone_path = f"/operations/uploadfile?fs={work.make('memory-rclone')}&remote="
    servers: dict[str, tuple[Any, bytes, Any]] = {
        "Portico": (gateway, request("GET", "/healthz"), posted(f"{FILES}/", gateway.bearer("up"))),
        "copyparty": (copyparty, request("GET", "/?ls"), put("")),
        "rclone rcd": (rclone, request("POST", "/rc/noop"), posted(rclone_path, {})),
    }
    if nginx_program():
        nginx = Nginx(work, work.make("memory-nginx"), workers=1)
        servers["nginx-dav"] = (nginx, request("GET", "/"), put(""))
    idle, running = {}, {}
    try:
        for name, (server, ping, recipe) in servers.items():
            idle[name] = Figure(_per_idle(server, server.target, ping), "KiB")
            running[name] = Figure(_per_upload(server, server.target, recipe), "KiB")
    finally:
        for server, _, _ in servers.values():
            server.stop()
    others = [name for name in servers if name != "Portico"]
    return [
        *(share_line(GROUP, "an idle connection", idle["Portico"], name, idle[name]) for name in others),
        *(
            share_line(GROUP, "a running upload to a folder", running["Portico"], name, running[name])
            for name in others
        ),
    ]


def _per_idle(server: Process, target: Target, ping: bytes) -> float:
    """KiB that each connection adds, once it has had an answer."""

    def opened() -> socket.socket:
        connection = target.connect()
        connection.sendall(ping)
        connection.recv(2**16)
        return connection

    first = [opened() for _ in range(20)]
    before = server.memory()
    held = [opened() for _ in range(_IDLE)]
    time.sleep(0.5)
    grown = server.memory() - before
    for connection in (*first, *held):
        connection.close()
    return max(0.0, grown) * 1024 / _IDLE


def _per_upload(server: Process, target: Target, recipe: Any) -> float:
    """KiB that each upload adds that has sent 8 MiB of 64 and then pauses."""
    piece = bytes(2**20)

    def begun(number: int) -> socket.socket:
        connection = target.connect()
        connection.sendall(recipe(f"running-{number}").head(64 * 2**20))
        for _ in range(8):
            connection.sendall(piece)
        return connection

    first = begun(0)
    time.sleep(0.5)
    before = server.memory()
    held = [begun(number) for number in range(1, _RUNNING + 1)]
    time.sleep(0.5)
    grown = server.memory() - before
    for connection in (first, *held):
        connection.close()
    time.sleep(0.5)
    return max(0.0, grown) * 1024 / _RUNNING


def _slow_store(work: Workspace, seconds: float) -> list[Line]:
    say(f"memory: {_AT_ONCE} uploads of 1 GiB at once to a slow S3, for {seconds:.0f} s")
    store = CannedStore(work, rate=_SLOW)
    home = Home(work, "home-slow")
    home.add("s3", "s3", **store.s3)
    gateway = Portico(home)
    rclone = RcloneRcd(work, stores={"store": store.url})
    source = work.source(GIB)
    recipes: dict[str, tuple[Any, Any]] = {
        "Portico": (gateway, posted(f"{FILES}/up", gateway.bearer("s3"))),
        "rclone rcd": (rclone, posted("/operations/uploadfile?fs=store:bench&remote=up", {})),
    }
    figures = {}
    try:
        for name, (server, recipe) in recipes.items():
            server.mark()
            sendings = [recipe(f"slow-{number}") for number in range(_AT_ONCE)]
            with _sending(server.target, sendings, source):
                time.sleep(seconds if name == "Portico" else min(seconds, 12.0))
                used = server.usage()
            figures[name] = Figure(used.peak, "MiB", used.cpu, used.peak, used.growth)
    finally:
        for process in (gateway, rclone, store):
            process.stop()
    return [
        share_line(
            GROUP,
            f"{_AT_ONCE} uploads of 1 GiB at once to a slow S3, peak",
            figures["Portico"],
            "the most allowed",
            Figure(1024, "MiB"),
            1.0,
            f"The slow store takes {_SLOW / 1e6:.0f} MB/s on each connection; after {seconds:.0f} s (rclone rcd: 12 at most) the clients hang up.",
        ),
        share_line(
            GROUP,
            f"{_AT_ONCE} uploads of 1 GiB at once to a slow S3, peak",
            figures["Portico"],
            "rclone rcd",
            figures["rclone rcd"],
        ),
    ]


@contextmanager
def _sending(target: Target, sendings: list[Sending], source: str) -> Iterator[None]:
    """All of these are on their way while the block runs; then their clients are gone."""
    process = get_context("fork").Process(target=_send_all, args=(target, sendings, source))
    process.start()
    try:
        yield
        if not process.is_alive():
            raise RuntimeError("the uploads ended before the memory was measured")
    finally:
        process.kill()
        process.join()


def _send_all(target: Target, sendings: list[Sending], source: str) -> None:
    def send(sending: Sending) -> None:
        with target.connect() as connection, open(source, "rb") as content:
            connection.settimeout(None)
            connection.sendall(sending.head(GIB))
            connection.sendfile(content)
            connection.recv(2**16)

    threads = [threading.Thread(target=send, args=(sending,)) for sending in sendings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
