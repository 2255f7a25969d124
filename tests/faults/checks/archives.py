"""ZIP downloads and searches of large trees: complete, bounded, and readable by the tools that people have."""

import asyncio
import itertools
import os
import shutil
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2

from ...gateways import FILES, WAIT
from ...servers.many_keys import many_keys
from ..figures import Effort, Figure, Lines, at_most, none_of
from ..processes import TunedGateway, connect
from .memory import MIB, Peak

_TOOLS = {
    "unzip": ["unzip", "-tqq"],
    "7z": ["7z", "t", "-bso0", "-bsp0"],
    "bsdtar": ["bsdtar", "-tf"],
    "Python": [sys.executable, "-m", "zipfile", "-t"],
}
_NAMES = ("plain", "with space", "Grüße", "文件", "ملف", "файл", "🙂", "é")


def _client(gateway: TunedGateway) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {gateway.token}"}
    return httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=WAIT)


async def _fetch(gateway: TunedGateway, folder: str, target: Path) -> int:
    """Returns the status; 0 if the connection broke."""
    try:
        async with (
            _client(gateway) as client,
            client.stream("GET", f"{FILES}/{folder}", params={"action": "ZIP"}) as answer,
        ):
            with target.open("wb") as file:
                async for chunk in answer.aiter_raw():
                    file.write(chunk)
            return answer.status_code
    except httpx2.TransportError:
        return 0


async def _refused_by(archive: Path) -> list[str]:
    """The tools that are here and do not accept the archive."""
    refused = []
    for name, command in _TOOLS.items():
        if shutil.which(command[0]):
            process = await asyncio.create_subprocess_exec(
                *command, str(archive), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
            )
            if await process.wait():
                refused.append(name)
    return refused


async def _archived(effort: Effort, gateway: TunedGateway, folder: str, entries: int) -> list[Figure]:
    archive = effort.new_folder() / "archive.zip"
    peak, before = Peak(gateway), gateway.resident() // MIB
    watching = asyncio.ensure_future(peak.watch())
    status = await _fetch(gateway, folder, archive)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    with zipfile.ZipFile(archive) as opened:
        found = len(opened.namelist())
    refused = await _refused_by(archive)
    return [
        none_of(f"{folder}: archives that failed", 1, [] if status == 200 else [str(status)]),
        none_of(f"{folder}: entries that are missing", entries, ["some"] * (entries - found)),
        none_of(f"{folder}: tools that do not accept it", len(_TOOLS), refused),
        at_most(f"{folder}: memory for it", 48, peak.mib - before, "MiB"),
    ]


async def zips(effort: Effort) -> list[Figure]:
    """A file beyond 4 GiB, many small files, and one that cannot be read."""
    large, many = effort.of(64, 5 * 1024) * MIB, effort.of(500, 100_000)
    async with effort.gateway() as set_:
        gateway = set_.gateway
        top = gateway.files / "web"
        for folder in ("large", "many", "broken"):
            (top / folder).mkdir(parents=True)
        with (top / "large" / "sparse.bin").open("wb") as file:
            file.truncate(large)
            file.seek(large // 2)
            file.write(os.urandom(MIB))
        for number in range(many):
            (top / "many" / f"{_NAMES[number % len(_NAMES)]} {number}").write_bytes(b"%d" % number)
        figures = await _archived(effort, gateway, "large", 2)
        figures += await _archived(effort, gateway, "many", many + 1)
        for name in ("a", "b", "c"):
            (top / "broken" / name).write_bytes(os.urandom(MIB))
        broken = effort.new_folder() / "broken.zip"
        cutting = asyncio.create_task(asyncio.to_thread(_shorten_for_ever, top / "broken" / "b"))
        whole = 0
        for _ in range(effort.of(5, 50)):
            if await _fetch(gateway, "broken", broken) == 200 and not zipfile.is_zipfile(broken):
                whole += 1
        (top / "broken" / "a").with_name("stop").touch()
        await cutting
    figures.append(none_of("broken: short archives that arrived without an error", 50, ["one"] * whole))
    return figures


def _shorten_for_ever(file: Path) -> None:
    while not file.with_name("stop").exists():
        os.truncate(file, 0)
        os.truncate(file, MIB)
        time.sleep(0.001)


def _tree(files: int) -> Iterator[tuple[str, str]]:
    """Folders and names. Every 9,973rd is searched for."""
    for number in range(files):
        name = f"needle {number}" if number % 9973 == 0 else f"{number}"
        yield f"tree/{number // 10_000}/{number // 100 % 100}", name


def _wanted(files: int) -> list[str]:
    return [f"/{folder}/{name}" for folder, name in _tree(files) if name.startswith("needle")]


def _make(top: Path, files: int) -> None:
    made = ""
    for folder, name in _tree(files):
        if folder != made:
            (top / folder).mkdir(parents=True, exist_ok=True)
            made = folder
        os.close(os.open(top / folder / name, os.O_CREAT | os.O_WRONLY))


async def searches(effort: Effort) -> list[Figure]:
    """Files in folders: every request bounded, all hits once."""
    files = effort.of(3_000, 1_000_000)
    async with effort.gateway() as set_:
        await asyncio.to_thread(_make, set_.gateway.files / "web", files)
        return await _searched(set_.gateway, files)


async def searches_of_objects(effort: Effort) -> list[Figure]:
    """The same in a bucket, whose service is asked for a bounded number of pages for each request."""
    files = effort.of(3_000, 1_000_000)
    keys = [f"{folder}/{name}" for folder, name in _tree(files)]
    async with many_keys(keys) as service, effort.gateway() as set_:
        await connect(set_.gateway, "s3", service.options)
        pages: list[int] = []
        figures = await _searched(set_.gateway, files, lambda: pages.append(service.calls))
    calls = [after - before for before, after in itertools.pairwise(pages)]
    return [*figures, at_most("calls of the service for one request", 25, max(calls, default=0), "")]


async def _searched(gateway: TunedGateway, files: int, watch: Callable[[], None] = lambda: None) -> list[Figure]:
    wanted = _wanted(files)
    found: list[str] = []
    slowest = requests = 0.0
    cursor = None
    async with _client(gateway) as client:
        while True:
            watch()
            began = time.monotonic()
            query: dict[str, Any] = {"action": "SEARCH", "name": "needle"}
            answer = await client.get(f"{FILES}/tree", params=query | ({"cursor": cursor} if cursor else {}))
            slowest, requests = max(slowest, time.monotonic() - began), requests + 1
            body = answer.json()
            found += [entry["absolutePath"] for entry in body["content"]]
            if (cursor := body["nextCursor"]) is None:
                break
    watch()
    return [
        none_of("entries that were not found", len(wanted), sorted(set(wanted) - set(found))),
        none_of("entries that were found twice", len(wanted), ["one"] * (len(found) - len(set(found)))),
        Figure("requests", f"≥ {files // 25_000}", f"{requests:g}", requests >= files // 25_000),
        at_most("the slowest request", 3, slowest, "s"),
    ]


LINES: Lines = {"zip": zips, "search": searches, "search-s3": searches_of_objects}
