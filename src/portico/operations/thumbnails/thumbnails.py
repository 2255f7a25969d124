"""Thumbnails: small pictures of images, and of the pages of documents."""

import asyncio
from hashlib import sha256
from pathlib import Path as FilePath

import msgspec

from portico.drive.drive import Drive
from portico.model.entries import Entry, guess_content_type
from portico.model.errors import NoThumbnail
from portico.model.paths import Path
from portico.operations.thumbnails.cache import Cached, ThumbnailCache
from portico.operations.thumbnails.process import Pictures, Request, ThumbnailProcess
from portico.operations.thumbnails.worker import MAX_BYTES
from portico.runtime.fair_turns import Keys

SMALL = 256
SIZES = (SMALL, 1600)
"""The longest side, in pixels: for a grid, and to read."""
MEDIA_TYPE = "image/webp"
_IMAGES = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
_DOCUMENTS = frozenset({"application/pdf"})


class Thumbnail(msgspec.Struct, frozen=True):
    content: bytes
    pages: int
    """Of the file; 1 for an image."""


class Thumbnails:
    def __init__(self, cache: ThumbnailCache, process: ThumbnailProcess, types: frozenset[str]) -> None:
        self._cache = cache
        self._process = process
        self.types = types
        """Media types of which thumbnails are made."""

    def of(self, drive: Drive, path: Path, entry: Entry, size: int, page: int) -> "PlannedThumbnail":
        """`NoThumbnail` if it is no file of which one is made."""
        kind = next((kind for kind in (entry.content_type, guess_content_type(path.name)) if kind in self.types), None)
        if kind is None:
            raise NoThumbnail(f"Thumbnails aren't available for files like '{path.name}'.")
        if (entry.size or 0) > MAX_BYTES:
            raise NoThumbnail(f"'{path.name}' is too large for a thumbnail.")
        if page > 1 and kind not in _DOCUMENTS:
            raise NoThumbnail(f"'{path.name}' has only one page; request page 1.")
        return PlannedThumbnail(self, drive, path, entry, size, page, "pdf" if kind in _DOCUMENTS else "image")

    async def sweep(self) -> None:
        await asyncio.to_thread(self._cache.sweep)

    async def _get(self, key: str) -> Cached | None:
        return await asyncio.to_thread(self._cache.get, key)

    async def _make(self, planned: "PlannedThumbnail", keys: Keys) -> Cached:
        drive, path, entry = planned.drive, planned.path, planned.entry
        async with self._process.turn(keys):
            if cached := await self._get(planned.key()):  # made while this one waited
                return cached
            content = await drive.read(path, etag=entry.etag)
            try:
                length = content.stop - content.start
                if length > MAX_BYTES or length != (entry.size or 0):
                    raise NoThumbnail(f"'{path.name}' has changed. Try again.")
                request = Request(planned.kind, length, planned.size, planned.page)
                pictures = await self._process.make(request, content.chunks)
            finally:
                await content.chunks.aclose()
        return await self._keep(planned, pictures)

    async def _keep(self, planned: "PlannedThumbnail", pictures: Pictures | None) -> Cached:
        """The one that was asked for; those that were made with it are kept, too."""
        made = [Cached(each, pictures.pages) for each in pictures.content] if pictures else [Cached(b"", 0)]

        def keep() -> None:
            for offset, cached in enumerate(made):
                self._cache.put(planned.key(planned.page + offset), cached)

        await asyncio.to_thread(keep)
        return made[0]


class PlannedThumbnail(msgspec.Struct, frozen=True):
    thumbnails: Thumbnails
    drive: Drive
    path: Path
    entry: Entry
    size: int
    page: int
    kind: str

    def key(self, page: int | None = None) -> str:
        """Names the content: another version of the file has another key."""
        entry = self.entry
        version = (entry.etag, entry.size, entry.last_modified if entry.etag is None else None)
        named = repr((self.drive.location(self.path), version, self.size, page or self.page))
        return sha256(named.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def etag(self) -> str:
        return self.key()[:32]

    async def make(self, keys: Keys) -> Thumbnail:
        """`NoThumbnail` if the file is damaged, or asks for too much. `keys`: whose turn it takes."""
        cached = await self.thumbnails._get(self.key()) or await self.thumbnails._make(self, keys)
        if not cached.content:
            raise NoThumbnail(f"A thumbnail of '{self.path.name}' can't be made.")
        return Thumbnail(cached.content, cached.pages)


def open_thumbnails(folder: FilePath, size: int, process: ThumbnailProcess) -> Thumbnails | None:
    """None if they are turned off (a size of 0), or the extra is not installed."""
    if not (size and process.is_installed()):
        return None
    types = _IMAGES | _DOCUMENTS if process.has_documents() else _IMAGES
    return Thumbnails(ThumbnailCache(folder, size), process, types)
