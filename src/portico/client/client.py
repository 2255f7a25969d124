"""`Client`: the synchronous client."""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, Self, Unpack

from portico.client import search, trash
from portico.client.base import Base
from portico.client.entries import Entry, Folder, Page
from portico.client.errors import Temporary
from portico.client.http.effects import Operation, T
from portico.client.http.origin import Origin
from portico.client.http.sync_pool import SyncPool
from portico.client.http.sync_runner import SyncRunner
from portico.client.listing import Listing
from portico.client.paths import clean
from portico.client.search import Criteria
from portico.client.trash import TrashedItem


class Client(Base):
    """A Web User's files on a gateway.

    Paths start at the user's root: `/reports/2026.csv`. Errors of the gateway and of the connection are `ClientError`s.
    Requests are retried where that is safe. Clients are thread-safe.

        with Client("https://files.example.com", username="alice", password="…") as client:
            client.upload("2026.csv", "/reports/")
            for entry in client.list("/reports"):
                print(entry.name, entry.size)
    """

    def _open(self, origin: Origin, timeout: float) -> None:
        self._pool = SyncPool(origin, timeout=timeout, limit=self._limit)
        self._runner = SyncRunner(self._pool)

    def _run(self, operation: Operation[T]) -> T:
        return self._runner.run(operation)

    def _call(self, begin: Callable[..., Operation[T]], *arguments: Any, **options: Any) -> T:
        return self._run(begin(self, *arguments, **options))

    def _items(self, fetch: Callable[[str | None], Operation[Page[T]]]) -> Iterator[T]:
        """The items of all pages; `fetch` begins to fetch the one at a cursor."""
        cursor: str | None = None
        while True:
            page = self._run(fetch(cursor))
            yield from page.items
            if (cursor := page.cursor) is None:
                return

    def list(self, path: str = "/", *, size: int | None = 1000, recursive: bool = False) -> Iterator[Entry]:
        """The entries of a folder, fetched in pages of `size`; if `recursive`, everything below it. It is not included itself.

        A folder comes before its content. Several pages come in one response, which ends with the iterator.
        """
        listing = Listing(self._session, path, size, recursive=recursive)
        while not listing.ended:
            try:
                response = self._run(listing.request())
                if response.stream is None:
                    yield from listing.page(response)
                    continue
                with closing(response.stream) as pieces:
                    for piece in pieces:
                        yield from listing.lines(piece)
                listing.check_end()
            except Temporary as error:
                self._run(listing.retry(error))

    def walk(self, path: str = "/") -> Iterator[Folder]:
        """Walk a tree top-down: the path, the folders and the files of each folder.

        As with `os.walk`, folders removed from the list are not visited.
        """
        waiting = [clean(path)]
        while waiting:
            folder = waiting.pop()
            folders: list[Entry] = []
            others: list[Entry] = []
            for entry in self.list(folder):
                (folders if entry.is_folder else others).append(entry)
            yield folder, folders, others
            waiting += (entry.path for entry in reversed(folders))

    def search(self, path: str = "/", **criteria: Unpack[Criteria]) -> Iterator[Entry]:
        """The files and folders below a folder that meet all criteria, in no particular order."""
        return self._items(partial(search.page, self._session, path, criteria))

    def trash(self) -> Iterator[TrashedItem]:
        """What was deleted or replaced and can be brought back, the newest first."""
        return self._items(partial(trash.page, self._session))

    def close(self) -> None:
        """Close the connections. The tokens stay valid; `logout` revokes them."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
