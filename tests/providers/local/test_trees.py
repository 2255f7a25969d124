"""Long operations on trees: they block nothing else, can be cancelled, and cost the same at any depth."""

import asyncio
import os
import shutil
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path as Folder
from typing import Any

import pytest

from portico.model.errors import NotFound, Unavailable
from portico.providers.local import staging, trees
from portico.providers.local import trees as traversal
from portico.providers.local.confined_fs import Volume
from portico.providers.local.provider import LocalProvider
from portico.providers.local.threads import CHANGES_AT_ONCE, CancelToken

from .actions import at, content, names, put

PATIENCE = 120.0


class Copying:
    """Lets every copy of bytes wait until it may go on, or is called off."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)

    def __call__(self, stop: CancelToken, source: int, target: int) -> None:
        os.write(target, b"half")
        self.begun.release()
        try:
            while not self.go.wait(0.001):
                stop.check()
        finally:
            self.ended.release()


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch) -> Iterator[Copying]:
    copying = Copying()
    monkeypatch.setattr(trees, "_copy_bytes", copying)
    yield copying
    copying.go.set()


async def reached(semaphore: threading.Semaphore, times: int = 1) -> None:
    for _ in range(times):
        assert await asyncio.to_thread(semaphore.acquire, timeout=PATIENCE)


async def test_slow_copies_do_not_hold_up_small_changes(provider: LocalProvider, copying: Copying) -> None:
    for path in ("tree/a", "file", "other", "full/a"):
        await put(provider, path, b"x")
    copies = [asyncio.create_task(provider.copy(at("tree"), at(f"copy-{n}"))) for n in range(8)]
    await reached(copying.begun, 4)
    async with asyncio.timeout(PATIENCE):
        await provider.move(at("file"), at("renamed"))
        await provider.move(at("full"), at("moved"))
        await provider.make_folder(at("new/folder"))
        await provider.delete(at("other"), recursive=True)
        await provider.delete(at("new/folder"))
        await provider.delete(at("moved"), recursive=True)
        await provider.sweep()
    assert not any(copy.done() for copy in copies)
    copying.go.set()
    await asyncio.gather(*copies)


async def test_slow_copies_do_not_hold_up_the_copy_of_a_file(provider: LocalProvider, copying: Copying) -> None:
    for path in ("tree/a", "file"):
        await put(provider, path, b"x")
    copies = [asyncio.create_task(provider.copy(at("tree"), at(f"copy-{n}"))) for n in range(8)]
    await reached(copying.begun, 4)
    copies.append(asyncio.create_task(provider.copy(at("file"), at("copied"))))
    await reached(copying.begun)
    copying.go.set()
    await asyncio.gather(*copies)


async def test_a_copy_that_is_called_off_ends_and_leaves_nothing_half(
    provider: LocalProvider, copying: Copying, leftovers: Callable[[], list[str]]
) -> None:
    await put(provider, "tree/a", b"x")
    copies = [asyncio.create_task(provider.copy(at("tree"), at(f"copy-{n}"))) for n in range(6)]
    await reached(copying.begun, 4)
    for copy in copies:  # those that wait for a thread, too
        copy.cancel()
    assert all(
        isinstance(error, asyncio.CancelledError) for error in await asyncio.gather(*copies, return_exceptions=True)
    )
    await reached(copying.ended, 4)
    assert not leftovers()
    assert await names(provider, "copy-0") == []
    assert await content(provider, "tree/a") == b"x"


async def test_closing_ends_what_takes_long(top: Folder, copying: Copying) -> None:
    provider = LocalProvider(str(top))
    await put(provider, "tree/a", b"x")
    copy = asyncio.create_task(provider.copy(at("tree"), at("copy")))
    await reached(copying.begun)
    await provider.close()
    with pytest.raises(Unavailable):
        await copy
    assert copying.ended.acquire(blocking=False)


async def test_a_deletion_that_is_called_off_is_out_of_sight_and_goes_with_the_sweep(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch, leftovers: Callable[[], list[str]]
) -> None:
    for number in range(20):
        await put(provider, f"tree/{number}", b"x")
    begun, go = threading.Event(), threading.Event()
    unlink = staging._unlink_or_hoist

    def slow(*arguments: Any) -> list[str]:
        begun.set()
        go.wait(PATIENCE)
        return unlink(*arguments)

    monkeypatch.setattr(staging, "_unlink_or_hoist", slow)
    deletion = asyncio.create_task(provider.delete(at("tree"), recursive=True))
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    deletion.cancel()
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await deletion
    assert await names(provider) == []
    assert leftovers()
    assert await provider.sweep() == 1
    assert not leftovers()


CHANGES: dict[str, tuple[Callable[[LocalProvider], Awaitable[object]], list[str]]] = {
    "move": (lambda provider: provider.move(at("tree"), at("moved")), ["moved"]),
    "delete": (lambda provider: provider.delete(at("tree"), recursive=True), []),
    "make": (lambda provider: provider.make_folder(at("made")), ["made", "tree"]),
}


@pytest.fixture
def held_sync(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Set when a folder is about to be synced, and what lets it go on."""
    begun, go = threading.Event(), threading.Event()
    sync = os.fsync

    def slow(descriptor: int) -> None:
        begun.set()
        go.wait(PATIENCE)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    yield begun, go
    go.set()


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_that_has_begun_is_reported_as_done_although_it_was_called_off(
    provider: LocalProvider, top: Folder, held_sync: tuple[threading.Event, threading.Event], change: str
) -> None:
    (top / "tree").mkdir()
    (top / "tree/a").write_bytes(b"x")
    begun, go = held_sync
    work, expected = CHANGES[change]
    task = asyncio.ensure_future(work(provider))
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    task.cancel()
    await asyncio.sleep(0)
    go.set()
    await task
    assert await names(provider) == expected


