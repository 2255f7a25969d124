"""`AsyncClient`: the client for asyncio."""

import os
from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import BinaryIO, Self, Unpack

from portico.client import files, jobs, moves, search, shares, trash
from portico.client.auth.tokens import Tokens
from portico.client.base import Base, LocalPath
from portico.client.entries import Entry, Folder
from portico.client.files import OnConflict
from portico.client.http.async_pool import AsyncPool
from portico.client.http.async_runner import AsyncRunner
from portico.client.http.effects import Operation, T
from portico.client.http.origin import Origin
from portico.client.jobs import Job, JobProgress
from portico.client.paths import clean
from portico.client.search import Criteria
from portico.client.shares import Access, LinkKind, LinkOptions, ShareLink
from portico.client.transfers import archives, downloads, uploads
from portico.client.transfers.batches import upload_item
from portico.client.transfers.progress import Progress, Received, Resumed
from portico.client.transfers.sources import Uploadable
from portico.client.trash import TrashedItem


class AsyncClient(Base):
    """A Web User's files on a gateway: like `Client`, but for asyncio. Each belongs to one event loop.

        async with AsyncClient("https://files.example.com", username="alice", password="…") as client:
            await client.upload("2026.csv", "/reports/")
            async for entry in client.list("/reports"):
                print(entry.name, entry.size)

    Local files and streams are read and written in threads.
    """

    def _open(self, origin: Origin, timeout: float) -> None:
        self._runner = AsyncRunner(AsyncPool(origin, timeout=timeout, limit=self._limit))

    async def _run(self, operation: Operation[T]) -> T:
        return await self._runner.run(operation)

    async def login(self, username: str | None = None, password: str | None = None) -> Tokens:
        """Sign in now; user name and password default to those passed to the constructor."""
        self._session.set_credentials(username, password)
        return await self._run(self._session.login())

    async def logout(self) -> None:
        """Revoke the tokens and forget them."""
        await self._run(self._session.logout())

    async def list(self, path: str = "/", *, size: int | None = 1000) -> AsyncIterator[Entry]:
        """The entries of a folder, fetched in pages of `size`. The folder itself is not included."""
        cursor: str | None = None
        while True:
            page = await self._run(files.page(self._session, path, size, cursor))
            for entry in page.entries:
                yield entry
            if (cursor := page.cursor) is None:
                return

    async def walk(self, path: str = "/") -> AsyncIterator[Folder]:
        """Walk a tree top-down: the path, the folders and the files of each folder.

        As with `os.walk`, folders removed from the list are not visited.
        """
        waiting = [clean(path)]
        while waiting:
            folder = waiting.pop()
            folders: list[Entry] = []
            others: list[Entry] = []
            async for entry in self.list(folder):
                (folders if entry.is_folder else others).append(entry)
            yield folder, folders, others
            waiting += (entry.path for entry in reversed(folders))

    async def search(self, path: str = "/", **criteria: Unpack[Criteria]) -> AsyncIterator[Entry]:
        """The files and folders below a folder that meet all criteria, in no particular order."""
        cursor: str | None = None
        while True:
            page = await self._run(search.page(self._session, path, criteria, cursor))
            for entry in page.entries:
                yield entry
            if (cursor := page.cursor) is None:
                return

    async def stat(self, path: str) -> Entry:
        """One file or folder; raises `NotFound` if it does not exist."""
        return await self._run(files.stat(self._session, path))

    async def head(self, path: str) -> Entry:
        """A file with its `etag`, as a download would report it; raises `IsAFolder` for a folder."""
        return await self._run(files.head(self._session, path))

    async def upload(
        self,
        source: Uploadable,
        path: str,
        *,
        on_conflict: OnConflict | None = None,
        content_type: str | None = None,
        verify: bool = False,
        times: bool = False,
        receipt: bool = False,
        progress: Progress | None = None,
        resume: bool = True,
    ) -> Entry | None:
        """Upload a local file, bytes or a stream to a path. A path that ends with a slash is the target folder.

        Missing folders are created. The file becomes visible only when it is complete, and is stored durably when this
        returns. `verify` compares SHA-256 digests, `times` keeps the modification time of a local file, and `receipt` asks
        for a signed receipt. The returned entry has the name under which the file is stored; None if `rename` may have
        changed it and the gateway did not report it.

        A file of 16 MiB or more is sent in parts. After a failure, only the rest is sent; with `resume`, also in another call
        with the same local file and path. Its parts are verified one by one. Without `resume`, it is sent in one request.
        """
        file = upload_item(source, path, content_type)
        options = self._upload_options(
            on_conflict, verify, progress, times=times, receipts=receipt, resume=resume
        )
        return await self._run(uploads.upload(self._session, file, options))

    async def upload_all(
        self,
        items: Iterable[tuple[Uploadable, str]],
        *,
        on_conflict: OnConflict | None = None,
        verify: bool | int = False,
        times: bool = False,
        receipts: bool = False,
        progress: Progress | None = None,
        stored: Received | None = None,
        resume: bool = True,
        resumed: Resumed | None = None,
    ) -> None:
        """Upload many files, given as for `upload`. Small files share requests, and several requests run at once.

        If single files fail, the others are still uploaded; `TransfersFailed` lists the failures at the end. `stored` is
        called with the `Receipt` of each stored file. `verify` may be a number of bytes: larger files are not verified.
        `resumed` is called with the path, the bytes that the gateway has, and the size of a file that an earlier call or
        process has sent in part.
        """
        options = self._upload_options(
            on_conflict, verify, progress, stored, resumed, times=times, receipts=receipts, resume=resume
        )
        await self._run(uploads.upload_all(self._session, items, options, self._limit))

    async def download(
        self,
        path: str | Entry,
        target: LocalPath | BinaryIO,
        *,
        resume: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Download a file to a local path, or into a binary stream.

        The local file appears when it is complete; large files are fetched in several ranges at once. With `resume`, an
        interrupted download of more than 16 MiB continues if the file on the gateway has not changed. If the target is a folder, the file
        keeps its name in it; a target that ends with a slash is created. If an entry of a listing is given instead of a
        path, the local file gets its modification time.
        """
        if isinstance(target, str | os.PathLike):
            options = downloads.Options(resume, progress, self._limit)
            await self._run(downloads.to_file(self._session, path, target, options))
        else:
            await self._run(downloads.to_stream(self._session, path, target, progress))

    async def download_all(
        self,
        items: Iterable[tuple[str | Entry, LocalPath]],
        *,
        resume: bool = False,
        progress: Progress | None = None,
        fetched: Received | None = None,
        times: bool = True,
        verify: bool = False,
        resumed: Resumed | None = None,
    ) -> None:
        """Download many files, each from a path or entry to a local path; `TransfersFailed` lists failures at the end.

        `fetched` is called with the `Receipt` of each downloaded file. `times`: the files get the modification times of
        their entries. `verify` compares each file with the SHA-256 that the gateway has recorded; if it has none, the
        receipt says that the file is not `verified`. `resumed` is called with the path, the bytes that an earlier call or
        process has fetched, and the size of a file that is continued.
        """
        options = downloads.Options(resume, progress, self._limit, fetched, times, verify, resumed)
        await self._run(downloads.to_files(self._session, items, options))

    async def download_zip(
        self,
        path: str,
        target: LocalPath | BinaryIO,
        *,
        paths: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> None:
        """Download a folder as one ZIP, or only some `paths` in it, which count from the folder.

        The target is a local file or a stream. The archive cannot be resumed; one that is complete holds every file.
        """
        if isinstance(target, str | os.PathLike):
            await self._run(archives.to_file(self._session, path, paths, target, progress))
        else:
            await self._run(archives.to_stream(self._session, path, paths, target, progress))

    async def read(
        self, path: str, start: int = 0, stop: int | None = None, *, etag: str | None = None
    ) -> bytes:
        """The content of a file from `start` to `stop`, with the bounds of a slice.

        With an `etag`, raises `Changed` if the file has another version.
        """
        return await self._run(downloads.read(self._session, path, start, stop, etag))

    async def make_folder(self, path: str) -> None:
        """Create a folder and its parents; an existing folder is not an error."""
        await self._run(files.make_folder(self._session, path))

    async def move(
        self,
        source: str,
        target: str,
        *,
        on_conflict: OnConflict | None = None,
        progress: JobProgress | None = None,
        wait: bool = True,
    ) -> Job | None:
        """Move or rename a file or folder. If the target is an existing folder, the two are merged.

        With `progress`, a move of more than a second is a job on the gateway: `progress` is called with it about once a
        second. Without `wait`, the job is returned at once, and goes on even if this process ends; None if the move is done.
        """
        waiting = jobs.Waiting(progress, wait)
        return await self._run(moves.transfer(self._session, "MOVE", source, target, on_conflict, waiting))

    async def copy(
        self,
        source: str,
        target: str,
        *,
        on_conflict: OnConflict | None = None,
        progress: JobProgress | None = None,
        wait: bool = True,
    ) -> Job | None:
        """Copy a file or a folder with its content on the gateway, without a download. `progress`, `wait`: as in `move`."""
        waiting = jobs.Waiting(progress, wait)
        return await self._run(moves.transfer(self._session, "COPY", source, target, on_conflict, waiting))

    async def delete(
        self,
        path: str,
        *,
        recursive: bool = False,
        permanent: bool = False,
        progress: JobProgress | None = None,
    ) -> str | None:
        """Delete a file or an empty folder; with `recursive`, a folder with its content.

        Returns the id with which `restore` brings it back, if the gateway keeps it. With `permanent`, it does not. `progress`: as in
        `move`.
        """
        operation = files.delete(
            self._session, path, recursive=recursive, permanent=permanent, progress=progress
        )
        return await self._run(operation)

    async def jobs(self) -> Sequence[Job]:
        """The user's jobs, the newest first; those that have ended are kept for a day."""
        return await self._run(jobs.newest(self._session))

    async def job(self, job_id: str) -> Job:
        """A job as it is now; raises `NotFound` if it is forgotten."""
        return await self._run(jobs.get(self._session, job_id))

    async def wait_for_job(self, job_id: str, *, progress: JobProgress | None = None) -> Job:
        """The job when it is done. Raises its error if it failed, and `JobCancelled` if it was cancelled."""
        return await self._run(jobs.wait_for(self._session, job_id, progress))

    async def cancel_job(self, job_id: str) -> Job:
        """Cancel a running job, or forget one that has ended. The job as it was before that."""
        return await self._run(jobs.cancel(self._session, job_id))

    async def trash(self) -> AsyncIterator[TrashedItem]:
        """What was deleted or replaced and can be brought back, the newest first."""
        cursor: str | None = None
        while True:
            items, cursor = await self._run(trash.page(self._session, cursor))
            for item in items:
                yield item
            if cursor is None:
                return

    async def restore(
        self, trash_id: str, *, on_conflict: OnConflict = "fail", progress: JobProgress | None = None
    ) -> str:
        """Bring back what was deleted or replaced; returns its path. To undo a replacement, use `replace`.

        `progress`: as in `move`.
        """
        return await self._run(trash.restore(self._session, trash_id, on_conflict, progress))

    async def remove_trashed(self, trash_id: str, *, progress: JobProgress | None = None) -> None:
        """Remove one item of the trash for good. `progress`: as in `move`."""
        await self._run(trash.remove(self._session, trash_id, progress))

    async def empty_trash(self, *, progress: JobProgress | None = None) -> None:
        """Remove everything in the trash for good. `progress`: as in `move`."""
        await self._run(trash.empty(self._session, progress))

    async def share(
        self, path: str, kind: LinkKind = "download", **options: Unpack[LinkOptions]
    ) -> ShareLink:
        """Share a file or folder with people without an account; the link in the answer has its `address`."""
        return await self._run(shares.add(self._session, self._base_url, path, kind, options))

    async def links(self) -> Sequence[ShareLink]:
        """One's share links, the newest first; without their addresses."""
        return await self._run(shares.listed(self._session))

    async def change_link(self, link_id: str, **options: Unpack[LinkOptions]) -> ShareLink:
        """Change what is given; None takes a password, an end or a limit away."""
        return await self._run(shares.change(self._session, link_id, options))

    async def renew_link(self, link_id: str) -> ShareLink:
        """Give a link another address; the former one does not work any more, and its guests have to open the new one."""
        return await self._run(shares.renew(self._session, self._base_url, link_id))

    async def end_link(self, link_id: str) -> None:
        """Within a second, nobody can use the link any more."""
        await self._run(shares.end(self._session, link_id))

    async def link_accesses(self, link_id: str) -> Sequence[Access]:
        """Who did what with a link, the newest first."""
        return await self._run(shares.accesses(self._session, link_id))

    async def open_link(self, link: str, *, password: str | None = None, name: str = "") -> None:
        """Use somebody's share link, given as its address, instead of signing in. Paths count from what is shared."""
        await self._run(shares.open_link(self._session, link, password, name))

    async def close(self) -> None:
        """Close the connections. The tokens stay valid; `logout` revokes them."""
        await self._runner.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
