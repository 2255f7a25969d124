"""A partial file is never visible, and no staged file is left behind."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path as Folder
from typing import Any

import pytest

from portico.model.errors import AlreadyExists, Changed, InvalidPath, IsAFolder, NotFound, ProviderUnavailable
from portico.providers.contract.uploads import WriteOptions
from portico.providers.local import staging, uploads
from portico.providers.local.provider import LocalProvider

from .actions import at, content, names, pieces, put

Leftovers = Callable[[], list[str]]
BATCH = 2**20

WRITER = """
import asyncio, sys
from portico.model.paths import Path
from portico.providers.local.provider import LocalProvider

async def chunks():
    while True:
        yield b"x" * 2**20
        print("written", flush=True)

async def main():
    await LocalProvider(sys.argv[1]).write(Path.parse("old"), chunks(), "text/plain")

asyncio.run(main())
"""


class Broken(Exception):
    pass


async def broken(size: int) -> AsyncIterator[bytes]:
    for _ in range(0, size, BATCH // 4):
        yield b"x" * min(size, BATCH // 4)
    raise Broken


@pytest.mark.parametrize("size", [0, 1, BATCH - 1, BATCH, 3 * BATCH])
async def test_a_broken_body_leaves_nothing(
    provider: LocalProvider, top: Folder, leftovers: Leftovers, size: int
) -> None:
    await put(provider, "old", b"old")
    for path in ("old", "new", "a/b/new"):
        with pytest.raises(Broken):
            await provider.write(at(path), broken(size), "text/plain")
    assert leftovers() == []
    assert await names(provider) == ["old"]
    assert await content(provider, "old") == b"old"


async def test_a_refused_write_leaves_nothing(provider: LocalProvider, leftovers: Leftovers) -> None:
    await put(provider, "old", b"old")
    for size in (1, 3 * BATCH):
        with pytest.raises(AlreadyExists):
            await put(provider, "old", b"x" * size, replace=False)

    async def overtaken() -> AsyncIterator[bytes]:
        yield b"x" * 2 * BATCH
        await put(provider, "new", b"quicker")

    with pytest.raises(AlreadyExists):
        await provider.write(at("new"), overtaken(), "text/plain", WriteOptions(replace=False))
    assert leftovers() == []
    assert await content(provider, "new") == b"quicker"


async def test_cancelled_writes_leave_nothing(provider: LocalProvider, leftovers: Leftovers) -> None:
    await put(provider, "old", b"old")
    for turns in range(60):  # so that the cancellation falls on every await in turn
        task = asyncio.ensure_future(put(provider, "old", *[b"x" * BATCH] * 3))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert leftovers() == []
        assert await content(provider, "old") in (b"old", b"x" * 3 * BATCH)
        await put(provider, "old", b"old")


async def test_a_living_writer_survives_a_sweep(provider: LocalProvider, leftovers: Leftovers) -> None:
    async def swept_meanwhile() -> AsyncIterator[bytes]:
        yield b"a" * 2 * BATCH
        yield b"b" * 2 * BATCH
        assert len(leftovers()) == 1
        assert await provider.sweep() == 0
        assert len(leftovers()) == 1
        yield b"c"

    await provider.write(at("file"), swept_meanwhile(), "text/plain")
    assert await content(provider, "file") == b"a" * 2 * BATCH + b"b" * 2 * BATCH + b"c"
    assert leftovers() == []


async def test_sweeps_between_all_steps_of_many_writers(
    provider: LocalProvider, top: Folder, leftovers: Leftovers
) -> None:
    other = LocalProvider(str(top))
    writers = [asyncio.ensure_future(put(provider, f"{n}", b"x" * BATCH, b"%d" % n)) for n in range(40)]
    while not all(writer.done() for writer in writers):
        await other.sweep()
    await other.close()
    for number, writer in enumerate(writers):
        assert writer.result().size == BATCH + len(str(number))
    assert len(await names(provider)) == 40
    assert leftovers() == []


async def test_what_a_killed_writer_left_is_swept(provider: LocalProvider, top: Folder, leftovers: Leftovers) -> None:
    await put(provider, "old", b"old")
    with subprocess.Popen([sys.executable, "-c", WRITER, str(top)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for _ in range(3):
            assert writer.stdout.readline() == b"written\n"
        assert await provider.sweep() == 0
        assert len(leftovers()) == 1
        writer.send_signal(signal.SIGKILL)
    assert len(leftovers()) == 1
    assert await content(provider, "old") == b"old"
    assert await names(provider) == ["old"]
    assert await provider.sweep() == 1
    assert leftovers() == []


async def test_a_tree_whose_removal_was_broken_off_is_swept(
    provider: LocalProvider, top: Folder, leftovers: Leftovers
) -> None:
    await put(provider, "kept", b"kept")
    await put(provider, "folder/deeper/file", b"x")
    os.rename(top / "folder", top / ".portico~staging" / "0123")
    assert await provider.sweep() == 1
    assert leftovers() == []
    assert await names(provider) == ["kept"]


async def test_there_is_nothing_to_sweep_at_first(provider: LocalProvider, top: Folder) -> None:
    assert await provider.sweep() == 0
    assert list(top.iterdir()) == []


async def test_staging_is_out_of_sight(provider: LocalProvider, top: Folder) -> None:
    await put(provider, "file", b"x")
    assert any(path.name.startswith(".portico~") for path in top.iterdir())
    assert await names(provider) == ["file"]
    await provider.make_folder(at("folder"))
    (top / "folder/.portico~mine").write_bytes(b"x")
    await provider.copy(at("folder"), at("copy"))
    assert list((top / "copy").iterdir()) == []


async def test_a_name_too_long_makes_no_folders(provider: LocalProvider) -> None:
    for path in ("l" * 256, "new/" + "l" * 256, "new/" + "l" * 256 + "/file", "€" * 86):
        with pytest.raises(InvalidPath):
            await put(provider, path, b"x")
    assert await names(provider) == []


async def test_a_deep_tree_is_removed(provider: LocalProvider, top: Folder, leftovers: Leftovers) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    folder = os.open(top, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("deep", dir_fd=folder)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        deeper = os.open("deep", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    os.close(folder)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, limits[0]), limits[1]))
    try:
        await provider.delete(at("deep"), recursive=True)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert await names(provider) == ["file"]
    assert leftovers() == []


async def test_two_may_empty_the_same_tree(provider: LocalProvider, top: Folder, leftovers: Leftovers) -> None:
    for number in range(30):
        (top / f"f/{number}/deeper").mkdir(parents=True)
        (top / f"f/{number}/deeper/file").write_bytes(b"x")
    await put(provider, "kept", b"kept")
    removal = asyncio.ensure_future(provider.delete(at("f"), recursive=True))
    while not removal.done():
        await provider.sweep()
    await removal
    assert await names(provider) == ["kept"]
    assert leftovers() == []


async def test_descriptors_are_given_back(provider: LocalProvider) -> None:
    async def everything() -> None:
        await put(provider, "a/file", b"x" * 2 * BATCH)
        await (await provider.read(at("a/file"))).chunks.aclose()
        await names(provider)
        await provider.copy(at("a"), at("b"))
        await provider.move(at("b"), at("c"))
        with pytest.raises(Broken):
            await provider.write(at("d"), broken(2 * BATCH), "text/plain")
        with pytest.raises(AlreadyExists):
            await put(provider, "a/file", b"x", replace=False)
        with pytest.raises(NotFound):
            await provider.stat(at("a/file/below"))
        with pytest.raises(IsAFolder):
            await provider.read(at("a"))
        await provider.delete(at("c"), recursive=True)
        await provider.sweep()

    await everything()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await everything()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_of_two_conditional_writes_the_second_waits_until_the_first_has_replaced_the_file(
    provider: LocalProvider, top: Folder, leftovers: Leftovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the check of the version and the rename, nobody else replaces the file."""
    await put(provider, "file", b"old")
    version = (await provider.stat(at("file"))).etag
    loop = asyncio.get_running_loop()
    other = LocalProvider(str(top))
    commit = staging.commit_staged

    def interrupted(*args: Any, **options: Any) -> None:
        monkeypatch.setattr(uploads, "commit_staged", commit)
        for condition in (version, None):
            writing = other.write(at("file"), pieces(b"second"), "text/plain", WriteOptions(if_match=condition))
            with pytest.raises(ProviderUnavailable):
                asyncio.run_coroutine_threadsafe(writing, loop).result()
        commit(*args, **options)

    monkeypatch.setattr(staging, "LOCK_WAIT_SECONDS", 0)
    monkeypatch.setattr(uploads, "commit_staged", interrupted)
    await provider.write(at("file"), pieces(b"first"), "text/plain", WriteOptions(if_match=version))
    with pytest.raises(Changed):
        await other.write(at("file"), pieces(b"second"), "text/plain", WriteOptions(if_match=version))
    assert await content(provider, "file") == b"first"
    assert leftovers() == []
    await other.close()
