"""A folder is read once while it does not change, in order, and never shown as it no longer is."""

import os
import random
import threading
import time
from pathlib import Path as Folder

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portico.providers.local import snapshots
from portico.providers.local.provider import LocalProvider
from portico.providers.local.snapshots import FolderSnapshot, Names, SnapshotCache

from .actions import at, names, put


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the stamps is an hour further, so that every folder has been at rest."""
    genuine = snapshots.now_ns
    monkeypatch.setattr(snapshots, "now_ns", lambda: genuine() + 3600 * 10**9)


@pytest.mark.usefixtures("settled")
async def test_a_folder_at_rest_is_read_once(provider: LocalProvider, top: Folder, scans: list[int]) -> None:
    for number in range(10):
        (top / f"{number}").touch()
    for size in (1, 3, 1000):
        assert await names(provider, "", size) == [f"{number}" for number in range(10)]
    assert len(scans) == 1


@pytest.mark.usefixtures("settled")
async def test_a_changed_folder_is_read_again(provider: LocalProvider, top: Folder, scans: list[int]) -> None:
    (top / "a").touch()
    assert await names(provider) == ["a"]
    (top / "b").touch()
    assert await names(provider) == ["a", "b"]
    (top / "a").unlink()
    os.utime(top, ns=(0, 0))  # the stamp is another one, however coarse the clock of the disk
    assert await names(provider) == ["b"]
    assert len(scans) == 3


async def test_a_folder_that_just_changed_is_not_trusted(
    provider: LocalProvider, top: Folder, scans: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.time_ns()
    # On a busy machine, it would come to rest meanwhile.
    monkeypatch.setattr(snapshots, "now_ns", lambda: began)
    (top / "a").touch()
    assert await names(provider) == ["a"]
    state = os.stat(top)
    (top / "b").touch()
    os.utime(top, ns=(state.st_atime_ns, state.st_mtime_ns))  # as if the clock of the disk were that coarse
    assert await names(provider) == ["a", "b"]
    assert await names(provider) == ["a", "b"]
    assert len(scans) == 3


async def test_every_own_change_is_seen_at_once(provider: LocalProvider) -> None:
    expected: set[str] = set()
    for number in range(30):
        await put(provider, f"f/{number}")
        expected.add(f"{number}")
        if number % 3 == 0:
            await provider.delete(at(f"f/{number}"))
            expected.discard(f"{number}")
        assert set(await names(provider, "f", 7)) == expected


@pytest.mark.usefixtures("settled")
async def test_a_file_that_grew_is_shown_with_its_new_size(
    provider: LocalProvider, top: Folder, scans: list[int]
) -> None:
    (top / "a").write_bytes(b"1")
    os.utime(top / "a", ns=(time.time_ns(), time.time_ns()))
    assert (await provider.list_page(at("/"), 10, None)).entries[0].size == 1
    (top / "a").write_bytes(b"12345")
    assert (await provider.list_page(at("/"), 10, None)).entries[0].size == 5
    assert len(scans) == 1


async def test_what_changed_its_kind_meanwhile_is_not_shown_out_of_place(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (top / name).touch()
    genuine = SnapshotCache.take

    def overtaken(snapshots: SnapshotCache, descriptor: int, *, small_only: bool = False) -> FolderSnapshot:
        snapshot = genuine(snapshots, descriptor, small_only=small_only)
        (top / "b").unlink()
        (top / "b").mkdir()
        return snapshot

    monkeypatch.setattr(SnapshotCache, "take", overtaken)
    assert await names(provider) == ["a"]
    monkeypatch.undo()
    assert await names(provider) == ["b", "a"]


@pytest.mark.usefixtures("settled")
async def test_a_new_folder_of_the_old_name_is_another_folder(provider: LocalProvider, top: Folder) -> None:
    for name in "abc":
        await put(provider, f"f/{name}")
        assert await names(provider, "f") == [name]
        await provider.delete(at("f"), recursive=True)


@pytest.mark.usefixtures("settled")
def test_the_budget_lets_the_least_used_go(top: Folder, scans: list[int]) -> None:
    def descriptor_of(name: str) -> int:
        (top / name).mkdir()
        for number in range(100):
            (top / name / f"{number}").touch()
        return os.open(top / name, os.O_RDONLY)

    first, second, third = map(descriptor_of, ("1", "2", "3"))
    one = SnapshotCache(1000).take(first).cost
    kept = SnapshotCache(1000, budget=2 * one)
    for descriptor in (first, second):
        kept.take(descriptor)
    now = time.monotonic_ns()
    assert kept.get(first, now)
    kept.take(third)
    assert [bool(kept.get(descriptor, now)) for descriptor in (first, second, third)] == [True, False, True]
    tight = SnapshotCache(1000, budget=1)
    for descriptor in (first, second):
        tight.take(descriptor)
    assert [bool(tight.get(descriptor, now)) for descriptor in (first, second)] == [False, True]
    for descriptor in (first, second, third):
        os.close(descriptor)


async def test_a_large_folder_is_in_order_across_buckets(provider: LocalProvider, top: Folder) -> None:
    dealer = random.Random(1)
    alphabet = "abAB-._ é😀"
    expected = {"".join(dealer.choices(alphabet, k=dealer.randint(1, 12))) + f"{n}" for n in range(20_000)}
    for number, name in enumerate(expected):
        if number % 4:
            (top / name).touch()
        else:
            (top / name).mkdir()
    folders = sorted(name for number, name in enumerate(expected) if not number % 4)
    files = sorted(name for number, name in enumerate(expected) if number % 4)
    assert await names(provider, "", 5000) == folders + files
    assert await names(provider, "", 997) == folders + files


@settings(max_examples=10)
@given(st.integers(0, 2**32), st.sampled_from([0, 1, 8192, 8193, 20_000]), st.integers(1, 40))
def test_names_come_in_order_from_any_position(seed: int, count: int, spread: int) -> None:
    dealer = random.Random(seed)
    given_names = {f"{dealer.randrange(10**spread)}" for _ in range(count)}
    ordered = sorted(given_names)
    shuffled = list(given_names)
    names = Names(max_page_size=1000)
    while shuffled:
        size = dealer.randint(1, 5000)
        names.add(shuffled[:size])
        del shuffled[:size]
    for position in [None, None, "", "5", "~", None, *dealer.sample(ordered, min(5, len(ordered)))]:
        expected = ordered if position is None else [name for name in ordered if name > position]
        for most in (1, 1000, 1001, 30_000):
            assert names.after(position, most) == (expected[:most], len(expected) > most)


UNLISTED = {
    "undecodable": b"a\xff",
    "newline": b"a\nb",
    "escape": b"\x1b[31m",
    "delete": b"a\x7f",
    "c1-control": "a\x85".encode(),
    "backslash": b"a\\b",
    "reserved": b".portico~other",
    "reserved-in-another-case": b".Portico~other",
}


@pytest.mark.parametrize("name", UNLISTED.values(), ids=UNLISTED)
async def test_names_that_cannot_be_expressed_are_left_out(provider: LocalProvider, top: Folder, name: bytes) -> None:
    place = os.fsencode(top) + b"/" + name
    os.close(os.open(place, os.O_CREAT | os.O_WRONLY))
    os.mkdir(place + b"2")
    await put(provider, "a", b"x")
    await put(provider, "z", b"x")
    assert await names(provider, "", 1) == ["a", "z"]
    await provider.make_folder(at("f"))
    os.rename(place, os.fsencode(top) + b"/f/" + name)
    await provider.copy(at("f"), at("copy"))
    assert list((top / "copy").iterdir()) == []
    await provider.delete(at("f"), recursive=True)
    assert not (top / "f").exists()


def test_a_name_that_was_returned_twice_is_listed_once() -> None:
    for rest in ([], [f"{number}" for number in range(20_000)]):
        names = Names(max_page_size=10)
        names.add(["a", "b", "a", *rest])
        names.add(["b", "c"])
        letters = [name for name in names.after(None, 30_000)[0] if name.isalpha()]
        assert letters == ["a", "b", "c"]


def test_a_small_folder_that_changes_while_it_is_read_is_read_again(
    top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (top / "a").touch()
    genuine = os.scandir
    scans = 0

    def disturbed(place: int) -> object:
        nonlocal scans
        scans += 1
        if scans == 1:
            (top / "b").touch()
            (top / "a").rename(top / "c")
            os.utime(top, (1, 1))  # the disk's clock may be too coarse to show the change
        return genuine(place)

    monkeypatch.setattr(os, "scandir", disturbed)
    descriptor = os.open(top, os.O_RDONLY)
    snapshot = FolderSnapshot(descriptor, 1000)
    os.close(descriptor)
    assert snapshot.files.after(None, 10) == (["b", "c"], False)
    assert scans == 2


async def test_a_large_folder_is_scanned_by_the_threads_for_scans(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned_by: list[str] = []
    genuine = os.scandir

    def noted(place: int) -> object:
        scanned_by.append(threading.current_thread().name.rpartition("-")[0])
        return genuine(place)

    monkeypatch.setattr(os, "scandir", noted)
    (top / "small").mkdir()
    (top / "large").mkdir()
    for number in range(5000):
        (top / "large" / f"{number}").touch()
    (top / "small" / "a").touch()
    assert await names(provider, "small") == ["a"]
    assert scanned_by == ["local-metadata"]
    for expected in (["local-metadata", "local-scans"], ["local-scans"]):
        scanned_by.clear()
        await provider.list_page(at("large"), 1, None)
        assert scanned_by == expected
        (top / "large" / "new").touch()
