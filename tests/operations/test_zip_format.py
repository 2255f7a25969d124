import io
import zipfile
from datetime import UTC, datetime

import pytest

from portico.operations.files.zip_format import ZipSize, ZipWriter

MOMENT = datetime(2026, 11, 17, 9, 30, 20, tzinfo=UTC)
LARGE = 5 * 2**30
_CHUNK = bytes(2**20)


def archive(files: dict[str, bytes], modified: datetime | None = MOMENT) -> bytes:
    writer, size, out = ZipWriter(), ZipSize(), bytearray()
    timed = modified is not None
    for name, content in files.items():
        if name.endswith("/"):
            out += writer.folder(name[:-1], modified)
            size.add_folder(name[:-1], timed=timed)
            continue
        out += writer.begin(name, len(content), modified)
        for start in range(0, len(content), 10):
            writer.feed(content[start : start + 10])
        out += content
        out += writer.end()
        size.add_file(name, len(content), timed=timed)
    out += b"".join(writer.finish())
    assert size.total == len(out)
    return bytes(out)


@pytest.mark.parametrize("modified", [MOMENT, None])
def test_names_content_and_times_survive(modified: datetime | None) -> None:
    files = {"a/": b"", "a/b.txt": b"content " * 9, "日本/ünï –𝄞.bin": bytes(range(256)), "empty": b""}
    with zipfile.ZipFile(io.BytesIO(archive(files, modified))) as opened:
        assert opened.testzip() is None
        assert {info.filename: opened.read(info) for info in opened.infolist()} == files
        times = {info.date_time for info in opened.infolist()}
        assert times == {(2026, 11, 17, 9, 30, 20) if modified else (1980, 1, 1, 0, 0, 0)}
        assert [info.is_dir() for info in opened.infolist()] == [True, False, False, False]


@pytest.mark.parametrize("year", [1601, 1979, 2108, 9999])
def test_a_time_that_the_format_cannot_hold(year: int) -> None:
    made = archive({"a": b"1"}, MOMENT.replace(year=year))
    with zipfile.ZipFile(io.BytesIO(made)) as opened:
        assert opened.testzip() is None


def test_an_archive_of_nothing() -> None:
    with zipfile.ZipFile(io.BytesIO(archive({}))) as opened:
        assert opened.namelist() == []


@pytest.mark.parametrize("count", [65_534, 65_535])
def test_more_entries_than_the_old_records_can_count(count: int) -> None:
    with zipfile.ZipFile(io.BytesIO(archive({f"{number}": b"" for number in range(count)}))) as opened:
        assert len(opened.namelist()) == count


def test_content_of_another_length_is_refused() -> None:
    writer = ZipWriter()
    writer.begin("a", 5)
    writer.feed(b"1234")
    with pytest.raises(ValueError, match="4 bytes instead of 5"):
        writer.end()


class _LargeZeros(io.RawIOBase):
    """An archive of which the content of the large file is not held."""

    def __init__(self, before: bytes, zeros: int, after: bytes) -> None:
        self._before, self._zeros, self._after = before, zeros, after
        self._position = 0
        self._size = len(before) + zeros + len(after)

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1) -> bytes:
        start = self._position
        stop = self._size if size < 0 else min(start + size, self._size)
        self._position = stop
        zeros_end = len(self._before) + self._zeros
        assert start >= zeros_end or stop <= zeros_end
        if start >= zeros_end:
            return self._after[start - zeros_end : stop - zeros_end]
        return (self._before + bytes(2**10))[start:stop]


def test_a_file_above_4_gib_and_one_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portico.operations.files.zip_format.crc32", lambda chunk, value: value)  # gigabytes of them
    writer, size = ZipWriter(), ZipSize()
    before = writer.begin("large", LARGE, MOMENT)
    for _ in range(LARGE // len(_CHUNK)):
        writer.feed(_CHUNK)
    after = writer.end() + writer.begin("behind", 3, MOMENT)
    writer.feed(b"abc")
    after += b"abc" + writer.end() + b"".join(writer.finish())
    size.add_file("large", LARGE, timed=True)
    size.add_file("behind", 3, timed=True)
    assert size.total == len(before) + LARGE + len(after)
    with zipfile.ZipFile(_LargeZeros(before, LARGE, after)) as opened:
        large, behind = opened.infolist()
        assert large.file_size == large.compress_size == LARGE
        assert behind.header_offset == len(before) + LARGE + 24
        assert behind.file_size == 3
