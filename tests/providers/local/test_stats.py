"""`lstat` of many names at once: in Python and in C, the same."""

import ctypes.util
import errno
import os
from collections.abc import Iterator
from pathlib import Path as Folder

import pytest

from portico.providers.local.confined_fs import entries_of
from portico.providers.local.stats import StatNames, Stats, compiled

KINDS = {"file": 0o100000, "folder": 0o040000, "link": 0o120000, "pipe": 0o010000}


@pytest.fixture
def descriptor(top: Folder) -> Iterator[int]:
    descriptor = os.open(top, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_each_kind_is_itself(stat_names: StatNames, top: Folder, descriptor: int) -> None:
    (top / "file").write_bytes(b"12345")
    (top / "folder").mkdir()
    (top / "link").symlink_to("file")
    os.mkfifo(top / "pipe")
    modes, sizes, _ = stat_names(descriptor, list(KINDS))
    assert [mode & 0o170000 for mode in modes] == list(KINDS.values())
    assert sizes[0] == 5
    assert modes == [os.lstat(top / name).st_mode for name in KINDS]


@pytest.mark.parametrize("name", ["a b", "line\nbreak", "Ünïcödé", "文件", "-", "'\"%s", "\udcff.txt", "x" * 255])
def test_any_name(stat_names: StatNames, top: Folder, descriptor: int, name: str) -> None:
    (top / "before").write_bytes(b"1")
    (top / name).write_bytes(b"22")
    (top / "z behind").write_bytes(b"333")
    assert stat_names(descriptor, ["before", name, "z behind"]).sizes == [1, 2, 3]


@pytest.mark.parametrize("moment", [0, 999_999, 1_000_000, -1, -1_000_001, 4_102_444_800_123_456_789])
def test_times_are_rounded_down(stat_names: StatNames, top: Folder, descriptor: int, moment: int) -> None:
    (top / "file").touch()
    os.utime(top / "file", ns=(moment, moment))
    kept = os.stat(top / "file").st_mtime_ns  # a file system may not hold all of them
    assert stat_names(descriptor, ["file"]).modified == [kept // 1_000_000]


def test_a_large_file(stat_names: StatNames, top: Folder, descriptor: int) -> None:
    with (top / "file").open("wb") as file:
        file.truncate(5 * 2**30)
    assert stat_names(descriptor, ["file"]).sizes == [5 * 2**30]


def test_a_missing_name_has_no_mode(stat_names: StatNames, top: Folder, descriptor: int) -> None:
    (top / "a").touch()
    (top / "c").touch()
    (top / "dangling").symlink_to("nowhere")
    modes = stat_names(descriptor, ["a", "b", "c", "dangling"]).modes
    assert [bool(mode) for mode in modes] == [True, False, True, True]


def test_no_names(stat_names: StatNames, descriptor: int) -> None:
    assert stat_names(descriptor, []) == Stats([], [], [])


def test_any_other_error_names_its_file(stat_names: StatNames, top: Folder, descriptor: int) -> None:
    (top / "a").touch()
    with pytest.raises(OSError, match="too long") as caught:
        stat_names(descriptor, ["a", "x" * 256, "b"])
    assert (caught.value.errno, caught.value.filename) == (errno.ENAMETOOLONG, "x" * 256)


def test_no_folder(stat_names: StatNames, top: Folder) -> None:
    (top / "file").touch()
    descriptor = os.open(top / "file", os.O_RDONLY)
    try:
        with pytest.raises(NotADirectoryError):
            stat_names(descriptor, ["a"])
    finally:
        os.close(descriptor)


@pytest.mark.usefixtures("stat_names")
def test_a_page_has_only_what_is_asked_for(top: Folder, descriptor: int) -> None:
    (top / "file.txt").write_bytes(b"12")
    (top / "folder").mkdir()
    (top / "link").symlink_to("file.txt")
    names = ["file.txt", "folder", "gone", "link"]
    (file,) = entries_of(descriptor, names, folders=False)
    assert (file.name, file.size, file.content_type) == ("file.txt", 2, "text/plain")
    (folder,) = entries_of(descriptor, names, folders=True)
    assert (folder.name, folder.is_folder, folder.size) == ("folder", True, None)


@pytest.mark.parametrize("library", ["none.so", "text.so", ctypes.util.find_library("c")])
def test_without_a_library(top: Folder, library: str) -> None:
    """None, no library, and one that does not have the function."""
    (top / "text.so").write_text("no library")
    assert compiled(Folder(library) if library.startswith("libc") else top / library) is None
