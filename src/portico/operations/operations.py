"""`Operations`: what one actor can do. Every front end works through it, and only through it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import structlog

from portico.accounts.tickets import Tickets
from portico.drive.drive import Drive, OnConflict
from portico.model.entries import Chunks, Download, Entry, Page
from portico.model.errors import IsAFolder, NoThumbnail, PorticoError, root_is_a_folder
from portico.model.paths import Path
from portico.model.rights import Right
from portico.operations.actors.actor import Actor, Scope, Standing, WatchedChunks
from portico.operations.actors.auditing import Change
from portico.operations.actors.idempotency import Attempt
from portico.operations.files import replay
from portico.operations.files.archives import Archive
from portico.operations.files.receipts import Receipt
from portico.operations.files.search import Criteria, SearchPage, search
from portico.operations.files.upload import Upload
from portico.operations.jobs import OwnJobs, count_files
from portico.operations.resources import Resources
from portico.operations.sharing.link_limits import GuestRules, not_by_link, require_target
from portico.operations.sharing.links import Sharing
from portico.operations.thumbnails.thumbnails import SMALL, PlannedThumbnail, Thumbnail
from portico.operations.trash import Trash
from portico.operations.uploads.concatenation import Concatenation
from portico.operations.uploads.resumable import ResumableUploads
from portico.store.digests import FileDigest

__all__ = ["OnConflict", "Operations", "Ticket"]

log = structlog.get_logger()

_TRANSFER_RIGHTS = {
    "copy": frozenset({Right.DOWNLOAD, Right.UPLOAD}),
    "move": frozenset({Right.UPLOAD, Right.OVERWRITE}),
}
_STATS_AT_ONCE = 16
"""For the digests of a listing."""
_DIGESTS_AT_ONCE = 500
_DIGEST_COST = 5
"""A digest is looked up in the database, and the file may have to be looked at: how many entries of a listing that is."""


class Ticket(msgspec.Struct, frozen=True):
    text: str
    lifetime: int
    """In seconds."""


class Operations:
    """Made for one request. Each operation names itself in the request's context, for metrics."""

    def __init__(self, resources: Resources, actor: Actor) -> None:
        self._resources = resources
        self._actor = actor
        self._context = actor.context
        self._context.connection = actor.user.connection
        self._rules = GuestRules(resources, actor) if actor.guest else None
        self._opened: Drive | None = None

    def allows(self, right: Right) -> bool:
        return right in self._actor.user.rights

    @property
    def lists(self) -> bool:
        """Whether the actor may see folders: not if all that it may have is one file."""
        return self.allows(Right.LIST) and self._actor.only is None

    # Reading

    async def list(
        self, folder: Path, size: int, cursor: str | None = None, *, file_first: bool = False
    ) -> Page:
        """As `Drive.list_page`."""
        self._context.action = "list"
        drive = await self._drive()
        async with self._looking(min(size, drive.max_page_size)):
            return await drive.list_page(folder, size, cursor, file_first=file_first)

    async def search(
        self, folder: Path, criteria: Criteria, size: int, cursor: str | None = None
    ) -> SearchPage:
        """What is below a folder and meets the criteria; from where an earlier request has come to, if there is one."""
        self._context.action = "search"
        drive = await self._drive()
        async with self._resources.admission.searching(self._actor.share):
            walk = drive.walk(folder, cursor)
            return await search(walk, criteria, size, self._looking, self._resources.scheduler)

    async def stat(self, path: Path) -> Entry:
        self._context.action = "stat"
        return await (await self._drive()).stat(path)

    async def digests(self, folder: Path, entries: Iterable[Entry]) -> dict[str, bytes]:
        """The known SHA-256 of files in a folder, by name: of those that are still what was hashed."""
        drive = await self._drive()
        files = iter([entry for entry in entries if not entry.is_folder])
        digests: dict[str, bytes] = {}
        while some := {folder.child(entry.name): entry for entry in islice(files, _DIGESTS_AT_ONCE)}:
            async with self._looking(_DIGEST_COST * len(some)):
                found = await self._digests(drive, some)
            digests |= {path.name: digest for path, digest in found.items()}
        return digests

    async def digest(self, path: Path, entry: Entry) -> bytes | None:
        """The known SHA-256 of a file that is about to be read."""
        return (await self._digests(await self._drive(Scope(path)), {path: entry})).get(path)

    async def _digests(self, drive: Drive, files: Mapping[Path, Entry]) -> dict[Path, bytes]:
        if not drive.allows(Right.DOWNLOAD):  # a digest confirms what somebody guesses of the content
            return {}
        places = {drive.location(path): path for path in files}
        connection = self._actor.user.connection
        found = await self._resources.digests.find(
            connection, {place: files[path] for place, path in places.items()}
        )
        at_once = asyncio.Semaphore(_STATS_AT_ONCE)

        async def is_current(path: Path, digest: FileDigest) -> bool:
            """Listings of some services have no etag, which alone tells whether the file is the one that was hashed."""
            if files[path].etag is not None:
                return True
            async with at_once:
                entry = await drive.find(path)
            return entry is not None and entry.etag == digest.etag

        known = {places[place]: digest for place, digest in found.items()}
        current = await asyncio.gather(*(is_current(path, digest) for path, digest in known.items()))
        return {path: digest.sha256 for (path, digest), ok in zip(known.items(), current, strict=True) if ok}

    async def stat_for_download(self, path: Path) -> Entry:
        """The entry of a file that is about to be read; `IsAFolder` if it is none. Needs the right to download."""
        self._context.action = "download"
        entry = await (await self._drive(Scope(path))).stat_for_download(path)
        if entry.is_folder:
            raise IsAFolder(f"'{path.name}' is a folder; list it, or download a file in it.")
        return entry

    async def has_digests(self) -> bool:
        """Whether it is worth a query to look for a digest that nobody has asked for."""
        return await self._resources.digests.is_used(self._actor.user.connection)

    async def read(
        self, path: Path, start: int = 0, stop: int | None = None, *, etag: str | None = None
    ) -> Download:
        """As `Drive.read`. The chunks end with an error soon after the actor has lost the right to them."""
        self._context.action = "download"
        download = await (await self._drive(Scope(path))).read(path, start, stop, etag=etag)
        download.chunks = self._watched(download.chunks, Right.DOWNLOAD)
        if self._rules:
            try:
                await self._rules.count_download("download", path, str(path), download.entry.size)
            except BaseException:
                await download.chunks.aclose()
                raise
        return download

    async def archive(self, folder: Path, chosen: Sequence[Path] = ()) -> Archive:
        """A folder or file as a ZIP, or `chosen` paths below a folder. Not made, nor counted, before it is read."""
        self._context.action = "zip"
        only = self._actor.only
        fits = only and (not chosen or (only.is_folder and all(map(folder.holds, chosen))))
        drive = await self._drive(Scope(folder, only.is_folder) if only and fits else None)
        if only:  # of two with this name, not the other
            folder = Path(folder.segments, as_folder=only.is_folder)

        async def begin() -> None:
            if self._rules:
                what = "\0".join(["zip", str(folder), *sorted(map(str, chosen))])
                await self._rules.count_download("zip", folder, what, archive.size)

        archive = Archive(
            drive,
            folder,
            chosen,
            self._resources.archive_limits,
            self._resources.archive_memory.begin(self._actor.share),
            self._looking,
            is_folder=only.is_folder if only else None,
            begin=begin,
            watched=lambda chunks: self._watched(chunks, Right.DOWNLOAD, Right.LIST),
        )
        try:
            await archive.plan()
        except BaseException:
            await archive.close()
            raise
        return archive

    async def plan_thumbnail(self, path: Path, size: int, page: int = 1) -> PlannedThumbnail:
        """A small picture of a file, which `make_thumbnail` makes; `NoThumbnail` if there can be none."""
        entry = await self.stat_for_download(path)
        self._context.action = "thumbnail"
        if self._resources.thumbnails is None:
            raise NoThumbnail("This gateway makes no thumbnails.")
        return self._resources.thumbnails.of(await self._drive(Scope(path)), path, entry, size, page)

    async def make_thumbnail(self, planned: PlannedThumbnail) -> Thumbnail:
        """Ends when the client hangs up: it may have scrolled on."""
        path = planned.path
        if self._rules and planned.size > SMALL:  # as good as the file, for many
            await self._rules.count_download("download", path, str(path), planned.entry.size)
        self._context.release()  # it waits for its turn, not for the storage
        made: Thumbnail = await self._cancellable(planned.make(self._actor.share), Right.DOWNLOAD)
        return made

    async def ticket(self, path: Path, *, recursive: bool = False, renewed: str | None = None) -> Ticket:
        """A ticket with which this file can be downloaded without a token; if `recursive`, a folder as an archive.

        One that is to be `renewed` stays the same, if it is for this path and has not expired.
        """
        self._context.action = "ticket"
        guest = self._actor.guest
        session = None if guest else self._actor.require_session()
        # A ticket gives no further ones.
        drive = await self._drive(None if self._actor.by_ticket else Scope(path))
        entry = await drive.stat_for_download(path)
        self._actor.require(Scope(path, entry.is_folder))
        if entry.is_folder and not recursive:
            raise IsAFolder(f"'{path.name}' is a folder; a ticket for its archive needs recursive=true.")
        is_folder = entry.is_folder
        if guest:
            guests = self._resources.guests
            if renewed and await guests.renew_ticket(guest, renewed, path, is_folder=is_folder):
                return Ticket(renewed, Tickets.LIFETIME)
            text = await guests.issue_ticket(guest, path, is_folder=is_folder)
            return Ticket(text, Tickets.LIFETIME)
        assert session
        tickets = self._resources.tickets
        if renewed and await tickets.renew(session, renewed, path, is_folder=is_folder):
            return Ticket(renewed, Tickets.LIFETIME)
        return Ticket(await tickets.issue(session, path, is_folder=is_folder), Tickets.LIFETIME)

    # Storing

    async def store(
        self,
        path: Path,
        chunks: AsyncIterator[bytes],
        content_type: str | None = None,
        on_conflict: OnConflict | None = None,
        *,
        size: int | None = None,
        if_match: str | None = None,
        modified: datetime | None = None,
    ) -> Entry:
        """Store one file of `size` bytes, if that is known. Its entry bears the name under which it was stored."""
        if path.is_root:
            raise root_is_a_folder()
        async with self.upload(path.parent, on_conflict) as upload:
            return await upload.store(
                path.name, chunks, content_type, size=size, if_match=if_match, modified=modified
            )

    @asynccontextmanager
    async def upload(
        self,
        folder: Path,
        on_conflict: OnConflict | None = None,
        *,
        digest: bool = False,
        receipt: bool = False,
    ) -> AsyncIterator[Upload]:
        """Store several files in a folder. An error between them has an audit line for the folder.

        With `digest`, the SHA-256 of each is computed and recorded; with `receipt`, it is computed.
        """
        self._context.action = "upload"
        resources = self._resources
        if self._rules:
            self._rules.check_folder(folder)
            on_conflict = OnConflict.RENAME
        drive = await self._drive(admitted=False)
        await resources.audit.check()  # before a large body is sent in vain
        recorded = digest or resources.always_digest
        upload = Upload(resources, self._actor, drive, folder, on_conflict, sha256=recorded or receipt)
        try:
            drive.require(Right.UPLOAD)
            if on_conflict is OnConflict.REPLACE:
                drive.require(Right.OVERWRITE)
            yield upload
        except PorticoError as error:
            if not upload.failed:  # a file that failed has a line of its own
                line = self._context.audit_line("upload", outcome=error.code)
                line.path = str(folder)
                await resources.audit.end(line)
            raise
        finally:
            if recorded:
                await self._record_digests(drive, folder, upload)

    async def _record_digests(self, drive: Drive, folder: Path, upload: Upload) -> None:
        digests = [
            (drive.location(folder.child(upload.real_name(entry))), entry, upload.digests[entry.name])
            for entry in upload.stored
        ]
        await self._resources.digests.record(self._actor.user.connection, digests)

    def receipt(self, path: Path, entry: Entry, sha256: bytes | None) -> Receipt:
        """A signed receipt for a file that this actor has just stored."""
        user = self._actor.user.name
        if guest := self._actor.guest:
            user = f"{guest.name or 'guest'} (link {guest.link.id} of {user})"
        return self._resources.receipts.issue(user, path, entry, sha256)

    @property
    def sharing(self) -> Sharing:
        """The actor's own share links."""
        return Sharing(self._resources, self._actor, self._drive)

    @property
    def resumable(self) -> ResumableUploads:
        """Files that are sent in several requests."""
        return ResumableUploads(self._resources, self._actor, self._drive)

    @property
    def concatenation(self) -> Concatenation:
        """Files that are sent in parts, several at the same time."""
        return Concatenation(self._resources, self._actor, self._drive)

    # Changing the tree

    async def make_folder(self, path: Path) -> None:
        self._context.action = "mkdir"
        if self._rules and self._rules.is_blind:
            raise not_by_link()
        drive = await self._drive()
        async with Change(self._resources.audit, self._context, "mkdir", path) as change:
            if self._rules:
                await self._rules.check_names(drive, path)
            await Standing(self._actor, Right.UPLOAD).check()
            await change.begin()
            await drive.make_folder(path)

    async def copy(self, source: Path, target: Path, on_conflict: OnConflict | None = None) -> Path:
        """Copy a file or folder; the path of the copy. Cancelled when the client hangs up."""
        self._context.action = "copy"
        return await self._transfer(source, target, on_conflict)

    async def move(self, source: Path, target: Path, on_conflict: OnConflict | None = None) -> Path:
        """Move a file or folder; its new path. Cancelled when the client hangs up."""
        self._context.action = "move"
        return await self._transfer(source, target, on_conflict)

    async def delete(self, path: Path, *, recursive: bool = False, permanent: bool = False) -> None:
        """Delete a file or an empty folder; with `recursive` any folder, until the client hangs up.

        It is moved to the trash, if there is one, unless `permanent`.
        """
        self._context.action = "delete"
        drive = await self._drive()
        async with Change(self._resources.audit, self._context, "delete", path) as change:
            await change.begin()
            attempt = self._context.attempt
            if attempt and attempt.is_repeated and await replay.is_gone(drive, attempt, path):
                # The attempt may have ended before its links: without them, a new file of that name would be shared.
                for is_folder in (False, True):
                    await self._links_deleted(path, is_folder=is_folder)
                return
            shared = await self._resources.links.exist(self._actor.user.connection, self._place(path))
            entry = await drive.find(path) if shared else None
            work = drive.delete(path, recursive=recursive, permanent=permanent)
            await self._cancellable(work, Right.OVERWRITE, by_client=recursive)
            if entry:
                trash_id = drive.trashed[-1] if drive.trashed else None
                await self._links_deleted(path, is_folder=entry.is_folder, trash_id=trash_id)

    @property
    def trash(self) -> Trash:
        """What was deleted or replaced, and can be brought back."""
        if self._rules:
            raise not_by_link()
        return Trash(self._resources, self._actor, self._drive, self._cancellable)

    @property
    def jobs(self) -> "OwnJobs[Operations]":
        """Changes that go on after their request was answered."""
        if self._rules:
            raise not_by_link()
        return OwnJobs(self._resources.jobs, self._actor, partial(Operations, self._resources))

    async def count_files(self, folder: Path) -> int | None:
        """How many files are below a folder; None if there are too many to count."""
        return await count_files(await self._drive(), folder, self._looking)

    async def _transfer(self, source: Path, target: Path, on_conflict: OnConflict | None) -> Path:
        if self._rules:
            raise not_by_link()
        drive = await self._drive()
        transfer = drive.move if self._context.action == "move" else drive.copy
        if self._context.attempt:
            transfer = partial(self._transfer_once, self._context.attempt, drive, transfer)
        async with Change(
            self._resources.audit, self._context, self._context.action, source, target
        ) as change:
            await change.begin()
            needed = _TRANSFER_RIGHTS[self._context.action]
            if not replay.keeps_existing(drive, on_conflict):
                needed |= {Right.OVERWRITE}
            place: Path = await self._cancellable(transfer(source, target, on_conflict), *needed)
            change.line.target = str(place)
            if self._context.action == "move":
                await self._links_follow(self._links_moved(drive, source, place))
        return place

    async def _links_moved(self, drive: Drive, source: Path, target: Path) -> None:
        links, connection = self._resources.links, self._actor.user.connection
        if not await links.exist(connection, self._place(source)):
            return
        if moved := await drive.find(target):
            await links.moved(connection, self._place(source), self._place(target), is_folder=moved.is_folder)

    async def _links_deleted(self, path: Path, *, is_folder: bool, trash_id: str | None = None) -> None:
        connection, place = self._actor.user.connection, self._place(path)
        await self._links_follow(
            self._resources.links.deleted(connection, place, is_folder=is_folder, trash_id=trash_id)
        )

    async def _links_follow(self, work: Coroutine[Any, Any, None]) -> None:
        """The change is done: that its links cannot follow does not make it fail."""
        try:
            await work
        except PorticoError as error:
            log.warning("links-not-moved", code=error.code, cause=error.cause)

    def _place(self, path: Path) -> Path:
        """From the root of the connection."""
        return path.under(Path.parse(self._actor.user.root))

    async def _transfer_once(
        self,
        attempt: Attempt,
        drive: Drive,
        transfer: Callable[..., Coroutine[Any, Any, Path]],
        source: Path,
        target: Path,
        on_conflict: OnConflict | None,
    ) -> Path:
        """As `transfer`, unless an earlier attempt has done it. What it needs to know is noted first."""
        keeps = replay.keeps_existing(drive, on_conflict)
        done = None
        if attempt.is_repeated and self._context.action == "move":
            done = await replay.moved_to(drive, attempt, source, target, keeps=keeps)
        elif attempt.is_repeated and keeps:
            done = await replay.copied_to(drive, attempt, source, target)
        if done:
            return done
        if on_conflict is OnConflict.RENAME:
            return await transfer(source, target, on_conflict, partial(attempt.choose, target))
        if keeps and not await drive.find(target):
            await attempt.choose(target, target)
        return await transfer(source, target, on_conflict)

    async def _cancellable(
        self, work: Coroutine[Any, Any, Any], *needed: Right, by_client: bool = True
    ) -> Any:
        """The result of `work`, which ends when the client hangs up, or the actor loses one of these rights."""
        gone = self._context.client_gone() if by_client else asyncio.Event().wait()
        watch = self._resources.watches.add(Standing(self._actor, *needed))
        return await self._resources.long_work.run(work, gone, watch.lost())

    def _looking(self, entries: int) -> AbstractAsyncContextManager[None]:
        return self._resources.admission.looking(self._actor.user.connection, self._actor.share, entries)

    def _watched(self, chunks: Chunks, *needed: Right) -> Chunks:
        return WatchedChunks(chunks, self._resources.watches, Standing(self._actor, *needed))

    async def _drive(self, opened: Scope | None = None, *, admitted: bool = True) -> Drive:
        """The actor's drive: to download one file or folder, or for anything.

        `Unavailable` if too many requests wait for the same connection.
        """
        self._actor.require(opened)
        user = self._actor.user
        if admitted and self._context.slot is None:
            self._context.slot = self._resources.admission.enter(user.connection, self._actor.share)
        if self._opened is None:
            if self._actor.guest:
                await require_target(self._resources.drives, self._actor.guest.open)
            self._opened = await self._resources.drives.of(user)
            self._opened.right_missing = self._actor.right_missing
            self._context.trashed = self._opened.trashed
        return self._opened
