"""What the tests do with a drive, in few words. Paths are text here."""

import random
from collections.abc import AsyncIterator
from contextlib import aclosing

from portico.drive.drive import OnConflict
from portico.model.entries import Entry
from portico.model.errors import NotFound
from portico.model.paths import Path

from ..recorded_drive import RecordedDrive

_PIECE = 64 * 1024
_MOST_PAGES = 10_000


def at(text: str) -> Path:
    return Path.parse(text)


def noise(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


async def pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), _PIECE):
        yield content[start : start + _PIECE]


async def put(
    drive: RecordedDrive, path: Path | str, content: bytes = b"", on_conflict: OnConflict | None = None
) -> Entry:
    where = at(path) if isinstance(path, str) else path
    return await drive.write(where, pieces(content), "application/octet-stream", on_conflict)


async def content(drive: RecordedDrive, path: Path | str, start: int = 0, stop: int | None = None) -> bytes:
    download = await drive.read(at(path) if isinstance(path, str) else path, start, stop)
    async with aclosing(download.chunks) as chunks:
        found = b"".join([chunk async for chunk in chunks])
    assert len(found) == download.stop - download.start
    return found


async def walk(drive: RecordedDrive, folder: str = "", size: int = 1000) -> list[list[Entry]]:
    """All pages of a folder."""
    pages = []
    cursor = None
    for _ in range(_MOST_PAGES):
        page = await drive.list_page(at(folder), size, cursor)
        pages.append(page.entries)
        cursor = page.token
        if cursor is None:
            return pages
    raise AssertionError(f"no end after {_MOST_PAGES} pages")


async def names(drive: RecordedDrive, folder: str = "", size: int = 1000) -> list[str]:
    return [entry.name for page in await walk(drive, folder, size) for entry in page]


async def tree(drive: RecordedDrive, folder: str = "") -> dict[str, bytes | None]:
    """Everything below a folder by its path: the content of files, None for folders."""
    found: dict[str, bytes | None] = {}
    pending = [at(folder)]
    while pending:
        here = pending.pop()
        for page in await walk(drive, str(here)):
            for entry in page:
                path = here.child(entry.name)
                found[str(path)] = None if entry.is_folder else await content(drive, path)
                if entry.is_folder:
                    pending.append(path)
    return found


async def exists(drive: RecordedDrive, path: str) -> bool:
    try:
        await drive.stat(at(path))
    except NotFound:
        return False
    return True
