"""Fetching files: into a local file, a stream or memory.

A connection that breaks is no reason to begin again: the rest is asked for, of the same version of the file. If there
is another version by then, that is `Changed`.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from errno import EAGAIN
from io import FileIO, RawIOBase
from typing import BinaryIO

from portico.client import files
from portico.client.entries import Entry
from portico.client.errors import (
    COMMON,
    ClientError,
    NotAGateway,
    RangeNotSatisfiable,
    Temporary,
    TransfersFailed,
)
from portico.client.parts import Part
from portico.client.paths import clean, join, split, target
from portico.client.progress import Meter, Progress
from portico.client.receipts import Receipt, Received
from portico.client.session import Session
from portico.client.steps import Answer, Ask, Piece, Steps, Together, work

RANGE = 16 * 1024 * 1024
"""Larger files are fetched in ranges of this size, several at once."""


@dataclass(frozen=True, slots=True)
class Options:
    resume: bool
    progress: Progress | None
    limit: int
    """How many requests run at once."""
    fetched: Received | None = None


class Incoming:
    """The bytes `start` up to `stop` of a file, as they arrive; to its end if `stop` is None."""

    def __init__(
        self,
        path: str,
        write: Callable[[Piece], object],
        *,
        start: int = 0,
        stop: int | None = None,
        etag: str | None = None,
        meter: Meter | None = None,
        slow: bool = True,
    ) -> None:
        self._path = path
        self._write = write
        self._meter = meter
        self.position = start
        self.stop = stop
        self.etag = etag
        self.slow = slow
        self.entry: Entry | None = None

    def request(self) -> Ask:
        headers = {}
        if self.position or self.stop is not None:
            last = "" if self.stop is None else self.stop - 1
            headers["Range"] = f"bytes={self.position}-{last}"
        if self.etag:
            headers["If-Match"] = self.etag
        return Ask("GET", target(self._path, action="DOWNLOAD"), headers, sink=self)

    def begin(self, answer: Answer) -> None:
        entry = files.described(self._path, answer)
        span = answer.headers.get("content-range", "") if answer.status == 206 else "bytes 0-"
        if entry.size is None or not span.startswith(f"bytes {self.position}-"):
            raise NotAGateway(
                f"The answer is not the part of {self._path} that was asked for.", status=answer.status
            )
        if self.entry is None:
            self.entry = entry
            self.etag = self.etag or entry.etag
            self.stop = entry.size if self.stop is None else min(self.stop, entry.size)
            if self._meter and self._meter.total is None:
                self._meter.total = entry.size
        if answer.status == 200:
            self.stop = entry.size

    def write(self, piece: Piece) -> None:
        self._write(piece)
        self.position += len(piece)
        if self._meter:
            self._meter.add(len(piece))


def receive(session: Session, incoming: Incoming) -> Steps[Entry]:
    """Fetch it all, over as many connections as that takes; what the first answer said of the file."""
    patience = session.patience()
    while True:
        before = incoming.position
        try:
            yield from session.signed(incoming.request())
            assert incoming.entry is not None
            if incoming.position == incoming.stop:
                return incoming.entry
            if incoming.position == before:
                raise NotAGateway("The answer holds nothing of what was asked for.")
        except Temporary as error:
            if incoming.position > before:
                patience.renew()
            if incoming.entry and not incoming.etag and incoming.position:
                raise  # without a version to name, the rest could be another file's
            if incoming.entry and incoming.position == incoming.stop:
                return incoming.entry
            yield from patience.after(error)


def read(session: Session, path: str, start: int, stop: int | None, etag: str | None) -> Steps[bytes]:
    if start < 0 or (stop is not None and stop < 0):
        raise ValueError("the range begins or ends before the file")
    if stop is not None and stop <= start:
        return b""
    content = bytearray()
    try:
        incoming = Incoming(clean(path), content.extend, start=start, stop=stop, etag=etag, slow=False)
        yield from receive(session, incoming)
    except RangeNotSatisfiable:
        return b""  # it begins behind the end, as a slice may
    return bytes(content)


def to_stream(
    session: Session, wanted: str | Entry, stream: BinaryIO, progress: Progress | None
) -> Steps[Entry]:
    path = clean(_path(wanted))
    meter = Meter(path, None, progress)
    return (yield from receive(session, Incoming(path, _writer(stream), meter=meter)))


def to_file(
    session: Session, wanted: str | Entry, place: str | os.PathLike[str], options: Options
) -> Steps[None]:
    """Fetch a file to a path, or into a folder. That of an entry gets the entry's time."""
    path = clean(_path(wanted))
    modified = wanted.modified if isinstance(wanted, Entry) else None
    local = yield from work(lambda: _local_target(path, place))
    made: list[Part] = []  # so that it is known even if the caller is cancelled while it is made
    try:
        yield from work(lambda: made.append(Part(local, keep=options.resume)))
        part = made[0]
        entry: Entry | None = None
        if part.etag:
            entry = yield from files.head(session, path)
            if (entry.etag, entry.size) != (part.etag, part.size):
                yield from work(part.reset)
        meter = Meter(path, part.size if part.etag else None, options.progress)
        meter.at(part.received)
        if not part.etag:
            entry = yield from _first(session, path, part, meter)
        gaps = list(part.gaps(RANGE))
        ranges = (_range(session, path, part, meter, start, stop) for start, stop in gaps)
        yield Together(ranges, min(options.limit, len(gaps)))
        status = yield from work(lambda: part.commit(modified))
        if options.fetched:
            options.fetched(Receipt(path, _same_version(wanted, entry), local, status))
    finally:
        for unfinished in made:
            if not unfinished.closed:
                yield from work(unfinished.close)


