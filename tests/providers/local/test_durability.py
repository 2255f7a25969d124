"""What was answered is on the disk: the content before the name, and the name before the answer."""

import os
from collections.abc import Sequence
from pathlib import Path as Folder

import pytest

from portico.model.errors import ProviderFailed
from portico.providers.local.provider import LocalProvider

from .actions import at, content, put

Event = tuple[str, str]


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """What was made durable and what was named, in order, by the last part of its path."""
    events: list[Event] = []
    fsync, rename, link, mkdir, unlink, rmdir = os.fsync, os.rename, os.link, os.mkdir, os.unlink, os.rmdir

    def place_of(descriptor: int | None) -> str:
        return os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))

    def traced_fsync(descriptor: int) -> None:
        events.append(("fsync", place_of(descriptor)))
        fsync(descriptor)

    def traced_rename(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        events.append(("rename", f"{source}->{target}"))
        rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def traced_link(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int, follow_symlinks: bool) -> None:
        events.append(("link", f"{source}->{target}"))
        link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks)

    def traced_mkdir(name: str, mode: int = 0o777, *, dir_fd: int) -> None:
        mkdir(name, mode, dir_fd=dir_fd)
        events.append(("mkdir", name))

    def traced_unlink(name: str, *, dir_fd: int) -> None:
        events.append(("unlink", name))
        unlink(name, dir_fd=dir_fd)

    def traced_rmdir(name: str, *, dir_fd: int) -> None:
        events.append(("rmdir", name))
        rmdir(name, dir_fd=dir_fd)

    for traced in (traced_fsync, traced_rename, traced_link, traced_mkdir, traced_unlink, traced_rmdir):
        monkeypatch.setattr(os, traced.__name__.removeprefix("traced_"), traced)
    return events


@pytest.mark.parametrize("chunks", [(b"x" * 2**20, b"y"), (b"x", b"y"), ()])
@pytest.mark.parametrize(("replaced", "naming"), [(True, "rename"), (False, "link")])
async def test_content_then_name_then_answer(
    provider: LocalProvider, trace: list[Event], replaced: bool, naming: str, chunks: Sequence[bytes]
) -> None:
    await put(provider, "folder/file" if replaced else "folder/first", b"x")
    trace.clear()
    await put(provider, "folder/file", *chunks)
    named = next(index for index, (what, _) in enumerate(trace) if what == naming)
    staged, _, target = trace[named][1].partition("->")
    assert target == "file"
    assert ("fsync", staged) in trace[:named]
    assert ("fsync", "folder") in trace[named:]


async def test_new_folders_are_durable_from_the_top(provider: LocalProvider, top: Folder, trace: list[Event]) -> None:
    await put(provider, "a/b/file", b"x")
    assert follows(trace, ("mkdir", "a"), ("fsync", top.name))
    assert follows(trace, ("mkdir", "b"), ("fsync", "a"))
    named = next(event for event in trace if event[0] == "link")
    assert follows(trace, ("fsync", "a"), named)
    assert follows(trace, named, ("fsync", "b"))
    trace.clear()
    await provider.make_folder(at("c/d"))
    assert follows(trace, ("mkdir", "c"), ("fsync", top.name))
    assert follows(trace, ("mkdir", "d"), ("fsync", "c"))


async def test_moves_and_removals_are_durable(provider: LocalProvider, trace: list[Event]) -> None:
    for path in ("a/file", "b/file", "c/deeper/file"):
        await put(provider, path, b"x")
    trace.clear()
    await provider.move(at("a/file"), at("b/moved"))
    assert follows(trace, ("rename", "file->moved"), ("fsync", "b"))
    assert follows(trace, ("rename", "file->moved"), ("fsync", "a"))
    await provider.delete(at("b/moved"))
    assert follows(trace, ("unlink", "moved"), ("fsync", "b"))
    await provider.make_folder(at("b/empty"))
    trace.clear()
    await provider.delete(at("b/empty"))
    assert follows(trace, ("rmdir", "empty"), ("fsync", "b"))
    trace.clear()
    await provider.delete(at("c/deeper"), recursive=True)
    hidden = next(event for event in trace if event[0] == "rename")
    assert follows(trace, hidden, ("fsync", "c"))


async def test_a_copy_is_as_durable_as_a_write(provider: LocalProvider, trace: list[Event]) -> None:
    await put(provider, "a/file", b"x" * 100)
    trace.clear()
    await provider.copy(at("a"), at("b"))
    named = next(event for event in trace if event[1].endswith("->file"))
    assert follows(trace, ("fsync", named[1].partition("->")[0]), named)
    assert follows(trace, named, ("fsync", "b"))


async def test_a_sync_that_fails_keeps_the_old_file(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(provider, "file", b"old")

    def failing(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(ProviderFailed):
            await put(provider, "file", b"new")
    assert await content(provider, "file") == b"old"
    assert list(top.glob(".portico~staging/*")) == []


def follows(events: Sequence[Event], first: Event, second: Event) -> bool:
    return first in events and second in events[events.index(first) + 1 :]
