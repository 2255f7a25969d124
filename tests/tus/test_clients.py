"""Clients of others, unchanged, on lines that break, with two workers: the file arrives once, whole, and nothing is left."""

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from hashlib import sha256
from pathlib import Path

import pytest

from ..faults.processes import STORAGES, Storage, TunedGateway
from ..gateways import FILES
from ..servers.cut_line import CutLine
from .clients import send_by_tus_js, send_by_tuspy

KINDS = [
    "local",
    *(pytest.param(kind, marks=pytest.mark.thorough) for kind in ("s3", "azure-blob", "azure-files", "gcs")),
]
"""The conformance suite tries breaks on all kinds in an ordinary run."""
MIB = 2**20


@asynccontextmanager
async def running(folder: Path, kind: str) -> AsyncIterator[tuple[TunedGateway, Storage]]:
    gateway = TunedGateway(folder / "home", "--workers", "2")
    try:
        await asyncio.to_thread(gateway.begin)
        storage = STORAGES[kind](gateway)
        await storage.prepare()
        yield gateway, storage
    finally:
        if gateway.running:
            gateway.kill()


def made(folder: Path, size: int) -> tuple[Path, str]:
    """A file, and its digest."""
    content = random.Random(size).randbytes(size)
    file = folder / "sent.bin"
    file.write_bytes(content)
    return file, sha256(content).hexdigest()


async def assert_stored(gateway: TunedGateway, storage: Storage, folder: str, digest: str) -> None:
    assert await gateway.names(f"/{folder}") == ["sent.bin"], "once"
    with gateway.signed_in() as client:
        answer = client.get(f"{FILES}/{folder}/sent.bin")
    assert sha256(answer.content).hexdigest() == digest
    assert await storage.left_over() == []


@pytest.mark.parametrize("kind", KINDS)
async def test_real_clients_on_a_bad_line(kind: str, tmp_path: Path) -> None:
    """One gateway for all of them: what a client leaves behind, the next one would see."""
    async with running(tmp_path, kind) as (gateway, storage):
        file, digest = made(tmp_path, 2 * storage.part + 12_345)
        async with CutLine(gateway.port, 4, 300_000, 2 * storage.part) as line:
            await send_by_tus_js(line.port, gateway, file, metadata={"folder": "whole"})
            assert line.cuts >= 1
        await assert_stored(gateway, storage, "whole", digest)
        async with CutLine(gateway.port, 6, 100_000, storage.part) as line:
            await send_by_tus_js(line.port, gateway, file, metadata={"folder": "chunks"}, chunkSize=6 * MIB)
        await assert_stored(gateway, storage, "chunks", digest)
        async with CutLine(gateway.port, 6, 50_000, MIB) as line:
            await asyncio.to_thread(send_by_tuspy, line.port, gateway, file, MIB, {"folder": "tuspy"})
        await assert_stored(gateway, storage, "tuspy", digest)
        small, digest = made(tmp_path, 640_000)
        async with CutLine(gateway.port, 3, 10_000, 60_000) as line:
            await asyncio.to_thread(send_by_tuspy, line.port, gateway, small, 65_536, {"folder": "small"})
        await assert_stored(gateway, storage, "small", digest)


@pytest.mark.parametrize("kind", KINDS[:2])
async def test_parallel_parts_of_tus_js(kind: str, tmp_path: Path) -> None:
    async with running(tmp_path, kind) as (gateway, storage):
        file, digest = made(tmp_path, 2 * storage.part + 7)
        async with CutLine(gateway.port, 3, 200_000, storage.part) as line:
            await send_by_tus_js(line.port, gateway, file, metadata={"folder": "joined"}, parallel=3)
        await assert_stored(gateway, storage, "joined", digest)


async def test_checksums_of_tuspy(tmp_path: Path) -> None:
    async with running(tmp_path, "local") as (gateway, storage):
        file, digest = made(tmp_path, 3 * MIB)
        await asyncio.to_thread(send_by_tuspy, gateway.port, gateway, file, MIB, {"folder": "checked"}, checksum=True)
        await assert_stored(gateway, storage, "checked", digest)


def offset(gateway: TunedGateway) -> int:
    """How much of the upload was saved."""
    with closing(sqlite3.connect(gateway.home / "portico.db", timeout=60)) as database:
        (found,) = database.execute('SELECT max("offset") FROM uploads').fetchone()
    return found or 0


@pytest.mark.parametrize("kind", KINDS)
async def test_a_gateway_that_is_killed_again_and_again(kind: str, tmp_path: Path) -> None:
    async with running(tmp_path, kind) as (gateway, storage):
        file, digest = made(tmp_path, 3 * storage.part + 99)
        sending = asyncio.create_task(
            send_by_tus_js(gateway.port, gateway, file, metadata={"folder": "killed"}, chunkSize=storage.part // 2)
        )
        seen = 0
        for _ in range(3):
            while not sending.done() and offset(gateway) <= seen:
                await asyncio.sleep(0.02)
            seen = offset(gateway)
            await asyncio.to_thread(gateway.kill)
            await asyncio.to_thread(gateway.start)
        await sending
        await assert_stored(gateway, storage, "killed", digest)
