"""A page is cached for a second, and never hides a change made through the gateway."""

import os
import time
from pathlib import Path as Folder

import pytest

from portico.model.entries import Entry
from portico.providers.local import listing, snapshots, stats
from portico.providers.local.provider import LocalProvider
from portico.providers.local.stats import Stats

from .actions import at, names, put


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files whose `stat` was read."""
    genuine = stats.stat_names
    made: list[str] = []

    def counted(descriptor: int, names: list[str]) -> Stats:
        made.extend(names)
        return genuine(descriptor, names)

    monkeypatch.setattr(stats, "stat_names", counted)
    return made


def age(folder: Folder, seconds: float = 3600) -> None:
    """Set all times back."""
    moment = time.time() - seconds
    for place in (*folder.rglob("*"), folder):
        os.utime(place, (moment, moment))


@pytest.fixture
def files(top: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A folder of three files that were not changed for long."""
    folder = top / "f"
    folder.mkdir()
    for name in "abc":
        (folder / name).write_text("old")
    age(folder)
    genuine, stamps = time.time_ns, snapshots.now_ns
    monkeypatch.setattr(time, "time_ns", lambda: genuine() + 60 * 10**9)
    monkeypatch.setattr(snapshots, "now_ns", lambda: stamps() + 60 * 10**9)
    return folder


async def entries(provider: LocalProvider) -> list[Entry]:
    return (await provider.list_page(at("f"), 100, None)).entries


@pytest.mark.usefixtures("files")
async def test_an_unchanged_page_is_cached(provider: LocalProvider, looks: list[str]) -> None:
    first = await entries(provider)
    assert len(looks) == 3
    assert await entries(provider) == first
    assert len(looks) == 3


@pytest.mark.usefixtures("files")
async def test_the_cache_expires(provider: LocalProvider, looks: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    await entries(provider)
    genuine = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: genuine() + listing.CACHE_SECONDS)
    await entries(provider)
    assert len(looks) == 6


async def test_another_page_is_another_page(provider: LocalProvider, files: Folder) -> None:
    assert await names(provider, "f", 1) == ["a", "b", "c"]
    assert await names(provider, "f", 2) == ["a", "b", "c"]
    assert await names(provider, "f", 1) == ["a", "b", "c"]


async def test_only_first_pages_are_cached(provider: LocalProvider, files: Folder, looks: list[str]) -> None:
    for _ in range(2):
        assert await names(provider, "f", 1) == ["a", "b", "c"]
    assert looks == ["a", "b", "c", "b", "c"]


async def test_changes_through_the_gateway_are_seen_at_once(provider: LocalProvider, files: Folder) -> None:
    await entries(provider)
    await put(provider, "f/b", b"new content")
    assert [(entry.name, entry.size) for entry in await entries(provider)] == [("a", 3), ("b", 11), ("c", 3)]
    age(files)  # or its stamp could be that of the next change: some disks have a coarse clock
    await entries(provider)
    await provider.delete(at("f/a"))
    assert [entry.name for entry in await entries(provider)] == ["b", "c"]


async def test_a_page_with_a_recently_written_file_is_not_cached(
    provider: LocalProvider, files: Folder, looks: list[str]
) -> None:
    moment = time.time_ns() - listing.UNCHANGED_MS * 10**6 // 2
    os.utime(files / "b", ns=(moment, moment))
    await entries(provider)
    await entries(provider)
    assert len(looks) == 6


async def test_a_page_with_a_folder_is_not_cached(provider: LocalProvider, files: Folder, looks: list[str]) -> None:
    (files / "below").mkdir()
    age(files)
    looks.clear()
    await entries(provider)
    await entries(provider)
    assert len(looks) == 8


async def test_a_caller_may_change_its_page(provider: LocalProvider, files: Folder) -> None:
    page = await provider.list_page(at("f"), 100, None)
    page.entries.clear()
    assert len(await entries(provider)) == 3
