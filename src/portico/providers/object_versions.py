"""The trash of a store that keeps versions: what is deleted stays as a version, and the trash notes which one it was.

Notes are hidden objects below the place in the trash, each for a page of keys and written before these are deleted.
Nothing is copied. What is purged is the notes: how long older versions are kept is the store's own lifecycle, as
without a trash.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing
from functools import partial
from time import monotonic
from typing import ClassVar, NamedTuple

import msgspec

from portico.entries import Entry
from portico.errors import AlreadyExists, NotFound, PorticoError
from portico.paths import RESERVED_PREFIX
from portico.providers.keys import KeyStore, Version, name_of
from portico.providers.responses import malformed_response
from portico.providers.tasks import for_each
from portico.single_flight import SingleFlight
from portico.tally import count

_NAMED = 5
"""How many of the files that are gone an error names."""

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


class Restored:
    """How far a restore has come. What is gone does not keep it from going on."""

    def __init__(self) -> None:
        self.objects = 0
        self._gone = 0
        self._names: list[str] = []

    def add(self, keys: Collection[str]) -> None:
        self.objects += len(keys)
        count(sum(not key.endswith("/") for key in keys))

    def add_copies(self, sizes: Collection[int | None]) -> None:
        """Sizes as of `move_objects`."""
        self.objects += len(sizes)
        files = [size for size in sizes if size is not None]
        count(len(files), sum(files))

    def add_gone(self, key: str) -> None:
        """The lifecycle of the store has removed the version."""
        self._gone += 1
        if len(self._names) < _NAMED:
            self._names.append(f"'{name_of(key)}'")

    def check(self) -> None:
        """`NotFound` if something is gone."""
        if not self._gone:
            return
        total = self._gone + self.objects
        if total == 1:
            raise NotFound(f"The content of {self._names[0]} is no longer in the storage.")
        are = "is" if self._gone == 1 else "are"
        names = ", ".join(self._names) + (", …" if self._gone > len(self._names) else "")
        raise NotFound(f"{self._gone} of {total} files {are} no longer in the storage: {names}.")


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

    async def restore(
        self, note: VersionNote, after: str | None, target: str, restored: Restored, *, replace: bool
    ) -> None:
        """Make the noted versions the current ones, below the target. `after`: the last key of the note before."""

        async def bring_back(noted: tuple[str, str]) -> None:
            rest, version = noted
            key, goal = note.source + rest, target + rest
            if not (replace and key == goal and await self._is_current(key, version)):
                try:
                    await self.copy(key, version, goal, replace=replace)
                except NotFound:
                    restored.add_gone(key)
                    return
                except AlreadyExists:
                    if key != goal or not await self._is_current(key, version):
                        raise  # else it was noted and not deleted
            restored.add([key])

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
