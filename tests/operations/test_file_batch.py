"""The small files of a form, stored at the same time."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from portico.model.entries import Entry
from portico.model.errors import StorageFull, TooLarge
from portico.operations.files import file_batch
from portico.operations.files.file_batch import FileBatch
from portico.operations.files.upload import Upload

from ..conformance.actions import pieces


class _Upload:
    """Stores nothing before it may."""

    is_repeatable = False

    def __init__(self) -> None:
        self.stored: list[Entry] = []
        self.failed: list[str] = []
        self.begun: list[str] = []
        self.may_store = asyncio.Event()
        self.errors: dict[str, Exception] = {}

    async def store(self, name: str, chunks: AsyncIterator[bytes], content_type: str | None) -> Entry:
        self.begun.append(name)
        self.failed.append(name)
        size = 0
        async for chunk in chunks:
            size += len(chunk)
        await self.may_store.wait()
        if error := self.errors.get(name):
            raise error
        self.failed.remove(name)
        self.stored.insert(0, Entry(name, False, size))
        return self.stored[0]


def _batch(upload: _Upload) -> FileBatch:
    return FileBatch(cast("Upload", upload))


async def _store(upload: _Upload, *files: tuple[str, int]) -> None:
    async with _batch(upload) as batch:
        for name, size in files:
            await batch.store(name, pieces(b"x" * size), None)


async def test_files_are_stored_together_and_told_in_order() -> None:
    upload = _Upload()
    storing = asyncio.create_task(_store(upload, *((str(number), number) for number in range(10))))
    while len(upload.begun) < 10:
        await asyncio.sleep(0)
    upload.may_store.set()
    await storing
    assert [(entry.name, entry.size) for entry in upload.stored] == [(str(number), number) for number in range(10)]
    assert upload.failed == []


@pytest.mark.parametrize(
    ("files", "together"),
    [
        ([(str(number), 1) for number in range(40)], 16),
        ([(str(number), file_batch._FILE_BYTES) for number in range(9)], 4),
        ([("a", 1), ("large", 2 * file_batch._FILE_BYTES), ("b", 1)], 2),
        ([("a", 1), ("A", 1)], 1),
    ],
    ids=["files", "bytes", "large", "case"],
)
async def test_no_more_is_held(files: list[tuple[str, int]], together: int) -> None:
    upload = _Upload()
    storing = asyncio.create_task(_store(upload, *files))
    for _ in range(500):
        await asyncio.sleep(0)
    assert len(upload.begun) == together
    upload.may_store.set()
    await storing
    assert [entry.name for entry in upload.stored] == [name for name, _ in files]


async def test_first_failure_is_reported() -> None:
    upload = _Upload()
    upload.errors = {"b": StorageFull("full"), "c": TooLarge("large")}
    upload.may_store.set()
    with pytest.raises(StorageFull):
        await _store(upload, ("a", 1), ("b", 1), ("c", 1), ("d", 1))
    assert [entry.name for entry in upload.stored][:1] == ["a"]
    assert upload.failed == ["b"]


async def test_files_that_have_arrived_are_stored_when_the_form_breaks_off() -> None:
    upload = _Upload()

    async def broken() -> AsyncIterator[bytes]:
        yield b"x"
        raise TooLarge("cut")

    async def store() -> None:
        async with _batch(upload) as batch:
            await batch.store("a", pieces(b"1"), None)
            await batch.store("b", broken(), None)
            raise ConnectionError

    upload.may_store.set()
    with pytest.raises(TooLarge):
        await store()
    assert [entry.name for entry in upload.stored] == ["a"]
    assert upload.failed == ["b"]


async def test_cancellation_ends_all() -> None:
    upload = _Upload()
    storing: asyncio.Task[Any] = asyncio.create_task(_store(upload, ("a", 1), ("b", 1)))
    while len(upload.begun) < 2:
        await asyncio.sleep(0)
    storing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await storing
    assert upload.stored == []
