import asyncio
from typing import Any, cast

import pytest

from portico.drive import Drive
from portico.entries import Download, Entry
from portico.operations.archives import Archive, ArchiveLimits
from portico.paths import Path


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

    def __init__(self) -> None:
        self.entry = Entry("a", False, 0)
        self.content = Content()
        self.reader: asyncio.Task[Any] | None = None

    async def stat_for_download(self, path: Path) -> Entry:
        return self.entry

    async def read(self, path: Path) -> Download:
        assert self.reader
        asyncio.get_running_loop().call_soon(self.reader.cancel)
        return Download(self.entry, 0, 0, self.content)


async def test_a_file_that_is_opened_while_the_archive_is_cancelled_is_closed() -> None:
    drive = OneFile()
    archive = Archive(cast("Drive", drive), Path(("a",)), (), ArchiveLimits(10, 0))
    await archive.plan()
    drive.reader = asyncio.create_task(anext(archive.chunks()))
    with pytest.raises(asyncio.CancelledError):
        await drive.reader
    assert drive.content.closed
