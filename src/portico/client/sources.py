"""What can be uploaded: local files, bytes, streams."""

import io
import os
import stat
import time
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
    path: str | None = None
    status: os.stat_result | None = None

    def __init__(self, content: bytes | bytearray | memoryview) -> None:
        self._content = memoryview(content).cast("B")
        self.size: int | None = len(self._content)

    def chunks(self) -> Iterator[Piece]:
        for start in range(0, len(self._content), _CHUNK):
            yield self._content[start : start + _CHUNK]

    def read(self) -> "Content":
        return self

    def again(self) -> "Content":
        """What is to be sent after a failure."""
        return self


class LocalFile:
    """A file by its path, as long as it was when it was named.

    What tells its size only by being read, such as a pipe or a file of the kernel's, has none.
    """

    slow = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.status: os.stat_result | None = None
        """The file as it was when it was last read; None if a change right after that might not show."""
        status = os.stat(path)
        self.size: int | None = status.st_size
        self._once = not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode))
        self._begun = False
        if self._once or (stat.S_ISREG(status.st_mode) and not status.st_size and _is_endowed(self.path)):
            self.size = None

    @property
    def replayable(self) -> bool:
        return not (self._once and self._begun)

    def chunks(self) -> Iterator[Piece]:
        self._begun = True
        with open(self.path, "rb", buffering=0) as file:
            if self.size is None:
                yield from _all(file)
            else:
                self.status = settled(os.fstat(file.fileno()))
                yield from _exactly(file, self.size, self.path)

    def read(self) -> Content:
        """The whole of a small file, as long as it is now."""
        with open(self.path, "rb") as file:
            status = os.fstat(file.fileno())
            sure = settled(status)
            content = file.read()
            if _version(file) != _version_of(status):
                raise _rewritten(self.path)
        return Snapshot(self.path, content, _version_of(status), sure)


class Snapshot(Content):
    """The content of a local file, as it was at one moment."""

    def __init__(self, path: str, content: bytes, version: "_Version", status: os.stat_result | None) -> None:
        super().__init__(content)
        self.path = self._path = path
        self.status = status
        self._version = version

    def again(self) -> Content:
        """The file as it is now: what is stored later must not be older than the file is by then."""
        status = os.stat(self._path)
        return self if _version_of(status) == self._version else LocalFile(self._path).read()


class Stream:
    """What is still to be read of an open file; it can be sent again only if it can be wound back."""

    slow = True
    path: str | None = None
    status: os.stat_result | None = None

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
            yield from _all(self._file)

    def read(self) -> Content:
        return Content(b"".join(self.chunks()))


class Chunks:
    """Bytes as they are made; they come once."""

    slow = True
    size: int | None = None
    path: str | None = None
    status: os.stat_result | None = None

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


_Version = tuple[int, int, int]


_TICK = 20_000_000
_COARSE = 2_000_000_000
"""Nanoseconds between two times that file systems keep: those of the kernel's clock, and those of FAT."""


def settled(status: os.stat_result) -> os.stat_result | None:
    """The status, unless the file was written to just now: a second change might then leave its time as it is."""
    step = _TICK if status.st_mtime_ns % 1_000_000_000 else _COARSE
    return status if abs(time.time_ns() - status.st_mtime_ns) > step else None


def _version_of(status: os.stat_result) -> _Version:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _version(file: BinaryIO | io.FileIO) -> _Version | None:
    """Differs when the file behind it was written to; None if there is none."""
    # Others may have a descriptor too, but asking for it can have effects.
    if isinstance(file, io.FileIO | io.BufferedReader | io.BufferedRandom):
        return _version_of(os.fstat(file.fileno()))
    return None


def _is_endowed(path: str) -> bool:
    """Whether there are bytes in a file that says it is empty."""
    with open(path, "rb", buffering=0) as file:
        return bool(file.read(1)) and not os.fstat(file.fileno()).st_size


def _all(file: BinaryIO | io.FileIO) -> Iterator[Piece]:
    while chunk := file.read(_CHUNK):
        yield chunk


def _rewritten(name: str) -> SourceChanged:
    return SourceChanged(f"{name} was written to while it was sent; it was not stored. Send it again.")


def _exactly(file: BinaryIO | io.FileIO, size: int, name: str) -> Iterator[Piece]:
    """So many bytes, and then the file's end: what changes while it is sent must not be stored as if it were whole."""
    before = _version(file)
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
    if _version(file) != before:
        raise _rewritten(name)
