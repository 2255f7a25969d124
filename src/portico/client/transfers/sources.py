"""Sources of uploads: local files, bytes, streams and iterables."""

import hashlib
import io
import os
import stat
import time
from collections.abc import Iterable, Iterator
from typing import BinaryIO, cast

from portico.client.errors import InvalidRequest, SourceChanged
from portico.client.http.effects import Piece

Uploadable = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | Iterable[bytes]
"""A local path, bytes, a binary file opened for reading, or an iterable of bytes."""

_CHUNK = 256 * 1024


class BytesSource:
    replayable = True
    blocking = False
    path: str | None = None
    status: os.stat_result | None = None
    modified_ns: int | None = None

    def __init__(self, content: bytes | bytearray | memoryview) -> None:
        self._content = memoryview(content).cast("B")
        self.size: int | None = len(self._content)

    def chunks(self) -> Iterator[Piece]:
        for start in range(0, len(self._content), _CHUNK):
            yield self._content[start : start + _CHUNK]

    @property
    def sha256(self) -> bytes:
        return hashlib.sha256(self._content).digest()

    def part(self, start: int, size: int) -> Iterator[Piece]:
        """A part of the content; `SourceChanged` is raised before its end if the source has changed."""
        yield from BytesSource(self._content[start : start + size]).chunks()

    def read(self) -> "BytesSource":
        return self

    def refreshed(self) -> "BytesSource":
        """The source for a retry."""
        return self


class FileSource:
    """A local file, with the size it has at construction.

    The size is None for pipes, devices and kernel files such as those in /proc.
    """

    blocking = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.status: os.stat_result | None = None
        """The file when it was last read; None if a change right after might not be detectable."""
        status = os.stat(path)
        self.size: int | None = status.st_size
        self._version = _version_of(status)
        self.modified_ns: int | None = status.st_mtime_ns
        self.version = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        """Another one after any change, also if tools have set the modification time back."""
        self._once = not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode))
        self._begun = False
        if self._once or (stat.S_ISREG(status.st_mode) and not status.st_size and _has_bytes(self.path)):
            self.size = self.modified_ns = None

    @property
    def replayable(self) -> bool:
        return not (self._once and self._begun)

    def chunks(self) -> Iterator[Piece]:
        self._begun = True
        with open(self.path, "rb", buffering=0) as file:
            if self.size is None:
                yield from _all(file)
            else:
                self.status = stable_status(os.fstat(file.fileno()))
                yield from _exactly(file, self.size, self.path)

    def part(self, start: int, size: int) -> Iterator[Piece]:
        with open(self.path, "rb", buffering=0) as file:
            self.status = stable_status(os.fstat(file.fileno()))
            file.seek(start)
            yield from _unchanged(file, size, self._version, self.path)

    def refreshed(self) -> "FileSource":
        """Another source if the file has changed, so that a retry is not taken for the same request."""
        return self if _version_of(os.stat(self.path)) == self._version else FileSource(self.path)

    def read(self) -> BytesSource:
        with open(self.path, "rb") as file:
            status = os.fstat(file.fileno())
            sure = stable_status(status)
            content = file.read()
            if _version(file) != _version_of(status):
                raise _modified(self.path)
        return SnapshotSource(self.path, content, _version_of(status), sure)


class SnapshotSource(BytesSource):
    def __init__(self, path: str, content: bytes, version: "_Version", status: os.stat_result | None) -> None:
        super().__init__(content)
        self.path = self._path = path
        self.status = status
        self.modified_ns = version[2]
        self._version = version

    def refreshed(self) -> BytesSource:
        """Read the file again if it has changed, so that a retry does not store old content."""
        status = os.stat(self._path)
        return self if _version_of(status) == self._version else FileSource(self._path).read()


class IterableSource:
    """An iterable of bytes, which can be read only once."""

    blocking = True
    size: int | None = None
    path: str | None = None
    status: os.stat_result | None = None
    modified_ns: int | None = None

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self._begun = False

    @property
    def replayable(self) -> bool:
        return not self._begun

    def chunks(self) -> Iterator[Piece]:
        self._begun = True
        for chunk in self._chunks:
            yield from BytesSource(chunk).chunks()

    def read(self) -> BytesSource:
        return BytesSource(b"".join(self.chunks()))


