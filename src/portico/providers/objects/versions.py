"""`VersionedStore`: an object store whose trash is made of versions, if the store keeps them, else of copies."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import ClassVar, NamedTuple

import msgspec

from portico.model.entries import Entry
from portico.model.errors import (
    AlreadyExists,
    InvalidPath,
    NotFound,
    PorticoError,
    already_exists,
    cannot_replace_folder,
    changed,
    counting,
    is_a_folder,
    not_found,
)
from portico.model.paths import RESERVED_PREFIX, TRASH, Path
from portico.providers.objects.service import ObjectService, Version, folder_key, key_of, name_of, path_of
from portico.providers.objects.store import ObjectStore
from portico.providers.objects.trees import ATTEMPTS, check_merge, count_files, file_size, move_objects
from portico.providers.wire.responses import malformed_response
from portico.runtime.progress_counter import count
from portico.runtime.tasks import SingleFlight, for_each

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
            raise NotFound(f"The content of {self._names[0]} is no longer in the storage, so it can't be restored.")
        are = "is" if self._gone == 1 else "are"
        names = ", ".join(self._names) + (", …" if self._gone > len(self._names) else "")
        raise NotFound(f"{self._gone} of {total} files {are} no longer in the storage: {names}.")


class ObjectVersions(ABC):
    """What a service does for it."""

    trusted_seconds: ClassVar[float] = 10.0
    """How long it is assumed that the store still keeps versions, or still does not."""

    def __init__(self, store: ObjectService) -> None:
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

    def note_may_follow(self, version: str) -> bool:
        """Whether it may be noted after it was replaced or removed: the note itself does not tell whether it will be kept."""
        return False

    async def write(self, key: str, content: bytes) -> None:
        await self._store.put(key, [content])

    @abstractmethod
    async def copy(self, key: str, version: str, target: str, *, replace: bool) -> None:
        """Copy a version inside the service. Errors as in `ObjectService.duplicate`."""

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
            raise malformed_response(f"an unreadable note in the trash ({error})"[:300]) from None


class VersionedStore(ObjectStore):
    versions: ObjectVersions
    _takes_notes = False
    """Whether the last note could be written; if not, nothing is replaced or removed before its note is there."""

    async def move_to_trash(self, path: Path, place: Path, seen: Entry | None = None) -> None:
        if not await self.versions.are_kept(_trash_prefix(place)):
            await super().move_to_trash(path, place, seen)
            return
        self._check_key(path)
        entry = seen if seen and not seen.is_folder else await self._found(path)
        if entry and not entry.is_folder:
            for attempt in range(ATTEMPTS):
                noted = await self._current(path, None if attempt else seen)
                if noted is None:
                    await super().move_to_trash(path, place)
                    return
                if await self._note_and_remove_file(path, place, noted, seen):
                    count(size=noted.entry.size)
                    return
            raise changed(path.name)
        prefix = folder_key(path)
        if not self.fits(prefix) or not (entry or await self._is_folder(path)):
            raise not_found(path.name)
        await self._move_folder_to_trash(prefix, folder_key(place))
        if entry:
            await self.remove([prefix])

    async def _move_folder_to_trash(self, prefix: str, place: str) -> None:
        number = removed = 0
        with counting(lambda: f"{removed} files were deleted"):
            async for found in self.versions.pages(prefix):
                if not found and number:
                    continue
                number += 1
                await self._note_and_remove(prefix, place, number, [now for now in found if now.version])
                others = [now.entry for now in found if now.version is None]
                await move_objects(self, others, prefix, place)
                removed += len(found)
                count_files([file_size(now.entry) for now in found])

    async def _note_and_remove(self, prefix: str, place: str, number: int, found: list[Current]) -> None:
        """Remove objects that have versions. One that is replaced in the meantime is noted and removed as it is then."""
        noted: dict[str, str] = {}
        for _ in range(ATTEMPTS):
            noted |= {now.entry.name[len(prefix) :]: now.version for now in found if now.version}
            await self.versions.write_note(place, number, VersionNote(prefix, True, list(noted.items())))
            newer = await self.remove_versions([now.with_etag for now in found])
            if not newer:
                return
            found = [now for one in newer if (now := await self.versions.find(one.key))]
            if not all(now.version for now in found):
                break
        raise changed(name_of(newer[0].key))

    async def _note_and_remove_file(self, path: Path, place: Path, noted: Current, seen: Entry | None) -> bool:
        """Whether that version was removed: while it is noted, if the journal knows it and so leads to it all the same."""
        assert noted.version
        note = self._write_note(path, noted.version, place)
        version = noted.with_etag._replace(copied_at=monotonic())
        known = seen is not None and seen.version == noted.version and self.versions.note_may_follow(noted.version)
        if not (known and self._takes_notes):
            await note
            return not await self.remove_versions([version])
        removed, written = await asyncio.gather(self.remove_versions([version]), note, return_exceptions=True)
        if isinstance(removed, BaseException):
            raise removed
        if written:
            raise written
        return not removed

    async def can_note(self, version: str, place: Path) -> bool:
        return self._takes_notes and await self._may_follow(version, place)

    async def note_version(self, path: Path, version: str, place: Path) -> bool:
        is_kept = await self._may_follow(version, place)
        if is_kept:
            await self._write_note(path, version, place)
        return is_kept

    async def _may_follow(self, version: str, place: Path) -> bool:
        return self.versions.note_may_follow(version) and await self.versions.are_kept(_trash_prefix(place))

    async def _write_note(self, path: Path, version: str, place: Path) -> None:
        self._takes_notes = False
        await self.versions.write_note(folder_key(place), 1, VersionNote(key_of(path), False, [("", version)]))
        self._takes_notes = True

    async def copy_to_trash(self, path: Path, place: Path, seen: Entry | None = None) -> None:
        kept = await self.versions.are_kept(_trash_prefix(place))
        found = await self._current(path, seen) if kept else None
        if found and found.version:
            await self._write_note(path, found.version, place)
        else:
            await super().copy_to_trash(path, place, seen)

    async def _current(self, path: Path, seen: Entry | None) -> Current | None:
        """The current version of a file; None if it has none."""
        if seen and seen.version:
            found: Current | None = Current(msgspec.structs.replace(seen, name=key_of(path)), seen.version)
        else:
            found = await self.versions.find(key_of(path))
        if found is None:
            raise not_found(path.name)
        if found.entry.is_folder:
            raise is_a_folder(path.name)
        return found if found.version else None

    async def restore(self, place: Path, target: Path, *, replace: bool = False) -> None:
        prefix = folder_key(place)
        notes = [entry.name async for listing in self.pages(prefix + NOTE, flat=True) for entry in listing.objects]
        if not (notes or await self._is_folder(place)):
            # A file, or a folder that is only a marker.
            await super().restore(place, target, replace=replace)
            return
        self._check_key(target)
        first = await self.versions.read_note(notes[0]) if notes else None
        is_folder = first is None or first.is_folder
        with self._names.pending(target, is_folder=is_folder) as name:
            merging = await self._check_target(target, is_folder=is_folder, replace=replace)
            name.take()
            goal = folder_key(target) if is_folder else key_of(target)
            restored = Restored()
            restoration = _Restoration(self, prefix, goal, replace, merging, restored)
            try:
                await restoration.restore_notes(notes, first)
                if is_folder:
                    await restoration.restore_others()
                restored.check()
            except PorticoError as error:
                if not restored.objects:
                    raise
                raise error.after(f"{restored.objects} files were restored") from error
            if is_folder and not restored.objects:
                await self.mark(goal)

    async def files_in_trash(self, place: Path) -> AsyncIterator[list[Path]]:
        prefix = folder_key(place)
        async for listing in self.pages(prefix, flat=True):
            names = [entry.name[len(prefix) :] for entry in listing.objects]
            for name in names:
                if name.startswith(NOTE):
                    note = await self.versions.read_note(prefix + name)
                    yield [path_of(rest) for rest, _ in note.versions if rest and not rest.endswith("/")]
            others = [name.partition(f"/{NOTE}")[0] for name in names if not name.startswith(NOTE)]
            yield [path_of(name) for name in others if name and not name.endswith("/")]

    async def _check_target(self, target: Path, *, is_folder: bool, replace: bool) -> bool:
        """Raise what prevents a restore; whether a folder is merged into another one."""
        await self.check_ancestors(target.parent)
        existing = await self.find(key_of(target))
        file = existing is not None and not existing.is_folder
        folder = (existing is not None and existing.is_folder) or await self._is_folder(target)
        if folder and not is_folder:
            raise cannot_replace_folder(target.name)
        if (file and is_folder) or ((file or folder) and not replace):
            raise already_exists(target.name)
        return folder


@dataclass(slots=True)
class _Restoration:
    """Restores a folder, or a file of which only a version was kept."""

    store: VersionedStore
    place: str
    goal: str
    replace: bool
    merging: bool
    restored: Restored
    folders: set[str] = field(default_factory=set)

    async def restore_notes(self, notes: list[str], first: VersionNote | None) -> None:
        versions = self.store.versions
        after: str | None = None
        for name in notes:
            note = first if first and name == notes[0] else await versions.read_note(name)
            await for_each(self._check, [rest for rest, _ in note.versions])
            await versions.restore(note, after, self.goal, self.restored, replace=self.replace)
            after = note.source + note.versions[-1][0] if note.versions else after

    async def restore_others(self) -> None:
        """Restore copies, and files that were noted one by one, as those are which a merged folder has replaced."""
        store, place = self.store, self.place
        async for listing in store.pages(place, flat=True):
            found = [entry for entry in listing.objects if not entry.name.startswith(place + NOTE)]
            noted = [entry.name for entry in found if f"/{NOTE}" in entry.name]
            await for_each(self._restore_file, noted)
            copies = [entry for entry in found if f"/{NOTE}" not in entry.name]
            await for_each(self._check, [entry.name[len(place) :] for entry in copies])
            sizes = await move_objects(store, copies, place, self.goal, replace=self.replace)
            self.restored.objects += len(sizes)
            count_files(sizes)

    async def _restore_file(self, note_key: str) -> None:
        rest = note_key[len(self.place) :].partition(f"/{NOTE}")[0]
        await self._check(rest)
        note = await self.store.versions.read_note(note_key)
        goal = self.goal + rest
        await self.store.versions.restore(note, None, goal, self.restored, replace=self.replace)

    async def _check(self, rest: str) -> None:
        key = self.goal + rest
        if not self.store.fits(key):
            raise InvalidPath(
                f"Under another folder name, the path of '{name_of(key)}' would be too long. To "
                "restore the folder under its own name, restore it with onConflict=replace."
            )
        if self.merging:
            await check_merge(self.store, self.goal, key, self.folders)


def _trash_prefix(place: Path) -> str:
    """The prefix of the trash itself, also for a place that is deep in one of its items."""
    above = place.segments[:-1]
    return folder_key(Path(above[: above.index(TRASH) + 1] if TRASH in above else above))
