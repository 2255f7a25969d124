"""A walk through a folder that changes: what exists throughout is listed once, and what is gone is not."""

import os
import random
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from pathlib import Path as Folder

import pytest

from portico.model.entries import Page
from portico.model.errors import InvalidCursor
from portico.providers.local import snapshots
from portico.providers.local.provider import LocalProvider
from portico.providers.local.snapshots import WALK_NS, SnapshotCache
from portico.runtime.processes import machine

from .actions import at, names, put

pytestmark = pytest.mark.usefixtures("stat_names")


@pytest.fixture
async def second(top: Folder) -> AsyncIterator[LocalProvider]:
    """The provider of another worker."""
    provider = LocalProvider(str(top))
    yield provider
    await provider.close()


@pytest.fixture
def ten(top: Folder) -> list[str]:
    """The names of ten files."""
    for number in range(10):
        (top / f"{number}").touch()
    return [f"{number}" for number in range(10)]


async def page(provider: LocalProvider, token: str | None = None, size: int = 3) -> Page:
    return await provider.list_page(at("/"), size, token)


def listed(*pages: Page) -> list[str]:
    return [entry.name for page in pages for entry in page.entries]


async def rest(provider: LocalProvider, token: str | None) -> list[str]:
    found: list[str] = []
    while token is not None:
        following = await page(provider, token)
        found += listed(following)
        token = following.token
    return found


async def test_a_walk_goes_on_with_the_names_that_it_began_with(
    provider: LocalProvider, top: Folder, ten: list[str], scans: list[int]
) -> None:
    first = await page(provider)
    found, token = listed(first), first.token
    while token is not None:
        (top / f"new-{len(found)}").touch()
        following = await page(provider, token)
        found += listed(following)
        token = following.token
    assert found == ten
    assert len(scans) == 1
    assert (await names(provider))[10:] == ["new-3", "new-6", "new-9"]


async def test_a_walk_shows_each_entry_as_it_is(
    provider: LocalProvider, top: Folder, ten: list[str], scans: list[int]
) -> None:
    first = await page(provider)
    (top / "4").unlink()
    await put(provider, "5", b"replaced")
    (top / "6").unlink()
    (top / "6").mkdir()
    (top / "7").rename(top / "renamed")
    (top / "1").rename(top / "8")
    following = await page(provider, first.token, 10)
    assert [(entry.name, entry.size) for entry in following.entries] == [("3", 0), ("5", 8), ("8", 0), ("9", 0)]
    assert following.token is None
    assert len(scans) == 1


async def test_a_walk_that_begins_sees_all_changes(provider: LocalProvider, top: Folder, ten: list[str]) -> None:
    for number in range(20):
        (top / f"more-{number:02}").touch()
        assert (await names(provider, "", 5))[10:] == [f"more-{count:02}" for count in range(number + 1)]


@pytest.mark.parametrize("seed", range(8))
async def test_what_exists_throughout_is_listed_once(
    provider: LocalProvider, second: LocalProvider, top: Folder, seed: int
) -> None:
    """Two workers answer in turn, while names come, go, are renamed and replaced."""
    dealer = random.Random(seed)
    present = {f"{number:03}" for number in range(100)}
    for name in present:
        (top / name).touch()
    throughout = set(present)
    found: list[str] = []
    token = None
    while True:
        following = await page(dealer.choice((provider, second)), token, dealer.randint(1, 9))
        assert set(listed(following)) <= present
        found += listed(following)
        token = following.token
        if token is None:
            break
        for _ in range(dealer.randint(0, 3)):
            name, other = dealer.choice(sorted(present)), f"{dealer.randrange(200):03}"
            match dealer.randrange(4):
                case 0:
                    (top / name).unlink()
                    present.discard(name)
                case 1:
                    (top / other).touch()
                    present.add(other)
                case 2 if other not in present:
                    (top / name).rename(top / other)
                    present.discard(name)
                    present.add(other)
                case _:
                    await put(dealer.choice((provider, second)), name, b"replaced")
            throughout &= present
        if dealer.random() < 0.3:
            await names(dealer.choice((provider, second)))
    assert len(found) == len(set(found))
    assert throughout <= set(found)
    assert set(await names(provider)) == set(await names(second)) == present


