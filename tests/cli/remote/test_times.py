"""The times of files on an object store, whose listings have the time of the upload instead."""

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from ...gateways import Gateway
from ...servers.moto_s3 import KEYS, moto_buckets, moto_s3
from ..conftest import Portico
from .conftest import last_line

MOMENT = 1_556_938_922_234_000_000
"""2019-05-04T03:02:02.234Z, in nanoseconds."""


@pytest.fixture
def stored(remote: Portico, gateway: Gateway, here: Path) -> Iterator[Portico]:
    """Three files with times of their own, stored by a user of a bucket."""
    address, bucket = moto_s3(), f"bucket-{token_hex(8)}"
    name = f"user-{token_hex(4)}"
    with moto_buckets(bucket):
        options = [f"--option={key}={value}" for key, value in (("bucket", bucket), ("endpoint-url", address))]
        secrets = "".join(f"{key}={value}\n" for key, value in KEYS.items())
        gateway.command("connection", "add", name, "--kind", "s3", *options, "--secret-stdin", stdin=secrets)
        gateway.command("user", "add", name, "--connection", name, "--password-stdin", stdin="pass word")
        url = f"http://127.0.0.1:{gateway.port}"
        assert remote("login", url, "--user", name, "--password-stdin", stdin="pass word").code == 0
        for number in range(3):
            file = here / "up" / "sub" / f"{number}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(str(number))
            os.utime(file, ns=(MOMENT, MOMENT + number * 60 * 10**9))
        assert last_line(remote("sync", "up", "up", "/up")).startswith("3 uploaded")
        yield remote


def times(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in folder.rglob("*.txt")}


def test_down_sets_the_times_of_the_files(stored: Portico, here: Path) -> None:
    assert last_line(stored("sync", "down", "/up", "down")).startswith("3 downloaded")
    assert times(here / "down") == times(here / "up")
    assert last_line(stored("sync", "down", "/up", "down")).startswith("0 downloaded, 3 skipped")
    assert last_line(stored("sync", "up", "down", "/up")).startswith("0 uploaded, 3 skipped")


def test_archive_has_the_times_of_the_files(stored: Portico, here: Path) -> None:
    assert stored("get", "--zip", "/up", "all.zip").code == 0
    with zipfile.ZipFile(here / "all.zip") as archive:
        found = sorted(info.date_time for info in archive.infolist() if not info.is_dir())
    assert found == [(2019, 5, 4, 3, 2 + number, 2) for number in range(3)]
