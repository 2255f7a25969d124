"""The trash of a store that keeps versions: what is deleted stays as a version, and the trash notes which one it was.

Notes are hidden objects below the place in the trash, each for a page of keys and written before these are deleted.
Nothing is copied. What is purged is the notes: how long older versions are kept is the store's own lifecycle, as
without a trash.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from time import monotonic
from typing import ClassVar, NamedTuple

import msgspec

from portico.entries import Entry
from portico.errors import AlreadyExists, PorticoError
from portico.paths import RESERVED_PREFIX
from portico.providers.keys import KeyStore, Version
from portico.providers.responses import malformed_response
from portico.providers.tasks import for_each
from portico.single_flight import SingleFlight

NOTE = f"{RESERVED_PREFIX}versions-"
"""How the names of notes begin; no file of a user can have such a name."""


class VersionNote(msgspec.Struct):
    source: str
    """The key of a file, or the prefix of a folder, as it was."""
    is_folder: bool
    versions: list[tuple[str, str]]
    """What follows the source in each key, in order, and the version."""


class Current(NamedTuple):
    """An object and the version that it is now."""

    entry: Entry
    """Its `name` is the whole key."""
    version: str | None
    """None if it was stored before the store began to keep versions: deleting it may not leave a version."""

    @property
    def with_etag(self) -> Version:
        return Version(self.entry.name, self.entry.etag)


class ObjectVersions(ABC):
    """What a service does for it."""

    trusted_seconds: ClassVar[float] = 10.0
    """How long it is assumed that the store still keeps versions, or still does not."""

    def __init__(self, store: KeyStore) -> None:
        self._store = store
        self._known = (False, 0.0)
        self._looks: SingleFlight[str, bool] = SingleFlight()

    async def are_kept(self, prefix: str) -> bool:
        """Whether deleted objects stay as versions that the gateway may list; `prefix` is that of the trash."""
        kept, until = self._known
        if monotonic() < until:
            return kept
        return await self._looks.run(prefix, partial(self._look, prefix))

    async def _look(self, prefix: str) -> bool:
        try:
            kept = await self._are_kept(prefix)
        except PorticoError:
            kept = False
        self._known = kept, monotonic() + self.trusted_seconds
        return kept

    def forget(self) -> None:
        """Look again whether versions are kept."""
        self._known = (False, 0.0)

    @abstractmethod
    async def _are_kept(self, prefix: str) -> bool: ...

    @abstractmethod
    def pages(self, prefix: str) -> AsyncIterator[list[Current]]:
        """The objects below a prefix, in order, with the version of each. A page may be empty."""

    @abstractmethod
    async def find(self, key: str) -> Current | None: ...

    @abstractmethod
    async def write(self, key: str, content: bytes) -> None:
        """Store a note."""

    @abstractmethod
    async def copy(self, key: str, version: str, target: str, *, replace: bool) -> None:
        """Copy a version inside the service. Errors as in `KeyStore.duplicate`."""

    async def restore(self, note: VersionNote, after: str | None, target: str, *, replace: bool) -> None:
        """Make the noted versions the current ones, below the target. `after`: the last key of the note before."""

        async def bring_back(noted: tuple[str, str]) -> None:
            rest, version = noted
            key, goal = note.source + rest, target + rest
            if replace and key == goal and await self._is_current(key, version):
                return
            try:
                # `NotFound` if the lifecycle of the store has removed the version.
                await self.copy(key, version, goal, replace=replace)
            except AlreadyExists:
                if key != goal or not await self._is_current(key, version):
                    raise  # else it was noted and not deleted

        await for_each(bring_back, note.versions)

    async def _is_current(self, key: str, version: str) -> bool:
        found = await self.find(key)
        return found is not None and found.version == version

    async def write_note(self, place: str, number: int, note: VersionNote) -> None:
        await self.write(f"{place}{NOTE}{number:08}", msgspec.json.encode(note))

    async def read_note(self, key: str) -> VersionNote:
        download = await self._store.open(key, 0, None, None)
        async with aclosing(download.chunks) as chunks:
            content = b"".join([chunk async for chunk in chunks])
        try:
            return msgspec.json.decode(content, type=VersionNote)
        except msgspec.MsgspecError as error:
            raise malformed_response(f"a note of the trash that cannot be read ({error})"[:300]) from None
