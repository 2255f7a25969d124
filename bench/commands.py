"""`portico put -r` against `rclone copy` to `rclone serve webdav`; and by hand, `python -m bench.commands`: 10,000 small
files and one of 5 GiB, each interrupted twice and run again, must end with everything there once and whole."""

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.gateways import Gateway, free_port, wait_until

from bench.table import Contestant, Figure, Line, Sample, in_turns, share_line
from bench.workspace import Workspace, say

GROUP = "commands"
FILES, SIZE = 10_000, 10 * 1024
ROUNDS = 2
LARGE = 5 * 1024**3


def measure(_: Workspace, quick: bool) -> list[Line]:
    say(f"commands: {FILES:,} files of {SIZE // 1024} KiB by portico put and rclone copy")
    with _workplace() as place:
        source = _small_files(place / "source")
        with _gateway(place) as gateway, _webdav(place) as webdav:
            targets = count()

            def ours() -> Sample:
                return Sample(_timed(_put(gateway, source, f"/{next(targets)}")))

            def theirs() -> Sample:
                return Sample(_timed(_rclone(webdav, source, f"{next(targets)}")))

            figures = in_turns(
                1 if quick else ROUNDS, "s", {"portico put": Contestant(ours), "rclone copy": Contestant(theirs)}
            )
            again = _timed(_put(gateway, source, "/0"))
    return [
        share_line(
            GROUP,
            f"put -r of {FILES:,} × 10 KiB",
            figures["portico put"],
            "rclone copy to rclone serve webdav",
            figures["rclone copy"],
            2.0,
            "rclone copy without its pause of 10 ms before each WebDAV request.",
        ),
        Line(GROUP, "… again, when all is there", Figure(again, "s")),
    ]


def soak() -> None:
    with _workplace() as place, _gateway(place) as gateway:
        for name, source in (("small", _small_files(place / "small")), ("large", _large_file(place / "large"))):
            for number in range(2):
                _interrupted(gateway, source, f"/{name}", 1.0 + number)
            _timed(_put(gateway, source, f"/{name}"))
            stored = gateway.files / "web" / name / source.name
            assert _digests(stored) == _digests(source), "not whole"
            assert gateway.staged == [], "left behind"
            again = subprocess.run(_put(gateway, source, f"/{name}"), capture_output=True, text=True, check=True)
            print(f"{name}: whole after two interruptions; run once more: {again.stderr.strip()}")
            shutil.rmtree(stored)


def _interrupted(gateway: Gateway, source: Path, target: str, seconds: float) -> None:
    process = subprocess.Popen(_put(gateway, source, target), stderr=subprocess.PIPE, text=True)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1].strip()
    print(f"  interrupted after {seconds} s: exit code {process.returncode}, {said!r}")
    assert process.returncode == 130


@contextmanager
def _workplace() -> Iterator[Path]:
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        os.environ["XDG_CONFIG_HOME"] = f"{folder}/config"
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        yield Path(folder)


def _small_files(folder: Path) -> Path:
    chance = random.Random(1)
    for number in range(FILES):
        file = folder / f"{number // 1000}" / f"{number}.bin"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(chance.randbytes(SIZE))
    return folder


def _large_file(folder: Path) -> Path:
    folder.mkdir()
    block = random.Random(2).randbytes(1024 * 1024)
    with open(folder / "large.bin", "wb") as file:
        for number in range(LARGE // len(block)):
            file.write(number.to_bytes(8, "big") + block[8:])
    return folder


@contextmanager
def _gateway(place: Path) -> Iterator[Gateway]:
    (place / "gateway").mkdir()
    gateway = Gateway(place / "gateway" / "home")
    gateway.start()
    try:
        password = (gateway.home / "web-password.txt").read_text()
        login = [sys.executable, "-m", "portico", "login", gateway.url, "--user", "web", "--password-stdin"]
        subprocess.run(login, input=password, text=True, check=True, stdout=subprocess.DEVNULL)
        yield gateway
    finally:
        gateway.stop()


@contextmanager
def _webdav(place: Path) -> Iterator[str]:
    (place / "webdav").mkdir()
    port = free_port()
    arguments = [_program(), "serve", "webdav", str(place / "webdav"), "--addr", f"127.0.0.1:{port}"]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        wait_until(lambda: "started" in process.stderr.readline().lower(), "rclone serves")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _put(gateway: Gateway, source: Path, target: str) -> list[str]:
    return [sys.executable, "-m", "portico", "put", "-r", str(source), target]


def _rclone(url: str, source: Path, target: str) -> list[str]:
    # By itself rclone waits 10 ms before each request to a WebDAV server, which would decide the race.
    pace = ["--webdav-pacer-min-sleep", "1us", "--config", os.devnull]
    return [_program(), "copy", str(source), f":webdav:{target}", "--webdav-url", url, *pace]


def _program() -> str:
    return shutil.which("rclone", path=Path(sys.executable).parent) or "rclone"


def _timed(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(arguments, check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def _digests(folder: Path) -> dict[str, str]:
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            with open(file, "rb") as stream:
                found[str(file.relative_to(folder))] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found


if __name__ == "__main__":
    soak()
