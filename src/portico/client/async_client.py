"""`AsyncClient`: the client for asyncio."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Self, Unpack

from portico.client import search, trash
from portico.client.base import Base
from portico.client.entries import Entry, Folder, Page
from portico.client.errors import Temporary
from portico.client.http.async_pool import AsyncPool
from portico.client.http.async_runner import AsyncRunner
from portico.client.http.effects import Operation, T
from portico.client.http.origin import Origin
from portico.client.listing import Listing
from portico.client.paths import clean
from portico.client.search import Criteria
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
        self._pool = AsyncPool(origin, timeout=timeout, limit=self._limit)
        self._runner = AsyncRunner(self._pool)

    async def _run(self, operation: Operation[T]) -> T:
        return await self._runner.run(operation)

    async def _call(self, begin: Callable[..., Operation[T]], *arguments: Any, **options: Any) -> T:
        return await self._run(begin(self, *arguments, **options))

    async def _items(self, fetch: Callable[[str | None], Operation[Page[T]]]) -> AsyncIterator[T]:
        cursor: str | None = None
        while True:
            page = await self._run(fetch(cursor))
            for item in page.items:
                yield item
            if (cursor := page.cursor) is None:
                return

    async def list(self, path: str = "/", *, size: int | None = 1000, recursive: bool = False) -> AsyncIterator[Entry]:
        """The entries of a folder, fetched in pages of `size`; if `recursive`, everything below it. It is not included itself.

        A folder comes before its content. Several pages come in one response, which ends with the iterator.
        """
        listing = Listing(self._session, path, size, recursive=recursive)
        while not listing.ended:
            try:
                response = await self._run(listing.request())
                if response.stream is None:
                    for entry in listing.page(response):
                        yield entry
                    continue
                async with aclosing(response.stream) as pieces:
                    async for piece in pieces:
                        for entry in listing.lines(piece):
                            yield entry
                listing.check_end()
            except Temporary as error:
                await self._run(listing.retry(error))

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

    def search(self, path: str = "/", **criteria: Unpack[Criteria]) -> AsyncIterator[Entry]:
        """The files and folders below a folder that meet all criteria, in no particular order."""
        return self._items(partial(search.page, self._session, path, criteria))

    def trash(self) -> AsyncIterator[TrashedItem]:
        """What was deleted or replaced and can be brought back, the newest first."""
        return self._items(partial(trash.page, self._session))

    async def close(self) -> None:
        """Close the connections. The tokens stay valid; `logout` revokes them."""
        await self._pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
