"""Recorded digests of files that were copied back into the storage: verified, then bound to the files as they are now."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from enum import StrEnum

from portico.drive import Drive
from portico.entries import Entry
from portico.errors import Changed, NotFound
from portico.operations.hashing import Hashing
from portico.paths import Path
from portico.store.digests import FileDigests

_PAGE = 500


class Adoption(StrEnum):
    ADOPTED = "adopted"
    DIFFERENT = "not the content that was recorded"
    CHANGED = "changed in the meantime"
    """It was replaced or deleted before it was read to its end."""


async def adopt_digests(
    drive: Drive, digests: FileDigests, connection: str
) -> AsyncIterator[tuple[Path, Adoption]]:
    """Each file of which another version was hashed, and what came of it. With the same content, it has its digest again."""
    walk = drive.walk(Path())
    while not walk.ended:
        found = [path for path, entry in await walk.page(_PAGE) if not entry.is_folder]
        files = {drive.location(path): path for path in found}
        # Nothing is known of most files. Of the others, a listing may lack the etag.
        unknown = {location: Entry(path.name, False) for location, path in files.items()}
        for location in await digests.outdated(connection, unknown):
            path = files[location]
            entry = await drive.find(path)
            if entry is None or entry.is_folder:
                continue
            recorded = (await digests.outdated(connection, {location: entry})).get(location)
            if recorded is None:
                continue
            try:
                same = await _sha256(drive, path, entry) == recorded.sha256
            except (Changed, NotFound):
                yield path, Adoption.CHANGED
                continue
            if same:
                await digests.adopt(connection, location, entry, recorded.sha256)
            yield path, Adoption.ADOPTED if same else Adoption.DIFFERENT


async def _sha256(drive: Drive, path: Path, entry: Entry) -> bytes | None:
    hashing = Hashing(sha256=True)
    download = await drive.read(path, etag=entry.etag)
    async with aclosing(download.chunks) as chunks:
        async for chunk in chunks:
            await hashing.update(chunk)
    await hashing.check()
    return hashing.sha256
