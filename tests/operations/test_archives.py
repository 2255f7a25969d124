import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from portico.drive.drive import Drive
from portico.drive.walk import DriveWalk
from portico.model.entries import Chunks, Download, Entry
from portico.model.errors import TooManyRequests
from portico.model.paths import Path, Place
from portico.model.reach import Reach
from portico.model.rights import DEFAULT_RIGHTS
from portico.operations.actors.tree import Tree
from portico.operations.files import archives
from portico.operations.files.archives import AT_ONCE, BASE, MEMORY, Archive, ArchiveLimits, ArchiveMemory


class OneDrive:
    """A tree of a single drive, in which nobody waits and nothing is lost."""

    reach = Reach.of(Place("local", Path()), DEFAULT_RIGHTS)
    actor = SimpleNamespace(checked_at=0.0)

    @asynccontextmanager
    async def looking(self, _: int) -> AsyncIterator[None]:
        yield

    def inner(self, *_: object) -> tuple[()]:
        return ()

    def walk(self, drive: Drive, folder: Path, *_: object) -> DriveWalk:
        return drive.walk(folder)

    def watched(self, chunks: Chunks, _: object) -> Chunks:
        return chunks


def archive_of(drive: Drive, memory: ArchiveMemory, folder: Path) -> Archive:
    tree = cast("Tree", OneDrive())
    return Archive(tree, drive, folder, (), ArchiveLimits(100_000, 0), memory.begin((1,)))


class Content:
    def __init__(self) -> None:
        self.closed = False

    def __aiter__(self) -> "Content":
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closed = True


class OneFile:
    """A drive with one file. Its reader is cancelled in the very moment in which the file is open."""

    small_file = 0

    def __init__(self) -> None:
        self.entry = Entry("a", False, 0)
        self.content = Content()
        self.reader: asyncio.Future[Any] | None = None

    async def stat_for_download(self, path: Path) -> Entry:
        return self.entry

    async def read(self, path: Path) -> Download:
        assert self.reader
        asyncio.get_running_loop().call_soon(self.reader.cancel)
        return Download(self.entry, 0, 0, self.content)


async def test_a_file_that_is_opened_while_the_archive_is_cancelled_is_closed() -> None:
    drive = OneFile()
    memory = ArchiveMemory()
    archive = archive_of(cast("Drive", drive), memory, Path(("a",)))
    await archive.plan()
    drive.reader = asyncio.ensure_future(anext(archive.chunks()))
    with pytest.raises(asyncio.CancelledError):
        await drive.reader
    assert drive.content.closed
    assert memory._archives == {}


class ManyEmptyFiles:
    """A drive with empty files in a folder whose path is as long as an address can be."""

    small_file = 0
    folder = Path(("d" * 240,) * 30)
    files = 4_000

    async def stat_for_download(self, path: Path) -> Entry:
        return Entry(path.name, True)

    def walk(self, _: Path) -> "ManyEmptyFiles":
        self.passed = 0
        return self

    @property
    def ended(self) -> bool:
        return self.passed == self.files

    async def page(self, size: int) -> list[tuple[Path, Entry]]:
        names = [str(number) for number in range(self.passed, self.passed + size)]
        self.passed += size
        return [(self.folder.child(name), Entry(name, False, 0)) for name in names]

    async def read(self, path: Path) -> Download:
        return Download(Entry(path.name, False, 0), 0, 0, Content())


async def test_an_archive_takes_memory_for_the_names_and_not_for_the_folders_above_them() -> None:
    drive = ManyEmptyFiles()
    archive = archive_of(cast("Drive", drive), ArchiveMemory(), drive.folder)
    tracemalloc.start()
    try:
        await archive.plan()
        largest = received = 0
        async for chunk in archive.chunks():
            largest, received = max(largest, len(chunk)), received + len(chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert received > 2 * drive.files * 240  # in the archive the last folder is above them all
    assert largest <= 2**20
    assert peak < 12 * 2**20


async def test_an_archive_of_long_paths_is_planned_in_part() -> None:
    drive = ManyEmptyFiles()
    archive = archive_of(cast("Drive", drive), ArchiveMemory(), Path(("d" * 240,)))
    await archive.plan()
    assert archive.size is None
    assert drive.passed <= 2_000
    tracemalloc.start()
    try:
        received = sum([len(chunk) async for chunk in archive.chunks()])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert received > 2 * drive.files * 30 * 240
    assert peak < 12 * 2**20


class ManyOwnPaths(ManyEmptyFiles):
    """As `ManyEmptyFiles`, with paths that share nothing: as on an object store."""

    files = 1_000

    async def page(self, size: int) -> list[tuple[Path, Entry]]:
        self.passed += size
        paths = [f"folder/{'x' * 100}😀/of/a/few/levels/{number}" for number in range(size)]
        return [(Path((*self.folder.segments, *path.split("/"))), Entry(path, False, 0)) for path in paths]


async def test_an_archive_takes_no_more_memory_than_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_PLANNED", 10)
    memory = ArchiveMemory()
    archive = archive_of(cast("Drive", ManyOwnPaths()), memory, ManyOwnPaths.folder)
    tracemalloc.start()
    try:
        await archive.plan()
        assert tracemalloc.get_traced_memory()[0] <= memory._total
        async for _ in archive.chunks():
            taken = tracemalloc.get_traced_memory()[0]
            if memory._total:  # not at the end
                assert taken <= memory._total
    finally:
        tracemalloc.stop()
    assert memory._total == 0


def test_memory_is_counted_by_actor_and_by_link() -> None:
    memory = ArchiveMemory()
    greedy, guest, other = memory.begin((1,)), memory.begin((("link", "a"), "link")), memory.begin((2,))
    greedy.hold(MEMORY // 2 - BASE)
    with pytest.raises(TooManyRequests):
        memory.begin((1,)).hold(1)
    guest.hold(MEMORY // 2 - 2 * BASE)
    with pytest.raises(TooManyRequests):
        memory.begin((("link", "b"), "link")).hold(1)
    other.hold(MEMORY // 10)  # all is taken, but not by this one
    with pytest.raises(TooManyRequests):
        other.hold(MEMORY // 3)
    greedy.release()
    greedy.release()
    other.hold(MEMORY // 3)


def test_archives_are_counted_by_actor_and_by_link() -> None:
    memory = ArchiveMemory()
    own = [memory.begin((1,)) for _ in range(AT_ONCE[0])]
    guests = [memory.begin((("link", number), "link")) for number in range(AT_ONCE[1])]
    for share in ((1,), (("link", "late"), "link")):
        with pytest.raises(TooManyRequests):
            memory.begin(share)
    memory.begin((2,)).release()
    for lease in own + guests:
        lease.release()
    assert (memory._archives, +memory._bytes, memory._total) == ({}, {}, 0)
