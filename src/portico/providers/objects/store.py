"""Files and folders on an object store: what S3, Azure Blob and Google Cloud Storage share.

A folder exists while there are keys below it, or as a zero-byte marker whose key ends in a slash. So a file `a` and a
folder `a/` may both exist. Then `a` is the file, and `a/` (`Path.as_folder`) is the folder, which is also what a
listing of `a` shows.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from secrets import token_hex

from portico.model.entries import Download, Entry, Page
from portico.model.errors import (
    AlreadyExists,
    Changed,
    InvalidPath,
    IsAFolder,
    NotFound,
    PorticoError,
    already_exists,
    cannot_replace_folder,
    changed,
    folder_not_empty,
    is_a_folder,
    not_a_folder,
    not_found,
    root_is_a_folder,
)
from portico.model.paths import Path
from portico.providers.contract.provider import Begin, DoesNotFitInTrash, TreeWalk
from portico.providers.contract.uploads import Ends, KeptFile, Look, ResumableUpload, WriteOptions, over_kept
from portico.providers.multipart.memory import MemoryBudget
from portico.providers.objects.part_store import TRIALS_PREFIX, UPLOADS_PREFIX, UploadState
from portico.providers.objects.pending_names import PendingNames, existing_depth
from portico.providers.objects.resumable import ResumableObjectUpload
from portico.providers.objects.service import (
    FOLDER_MARKER,
    ObjectService,
    Version,
    entries_of,
    folder_entry,
    folder_key,
    key_of,
    name_of,
)
from portico.providers.objects.trees import (
    ATTEMPTS,
    copy_object,
    copy_tree,
    move_tree,
    remove_copied,
    remove_empty_folders,
    remove_tree,
)
from portico.providers.objects.walk import KeyWalk
from portico.runtime.progress_counter import count
from portico.runtime.tasks import SingleFlight, abandon, nothing

_CHECKED_SECONDS = 10.0
"""How long a folder is listed without checking again for a file of the same name, which only other programs make."""
_MAX_CHECKED = 4096
_EXPIRED = timedelta(days=60)
"""A hidden object of a resumable upload that is older than this is removed even if the upload's state was lost."""


_TRIAL = timedelta(hours=1)
"""As that, of an object by which a service is tried."""


