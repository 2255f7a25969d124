"""ZIP archives of files that are stored, not compressed, written in one pass and without going back.

The checksum of a file is known only after its content, so it follows in a data descriptor. Sizes of 4 GiB and more,
and more than 65,535 entries, use the ZIP64 records. (APPNOTE.TXT 6.3.10: 4.3.7, 4.3.9, 4.3.12 and 4.3.14 to 4.3.16.)
"""

import struct
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from zlib import compressobj, crc32, decompressobj

_LOCAL = struct.Struct("<4sHHHHHLLLHH")
_DESCRIPTOR = struct.Struct("<4sLLL")
_DESCRIPTOR64 = struct.Struct("<4sLQQ")
_CENTRAL = struct.Struct("<4sHHHHHHLLLHHHHHLL")
_END = struct.Struct("<4sHHHHLLH")
_END64 = struct.Struct("<4sQHHLLQQQQ")
_LOCATOR64 = struct.Struct("<4sLQL")
_TIME = struct.Struct("<HHBL")

_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF
"""In a field: see the ZIP64 record."""
_PLAIN, _ZIP64 = 20, 45
"""The version of the format that a reader needs."""
_MADE_BY_UNIX = 3 << 8
_UTF8, _DESCRIBED = 1 << 11, 1 << 3
_FILE_MODE, _FOLDER_MODE = 0o100644, 0o40755
_FOLDER_ATTRIBUTE = 0x10  # of MS-DOS
_FIRST_YEAR, _LAST_YEAR = 1980, 2107
_QUICK = 1
"""Level of compression."""
_SLICE = 256 * 1024


class ZipWriter:
    """Each method returns what is to be sent next. An entry is begun, fed with its content, and ended."""

    def __init__(self) -> None:
        self._offset = 0
        self._entries = 0
        self._directory_length = 0
        self._directory: deque[bytes] = deque()
        """Compressed, because it is kept until the end: its names have the folders above them in common."""
        self._packer = compressobj(_QUICK)
        self.held = 0
        """Bytes of memory that the directory takes so far."""
        self._name = b""
        self._size = self._seen = self._checksum = 0
        self._modified: datetime | None = None

    def folder(self, name: str, modified: datetime | None = None) -> bytes:
        encoded = name.encode() + b"/"
        header = _local_header(encoded, 0, modified)
        self._record(encoded, 0, 0, modified, _FOLDER_MODE << 16 | _FOLDER_ATTRIBUTE)
        self._offset += len(header)
        return header

    def file(self, name: str, content: bytes, checksum: int, modified: datetime | None = None) -> list[bytes]:
        """A whole file whose checksum is known."""
        header = self.begin(name, len(content), modified)
        self._seen, self._checksum = len(content), checksum
        return [header, content, self.end()]

    def begin(self, name: str, size: int, modified: datetime | None = None) -> bytes:
        """A file of exactly `size` bytes."""
        self._name, self._size, self._modified = name.encode(), size, modified
        self._seen = self._checksum = 0
        return _local_header(self._name, size, modified, described=True)

    def feed(self, chunk: bytes) -> None:
        """Note a part of the content, which goes into the archive as it is."""
        self._seen += len(chunk)
        self._checksum = crc32(chunk, self._checksum)

    def end(self) -> bytes:
        """`ValueError` if the content was not as long as announced."""
        if self._seen != self._size:
            raise ValueError(f"{self._seen} bytes instead of {self._size}")
        size, checksum = self._size, self._checksum
        record = _DESCRIPTOR64 if _is_large(size) else _DESCRIPTOR
        self._record(self._name, size, checksum, self._modified, _FILE_MODE << 16, described=True)
        local = _local_length(self._name, size, timed=self._modified is not None)
        self._offset += local + size + record.size
        return record.pack(b"PK\x07\x08", checksum, size, size)

    def finish(self) -> Iterator[bytes]:
        """The directory, which ends the archive, in slices."""
        self._keep(self._packer.flush())
        unpacker = decompressobj()
        while self._directory:
            packed = self._directory.popleft()
            while packed:
                yield unpacker.decompress(packed, _SLICE)
                packed = unpacker.unconsumed_tail
        yield unpacker.flush() + self._end()

    def _end(self) -> bytes:
        start, length, entries = self._offset, self._directory_length, self._entries
        end = bytearray()
        if _needs_end64(start, length, entries):
            end += _END64.pack(b"PK\x06\x06", _END64.size - 12, _ZIP64, _ZIP64, 0, 0, entries, entries, length, start)
            end += _LOCATOR64.pack(b"PK\x06\x07", 0, start + length, 1)
        few = min(entries, _FULL16)
        end += _END.pack(b"PK\x05\x06", 0, 0, few, few, min(length, _FULL32), min(start, _FULL32), 0)
        return bytes(end)

    def _keep(self, packed: bytes) -> None:
        if packed:
            self._directory.append(packed)
            self.held += len(packed)

    def _record(
        self,
        name: bytes,
        size: int,
        checksum: int,
        modified: datetime | None,
        attributes: int,
        *,
        described: bool = False,
    ) -> None:
        large = [value for value in (size, size, self._offset) if _is_large(value)]
        extra = _zip64_field(large) + _time_field(modified)
        record = _CENTRAL.pack(
            b"PK\x01\x02",
            _MADE_BY_UNIX | _ZIP64,
            _ZIP64 if large else _PLAIN,
            _UTF8 | (_DESCRIBED if described else 0),
            0,
            *_dos_time(modified),
            checksum,
            min(size, _FULL32),
            min(size, _FULL32),
            len(name),
            len(extra),
            0,
            0,
            0,
            attributes,
            min(self._offset, _FULL32),
        )
        self._keep(self._packer.compress(record + name + extra))
        self._directory_length += len(record) + len(name) + len(extra)
        self._entries += 1


