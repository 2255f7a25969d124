"""Ctrl-C, and what a terminal shows."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from ...gateways import WAIT, Gateway, wait_until
from ..conftest import Portico
from .conftest import Start, last_line

FILES, SIZE = 300, 200 * 1024


@pytest.fixture
def many(here: Path) -> Path:
    for number in range(FILES):
        folder = here / "many" / str(number % 3)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.bin").write_bytes(number.to_bytes(2, "big") * (SIZE // 2))
    return here / "many"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def names(folder: Path) -> list[str]:
    """Of the files that are whole."""
    return [name for _, _, files in os.walk(folder) for name in files if not name.startswith(".")]


def more_than(count: int, folder: Path) -> bool:
    return len(names(folder)) > count


def interrupt(command: "subprocess.Popen[bytes]", number: signal.Signals = signal.SIGINT) -> None:
    command.send_signal(number)
    assert command.wait(WAIT) == 130
    assert command.stderr is not None
    assert command.stderr.read() == b"Interrupted.\n"


def at_rest(folder: Path) -> bool:
    """Whether the gateway has stored all that it had of the files when their sender was gone."""
    before = len(contents(folder))
    time.sleep(0.5)
    return len(contents(folder)) == before


def test_an_upload_that_is_interrupted_twice(
    process: Start, remote: Portico, many: Path, there: Path, gateway: Gateway
) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        stored = contents(there)
        command = process("put", "-r", "many", "/")
        wait_until(partial(more_than, len(stored), there), "files arrive")
        interrupt(command, number)
        wait_until(lambda: gateway.staged == [] and at_rest(there), "nothing is left half")
        stored = contents(there / "many")
        assert 0 < len(stored) < FILES
        assert {len(content) for content in stored.values()} == {SIZE}
    outcome = remote("put", "-r", "many", "/")
    assert outcome.code == 0, outcome.err
    # What was acknowledged is skipped; that may be nothing, as an answer comes for a whole batch of files.
    assert re.match(r"\d+ uploaded, ", last_line(outcome))
    assert contents(there / "many") == contents(many)
    assert last_line(remote("put", "-r", "many", "/")).startswith(f"0 uploaded, {FILES} skipped")


def test_a_download_that_is_interrupted(process: Start, remote: Portico, many: Path, there: Path, here: Path) -> None:
    remote("put", "-r", "many", "/")
    command = process("get", "-r", "/many", "copy")
    wait_until(lambda: names(here / "copy"), "files arrive")
    interrupt(command)
    found = contents(here / "copy" / "many")
    assert {len(content) for content in found.values()} == {SIZE}
    assert not [name for name in found if "portico-part" in name]
    assert remote("get", "-r", "/many", "copy").code == 0
    assert contents(here / "copy" / "many") == contents(many)


def test_a_silent_gateway_does_not_keep_us(process: Start, many: Path, there: Path, gateway: Gateway) -> None:
    command = process("put", "-r", "many", "/")
    wait_until(lambda: names(there), "files arrive")
    workers = gateway.workers()
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    try:
        interrupt(command)
    finally:
        for worker in workers:
            os.kill(worker, signal.SIGCONT)
    wait_until(lambda: gateway.staged == [], "nothing is left half")


def on_a_terminal(*arguments: str, **environment: str) -> str:
    ours, theirs = pty.openpty()
    command = subprocess.Popen(
        [sys.executable, "-m", "portico", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "PYTHONIOENCODING": "utf-8", **environment},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert command.communicate()[0] == b""
    assert command.returncode == 0, shown
    return shown.decode()


@pytest.mark.usefixtures("remote")
def test_a_terminal_shows_a_bar(here: Path, there: Path) -> None:
    with open(here / "large.bin", "wb") as file:
        file.truncate(1024**3)
    shown = on_a_terminal("put", "large.bin", "/")
    assert re.search(r"\r\x1b\[K +\d+% [█░]{24}  [\d.]+ \w?B of 1.1 GB  [\d.]+ \w?B/s  \d+:\d\d left", shown)
    assert shown.endswith("s\r\n")
    assert "\x1b[K1 uploaded, 1.1 GB in " in shown
    os.truncate(here / "large.bin", 256 * 1024**2)
    for options in ({"TERM": "dumb"}, {}):
        quiet = () if options else ("-q",)
        assert "\x1b" not in on_a_terminal("put", *quiet, "large.bin", "/", **options)


def test_elsewhere_there_is_none(process: Start, many: Path) -> None:
    command = process("put", "-r", "many", "/")
    err = command.communicate()[1]
    assert err.count(b"\n") == 1
    assert b"\r" not in err
    assert b"\x1b" not in err


def test_a_hang_up_that_is_ignored(process: Start, many: Path, there: Path) -> None:
    def ignore() -> None:  # as nohup does
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    command = process("put", "-r", "many", "/", preexec_fn=ignore)
    wait_until(lambda: names(there), "files arrive")
    command.send_signal(signal.SIGHUP)
    assert command.wait(60) == 0
    assert len(names(there)) == FILES


def test_a_system_without_hang_ups(remote: Portico, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "SIGHUP")
    (here / "a.txt").write_text("1")
    assert remote("put", "a.txt", "/").code == 0
    assert names(there) == ["a.txt"]


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("ls >&-", 2, "Standard output is closed"),
        ("cat /a.txt >&-", 2, "Standard output is closed"),
        ("get /a.txt - >&-", 2, "Standard output is closed"),
        ("whoami --json >&-", 2, "Standard output is closed"),
        ("put - /x <&-", 2, "Standard input is closed"),
        ("login --password-stdin <&-", 2, "Standard input is closed"),
        ("login --user web <&-", 2, "--password-stdin"),
        ("get /a.txt x.txt >&- <&-", 0, "1 downloaded"),
        ("get /a.txt x.txt 2>&-", 0, ""),
        ("get /none x.txt 2>&-", 4, ""),
    ],
)
@pytest.mark.usefixtures("remote")
def test_streams_that_are_closed(there: Path, line: str, code: int, words: str) -> None:
    (there / "a.txt").write_text("1")
    command = f"{sys.executable} -m portico {line}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert words in done.stderr
    assert done.stderr.count("\n") == bool(words)


def test_a_kill_costs_the_record_nothing_but_time(
    process: Start, remote: Portico, many: Path, there: Path, gateway: Gateway
) -> None:
    command = process("put", "-r", "many", "/")
    wait_until(lambda: names(there), "files arrive")
    command.kill()
    command.wait(20)
    wait_until(lambda: gateway.staged == [] and at_rest(there), "nothing is left half")
    (many / "0" / "0.bin").write_bytes(b"!" * SIZE)
    os.utime(many / "0" / "0.bin", (1e9, 1e9))
    outcome = remote("put", "-r", "many", "/")
    assert outcome.code == 0, outcome.err
    assert contents(there / "many") == contents(many)
    assert last_line(remote("put", "-r", "many", "/")).startswith(f"0 uploaded, {FILES} skipped")


def test_commands_side_by_side_share_the_record(process: Start, remote: Portico, many: Path, there: Path) -> None:
    commands = [process("put", "-r", "many", f"/{number}") for number in range(3)]
    for command in commands:
        assert command.wait(120) == 0
    for number in range(3):
        again = remote("put", "-r", "many", f"/{number}")
        assert last_line(again).startswith(f"0 uploaded, {FILES} skipped")
