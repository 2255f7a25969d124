"""`Files`: what one actor can do with the files and folders of their tree."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec

from portico.accounts.guests import Guests
from portico.accounts.sessions import Tickets
from portico.accounts.share_links import ShareLinks
from portico.drive.drive import Drive, OnConflict
from portico.model.entries import Download, Entry, Page
from portico.model.errors import IsAFolder, NoThumbnail, PorticoError, root_is_a_folder
from portico.model.paths import Path, Place
from portico.model.rights import Right
from portico.operations.actors.actor import Scope, Standing
from portico.operations.actors.auditing import Change, ChangeResult, note_refusal
from portico.operations.actors.tree import Tree
from portico.operations.files import replay
from portico.operations.files.archives import Archive, ArchiveLimits, ArchiveMemory
from portico.operations.files.downloads import FILE, ZIP, Downloads
from portico.operations.files.receipts import Receipt, Receipts
from portico.operations.files.search import Criteria, SearchPage, search
from portico.operations.files.transfer import Transfer
from portico.operations.files.upload import Upload
from portico.operations.files.walks import MAX_PAGE, WalkedPage, pages_of_folder, pages_of_tree, read_ahead
from portico.operations.sharing.link_limits import LinkLimits, not_by_link
from portico.operations.sharing.links import links_follow
from portico.operations.thumbnails.thumbnails import SMALL, PlannedThumbnail, Thumbnail, Thumbnails
from portico.runtime.fair_scheduling import FairScheduler
from portico.store.digests import FileDigest, FileDigests
from portico.store.journal import Journal
from portico.store.sessions import Session
from portico.store.tickets import LIFETIME

__all__ = ["FileServices", "Files", "OnConflict", "Ticket"]

_COUNTED_AT_ONCE = 1000
_MOST_COUNTED = 1_000_000
_STATS_AT_ONCE = 16
"""For the digests of a listing."""
_DIGESTS_AT_ONCE = 500
_DIGEST_COST = 5
"""How many listed entries one digest costs: a lookup in the database and perhaps a `stat` of the file."""


class Ticket(msgspec.Struct, frozen=True):
    text: str
    lifetime: int
    """In seconds."""


class FileServices(msgspec.Struct, frozen=True):
    journal: Journal
    downloads: Downloads | None
    """None if they are not recorded."""
    digests: FileDigests
    links: ShareLinks
    guests: Guests
    tickets: Tickets[Session]
    receipts: Receipts
    scheduler: FairScheduler
    archive_limits: ArchiveLimits
    archive_memory: ArchiveMemory
    thumbnails: Thumbnails | None
    """None if this gateway makes none."""
    max_file_size: int
    """Bytes; 0 is no limit."""
    always_digest: bool
    """Whether the SHA-256 of every upload is computed."""


class Files:
    def __init__(self, shared: FileServices, tree: Tree, limits: LinkLimits) -> None:
        self._shared = shared
        self._tree = tree
        self._limits = limits
        self._actor = tree.actor
        self._context = tree.actor.context

    # Reading

    async def list(self, folder: Path, size: int, cursor: str | None = None, *, file_first: bool = False) -> Page:
        """As `Drive.list_page`."""
        drive, folder = await self._tree.at(folder)
        async with self._tree.looking(min(size, drive.max_page_size)):
            return await drive.list_page(folder, size, cursor, file_first=file_first)

    async def read_or_list(self, path: Path, size: int) -> Download | Page:
        """The file at a path, as `read`; if there is none, the first page of the folder, as `list`. `NotAFolder` for a file
        that the actor can't download."""
        drive, path = await self._tree.at(path)
        async with self._tree.looking(min(size, drive.max_page_size)):
            if not drive.allows(Right.DOWNLOAD):
                return await drive.list_page(path, size, file_first=True)
            found = await drive.read_or_list(path, size)
        return await self._sent(drive, path, found) if isinstance(found, Download) else found

    async def search(self, folder: Path, criteria: Criteria, size: int, cursor: str | None = None) -> SearchPage:
        """Entries below a folder that meet the criteria; with `cursor`, from where an earlier request stopped."""
        drive, folder = await self._tree.at(folder)
        async with self._tree.searching():
            walk = self._tree.walk(drive, folder, cursor)
            return await search(walk, criteria, size, self._tree.looking, self._shared.scheduler)

    async def walk(
        self, folder: Path, size: int, cursor: str | None = None, *, recursive: bool = False, file_first: bool = False
    ) -> AsyncGenerator[WalkedPage]:
        """All pages of a folder, as `list` gives them, or with `recursive`, of everything below it that the actor may list.

        The walk ends with an error soon after the actor has lost the right to it. Whoever does not read it to its end has
        to close it.
        """
        size = min(size, MAX_PAGE)
        async with self._tree.walking(), AsyncExitStack() as stack:
            drive, folder = await self._tree.at(folder)
            looking, standing = self._tree.looking, Standing(self._actor, folder, Right.LIST)
            if recursive:
                for mount in self._tree.inner(folder, Right.LIST):
                    standing.also(mount.path, Right.LIST)
                walk = self._tree.walk(drive, folder, cursor, reads_ahead=True)
                stack.push_async_callback(walk.close)
                pages = pages_of_tree(walk, size, looking)
            else:
                pages = pages_of_folder(drive, folder, size, cursor, looking, file_first=file_first)
            watch = self._tree.watch(standing)
            async with aclosing(read_ahead(pages)) as found:
                async for page in found:
                    watch.check()
                    self._context.release()  # the rest of the answer waits for the client, too
                    yield page

    async def stat(self, path: Path) -> Entry:
        drive, path = await self._tree.at(path)
        return await drive.stat(path)

    async def digests(self, folder: Path, entries: Iterable[Entry]) -> dict[str, bytes]:
        """The recorded SHA-256 of a folder's files, by name, if the file is still the one that was hashed."""
        drive, folder = await self._tree.at(folder)
        files = iter([entry for entry in entries if not entry.is_folder])
        digests: dict[str, bytes] = {}
        while some := {folder.child(entry.name): entry for entry in islice(files, _DIGESTS_AT_ONCE)}:
            async with self._tree.looking(_DIGEST_COST * len(some)):
                found = await self._digests(drive, some)
            digests |= {path.name: digest for path, digest in found.items()}
        return digests

    async def digest(self, path: Path, entry: Entry) -> bytes | None:
        """The known SHA-256 of a file that is about to be read."""
        drive, path = await self._tree.at(path, Scope(path))
        return (await self._digests(drive, {path: entry})).get(path)

    async def _digests(self, drive: Drive, files: Mapping[Path, Entry]) -> dict[Path, bytes]:
        if not drive.allows(Right.DOWNLOAD):  # a digest would confirm a guess at the content
            return {}
        places = {drive.location(path): path for path in files}
        found = await self._shared.digests.find(
            drive.connection, {place: files[path] for place, path in places.items()}
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
        drive, path = await self._tree.at(path, Scope(path), looks=False)
        async with self._tree.finding():
            entry = await drive.stat_for_download(path)
            if entry.is_folder:
                raise IsAFolder(f"'{path.name}' is a folder. List it, or download a file in it.")
        return entry

    async def has_digests(self, path: Path) -> bool:
        """Whether it is worth a query to look for digests that the client did not ask for."""
        place = self._tree.place(path)
        return place is not None and await self._shared.digests.is_used(place.connection)

    async def read(self, path: Path, start: int = 0, stop: int | None = None, *, etag: str | None = None) -> Download:
        """As `Drive.read`. The chunks end with an error soon after the actor has lost the right to download."""
        drive, path = await self._tree.at(path, Scope(path), looks=False)
        async with self._tree.finding():
            download = await drive.read(path, start, stop, etag=etag)
        return await self._sent(drive, path, download)

    async def _sent(self, drive: Drive, path: Path, download: Download) -> Download:
        """A download that is about to be sent: counted, recorded and watched."""
        download.chunks = self._tree.watched(download.chunks, Standing(self._actor, path, Right.DOWNLOAD))
        try:
            await self._limits.count_download("download", path, str(path), download.entry.size)
        except BaseException:
            await download.chunks.aclose()
            raise
        self._note_download(FILE, drive, path)
        return download

    async def archive(self, folder: Path, chosen: Sequence[Path] = ()) -> Archive:
        """A folder or file as a ZIP, or `chosen` paths below a folder. It is made and counted only when it is read."""
        only = self._actor.only
        fits = only and (not chosen or (only.is_folder and all(map(folder.holds, chosen))))
        scope = Scope(folder, only.is_folder) if only and fits else None
        drive, folder = await self._tree.at(folder, scope)
        if only:  # of two with this name, not the other
            folder = Path(folder.segments, as_folder=only.is_folder)

        async def begin() -> None:
            what = "\0".join(["zip", str(folder), *sorted(map(str, chosen))])
            await self._limits.count_download("zip", folder, what, archive.size)
            self._note_download(ZIP, drive, folder)

        archive = Archive(
            self._tree,
            drive,
            folder,
            [await self._tree.spelled(path) for path in chosen],
            self._shared.archive_limits,
            self._shared.archive_memory.begin(self._actor.share),
            is_folder=only.is_folder if only else None,
            begin=begin,
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
        if self._shared.thumbnails is None:
            raise NoThumbnail("Thumbnails are turned off on this gateway.")
        drive, path = await self._tree.at(path, Scope(path))
        return self._shared.thumbnails.of(drive, path, entry, size, page)

    async def make_thumbnail(self, planned: PlannedThumbnail) -> Thumbnail:
        """Ends when the client hangs up: it may have scrolled on."""
        path = planned.path
        if planned.size > SMALL:  # as good as the file, for many
            await self._limits.count_download("download", path, str(path), planned.entry.size)
            self._note_download(FILE, planned.drive, path)
        self._context.release()  # it waits for its turn, not for the storage
        made: Thumbnail = await self._tree.cancellable(
            planned.make(self._actor.share), Standing(self._actor, path, Right.DOWNLOAD)
        )
        return made

    def _note_download(self, action: str, drive: Drive, path: Path) -> None:
        if downloads := self._shared.downloads:
            downloads.note(self._actor, action, path, drive.place(path) if drive.connection else None)

    async def ticket(self, path: Path, *, recursive: bool = False, renewed: str | None = None) -> Ticket:
        """A ticket with which this file can be downloaded without a token; if `recursive`, a folder as an archive.

        One that is to be `renewed` stays the same, if it is for this path and has not expired.
        """
        guest = self._actor.guest
        owner = guest or self._actor.require_session()
        # A ticket gives no further ones.
        drive, place = await self._tree.at(path, None if self._actor.by_ticket else Scope(path))
        entry = await drive.stat_for_download(place)
        self._actor.require_scope(Scope(path, entry.is_folder))
        if entry.is_folder and not recursive:
            raise IsAFolder(f"'{path.name}' is a folder; to get a ticket for its ZIP, add recursive=true.")
        tickets: Tickets[Any] = self._shared.guests.tickets if guest else self._shared.tickets
        if renewed and await tickets.renew(owner, renewed, path, is_folder=entry.is_folder):
            return Ticket(renewed, LIFETIME)
        return Ticket(await tickets.issue(owner, path, is_folder=entry.is_folder), LIFETIME)

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
            return await upload.store(path.name, chunks, content_type, size=size, if_match=if_match, modified=modified)

    @asynccontextmanager
    async def upload(
        self, folder: Path, on_conflict: OnConflict | None = None, *, digest: bool = False, receipt: bool = False
    ) -> AsyncIterator[Upload]:
        """Store several files in a folder. An error between them has an audit line for the folder.

        With `digest`, the SHA-256 of each is computed and recorded; with `receipt`, it is computed.
        """
        if self._limits.is_guest:
            self._limits.check_folder(folder)
            on_conflict = OnConflict.RENAME
        drive, place = await self._tree.at(folder, admitted=False)
        await self._shared.journal.check()  # before a large body is sent in vain
        recorded = digest or self._shared.always_digest
        upload = Upload(
            self._tree,
            self._limits,
            self._shared.journal,
            drive,
            place,
            on_conflict,
            max_file_size=self._shared.max_file_size,
            sha256=recorded or receipt,
        )
        try:
            drive.require(Right.UPLOAD)
            if on_conflict is OnConflict.REPLACE:
                drive.require(Right.REPLACE)
            yield upload
        except PorticoError as error:
            if not upload.failed:  # a file that failed has a line of its own
                await note_refusal(self._shared.journal, self._context, "upload", folder, error)
            raise
        finally:
            if recorded:
                await self._shared.digests.record(
                    drive.connection,
                    [
                        (drive.location(place.child(upload.real_name(entry))), entry, upload.digests[entry.name])
                        for entry in upload.stored
                    ],
                )

    def receipt(self, path: Path, entry: Entry, sha256: bytes | None) -> Receipt:
        user = self._actor.user.name
        if guest := self._actor.guest:
            user = f"{guest.name or 'guest'} (link {guest.link.id} of {user})"
        return self._shared.receipts.issue(user, path, entry, sha256)

    # Changing the tree

    async def make_folder(self, path: Path) -> None:
        if self._limits.is_upload_only:
            raise not_by_link()
        drive, place = await self._tree.at(path)
        async with self._change("mkdir", path) as change:
            await self._limits.check_names(drive, place)
            await Standing(self._actor, place, Right.UPLOAD).check()
            await drive.make_folder(place, change=change)

    async def copy(self, source: Path, target: Path, on_conflict: OnConflict | None = None) -> ChangeResult:
        """Copy a file or folder. Cancelled when the client hangs up."""
        return await self._transfer("copy", await self._ends(source, target, on_conflict, removes=False))

    async def move(self, source: Path, target: Path, on_conflict: OnConflict | None = None) -> ChangeResult:
        """Move a file or folder. Cancelled when the client hangs up."""
        return await self._transfer("move", await self._ends(source, target, on_conflict, removes=True))

    async def _ends(self, source: Path, target: Path, on_conflict: OnConflict | None, *, removes: bool) -> Transfer:
        if self._limits.is_guest:
            raise not_by_link()
        drive, source = await self._tree.at(source)
        to, target = await self._tree.at(target)
        if self._tree.reach.at(source) is self._tree.reach.at(target):
            to = drive
        for path in (source, target):
            self._tree.require_movable(path)
        return Transfer(drive, source, to, target, on_conflict, removes=removes)

    async def _transfer(self, action: str, transfer: Transfer) -> ChangeResult:
        source = transfer.source
        async with self._change(action, source, transfer.target) as change:
            work = transfer.run(self._context.attempt, change)
            place: Path = await self._tree.cancellable(work, transfer.standing(self._actor))
            change.line.target = str(place)
            if action == "move":
                await links_follow(self._links_moved(transfer.to, source, place))
        return change.result(place)

    async def delete(self, path: Path, *, recursive: bool = False, permanent: bool = False) -> ChangeResult:
        """Delete a file or an empty folder; with `recursive` any folder, until the client hangs up.

        It is moved to the trash, if there is one, unless `permanent`.
        """
        drive, path = await self._tree.at(path)
        self._tree.require_movable(path)
        async with self._change("delete", path) as change:
            drive.require(Right.DELETE)
            attempt = self._context.attempt
            if attempt and attempt.is_repeated and await replay.is_gone(drive, attempt, path):
                # The attempt may have ended before its links: without them, a new file of that name would be shared.
                for is_folder in (False, True):
                    await self._links_deleted(path, is_folder=is_folder)
                return ChangeResult()
            shared = await self._shared.links.exist(self._place(path))
            entry = await drive.find(path) if shared else None
            work = drive.delete(path, change=change, recursive=recursive, permanent=permanent)
            await self._tree.cancellable(work, Standing(self._actor, path, Right.DELETE), by_client=recursive)
            if entry:
                trash_id = change.trash_ids[-1] if change.trash_ids else None
                await self._links_deleted(path, is_folder=entry.is_folder, trash_id=trash_id)
        return change.result()

    async def count_files(self, folder: Path) -> int | None:
        """How many files are below a folder; None if there are too many to count."""
        drive, folder = await self._tree.at(folder)
        files = 0
        walk = self._tree.walk(drive, folder)
        while not walk.ended and walk.passed < _MOST_COUNTED:
            async with self._tree.looking(_COUNTED_AT_ONCE):
                page = await walk.page(_COUNTED_AT_ONCE)
            files += sum(not entry.is_folder for _, entry in page)
        return files if walk.ended else None

    def _change(self, action: str, path: Path, target: Path | None = None) -> Change:
        return Change(self._shared.journal, self._context, action, path, target)

    async def _links_moved(self, drive: Drive, source: Path, target: Path) -> None:
        links, old = self._shared.links, self._place(source)
        if await links.exist(old) and (moved := await drive.find(target)):
            await links.moved(old, self._place(target), is_folder=moved.is_folder)

    def _place(self, path: Path) -> Place:
        place = self._tree.place(path)
        assert place, "nothing changes in a virtual folder"
        return place

    async def _links_deleted(self, path: Path, *, is_folder: bool, trash_id: str | None = None) -> None:
        deleted = self._shared.links.deleted(self._place(path), is_folder=is_folder, trash_id=trash_id)
        await links_follow(deleted)
