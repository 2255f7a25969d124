"""Downloads to a local file, a stream or memory."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from errno import EAGAIN
from io import FileIO, RawIOBase
from typing import BinaryIO

from portico.client import files
from portico.client.auth.session import AuthSession
from portico.client.entries import Entry
from portico.client.errors import (
    COMMON,
    ClientError,
    NotAGateway,
    RangeNotSatisfiable,
    Temporary,
    TransfersFailed,
    WrongDigest,
)
from portico.client.http.effects import Concurrently, Operation, Piece, Request, Response, blocking
from portico.client.paths import clean, join, split, target
from portico.client.transfers.multipart import digest_text
from portico.client.transfers.partial_file import PartialFile
from portico.client.transfers.progress import Meter, Progress, Receipt, Received, Resumed


@dataclass(slots=True)
class RangeDownload:
    """A download of the bytes from `position` to `stop`; to the end of the file if `stop` is None."""

    path: str
    take: Callable[[Piece], object]
    position: int = 0
    stop: int | None = None
    etag: str | None = None
    meter: Meter | None = None
    blocking: bool = True
    digest: bool = False
    """Whether the entry is to have the digest of the whole file, if the gateway has recorded it."""
    entry: Entry | None = None

    def request(self) -> Request:
        headers = {}
        if self.position or self.stop is not None:
            last = "" if self.stop is None else self.stop - 1
            headers["Range"] = f"bytes={self.position}-{last}"
        if self.digest:
            headers["Want-Repr-Digest"] = "sha-256=1"
        if self.etag:
            headers["If-Match"] = self.etag
        return Request("GET", target(self.path, action="DOWNLOAD"), headers, sink=self)

    def begin(self, response: Response) -> None:
        entry = files.described(self.path, response)
        span = response.headers.get("content-range", "") if response.status == 206 else "bytes 0-"
        if entry.size is None or not span.startswith(f"bytes {self.position}-"):
            raise NotAGateway(f"The response is not the requested range of {self.path}.", status=response.status)
        if self.entry is None:
            self.entry = entry
            self.etag = self.etag or entry.etag
            self.stop = entry.size if self.stop is None else min(self.stop, entry.size)
            if self.meter and self.meter.total is None:
                self.meter.total = entry.size
        if response.status == 200:
            self.stop = entry.size

    def write(self, piece: Piece) -> None:
        self.take(piece)
        self.position += len(piece)
        if self.meter:
            self.meter.add(len(piece))


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


RANGE = 16 * 1024 * 1024
"""Larger files are downloaded in ranges of this size, several at once, and can be resumed."""


@dataclass(frozen=True, slots=True)
class Options:
    resume: bool
    progress: Progress | None
    limit: int
    """The maximum number of concurrent requests."""
    fetched: Received | None = None
    times: bool = True
    verify: bool = False
    """Whether to compare the content with the digest that the gateway has recorded, if it has."""
    resumed: Resumed | None = None


def read(session: AuthSession, path: str, start: int, stop: int | None, etag: str | None) -> Operation[bytes]:
    if start < 0 or (stop is not None and stop < 0):
        raise ValueError("start and stop must not be negative")
    if stop is not None and stop <= start:
        return b""
    content = bytearray()
    try:
        incoming = RangeDownload(clean(path), content.extend, start, stop, etag=etag, blocking=False)
        yield from receive(session, incoming)
    except RangeNotSatisfiable:
        return b""  # `start` is beyond the end, as for a slice
    return bytes(content)


def to_stream(
    session: AuthSession, wanted: str | Entry, stream: BinaryIO, progress: Progress | None
) -> Operation[Entry]:
    path = clean(_path(wanted))
    meter = Meter(path, None, progress)
    return (yield from receive(session, RangeDownload(path, _writer(stream), meter=meter)))


def to_file(
    session: AuthSession, wanted: str | Entry, place: str | os.PathLike[str], options: Options
) -> Operation[None]:
    path = clean(_path(wanted))
    local = yield from blocking(lambda: _local_target(path, place))
    opened: list[PartialFile] = []  # a list, so that it is closed even if the caller is cancelled meanwhile
    try:
        yield from blocking(lambda: opened.append(PartialFile(local, keep=options.resume)))
        part = opened[0]
        entry: Entry | None = None
        if part.etag:
            entry = yield from files.head(session, path, digest=options.verify)
            if (entry.etag, entry.size) != (part.etag, part.size):
                yield from blocking(part.reset)
        resumed = part.received
        if resumed and options.resumed:
            options.resumed(path, resumed, part.size)
        meter = Meter(path, part.size if part.etag else None, options.progress)
        meter.at(resumed)
        if not part.etag:
            entry = yield from _first(session, path, part, meter, digest=options.verify)
        gaps = list(part.gaps(RANGE))
        ranges = (_range(session, path, part, meter, start, stop) for start, stop in gaps)
        yield Concurrently(ranges, min(options.limit, len(gaps)))
        verified = options.verify and (yield from _verified(path, part, entry))
        modified = _time(wanted, entry, options)
        status = yield from blocking(lambda: part.commit(modified))
        if options.fetched:
            listed = wanted if isinstance(wanted, Entry) else None
            received = _received(wanted, entry)
            options.fetched(Receipt(path, received, local, status, resumed=resumed, verified=verified, listed=listed))
    finally:
        for unfinished in opened:
            if not unfinished.closed:
                unfinished.keep = unfinished.keep and unfinished.size > RANGE
                yield from blocking(unfinished.close)


def _time(wanted: str | Entry, found: Entry | None, options: Options) -> datetime | None:
    """The modification time to set; None for that of the last write."""
    if not isinstance(wanted, Entry):
        return None
    if not options.times:
        # A moment ago, so that the time of a change right after is another one.
        return datetime.now(UTC) - timedelta(seconds=1)
    # A listing may have the time of the upload; the response has the file's own, possibly in whole seconds only.
    if found is None or found.modified is None or _is_in_second(wanted, found):
        return wanted.modified
    return found.modified


def _is_in_second(wanted: Entry, found: Entry) -> bool:
    return wanted.modified is not None and wanted.modified.replace(microsecond=0) == found.modified


def _verified(path: str, part: PartialFile, entry: Entry | None) -> Operation[bool]:
    """Whether the content was compared; raises `WrongDigest` if it is another one."""
    if not part.size:
        return True
    if entry is None or entry.digest is None:
        return False
    if entry.digest != digest_text((yield from blocking(part.sha256))):
        yield from blocking(part.reset)
        raise WrongDigest(
            f"The SHA-256 of {path} differs from the one recorded on the gateway. Download the file again."
        )
    return True


def _received(wanted: str | Entry, found: Entry | None) -> Entry | None:
    """The requested entry as it was downloaded; None if that was certainly another version."""
    if not isinstance(wanted, Entry) or found is None or wanted.size != found.size:
        return None
    modified = wanted.last_modified if _is_in_second(wanted, found) else found.last_modified
    return replace(wanted, etag=found.etag, digest=found.digest, last_modified=modified)


def _first(
    session: AuthSession, path: str, part: PartialFile, meter: Meter, *, digest: bool
) -> Operation[Entry | None]:
    """Download the first range: all of a small file, and the size and ETag of a large one."""
    with open(part.path, "r+b", buffering=0) as file:
        incoming = RangeDownload(path, _writer(file), stop=RANGE, meter=meter, digest=digest)
        try:
            yield from receive(session, incoming)
        except RangeNotSatisfiable:
            return None  # the file is empty
        finally:
            if incoming.entry:
                part.size, part.etag = incoming.entry.size or 0, incoming.etag
                yield from _note(part, 0, incoming.position)
        if incoming.position < part.size and not incoming.etag:
            # Without an ETag, only a single response is sure to be of one version.
            file.seek(0)
            meter.at(0)
            whole = RangeDownload(path, _writer(file), meter=meter, digest=digest)
            entry = yield from receive(session, whole)
            part.size, part.etag = entry.size or 0, None
            part.add(0, whole.position)
            return entry
    return incoming.entry


def _range(session: AuthSession, path: str, part: PartialFile, meter: Meter, start: int, stop: int) -> Operation[None]:
    with open(part.path, "r+b", buffering=0) as file:
        file.seek(start)
        incoming = RangeDownload(path, _writer(file), start, stop, etag=part.etag, meter=meter)
        try:
            yield from receive(session, incoming)
        finally:
            yield from _note(part, start, incoming.position)


def _note(part: PartialFile, start: int, stop: int) -> Operation[None]:
    if part.keep:
        yield from blocking(lambda: part.add(start, stop))
    else:  # nothing is written, so no thread is needed
        part.add(start, stop)


def _writer(file: BinaryIO | FileIO) -> Callable[[Piece], None]:
    def write(piece: Piece) -> None:
        left = piece
        while left:
            taken: int | None = file.write(left)  # a raw stream may write less
            if taken is None and isinstance(file, RawIOBase):
                raise BlockingIOError(EAGAIN, "The stream is not ready for writing; use a blocking stream")
            if taken is None or taken >= len(left):
                return
            left = memoryview(left)[taken:]

    return write


def to_files(
    session: AuthSession, items: Iterable[tuple[str | Entry, str | os.PathLike[str]]], options: Options
) -> Operation[None]:
    failures: dict[str, Exception] = {}

    def job(wanted: str | Entry, local: str | os.PathLike[str]) -> Operation[None]:
        try:
            yield from to_file(session, wanted, local, options)
        except COMMON:
            raise
        except (ClientError, OSError) as error:
            failures[_path(wanted)] = error

    yield Concurrently((job(wanted, local) for wanted, local in items), options.limit)
    if failures:
        raise TransfersFailed(failures)


def _path(wanted: str | Entry) -> str:
    return wanted.path if isinstance(wanted, Entry) else wanted


def _local_target(path: str, local: str | os.PathLike[str]) -> str:
    """The local path. In a folder, the file keeps its name; a path that ends with a slash is created as a folder."""
    name = os.fspath(local)
    if name.endswith("/"):
        os.makedirs(name, exist_ok=True)
    return join(name, split(path)[1]) if name.endswith("/") or os.path.isdir(name) else name
