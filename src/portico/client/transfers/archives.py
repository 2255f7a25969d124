"""Downloads of folders, or of several files and folders, as one ZIP.

The gateway makes the archive while it sends it, so it cannot be resumed. If it arrives in full, it is complete.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from portico.client.auth.session import AuthSession, json_request
from portico.client.errors import Temporary
from portico.client.http.effects import Operation, Piece, Request, Response, blocking
from portico.client.paths import clean, target
from portico.client.transfers.partial_file import PartialFile
from portico.client.transfers.progress import Meter, Progress


@dataclass(slots=True)
class _ArchiveDownload:
    take: Callable[[Piece], object]
    meter: Meter
    received: int = 0
    blocking: bool = True

    def begin(self, response: Response) -> None:
        length = response.headers.get("content-length", "")
        self.meter.total = int(length) if length.isdecimal() else None

    def write(self, piece: Piece) -> None:
        self.take(piece)
        self.received += len(piece)
        self.meter.add(len(piece))


def to_stream(
    session: AuthSession, folder: str, paths: Sequence[str], stream: BinaryIO, progress: Progress | None
) -> Operation[int]:
    """Returns how many bytes were written. Retried only until the first of them."""
    folder = clean(folder)
    place = target(folder, action="ZIP")
    request = json_request("POST", place, {"paths": list(paths)}) if paths else Request("GET", place)
    incoming = request.sink = _ArchiveDownload(stream.write, Meter(folder, None, progress))
    backoff = session.backoff()
    while True:
        try:
            yield from session.request_once(request)
            return incoming.received
        except Temporary as error:
            if incoming.received:
                raise
            yield from backoff.wait(error)


def to_file(
    session: AuthSession, folder: str, paths: Sequence[str], place: str | os.PathLike[str], progress: Progress | None
) -> Operation[None]:
    """The local file appears only when it is complete."""
    local = os.fspath(place)
    opened: list[PartialFile] = []  # a list, so that it is closed even if the caller is cancelled meanwhile
    try:
        yield from blocking(lambda: opened.append(PartialFile(local, keep=False)))
        part = opened[0]
        with open(part.path, "r+b", buffering=0) as file:
            part.size = yield from to_stream(session, folder, paths, file, progress)
        yield from blocking(part.commit)
    finally:
        for unfinished in opened:
            if not unfinished.closed:
                yield from blocking(unfinished.close)
