"""Ctrl-C during a transfer."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..gateways import Gateway
from .faults import HUGE


@pytest.fixture
def own_gateway(tmp_path: Path) -> Iterator[Gateway]:
    """A gateway for one test, which may leave it in any state."""
    gateway = Gateway(tmp_path / "home")
    gateway.start()
    yield gateway
    gateway.kill()


@pytest.mark.parametrize("kind", ["Client", "AsyncClient"])
def test_ctrl_c_ends_a_transfer(own_gateway: Gateway, kind: str) -> None:
    url, password = own_gateway.url, own_gateway.password
    call = "client.upload_all(items(), progress=reported)"
    script = f"""
import asyncio, os
from portico import Client, AsyncClient

def items():
    number = 0
    while True:
        number += 1
        yield b"x" * 2_000_000, f"/endless/{{number}}"

def reported(path, done, total):
    if done == total:
        os.write(1, b"going\\n")  # in one go: several threads are here

async def main():
    async with AsyncClient({url!r}, username="web", password={password!r}) as client:
        await {call}

if {kind!r} == "AsyncClient":
    asyncio.run(main())
with Client({url!r}, username="web", password={password!r}) as client:
    {call}
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "going\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=180)
    finally:
        process.kill()
    assert "KeyboardInterrupt" in errors
    assert process.returncode != 0


def test_ctrl_c_leaves_no_part_behind(gateway: Gateway, password: str, root: Path, tmp_path: Path) -> None:
    (root / "file").write_bytes(HUGE)
    script = f"""
import os, time
from portico import Client

def reported(path, done, total):
    os.write(1, b"going\\n")
    time.sleep(0.5)

with Client({gateway.url!r}, username="web", password={password!r}) as client:
    client.download_all([("/file", {str(tmp_path)!r})], progress=reported)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for _ in range(3):
        assert process.stdout.readline() == "going\n"
    assert [path.suffix for path in tmp_path.iterdir()] == [".portico-part"]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=180)
    assert "KeyboardInterrupt" in errors
    assert list(tmp_path.iterdir()) == []