async def test_a_change_that_waits_for_its_turn_is_not_made_when_it_is_called_off(
    provider: LocalProvider, top: Folder, held_sync: tuple[threading.Event, threading.Event]
) -> None:
    (top / "tree").mkdir()
    begun, go = held_sync
    others = [asyncio.ensure_future(provider.make_folder(at(f"other-{n}"))) for n in range(CHANGES_AT_ONCE)]
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    task = asyncio.ensure_future(provider.move(at("tree"), at("moved")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    await asyncio.gather(*others)
    assert "tree" in await names(provider)


async def test_a_merge_that_was_called_off_before_it_began_moves_nothing(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("from", "to"):
        (top / name).mkdir()
        (top / name / f"in-{name}").write_bytes(b"x")
    begun, go = threading.Event(), threading.Event()
    rename = trees._rename_folder

    def slow(*arguments: Any) -> bool:
        begun.set()
        go.wait(PATIENCE)
        return rename(*arguments)

    monkeypatch.setattr(trees, "_rename_folder", slow)
    task = asyncio.ensure_future(provider.move(at("from"), at("to")))
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    task.cancel()
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await names(provider, "from") == ["in-from"]


def _opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    opened: list[str] = []
    genuine = os.open

    def counted(path: Any, *arguments: Any, **options: Any) -> int:
        opened.append(str(path))
        return genuine(path, *arguments, **options)

    monkeypatch.setattr(os, "open", counted)
    return opened


@pytest.mark.parametrize("how", ["copy", "merge"])
async def test_the_cost_of_a_tree_is_linear_in_its_depth(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    costs = []
    for depth in (40, 80):
        way = "/".join("d" * depth)
        for level in range(0, depth * 2, 4):
            await put(provider, f"from-{depth}/{way[:level]}file", b"x")
        if how == "merge":
            await put(provider, f"to-{depth}/{way}/other", b"x")
        with monkeypatch.context() as patch:
            opened = _opened(patch)
            transfer = provider.copy if how == "copy" else provider.move
            await transfer(at(f"from-{depth}"), at(f"to-{depth}"))
            costs.append(len(opened))
        assert await content(provider, f"to-{depth}/d/d/file") == b"x"
    assert costs[1] < 2.5 * costs[0]


async def test_a_folder_that_is_moved_away_meanwhile_leads_nowhere_else(
    provider: LocalProvider, top: Folder, outside: Folder
) -> None:
    await put(provider, "from/a/file", b"x")
    with traversal.Traversal(Volume(str(top)), at("from")) as descent:
        descent.down("a")
        (top / "from/a").rename(outside / "a")
        with pytest.raises(NotFound):
            descent.up()


@pytest.mark.parametrize("how", ["copy", "merge"])
async def test_target_that_is_removed_meanwhile_is_an_error(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Files that are still at the source were not copied or moved, so this is no success."""
    await put(provider, "from/a", b"1")
    await put(provider, "to/other", b"2")
    work = getattr(trees, "commit_staged" if how == "copy" else "move_into")

    def remove_target(*arguments: Any, **options: Any) -> None:
        shutil.rmtree(top / "to", ignore_errors=True)
        work(*arguments, **options)

    monkeypatch.setattr(trees, "commit_staged" if how == "copy" else "move_into", remove_target)
    with pytest.raises(NotFound):
        await (provider.copy if how == "copy" else provider.move)(at("from"), at("to"))
    assert await content(provider, "from/a") == b"1"
