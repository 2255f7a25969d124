"""A file that is replaced is kept: the place for it is asked for when a commit finds the file."""

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path as Folder
from typing import Any

import pytest

from portico.model.errors import ProviderUnavailable
from portico.model.paths import Path
from portico.providers.contract.uploads import KeptFile, ResumableUpload, WriteOptions
from portico.providers.local import staging, trees, uploads
from portico.providers.local.provider import LocalProvider

from .actions import at, pieces, put

PLACE = at("kept/old")
Leftovers = Callable[[], list[str]]


async def replace(provider: LocalProvider, kept: KeptFile) -> None:
    await provider.write(at("file"), pieces(b"new"), "text/plain", WriteOptions(kept=kept))


@pytest.mark.parametrize("asked_before", [0, uploads._COMMITS - 2])
async def test_a_file_that_is_replaced(provider: LocalProvider, top: Folder, asked_before: int) -> None:
    await put(provider, "file", b"old")
    asked = 0

    async def prepare() -> None:
        nonlocal asked
        asked += 1
        if asked > asked_before:
            kept.place = PLACE

    kept = KeptFile(prepare)
    await replace(provider, kept)
    assert (kept.is_kept, asked) == (True, asked_before + 1)
    assert ((top / "file").read_bytes(), (top / "kept/old").read_bytes()) == (b"new", b"old")


async def test_a_place_that_is_never_found(provider: LocalProvider, top: Folder, leftovers: Leftovers) -> None:
    """Every commit that was begun is waited for: none replaces the file after the refusal."""
    await put(provider, "file", b"old")
    asked = 0

    async def prepare() -> None:
        nonlocal asked
        asked += 1
        if asked == uploads._COMMITS:
            kept.place = PLACE

    kept = KeptFile(prepare)
    with pytest.raises(ProviderUnavailable):
        await replace(provider, kept)
    assert (asked, kept.is_kept) == (uploads._COMMITS - 1, False)
    assert (top / "file").read_bytes() == b"old"
    assert leftovers() == []


async def test_two_resumable_uploads_that_replace_one_file(provider: LocalProvider, top: Folder) -> None:
    """The second is done while the first waits for a place: the first one keeps the second's file, not the old one."""

    async def save(*, last: bool = False) -> None:
        pass

    async def begun(content: bytes) -> ResumableUpload:
        upload = await provider.begin_upload(at("file"), "text/plain")
        await upload.append(pieces(content), save)
        return upload

    await put(provider, "file", b"old")
    first, second = await begun(b"first"), await begun(b"second")

    async def prepare_second() -> None:
        kept_by_second.place = at("kept/by second")

    async def prepare_first() -> None:
        kept_by_first.place = at("kept/by first")
        await second.finish(save, kept=kept_by_second)

    kept_by_first, kept_by_second = KeptFile(prepare_first), KeptFile(prepare_second)
    await first.finish(save, kept=kept_by_first)
    assert (top / "file").read_bytes() == b"first"
    assert (top / "kept/by first").read_bytes() == b"second"
    assert (top / "kept/by second").read_bytes() == b"old"
    assert kept_by_first.is_kept
    assert kept_by_second.is_kept


