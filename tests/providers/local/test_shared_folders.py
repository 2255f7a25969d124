"""One folder that several machines use: none removes what another one is writing, with and without locks between them."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path as Folder

import pytest

from portico.model.errors import ProviderUnavailable
from portico.providers.contract.uploads import WriteOptions
from portico.providers.local import staging, uploads
from portico.providers.local.provider import LocalProvider

from ...gateways import wait_until
from .actions import at, content, names, pieces, put

Leftovers = Callable[[], list[str]]
MIB = 2**20
DAY = staging.ABANDONED_SECONDS

WRITER = """
import asyncio, sys
from portico.runtime import processes
from portico.model.paths import Path
from portico.providers.local.provider import LocalProvider

if sys.argv[2]:
    processes.machine = lambda: sys.argv[2]

async def chunks():
    yield b"x" * 2**21
    print("sent", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    yield b"end"

async def main():
    await LocalProvider(sys.argv[1]).write(Path.parse("file"), chunks(), "text/plain")
    print("stored", flush=True)

asyncio.run(main())
"""
ANOTHER = "another-machine"


@contextmanager
def writing(top: Folder, machine: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process in the middle of an upload, on this or on another machine."""
    command = [sys.executable, "-c", WRITER, str(top), machine.replace("-", "")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "sent\n"
            wait_until(lambda: _staged_sizes(top) == [2 * MIB], "it is written")
            yield process
        finally:
            process.kill()


def finish(process: "subprocess.Popen[str]") -> None:
    assert process.stdin
    assert process.stdout
    print("go on", file=process.stdin, flush=True)
    assert process.stdout.readline() == "stored\n"


def _staged_sizes(top: Folder) -> list[int]:
    return [file.stat().st_size for file in top.glob(".portico~staging/*")]


def age(top: Folder, seconds: float) -> None:
    for file in top.glob(".portico~staging/*"):
        info = file.stat()
        os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns - int(seconds * 1e9)))


