"""Listings of a whole folder or tree, as one stream of lines; by pages from a gateway that sends no lines."""

import json

from portico.client.auth.session import AuthSession
from portico.client.entries import Entry, entry_of, page_of
from portico.client.errors import ClientError, ConnectionFailed, NotAGateway, Temporary
from portico.client.http.effects import LINES, Operation, Piece, Request, Response
from portico.client.http.problems import problem
from portico.client.paths import clean, target


class Listing:
    """One listing and how far it has come. Entries are returned in whole pages, so that after a failure the rest follows."""

    def __init__(self, session: AuthSession, path: str, size: int | None, *, recursive: bool) -> None:
        self._session = session
        self._backoff = session.backoff()
        self._folder = clean(path)
        self._size = size
        self._recursive = recursive
        self._below: list[str] | None = None
        """Folders still to be listed one by one, on a gateway that sends no lines."""
        self._cursor: str | None = None
        self._page: list[Entry] = []
        self._line = b""
        """Their beginnings: of a page, and of a line."""
        self._failure: ClientError | None = None
        """That the last line names."""
        self.ended = False

    def request(self) -> Operation[Response]:
        """Ask for the rest. The response has a `stream` of lines for `lines`, or is one for `page`."""
        self._page, self._line, self._failure = [], b"", None
        recursive = "true" if self._recursive and self._below is None else None
        place = target(self._folder, action="LIST", recursive=recursive, size=self._size, cursor=self._cursor)
        return self._session.request_once(Request("GET", place, {"Accept": LINES}, streams=True))

    def page(self, response: Response) -> list[Entry]:
        page = page_of(response.json(), self._cursor)
        self._backoff.reset()
        self._cursor = page.cursor
        if self._recursive:
            self._below = (self._below or []) + [entry.path for entry in reversed(page.items) if entry.is_folder]
        if page.cursor is None and self._below:
            self._folder = self._below.pop()
        else:
            self.ended = page.cursor is None
        return page.items

    def lines(self, piece: Piece) -> list[Entry]:
        """The entries of the pages that are complete with this piece of the stream."""
        block, found, rest = (self._line + piece).rpartition(b"\n")
        self._line = rest
        if not found:
            return []
        try:
            items = json.loads(b"[" + block.replace(b"\n", b",") + b"]")
        except ValueError:
            raise NotAGateway("A line of the listing is not JSON.") from None
        entries: list[Entry] = []
        for item in items:
            match item:
                case {"name": _}:
                    if not item.get("isCurrentFolder"):
                        self._page.append(entry_of(item))
                    continue
                case {"nextCursor": str(cursor)}:
                    self._cursor = cursor
                case {"end": True}:
                    self.ended = True
                case {"status": int(status)}:
                    self._failure = problem(status, {}, item)
                    break
                case _:
                    raise NotAGateway("The response contains an invalid line.")
            self._backoff.reset()
            entries += self._page
            self._page = []
        return entries

    def retry(self, error: Temporary) -> Operation[None]:
        """Wait before the next request; raises the error if there were too many."""
        return self._backoff.wait(error)

    def check_end(self) -> None:
        """Called at the end of a stream."""
        if self._failure:
            raise self._failure
        if not self.ended:
            raise ConnectionFailed("The listing ended early. Try again.", sent=True)
