"""`AsyncClient`: a gateway from Python, for programs that use asyncio."""

import os
from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import BinaryIO, Self

from portico.client import downloads, files, transfers, uploads
from portico.client.base import Base, LocalPath
from portico.client.entries import Entry, Folder
from portico.client.files import OnConflict
from portico.client.paths import clean
from portico.client.progress import Progress
from portico.client.receipts import Received
from portico.client.session import Tokens
from portico.client.sources import Uploadable
from portico.client.steps import Steps, T
from portico.client.streams import Streams
from portico.client.tasks import Tasks
from portico.client.wire import Origin


class AsyncClient(Base):
    """A Web User's files at a gateway; as `Client` in every other way, and for one event loop.

        async with AsyncClient("https://files.example.com", username="alice", password="…") as client:
            await client.upload("2026.csv", "/reports/")
            async for entry in client.list("/reports"):
                print(entry.name, entry.size)

    Local files, and streams that are given, are read and written in threads.
    """

    def _open(self, origin: Origin, timeout: float) -> None:
        self._tasks = Tasks(Streams(origin, timeout=timeout, limit=self._limit))

    async def _run(self, steps: Steps[T]) -> T:
        return await self._tasks.run(steps)

    async def login(self, username: str | None = None, password: str | None = None) -> Tokens:
        """Sign in now, with the name and the password that are given here or were given before."""
        self._session.use(username, password)
        return await self._run(self._session.login())

    async def logout(self) -> None:
        """End the tokens, here and at the gateway."""
        await self._run(self._session.logout())

    async def list(self, path: str = "/", *, size: int | None = 1000) -> AsyncIterator[Entry]:
        """What is in a folder, page after page of `size` entries; the folder itself is left out."""
        cursor: str | None = None
        while True:
            page = await self._run(files.page(self._session, path, size, cursor))
            for entry in page.entries:
                yield entry
            if (cursor := page.cursor) is None:
                return

    async def walk(self, path: str = "/") -> AsyncIterator[Folder]:
        """Every folder at or below a path, from the top down: its path, the folders and the files in it.

        As with `os.walk`, folders that are taken out of the list are not walked.
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

    async def stat(self, path: str) -> Entry:
        """One file or folder; `NotFound` if it is not there."""
        return await self._run(files.stat(self._session, path))

    async def head(self, path: str) -> Entry:
        """A file as a download would begin, with its `etag`; `IsAFolder` if it is none."""
        return await self._run(files.head(self._session, path))

    async def upload(
        self,
        source: Uploadable,
        path: str,
        *,
        on_conflict: OnConflict | None = None,
        content_type: str | None = None,
        verify: bool = False,
        progress: Progress | None = None,
    ) -> Entry | None:
        """Store a local file, bytes or a stream at a path; one that ends with a slash is the folder for the file.

        Folders are made as needed. Nobody sees the file before it is whole, and when this returns it is stored safely.
        `verify` looks afterwards whether it has the size of what was sent. What is returned has the name under which
        the file is stored; None if that may be another one and the gateway, an older one, does not say which.
        """
        file = uploads.outgoing(source, path, content_type)
        options = uploads.Options(on_conflict, verify, progress)
        return await self._run(uploads.upload(self._session, file, options))

    async def upload_all(
        self,
        items: Iterable[tuple[Uploadable, str]],
        *,
        on_conflict: OnConflict | None = None,
        verify: bool = False,
        progress: Progress | None = None,
        stored: Received | None = None,
    ) -> None:
        """Store many files, given as for `upload`: small ones share requests, and several requests run at once.

        A file that cannot be stored for its own sake does not hold up the others: `TransfersFailed` names them in the
        end. `stored` is called with a `Receipt` of each file that is stored, which has its name there.
        """
        options = uploads.Options(on_conflict, verify, progress, stored)
        await self._run(uploads.upload_all(self._session, items, options, self._limit))

    async def download(
        self,
        path: str | Entry,
        target: LocalPath | BinaryIO,
        *,
        resume: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Fetch a file to a local path, or into a stream that is open for writing bytes.

        The local file appears when it is whole; large ones are fetched in several ranges at once. With `resume`, what
        an interrupted download has left beside it is used, if the file is still the same at the gateway. A local folder
        takes the file under its own name, and is made if it ends with a slash. An entry of a listing, instead of the
        path, gives the local file the time that the file has at the gateway.
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
    ) -> None:
        """Fetch many files, each from its path, or entry, to a local one; `TransfersFailed` names in the end what failed.

        `fetched` is called with a `Receipt` of each file that is here.
        """
        options = downloads.Options(resume, progress, self._limit, fetched)
        await self._run(downloads.to_files(self._session, items, options))

    async def read(
        self, path: str, start: int = 0, stop: int | None = None, *, etag: str | None = None
    ) -> bytes:
        """The bytes of a file, or those from `start` up to `stop`, cut off at its end as a slice is.

        With an `etag`, of that version only: `Changed` if there is another.
        """
        return await self._run(downloads.read(self._session, path, start, stop, etag))

    async def make_folder(self, path: str) -> None:
        """Make a folder, with those above it; one that is there already is fine."""
        await self._run(files.make_folder(self._session, path))

    async def move(self, source: str, target: str, *, on_conflict: OnConflict | None = None) -> None:
        """Move or rename a file or a folder; a folder that is moved onto a folder is merged into it."""
        await self._run(transfers.transfer(self._session, "MOVE", source, target, on_conflict))

    async def copy(self, source: str, target: str, *, on_conflict: OnConflict | None = None) -> None:
        """Copy a file, or a folder with all that is in it, without passing through this machine."""
        await self._run(transfers.transfer(self._session, "COPY", source, target, on_conflict))

    async def delete(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file or an empty folder; with `recursive`, a folder with all that is in it."""
        await self._run(files.delete(self._session, path, recursive=recursive))

    async def close(self) -> None:
        """Close the connections. The tokens stay good: `logout` ends them."""
        await self._tasks.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
