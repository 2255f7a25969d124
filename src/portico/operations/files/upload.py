"""`Upload`: the files that one request stores in one folder, and what became of each."""

from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from random import getrandbits

import msgspec

from portico.drive.drive import Drive, OnConflict, WriteOptions
from portico.model.entries import Entry, guess_content_type
from portico.model.errors import AlreadyExists, Changed, InvalidRequest, TooLarge, already_exists, cannot_replace_folder
from portico.model.paths import Path
from portico.model.rights import Right
from portico.operations.actors.actor import Standing, Watch
from portico.operations.actors.attempt import Attempt
from portico.operations.actors.auditing import Change
from portico.operations.actors.tree import Tree
from portico.operations.files.conditions import WriteCondition
from portico.operations.files.digests import ExpectedDigest, Hashing
from portico.operations.files.replay import AlreadyStored, EarlierFile, earlier_file, keeps_existing, replaced_file
from portico.operations.sharing.link_limits import LinkLimits
from portico.store.journal import Journal

_SETTLED = "condition"


class Stored(msgspec.Struct, frozen=True):
    entry: Entry
    is_new: bool
    """Whether it replaced no file."""


class Upload:
    def __init__(
        self,
        tree: Tree,
        limits: LinkLimits,
        journal: Journal,
        drive: Drive,
        folder: Path,
        on_conflict: OnConflict | None,
        *,
        max_file_size: int,
        sha256: bool = False,
    ) -> None:
        """`sha256`: compute that of each file."""
        self._tree = tree
        self._actor = tree.actor
        self._limits = limits
        self._journal = journal
        self._drive = drive
        self._folder = folder
        self._on_conflict = on_conflict
        self._max_file_size = limits.most_bytes(drive.size_limit(max_file_size))
        self._sha256 = sha256
        self._announced: int | None = None
        self._names: set[str] = set()
        self.stored: list[Entry] = []
        self.failed: list[str] = []
        self.digests: dict[str, bytes] = {}
        """The SHA-256 of stored files by name, as far as it was computed."""
        self.trash_ids: list[str] = []
        """Of the replaced files that are kept."""
        self._real_names: dict[str, str] = {}
        """Of files whose sender must not learn them."""

    @property
    def on_conflict(self) -> OnConflict | None:
        return self._on_conflict

    @on_conflict.setter
    def on_conflict(self, choice: OnConflict | None) -> None:
        if not self._limits.is_guest:  # a guest replaces nothing, and learns of no conflict
            self._on_conflict = choice

    def real_name(self, entry: Entry) -> str:
        """The name under which a file was stored."""
        return self._real_names.get(entry.name, entry.name)

    @property
    def is_repeatable(self) -> bool:
        """Whether another attempt may find what this one has stored; then the files are stored in order."""
        return self._actor.context.attempt is not None

    def announce(self, size: int) -> None:
        """`size` bytes follow at most; `TooLarge` if the storage takes no file of that size."""
        if size > self._drive.max_file_size:
            raise TooLarge(
                f"The file exceeds the storage's limit of {self._drive.max_file_size} bytes. Upload a smaller file."
            )
        self._announced = size

    async def check_folder(self) -> None:
        """Before a body is sent: `NotAFolder` if no file could be stored in the folder."""
        await self._drive.check_target(self._folder)

    async def find(self, name: str) -> Entry | None:
        """What an upload of `name` would meet; None if there is nothing."""
        if self._limits.is_upload_only:
            return None
        return await self._drive.find(self._folder.child(name))

    async def store(
        self,
        name: str,
        chunks: AsyncIterator[bytes],
        content_type: str | None = None,
        *,
        size: int | None = None,
        expected: Collection[ExpectedDigest] = (),
        if_match: str | None = None,
        modified: datetime | None = None,
    ) -> Entry:
        """Store one file once `chunks` has ended normally; if `chunks` raises, nothing is stored.

        With `size`, a file that is too large is refused before it is read. `expected` digests are verified
        when all of it has been read. `if_match`, `modified`: as in `WriteOptions`.
        """
        hashing = Hashing(expected, sha256=self._sha256) if expected or self._sha256 else None
        self.failed.append(name)
        async with Change(self._journal, self._actor.context, "upload", self._folder) as change:
            path = self._folder.child(name)
            change.line.path = str(path)
            if name in self._names:
                raise InvalidRequest(f"'{name}' appears twice in this upload; use each name once.")
            self._names.add(name)
            await self._limits.check_names(self._drive, path)
            self._limits.check_file(name, size)
            if size is not None and size > self._max_file_size:
                raise self._too_large(name)
            try:
                async with AsyncExitStack() as counted:
                    entry = await self._write(
                        path,
                        self._guarded(name, chunks, change, hashing, counted),
                        content_type or guess_content_type(name),
                        WriteOptions(
                            at_most=self._announced if size is None else size,
                            if_match=if_match,
                            modified=modified,
                            mark=f"{getrandbits(128):032x}",
                        ),
                        change,
                    )
                change.hashed(hashing.sha256 if hashing else None)
            finally:
                self.trash_ids += change.trash_ids
            if entry.name != name:
                change.line.path = str(self._folder.child(entry.name))
        await self._limits.note_upload(self._folder.child(entry.name), entry.size)
        if self._limits.is_upload_only and entry.name != name:
            self._real_names[name] = entry.name
            entry = msgspec.structs.replace(entry, name=name)
        self.failed.remove(name)
        self.stored.append(entry)
        if hashing and (sha256 := hashing.sha256):
            self.digests[entry.name] = sha256
        return entry

    async def put(
        self,
        name: str,
        chunks: AsyncIterator[bytes],
        content_type: str | None,
        condition: WriteCondition,
        *,
        size: int | None = None,
        expected: Collection[ExpectedDigest] = (),
        modified: datetime | None = None,
        confirm: bool = False,
    ) -> Stored:
        """Store one file if the condition holds. With `confirm`, what refuses it is raised before `chunks` is read."""
        attempt = self._actor.context.attempt
        if condition.needs_entry:
            await self._settle(condition, name, attempt)
            self.on_conflict = condition.on_conflict
        # Not that of the condition: a guest replaces nothing.
        replaces = self.on_conflict in (None, OnConflict.REPLACE)
        may_replace = replaces and self._drive.allows(Right.REPLACE)
        try:
            # A client that asks again may meet the file that it has sent.
            if confirm and not (attempt and attempt.is_repeated):
                await self.check_folder()
                await self._check_target(name, condition, may_replace=may_replace)
            entry = await self.store(
                name, chunks, content_type, size=size, expected=expected, if_match=condition.if_match, modified=modified
            )
        except AlreadyExists as error:
            if condition.only_new:
                raise Changed(
                    f"'{name}' already exists, and the condition doesn't allow replacing it. Choose another name."
                ) from error
            raise
        return Stored(entry, not entry.replaced if condition.makes_new is None else condition.makes_new)

    async def _check_target(self, name: str, condition: WriteCondition, *, may_replace: bool) -> None:
        """Look now: raise what the storage would raise at the end of the body."""
        found = await self.find(name)
        if found is None:
            if condition.if_match is not None:
                raise Changed(f"'{name}' no longer exists. List the folder and try again.")
        elif self.on_conflict is OnConflict.RENAME:
            return
        elif found.is_folder:
            raise cannot_replace_folder(found.name)
        elif not may_replace:
            raise already_exists(found.name)
        elif condition.if_match not in (None, found.etag):
            raise Changed("The file is not in the version that the condition names. Check it again.")

    async def _settle(self, condition: WriteCondition, name: str, attempt: Attempt | None) -> None:
        """Compare with what is there: once for all attempts under an idempotency key, before the first one changes it."""
        settled = attempt.noted(_SETTLED) if attempt else None
        if settled is not None:
            condition.settle_as(settled)
            return
        condition.settle(await self.find(name))
        if attempt:
            await attempt.note(_SETTLED, condition.if_match or "")

    async def _write(
        self, path: Path, chunks: AsyncIterator[bytes], content_type: str, options: WriteOptions, change: Change
    ) -> Entry:
        """Store the file, unless the request has an idempotency key and an earlier attempt has stored it."""
        attempt, drive = self._actor.context.attempt, self._drive
        if attempt is None or not keeps_existing(drive, self.on_conflict):
            if attempt and attempt.is_repeated:
                newer = await replaced_file(drive, attempt, path, options.if_match)
                if newer is not None:
                    return await _held_by(newer, chunks, path.name)
            return await drive.write(path, chunks, content_type, self.on_conflict, options, change=change)
        renames = self.on_conflict is OnConflict.RENAME
        place = attempt.place_of(path) if renames else path
        earlier = await earlier_file(drive, attempt, place) if attempt.is_repeated and place else None
        try:
            if earlier and not renames:
                if not await earlier.holds(chunks):
                    raise already_exists(path.name)
                return earlier.entry
            return await drive.write(
                path,
                earlier.unless_held(chunks) if earlier else chunks,
                content_type,
                self.on_conflict,
                options,
                change=change,
                # What the earlier attempt chose stays noted until it is known whether it holds the file.
                on_name=None if earlier else partial(attempt.choose, path),
            )
        except AlreadyStored as found:
            return found.entry
        finally:
            if earlier:
                await earlier.close()

    async def _guarded(
        self, name: str, chunks: AsyncIterator[bytes], change: Change, hashing: Hashing | None, counted: AsyncExitStack
    ) -> AsyncIterator[bytes]:
        """The chunks, followed by an error, and so by nothing stored, if the file must not be committed."""
        limit = self._max_file_size
        needed = [Right.UPLOAD] if keeps_existing(self._drive, self.on_conflict) else [Right.UPLOAD, Right.REPLACE]
        standing = Standing(self._actor, self._folder, *needed)
        watch: Watch | None = None
        size = change.line.bytes = 0
        async for chunk in chunks:
            if watch:
                watch.check()
            elif size:  # it does not come at once
                watch = self._tree.watch(standing)
            size += len(chunk)
            change.line.bytes = size
            if size > limit:
                raise self._too_large(name)
            if hashing is not None:
                await hashing.update(chunk)
            yield chunk
            del chunk  # not needed while the client is waited for
        if hashing is not None:
            await hashing.check()
        await self._tree.check_commit(standing)
        await counted.enter_async_context(self._limits.counted(size))
        await change.begin()  # the provider commits next

    def _too_large(self, name: str) -> TooLarge:
        return TooLarge(f"'{name}' exceeds the limit of {self._max_file_size} bytes per file. Upload a smaller file.")


async def _held_by(newer: EarlierFile, chunks: AsyncIterator[bytes], name: str) -> Entry:
    """A file that was written since the first attempt: by it, or by somebody else, whose file is not replaced."""
    try:
        if await newer.holds(chunks):
            newer.entry.replaced = True  # for all that is known
            return newer.entry
    finally:
        await newer.close()
    raise Changed(
        f"'{name}' was changed after this request was first sent. To replace it anyway, use a new idempotency key."
    )
