"""`Drive`: the part of a Web User's tree that is in one provider, with everything that changes it.

On top of what `DriveView` shows, a drive checks rights to change, settles name conflicts, and keeps in the trash what is
replaced or deleted. Paths given to it are those of the user's tree, at or below the drive's mount point.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import TypeAlias

import msgspec

from portico.drive.cursors import CursorSeal
from portico.drive.errors import named_as_it_was, with_advice
from portico.drive.free_names import FreeName, NameClaims, free_name
from portico.drive.mount_table import InnerMounts
from portico.drive.trash import DriveTrash
from portico.drive.view import DriveView
from portico.model.entries import UNKNOWN_TYPE, Download, Entry
from portico.model.errors import (
    AlreadyExists,
    FolderNotEmpty,
    InvalidPath,
    IsAFolder,
    NotFound,
    NotPossible,
    PorticoError,
    cannot_replace_folder,
    root_is_a_folder,
)
from portico.model.paths import RESERVED_PREFIX, TOP, Path, Place
from portico.model.reach import folded
from portico.model.rights import OVERWRITE, Right
from portico.model.versions import UNSEEN, Version, version_of
from portico.providers.contract.provider import Provider
from portico.providers.contract.uploads import Ends, KeptFile, ResumableUpload, Save, WriteOptions
from portico.runtime.tasks import for_each
from portico.store.recordings import Recording
from portico.store.trash import Trashed

__all__ = ["Drive", "OnConflict", "ResumableUpload", "WriteOptions"]

PATH_DEPTH = 100
_PAGE = 1000
_DELETED_AT_ONCE = 4

OnName: TypeAlias = Callable[[Path], Awaitable[None]]


class OnConflict(StrEnum):
    """What to do if the name already exists."""

    REPLACE = "replace"
    FAIL = "fail"
    RENAME = "rename"
    """Keep both: the new one becomes `name (1).ext`."""


class Drive(DriveView):
    """Made for one operation: it remembers which folders it has checked. What changes something notes in a `Recording` what it
    did, and begins it right before the storage is changed."""

    def __init__(
        self,
        provider: Provider,
        root: Path,
        rights: Collection[Right],
        seal: CursorSeal,
        *,
        point: Path = TOP,
        inner: InnerMounts | None = None,
        connection: str = "",
        path_depth: int = PATH_DEPTH,
        claims: NameClaims | None = None,
        trash: Callable[[], DriveTrash] | None = None,
    ) -> None:
        """As `DriveView`. `path_depth`: of a new path of the tree. `claims`: shared by the drives of one provider."""
        super().__init__(provider, root, rights, seal, point=point, inner=inner, connection=connection)
        self._path_depth = path_depth
        self._writable: dict[Path, float] = {}
        """As `WriteOptions.ancestors_checked_at`."""
        self._claims = claims or NameClaims("")
        self._make_trash = trash

    def _check_file(self, path: Path, on_conflict: OnConflict | None) -> None:
        """Refuse to replace a folder that may exist only in the tree, where the provider can't see it."""
        if path.is_root:
            raise root_is_a_folder()
        is_point = len(path.segments) == self._depth
        if is_point or (on_conflict is not OnConflict.RENAME and self._is_there(path)):
            raise cannot_replace_folder(path.name)

    @property
    def max_file_size(self) -> int:
        return self._provider.max_file_size

    def size_limit(self, configured: int) -> int:
        """How many bytes a file may have; `configured` is the administrator's limit, or 0."""
        return min(configured or self.max_file_size, self.max_file_size)

    # Content

    async def check_target(self, folder: Path) -> None:
        """`NotAFolder` if no file could be written into `folder`; what is missing will be made."""
        self._check_depth(folder, more=1)
        path = self._place(folder)
        checked_at = time.monotonic()
        await self._provider.check_ancestors(path)
        self._writable[path] = checked_at

    async def write(
        self,
        path: Path,
        chunks: AsyncIterator[bytes],
        content_type: str,
        on_conflict: OnConflict | None = None,
        options: WriteOptions = WriteOptions(),
        *,
        change: Recording,
        on_name: OnName | None = None,
    ) -> Entry:
        """As `Provider.write`; whether it replaces, `on_conflict` decides. Without `on_conflict` a file is replaced if the user may do that.

        The caller begins the `change` when all chunks have been read. `on_name` is called with the name that `RENAME` found, before `chunks` is read; it is then kept free of others.
        """
        self.require(Right.UPLOAD)
        self._check_file(path, on_conflict)
        self._check_depth(path)
        replace = self._may_replace(on_conflict)
        folder = self._place(path.parent)
        change.mark = options.mark
        began_at = time.monotonic()
        options = msgspec.structs.replace(options, replace=replace, ancestors_checked_at=self._writable.get(folder))
        change.concern(self.place(path))
        if on_conflict is not OnConflict.RENAME:
            entry = await self._write(self._place(path), chunks, content_type, options, change)
        else:
            everywhere = on_name is not None or not self._provider.renames_at_commit
            async with self._free_name(path, everywhere=everywhere) as free:
                if on_name:
                    await on_name(free.path)
                others = (self._place(other) for other in free.others if not self._is_there(other))
                options = msgspec.structs.replace(options, alternatives=others)
                change.concern(self.place(free.path))
                entry = await self._provider.write(self._place(free.path), chunks, content_type, options)
        self._writable[folder] = began_at
        self._stored(path.parent, entry, change)
        return entry

    def _stored(self, folder: Path, entry: Entry, change: Recording) -> None:
        place = self.place(folder.child(entry.name))
        if change.target is None:
            change.place = place
        if change.target in (None, place):
            change.stored(entry)

    async def _write(
        self, path: Path, chunks: AsyncIterator[bytes], content_type: str, options: WriteOptions, change: Recording
    ) -> Entry:
        """As `Provider.write`; the file that it replaces is kept."""
        if not (options.replace and self._keeps):
            change.before = UNSEEN if options.replace else None
            entry = await self._provider.write(path, chunks, content_type, options)
            if not entry.replaced:
                change.before = None
            return entry
        async with self.trash.replacement(path, change) as replacement:
            options = msgspec.structs.replace(options, kept=replacement.at_commit())
            return await self._provider.write(path, chunks, content_type, options)

    # Content in several requests

    async def begin_upload(
        self,
        path: Path,
        content_type: str,
        on_conflict: OnConflict | None = None,
        *,
        size: int | None = None,
        modified: datetime | None = None,
    ) -> ResumableUpload:
        self.require(Right.UPLOAD)
        self._check_file(path, on_conflict)
        self._check_depth(path)
        return await self._provider.begin_upload(
            self._place(path),
            content_type,
            WriteOptions(replace=self._may_replace(on_conflict), at_most=size, modified=modified),
            renamed=on_conflict is OnConflict.RENAME,
        )

    async def resume_upload(
        self, state: bytes, *, known_offset: int | None = None, trusted: bool = True
    ) -> ResumableUpload:
        self.require(Right.UPLOAD)
        return await self._provider.resume_upload(state, known_offset=known_offset, trusted=trusted)

    async def finish_upload(
        self, upload: ResumableUpload, path: Path, on_conflict: OnConflict | None, save: Save, *, change: Recording
    ) -> Entry:
        change.concern(self.place(path))
        change.mark = upload.mark or None
        await change.begin()
        entry = await self._finish(upload, path, on_conflict, save, change)
        self._stored(path.parent, entry, change)
        return entry

    async def _finish(
        self, upload: ResumableUpload, path: Path, on_conflict: OnConflict | None, save: Save, change: Recording
    ) -> Entry:
        replace = self._may_replace(on_conflict)
        try:
            self._check_file(path, None)
            if not (replace and self._keeps):
                change.before = UNSEEN if replace else None
                return await upload.finish(save)
            async with self.trash.replacement(self._place(path), change) as replacement:
                return await upload.finish(save, kept=replacement.at_commit())
        except (AlreadyExists, IsAFolder):
            if on_conflict is not OnConflict.RENAME:
                raise
        async with self._free_name(path, everywhere=not self._provider.renames_at_commit) as free:
            names = (self._place(other) for other in chain((free.path,), free.others) if not self._is_there(other))
            return await upload.finish(save, alternatives=names)

    async def begin_partial_upload(self, upload_id: str, size: int | None) -> ResumableUpload:
        """An upload of a part of a file; nobody sees what it stores."""
        self.require(Right.UPLOAD)
        return await self._provider.begin_upload(_partial(upload_id), UNKNOWN_TYPE, WriteOptions(at_most=size))

    async def read_partial_upload(self, upload_id: str) -> Download:
        return await self._provider.read(_partial(upload_id))

    async def remove_partial_upload(self, upload_id: str) -> None:
        with suppress(NotFound):
            await self._provider.delete(_partial(upload_id))

    # The tree

    async def make_folder(self, path: Path, *, change: Recording) -> None:
        self.require(Right.UPLOAD)
        self._check_depth(path)
        change.concern(self.place(path))
        place = self._place(path)
        if change.has_begun:  # as a part of another change
            await self._provider.make_folder(place)
            return
        missing = 0 if self._provider.reports_arrival else await self.missing_folders(path)

        async def begin(there: Entry | None) -> None:
            if there:
                change.before = version_of(there)
            await change.begin()

        made = await self._provider.make_folder(place, begin=begin)
        change.after = Version(is_folder=True, made_folders=made or missing)

    async def missing_folders(self, path: Path) -> int:
        """How many folders above a path do not exist, if the storage has any that exist by themselves."""
        above = self._place(path).segments[:-1]
        missing = 0
        while self._provider.has_folders and above and not await self._find(Path(above, as_folder=True)):
            above = above[:-1]
            missing += 1
        return missing

    def shares_service(self, other: "Drive") -> bool:
        """Whether the service itself can copy from one drive to the other."""
        return self._provider is other._provider

    def meets(self, path: Path, other: "Drive", other_path: Path) -> bool:
        """Whether one of two places, which may be seen through different mounts, holds the other."""
        if other is self:
            return path.holds(other_path) or other_path.holds(path)
        keys = self._provider.key(self._place(path)), other._provider.key(other._place(other_path))
        one, two = ([*map(folded, key)] for key in keys)  # some storage ignores case, and a refusal loses nothing
        return one[: len(two)] == two[: len(one)]

    async def copy(
        self,
        source: Path,
        target: Path,
        on_conflict: OnConflict | None = None,
        on_name: OnName | None = None,
        *,
        change: Recording,
        to: "Drive | None" = None,
    ) -> Path:
        """Copy a file or a folder; the path of the copy. `to`: the drive of the target, which shares the service.

        `on_name` as in `write`.
        """
        to = to or self
        self.require_to_copy(to)
        return await self._transfer(self._provider.copy, source, to, target, on_conflict, on_name, change)

    async def move(
        self,
        source: Path,
        target: Path,
        on_conflict: OnConflict | None = None,
        on_name: OnName | None = None,
        *,
        change: Recording,
        to: "Drive | None" = None,
    ) -> Path:
        """Move a file or a folder; its new path. `to` and `on_name` as in `copy`."""
        to = to or self
        self.require_to_move(to)
        if source.is_root:
            raise NotPossible("The root folder can't be moved; move the items in it instead.")
        return await self._transfer(self._provider.move, source, to, target, on_conflict, on_name, change)

    def require_to_copy(self, to: "Drive") -> None:
        self.require(Right.DOWNLOAD)
        to.require(Right.UPLOAD)

    def require_to_move(self, to: "Drive") -> None:
        if to is self:
            self.require(Right.UPLOAD, *OVERWRITE)
        else:  # where it goes, it may be read
            self.require(Right.DOWNLOAD, Right.DELETE)
            to.require(Right.UPLOAD)

    async def delete(self, path: Path, *, change: Recording, recursive: bool = False, permanent: bool = False) -> None:
        """Move it to the trash, if there is one; if `permanent`, remove it for good."""
        self.require(Right.DELETE)
        if self._is_there(path):
            raise NotPossible("The root folder can't be deleted; delete the items in it instead.")
        place = self._place(path)
        change.concern(self.place(path))
        with with_advice("Repeat the request to continue.", path):
            kept = self._keeps and (self.trash.holds or not permanent)
            if not (kept and await self.trash.delete(place, change, recursive=recursive, held=permanent)):
                if not change.has_begun:
                    change.before = change.before or UNSEEN
                await change.begin()
                await self._provider.delete(place, recursive=recursive)

    async def delete_copied(self, folder: Path, *, change: Recording) -> None:
        """Delete a folder that was copied elsewhere. Entries that no walk finds were not copied: they stay, or go to the trash."""
        self.require(Right.DELETE)
        with with_advice("Repeat the request to continue.", folder):
            place = Path(self._place(folder).segments, as_folder=True)
            if self._keeps and await self.trash.delete(place, change, recursive=True):
                return
            folders = [folder]
            walk = self.walk(folder, right=Right.DELETE)
            while not walk.ended:
                page = await walk.page(_PAGE)
                folders += [path for path, entry in page if entry.is_folder]
                files = [self._place(path) for path, entry in page if not entry.is_folder]
                await for_each(self._provider.delete, files, _DELETED_AT_ONCE)
            for each in sorted(folders, key=lambda path: -len(path.segments)):
                with suppress(NotFound, FolderNotEmpty):
                    await self._provider.delete(Path(self._place(each).segments, as_folder=True))

    # The trash

    @cached_property
    def trash(self) -> DriveTrash:
        if self._make_trash is None:
            raise NotFound("The trash is turned off on this gateway.")
        return self._make_trash()

    @property
    def _keeps(self) -> bool:
        return self._make_trash is not None and self.trash.is_on

    async def restore(
        self,
        record: Trashed,
        on_conflict: OnConflict = OnConflict.FAIL,
        *,
        change: Recording,
        target: Path | None = None,
    ) -> Path:
        """Move it back to where it was, or to `target`; the path that it has then. What it replaces is kept, too."""
        self.require(Right.UPLOAD, *OVERWRITE)
        target = target or self.trash.path_of(record)
        with named_as_it_was(record, target):
            async with self.trash.restoring(record) as place:
                if on_conflict is not OnConflict.RENAME:
                    return await self._restore(place, target, change, replace=on_conflict is OnConflict.REPLACE)
                async with self._free_name(target) as free:
                    return await self._restore(place, free.path, change, replace=False)

    async def _restore(self, place: Path, target: Path, change: Recording, *, replace: bool) -> Path:
        change.concern(Place(self.connection, place), self.place(target))
        missing = await self.missing_folders(target)
        again = "To continue, restore it again with onConflict=replace."
        with with_advice(again, target, gone="If you don't need the rest, remove it from the trash."):
            async with self._replacing(target, replace, change, place, restoring=True):
                await self._provider.restore(place, self._place(target), replace=replace)
        await self.note_arrived(target, change, missing)
        return target

    async def note_arrived(self, target: Path, change: Recording, missing: int) -> None:
        """Note what a change has left at its target. If the storage does not say, the change is done all the same."""
        with suppress(PorticoError):
            if entry := await self._find(self._place(target)):
                entry.made_folders = missing
                change.stored(entry)

    @asynccontextmanager
    async def _replacing(
        self,
        target: Path,
        replace: bool,
        change: Recording,
        source: Path | None = None,
        *,
        restoring: bool = False,
        ends: Ends | None = None,
    ) -> AsyncIterator[KeptFile | None]:
        """Around a change that may replace what is at `target`, and has begun; `source` is a path of the provider."""
        if not (replace and self._keeps):
            change.before = UNSEEN if replace else None
            await change.begin()
            yield None
            return
        async with self.trash.replacing(self._place(target), change, source, restoring=restoring, ends=ends) as kept:
            yield kept

    async def _transfer(
        self,
        transfer: Callable[..., Awaitable[Entry | None]],
        source: Path,
        to: "Drive",
        target: Path,
        on_conflict: OnConflict | None,
        on_name: OnName | None,
        change: Recording,
    ) -> Path:
        async with to.placed(self, source, target, on_conflict, on_name) as (target, replace):
            place = self._place(source)
            change.concern(self.place(source), to.place(target))
            missing = 0 if self._provider.reports_arrival else await to.missing_folders(target)
            with with_advice(to.resume_advice(target, replace), source):
                goal, keeps = to._place(target), replace and to._keeps
                async with (
                    self._provider.transferring(place, goal, replace=replace, keeps=keeps) as ends,
                    to._replacing(target, replace, change, place, ends=ends) as kept,
                ):
                    arrived = await transfer(place, goal, replace=replace, kept=kept, ends=ends)
            if arrived:
                change.stored(arrived)
            else:
                await to.note_arrived(target, change, missing)
        return target

    @asynccontextmanager
    async def placed(
        self, drive: "Drive", source: Path, target: Path, on_conflict: OnConflict | None, on_name: OnName | None
    ) -> AsyncIterator[tuple[Path, bool]]:
        """The path for a copy of `source`, which is in `drive`, and whether the copy may replace an existing entry."""
        replace = self._may_replace(on_conflict)
        if on_conflict is OnConflict.RENAME and not self._is_there(target):
            await drive._stat(source)  # a missing source is reported before a name is looked for
            async with self._free_name(target) as free:
                if on_name:
                    await on_name(free.path)
                yield self._checked_target(drive, source, free.path), replace
        else:
            yield self._checked_target(drive, source, target), replace

    def _checked_target(self, drive: "Drive", source: Path, target: Path) -> Path:
        if drive.meets(source, self, target):
            raise NotPossible(
                "You can't move or copy a folder into itself or one of its subfolders, or over a "
                "folder that contains it."
            )
        self._check_depth(target)
        return target

    def resume_advice(self, target: Path, replace: bool) -> str:
        if replace:
            return "Repeat the request to continue."
        if self.allows(Right.REPLACE):
            return f"To continue, repeat the request with onConflict=replace and the target '{target}'."
        return f"The copy at '{target}' is incomplete; choose another target."

    def _check_depth(self, path: Path, *, more: int = 0) -> None:
        """Only new paths are limited; deeper ones can still be read and deleted."""
        if len(path.segments) + more > self._path_depth:
            raise InvalidPath(f"Paths can be at most {self._path_depth} levels deep. Use fewer nested folders.")

    def _may_replace(self, on_conflict: OnConflict | None) -> bool:
        if on_conflict is None:
            return self.allows(Right.REPLACE)
        if on_conflict is OnConflict.REPLACE:
            self.require(Right.REPLACE)
        return on_conflict is OnConflict.REPLACE

    def _free_name(self, path: Path, *, everywhere: bool = True) -> AbstractAsyncContextManager[FreeName]:
        return free_name(self._claims, self._place, path, self._is_free, everywhere=everywhere)

    async def _is_free(self, path: Path) -> bool:
        return await self.find(path) is None


def _partial(upload_id: str) -> Path:
    return Path((f"{RESERVED_PREFIX}uploads", f"part-{upload_id}"))
