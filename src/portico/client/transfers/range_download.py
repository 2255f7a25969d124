"""The download of one range, over as many connections as it takes.

If the connection breaks, the rest of the same version is requested; if the file has changed by then, `Changed` is raised.
"""

from collections.abc import Callable

from portico.client import files
from portico.client.auth.session import AuthSession
from portico.client.entries import Entry
from portico.client.errors import NotAGateway, Temporary
from portico.client.http.effects import Operation, Piece, Request, Response
from portico.client.paths import target
from portico.client.transfers.progress import Meter


class RangeDownload:
    """A download of the bytes from `start` to `stop`; to the end of the file if `stop` is None."""

    def __init__(
        self,
        path: str,
        write: Callable[[Piece], object],
        *,
        start: int = 0,
        stop: int | None = None,
        etag: str | None = None,
        meter: Meter | None = None,
        blocking: bool = True,
        digest: bool = False,
    ) -> None:
        """`digest`: the entry is to have the digest of the whole file, if the gateway has recorded it."""
        self._path = path
        self._write = write
        self._meter = meter
        self.position = start
        self.stop = stop
        self.etag = etag
        self.blocking = blocking
        self._digest = digest
        self.entry: Entry | None = None

    def request(self) -> Request:
        headers = {}
        if self.position or self.stop is not None:
            last = "" if self.stop is None else self.stop - 1
            headers["Range"] = f"bytes={self.position}-{last}"
        if self._digest:
            headers["Want-Repr-Digest"] = "sha-256=1"
        if self.etag:
            headers["If-Match"] = self.etag
        return Request("GET", target(self._path, action="DOWNLOAD"), headers, sink=self)

    def begin(self, response: Response) -> None:
        entry = files.described(self._path, response)
        span = response.headers.get("content-range", "") if response.status == 206 else "bytes 0-"
        if entry.size is None or not span.startswith(f"bytes {self.position}-"):
            raise NotAGateway(
                f"The response is not the requested range of {self._path}.", status=response.status
            )
        if self.entry is None:
            self.entry = entry
            self.etag = self.etag or entry.etag
            self.stop = entry.size if self.stop is None else min(self.stop, entry.size)
            if self._meter and self._meter.total is None:
                self._meter.total = entry.size
        if response.status == 200:
            self.stop = entry.size

    def write(self, piece: Piece) -> None:
        self._write(piece)
        self.position += len(piece)
        if self._meter:
            self._meter.add(len(piece))


def receive(session: AuthSession, incoming: RangeDownload) -> Operation[Entry]:
    """Download a range, resuming after temporary failures; return the file as the first response describes it."""
    backoff = session.backoff()
    while True:
        before = incoming.position
        try:
            yield from session.request_once(incoming.request())
            assert incoming.entry is not None
            if incoming.position == incoming.stop:
                return incoming.entry
            if incoming.position == before:
                raise NotAGateway("The response contains nothing of the requested range.")
        except Temporary as error:
            if incoming.position > before:
                backoff.reset()
            if incoming.entry and not incoming.etag and incoming.position:
                raise  # without an ETag, the rest could be of another version
            if incoming.entry and incoming.position == incoming.stop:
                return incoming.entry
            yield from backoff.wait(error)