async def test_a_file_that_vanishes_before_it_is_kept_again(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(provider, "file", b"old")
    link, commit = staging.link_replaced, staging.commit_staged
    links = commits = 0

    def vanish(*arguments: Any) -> bool:
        nonlocal links
        links += 1
        if links == 2:
            os.unlink(top / "file")
        return link(*arguments)

    def fail_once(*arguments: Any, **options: Any) -> None:
        nonlocal commits
        commits += 1
        if commits == 1:
            raise FileNotFoundError  # as if the folder was removed
        commit(*arguments, **options)

    async def prepare() -> None:
        kept.place = PLACE

    monkeypatch.setattr(uploads, "link_replaced", vanish)
    monkeypatch.setattr(uploads, "commit_staged", fail_once)
    kept = KeptFile(prepare)
    await replace(provider, kept)
    assert links == 2
    assert not kept.is_kept
    assert not (top / "kept/old").exists()
    assert (top / "file").read_bytes() == b"new"


def refuse_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system without them."""

    def link(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, "no links")

    monkeypatch.setattr(os, "link", link)


@pytest.mark.parametrize("how", ["copy", "move"])
@pytest.mark.parametrize("uploaded_meanwhile", [False, True])
async def test_transfer_keeps_the_replaced_file_where_links_are_refused(
    provider: LocalProvider,
    top: Folder,
    leftovers: Leftovers,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    uploaded_meanwhile: bool,
) -> None:
    await put(provider, "file", b"old")
    await put(provider, "source", b"new")
    refuse_links(monkeypatch)
    copy = provider.copy
    copies = 0

    async def and_upload(source: Path, target: Path, **options: Any) -> None:
        nonlocal copies
        await copy(source, target, **options)
        if target == PLACE:
            copies += 1
            if uploaded_meanwhile and copies == 1:
                await put(provider, "file", b"newer")

    async def prepare() -> None:
        kept.place = PLACE

    kept = KeptFile(prepare, may_copy=True)
    transfer = getattr(provider, how)
    monkeypatch.setattr(provider, "copy", and_upload)
    await transfer(at("source"), at("file"), kept=kept)
    assert kept.is_kept
    assert (top / "file").read_bytes() == b"new"
    assert (top / "kept/old").read_bytes() == (b"newer" if uploaded_meanwhile else b"old")
    assert copies == 1 + uploaded_meanwhile
    assert leftovers() == []


async def test_transfer_is_refused_if_its_target_is_replaced_again_and_again(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(provider, "file", b"0")
    await put(provider, "source", b"new")
    refuse_links(monkeypatch)
    copy = provider.copy
    copies = 0

    async def and_upload(source: Path, target: Path, **options: Any) -> None:
        nonlocal copies
        await copy(source, target, **options)
        copies += 1
        await put(provider, "file", b"%d" % copies)

    async def prepare() -> None:
        kept.place = PLACE

    kept = KeptFile(prepare, may_copy=True)
    monkeypatch.setattr(provider, "copy", and_upload)
    with pytest.raises(ProviderUnavailable):
        await provider.move(at("source"), at("file"), kept=kept)
    assert (top / "file").read_bytes() == b"%d" % copies
    assert (top / "source").read_bytes() == b"new"


async def test_move_that_is_cancelled_before_it_has_a_place_is_not_done(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(provider, "file", b"old")
    await put(provider, "source", b"new")
    rename, running, go_on = trees.rename, threading.Event(), threading.Event()

    def waits(*arguments: Any) -> bool:
        running.set()
        assert go_on.wait(60)
        return rename(*arguments)

    async def prepare() -> None:
        kept.place = PLACE

    kept = KeptFile(prepare)
    monkeypatch.setattr(trees, "rename", waits)
    move = asyncio.create_task(provider.move(at("source"), at("file"), kept=kept))
    await asyncio.to_thread(running.wait, 60)
    move.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await move
    assert kept.place is None
    assert (top / "file").read_bytes() == b"old"
    assert (top / "source").read_bytes() == b"new"


@pytest.mark.parametrize("how", ["write", "move"])
@pytest.mark.parametrize("always", [False, True])
async def test_trash_folder_that_vanishes_is_made_again(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch, how: str, always: bool
) -> None:
    """Or nothing is replaced."""
    await put(provider, "file", b"old")
    await put(provider, "source", b"new")
    link, links = staging.link_replaced, 0

    def vanish(*arguments: Any) -> bool:
        nonlocal links
        links += 1
        if always or links == 1:
            (top / "kept").rmdir()
        return link(*arguments)

    async def prepare() -> None:
        kept.place = PLACE

    monkeypatch.setattr(uploads, "link_replaced", vanish)
    kept = KeptFile(prepare)

    async def change() -> None:
        if how == "write":
            await replace(provider, kept)
        else:
            await provider.move(at("source"), at("file"), kept=kept)

    if always:
        with pytest.raises(ProviderUnavailable):
            await change()
        assert (top / "file").read_bytes() == b"old"
        return
    await change()
    assert kept.is_kept
    assert (top / "file").read_bytes() == b"new"
    assert (top / "kept/old").read_bytes() == b"old"