def _same_version(wanted: str | Entry, found: Entry | None) -> Entry | None:
    """The entry that was asked for, with its etag; None if it is not what was found, which only names the second."""
    if not isinstance(wanted, Entry) or found is None or wanted.size != found.size:
        return None
    if wanted.modified is None or wanted.modified.replace(microsecond=0) != found.modified:
        return None
    return replace(wanted, etag=found.etag)


def _first(session: Session, path: str, part: Part, meter: Meter) -> Steps[Entry | None]:
    """The beginning, which is all of a small file, and tells of a large one what to ask for."""
    with open(part.path, "r+b", buffering=0) as file:
        incoming = Incoming(path, _writer(file), stop=RANGE, meter=meter)
        try:
            yield from receive(session, incoming)
        except RangeNotSatisfiable:
            return None  # there is nothing in it
        finally:
            if incoming.entry:
                part.begin(incoming.entry.size or 0, incoming.etag)
                yield from _note(part, 0, incoming.position)
        if incoming.position < part.size and not incoming.etag:
            # Without a version to name, only one answer is sure to be of one version.
            file.seek(0)
            meter.at(0)
            whole = Incoming(path, _writer(file), meter=meter)
            entry = yield from receive(session, whole)
            part.begin(entry.size or 0, None)
            part.add(0, whole.position)
            return entry
    return incoming.entry


def _range(session: Session, path: str, part: Part, meter: Meter, start: int, stop: int) -> Steps[None]:
    with open(part.path, "r+b", buffering=0) as file:
        file.seek(start)
        incoming = Incoming(path, _writer(file), start=start, stop=stop, etag=part.etag, meter=meter)
        try:
            yield from receive(session, incoming)
        finally:
            yield from _note(part, start, incoming.position)


def _note(part: Part, start: int, stop: int) -> Steps[None]:
    if part.keep:
        yield from work(lambda: part.add(start, stop))
    else:
        part.add(start, stop)


def _writer(file: BinaryIO | FileIO) -> Callable[[Piece], None]:
    def write(piece: Piece) -> None:
        left = piece
        while left:
            taken: int | None = file.write(left)  # what has no buffer may take less than all
            if taken is None and isinstance(file, RawIOBase):
                raise BlockingIOError(
                    EAGAIN, "The stream takes nothing in; it must not be a non-blocking one"
                )
            if taken is None or taken >= len(left):
                return
            left = memoryview(left)[taken:]

    return write


def to_files(
    session: Session, items: Iterable[tuple[str | Entry, str | os.PathLike[str]]], options: Options
) -> Steps[None]:
    failures: dict[str, Exception] = {}

    def job(wanted: str | Entry, local: str | os.PathLike[str]) -> Steps[None]:
        try:
            yield from to_file(session, wanted, local, options)
        except COMMON:
            raise
        except (ClientError, OSError) as error:
            failures[_path(wanted)] = error

    yield Together((job(wanted, local) for wanted, local in items), options.limit)
    if failures:
        raise TransfersFailed(failures)


def _path(wanted: str | Entry) -> str:
    return wanted.path if isinstance(wanted, Entry) else wanted


def _local_target(path: str, local: str | os.PathLike[str]) -> str:
    """A folder takes the file under its own name, and so does what ends with a slash; that is made if need be."""
    name = os.fspath(local)
    if name.endswith("/"):
        os.makedirs(name, exist_ok=True)
    return join(name, split(path)[1]) if name.endswith("/") or os.path.isdir(name) else name