async def test_another_worker_takes_no_names_from_before_the_walk(
    provider: LocalProvider, second: LocalProvider, top: Folder, ten: list[str]
) -> None:
    await names(second)
    (top / "95").touch()
    first = await page(provider)
    (top / "96").touch()
    assert set(await rest(second, first.token)) - {"96"} == {*ten[3:], "95"}


async def test_each_worker_scans_once(
    provider: LocalProvider, second: LocalProvider, top: Folder, ten: list[str], scans: list[int]
) -> None:
    following = await page(provider, size=1)
    found = listed(following)
    for worker in (second, provider) * 9:
        if following.token is None:
            break
        (top / f"new-{len(found)}").touch()
        following = await page(worker, following.token, 1)
        found += listed(following)
    assert set(ten) <= set(found)
    assert len(scans) == 2


async def test_a_walk_through_a_folder_at_rest_needs_no_scan_after_a_change(
    provider: LocalProvider, top: Folder, ten: list[str], scans: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = snapshots.now_ns
    monkeypatch.setattr(snapshots, "now_ns", lambda: genuine() + 3600 * 10**9)
    await names(provider)
    first = await page(provider)
    (top / "new").touch()
    assert await rest(provider, first.token) == ten[3:]
    assert len(scans) == 1


async def test_a_slow_walk_reads_the_names_again(
    provider: LocalProvider, top: Folder, ten: list[str], scans: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await page(provider)
    (top / "new").touch()
    genuine = time.monotonic_ns
    monkeypatch.setattr(time, "monotonic_ns", lambda: genuine() + WALK_NS)
    assert await rest(provider, first.token) == [*ten[3:], "new"]
    assert len(scans) == 2


async def test_a_walk_that_began_on_another_machine(
    provider: LocalProvider,
    second: LocalProvider,
    top: Folder,
    ten: list[str],
    scans: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await names(second)
    first = await page(provider)
    monkeypatch.setattr("portico.providers.local.listing.machine", lambda: "0" * 16)
    (top / "95").touch()
    following = await page(second, first.token)
    assert len(scans) == 3
    (top / "96").touch()
    assert listed(following) + await rest(second, following.token) == [*ten[3:], "95"]
    assert len(scans) == 3


def token(text: str) -> str:
    return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


async def test_a_token_of_an_earlier_version_is_a_position(provider: LocalProvider, ten: list[str]) -> None:
    assert listed(await page(provider, token("f6"))) == ["7", "8", "9"]


async def test_where_the_system_does_not_name_the_machine_a_token_is_a_position(
    provider: LocalProvider, ten: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.providers.local.listing.machine", lambda: "")
    assert (await page(provider)).token == token("f2")
    assert await names(provider, "", 3) == ten


@pytest.mark.parametrize(
    "text", ["", "x6", "f/6", "fa/b/6", "f0-/6", f"f{machine()}/6", f"f{machine()}-x/6", "fa-0/b/6"]
)
async def test_a_token_that_makes_no_sense(provider: LocalProvider, ten: list[str], text: str) -> None:
    with pytest.raises(InvalidCursor):
        await page(provider, token(text))


async def test_a_cached_page_does_not_show_what_is_gone(
    provider: LocalProvider, top: Folder, ten: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (*top.iterdir(), top):
        os.utime(place, (1, 1))
    genuine = snapshots.now_ns
    monkeypatch.setattr(snapshots, "now_ns", lambda: genuine() + 3600 * 10**9)
    first = await page(provider)
    assert listed(await page(provider, first.token)) == ["3", "4", "5"]
    (top / "4").unlink()
    assert "4" not in listed(await page(provider, first.token))


def test_walks_stay_within_the_budget(top: Folder) -> None:
    (top / "1").mkdir()
    (top / "2").mkdir()
    descriptors = [os.open(top / name, os.O_RDONLY) for name in "12"]
    snapshots = SnapshotCache(1000, budget=1)
    began = time.monotonic_ns()
    for descriptor in descriptors:
        snapshots.take(descriptor)
    later = time.monotonic_ns()
    assert [bool(snapshots.get(descriptor, later, began)) for descriptor in descriptors] == [False, True]
    for descriptor in descriptors:
        os.close(descriptor)
