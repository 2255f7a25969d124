"""`DriveTrash`: what was deleted or replaced in a Web User's tree, kept in a hidden folder of the connection.

The database has a row for each, written with the journal's row of the change that has put it there. Who restores or removes
it holds a lease on the row meanwhile. Paths here are those of the provider.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Self

import structlog

from portico.model.entries import Entry
from portico.model.errors import (
    InvalidPath,
    IsAFolder,
    NotAFolder,
    NotFound,
    NotPossible,
    PorticoError,
    cannot_replace_folder,
    changed,
)
from portico.model.paths import TOP, TRASH, Path, Place
from portico.model.versions import UNSEEN, Version, version_of
from portico.providers.contract.provider import DoesNotFitInTrash, Provider
from portico.providers.contract.uploads import Ends, KeptFile, Look
from portico.runtime.tasks import for_each, run_to_end
from portico.store.leases import Lease, Leases
from portico.store.recordings import BegunChange, Recording
from portico.store.trash import DELETED, HELD, KEPT, REMOVING, REPLACED, RESTORING, Trashed, TrashRecords, next_id

_PAGE = 1000
_MOST_LEFT = 8
"""What one change may have put into the trash, as far as it is looked for: one item, unless a commit was tried again."""
_MILLISECOND = timedelta(milliseconds=1)
_INTERRUPTIONS = (Exception, asyncio.CancelledError)
"""A client that hangs up and a job that is cancelled interrupt a change as errors do."""

log = structlog.get_logger()


class DriveTrash:
    """Made for one operation, like its drive."""

    def __init__(
        self,
        provider: Provider,
        records: TrashRecords,
        leases: Leases,
        connection: str,
        *,
        prefix: Path,
        root: Path,
        point: Path = TOP,
        user: str | None = None,
        keep: timedelta,
        hold: timedelta = timedelta(0),
    ) -> None:
        """`prefix`: the top of the connection. `root`, `point`: those of the drive. `keep`: 0 to keep nothing. `hold`: how long
        what is removed for good is held."""
        self._provider = provider
        self._records = records
        self._leases = leases
        self._connection = connection
        self._prefix = prefix
        self._root = root
        self._point = point
        self._user = user
        self._keep = keep
        self._hold = hold

    @property
    def is_on(self) -> bool:
        return bool(self._keep)

    @property
    def holds(self) -> bool:
        """Whether what is removed for good is held for some time."""
        return self.is_on and bool(self._hold)

    def place_of(self, trash_id: str) -> Path:
        return Path((*self._prefix.segments, TRASH, trash_id))

    # Into the trash

    async def delete(self, path: Path, change: Recording, *, recursive: bool, held: bool = False) -> bool:
        """Move a file, or a folder if `recursive`; False if it has to be deleted for good. `held`: it is not shown."""
        entry = await self._provider.stat(path)
        version = version_of(entry)
        ends_move = change.has_begun
        if not ends_move:
            change.before = version
        if entry.is_folder and not recursive:
            return False  # it is deleted only if it is empty
        await change.begin()
        record = self.new_record(path, version, DELETED, change)
        if held:
            record.status, record.expires_at = HELD, self._held_until()
        try:
            await self._provider.move_to_trash(path, self.place_of(record.id), None if ends_move else entry)
        except DoesNotFitInTrash:
            if not ends_move:
                change.before = UNSEEN  # a folder of which nothing is kept was empty otherwise
            return False
        except _INTERRUPTIONS:
            await run_to_end(self.note_arrived(record, change, version))
            raise
        change.kept.append(record)
        return True

    def replacement(self, path: Path, change: Recording) -> "Replacement":
        return Replacement(self, self._provider, path, change)

    @asynccontextmanager
    async def replacing(
        self,
        path: Path,
        change: Recording,
        source: Path | None = None,
        *,
        restoring: bool = False,
        ends: Ends | None = None,
    ) -> AsyncIterator[KeptFile | None]:
        """Around what may replace the file at `path`, or, with a folder at `source`, files in the folder at `path`.

        `ends`: as of `Provider.copy`. `restoring`: the source is in the trash. A copy or move is given how the file that it replaces is kept.
        """
        is_file = ends is not None and not ends.source.is_folder
        entry = None if source is None or is_file else await self.find(path)
        if source is None or entry is None or not entry.is_folder:
            transferred = source is not None and not restoring
            async with self.replacement(path, change) as replacement:
                kept_file = replacement.at_commit(may_copy=True) if transferred else None
                await replacement.prepare(ends.look if ends else None)
                yield kept_file
            return
        found = await self.find(source)
        if found and not found.is_folder:  # before it begins: nothing is done
            raise cannot_replace_folder(path.name)
        change.before = version_of(entry)
        await change.begin()
        record = self.new_record(path, change.before, REPLACED, change)
        try:
            kept = await self._keep_tree(path, self.place_of(record.id), source, restoring)
            yield None
        except _INTERRUPTIONS:
            await run_to_end(self.note_arrived(record, change))
            raise
        if kept:
            change.kept.append(record)

    async def _keep_tree(self, path: Path, place: Path, source: Path, restoring: bool) -> bool:
        """Keep the files that a merge of `source` into `path` would replace; whether there were any."""
        kept = False
        too_long = ""

        async def keep(file: Path) -> None:
            nonlocal kept, too_long
            try:
                await self._provider.copy_to_trash(file.under(path), file.under(place))
                kept = True
            except (NotFound, IsAFolder, NotAFolder) as error:
                # Usually nothing is replaced, or the merge fails.
                if await self._provider.find_file(file.under(path)):
                    raise changed(file.name) from error
            except DoesNotFitInTrash:
                too_long = file.name
                raise

        try:
            provider = self._provider
            found = provider.files_in_trash(source) if restoring else provider.walk(source).files()
            async for files in found:
                await for_each(keep, files)
        except (NotFound, NotAFolder):
            pass
        except DoesNotFitInTrash:
            await run_to_end(self._provider.purge(place))
            raise _too_long(too_long) from None
        return kept

    def new_record(self, path: Path, version: Version, reason: str, change: Recording) -> Trashed:
        return self._record(change.new_trash_id(), path, version, reason, self._user, self._records.now())

    def _record(self, trash_id: str, path: Path, version: Version, reason: str, user: str | None, at: int) -> Trashed:
        return Trashed(
            id=trash_id,
            connection=self._connection,
            path=str(path),
            is_folder=version.is_folder,
            size=None if version.is_folder else version.size,
            reason=reason,
            status=KEPT,
            user=user,
            deleted_at=at,
            expires_at=at + self._keep // _MILLISECOND,
        )

    async def note_arrived(self, record: Trashed, change: Recording, version: Version | None = None) -> None:
        """After an interruption: what has arrived is shown. If the storage does not say, a later look finds it.

        `version`: what the change has replaced or removed, perhaps without a note.
        """
        try:
            if await self.find(self.place_of(record.id)):
                change.kept.append(record)
            elif version and version.version:
                change.is_in_doubt = True
        except PorticoError as error:
            change.is_in_doubt = True
            _log_unsettled(record, error)

    async def left_by(self, change: BegunChange, path: Path, reason: str) -> list[tuple[Trashed, Version]]:
        """What a change whose process has vanished had put into the trash."""
        found, trash_id, user = [], change.id, change.line.user or None
        for _ in range(_MOST_LEFT):
            if entry := await self.find(self.place_of(trash_id)):
                version = version_of(entry)
                found.append((self._record(trash_id, path, version, reason, user, change.at), version))
            trash_id = next_id(trash_id)
        return found

    async def note_left(self, change: BegunChange, path: Path, reason: str) -> list[tuple[Trashed, Version]]:
        """What such a change has replaced or removed before it could note the version, which the journal knows."""
        version, place = change.before, self.place_of(change.id)
        if not (version and version.version):
            return []
        if not await self._provider.note_version(path, version.version, place):
            return []
        return [(self._record(change.id, path, version, reason, change.line.user or None, change.at), version)]

    # In the trash

    async def page(
        self, size: int, cursor: str | None = None, origins: Collection[Place] = ()
    ) -> tuple[list[Trashed], str | None]:
        """The newest first. `origins`: of several drives, whose items are merged."""
        return await self._records.page(origins or [self.origin], size, cursor)

    async def get(self, trash_id: str, origins: Collection[Place] = ()) -> Trashed:
        record = await self._records.find(origins or [self.origin], trash_id)
        if record is None:
            raise item_gone()
        return record

    async def kept(self, trash_id: str) -> Trashed | None:
        """Also what is held."""
        return (await self._records.find_all([trash_id])).get(trash_id)

    async def find_all(self, ids: Collection[str]) -> dict[str, Trashed]:
        """Also what is held."""
        return await self._records.find_all(ids)

    @property
    def origin(self) -> Place:
        """The folder of the connection that this trash belongs to."""
        return Place(self._connection, self._root)

    def path_of(self, record: Trashed) -> Path:
        """Where it was, as the user sees it."""
        within = Path(Path.parse(record.path).segments[len(self._root.segments) :])
        return within.under(self._point)

    # Out of the trash

    @asynccontextmanager
    async def restoring(self, record: Trashed) -> AsyncIterator[Path]:
        """The place of the content, which the caller moves away. Nobody else restores or removes it meanwhile."""
        async with self._alone(record):
            if not await self._records.claim(record, RESTORING):
                raise item_gone()
            place = self.place_of(record.id)

            async def keep_rest() -> None:
                try:
                    if await self.find(place):
                        await self._records.release(record)
                    else:
                        await self._records.remove(record.id)
                except PorticoError as error:  # it can be restored or removed all the same
                    _log_unsettled(record, error)

            try:
                yield place
                await self._provider.purge(place)
            except _INTERRUPTIONS:
                await run_to_end(keep_rest())
                raise
            await run_to_end(self._records.remove(record.id))

    async def remove(self, record: Trashed) -> bool:
        """Remove it for good, or hold it for some time; whether it is held."""
        if not self.holds:
            await self.purge(record)
            return False
        async with self._alone(record):
            if not await self._records.claim(record, HELD, expires_at=self._held_until()):
                raise item_gone()
        return True

    async def show(self, record: Trashed) -> None:
        """What is held is in the trash again, as if it had been deleted now."""
        if record.status == HELD:
            async with self._alone(record):
                await self._records.claim(record, KEPT, expires_at=self._records.now() + self._keep // _MILLISECOND)

    def _held_until(self) -> int:
        return self._records.now() + self._hold // _MILLISECOND

    async def purge(self, record: Trashed) -> bool:
        """Remove it for good; False if it is gone already. If it is interrupted, the sweep goes on."""
        async with self._alone(record):
            if not await self._records.claim(record, REMOVING) and record.status != REMOVING:
                return False
            await self._provider.purge(self.place_of(record.id))
            await run_to_end(self._records.remove(record.id))
        return True

    @asynccontextmanager
    async def _alone(self, record: Trashed) -> AsyncIterator[None]:
        """`NotPossible` while somebody else, on any node, restores or removes this item."""
        lease = await self._acquire(record)
        try:
            yield
        finally:
            await run_to_end(lease.release())

    async def _acquire(self, record: Trashed) -> Lease:
        if lease := await self._leases.acquire(f"trash:{record.id}"):
            return lease
        found = await self._records.find([Place(self._connection, Path())], record.id)
        if found is None:
            raise item_gone()
        if found.status == RESTORING:
            raise NotPossible("This item is being restored. Wait until that is done.")
        raise NotPossible("Another request is restoring or removing this item. Wait until it is done.")

    async def purge_unknown(self, older_than: timedelta) -> int:
        """Remove the oldest content that has no row: the database may be an older one. Returns how much there was."""
        folder = Path((*self._prefix.segments, TRASH))
        try:
            page = await self._provider.list_page(folder, min(_PAGE, self._provider.max_page_size), None)
        except (NotFound, NotAFolder):
            return 0
        before = self._records.now() - older_than // _MILLISECOND
        unknown = await self._records.unknown({entry.name for entry in page.entries}, before)
        for name in unknown:
            await self._provider.purge(self.place_of(name))
        return len(unknown)

    async def find(self, path: Path) -> Entry | None:
        try:
            return await self._provider.stat(path)
        except (NotFound, NotAFolder):
            return None


class Replacement:
    """A file that may be replaced. It is entered around the change, in which `prepare` keeps what is there."""

    def __init__(self, trash: DriveTrash, provider: Provider, path: Path, change: Recording) -> None:
        self._trash = trash
        self._provider = provider
        self._path = path
        self._change = change
        self._record: Trashed | None = None
        self._seen: Entry | None = None
        self._kept: KeptFile | None = None
        self._journaled: str | None = None
        """The version that the journal knows to be replaced."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        kept = self._kept
        if kept and self._keeps_at_commit and kept.entry:
            self._found(kept.entry)
            if error is None and not kept.is_kept:
                return
        if self._record and error is None:
            self._change.kept.append(self._record)
        elif self._record and isinstance(error, _INTERRUPTIONS):
            await run_to_end(self._failed(self._record, error))

    def at_commit(self, *, may_copy: bool = False) -> KeptFile:
        """For a provider that keeps the file itself, when it commits the new one, or has it kept then."""
        self._kept = KeptFile(self.prepare, may_copy=may_copy, saw=self._saw)
        if self._provider.keeps_at_commit:
            self._kept.place = self._trash.place_of(self._change.id)
        return self._kept

    def _saw(self, look: Look) -> None:
        if not self._change.has_begun:
            self._change.before = version_of(look.entry) if look.entry else None
            self._journaled = look.entry.version if look.entry else None

    async def prepare(self, look: Look | None = None) -> None:
        if self._keeps_at_commit:
            await self._change.begin()
            return
        former, self._record = self._record, None
        if former:
            # Another change has replaced it since, and has kept it.
            await run_to_end(self._drop(former))
        entry = look.entry if look and look.holds else await self._provider.find_file(self._path)
        if self._kept is not None:
            self._kept.etag = entry.etag if entry else None
        self._change.before = version_of(entry) if entry else None
        await self._change.begin()
        if entry is None:
            return
        record = self._found(entry)
        place = self._trash.place_of(record.id)
        version = entry.version if self._kept and entry.version == self._journaled else None
        if self._kept and version and await self._provider.can_note(version, place):
            self._kept.beside = partial(self._provider.note_version, self._path, version, place)
            return
        try:
            await self._provider.copy_to_trash(self._path, place, entry)
        except (NotFound, DoesNotFitInTrash) as error:
            if isinstance(error, NotFound) and await self._provider.find_file(self._path):
                raise changed(self._path.name) from error
            self._record = None
            if isinstance(error, DoesNotFitInTrash) and self._kept and self._kept.may_copy:
                raise _too_long(self._path.name) from None

    def _found(self, entry: Entry) -> Trashed:
        self._seen = entry
        self._change.before = version_of(entry)
        self._record = self._trash.new_record(self._path, self._change.before, REPLACED, self._change)
        return self._record

    @property
    def _keeps_at_commit(self) -> bool:
        return self._kept is not None and self._provider.keeps_at_commit

    async def _drop(self, record: Trashed) -> None:
        try:
            await self._provider.purge(self._trash.place_of(record.id))
        except PorticoError as error:
            self._change.is_in_doubt = True
            _log_unsettled(record, error)
            raise

    async def _failed(self, record: Trashed, error: BaseException) -> None:
        # A service may still carry out what was cancelled.
        if not (isinstance(error, PorticoError) and await self._is_unchanged(record)):
            journaled = self._change.before if self._journaled else None
            await self._trash.note_arrived(record, self._change, journaled)

    async def _is_unchanged(self, record: Trashed) -> bool:
        """Nothing was replaced, as far as that can be seen: then the trash does not need it."""
        try:
            entry = await self._provider.find_file(self._path)
            if entry is None or not self._is_same(entry):
                return False
            await self._drop(record)
        except PorticoError:
            self._change.is_in_doubt = True
        return True

    def _is_same(self, entry: Entry) -> bool:
        assert self._seen
        return version_of(entry).is_same(version_of(self._seen))


def _too_long(name: str) -> InvalidPath:
    return InvalidPath(
        f"The path of '{name}' is too long for the trash, so nothing was replaced. "
        "First delete that file with permanent=true."
    )


def item_gone() -> NotFound:
    return NotFound("This item is no longer in the trash. It was restored or removed, or it expired.")


def _log_unsettled(record: Trashed, error: PorticoError) -> None:
    log.warning("trash-not-settled", trash=record.id, code=error.code, cause=error.cause)
