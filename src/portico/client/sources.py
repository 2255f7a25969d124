"""What can be uploaded: local files, bytes, streams."""

import io
import os
from collections.abc import Iterable, Iterator
from typing import BinaryIO, cast

from portico.client.errors import InvalidRequest, SourceChanged
from portico.client.steps import Piece

Uploadable = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | Iterable[bytes]
"""A local path, the content itself, a file that is open for reading bytes, or chunks of bytes."""

_CHUNK = 256 * 1024


class Content:
    """Bytes that are at hand."""

    replayable = True
    slow = False

    def __init__(self, content: bytes | bytearray | memoryview) -> None:
        self._content = memoryview(content).cast("B")
        self.size: int | None = len(self._content)

    def chunks(self) -> Iterator[Piece]:
        for start in range(0, len(self._content), _CHUNK):
            yield self._content[start : start + _CHUNK]

    def read(self) -> "Content":
        return self


class LocalFile:
    """A file by its path, as long as it was when it was named."""

    replayable = True
    slow = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.size: int | None = os.stat(path).st_size

    def chunks(self) -> Iterator[Piece]:
        with open(self.path, "rb", buffering=0) as file:
            yield from _exactly(file, self.size or 0, self.path)

    def read(self) -> Content:
        """The whole of a small file, as long as it is now."""
        with open(self.path, "rb") as file:
            return Content(file.read())


class Stream:
    """What is still to be read of an open file; it can be sent again only if it can be wound back."""

    slow = True

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._begun = False
        self.size: int | None = None
        self._start = None
        if file.seekable():
            self._start = file.tell()
            self.size = file.seek(0, io.SEEK_END) - self._start
            file.seek(self._start)

    @property
    def replayable(self) -> bool:
        return self._start is not None or not self._begun

    def chunks(self) -> Iterator[Piece]:
        self._begun = True
        if self._start is not None and self.size is not None:
            self._file.seek(self._start)
            yield from _exactly(self._file, self.size, "The stream")
        else:
            while chunk := self._file.read(_CHUNK):
                yield chunk

    def read(self) -> Content:
        return Content(b"".join(self.chunks()))


class Chunks:
    """Bytes as they are made; they come once."""

    slow = True
    size: int | None = None

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self._begun = False

    @property
    def replayable(self) -> bool:
        return not self._begun

    def chunks(self) -> Iterator[Piece]:
        self._begun = True
        for chunk in self._chunks:
            yield from Content(chunk).chunks()

    def read(self) -> Content:
        return Content(b"".join(self.chunks()))


Source = Content | LocalFile | Stream | Chunks


def source_of(given: Uploadable) -> Source:
    """`OSError` if it is a path, and there is no such file."""
    if isinstance(given, str | os.PathLike):
        return LocalFile(given)
    if isinstance(given, bytes | bytearray | memoryview):
        return Content(given)
    if hasattr(given, "read"):
        if isinstance(given, io.TextIOBase):
            raise InvalidRequest("The stream gives text; open it for reading bytes, with mode 'rb'.")
        return Stream(cast("BinaryIO", given))
    return Chunks(given)


def _exactly(file: BinaryIO | io.FileIO, size: int, name: str) -> Iterator[Piece]:
    """So many bytes, and then the file's end: what changes while it is sent must not be stored as if it were whole."""
    left = size
    while left:
        chunk = file.read(min(_CHUNK, left))
        if not chunk:
            raise SourceChanged(
                f"{name} ended {left} bytes before its size of {size}; it was not stored. Send it again."
            )
        left -= len(chunk)
        yield chunk
    if file.read(1):
        raise SourceChanged(
            f"{name} has grown beyond {size} bytes while it was sent; it was not stored. Send it again."
        )
