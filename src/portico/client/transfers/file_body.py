"""The body of a `PUT`: the file itself."""

import hashlib
from collections.abc import Iterator

from portico.client.http.effects import Piece
from portico.client.transfers.multipart import UploadItem
from portico.client.transfers.progress import Meter


class FileBody:
    def __init__(self, file: UploadItem, meter: Meter | None = None, *, hashed: bool = False) -> None:
        """With `hashed`, the SHA-256 is computed while it is sent, for the file's `sha256`."""
        self._file = file
        self._meter = meter
        self._hashed = hashed
        self.closed = False
        """Whether the end was sent: from then on the gateway may have stored the file."""

    @property
    def length(self) -> int | None:
        return self._file.source.size

    @property
    def replayable(self) -> bool:
        return self._file.source.replayable

    @property
    def blocking(self) -> bool:
        return self._file.source.blocking

    def __iter__(self) -> Iterator[Piece]:
        """The last piece follows only when the source has ended well: with it, the gateway stores the file."""
        file, meter = self._file, self._meter
        digest = hashlib.sha256() if self._hashed else None
        self.closed, file.sent = False, 0
        if meter:
            meter.at(0)
        held: Piece = b""
        for chunk in file.source.chunks():
            if held:
                yield held
            if meter:
                meter.add(len(held))
            if digest:
                digest.update(chunk)
            file.sent += len(chunk)
            held = chunk
        if digest:
            file.sha256 = digest.digest()
        self.closed = True
        if held:
            yield held
        if meter:
            meter.add(len(held))
