"""What is noted of unfinished uploads."""

import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest

from portico.client.transfers.upload_records import (
    UnfinishedUpload,
    UploadRecord,
    UploadRecords,
    UploadsInFolder,
    UploadsInMemory,
)

BEGUN = UnfinishedUpload("0123abc", "version", checked=True, expires=time.time() + 10**6)


def opened(records: UploadRecords, *key: str) -> UploadRecord:
    record = records.open(*key)
    assert record is not None
    return record


@pytest.fixture(params=["folder", "memory"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> UploadRecords:
    return UploadsInFolder(tmp_path / "a" / "b", "anna") if request.param == "folder" else UploadsInMemory()


def test_a_record_is_kept_until_it_is_replaced(records: UploadRecords) -> None:
    for upload in (BEGUN, replace(BEGUN, id="other", checked=False), None):
        record = opened(records, "/path", "local")
        record.save(upload)
        assert record.load() == upload
        record.close()
        record = opened(records, "/path", "local")
        assert record.load() == upload
        record.close()


def test_keys_do_not_mix(records: UploadRecords) -> None:
    record = opened(records, "/path", "local")
    record.save(BEGUN)
    record.close()
    for key in (("/path", "local2"), ("/pathl", "ocal"), ("/path",)):
        record = opened(records, *key)
        assert record.load() is None
        record.close()


def test_it_is_held_by_one_at_a_time(records: UploadRecords) -> None:
    record = opened(records, "key")
    assert records.open("key") is None
    opened(records, "other").close()
    record.close()
    opened(records, "key").close()


def test_one_that_has_expired_is_none(records: UploadRecords) -> None:
    record = opened(records, "key")
    record.save(replace(BEGUN, expires=time.time() - 1))
    assert record.load() is None
    record.close()


def test_programs_share_a_folder(tmp_path: Path) -> None:
    record = opened(UploadsInFolder(tmp_path, "anna"), "key")
    record.save(BEGUN)
    assert UploadsInFolder(tmp_path, "anna").open("key") is None
    record.close()
    record = opened(UploadsInFolder(tmp_path, "anna"), "key")
    assert record.load() == BEGUN
    record.close()
    record = opened(UploadsInFolder(tmp_path, "bob"), "key")
    assert record.load() is None
    record.close()
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "key" not in file.name + file.read_text()


def test_what_is_of_no_use_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    records = UploadsInFolder(folder, "anna")
    for number, upload in enumerate((BEGUN, replace(BEGUN, expires=time.time() - 1))):
        record = opened(records, str(number))
        record.save(upload)
        if number:
            record._file.close()  # type: ignore[union-attr]  # as if the program were killed
        else:
            record.close()
    assert len(list(folder.iterdir())) == 2
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    opened(UploadsInFolder(folder, "anna"), "2").close()
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"id": "x"}',
        '{"id": 1, "version": "v", "checked": true, "expires": 9e99}',
        '{"id": "x", "version": "v", "checked": true, "expires": "soon"}',
        "x" * 10_000,
    ],
)
def test_a_damaged_one_is_none(tmp_path: Path, text: str) -> None:
    records = UploadsInFolder(tmp_path, "anna")
    record = opened(records, "key")
    record.save(BEGUN)
    record.close()
    (file,) = tmp_path.iterdir()
    file.write_text(text)
    record = opened(records, "key")
    assert record.load() is None
    record.save(BEGUN)
    assert record.load() == BEGUN
    record.close()


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert UploadsInFolder(tmp_path / "file" / "folder", "anna").open("key") is None
