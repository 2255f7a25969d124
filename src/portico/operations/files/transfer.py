"""`Transfer`: a file or folder on its way from one place of the tree to another. Within a service, the service copies;
between two, the content passes through the gateway."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from hashlib import sha256

from portico.drive.drive import Drive, OnConflict, OnName, WriteOptions
from portico.drive.errors import with_advice
from portico.model.entries import Entry
from portico.model.errors import already_exists, changed, counting, service_failed
from portico.model.paths import Path
from portico.model.rights import OVERWRITE, Right
from portico.model.versions import version_of
from portico.operations.actors.actor import Actor, Standing
from portico.operations.actors.attempt import Attempt
from portico.operations.files.digests import Hashing, sha256_of
from portico.operations.files.replay import copied_to, keeps_existing, moved_to
from portico.runtime.progress_counter import count
from portico.runtime.tasks import for_each
from portico.store.recordings import Recording

_PAGE = 1000
_FILES_AT_ONCE = 4


class Transfer:
    def __init__(
        self, drive: Drive, source: Path, to: Drive, target: Path, on_conflict: OnConflict | None, *, removes: bool
    ) -> None:
        """`removes`: move instead of copy."""
        self._drive = drive
        self.source = source
        self.to = to
        self.target = target
        self._on_conflict = on_conflict
        self._removes = removes
        self._keeps = keeps_existing(to, on_conflict)

    def standing(self, actor: Actor) -> Standing:
        replacing = () if self._keeps else (Right.REPLACE,)
        if self._removes and self.to is self._drive:
            standing = Standing(actor, self.source, Right.UPLOAD, *OVERWRITE)
        else:
            standing = Standing(actor, self.source, Right.DOWNLOAD, *((Right.DELETE,) if self._removes else ()))
        return standing.also(self.target, Right.UPLOAD, *replacing)

    async def run(self, attempt: Attempt | None, change: Recording) -> Path:
        """The new path. Under an idempotency key, the work of an earlier attempt is not repeated."""
        resumes = False
        if attempt and attempt.is_repeated:
            done = moved_to if self._removes else copied_to
            if place := await done(self._drive, attempt, self.source, self.to, self.target, keeps=self._keeps):
                return place
            chosen = attempt.place_of(self.target) if self._keeps else self.target
            if chosen and not self._drive.shares_service(self.to):
                resumes, self.target = True, chosen
        if attempt and not resumes:
            if self._on_conflict is OnConflict.RENAME:
                return await self._run(change, lambda place: attempt.choose(self.target, place))
            if self._keeps and not await self.to.find(self.target):
                await attempt.choose(self.target, self.target)
        return await self._run(change, resumes=resumes)

    async def _run(self, change: Recording, on_name: OnName | None = None, *, resumes: bool = False) -> Path:
        drive, to = self._drive, self.to
        if drive.shares_service(to):
            transfer = drive.move if self._removes else drive.copy
            return await transfer(self.source, self.target, self._on_conflict, on_name, to=to, change=change)
        (drive.require_to_move if self._removes else drive.require_to_copy)(to)
        on_conflict = OnConflict.FAIL if resumes and self._on_conflict is OnConflict.RENAME else self._on_conflict
        async with to.placed(drive, self.source, self.target, on_conflict, on_name) as (target, replace):
            change.concern(drive.place(self.source), to.place(target))
            missing = await to.missing_folders(target)
            await change.begin()
            with with_advice(to.resume_advice(target, replace), self.source):
                stream = _Stream(drive, self.source, to, target, change, replace=replace, resumes=resumes)
                await stream.copy()
                if self._removes:
                    await stream.remove_source()
                await to.note_arrived(target, change, missing)
        return target


class _Stream:
    """A copy from one service to another. Each file is read back, so that a move can rely on it."""

    def __init__(
        self, drive: Drive, source: Path, to: Drive, target: Path, change: Recording, *, replace: bool, resumes: bool
    ) -> None:
        """`resumes`: an earlier attempt may have stored some of the files."""
        self._drive = drive
        self._source = source
        self._to = to
        self._target = target
        self._change = change
        self._replace = replace
        self._merges = False
        """Whether there was a folder at the target."""
        self._resumes = resumes
        self._files = 0
        self._seen = b""
        """A digest of what was found at the source."""
        self._stored = 0
        """The sum of the digests of what was stored, in any order."""

    async def copy(self) -> None:
        entry = await self._drive.stat_for_download(self._source)
        existing = await self._to.find(self._target)
        if existing and (existing.is_folder != entry.is_folder or not (self._replace or self._resumes)):
            raise already_exists(existing.name)
        with counting(lambda: f"{self._files} files were copied"):
            if entry.is_folder:
                if existing:
                    self._merges, self._change.before = True, version_of(existing)
                await self._to.make_folder(self._target, change=self._change)
                self._seen = await self._walked(self._copy_entry)
            else:
                await self._copy_file(self._source, self._target)
                self._seen = _mark(self._source, entry)

    async def remove_source(self) -> None:
        """`Changed`, and the source stays, if either end has changed since it was copied: some services treat
        two names as one."""
        entry = await self._drive.stat_for_download(self._source)
        stored, self._stored = self._stored, 0
        if entry.is_folder:
            now = await self._walked(self._look_at_copy)
        else:
            now = _mark(self._source, entry)
            await self._look_at_copy(self._source, entry)
        if now != self._seen:
            raise changed(self._source.name)
        if self._stored != stored:
            raise changed(self._target.name)
        if entry.is_folder:
            await self._drive.delete_copied(self._source, change=self._change)
        else:
            await self._drive.delete(self._source, change=self._change)

    async def _look_at_copy(self, path: Path, entry: Entry) -> None:
        target = self._target_of(path)
        if not entry.is_folder and (found := await self._to.find(target)):
            self._note(target, found)

    def _note(self, target: Path, stored: Entry) -> None:
        version = repr((str(target), stored.is_folder, stored.etag)).encode("utf-8", "surrogatepass")
        self._stored += int.from_bytes(sha256(version).digest(), "big")

    def _target_of(self, path: Path) -> Path:
        return Path(self._target.segments + path.segments[len(self._source.segments) :])

    async def _walked(self, work: Callable[[Path, Entry], Awaitable[None]]) -> bytes:
        """A digest of all that is in the source folder."""
        seen = sha256()
        walk = self._drive.walk(self._source, right=Right.DOWNLOAD)
        while not walk.ended:
            page = await walk.page(_PAGE)
            for path, entry in page:
                seen.update(_mark(path, entry))
            await for_each(lambda found: work(*found), page, _FILES_AT_ONCE)
        return seen.digest()

    async def _copy_entry(self, path: Path, entry: Entry) -> None:
        target = self._target_of(path)
        if entry.is_folder:
            await self._to.make_folder(target, change=self._change)
        else:
            await self._copy_file(path, target)

    async def _copy_file(self, path: Path, target: Path) -> None:
        download = await self._drive.read(path)
        if self._resumes and await self._is_copied(download.entry, path, target):
            await download.chunks.aclose()
            return
        hashing = Hashing(sha256=True)
        options = WriteOptions(at_most=download.stop, modified=download.entry.modified)
        on_conflict = OnConflict.REPLACE if self._replace else OnConflict.FAIL
        async with aclosing(download.chunks) as chunks, self._recorded(path, target) as change:
            content = _begun_at_end(hashing.watch(chunks), change)
            stored = await self._to.write(
                target, content, download.entry.content_type, on_conflict, options, change=change
            )
        await hashing.check()
        if await sha256_of(await self._to.read_to_compare(target, stored)) != hashing.sha256:
            raise service_failed(f"the copy of {path} at {target} differs from what was sent")
        self._note(target, stored)
        self._files += 1
        count(1, stored.size)

    @asynccontextmanager
    async def _recorded(self, path: Path, target: Path) -> AsyncIterator[Recording]:
        """A merge may replace many files: each is a change of its own, so that the number of files does not matter."""
        if not self._merges:
            yield self._change
            return
        places = self._drive.place(path), self._to.place(target)
        async with self._change.part(*places, str(path), str(target)) as part:
            yield part

    async def _is_copied(self, entry: Entry, path: Path, target: Path) -> bool:
        """Whether the target holds this content already; if so, it need not be written again."""
        found = await self._to.find(target)
        if found is None or found.is_folder or found.size != entry.size:
            return False
        original = await sha256_of(await self._drive.read(path, etag=entry.etag))
        if original != await sha256_of(await self._to.read_to_compare(target, found)):
            return False
        self._note(target, found)
        return True


async def _begun_at_end(chunks: AsyncIterator[bytes], change: Recording) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        yield chunk
        del chunk
    await change.begin()  # the provider commits next


def _mark(path: Path, entry: Entry) -> bytes:
    """Tells a version of a file from others, as far as a listing knows it."""
    version = (str(path), entry.is_folder, entry.size, entry.etag, entry.written or entry.last_modified)
    return repr(version).encode("utf-8", "surrogatepass")
