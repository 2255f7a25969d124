"""Recorded digests of files that were copied back into the storage: verified, then bound to the files as they are now."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from portico.drive import Drive
from portico.entries import Entry
from portico.errors import Changed, NotFound
from portico.operations.hashing import Hashing
from portico.paths import Path
from portico.store.digests import FileDigests

_PAGE = 500


async def adopt_digests(
    drive: Drive, digests: FileDigests, connection: str
) -> AsyncIterator[tuple[Path, bool]]:
    """Each file of which another version was hashed, and whether its content is the same. If so, it has its digest again."""
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
            same = await _sha256(drive, path, entry) == recorded.sha256
            if same:
                await digests.record(connection, [(location, entry, recorded.sha256)])
            yield path, same


async def _sha256(drive: Drive, path: Path, entry: Entry) -> bytes | None:
    """None if the file is changed at this moment."""
    hashing = Hashing(sha256=True)
    try:
        download = await drive.read(path, etag=entry.etag)
    except (Changed, NotFound):
        return None
    async with aclosing(download.chunks) as chunks:
        async for chunk in chunks:
            await hashing.update(chunk)
    await hashing.check()
    return hashing.sha256
