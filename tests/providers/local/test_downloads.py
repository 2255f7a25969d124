"""An open file is closed exactly once, whatever happens to its download."""

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path as Folder
from typing import Any

import pytest

from portico.providers.local.provider import LocalProvider

from .actions import at

_SECONDS = 20
CONTENT = b"content" * 2**14
"""More than is read when the file is opened."""


@pytest.fixture
def file(top: Folder) -> Folder:
    (top / "file").write_bytes(CONTENT)
    return top / "file"


def descriptors(file: Folder) -> int:
    """How often this process has the file open."""
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return sum(os.path.realpath(link) == str(file.resolve()) for link in links)


class Gate:
    """Holds a call to `os` until the test opens it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.entered, self.may_go_on, self.left = (threading.Event() for _ in range(3))
        genuine = getattr(os, name)

        def held(*args: Any, **options: Any) -> Any:
            if args[0] == "file" or name == "pread":
                self.entered.set()
                assert self.may_go_on.wait(_SECONDS)
            try:
                return genuine(*args, **options)
            finally:
                self.left.set()

        monkeypatch.setattr(os, name, held)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self.entered.wait, _SECONDS)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(monkeypatch, "pread")
    yield gate
    gate.may_go_on.set()


@pytest.fixture
def opens(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(monkeypatch, "open")
    yield gate
    gate.may_go_on.set()


async def test_a_download_that_is_read_to_its_end_is_closed(provider: LocalProvider, file: Folder) -> None:
    download = await provider.read(at("file"))
    assert descriptors(file) == 1
    assert b"".join([chunk async for chunk in download.chunks]) == CONTENT
    assert descriptors(file) == 0
    await download.chunks.aclose()


@pytest.mark.parametrize("span", [(0, None), (2, 5), (3, 3)])
async def test_a_small_download_is_read_and_closed_by_the_thread_that_opens_it(
    provider: LocalProvider, top: Folder, span: tuple[int, int | None]
) -> None:
    (top / "small").write_bytes(b"content")
    download = await provider.read(at("small"), *span)
    if span != (3, 3):
        assert descriptors(top / "small") == 0
    (top / "small").unlink()
    assert b"".join([chunk async for chunk in download.chunks]) == b"content"[slice(*span)]
    await download.chunks.aclose()
    assert descriptors(top / "small") == 0


async def test_a_small_file_that_is_closed_unread_is_at_its_end(provider: LocalProvider, top: Folder) -> None:
    (top / "small").write_bytes(b"content")
    download = await provider.read(at("small"))
    await download.chunks.aclose()
    assert [chunk async for chunk in download.chunks] == []


async def test_a_closed_download_is_at_its_end(provider: LocalProvider, file: Folder) -> None:
    download = await provider.read(at("file"))
    await download.chunks.aclose()
    await download.chunks.aclose()
    assert descriptors(file) == 0
    assert [chunk async for chunk in download.chunks] == []


async def test_a_file_that_is_being_read_is_closed_when_the_read_ends(
    provider: LocalProvider, file: Folder, reads: Gate
) -> None:
    download = await provider.read(at("file"))
    reading = asyncio.ensure_future(anext(download.chunks))
    await reads.reached()
    reading.cancel()
    await asyncio.wait([reading])
    await download.chunks.aclose()
    assert descriptors(file) == 1  # its number must not be given to another file under the read
    reads.may_go_on.set()
    await provider.close()  # waits for the thread
    assert descriptors(file) == 0


async def test_a_cancelled_opening_leaves_no_file_open(provider: LocalProvider, file: Folder, opens: Gate) -> None:
    opening = asyncio.create_task(provider.read(at("file")))
    await opens.reached()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    opens.may_go_on.set()
    await provider.close()
    await asyncio.sleep(0)  # the thread's result is handled in the next round of the loop
    assert descriptors(file) == 0
