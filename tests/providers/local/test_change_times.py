"""The times of a folder are trusted as soon as the file system lets them be."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path as Folder

import pytest

from portico.providers.local import snapshots
from portico.providers.local.provider import LocalProvider
from portico.providers.local.snapshots import ChangeTimes, file_system_of

from .actions import names

CHANGED = 1_700_000_000_123_456_789
MILLISECOND = 10**6
SECOND = 10**9


@pytest.fixture
def descriptor(top: Folder) -> Iterator[int]:
    descriptor = os.open(top, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def tick(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(time, "clock_getres", lambda clock: 0.004)
    return 4 * MILLISECOND


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    kind = str(request.param)
    monkeypatch.setattr(snapshots, "file_system_of", lambda descriptor: kind)
    return kind


FINE = pytest.mark.parametrize("kind", ["btrfs", "ext4", "overlay", "tmpfs", "xfs", "zfs"], indirect=True)
COARSE = pytest.mark.parametrize(
    "kind", ["", "ext3", "vfat", "nfs4", "cifs", "9p", "fuse", "fuse.bindfs"], indirect=True
)


def settled(descriptor: int, age: int, changed: int = CHANGED) -> bool:
    return ChangeTimes().are_settled(descriptor, 1, changed, changed + age)


@FINE
def test_fine_times_are_settled_after_some_ticks(kind: str, descriptor: int, tick: int) -> None:
    assert [settled(descriptor, age) for age in (-tick, 0, tick, 3 * tick, 3 * SECOND)] == [
        False,
        False,
        False,
        True,
        True,
    ]


@COARSE
def test_other_times_are_settled_after_two_seconds(kind: str, descriptor: int, tick: int) -> None:
    assert [settled(descriptor, age) for age in (0, 3 * tick, 2 * SECOND, 3 * SECOND)] == [
        False,
        False,
        False,
        True,
    ]


@FINE
def test_whole_seconds_are_not_fine(kind: str, descriptor: int, tick: int) -> None:
    whole = CHANGED // SECOND * SECOND
    assert not settled(descriptor, SECOND, whole)
    assert settled(descriptor, 3 * SECOND, whole)


def test_the_clock_is_never_ahead_of_a_later_change(top: Folder) -> None:
    times = ChangeTimes()
    for number in range(100):
        now = times.now()
        (top / f"{number}").touch()
        assert os.stat(top).st_ctime_ns >= now


def test_the_kind_is_what_the_system_says(descriptor: int, top: Folder) -> None:
    done = subprocess.run(["df", "--output=fstype", top], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == file_system_of(descriptor)


def test_a_file_system_that_cannot_be_found_has_none() -> None:
    assert file_system_of(10**6) == ""


def test_the_kind_of_a_device_is_looked_up_again(
    descriptor: int, tick: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = iter(["ext4", "nfs4"])
    monkeypatch.setattr(snapshots, "file_system_of", lambda descriptor: next(kinds))
    times = ChangeTimes()

    def trusted() -> bool:
        return times.are_settled(descriptor, 1, CHANGED, CHANGED + SECOND)

    assert trusted()
    assert trusted()
    genuine = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: genuine() + 60)
    assert not trusted()


@pytest.mark.parametrize("kind", ["ext4", "vfat"], indirect=True)
async def test_a_folder_that_changed_some_ticks_ago(
    provider: LocalProvider, top: Folder, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (top / "a").touch()
    genuine = ChangeTimes.now
    monkeypatch.setattr(ChangeTimes, "now", lambda times: genuine(times) + SECOND)
    scans = []
    scandir = os.scandir

    def counted(place: int) -> object:
        scans.append(place)
        return scandir(place)

    monkeypatch.setattr(os, "scandir", counted)
    assert await names(provider) == await names(provider) == ["a"]
    assert len(scans) == (1 if kind == "ext4" else 2)
