"""Files on their way in.

The service shows a file from its first byte on. So a file is made under a hidden name at the top of the share, grows
there as its bytes arrive, and takes the place of its target by a rename, which the service does all or nothing.
"""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

from azure.core.exceptions import AzureError

from portico.entries import Entry
from portico.errors import PorticoError, ProviderFailed, ProviderTimeout
from portico.paths import RESERVED_PREFIX, Path
from portico.providers.azure_common import Body, Fault, translated
from portico.providers.azure_files.places import make_folders, relocate
from portico.providers.azure_files.share import Found, Share, lacks_parent
from portico.providers.parts import MIB, Part

T = TypeVar("T")

STAGING = Path((f"{RESERVED_PREFIX}staging",))
RANGE = 4 * MIB
"""The most that the service takes at once."""
ABANDONED = timedelta(hours=24)
"""How long nothing was written to a staged file that nobody writes any more."""
_LEAST_GROWTH = 64 * MIB
_MOST_GROWTH = 1024 * MIB
_HASHED_HERE = 256 * 1024
"""Bytes that are hashed before a thread is even reached."""
_COPY_STALLS_SECONDS = 300.0
_BRIEF = 3
"""The part of the deadline that it takes at most to clean up: somebody waits to hear that the upload failed."""


class StagedFile:
    """A file that nobody sees until `commit`."""

    def __init__(self, share: Share, content_type: str, at_most: int | None = None) -> None:
        self._share = share
        self._type = content_type
        self._at_most = at_most
        self._path = hidden_path()
        self._id = ""
        self._begun = False
        self._room = 0
        self._size = 0
        self._growing = asyncio.Lock()

    async def begin(self, first: Part) -> None:
        """Make the file, of its final size if the first part is all."""
        self._room = first.size if first.last else self._grown(first.size)
        self._begun = True
        with translated("upload"):
            self._id = await in_staging(
                self._share, lambda: self._share.create(self._path, self._room, self._type)
            )

    async def send(self, part: Part) -> None:
        if not part.size:
            return
        start = (part.number - 1) * RANGE
        stop = start + part.size
        md5 = await _md5(part)
        with translated("upload"):
            async with self._growing:
                if stop > self._room:
                    room = self._grown(stop)
                    await self._share.resize(self._path, room, self._type)
                    self._room = room
            await self._share.put_range(self._path, start, Body(part.chunks, part.size), md5)
        self._size = max(self._size, stop)

    def _grown(self, size: int) -> int:
        """Room for `size` and for what may follow, so that not every part waits for a resize of its own."""
        room = size + min(max(size, _LEAST_GROWTH), _MOST_GROWTH)
        return room if self._at_most is None else max(size, min(room, self._at_most))

    async def copy(self, source: Path) -> None:
        """Let the service itself copy a file here, and wait for that."""
        self._begun = True
        with translated(source.name):
            await in_staging(self._share, lambda: self._share.start_copy(source, self._path))
            found = await self._copied()
        self._id, self._type = found.id, found.entry.content_type
        self._size = self._room = found.entry.size or 0

    async def _copied(self) -> Found:
        pause, waited, seen = 0.05, 0.0, ""
        while True:
            status, progress, found = await self._share.copied(self._path)
            if status == "success":
                return found
            if status != "pending":
                raise ProviderFailed(
                    "The storage service could not copy the file; try again.",
                    cause=f"a copy inside of the share ended as {status or 'unknown'!r}",
                )
            waited, seen = (waited + pause, seen) if progress == seen else (0.0, progress)
            if waited > _COPY_STALLS_SECONDS:
                raise ProviderTimeout("The storage service did not finish a copy; try again.")
            await asyncio.sleep(pause)
            pause = min(2 * pause, 2.0)

    async def commit(self, target: Path, *, replace: bool) -> Entry:
        staged = Found(Entry("", False, self._size, content_type=self._type), self._id)
        with translated(target.name):
            if self._room != self._size:
                await self._share.resize(self._path, self._size, self._type)
            return await relocate(self._share, staged, self._path, target, replace=replace)

    async def discard(self) -> None:
        """Leave no trace. Harmless after `commit`; what cannot be removed now is left to the sweeper."""
        if self._begun:
            with suppress(AzureError, Fault, OSError, PorticoError):
                async with asyncio.timeout(self._share.timeout / _BRIEF):
                    await self._share.delete_file(self._path)


def hidden_path() -> Path:
    return Path((*STAGING.segments, secrets.token_hex(16)))


async def in_staging(share: Share, work: Callable[[], Awaitable[T]]) -> T:
    """Do the work; if the staging folder is what it lacks, make that and do it again."""
    try:
        return await work()
    except Fault as fault:
        if not lacks_parent(fault):
            raise
        await make_folders(share, STAGING)
        return await work()


async def _md5(part: Part) -> str:
    """What the service compares the bytes with that it received."""

    def digest() -> str:
        md5 = hashlib.md5(usedforsecurity=False)
        for chunk in part.chunks:
            md5.update(chunk)
        return base64.b64encode(md5.digest()).decode()

    return digest() if part.size <= _HASHED_HERE else await asyncio.to_thread(digest)