class ObjectStore(ObjectService):
    def __init__(self, memory: MemoryBudget | None = None) -> None:
        self.memory = memory or MemoryBudget()
        self._names = PendingNames()
        self._checks: SingleFlight[Path, float] = SingleFlight()
        self._checked: dict[str, float] = {}
        """Prefixes of folders without a file of the same name, and until when that is assumed."""

    # Looking

    async def list_page(self, folder: Path, size: int, token: str | None, *, file_first: bool = False) -> Page:
        self._check_key(folder)
        prefix = folder_key(folder)
        if not self.fits(prefix):
            await self._check_folder(folder)
        if file_first and not folder.is_root and not self._is_checked(prefix):
            found, listing = await asyncio.gather(self.find(key_of(folder)), self.list_content(prefix, size, token))
            if found and not found.is_folder:
                raise not_a_folder(folder.name)
            self._note_checked(prefix)
        else:
            listing = await self.list_content(prefix, size, token)
        entries, marked = entries_of(prefix, listing)
        if not (entries or marked or listing.token or folder.is_root) and (
            token is None or not await self._is_folder(folder)
        ):
            await self._check_folder(folder)
        return Page(entries, listing.token)

    async def read_or_list(self, path: Path, size: int) -> Download | Page:
        prefix = folder_key(path)
        if path.is_root or path.as_folder or self._is_checked(prefix) or not self.fits(prefix):
            return await super().read_or_list(path, size)
        listing = asyncio.create_task(self.list_content(prefix, size, None))
        try:
            download = await self.open(key_of(path), 0, None, None)
        except (NotFound, IsAFolder) as error:
            page = await listing
            entries, marked = entries_of(prefix, page)
            if not (entries or marked or page.token) and isinstance(error, NotFound):
                raise
            self._note_checked(prefix)
            return Page(entries, page.token)
        finally:
            abandon(listing)
        download.entry.name = path.name
        return download

    def _is_checked(self, prefix: str) -> bool:
        return time.monotonic() < self._checked.get(prefix, 0.0)

    def _note_checked(self, prefix: str) -> None:
        if len(self._checked) >= _MAX_CHECKED:
            self._checked.clear()
        self._checked[prefix] = time.monotonic() + _CHECKED_SECONDS

    def walk(self, folder: Path, token: str | None = None) -> TreeWalk:
        return KeyWalk(self, folder, token, self._check_folder)

    async def _check_folder(self, folder: Path) -> None:
        """`NotFound` or `NotAFolder` for an empty prefix, unless a marker makes it a folder."""
        entry = await self.find(key_of(folder))
        if entry is None:
            raise not_found(folder.name)
        if not entry.is_folder:
            raise not_a_folder(folder.name)

    async def stat(self, path: Path) -> Entry:
        if path.is_root:
            return folder_entry(path)
        self._check_key(path)
        if path.as_folder and await self._is_folder(path):
            return folder_entry(path)
        if entry := await self.find(key_of(path)):
            entry.name = path.name
            return entry
        if not path.as_folder and await self._is_folder(path):
            return folder_entry(path)
        raise not_found(path.name)

    async def find_file(self, path: Path) -> Entry | None:
        self._check_key(path)
        entry = await self.find(key_of(path))
        if entry is None or entry.is_folder:
            return None
        entry.name = path.name
        return entry

    async def _found(self, path: Path) -> Entry | None:
        """The object at the path's own key; None for a file if the folder of the same name is meant."""
        entry = await self.find(key_of(path))
        if entry and not entry.is_folder and path.as_folder and await self._is_folder(path):
            return None
        return entry

    async def _is_folder(self, path: Path) -> bool:
        return await self.holds_keys(folder_key(path))

    async def read(self, path: Path, start: int = 0, stop: int | None = None, *, etag: str | None = None) -> Download:
        if path.is_root:
            raise root_is_a_folder()
        self._check_key(path)
        try:
            download = await self.open(key_of(path), start, stop, etag)
        except NotFound:
            if await self._is_folder(path):
                raise is_a_folder(path.name) from None
            raise
        download.entry.name = path.name
        return download

    # Making

    async def write(
        self, path: Path, chunks: AsyncIterator[bytes], content_type: str, options: WriteOptions = WriteOptions()
    ) -> Entry:
        self._check_key(path)
        with self._names.pending(path) as name:
            look = await self._look(path, options)
            if options.kept and look:
                options.kept.saw(look)
            entry = await self.store(key_of(path), name.taking(chunks), content_type, options, look)
        entry.name = path.name
        entry.replaced = entry.replaced or bool(options.kept.etag if options.kept else look and look.entry)
        return entry

    async def _look(self, path: Path, options: WriteOptions) -> Look | None:
        """Check the target, and look at the file that is there if the commit can rely on it, or has to tell of it."""
        lasts, now = await self.look_lasts(), time.monotonic()
        # What refuses to replace anything needs no look.
        helps = lasts or not options.kept if options.replace else 0 < lasts < math.inf
        checked_at = options.ancestors_checked_at
        checked = checked_at is not None and self._names.has_no_file_since(checked_at, path.parent)
        look: Awaitable[Entry | None]
        if options.replace and not options.kept and options.if_match is None:
            look = self._replaced(path)
        else:
            look = self.find_file(path) if helps or options.if_match is not None else nothing()
        there, is_folder, _ = await asyncio.gather(
            look, self._is_folder(path), nothing() if checked else self._check_together(path.parent)
        )
        if is_folder:
            raise cannot_replace_folder(path.name)
        # Before the content is sent; the service compares again at the end.
        if options.if_match is not None and (there is None or there.etag != options.if_match):
            raise changed(path.name)
        return Look(there, now + lasts) if helps else None

    async def _replaced(self, path: Path) -> Entry | None:
        """The file that an upload will replace, unless it is new. Who may not look may write all the same."""
        try:
            return await self.find_file(path)
        except PorticoError:
            return Entry(path.name, False)

    async def check_target(self, path: Path) -> None:
        """Raise what prevents a file from being written at the path, except a file that is there."""
        self._check_key(path)
        await asyncio.gather(self.check_ancestors(path.parent), self._check_no_folder(path))

    async def begin_upload(
        self, path: Path, content_type: str, options: WriteOptions = WriteOptions(), *, renamed: bool = False
    ) -> ResumableUpload:
        self._check_key(path)
        checks = [self.check_ancestors(path.parent)]
        if not renamed:
            checks.append(self._check_no_folder(path))
            if not options.replace:
                checks.append(self._check_free(path))
        await asyncio.gather(*checks)
        state = UploadState(
            id=token_hex(16),
            key=key_of(path),
            content_type=content_type,
            replace=options.replace,
            renamed=renamed,
            size=options.at_most,
            modified=options.modified,
        )
        return ResumableObjectUpload(self, state, self._target)

    async def resume_upload(
        self, state: bytes, *, known_offset: int | None = None, trusted: bool = True
    ) -> ResumableUpload:
        return ResumableObjectUpload(self, UploadState.decode(state), self._target)

    @asynccontextmanager
    async def _target(self, path: Path) -> AsyncIterator[None]:
        """Around what stores a file of which all bytes have arrived."""
        with self._names.pending(path) as name:
            await self.check_target(path)
            name.take()
            yield

    async def make_folder(self, path: Path, *, begin: Begin | None = None) -> None:
        if path.is_root:
            if begin:
                await begin(folder_entry(path))
            return
        self._check_key(path, as_folder=True)
        with self._names.pending(path, is_folder=True) as name:
            there = await self._check_folder_target(path)
            if begin:
                await begin(folder_entry(path) if there else None)
            name.take()
            if there:
                await self.mark(folder_key(path))  # it may have none of its own
            else:
                await self.put(folder_key(path), [], FOLDER_MARKER)

    async def _check_folder_target(self, path: Path) -> bool:
        """As `check_ancestors`, for a folder that is usually new, in one that exists; whether it is there."""
        there, entry, _ = await asyncio.gather(
            self._is_folder(path), self.find(key_of(path)), self.check_ancestors(path.parent)
        )
        if entry and not entry.is_folder and not there:
            raise not_a_folder(path.name)
        return there

    async def has_mark(self, path: Path, mark: str, size: int) -> bool:
        key = key_of(path)
        state = UploadState(mark, key, "", replace=True, renamed=False, size=size, modified=None)
        return await self.part_store(state).own(key, size) is not None

    async def check_ancestors(self, folder: Path) -> None:
        # A folder that holds something is only below folders that hold something. Of those below the deepest one,
        # only the next can be a file.
        depth = await existing_depth(folder, self._is_folder)
        if depth == len(folder.segments):
            return
        first = Path(folder.segments[: depth + 1])
        entry = await self.find(key_of(first))
        if entry and not entry.is_folder:
            raise not_a_folder(first.name)

    async def _check_together(self, folder: Path) -> None:
        """As `check_ancestors`, once for all who are about to store files in one folder."""

        async def check() -> float:
            began = time.monotonic()
            await self.check_ancestors(folder)
            return began

        if not self._names.has_no_file_since(await self._checks.run(folder, check), folder):
            await self.check_ancestors(folder)

    async def _check_no_folder(self, path: Path) -> None:
        if await self._is_folder(path):
            raise cannot_replace_folder(path.name)

    async def _check_free(self, path: Path) -> None:
        if await self.find(key_of(path)):
            raise already_exists(path.name)

    # Removing

    async def delete(self, path: Path, *, recursive: bool = False) -> None:
        self._check_key(path)
        entry = await self._found(path)
        if entry and not entry.is_folder:
            await self.remove([key_of(path)])
            return
        prefix = folder_key(path)
        if not self.fits(prefix):
            raise not_found(path.name)
        listing = await self.peek(prefix, 2)
        if not (entry or listing.holds_anything(prefix)):
            raise not_found(path.name)
        inside = {*(found.name for found in listing.objects), *listing.prefixes} - {prefix}
        if not recursive and (listing.token or any(key.startswith(prefix) for key in inside)):
            raise folder_not_empty(path.name)
        if recursive:
            await remove_tree(self, prefix)
        if entry or not recursive:
            await self.remove([prefix])

    async def sweep(self) -> int:
        """Remove what resumable uploads left whose record was lost, and what trials of the service left."""
        swept = 0
        now = datetime.now(UTC)

        def is_old(entry: Entry) -> bool:
            limit = _TRIAL if entry.name.startswith(TRIALS_PREFIX) else _EXPIRED
            return entry.modified is not None and entry.modified < now - limit

        async for listing in self.pages(UPLOADS_PREFIX, flat=True):
            old = [entry for entry in listing.objects if is_old(entry)]
            await self.remove_versions([Version(entry.name, entry.etag) for entry in old])
            swept += len(old)
        return swept

    # Copying and moving

    @asynccontextmanager
    async def transferring(self, source: Path, target: Path, *, replace: bool, keeps: bool) -> AsyncIterator[Ends]:
        self._check_key(source)
        self._check_key(target)
        if not source.is_root:
            lasts, now = await self.look_lasts(), time.monotonic()
            helps = lasts and (keeps or self.looks_to_replace if replace else lasts < math.inf)
            with self._names.pending(target) as name:
                marked, there, checked = await asyncio.gather(
                    self._found(source),
                    self.find_file(target) if helps else nothing(),
                    self.check_target(target),
                    return_exceptions=True,
                )
                if isinstance(marked, BaseException):
                    raise marked
                if marked and not marked.is_folder:
                    if isinstance(checked, BaseException):
                        raise checked
                    if isinstance(there, BaseException):
                        raise there
                    if there and not replace:
                        raise already_exists(target.name)
                    yield Ends(marked, Look(there, now + lasts) if helps else None, name.take)
                    return
        yield Ends(folder_entry(source), None)

    async def copy(
        self,
        source: Path,
        target: Path,
        *,
        replace: bool = True,
        kept: KeptFile | None = None,
        ends: Ends | None = None,
    ) -> None:
        await self._transfer(source, target, replace, kept, ends)

    async def move(
        self,
        source: Path,
        target: Path,
        *,
        replace: bool = True,
        kept: KeptFile | None = None,
        ends: Ends | None = None,
    ) -> None:
        copied, is_folder = await self._transfer(source, target, replace, kept, ends)
        newer = await remove_copied(self, copied)
        if is_folder:
            await remove_empty_folders(self, folder_key(source))
        if newer:
            name = name_of(newer[0].key)
            some = f"'{name}' was" if len(newer) == 1 else f"{len(newer)} files, among them '{name}', were"
            error = Changed(f"{some} replaced during the move, so the newest version remains at the source.")
            error.partial = True  # the move can be repeated
            raise error

    # The trash

    async def move_to_trash(self, path: Path, place: Path, seen: Entry | None = None) -> None:
        self._check_key(path)
        entry = seen if seen and not seen.is_folder else await self._found(path)
        if entry and not entry.is_folder:
            await self._move_file_to_trash(Version(key_of(path), entry.etag), place)
            count(size=entry.size)
            return
        origin, goal = folder_key(path), folder_key(place)
        if not self.fits(origin) or not (entry or await self._is_folder(path)):
            raise not_found(path.name)
        if not await move_tree(self, origin, goal):
            await self.mark(goal)  # an empty folder is kept, too
        if entry:
            await self.remove([origin])

    async def _move_file_to_trash(self, seen: Version, place: Path) -> None:
        if not self.fits(key_of(place)):
            raise DoesNotFitInTrash
        for _ in range(ATTEMPTS):
            newer = await self.remove_versions([await self._copy_to_place(seen, place)])
            if not newer:
                return
            seen = newer[0]
        raise changed(name_of(seen.key))

    async def copy_to_trash(self, path: Path, place: Path, seen: Entry | None = None) -> None:
        entry = seen or await self.find(key_of(path))
        if entry is None:
            raise not_found(path.name)
        if entry.is_folder:
            raise is_a_folder(path.name)
        if not self.fits(key_of(place)):
            raise DoesNotFitInTrash
        await self._copy_to_place(Version(key_of(path), entry.etag), place)

    async def _copy_to_place(self, seen: Version, place: Path) -> Version:
        """Over what an earlier attempt has copied there, if there was one."""
        if self.looks_to_replace:
            with suppress(AlreadyExists):
                return await copy_object(self, seen, key_of(place), replace=False)
        return await copy_object(self, seen, key_of(place), replace=True)

    async def purge(self, place: Path) -> None:
        await self.remove([key_of(place)])
        if await self._is_folder(place):
            await remove_tree(self, folder_key(place))

    async def _transfer(
        self, source: Path, target: Path, replace: bool, kept: KeptFile | None, ends: Ends | None
    ) -> tuple[list[Version], bool]:
        """Copy a file or a tree. Returns what was copied, and whether it was a tree."""
        if ends is None:
            async with self.transferring(source, target, replace=replace, keeps=False) as ends:
                return await self._transfer(source, target, replace, kept, ends)
        if ends.source.is_folder:
            return await self._copy_folder(source, target, replace), True
        return [await self._copy_file(source, target, replace, kept, ends)], False

    async def _copy_file(self, source: Path, target: Path, replace: bool, kept: KeptFile | None, ends: Ends) -> Version:
        seen = Version(key_of(source), ends.source.etag)
        ends.take()

        async def over(replace: bool, if_match: str | None) -> Version:
            looked = bool(kept or (ends.look and ends.look.holds))
            return await copy_object(self, seen, key_of(target), replace=replace, if_match=if_match, looked=looked)

        is_new = ends.look is not None and ends.look.entry is None and ends.look.holds
        tries_new = replace and kept is None and is_new and self.looks_to_replace  # and need not look then
        try:
            copy = await over_kept(kept, target.name, replace and not tries_new, None, over, prepared=True)
        except AlreadyExists:
            if not tries_new:
                raise
            copy = await over(True, None)
        count(size=ends.source.size)
        return copy

    async def _copy_folder(self, source: Path, target: Path, replace: bool) -> list[Version]:
        marked = None if source.is_root else await self._found(source)
        if not (marked or await self._is_folder(source)):
            raise not_found(source.name)
        self._check_key(target, as_folder=True)
        with self._names.pending(target, is_folder=True) as name:
            await self.check_ancestors(target.parent)
            existing = await self.find(key_of(target))
            merging = bool(existing) or await self._is_folder(target)
            if merging and not (replace and (not existing or existing.is_folder)):
                raise already_exists(target.name)
            name.take()
            origin, goal = folder_key(source), folder_key(target)
            copied = await copy_tree(self, origin, goal, replace=replace, merging=merging)
            if marked or not copied:
                await self.mark(goal)
                copied.append(Version(origin, None))
        return copied

    def _check_key(self, path: Path, *, as_folder: bool = False) -> None:
        if not self.fits(folder_key(path) if as_folder else key_of(path)):
            raise InvalidPath(self.key_limit)

    @property
    def key_limit(self) -> str:
        """A sentence that says how long a path may be."""
        return (
            f"Paths in this storage can have at most {self.max_key_bytes} bytes, and folder paths one "
            "fewer. Choose a shorter path."
        )
