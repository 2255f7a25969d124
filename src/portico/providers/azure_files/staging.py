"""Staging: files and copies that are not visible yet.

The service shows a file from its first byte. So a file is created under a hidden name at the top of the share, grows
there, and is renamed to its target, which the service does atomically.

The file of a resumable upload outlives its writers. Its name is part of the upload's state, by which it is removed; the
sweep removes it only long after any upload has expired.
"""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TypeVar

from azure.core.exceptions import AzureError

from portico.model.entries import UNKNOWN_TYPE, Entry
from portico.model.errors import PorticoError
from portico.model.paths import RESERVED_PREFIX, Path
from portico.providers.azure_common.errors import ServiceError, translated
from portico.providers.azure_common.service import Body
from portico.providers.azure_files.errors import lacks_parent
from portico.providers.azure_files.service import Found, Share
from portico.providers.azure_files.targets import check_version, make_folders, relocate
from portico.providers.contract.uploads import KeptFile
from portico.providers.multipart.parts import MIB, UploadPart

T = TypeVar("T")

STAGING = Path((f"{RESERVED_PREFIX}staging",))
RANGE_BYTES = 4 * MIB
"""The largest range that the service accepts in one request."""
ABANDONED = timedelta(hours=24)
"""A staged file that was not written for this long is abandoned."""
_EXPIRED = timedelta(days=60)
"""The file of a resumable upload that was not written for this long is removed even if its state was lost."""
_RESUMABLE = "upload-"
_HEADER_TEXT = re.compile(r"[\x20-\x7e]{1,256}")
_MIN_GROWTH = 64 * MIB
_MAX_GROWTH = 1024 * MIB
_CLEANUP_FRACTION = 3
"""Cleaning up may take the timeout divided by this: the client waits to learn that the upload failed."""


class StagedFile:
    """A file that is invisible until `commit`."""

    def __init__(
        self,
        share: Share,
        content_type: str,
        at_most: int | None = None,
        path: Path | None = None,
        mark: str | None = None,
    ) -> None:
        self.id = ""
        self.room = 0
        """The size of the file at the service, which may be more than was written."""
        self._share = share
        self._type = content_type if _HEADER_TEXT.fullmatch(content_type) else UNKNOWN_TYPE
        self._at_most = at_most
        self._mark = mark
        self._path = path or hidden_path()
        self._begun = False
        self._size = 0
        self._growing = asyncio.Lock()

    async def begin(self, first: UploadPart) -> None:
        """Create the file, with its final size if the first part is the last."""
        await self.create(first.size if first.last else self._grown(first.size))

    async def create(self, room: int) -> None:
        self.room = room
        self._begun = True
        with translated("upload"):
            self.id = await in_staging(
                self._share, lambda: self._share.create(self._path, room, self._type, self._mark)
            )

    async def send(self, part: UploadPart) -> None:
        start = (part.number - 1) * RANGE_BYTES
        await self.write(start, part)
        self._size = max(self._size, start + part.size)

    async def write(self, start: int, part: UploadPart) -> None:
        """Write a part of at most `RANGE_BYTES` at any offset; several may be written at the same time."""
        if not part.size:
            return
        stop = start + part.size
        md5 = await part.md5()
        with translated("upload"):
            async with self._growing:
                if stop > self.room:
                    room = self._grown(stop)
                    await self._share.resize(self._path, room, self._type)
                    self.room = room
            await self._share.put_range(self._path, start, Body(part.chunks, part.size), md5)

    def _grown(self, size: int) -> int:
        """A size with room for more, so that not every part needs a resize."""
        room = size + min(max(size, _MIN_GROWTH), _MAX_GROWTH)
        return room if self._at_most is None else max(size, min(room, self._at_most))

    async def copy(self, source: Path) -> None:
        """Let the service copy a file here, and wait until it is done."""
        self._begun = True
        with translated(source.name):
            await in_staging(self._share, lambda: self._share.start_copy(source, self._path))
            found = await self._share.copied(self._path)
        self.id, self._type = found.id, found.entry.content_type
        self._size = self.room = found.entry.size or 0

    async def commit(
        self,
        target: Path,
        *,
        replace: bool,
        if_match: str | None = None,
        modified: datetime | None = None,
        size: int | None = None,
        kept: KeptFile | None = None,
    ) -> Entry:
        """Rename the file to its target. `size` is that of the content, if it is more than what was sent here."""
        size = self._size if size is None else size
        staged = Found(Entry("", False, size, content_type=self._type), self.id)
        with translated(target.name):
            if self.room != size:
                await self._share.resize(self._path, size, self._type)
                self.room = size
            if kept:
                await kept.prepare()
            if if_match is not None:  # a rename has no condition for its target
                await check_version(self._share, target, if_match)
            return await relocate(self._share, staged, self._path, target, replace=replace, modified=modified)

    async def discard(self) -> None:
        """Remove the file. Harmless after `commit`. What cannot be removed now is left to the sweep."""
        if self._begun:
            with suppress(AzureError, ServiceError, OSError, PorticoError):
                async with asyncio.timeout(self._share.timeout / _CLEANUP_FRACTION):
                    await self._share.delete_file(self._path)


def hidden_path() -> Path:
    return Path((*STAGING.segments, secrets.token_hex(16)))


def resumable_path() -> Path:
    return Path((*STAGING.segments, f"{_RESUMABLE}{secrets.token_hex(16)}"))


def is_abandoned(name: str, unwritten: timedelta) -> bool:
    """Whether a staged file that was not written for this long has no upload any more."""
    return unwritten > (_EXPIRED if name.startswith(_RESUMABLE) else ABANDONED)


async def in_staging(share: Share, work: Callable[[], Awaitable[T]]) -> T:
    """Do the work; if the staging folder is missing, create it and do the work again."""
    try:
        return await work()
    except ServiceError as error:
        if not lacks_parent(error):
            raise
        await make_folders(share, STAGING)
        return await work()