def no_locks(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(file: int, operation: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.fixture(params=["locks", "locks of this machine only", "no locks"])
def locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "locks of this machine only":
        monkeypatch.setattr(fcntl, "flock", lambda file, operation: None)
    elif request.param == "no locks":
        no_locks(monkeypatch, errno.ENOLCK)
    name: str = request.param
    return name


@pytest.mark.parametrize("machine", ["", ANOTHER])
async def test_a_running_upload_survives_the_sweep_of_another_node(
    provider: LocalProvider, top: Folder, leftovers: Leftovers, locks: str, machine: str
) -> None:
    with writing(top, machine) as process:
        age(top, DAY - 60)
        assert await provider.sweep() == 0
        finish(process)
    assert len(await content(provider, "file")) == 2 * MIB + 3
    assert leftovers() == []


async def test_what_this_machine_left_is_removed_at_once(
    provider: LocalProvider, top: Folder, leftovers: Leftovers, locks: str
) -> None:
    with writing(top) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(leftovers()) == 1
    assert await provider.sweep() == 1
    assert leftovers() == []


async def test_what_another_machine_left_is_removed_after_a_day(
    provider: LocalProvider, top: Folder, leftovers: Leftovers, locks: str
) -> None:
    with writing(top, ANOTHER) as process:
        process.kill()
    age(top, DAY - 60)
    assert await provider.sweep() == 0
    age(top, 120)
    assert await provider.sweep() == 1
    assert leftovers() == []


async def test_a_lock_that_is_seen_outweighs_the_age(provider: LocalProvider, top: Folder) -> None:
    with writing(top, ANOTHER) as process:
        age(top, 2 * DAY)
        assert await provider.sweep() == 0
        finish(process)
    assert len(await content(provider, "file")) == 2 * MIB + 3


async def test_the_age_is_by_the_clock_of_the_file_system(
    provider: LocalProvider, top: Folder, leftovers: Leftovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 0.0)
    monkeypatch.setattr("time.time_ns", lambda: 4 * 10**18)
    with writing(top, ANOTHER) as process:
        process.kill()
    assert await provider.sweep() == 0
    age(top, DAY + 60)
    assert await provider.sweep() == 1
    assert leftovers() == []


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
async def test_a_file_system_without_locks_works(
    provider: LocalProvider, leftovers: Leftovers, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    no_locks(monkeypatch, code)
    await put(provider, "a", b"x" * 2 * MIB)
    await provider.copy(at("a"), at("b"))
    await provider.sweep()
    assert await content(provider, "b") == b"x" * 2 * MIB
    assert leftovers() == []


async def test_locks_are_taken_as_nfs_wants_them(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exclusive ones for descriptors that may write."""
    flock = fcntl.flock

    def as_nfs(file: int, operation: int) -> None:
        if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", as_nfs)
    with writing(top, ANOTHER) as process:
        age(top, 2 * DAY)
        assert await provider.sweep() == 0
        process.kill()
        process.wait()
        assert await provider.sweep() == 1


async def test_an_upload_by_a_slow_client_is_renewed(
    provider: LocalProvider, leftovers: Leftovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By writing what there is, long before a buffer is full."""
    monkeypatch.setattr(uploads, "RENEWAL_SECONDS", -1.0)

    async def slow() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"
        while not leftovers():
            await provider.stat(at(""))
        yield b"c"

    await provider.write(at("file"), slow(), "text/plain")
    assert await content(provider, "file") == b"abc"


@pytest.mark.parametrize("replace", [True, False])
async def test_a_staged_file_that_is_gone_is_not_the_clients_fault(
    provider: LocalProvider, top: Folder, leftovers: Leftovers, replace: bool
) -> None:
    async def swept() -> AsyncIterator[bytes]:
        yield b"x" * 2 * MIB
        yield b"x" * 2 * MIB
        for name in leftovers():
            (top / ".portico~staging" / name).unlink()
        yield b"x"

    with pytest.raises(ProviderUnavailable) as refusal:
        await provider.write(at("folder/file"), swept(), "text/plain", WriteOptions(replace=replace))
    assert refusal.value.retry_after
    assert await names(provider, "folder") == []


async def test_a_copy_whose_staged_file_is_gone_is_not_done(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(provider, "folder/file", b"x")
    move_into = staging.move_into

    def swept(folder: int, name: str, *arguments: object, **options: object) -> None:
        os.unlink(name, dir_fd=folder)
        move_into(folder, name, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(staging, "move_into", swept)
    for source, target in (("folder", "other"), ("folder/file", "copy")):
        with pytest.raises(ProviderUnavailable):
            await provider.copy(at(source), at(target))


async def test_a_folder_that_vanishes_during_the_commit_is_made_again(
    provider: LocalProvider, top: Folder, leftovers: Leftovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_into = staging.move_into
    times = [1]

    def overtaken(*arguments: object, **options: object) -> None:
        if times[0]:
            times[0] -= 1
            (top / "folder").rmdir()
        move_into(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(staging, "move_into", overtaken)
    await put(provider, "folder/file", b"x")
    assert await content(provider, "folder/file") == b"x"

    await provider.delete(at("folder/file"))
    times[0] = 1000
    with pytest.raises(ProviderUnavailable) as refusal:
        await provider.write(at("folder/file"), pieces(b"x"), "text/plain")
    assert refusal.value.retry_after
    assert leftovers() == []


@pytest.mark.parametrize("modified", [None, datetime(2019, 5, 4, tzinfo=UTC)], ids=["now", "dated"])
async def test_a_file_that_another_program_wrote_over_has_no_mark(
    provider: LocalProvider, top: Folder, modified: datetime | None
) -> None:
    await provider.write(at("file"), pieces(b"ours"), "text/plain", WriteOptions(mark="a mark", modified=modified))
    assert await provider.has_mark(at("file"), "a mark", 4)
    file = top / "file"
    stored = file.stat().st_atime_ns
    file.write_bytes(b"else")
    while file.stat().st_mtime_ns < stored:  # the kernel's clock has ticks of some milliseconds
        file.write_bytes(b"else")
    assert not await provider.has_mark(at("file"), "a mark", 4)