class ZipSize:
    """How long an archive becomes, from the names and sizes of what will be in it."""

    def __init__(self) -> None:
        self._offset = self._directory = self._entries = 0

    def add_folder(self, name: str, *, timed: bool) -> None:
        encoded = name.encode() + b"/"
        self._add(encoded, 0, 0, timed=timed)

    def add_file(self, name: str, size: int, *, timed: bool) -> None:
        encoded = name.encode()
        record = _DESCRIPTOR64 if _is_large(size) else _DESCRIPTOR
        self._add(encoded, size, size + record.size, timed=timed)

    @property
    def total(self) -> int:
        end = _END.size
        if _needs_end64(self._offset, self._directory, self._entries):
            end += _END64.size + _LOCATOR64.size
        return self._offset + self._directory + end

    def _add(self, name: bytes, size: int, content: int, *, timed: bool) -> None:
        large = 2 * _is_large(size) + _is_large(self._offset)
        extra = (4 + 8 * large if large else 0) + (_TIME.size if timed else 0)
        self._directory += _CENTRAL.size + len(name) + extra
        self._offset += _local_length(name, size, timed=timed) + content
        self._entries += 1


def _local_header(name: bytes, size: int, modified: datetime | None, *, described: bool = False) -> bytes:
    # The sizes of a described file are in its descriptor; the ZIP64 field says how wide they are there.
    large = _is_large(size)
    extra = (_zip64_field([0, 0]) if large else b"") + _time_field(modified)
    length = _FULL32 if large else 0
    header = _LOCAL.pack(
        b"PK\x03\x04",
        _ZIP64 if large else _PLAIN,
        _UTF8 | (_DESCRIBED if described else 0),
        0,
        *_dos_time(modified),
        0,
        length,
        length,
        len(name),
        len(extra),
    )
    return header + name + extra


def _local_length(name: bytes, size: int, *, timed: bool) -> int:
    return _LOCAL.size + len(name) + (20 if _is_large(size) else 0) + (_TIME.size if timed else 0)


def _is_large(value: int) -> bool:
    return value >= _FULL32


def _needs_end64(start: int, length: int, entries: int) -> bool:
    return _is_large(start) or _is_large(length) or entries >= _FULL16


def _zip64_field(values: list[int]) -> bytes:
    return struct.pack(f"<HH{len(values)}Q", 1, 8 * len(values), *values) if values else b""


def _time_field(modified: datetime | None) -> bytes:
    """Seconds since 1970 (Info-ZIP's extended timestamp): the format's own times have no zone."""
    if modified is None:
        return b""
    return _TIME.pack(0x5455, 5, 1, min(max(int(modified.timestamp()), 0), _FULL32))


def _dos_time(modified: datetime | None) -> tuple[int, int]:
    moment = (modified or datetime(_FIRST_YEAR, 1, 1, tzinfo=UTC)).astimezone(UTC)
    if moment.year < _FIRST_YEAR:
        return 0, 1 << 5 | 1
    year = min(moment.year, _LAST_YEAR)
    time = moment.hour << 11 | moment.minute << 5 | moment.second // 2
    return time, (year - _FIRST_YEAR) << 9 | moment.month << 5 | moment.day
