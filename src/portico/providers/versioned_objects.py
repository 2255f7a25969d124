"""`VersionedStore`: a store of keys whose trash is made of versions, if the store keeps them, else of copies."""

from collections.abc import AsyncIterator

from portico.entries import Entry
from portico.errors import PorticoError, already_exists, cannot_replace_folder, is_a_folder, not_found
from portico.paths import Path
from portico.providers.base import TRASH
from portico.providers.keys import folder_key, key_of, path_of
from portico.providers.object_trees import check_merge, move_objects
from portico.providers.object_versions import NOTE, Current, ObjectVersions, VersionNote
from portico.providers.objects import ObjectStore
from portico.providers.tasks import for_each
from portico.tally import count


class VersionedStore(ObjectStore):
    versions: ObjectVersions

    async def move_to_trash(self, path: Path, place: Path) -> None:
        if not await self.versions.are_kept(_trash_prefix(place)):
            await super().move_to_trash(path, place)
            return
        self._check_key(path)
        entry = await self._found(path)
        if entry and not entry.is_folder:
            noted = await self._note_file(path, place)
            if noted is None:
                await super().move_to_trash(path, place)
                return
            await self.remove_versions([noted.with_etag])
            count(size=entry.size)
            return
        prefix = folder_key(path)
        if not self.fits(prefix) or not (entry or await self._is_folder(path)):
            raise not_found(path.name)
        await self._move_folder_to_trash(prefix, folder_key(place))
        if entry:
            await self.remove([prefix])

    async def _move_folder_to_trash(self, prefix: str, place: str) -> None:
        number = removed = 0
        try:
            async for found in self.versions.pages(prefix):
                if not found and number:
                    continue
                number += 1
                pairs = [(now.entry.name[len(prefix) :], now.version) for now in found]
                noted = [(rest, version) for rest, version in pairs if version is not None]
                await self.versions.write_note(place, number, VersionNote(prefix, True, noted))
                await self.remove_versions([now.with_etag for now in found if now.version is not None])
                others = [now.entry for now in found if now.version is None]
                await move_objects(self, others, prefix, place)
                removed += len(found)
                sizes = [now.entry.size or 0 for now in found if _is_file(now.entry)]
                count(len(sizes), sum(sizes))
        except PorticoError as error:
            raise error.after(f"{removed} files were deleted") from error

    async def keep(self, path: Path, place: Path) -> None:
        kept = await self.versions.are_kept(_trash_prefix(place))
        if not kept or await self._note_file(path, place) is None:
            await super().keep(path, place)

    async def _note_file(self, path: Path, place: Path) -> Current | None:
        """Note the current version of a file; None if it has none."""
        found = await self.versions.find(key_of(path))
        if found is None:
            raise not_found(path.name)
        if found.entry.is_folder:
            raise is_a_folder(path.name)
        if found.version is None:
            return None
        note = VersionNote(key_of(path), False, [("", found.version)])
        await self.versions.write_note(folder_key(place), 1, note)
        return found

    async def restore(self, place: Path, target: Path, *, replace: bool = False) -> None:
        notes = [
            entry.name
            async for listing in self.pages(folder_key(place) + NOTE, flat=True)
            for entry in listing.objects
        ]
        if not notes:
            if not await self._restore_each(place, target, replace):
                await super().restore(place, target, replace=replace)
            return
        self._check_key(target)
        first = await self.versions.read_note(notes[0])
        await self._check_restored(first, target, replace)
        goal = folder_key(target) if first.is_folder else key_of(target)
        after: str | None = None
        restored = 0
        for name in notes:
            note = first if name == notes[0] else await self.versions.read_note(name)
            await self.versions.restore(note, after, goal, replace=replace)
            after = note.source + note.versions[-1][0] if note.versions else after
            restored += len(note.versions)
            count(sum(not rest.endswith("/") for rest, _ in note.versions))
        if first.is_folder and not restored + await self._restore_copies(folder_key(place), goal):
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

    async def _check_restored(self, note: VersionNote, target: Path, replace: bool) -> None:
        await self.check_ancestors(target.parent)
        existing = await self.find(key_of(target))
        folder = await self._is_folder(target)
        if note.is_folder and (existing or (folder and not replace)):
            raise already_exists(target.name)
        if not note.is_folder and folder:
            raise cannot_replace_folder(target.name)
        if existing and not replace:
            raise already_exists(target.name)

    async def _restore_copies(self, place: str, goal: str) -> int:
        """Restore objects that had no version; returns how many there were."""
        restored = 0
        async for listing in self.pages(place, flat=True):
            found = [entry for entry in listing.objects if not entry.name[len(place) :].startswith(NOTE)]
            await move_objects(self, found, place, goal)
            restored += len(found)
        return restored

    async def _restore_each(self, place: Path, target: Path, replace: bool) -> bool:
        """Restore files that were noted one by one, as those are which a merged folder has replaced; False without notes."""
        prefix, goal = folder_key(place), folder_key(target)
        if not await self._has_notes(prefix):
            return False
        await self.check_ancestors(target)
        folders: set[str] = set()

        async def bring_back(note_key: str) -> None:
            key = goal + note_key[len(prefix) :].partition(f"/{NOTE}")[0]
            await check_merge(self, goal, key, folders)
            note = await self.versions.read_note(note_key)
            await self.versions.restore(note, None, key, replace=replace)
            count()

        async for listing in self.pages(prefix, flat=True):
            noted = [entry.name for entry in listing.objects if f"/{NOTE}" in entry.name]
            await for_each(bring_back, noted)
            others = [entry for entry in listing.objects if f"/{NOTE}" not in entry.name]
            await move_objects(self, others, prefix, goal)
        return True

    async def _has_notes(self, prefix: str) -> bool:
        async for listing in self.pages(prefix, flat=True):
            if any(f"/{NOTE}" in entry.name for entry in listing.objects):
                return True
        return False


def _trash_prefix(place: Path) -> str:
    """The prefix of the trash itself, also for a place that is deep in one of its items."""
    above = place.segments[:-1]
    return folder_key(Path(above[: above.index(TRASH) + 1] if TRASH in above else above))


def _is_file(entry: Entry) -> bool:
    return not (entry.is_folder or entry.name.endswith("/"))
