"""The time that a client gives a file is the file's own, wherever it shows."""

from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from portico.drive.drive import WriteOptions as Options

from ..recorded_drive import RecordedDrive
from .actions import at, pieces

MOMENT = datetime(2019, 5, 4, 3, 2, 1, 234_000, tzinfo=UTC)


async def put_dated(drive: RecordedDrive, path: str) -> None:
    await drive.write(at(path), pieces(b"dated"), "text/plain", options=Options(modified=MOMENT))


async def read_time(drive: RecordedDrive, path: str, start: int = 0, stop: int | None = None) -> datetime | None:
    download = await drive.read(at(path), start, stop)
    async with aclosing(download.chunks):
        return download.entry.modified


async def test_download_has_the_time_of_the_file(drive: RecordedDrive) -> None:
    await put_dated(drive, "a/dated")
    assert (await drive.stat(at("a/dated"))).modified == MOMENT
    assert await read_time(drive, "a/dated") == MOMENT
    assert await read_time(drive, "a/dated", 2, 4) == MOMENT
    assert await read_time(drive, "a/dated", 5, 5) == MOMENT


@pytest.mark.parametrize("how", ["copy", "move"])
@pytest.mark.parametrize("source", ["a/dated", "a"])
async def test_copy_has_the_time_of_the_file(drive: RecordedDrive, how: str, source: str) -> None:
    await put_dated(drive, "a/dated")
    await (drive.copy if how == "copy" else drive.move)(at(source), at("b"))
    path = "b/dated" if source == "a" else "b"
    assert (await drive.stat(at(path))).modified == MOMENT
    assert await read_time(drive, path) == MOMENT
