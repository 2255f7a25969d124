"""What an interrupted attempt of a request has done, so that the next attempt under its idempotency key does not repeat it.

The rule for what cannot be known: nothing that exists is lost. A copy too many, or an error, is preferred.
"""

from collections.abc import AsyncIterator

from portico.drive.drive import Drive, OnConflict
from portico.model import timestamps
from portico.model.entries import Download, Entry
from portico.model.errors import Changed, InvalidRequest, PorticoError
from portico.model.paths import Path
from portico.model.rights import Right
from portico.operations.actors.attempt import Attempt


def keeps_existing(drive: Drive, on_conflict: OnConflict | None) -> bool:
    """Whether what has the name already is not replaced."""
    if on_conflict is None:
        return not drive.allows(Right.REPLACE)
    return on_conflict is not OnConflict.REPLACE


async def is_gone(drive: Drive, attempt: Attempt, path: Path) -> bool:
    """Whether the file or folder, which is to be moved or deleted, is gone.

    `Changed` if a file has taken its place since the first attempt: it is not what the request was about.
    """
    entry = await drive.find(path)
    if entry is not None and not entry.is_folder and _is_newer(entry, attempt):
        raise Changed(
            f"'{path.name}' was changed after this request was first sent. To apply it anyway, use "
            "a new idempotency key."
        )
    return entry is None


async def moved_to(
    drive: Drive, attempt: Attempt, source: Path, to: Drive, target: Path, *, keeps: bool
) -> Path | None:
    place = attempt.place_of(target) if keeps else target
    if await is_gone(drive, attempt, source) and place and await to.find(place):
        return place
    return None


async def copied_to(
    drive: Drive, attempt: Attempt, source: Path, to: Drive, target: Path, *, keeps: bool
) -> Path | None:
    """Where the source, a file, was copied to, if it was. Whether a folder is complete cannot be seen."""
    place = attempt.place_of(target) if keeps else None
    if place is None or (copy := await to.find(place)) is None or copy.is_folder:
        return None
    original = await drive.find(source)
    return place if original and not original.is_folder and original.size == copy.size else None


class AlreadyStored(InvalidRequest):
    """Ends an upload, with nothing stored, whose content the earlier attempt has stored."""

    def __init__(self, entry: Entry) -> None:
        super().__init__("This file is already stored.")
        self.entry = entry


class EarlierFile:
    """A file that an interrupted upload may have stored, compared with what is sent again.

    If the two are equal, nobody loses anything if the file counts as stored, wherever it is from.
    """

    def __init__(self, download: Download) -> None:
        self._chunks = download.chunks
        self._held = memoryview(b"")
        self.entry = download.entry

    async def begins_with(self, chunk: bytes) -> bool:
        """Whether this is what follows in the file."""
        sent = memoryview(chunk)
        while sent:
            if not self._held and not await self._read():
                return False
            size = min(len(sent), len(self._held))
            if sent[:size] != self._held[:size]:
                return False
            sent, self._held = sent[size:], self._held[size:]
        return True

    async def is_at_end(self) -> bool:
        return not self._held and not await self._read()

    async def holds(self, chunks: AsyncIterator[bytes]) -> bool:
        """Whether the file holds these chunks; they are read as long as that is so."""
        async for chunk in chunks:
            if not await self.begins_with(chunk):
                return False
        return await self.is_at_end()

    async def unless_held(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The chunks, followed by `AlreadyStored` if the file holds them."""
        equal = True
        async for chunk in chunks:
            equal = equal and await self.begins_with(chunk)
            yield chunk
        if equal and await self.is_at_end():
            raise AlreadyStored(self.entry)

    async def close(self) -> None:
        await self._chunks.aclose()

    async def _read(self) -> bool:
        try:
            self._held = memoryview(await anext(aiter(self._chunks), b""))
        except PorticoError:  # it cannot be read, and so is not known to be equal
            self._held = memoryview(b"")
            return False
        return bool(self._held)


async def earlier_file(drive: Drive, attempt: Attempt, path: Path) -> EarlierFile | None:
    """The file at `path`, which the interrupted attempt may have stored."""
    return await _readable(drive, attempt, path, await drive.find(path))


async def replaced_file(drive: Drive, attempt: Attempt, path: Path, if_match: str | None) -> EarlierFile | None:
    """The file at `path`, if it is not the version that the request is to replace, or was written since."""
    entry = await drive.find(path)
    if entry and (_is_newer(entry, attempt) if if_match is None else entry.etag != if_match):
        return await _readable(drive, attempt, path, entry)
    return None


async def _readable(drive: Drive, attempt: Attempt, path: Path, entry: Entry | None) -> EarlierFile | None:
    if entry is None or entry.is_folder:
        return None
    # Without the right to read, nobody may find out by guessing what an older file holds.
    if not drive.allows(Right.DOWNLOAD) and not _is_newer(entry, attempt):
        return None
    try:
        return EarlierFile(await drive.read_to_compare(path, entry))
    except PorticoError:
        return None


def _is_newer(entry: Entry, attempt: Attempt) -> bool:
    # Not the time that a client may have set.
    written = timestamps.to_datetime(entry.written) if entry.written else entry.modified
    return written is not None and written.timestamp() * 1000 > attempt.first_at