class StreamSource(IterableSource):
    """The rest of an open file. It is replayable if the file is seekable."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(_all(file))
        self._file = file
        self._start = None
        self._version = _version(file)
        if file.seekable():
            self._start = file.tell()
            self.size = file.seek(0, io.SEEK_END) - self._start
            file.seek(self._start)

    @property
    def replayable(self) -> bool:
        return self._start is not None or not self._begun

    def chunks(self) -> Iterator[Piece]:
        if self._start is None or self.size is None:
            yield from super().chunks()
        else:
            self._file.seek(self._start)
            yield from _exactly(self._file, self.size, "The stream")

    def part(self, start: int, size: int) -> Iterator[Piece]:
        assert self._start is not None, "only a seekable stream has parts"
        self._file.seek(self._start + start)
        yield from _unchanged(self._file, size, self._version, "The stream")


Source = BytesSource | FileSource | StreamSource | IterableSource


def source_of(given: Uploadable) -> Source:
    """Raises `OSError` for a path that does not exist."""
    if isinstance(given, str | os.PathLike):
        return FileSource(given)
    if isinstance(given, bytes | bytearray | memoryview):
        return BytesSource(given)
    if hasattr(given, "read"):
        if isinstance(given, io.TextIOBase):
            raise InvalidRequest("The stream is a text stream; open it in binary mode, with 'rb'.")
        return StreamSource(cast("BinaryIO", given))
    return IterableSource(given)


_Version = tuple[int, int, int]


_TICK = 20_000_000
_COARSE = 2_000_000_000
"""The resolution of file times in nanoseconds: that of the kernel's clock, and that of FAT."""


def stable_status(status: os.stat_result) -> os.stat_result | None:
    """The status; None if the file was written just now, since another write might leave its time unchanged."""
    step = _TICK if status.st_mtime_ns % 1_000_000_000 else _COARSE
    return status if abs(time.time_ns() - status.st_mtime_ns) > step else None


def _version_of(status: os.stat_result) -> _Version:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _version(file: BinaryIO | io.FileIO) -> _Version | None:
    """Changes when the file is written to; None if there is no local file."""
    # Other streams may have a descriptor too, but `fileno` can have side effects.
    if isinstance(file, io.FileIO | io.BufferedReader | io.BufferedRandom):
        return _version_of(os.fstat(file.fileno()))
    return None


def _has_bytes(path: str) -> bool:
    """Whether a file of size 0 has content."""
    with open(path, "rb", buffering=0) as file:
        return bool(file.read(1)) and not os.fstat(file.fileno()).st_size


def _all(file: BinaryIO | io.FileIO) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


def _modified(name: str) -> SourceChanged:
    return SourceChanged(f"{name} changed during the upload and was not stored; upload it again.")


def _exactly(file: BinaryIO | io.FileIO, size: int, name: str) -> Iterator[Piece]:
    """Read exactly `size` bytes, and raise `SourceChanged` if the file changes meanwhile."""
    before = _version(file)
    left = size
    while left:
        chunk = file.read(min(_CHUNK, left))
        if not chunk:
            raise SourceChanged(
                f"{name} ended {left} bytes before its size of {size} and was not stored; upload it again."
            )
        left -= len(chunk)
        yield chunk
    if file.read(1):
        raise SourceChanged(f"{name} grew beyond {size} bytes during the upload and was not stored; upload it again.")
    if _version(file) != before:
        raise _modified(name)


def _unchanged(file: BinaryIO | io.FileIO, size: int, version: _Version | None, name: str) -> Iterator[Piece]:
    """Read `size` bytes. Before the last of them, raise `SourceChanged` if the file is not this version."""
    left = size
    while left:
        chunk = file.read(min(_CHUNK, left))
        left -= len(chunk)
        if not chunk or (not left and _version(file) != version):
            raise _modified(name)
        yield chunk
